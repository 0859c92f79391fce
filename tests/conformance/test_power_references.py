"""The references of powers give known values."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance import powers
from tests.conformance.known import reference, signed

Array = npt.NDArray[Any]
INF, NAN = math.inf, math.nan
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4)]


def _pow(x: Array, exponent: Array, **attributes: Any) -> Array:
    return reference("ELEMENT_WISE_POW", x, exponent, **attributes)


# ISO C, F.10.4.4, in order; with numbers where it says «finite», «integer» and the like.
ANNEX_F = [
    (0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF), (0.0, -0.5, INF), (-0.0, -0.5, INF),
    (0.0, -INF, INF), (-0.0, -INF, INF), (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (0.0, 2.0, 0.0), (-0.0, 2.0, 0.0),
    (0.0, 0.5, 0.0), (-0.0, 0.5, 0.0), (0.0, INF, 0.0), (-0.0, INF, 0.0), (-1.0, INF, 1.0), (-1.0, -INF, 1.0),
    (1.0, NAN, 1.0), (1.0, INF, 1.0), (1.0, -7.3, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (-INF, 0.0, 1.0),
    (0.0, 0.0, 1.0), (-0.0, -0.0, 1.0), (-8.0, 1 / 3, NAN), (-1.0, 0.5, NAN), (-1e4, -1.5, NAN), (0.5, -INF, INF),
    (-0.5, -INF, INF), (2.0, -INF, 0.0), (-2.0, -INF, 0.0), (INF, -INF, 0.0), (0.5, INF, 0.0), (-0.5, INF, 0.0),
    (2.0, INF, INF), (-2.0, INF, INF), (-INF, INF, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, -0.5, 0.0),
    (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, 0.5, INF), (INF, -0.5, 0.0), (INF, 0.5, INF), (NAN, 1.0, NAN),
    (2.0, NAN, NAN), (-1.0, NAN, NAN), (0.0, NAN, NAN), (NAN, NAN, NAN),
]  # fmt: skip


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
def test_special_values_of_floats(data_type: Any) -> None:
    x, exponent, expected = (np.array(column) for column in zip(*ANNEX_F, strict=True))
    got = _pow(x.astype(data_type), exponent.astype(np.float32))
    assert signed(got) == signed(expected)
    for value, power, result in ANNEX_F:
        array = np.full(9, value, np.float32)
        assert set(signed(reference("ELEMENT_WISE_CONSTANT_POW", array, Exponent=power))) == {repr(result)}


def test_denormal_exponents_and_bases_are_zeros() -> None:
    x, exponent = np.array([3.0, -1e-40, -1e-40], np.float32), np.array([1e-40, -3.0, 2.0], np.float32)
    assert signed(_pow(x, exponent)) == ["1.0", "-inf", "0.0"]


def test_integer_exponents_of_floats_keep_all_their_bits() -> None:
    x = np.array([-1.0, -1.0, 1 + 2.0**-23, -(1 + 2.0**-23)], np.float32)
    exponent = np.array([2**31 - 1, -(2**31), 2**29 + 1, 2**29 + 1], np.int32)
    got = _pow(x, exponent)
    assert got[:2].tolist() == [-1.0, 1.0]
    true = math.exp((2**29 + 1) * math.log1p(2.0**-23))
    assert np.abs(got[2:] / [true, -true] - 1).max() < 1e-13


@pytest.mark.parametrize("base_type", INTEGERS, ids=str)
@pytest.mark.parametrize("exponent_type", INTEGERS, ids=str)
def test_integers_to_integers_wrap(base_type: np.dtype[Any], exponent_type: np.dtype[Any]) -> None:
    limits, exponents = np.iinfo(base_type), np.iinfo(exponent_type)
    draw = random.Random(7)
    bases = [-3, -2, -1, 0, 1, 2, 3, limits.min, limits.max, *(draw.randint(limits.min, limits.max) for _ in range(20))]
    counts = [-3, -2, -1, 0, 1, 2, 3, 31, 32, exponents.min, exponents.max]
    counts += [draw.randint(exponents.min, exponents.max) for _ in range(20)]
    pairs = [
        (b, e) for b in bases for e in counts if limits.min <= b <= limits.max and exponents.min <= e <= exponents.max
    ]
    x, exponent = (np.array(column) for column in zip(*pairs, strict=True))
    width = 8 * base_type.itemsize
    expected = [_wrapped(b, e, width) for b, e in pairs]
    got = _pow(x.astype(base_type), exponent.astype(exponent_type))
    assert (got.astype(np.int64) % 2**width).tolist() == expected


def _wrapped(base: int, exponent: int, width: int) -> int:
    if exponent >= 0:
        return int(pow(base, exponent, 2**width))
    return 0 if base == 0 else int(Fraction(base) ** (exponent & 1 | -2)) % 2**width  # a power as odd as it


def test_integers_to_fractions_are_truncated_roots() -> None:
    draw = random.Random(3)
    squares = [
        n * n + d for n in (2, 3, 46340, 65535, *(draw.randint(2, 65535) for _ in range(300))) for d in (-1, 0, 1)
    ]
    x = np.array([n for n in squares if n < 2**32], np.uint32)
    numbers = [int(n) for n in x]

    def power(exponent: float) -> list[int]:
        return [int(v) for v in _pow(x, np.full(x.shape, exponent, np.float32))]

    assert power(0.5) == [math.isqrt(n) for n in numbers]
    assert power(0.25) == [math.isqrt(math.isqrt(n)) for n in numbers]
    assert power(0.75) == [math.isqrt(math.isqrt(n**3)) for n in numbers]
    assert power(1.5) == [min(math.isqrt(n**3), 2**32 - 1) for n in numbers]
    assert power(2.0) == [min(n**2, 2**32 - 1) for n in numbers]
    assert power(1e-30) == power(0.0) == [1] * len(numbers)
    assert power(-1e-30) == power(-0.5) == [0] * len(numbers)


def test_integers_to_floats_saturate_and_give_0_for_nan() -> None:
    pairs = [
        (0, -1.0, 127), (0, -INF, 127), (0, -0.5, 127), (0, 0.0, 1), (0, 2.5, 0), (0, INF, 0), (0, NAN, 0),
        (1, NAN, 1), (1, INF, 1), (-1, INF, 1), (-1, 0.5, 0), (-1, 3.0, -1), (-1, -3.0, -1), (-1, 2.0, 1),
        (-1, NAN, 0), (2, INF, 127), (-2, INF, 127), (-2, -INF, 0), (-2, 7.0, -128), (-2, 9.0, -128), (-2, 8.0, 127),
        (-2, 1.5, 0), (2, 6.99, 127), (2, 6.98, 126), (-2, -1.0, 0), (-128, 1.0, -128), (-128, 0.0, 1), (5, NAN, 0),
        (2, 1e-40, 1), (-2, 16777216.0, 127),
    ]  # fmt: skip
    x, exponent, expected = (np.array(column) for column in zip(*pairs, strict=True))
    assert _pow(x.astype(np.int8), exponent.astype(np.float32)).tolist() == expected.tolist()
    unsigned = np.array([0, 255, 16, 3], np.uint8)
    assert _pow(unsigned, np.array([-1.0, 1.0, 2.0, -1.0], np.float16)).tolist() == [255, 255, 255, 0]


def test_scale_and_bias_apply_to_the_base() -> None:
    x, exponent = np.array([1, 2, 3], np.int32), np.array([2, 3, 1], np.uint8)
    assert _pow(x, exponent, ScaleBias=dml.ScaleBias(-2.0, 1.0)).tolist() == [1, -27, -5]


def test_inputs_reach_all_results() -> None:
    """Of the pairs that are meant to, most have finite results, and many lie within a factor of 1.1 of either end."""
    draw = np.random.default_rng(1)
    for base_type, exponent_type in ((dml.FLOAT32, dml.FLOAT32), (dml.FLOAT16, dml.FLOAT32), (dml.INT32, dml.FLOAT32)):
        made = dict(powers.random_pairs(base_type, exponent_type, 2**16, draw))
        assert sum(pair[0].size for pair in made.values()) == 2**16
        x, exponent = made["results of all sizes"]
        with np.errstate(all="ignore"):
            true = np.abs(_pow(x, exponent).astype(np.float64))
        highest = np.finfo(x.dtype).max if base_type.is_float else np.iinfo(x.dtype).max
        assert ((true > 0) & (true < highest)).mean() > 0.3
        x, exponent = made["results near the edges"]
        with np.errstate(all="ignore"):
            near = np.abs(np.log(np.abs(x.astype(np.float64)) ** exponent) / math.log(highest) - 1) < 0.1
        assert near.mean() > 0.2
