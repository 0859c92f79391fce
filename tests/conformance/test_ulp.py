"""Errors in units in the last place, against the same rules in exact fractions, one value at a time."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance import ulp
from dmlvk.conformance.patterns import bits_dtype, landmark_patterns
from dmlvk.operators import Accuracy

Float64Array = npt.NDArray[np.float64]

FORMATS = {np.dtype(np.float32): (24, -126, 127, 0x7FC00000), np.dtype(np.float16): (11, -14, 15, 0x7E00)}


def singles(values: list[Any]) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)


def halves(values: list[Any]) -> npt.NDArray[np.float16]:
    return np.array(values, np.float16)


def exact_error(got: Any, true: float) -> Fraction | None:
    """The error of one result; ``None``: infinitely far away."""
    precision, lowest, highest, canonical = FORMATS[got.dtype]
    number = float(got)
    if math.isnan(true):
        return Fraction(0) if int(got.view(f"u{got.dtype.itemsize}")) == canonical else None
    if math.isnan(number) or math.copysign(1, number) != math.copysign(1, true):
        return None
    limit = Fraction(2) ** (highest + 1)
    value = limit if math.isinf(true) else min(abs(Fraction(true)), limit)
    result = limit if math.isinf(number) else abs(Fraction(number))
    exponent = lowest
    while exponent < highest and Fraction(2) ** (exponent + 1) <= value:
        exponent += 1
    unit = Fraction(2) ** (exponent - precision + 1)
    smallest = Fraction(2) ** lowest
    if precision == 24 and result == 0:
        return max(value - smallest, Fraction(0)) / unit
    if precision == 24 and result < smallest:
        return None
    return abs(result - value) / unit


def assert_errors(got: npt.NDArray[Any], true: npt.NDArray[np.float64]) -> None:
    errors = ulp.ulp_errors(got, true)
    for result, value, error in zip(got, true, errors.tolist(), strict=True):
        wanted = exact_error(result, float(value))
        if wanted is None:
            assert error == math.inf, (result, value, error)
        else:
            # float64's own rounding: far below what matters, and relative where errors are huge
            assert error == pytest.approx(float(wanted), rel=2**-29, abs=2**-29), (result, value, error)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=lambda t: t.name)
def test_landmarks_with_landmarks(data_type: dml.DataType) -> None:
    """Zeros, denormals, powers of two, the largest numbers, infinities, NaN, as results of each other."""
    patterns = landmark_patterns(data_type)
    results = patterns.view(data_type.numpy_dtype)
    with np.errstate(invalid="ignore"):
        values = results.astype(np.float64)
        neighbours = [np.nextafter(values, np.inf), np.nextafter(values, -np.inf), values * (1 + 2.0**-26)]
    near = np.concatenate([values, *neighbours])
    beyond = np.array([math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-300, -1e-300, 5e-324, 1e300, -1e300])
    random = np.random.default_rng(3)
    for true in (near, np.resize(beyond, near.size), random.permutation(near)):
        assert_errors(np.resize(results, true.size), true)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=lambda t: t.name)
def test_random_results_near_random_values(data_type: dml.DataType) -> None:
    random = np.random.default_rng(4)
    count = 4000
    bits = random.integers(0, 2**data_type.size_in_bits, count, dtype=bits_dtype(data_type))
    got = bits.view(data_type.numpy_dtype)
    with np.errstate(invalid="ignore"):
        numbers: Float64Array = got.astype(np.float64)
        true: Float64Array = numbers * (1 + random.normal(size=count) * 2.0 ** random.uniform(-30, -5, count))
    assert_errors(got, true)


def test_known_errors() -> None:
    one = singles([1.0, 1.0, 1.0, np.nextafter(np.float32(1), np.float32(0)), 2.0])
    true = np.array([1.0, 1 + 2.0**-24, 1 + 2.0**-22, 1.0, 1.0])
    assert ulp.ulp_errors(one, true).tolist() == [0.0, 0.5, 2.0, 0.5, 2.0**23]
    half = halves([2.0**-24, 0.0, 65504.0, np.inf])
    assert ulp.ulp_errors(half, np.array([2.0**-25, 2.0**-25, 65520.0, 65520.0])).tolist() == [0.5, 0.5, 0.5, 0.5]


def test_float32_results_below_the_normal_numbers_are_zeros() -> None:
    tiny = np.array([2.0**-127, -(2.0**-140), 2.0**-126 * (1 - 2.0**-30), 2.0**-126])
    zeros = singles([0.0, -0.0, 0.0, 0.0])
    assert ulp.ulp_errors(zeros, tiny).tolist() == [0.0, 0.0, 0.0, 0.0]
    assert ulp.ulp_errors(-zeros, tiny).tolist() == [math.inf] * 4
    assert ulp.ulp_errors(tiny.astype(np.float32), tiny).tolist() == [math.inf, math.inf, 2.0**-7, 0.0]


def test_any_shape_and_any_length() -> None:
    got = np.ones((3, ulp.BLOCK // 2 + 1, 2), np.float32)
    true = np.ones(got.shape)
    true[2, -1, 1] = 1 + 2.0**-23
    errors = ulp.ulp_errors(got, true)
    assert errors.shape == got.shape
    assert np.argwhere(errors != 0).tolist() == [[2, ulp.BLOCK // 2, 1]]
    transposed = ulp.ulp_errors(got.T, true.T)
    assert np.argwhere(transposed != 0).tolist() == [[1, ulp.BLOCK // 2, 2]]
    assert ulp.ulp_errors(np.empty(0, np.float32), np.empty(0)).size == 0


def test_the_promise_for_half_is_one_more_rounding() -> None:
    accuracy = Accuracy("accurate", 0.8)
    assert ulp.promised_ulp(accuracy, dml.FLOAT32) == 0.8
    assert ulp.promised_ulp(accuracy, dml.FLOAT16) == 0.5 + 0.8 / 8192


def test_the_promise_for_half_may_be_its_own() -> None:
    accuracy = Accuracy("accurate", 0.8, maximum_ulp_of_half=0.51)
    assert ulp.promised_ulp(accuracy, dml.FLOAT32) == 0.8
    assert ulp.promised_ulp(accuracy, dml.FLOAT16) == 0.51
