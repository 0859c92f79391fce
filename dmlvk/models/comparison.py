"""What the command ``expect`` measures.

- exact (the default): every value has the expected bits, so 0 and -0 differ; a NaN matches any NaN.
- ``ulp``: at most that many representable values away; 0 and -0 are 0 apart. For integers the plain difference.
- ``atol``: ``|got - expected| <= atol``; ``rtol``: ``|got - expected| <= rtol * |expected|``.

With the last three, a NaN matches a NaN and nothing else, and an infinity only itself.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.models.commands import Tolerance
from dmlvk.models.formatting import format_bits, format_value

_LINES_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class ExpectOutcome:
    count: int  # how many values were compared
    wrong: npt.NDArray[np.intp]  # indices of those outside the tolerance
    report: tuple[str, ...]  # lines for a person to read, first the summary of the differences

    @property
    def has_passed(self) -> bool:
        return not self.wrong.size


def compare(got: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: Tolerance) -> ExpectOutcome:
    """Compares two flat arrays of one data type and size."""
    wrong = np.flatnonzero(~_matches(got, expected, tolerance))
    lines = [f"{wrong.size} of {got.size} values differ ({describe(tolerance)})"]
    for index in wrong[:_LINES_SHOWN]:
        lines.append(_difference_line(int(index), got, expected))
    if wrong.size > _LINES_SHOWN:
        lines.append(f"… and {wrong.size - _LINES_SHOWN} more")
    return ExpectOutcome(got.size, wrong, tuple(lines))


def describe(tolerance: Tolerance) -> str:
    """The tolerance, briefly: ``"exact"``, ``"ulp 1"``, ``"atol 0.5"``."""
    if tolerance.kind == "exact":
        return "exact"
    if tolerance.kind == "ulp":
        return f"ulp {tolerance.amount:.0f}"
    return f"{tolerance.kind} {tolerance.amount:g}"


def _matches(got: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: Tolerance) -> npt.NDArray[np.bool_]:
    matches = _float_matches if got.dtype.kind == "f" else _integer_matches
    return np.asarray(matches(got, expected, tolerance), np.bool_)


def _integer_matches(got: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: Tolerance) -> Any:
    distance = _absolute_difference(got, expected)
    if tolerance.kind == "rtol":
        return distance <= tolerance.amount * np.abs(expected.astype(np.float64))
    return distance <= np.uint64(min(math.floor(tolerance.amount), 2**64 - 1))


def _float_matches(got: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: Tolerance) -> Any:
    both_nan = np.isnan(got) & np.isnan(expected)
    if tolerance.kind == "exact":
        return (_bits(got) == _bits(expected)) | both_nan
    if tolerance.kind == "ulp":
        near = _ulp_distance(got, expected) <= np.uint64(tolerance.amount)
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            wide_got, wide_expected = got.astype(np.float64), expected.astype(np.float64)
            allowed = tolerance.amount * (np.abs(wide_expected) if tolerance.kind == "rtol" else 1.0)
            near = np.abs(wide_got - wide_expected) <= allowed
    finite = np.isfinite(got) & np.isfinite(expected)
    return (near & finite) | (got == expected) | both_nan


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.view(f"u{values.dtype.itemsize}")


def _absolute_difference(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """|a - b| of integers, exact also where the difference needs 64 bits without a sign."""
    wide = np.uint64 if a.dtype.kind == "u" else np.int64
    a, b = a.astype(wide), b.astype(wide)
    return np.where(a > b, a.view(np.uint64) - b.view(np.uint64), b.view(np.uint64) - a.view(np.uint64))


def _ulp_distance(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """How many steps of the float format lie between two values; both zeros are one step of the ladder."""
    return _absolute_difference(_ladder(a), _ladder(b))


def _ladder(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Integers in the order of the floats: the magnitude's bits, negative for negative values."""
    magnitude = (_bits(values) & np.array(2 ** (8 * values.dtype.itemsize - 1) - 1, _bits(values).dtype)).astype(
        np.int64
    )
    return np.where(np.signbit(values), -magnitude, magnitude)


def _difference_line(index: int, got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> str:
    a, b = got[index], expected[index]
    line = f"[{index}] got {format_value(a)} ({format_bits(a)}), expected {format_value(b)} ({format_bits(b)})"
    if got.dtype.kind != "f":
        return f"{line}, off by {abs(int(a) - int(b))}"
    if not (np.isfinite(a) and np.isfinite(b)):
        return line
    ulp = int(_ulp_distance(got[index : index + 1], expected[index : index + 1])[0])
    return f"{line}, off by {abs(float(a) - float(b)):.6g}, {ulp} ULP"
