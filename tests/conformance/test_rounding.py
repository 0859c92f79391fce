"""The references' arithmetic is right: against Fractions, against NumPy's own conversions, against known numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dmlvk.conformance.references.rounding import (
    FLOAT16,
    FLOAT32,
    FloatFormat,
    round_fraction,
    round_to_format,
    sum_to_odd,
    truncated_affine,
    widened,
)

FORMATS = pytest.mark.parametrize("target", [FLOAT16, FLOAT32], ids=["float16", "float32"])


def _bits_of(value: Fraction, negative_zero: bool, target: FloatFormat) -> int:
    rounded = round_fraction(value, target)
    number = math.copysign(math.inf, value) if rounded is None else float(rounded)
    if number == 0 and (value < 0 or negative_zero):
        number = -0.0
    return int(np.array(number).astype(target.dtype).view(target.bits_dtype))


def test_this_process_keeps_denormals() -> None:
    """Some libraries switch the processor's denormals off when they are loaded; no reference could be trusted then."""
    with np.errstate(under="ignore"):
        assert (np.array([1], np.uint32).view(np.float32).astype(np.float64) == 2.0**-149).all()
        assert (np.array([2.0**-149]).astype(np.float32).view(np.uint32) == 1).all()
        assert (np.array([2.0**-1022]) * 0.5 > 0).all()


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (0.0, 0x0000),
        (-0.0, 0x8000),
        (1.0, 0x3C00),
        (-2.0, 0xC000),
        (65504.0, 0x7BFF),
        (65519.99, 0x7BFF),
        (65520.0, 0x7C00),
        (-65520.0, 0xFC00),
        (1e30, 0x7C00),
        (math.inf, 0x7C00),
        (math.nan, 0x7E00),
        (2.0**-14, 0x0400),
        (2.0**-24, 0x0001),
        (2.0**-25, 0x0000),
        (-(2.0**-25), 0x8000),
        (1.0000001 * 2.0**-25, 0x0001),
        (3 * 2.0**-25, 0x0002),
        (1 + 2.0**-11, 0x3C00),
        (1 + 3 * 2.0**-11, 0x3C02),
        (1 + 2.0**-11 + 2.0**-40, 0x3C01),
    ],
)
def test_float16_of_known_numbers(value: float, bits: int) -> None:
    got = int(round_to_format(np.array([value]), FLOAT16, denormals_are_zero=False).view(np.uint16)[0])
    assert got == bits, f"{value!r}: got {got:#06x}, expected {bits:#06x}"


@FORMATS
def test_rounding_agrees_with_numpys_conversion(target: FloatFormat) -> None:
    random = np.random.default_rng(1)
    exponents = random.uniform(target.lowest_exponent - target.precision - 3, target.highest_exponent + 3, 200_000)
    values = random.uniform(-1, 1, exponents.size) * 2.0**exponents
    # Ties and their neighbours: numbers of the format and what lies halfway between them.
    numbers = random.integers(0, 2 ** (8 * target.dtype.itemsize), 50_000, dtype=np.uint64).astype(target.bits_dtype)
    exact = widened(numbers.view(target.dtype))
    halfway = exact[np.isfinite(exact)] * (1 + 2.0**-target.precision)
    values = np.concatenate([values, exact[np.isfinite(exact)], halfway, np.nextafter(halfway, 0)])
    got = round_to_format(values, target, denormals_are_zero=False)
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(target.dtype)
    wrong = np.flatnonzero(got.view(target.bits_dtype) != expected.view(target.bits_dtype))
    assert wrong.size == 0, f"{values[wrong[0]]!r}: got {got[wrong[0]]!r}, expected {expected[wrong[0]]!r}"


@FORMATS
def test_rounding_a_fraction_agrees_with_rounding_a_float(target: FloatFormat) -> None:
    random = np.random.default_rng(2)
    exponents = random.uniform(target.lowest_exponent - target.precision - 3, target.highest_exponent + 3, 3_000)
    values = random.uniform(-1, 1, exponents.size) * 2.0**exponents
    got = round_to_format(values, target, denormals_are_zero=False).view(target.bits_dtype)
    for value, bits in zip(values.tolist(), got.tolist(), strict=True):
        assert bits == _bits_of(Fraction(value), False, target), repr(value)


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (2.0**-126, 0x00800000),
        (-(2.0**-126), 0x80800000),
        (2.0**-126 - 2.0**-149, 0x00000000),
        (2.0**-149 - 2.0**-126, 0x80000000),
        (2.0**-126 - 2.0**-150, 0x00000000),  # a number of 24 bits, below the smallest normal one
        (2.0**-126 - 2.0**-151, 0x00800000),  # a tie, which the even neighbour wins: the smallest normal number
        (2.0**-126 - 2.0**-151 - 2.0**-170, 0x00000000),
        (-(2.0**-149), 0x80000000),
        (0.0, 0x00000000),
    ],
)
def test_denormal_float32_results_become_zero(value: float, bits: int) -> None:
    got = int(round_to_format(np.array([value]), FLOAT32, denormals_are_zero=True).view(np.uint32)[0])
    assert got == bits, f"{value.hex()}: got {got:#010x}, expected {bits:#010x}"


