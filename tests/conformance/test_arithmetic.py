"""The references of arithmetic agree with Fractions, with Python's own numbers and with known bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlvk.conformance.references.rounding import FLOAT16, FLOAT32, FloatFormat, round_fraction
from tests.conformance.known import bits_of, reference

Array = npt.NDArray[Any]
FORMATS = pytest.mark.parametrize("target", [FLOAT32, FLOAT16], ids=["float32", "float16"])


def _floats(target: FloatFormat, *bits: int) -> Array:
    return np.array(bits, target.bits_dtype).view(target.dtype)


def _random_floats(target: FloatFormat, count: int, seed: int) -> Array:
    """Normal numbers of moderate exponents, a half of them with few bits."""
    random = np.random.default_rng(seed)
    numbers = random.uniform(1, 2, count) * random.choice([-1, 1], count)
    short = random.integers(1, 64, count) * random.choice([-1, 1], count)
    scaled: Array = np.where(random.integers(0, 2, count) == 0, numbers, short) * 2.0 ** random.integers(-6, 4, count)
    return scaled.astype(target.dtype)


def _rounded(value: Fraction, target: FloatFormat) -> Array:
    """A Fraction as a number of the format; FLOAT32's denormals cannot come out of ``_random_floats``."""
    rounded = round_fraction(value, target)
    number = math.inf if rounded is None else float(abs(rounded))
    return np.array([math.copysign(number, value)], target.dtype)


@FORMATS
@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("ELEMENT_WISE_ADD", lambda a, b: a + b),
        ("ELEMENT_WISE_SUBTRACT", lambda a, b: a - b),
        ("ELEMENT_WISE_MULTIPLY", lambda a, b: a * b),
        ("ELEMENT_WISE_DIVIDE", lambda a, b: a / b),
        ("ELEMENT_WISE_MEAN", lambda a, b: (a + b) / 2),
        ("ELEMENT_WISE_MODULUS_TRUNCATE", lambda a, b: a - b * math.trunc(a / b)),
        ("ELEMENT_WISE_MODULUS_FLOOR", lambda a, b: a - b * math.floor(a / b)),
    ],
)
def test_results_are_fractions_rounded_once(
    target: FloatFormat, operator: str, function: Callable[[Fraction, Fraction], Fraction]
) -> None:
    a, b = _random_floats(target, 3000, 1), _random_floats(target, 3000, 2)
    got = reference(operator, a, b)
    for x, y, result in zip(a.tolist(), b.tolist(), bits_of(got), strict=True):
        exact = function(Fraction(x), Fraction(y))
        if exact:
            assert result == bits_of(_rounded(exact, target))[0], f"{x!r}, {y!r}"
        else:
            assert int(result, 16) in (0, 2 ** (8 * target.dtype.itemsize - 1)), f"{x!r}, {y!r}: not a zero"


@FORMATS
def test_difference_squares_are_fractions_rounded_by_the_documented_steps(target: FloatFormat) -> None:
    a, b = _random_floats(target, 3000, 3), _random_floats(target, 3000, 4)
    for x, y, result in zip(
        a.tolist(), b.tolist(), bits_of(reference("ELEMENT_WISE_DIFFERENCE_SQUARE", a, b)), strict=True
    ):
        difference = Fraction(x) - Fraction(y)
        if target is FLOAT32:
            difference = Fraction(float(_rounded(difference, target)[0]))
        expected = bits_of(_rounded(difference**2, target))[0] if difference else bits_of(np.zeros(1, target.dtype))[0]
        assert result == expected, f"{x!r}, {y!r}"


def test_a_float16_difference_square_next_to_a_tie() -> None:
    # 47^2 = 2209 lies between 2208 and 2210. Less 2^-24 it is below, which float32 does not show.
    a, b = np.array([47, 47, -47], np.float16), np.array([2.0**-24, 0, 2.0**-24], np.float16)
    assert reference("ELEMENT_WISE_DIFFERENCE_SQUARE", a, b).tolist() == [2208.0, 2208.0, 2210.0]
    a, b = np.array([49, 49, -49], np.float16), np.array([2.0**-24, 0, 2.0**-24], np.float16)  # 2401: 2400, 2402
    assert reference("ELEMENT_WISE_DIFFERENCE_SQUARE", a, b).tolist() == [2400.0, 2400.0, 2402.0]
    a, b = np.array([300, 65504, np.inf, np.inf], np.float16), np.array([0, -65504, 1, np.inf], np.float16)
    assert bits_of(reference("ELEMENT_WISE_DIFFERENCE_SQUARE", a, b)) == ["7c00", "7c00", "7c00", "7e00"]


