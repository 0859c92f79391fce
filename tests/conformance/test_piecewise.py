"""The references of the activations made of straight lines agree with Fractions and with known bits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlvk.conformance.references.rounding import FLOAT16, FLOAT32, FloatFormat, round_fraction
from tests.conformance.known import bits_of, reference

Array = npt.NDArray[Any]
FORMATS = pytest.mark.parametrize("target", [FLOAT32, FLOAT16], ids=["float32", "float16"])

_NUMBERS = (-3.0, -2.5, -1.25, -1.0, -0.7, -0.5, -0.1, -1e-3, 1e-3, 0.1, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.9, 3.1, 100.0)


def _rounded(value: Fraction, target: FloatFormat) -> float:
    rounded = round_fraction(value, target)
    assert rounded is not None
    return float(rounded)


def _float32(value: float) -> float:
    return float(np.float32(value))


@FORMATS
@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 0.5), (1 / 6, 0.5), (-0.3, 0.1), (3.7, -1 / 3)])
def test_lines_are_fractions_rounded_once(target: FloatFormat, alpha: float, beta: float) -> None:
    x = np.array(_NUMBERS, target.dtype)
    attributes: dict[str, Any] = {"Alpha": alpha, "Beta": beta}
    linear = reference("ACTIVATION_LINEAR", x, **attributes)
    sigmoid = reference("ACTIVATION_HARD_SIGMOID", x, **attributes)
    swish = reference("ACTIVATION_HARD_SWISH", x, **attributes)
    for i, number in enumerate(x.tolist()):
        line = Fraction(_float32(alpha)) * Fraction(number) + Fraction(_float32(beta))
        bounded = max(Fraction(0), min(line, Fraction(1)))
        assert linear[i] == _rounded(line, target)
        assert sigmoid[i] == _rounded(bounded, target)
        assert swish[i] == pytest.approx(float(number * bounded), rel=2.0**-50, abs=0)


def test_lines_of_special_values() -> None:
    x = np.array([math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-40, -1e-40], np.float32)
    line: dict[str, Any] = {"Alpha": 0.25, "Beta": 0.5}
    assert bits_of(reference("ACTIVATION_HARD_SIGMOID", x, **line)) == [
        *("3f800000", "00000000", "7fc00000", "3f000000", "3f000000", "3f000000", "3f000000")
    ]
    zeros = reference("ACTIVATION_HARD_SIGMOID", np.array([-2.0, -0.0], np.float32), Alpha=0.25, Beta=-0.0)
    assert bits_of(zeros) == ["00000000", "00000000"]
    swish = reference("ACTIVATION_HARD_SWISH", x, **line)
    assert [math.inf, 0.0, 0.0, 0.0, 0.0] == [*swish[[0, 3, 4, 5, 6]]]
    assert np.isnan(swish[[1, 2]]).all(), "minus infinity times zero is NaN"
    assert np.signbit(swish[[3, 4, 5, 6]]).tolist() == [False, True, False, True]
    assert np.isnan(reference("ACTIVATION_HARD_SWISH", x[:1], Alpha=0.0, Beta=0.5)).all()
    assert bits_of(reference("ACTIVATION_LINEAR", x, Alpha=-1.0, Beta=-0.0)) == [
        *("ff800000", "7f800000", "7fc00000", "80000000", "00000000", "80000000", "00000000")
    ]


@FORMATS
def test_slopes_below_zero(target: FloatFormat) -> None:
    x = np.array([*_NUMBERS, 0.0, -0.0], target.dtype)
    slope = np.resize(np.array([0.3, -1.7, 5.1], target.dtype), x.shape)
    leaky = reference("ACTIVATION_LEAKY_RELU", x, Alpha=0.01)
    parameterized = reference("ACTIVATION_PARAMETERIZED_RELU", x, slope)
    for i, number in enumerate(x.tolist()):
        if number >= 0:
            assert bits_of(leaky)[i] == bits_of(parameterized)[i] == bits_of(x)[i]
        else:
            assert leaky[i] == _rounded(Fraction(number) * Fraction(_float32(0.01)), target)
            assert parameterized[i] == _rounded(Fraction(number) * Fraction(float(slope[i])), target)


def test_slopes_and_special_values() -> None:
    x = np.array([-1.0, 1.0, math.nan, -math.inf, -1e-40, 1e-40, -(2.0**-126)], np.float32)
    assert bits_of(reference("ACTIVATION_LEAKY_RELU", x, Alpha=0.0)) == [
        *("80000000", "3f800000", "7fc00000", "7fc00000", "80000000", "00000000", "80000000")
    ]
    assert bits_of(reference("ACTIVATION_LEAKY_RELU", x, Alpha=math.nan)) == [
        *("7fc00000", "3f800000", "7fc00000", "7fc00000", "80000000", "00000000", "7fc00000")
    ]


def test_slopes_of_integers_wrap() -> None:
    x, slope = np.array([-128, -3, -1, 0, 5], np.int8), np.array([-1, 100, 7, 9, 9], np.int8)
    assert reference("ACTIVATION_PARAMETERIZED_RELU", x, slope).tolist() == [-128, -44, -7, 0, 5]


@FORMATS
@pytest.mark.parametrize(("bias", "threshold"), [(0.0, 0.5), (0.1, 0.3), (-0.7, 1.5), (1.0, -1.0)])
def test_shrink_of_floats(target: FloatFormat, bias: float, threshold: float) -> None:
    x = np.array(_NUMBERS, target.dtype)
    got = reference("ACTIVATION_SHRINK", x, Bias=bias, Threshold=threshold)
    moved, bound = Fraction(_float32(bias)), Fraction(_float32(threshold))
    for number, result in zip(map(Fraction, x.tolist()), got.tolist(), strict=True):
        exact = number - moved if number > bound else number + moved if number < -bound else Fraction(0)
        assert result == _rounded(exact, target)


def test_shrink_of_special_values() -> None:
    x = np.array([math.nan, math.inf, -math.inf, 1e-40, -0.0, 0.5, -0.5], np.float32)
    plain = ["7fc00000", "7f800000", "ff800000", "00000000", "00000000", "00000000", "00000000"]
    assert bits_of(reference("ACTIVATION_SHRINK", x, Bias=1.0, Threshold=0.5)) == plain
    assert bits_of(reference("ACTIVATION_SHRINK", x, Bias=1.0, Threshold=math.nan)) == ["7fc00000", *["00000000"] * 6]
    assert bits_of(reference("ACTIVATION_SHRINK", x[1:], Bias=math.inf, Threshold=0.0))[:2] == ["7fc00000", "7fc00000"]
    assert bits_of(reference("ACTIVATION_SHRINK", x[3:4], Bias=1.0, Threshold=0.0)) == ["00000000"]


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize(
    ("bias", "threshold"), [(0.0, 0.5), (1.5, 2.5), (-3.25, 100.0), (5.0, -1.5), (1e10, 0.0), (0.5, 3e9)]
)
def test_shrink_of_integers_is_exact_truncated_and_saturated(name: str, bias: float, threshold: float) -> None:
    limits = np.iinfo(name)
    numbers = [int(limits.min), 0, 1, 2, 3, 7, 100, 101, int(limits.max) - 1, int(limits.max)]
    numbers += [] if limits.min == 0 else [-1, -2, -3, -7, -100, -101]
    got = reference("ACTIVATION_SHRINK", np.array(numbers, name), Bias=bias, Threshold=threshold)
    moved, bound = Fraction(_float32(bias)), Fraction(_float32(threshold))
    for number, result in zip(numbers, got.tolist(), strict=True):
        exact = number - moved if number > bound else number + moved if number < -bound else Fraction(0)
        assert result == min(max(math.trunc(exact), int(limits.min)), int(limits.max)), number


def test_softsign() -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, 3.0, -0.25, math.inf, -math.inf, 3e38, 1e-38, 1e-40], np.float32)
    expected = [0.0, -0.0, 0.5, -0.5, 0.75, -0.2, 1.0, -1.0, 1.0, float(x[9]), 0.0]
    got = reference("ACTIVATION_SOFTSIGN", x)
    assert got.dtype == np.float64
    assert got.tolist()[:9] == expected[:9]
    assert got.tolist()[9:] == [0.0, 0.0], "denormals count as zero"
    assert np.signbit(got).tolist() == [False, True, False, True, False, True, False, True, False, False, False]
    assert np.isnan(reference("ACTIVATION_SOFTSIGN", np.array([math.nan], np.float16))).all()
