"""The references of arithmetic agree with Fractions, with Python's own numbers and with known bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.references.rounding import FLOAT16, FLOAT32, FloatFormat, round_fraction

Array = npt.NDArray[Any]
FORMATS = pytest.mark.parametrize("target", [FLOAT32, FLOAT16], ids=["float32", "float16"])


def _floats(target: FloatFormat, *bits: int) -> Array:
    return np.array(bits, target.bits_dtype).view(target.dtype)


def _bits(array: Array) -> list[str]:
    unsigned = array.view(f"u{array.dtype.itemsize}")
    return [f"{int(value):0{2 * array.dtype.itemsize}x}" for value in unsigned]


def _tensor(array: Array) -> dml.TensorDesc:
    return dml.TensorDesc(dml.DataType.from_name(array.dtype.name.upper()), array.shape)


def _binary(operator: str, a: Array, b: Array) -> Array:
    tensor = _tensor(a)
    desc = dml.operator_desc(operator, ATensor=tensor, BTensor=tensor, OutputTensor=tensor)
    return expected_output(desc, [a, b])


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
    ],
)
def test_results_are_fractions_rounded_once(
    target: FloatFormat, operator: str, function: Callable[[Fraction, Fraction], Fraction]
) -> None:
    a, b = _random_floats(target, 3000, 1), _random_floats(target, 3000, 2)
    got = _binary(operator, a, b)
    for x, y, result in zip(a.tolist(), b.tolist(), _bits(got), strict=True):
        exact = function(Fraction(x), Fraction(y))
        expected = _bits(_rounded(exact, target))[0] if exact else _bits(np.zeros(1, target.dtype))[0]
        assert result == expected, f"{x!r}, {y!r}"


def test_sums_of_special_values() -> None:
    zero, minus_zero, inf, minus_inf, nan = 0, 0x80000000, 0x7F800000, 0xFF800000, 0xFF800001
    pairs = [(zero, minus_zero), (minus_zero, minus_zero), (inf, minus_inf), (inf, inf), (nan, inf), (0x7F7FFFFF,) * 2]
    pairs += [(0x00800001, 0x80800000), (0x80800001, 0x00800000), (1, 0x80000001), (0x807FFFFF, 0x80000000)]
    a, b = (_floats(FLOAT32, *column) for column in zip(*pairs, strict=True))
    sums = ["00000000", "80000000", "7fc00000", "7f800000", "7fc00000", "7f800000"]
    assert _bits(_binary("ELEMENT_WISE_ADD", a, b)) == [*sums, "00000000", "80000000", "00000000", "80000000"]
    differences = ["00000000", "00000000", "7f800000", "7fc00000", "7fc00000", "00000000"]
    assert _bits(_binary("ELEMENT_WISE_SUBTRACT", a, b))[:6] == differences


def test_float16_sums_keep_denormals() -> None:
    a, b = _floats(FLOAT16, 0x0001, 0x0400, 0x0400, 0x7BFF), _floats(FLOAT16, 0x0001, 0x8001, 0x8400, 0x4C00)
    assert _bits(_binary("ELEMENT_WISE_ADD", a, b)) == ["0002", "03ff", "0000", "7c00"]


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
    assert _bits(_binary("ELEMENT_WISE_MULTIPLY", a, b)) == expected


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_wrap(name: str) -> None:
    limits = np.iinfo(name)
    lowest, highest = int(limits.min), int(limits.max)
    numbers = [lowest, lowest + 1, -1 if lowest else 1, 0, 2, 3, highest // 3, highest - 1, highest]
    a = np.repeat(np.array(numbers, name), len(numbers))
    b = np.tile(np.array(numbers, name), len(numbers))
    functions: dict[str, Callable[[int, int], int]] = {"ADD": int.__add__, "SUBTRACT": int.__sub__}
    for operator, function in {**functions, "MULTIPLY": int.__mul__}.items():
        got = _binary(f"ELEMENT_WISE_{operator}", a, b)
        assert got.dtype == a.dtype
        for x, y, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
            assert (result - function(x, y)) % 2**limits.bits == 0, f"{operator} of {x}, {y}: {result}"