@FORMATS
def test_a_sum_is_rounded_once(target: FloatFormat) -> None:
    """Sums of numbers far apart, where rounding twice goes wrong, against Fractions."""
    random = np.random.default_rng(3)
    count = 20_000
    first = random.integers(-(2**48), 2**48, count) * 2.0 ** random.integers(-60, 10, count)
    second = random.integers(-(2**24), 2**24, count) * 2.0 ** random.integers(-60, 30, count)
    ties = random.integers(1, 2**10, count) * 2.0 ** random.integers(0, 4, count)  # a half of some unit plus a trifle
    first[: count // 2] = ties[: count // 2] + 0.5
    second[: count // 2] = random.choice([-1, 0, 1], count // 2) * 2.0 ** random.integers(-140, -60, count // 2)
    got = round_to_format(sum_to_odd(first, second), target, denormals_are_zero=False).view(target.bits_dtype)
    for a, b, bits in zip(first.tolist(), second.tolist(), got.tolist(), strict=True):
        expected = _bits_of(Fraction(a) + Fraction(b), False, target)
        assert bits == expected, f"{a.hex()} + {b.hex()}: got {bits:#x}, expected {expected:#x}"


def test_a_sums_special_values_are_those_of_ieee_754() -> None:
    first = np.array([0.0, -0.0, -0.0, 1.0, np.inf, np.inf, np.nan, 1.0, -np.inf])
    second = np.array([-0.0, -0.0, 0.0, -1.0, -np.inf, 1.0, 1.0, np.inf, -np.inf])
    got = [float(value).hex() for value in sum_to_odd(first, second)]
    assert got == ["0x0.0p+0", "-0x0.0p+0", "0x0.0p+0", "0x0.0p+0", "nan", "inf", "nan", "inf", "-inf"]


def _affine_of_fractions(value: int, scale: float, bias: float, lowest: int, highest: int) -> int:
    return min(max(math.trunc(value * Fraction(scale) + Fraction(bias)), lowest), highest)


@pytest.mark.parametrize("bounds", [(-(2**31), 2**31 - 1), (0, 2**32 - 1), (-128, 127), (0, 65535)])
def test_truncated_affine_agrees_with_fractions(bounds: tuple[int, int]) -> None:
    lowest, highest = bounds
    random = np.random.default_rng(4)
    extremes = [lowest, lowest + 1, highest, highest - 1, 0, 1, -1 if lowest else 2, 3, 77]
    scales = [0.0, 1.0, -1.0, 0.5, -0.5, 0.1, -0.1, 3.0, 1e-3, 2.0**-30, -(2.0**-62), 2.0**-63, 2.0**-70, 2.0**-126]
    scales += [2.0**31, -(2.0**40), 1e30, float(np.float32(3.4e38)), 1.0000001192092896, 0.99999994]
    biases = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 0.99999994, 1e-30, -1e-30, 2.0**-126, 127.5, -3e9, 1e10, -1e30, 3.4e38]
    for scale in map(float, np.array(scales, np.float32)):
        for bias in map(float, np.array(biases, np.float32)):
            numbers = [*extremes, *random.integers(lowest, highest + 1, 20).tolist()]
            if scale:  # where the line crosses zero, one and the bounds
                for target in (0, 1, -1, lowest, highest):
                    crossing = round((target - Fraction(bias)) / Fraction(scale))
                    numbers += [n for n in range(crossing - 1, crossing + 2) if lowest <= n <= highest]
            got = truncated_affine(np.array(numbers, np.int64), scale, bias, lowest, highest)
            for number, result in zip(numbers, got.tolist(), strict=True):
                expected = _affine_of_fractions(number, scale, bias, lowest, highest)
                assert result == expected, f"{number} * {scale!r} + {bias!r}: got {result}, expected {expected}"


def test_truncated_affine_of_infinities_and_nan() -> None:
    numbers = np.array([-5, 0, 5])
    infinity, nan = math.inf, math.nan
    cases = [
        (infinity, 0.0, [-128, 0, 127]),
        (-infinity, 1.0, [127, 0, -128]),
        (infinity, infinity, [0, 0, 127]),
        (infinity, -infinity, [-128, 0, 0]),
        (1.0, infinity, [127, 127, 127]),
        (0.0, -infinity, [-128, -128, -128]),
        (nan, 1.0, [0, 0, 0]),
        (1.0, nan, [0, 0, 0]),
        (nan, infinity, [0, 0, 0]),
    ]
    for scale, bias, expected in cases:
        assert truncated_affine(numbers, scale, bias, -128, 127).tolist() == expected, (scale, bias)
