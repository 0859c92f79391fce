"""Powers where the kernels go ways of their own: exponents that all elements share, very small and very large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlvk.conformance import patterns
from dmlvk.conformance.cases import Batch, ValueCase, value_cases
from dmlvk.conformance.execution import Workbench, check_batch
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]

_CASES = {case.name: case for case in value_cases()}

_SHARED = (
    0.5,
    -0.5,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.49999997,
    2.0000002,
    1.5,
    -1.5,
    4.0,
    2.2,
    1 / 3,
    1e-3,
    -1e-9,
    100.5,
    1e30,
)


@pytest.mark.parametrize("name", ["constant_pow-float32", "constant_pow-float16"])
@pytest.mark.parametrize("exponent", _SHARED)
def test_exponents_that_all_elements_share(name: str, exponent: float, benches: list[Workbench]) -> None:
    """Halves, wholes and their neighbours: special numbers, all exponents, and numbers from everywhere."""
    case = _CASES[name]
    data_type = DataType.FLOAT16 if name.endswith("16") else DataType.FLOAT32
    swept = patterns.every_pattern(data_type) if data_type is DataType.FLOAT16 else patterns.sweep(data_type, 0, 2**15)
    x = np.concatenate([patterns.special_patterns(data_type), swept]).view(data_type.numpy_dtype)
    check_batch(benches, case, "contiguous", Batch("shared exponent", {"exponent": exponent, "scale_bias": None}, (x,)))


def _near_one(count: int) -> Array:
    """Numbers next to 1, on both sides and of both signs, the nearest first."""
    steps = np.arange(count, dtype=np.int32) // 4
    below = np.arange(count) % 2 == 1
    bits = np.int32(0x3F800000) + np.where(below, -steps - 1, steps)
    signs = np.where(np.arange(count) % 4 < 2, 0, -(2**31)).astype(np.int32)
    return np.asarray(bits.astype(np.int32) | signs).view(np.float32)


def _run(case: ValueCase, x: Array, y: Array, benches: list[Workbench]) -> None:
    check_batch(benches, case, "contiguous", Batch("pairs", {"scale_bias": None}, (x, y)))


@pytest.mark.parametrize("exponent_type", ["float32", "int32", "uint32"])
def test_large_exponents_of_numbers_next_to_one(exponent_type: str, benches: list[Workbench]) -> None:
    """Around 2^21, 2^22, 2^29 to 2^32, where the ways part, of both signs."""
    case = _CASES["pow-float32" if exponent_type == "float32" else f"pow-float32-{exponent_type}"]
    limits = (0, 2**32 - 1) if exponent_type == "uint32" else (-(2**31), 2**31 - 1)
    edges = [2**power + step for power in (20, 21, 22, 23, 28, 29, 30, 31, 32) for step in (-129, -1, 0, 1, 257)]
    # 1.5 * 2^30 is a power that only the number next to 1 has; of 1.625 * 2^30 even that is beyond the range.
    edges += [3 * 2**29, 13 * 2**27, 2**30 + 2**27, 5 * 2**27]
    whole = [sign * edge for edge in edges for sign in (1, -1)]
    exponents = (
        np.array(whole, np.float64)
        if exponent_type == "float32"
        else np.array([e for e in whole if limits[0] <= e <= limits[1]])
    )
    y = exponents.astype(exponent_type)
    x = _near_one(512)
    _run(case, np.repeat(x, y.size), np.tile(y, x.size), benches)


def test_tiny_exponents_of_numbers_far_from_one(benches: list[Workbench]) -> None:
    """Where a fixed point exponent has the fewest bits, and the logarithm is largest."""
    random = np.random.default_rng(11)
    count = 2**18
    magnitudes = np.where(random.integers(0, 2, count) == 1, 0x00800000, 0x7E800000) + random.integers(0, 2**24, count)
    x = magnitudes.astype(np.uint32).view(np.float32)
    y = (random.uniform(-2, 2, count) * 2.0 ** random.integers(-60, -2, count)).astype(np.float32)
    _run(_CASES["pow-float32"], x, y, benches)