def test_quotients_of_special_values() -> None:
    zero, minus_zero, one, inf, minus_inf, nan, tiny = 0, 0x80000000, 0x3F800000, 0x7F800000, 0xFF800000, 0xFF800001, 1
    pairs = [(zero, zero), (one, minus_zero), (tiny, one), (one, 0x80000001), (inf, minus_inf), (minus_inf, zero)]
    pairs += [(minus_zero, inf), (nan, one), (zero, nan), (0x7F7FFFFF, 0x3F7FFFFF), (0x7F7FFFFE, 0x3F7FFFFF)]
    pairs += [(0x00800000, 0x3F800001), (0x00FFFFFF, 0x40000000), (0x00800001, 0x3F800001)]
    a, b = (_floats(FLOAT32, *column) for column in zip(*pairs, strict=True))
    expected = ["7fc00000", "ff800000", "00000000", "ff800000", "7fc00000", "ff800000", "80000000", "7fc00000"]
    expected += ["7fc00000", "7f800000", "7f7fffff", "00000000", "00000000", "00800000"]
    assert bits_of(reference("ELEMENT_WISE_DIVIDE", a, b)) == expected


def test_remainders_of_special_values_are_c_s_and_python_s() -> None:
    inf, nan = math.inf, math.nan
    pairs = [(5.3, inf), (-5.3, inf), (5.3, -inf), (0.0, -inf), (-0.0, inf), (6.0, 3.0), (-6.0, 3.0), (6.0, -3.0)]
    pairs += [(2.0**127, 3.0), (-(2.0**127), 2.0**-124 * 1.5), (-1e-30, 1.0), (1e-30, -1.0), (-7.0, 3.0), (7.0, -3.0)]
    a, b = (np.array(column, np.float32) for column in zip(*pairs, strict=True))
    with np.errstate(over="ignore"):
        truncated = [np.float32(math.fmod(x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        floored = [np.float32(x % y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert bits_of(reference("ELEMENT_WISE_MODULUS_TRUNCATE", a, b)) == bits_of(np.array(truncated))
    assert bits_of(reference("ELEMENT_WISE_MODULUS_FLOOR", a, b)) == bits_of(np.array(floored))
    a, b = np.array([inf, 1, 1, nan, 1, inf], np.float32), np.array([1, 0, -0.0, 1, nan, inf], np.float32)
    for operator in ("ELEMENT_WISE_MODULUS_TRUNCATE", "ELEMENT_WISE_MODULUS_FLOOR"):
        assert bits_of(reference(operator, a, b)) == ["7fc00000"] * 6


def test_means_do_not_overflow() -> None:
    a, b = (
        _floats(FLOAT32, 0x7F7FFFFF, 0x7F7FFFFF, 0x7F7FFFFF, 0x00800000, 0x00800000, 0x80FFFFFF, 0x7F7FFFFF),
        (_floats(FLOAT32, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F7FFFFE, 0x00800000, 0x00000001, 0x80000000, 0x00800000)),
    )
    means = ["7f7fffff", "00000000", "7f7ffffe", "00800000", "00000000", "80000000", "7effffff"]
    assert bits_of(reference("ELEMENT_WISE_MEAN", a, b)) == means
    assert bits_of(reference("ELEMENT_WISE_MEAN", _floats(FLOAT16, 0x7BFF, 1, 3), _floats(FLOAT16, 0x7BFF, 0, 0))) == [
        "7bff",
        "0000",
        "0002",
    ]


@FORMATS
def test_reciprocals_and_roots_are_fractions_rounded_once(target: FloatFormat) -> None:
    x = np.abs(_random_floats(target, 3000, 5))
    reciprocals, roots = reference("ELEMENT_WISE_RECIP", x), reference("ELEMENT_WISE_SQRT", x)
    for number, reciprocal, root in zip(x.tolist(), bits_of(reciprocals), bits_of(roots), strict=True):
        assert reciprocal == bits_of(_rounded(1 / Fraction(number), target))[0], repr(number)
        # The integer root of 4^64 times the number, and one bit more when it is not exact, is close enough to the root.
        scaled = Fraction(number) * 4**64
        integer = math.isqrt(scaled.numerator // scaled.denominator)
        sticky = Fraction(integer) + (Fraction(1, 2) if integer**2 != scaled else 0)
        assert root == bits_of(_rounded(sticky / 2**64, target))[0], repr(number)


def test_reciprocals_and_roots_of_special_values() -> None:
    x = _floats(
        FLOAT32, 0, 0x80000000, 0x80000001, 0x7F800000, 0xFF800000, 0xFF800001, 0x7E800000, 0x7E800001, 0xBF800000
    )
    reciprocals = reference("ELEMENT_WISE_RECIP", x)
    assert bits_of(reciprocals) == [
        *("7f800000", "ff800000", "ff800000", "00000000", "80000000", "7fc00000", "00800000", "00000000", "bf800000")
    ]
    roots = reference("ELEMENT_WISE_SQRT", x)
    nan = "7fc00000"
    assert bits_of(roots) == ["00000000", "80000000", "80000000", "7f800000", nan, nan, "5f000000", "5f000000", nan]


def test_sums_of_special_values() -> None:
    zero, minus_zero, inf, minus_inf, nan = 0, 0x80000000, 0x7F800000, 0xFF800000, 0xFF800001
    pairs = [(zero, minus_zero), (minus_zero, minus_zero), (inf, minus_inf), (inf, inf), (nan, inf), (0x7F7FFFFF,) * 2]
    pairs += [(0x00800001, 0x80800000), (0x80800001, 0x00800000), (1, 0x80000001), (0x807FFFFF, 0x80000000)]
    a, b = (_floats(FLOAT32, *column) for column in zip(*pairs, strict=True))
    sums = ["00000000", "80000000", "7fc00000", "7f800000", "7fc00000", "7f800000"]
    assert bits_of(reference("ELEMENT_WISE_ADD", a, b)) == [*sums, "00000000", "80000000", "00000000", "80000000"]
    differences = ["00000000", "00000000", "7f800000", "7fc00000", "7fc00000", "00000000"]
    assert bits_of(reference("ELEMENT_WISE_SUBTRACT", a, b))[:6] == differences


def test_float16_sums_keep_denormals() -> None:
    a, b = _floats(FLOAT16, 0x0001, 0x0400, 0x0400, 0x7BFF), _floats(FLOAT16, 0x0001, 0x8001, 0x8400, 0x4C00)
    assert bits_of(reference("ELEMENT_WISE_ADD", a, b)) == ["0002", "03ff", "0000", "7c00"]


def test_products_at_the_smallest_normal_number() -> None:
    pairs = [
        (0x00800000, 0x3F800000),  # 2^-126
        (0x00FFFFFF, 0x3F000000),  # (2 - 2^-23) * 2^-127: below 2^-126 and a number of 24 bits, so zero
        (0x80FFFFFF, 0x3F000001),  # rounded to 24 bits it is 2^-126
        (0x00FFFFFE, 0x3F000001),  # 2^-126 - 2^-172, rounded to 2^-126
        (0x00FFFFFD, 0x3F000001),  # rounded to (2 - 2^-23) * 2^-127
        (0x00000001, 0x7F7FFFFF),  # a denormal counts as zero
        (0x80000000, 0x7F800000),
    ]
    a, b = (_floats(FLOAT32, *column) for column in zip(*pairs, strict=True))
    expected = ["00800000", "00000000", "80800000", "00800000", "00000000", "00000000", "7fc00000"]
    assert bits_of(reference("ELEMENT_WISE_MULTIPLY", a, b)) == expected


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_wrap(name: str) -> None:
    limits = np.iinfo(name)
    lowest, highest = int(limits.min), int(limits.max)
    numbers = [lowest, lowest + 1, -1 if lowest else 1, 0, 2, 3, highest // 3, highest - 1, highest]
    a = np.repeat(np.array(numbers, name), len(numbers))
    b = np.tile(np.array(numbers, name), len(numbers))
    functions: dict[str, Callable[[int, int], int]] = {"ADD": int.__add__, "SUBTRACT": int.__sub__}
    for operator, function in {**functions, "MULTIPLY": int.__mul__}.items():
        got = reference(f"ELEMENT_WISE_{operator}", a, b)
        assert got.dtype == a.dtype
        for x, y, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
            assert (result - function(x, y)) % 2**limits.bits == 0, f"{operator} of {x}, {y}: {result}"


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integer_division(name: str) -> None:
    limits = np.iinfo(name)
    lowest, highest = int(limits.min), int(limits.max)
    numbers = [lowest, lowest + 1, -7 if lowest else 7, -1 if lowest else 1, 0, 1, 2, 3, highest // 3, highest]
    a = np.repeat(np.array(numbers, name), len(numbers))
    b = np.tile(np.array(numbers, name), len(numbers))
    quotients = reference("ELEMENT_WISE_DIVIDE", a, b).tolist()
    truncated = reference("ELEMENT_WISE_MODULUS_TRUNCATE", a, b).tolist()
    floored = reference("ELEMENT_WISE_MODULUS_FLOOR", a, b).tolist()
    for x, y, quotient, remainder, modulus in zip(a.tolist(), b.tolist(), quotients, truncated, floored, strict=True):
        if y == 0:
            assert (quotient, remainder, modulus) == (0, 0, 0), x
            continue
        exact = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        assert (quotient - exact) % 2**limits.bits == 0, f"{x} / {y}"
        assert remainder == x - y * exact, f"{x} / {y}"
        assert modulus == x % y, f"{x} % {y}"


@pytest.mark.parametrize("name", ["int32", "uint32"])
def test_integer_means_and_difference_squares(name: str) -> None:
    limits = np.iinfo(name)
    numbers = [int(limits.min), int(limits.min) + 1, 0, 1, 2, 5, int(limits.max) - 1, int(limits.max)]
    numbers += [] if limits.min == 0 else [-1, -2, -5]
    a = np.repeat(np.array(numbers, name), len(numbers))
    b = np.tile(np.array(numbers, name), len(numbers))
    means = reference("ELEMENT_WISE_MEAN", a, b).tolist()
    squares = reference("ELEMENT_WISE_DIFFERENCE_SQUARE", a, b).tolist()
    for x, y, mean, square in zip(a.tolist(), b.tolist(), means, squares, strict=True):
        assert mean == math.trunc(Fraction(x + y, 2)), f"{x}, {y}"
        assert (square - (x - y) ** 2) % 2**32 == 0, f"{x}, {y}"
