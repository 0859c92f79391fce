"""Whether a device's arithmetic is what dmlvk's shaders rely on, found by trying when the device is opened.

Vulkan promises correctly rounded sums, differences and products of normal numbers, and compilers have to leave
``precise`` ones alone. Drivers have not kept that: Metal's fast math, which MoltenVK takes by default, rearranges sums,
contracts products and takes NaN for absent. Wrong results would follow without a word.

What is found is kept in the user's cache, by device, driver and dmlvk's trial: later openings read it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dmlvk.errors import ArithmeticWarning, OutOfMemoryError
from dmlvk.kernels.trials import OPERANDS, RESULTS, arithmetic_step
from dmlvk.objects.recording import run_on_arrays
from dmlvk.support.caches import cache_directory, keep_contents, kept_contents

if TYPE_CHECKING:
    from dmlvk.kernels.program import KernelStep, Region
    from dmlvk.runtime.kompute import Engine
    from dmlvk.runtime.vulkan import DeviceInfo

Bits = npt.NDArray[np.uint32]

_TRIAL = "arithmetic 1"  # Counts up when something else is tried

_NAMES = (
    "a + b", "a - b", "a * b", "a * b + c", "c - a * b", "the rounding error of a + b", "fma of an exact product",
    "a - a", "(a + b) - b", "a * c + b * c", "a * b + c in vectors", "(a * b) * c",
)  # fmt: skip
"""What each result is."""

_KINDS = {
    "a * b + c": "contraction", "c - a * b": "contraction", "a * b + c in vectors": "contraction",
    "the rounding error of a + b": "rearrangement", "(a + b) - b": "rearrangement", "a * c + b * c": "rearrangement",
    "(a * b) * c": "rearrangement",
}  # fmt: skip
"""What is at fault where ordinary numbers give another result; of the others it is their rounding."""

_SMALLEST_NORMAL = 2.0**-126
_SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 3.0, np.inf, -np.inf, np.nan, 2.0**-126, -(2.0**-126), 2.0**-63, 2.0**-64 * (2 - 2.0**-22),
    float(np.finfo(np.float32).max), 2.0**-149 * 2.0**30,
)  # fmt: skip
_ORDINARY = 128

_found: dict[str, tuple[str, ...]] = {}


def arithmetic_faults(engine: Engine) -> tuple[str, ...]:
    """What a device's arithmetic does not keep, a sentence each; none where all is well.

    Raises:
        DeviceRemovedError: when the device is lost or closed.
    """
    key = _key(engine.info, engine.declares_float_controls)
    if key not in _found:
        known = _read(key)
        if known is None:
            try:
                known = faults(operands(), _tried(engine, operands()))
            except OutOfMemoryError:
                return ()  # not known yet
            _keep(key, known)
        _found[key] = known
    return _found[key]


def warn(info: DeviceInfo, found: tuple[str, ...]) -> None:
    advice = " Unset MVK_CONFIG_FAST_MATH_ENABLED, or set it to 0." if info.driver == "MoltenVK" else ""
    warnings.warn(
        f"{info.name} ({info.driver} {info.driver_version}): results may break their promises, because this driver's "
        f"arithmetic does not keep Vulkan's: {'; '.join(found)}.{advice}",
        ArithmeticWarning,
        stacklevel=4,
    )


def operands() -> Bits:
    """What is tried, three numbers in a row: everything special with everything special, and ordinary numbers.

    The third number is the opposite of the rounded product, from which a contracted sum leaves the rounding error.
    """
    special = np.array(_SPECIAL, np.float32)
    a, b = (part.reshape(-1) for part in np.meshgrid(special, special))
    random = np.random.Generator(np.random.PCG64(20))
    x, y = 1 + random.random((2, _ORDINARY))
    scale = 2.0 ** random.integers(-12, 13, _ORDINARY)
    halves = np.float64(1) + np.arange(16) * 2.0**-22  # sums with 2^-24 lie in the middle of two numbers
    first = np.concatenate([a, x, x * scale, halves]).astype(np.float32)
    second = np.concatenate([b, y, -y, np.full(16, 2.0**-24)]).astype(np.float32)
    with np.errstate(all="ignore"):
        third = -(first.astype(np.float64) * second).astype(np.float32)
    rows: Bits = np.stack([first, second, third], 1).view(np.uint32)
    return rows


def _tried(engine: Engine, given: Bits) -> Bits:
    def made(reads: list[Region], writes: list[Region]) -> list[KernelStep]:
        return [arithmetic_step(len(given), *reads, *writes)]

    return run_on_arrays(engine, made, (given,), np.uint32, (len(given), RESULTS))


class _Exact:
    """Float32 arithmetic by float64, which rounds once; and where a result of it, or of what it is made of, may differ.

    Sums and products of two float32 rounded to float64 and then to float32 are rounded as if at once, because 53 bits
    are more than twice 24 and two.
    """

    def __init__(self, values: npt.NDArray[np.float32], is_free: npt.NDArray[np.bool_] | None = None) -> None:
        self.values = values
        self.is_free = np.zeros(values.shape, bool) if is_free is None else is_free

    def _made(self, exact: npt.NDArray[np.float64], *others: _Exact) -> _Exact:
        values = exact.astype(np.float32)
        is_free = np.logical_or.reduce([self.is_free, *(other.is_free for other in others)])
        # Denormals may be flushed, and zeros of products may lose their sign: what is made of them is anything.
        is_small = (np.abs(exact) < _SMALLEST_NORMAL) & (exact != 0)
        return _Exact(values, is_free | is_small)

    def __add__(self, other: _Exact) -> _Exact:
        return self._made(self.values.astype(np.float64) + other.values, self, other)

    def __sub__(self, other: _Exact) -> _Exact:
        return self._made(self.values.astype(np.float64) - other.values, self, other)

    def __mul__(self, other: _Exact) -> _Exact:
        return self._made(self.values.astype(np.float64) * other.values, self, other)

    def without_sign_of_zero(self) -> _Exact:
        """The same as part of something else: a product that is zero may have any sign."""
        return _Exact(self.values, self.is_free | (self.values == 0))


def _expected(given: Bits) -> list[_Exact]:
    a, b, c = (_Exact(column) for column in given.view(np.float32).T)
    half_a, half_b = (_Exact((column & np.uint32(0xFFFFF000)).view(np.float32)) for column in given.T[:2])
    product = (a * b).without_sign_of_zero()
    total = a + b
    b_part = total - a
    a_part = total - b_part
    error = (a - a_part) + (b - b_part)
    sums = (a * c).without_sign_of_zero() + (b * c).without_sign_of_zero()
    exact = (half_a * half_b).without_sign_of_zero()
    exact.is_free |= np.isinf(exact.values) & np.isfinite(a.values) & np.isfinite(b.values)  # not exact, then
    return [
        total, a - b, a * b, product + c, c - product, error, exact + c, a - a, total - b, sums,
        product + c, product * c,
    ]  # fmt: skip


def faults(given: Bits, results: Bits) -> tuple[str, ...]:
    """What is wrong with results of the trial, the first example of each kind.

    Args:
        given: the operands, three in a row.
    """
    found: dict[str, str] = {}
    with np.errstate(all="ignore"):
        expected = _expected(given)
    for name, want, got in zip(_NAMES, expected, results.T, strict=True):
        bits = want.values.view(np.uint32)
        is_nan = np.isnan(want.values)
        is_small = want.is_free & (np.abs(want.values) < 2 * _SMALLEST_NORMAL) & (name in ("a + b", "a - b", "a * b"))
        same = np.where(is_nan, np.isnan(got.view(np.float32)), got == bits)
        # A denormal is itself or a zero of its sign; and a product's zero may be of any sign.
        is_tiny = np.abs(got.view(np.float32)) <= _SMALLEST_NORMAL
        same |= is_small & is_tiny & (((got ^ bits) >> 31 == 0) | (name == "a * b"))
        same |= want.is_free & ~is_small
        if "*" in name:
            same |= (bits & 0x7FFFFFFF == 0) & (got & 0x7FFFFFFF == 0)
        for row in np.flatnonzero(~same):
            kind = _kind(name, given[row].view(np.float32), want.values[row], got[row])
            numbers = ", ".join(f"{letter} = {word:#010x}" for letter, word in zip("abc", given[row], strict=True))
            found.setdefault(kind, f"{kind} ({name} is {got[row]:#010x} instead of {bits[row]:#010x} for {numbers})")
    return tuple(found.values())


def _kind(name: str, numbers: npt.NDArray[np.float32], want: np.float32, got: np.uint32) -> str:
    if np.isnan(want) or not np.isfinite(numbers).all() or not np.isfinite(want):
        return "NaN and infinities"
    if want == 0 and got & 0x7FFFFFFF == 0:
        return "signs of zeros"
    if want != 0 and abs(want) < 4 * _SMALLEST_NORMAL:
        return "denormals"
    return _KINDS.get(name, "rounding")


def _key(info: DeviceInfo, has_controls: bool) -> str:
    facts = [_TRIAL, info.uuid, info.name, info.driver, info.driver_version, info.api_version, has_controls]
    facts += [os.environ.get("MVK_CONFIG_FAST_MATH_ENABLED")]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _read(key: str) -> tuple[str, ...] | None:
    """What was kept; ``None``: nothing, or nothing that this wrote."""
    folder = cache_directory()
    if folder is None:
        return None
    try:
        found = json.loads(kept_contents(folder / f"{key}.arithmetic", key) or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(fault, str) for fault in found):
        return None
    return tuple(found)


def _keep(key: str, found: tuple[str, ...]) -> None:
    """Where nothing can be kept, the next process tries again."""
    folder = cache_directory()
    if folder is not None:
        with contextlib.suppress(OSError):
            keep_contents(folder / f"{key}.arithmetic", key, json.dumps(found).encode())


assert len(_NAMES) == RESULTS
assert OPERANDS == 3
