"""What ``expect`` measures, for floats and integers, and its report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlvk.models.commands import Tolerance
from dmlvk.models.comparison import compare
from dmlvk.models.formatting import format_bits, format_value

INF, NAN = float("inf"), float("nan")
EXACT = Tolerance("exact")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "passes"),
    [
        (1.0, 1.0, EXACT, True),
        (0.0, -0.0, EXACT, False),
        (NAN, NAN, EXACT, True),
        (NAN, 1.0, EXACT, False),
        (INF, INF, EXACT, True),
        (0.0, -0.0, Tolerance("ulp", 0), True),
        (NAN, NAN, Tolerance("ulp", 0), True),
        (NAN, 0.0, Tolerance("ulp", 2**32 - 1), False),
        (INF, -INF, Tolerance("atol", 1e300), False),
        (INF, INF, Tolerance("rtol", 0), True),
        (INF, 1.0, Tolerance("ulp", 2**32 - 1), False),
        (1.0, 1.5, Tolerance("atol", 0.5), True),
        (1.0, 1.5, Tolerance("atol", 0.499), False),
        (3.0, 2.0, Tolerance("rtol", 0.5), True),
        (2.0, 3.0, Tolerance("rtol", 0.3), False),
        (0.0, 0.0, Tolerance("rtol", 0), True),
        (0.0, -0.0, Tolerance("rtol", 0), True),
    ],
)
def test_floats(dtype: Any, got: float, expected: float, tolerance: Tolerance, passes: bool) -> None:
    assert compare(np.array([got], dtype), np.array([expected], dtype), tolerance).has_passed is passes


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ulp_counts_representable_values(dtype: Any) -> None:
    tiny = np.nextafter(dtype(0), dtype(1))
    largest = np.finfo(dtype).max
    for start, steps in ((dtype(1), 3), (-tiny, 2), (tiny, 1), (dtype(-2), 5), (largest, 1)):
        value = start
        for _ in range(steps):
            value = np.nextafter(value, dtype(-INF))
        pair = np.array([start], dtype), np.array([value], dtype)
        assert compare(*pair, Tolerance("ulp", steps)).has_passed
        assert not compare(*pair, Tolerance("ulp", steps - 1)).has_passed
        assert not compare(pair[1], pair[0], Tolerance("ulp", steps - 1)).has_passed


@pytest.mark.parametrize(
    ("dtype", "got", "expected", "distance"),
    [
        (np.int64, 2**63 - 1, -(2**63), 2**64 - 1),
        (np.uint64, 0, 2**64 - 1, 2**64 - 1),
        (np.uint64, 2**53 + 1, 2**53, 1),
        (np.int8, -128, 127, 255),
        (np.uint8, 3, 5, 2),
    ],
)
def test_integers(dtype: Any, got: int, expected: int, distance: int) -> None:
    pair = np.array([got], dtype), np.array([expected], dtype)
    assert not compare(*pair, EXACT).has_passed
    assert compare(*pair, Tolerance("atol", 2.0**64)).has_passed
    if distance < 2**32:
        assert compare(*pair, Tolerance("ulp", distance)).has_passed
        assert not compare(*pair, Tolerance("ulp", distance - 1)).has_passed
        assert not compare(*pair, Tolerance("atol", distance - 0.5)).has_passed
    assert f"off by {distance}" in compare(*pair, EXACT).report[1]


def test_integers_relative() -> None:
    assert compare(np.array([110]), np.array([100]), Tolerance("rtol", 0.1)).has_passed
    assert not compare(np.array([111]), np.array([100]), Tolerance("rtol", 0.1)).has_passed


def test_the_report_is_short() -> None:
    comparison = compare(np.arange(100, dtype=np.float32), np.zeros(100, np.float32), Tolerance("atol", 0.5))
    assert comparison.wrong.tolist() == list(range(1, 100))
    assert comparison.report[0] == "99 of 100 values differ (atol 0.5)"
    assert comparison.report[1] == "[1] got 1 (0x3F800000), expected 0 (0x00000000), off by 1, 1065353216 ULP"
    assert len(comparison.report) == 10
    assert comparison.report[-1] == "… and 91 more"


@pytest.mark.parametrize(
    ("value", "text", "bits"),
    [
        (np.float32(6), "6", "0x40C00000"),
        (np.float32(-0.0), "-0", "0x80000000"),
        (np.float32(0.1), "0.1", "0x3DCCCCCD"),
        (np.float16(65504), "65504", "0x7BFF"),
        (np.float64(0.1), "0.1", "0x3FB999999999999A"),
        (np.float32(3.4028235e38), "3.4028235e+38", "0x7F7FFFFF"),
        (np.float32("nan"), "nan", "0x7FC00000"),
        (np.float32("-inf"), "-inf", "0xFF800000"),
        (np.uint8(65), "65", "0x41"),
        (np.int8(-1), "-1", "0xFF"),
        (np.int64(-(2**63)), "-9223372036854775808", "0x8000000000000000"),
    ],
)
def test_formats(value: np.generic, text: str, bits: str) -> None:
    assert format_value(value) == text
    assert format_bits(value) == bits
