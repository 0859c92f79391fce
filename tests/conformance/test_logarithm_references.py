"""The references of logarithms and powers give known values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from tests.conformance.known import float32, reference, signed

Array = npt.NDArray[Any]


def test_logarithm_of_special_values() -> None:
    x = float32(0, 0x80000000, 1, 0x807FFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7F800001)
    assert signed(reference("ELEMENT_WISE_LOG", x)) == [
        "-inf",
        "-inf",
        "-inf",
        "-inf",
        "0.0",
        "nan",
        "inf",
        "nan",
        "nan",
    ]
    half = np.array([0, 1, 0x8001, 0xFC00], np.uint16).view(np.float16)
    assert signed(reference("ELEMENT_WISE_LOG", half)) == ["-inf", repr(-24 * math.log(2)), "nan", "nan"]


def test_logarithm_next_to_one_is_a_series_in_the_distance() -> None:
    x = float32(0x3F7FFFFF, 0x3F800001)
    for value, distance in zip(reference("ELEMENT_WISE_LOG", x), (-(2.0**-24), 2.0**-23), strict=True):
        series = distance - distance**2 / 2 + distance**3 / 3
        assert abs(value / series - 1) < 2.0**-50


def test_logarithm_after_scale_and_bias() -> None:
    x = np.array([0.0, 1.0, 2.5], np.float32)
    got = reference("ELEMENT_WISE_LOG", x, ScaleBias=dml.ScaleBias(2.0, 3.0))
    assert np.abs(got - [math.log(3), math.log(5), math.log(8)]).max() < 2.0**-50


def test_inverse_hyperbolic_functions_undo_the_hyperbolic_ones() -> None:
    """Where the hyperbolic function does not lose what its inverse needs."""
    pairs: list[tuple[Any, Any, Array]] = [
        ("ELEMENT_WISE_ACOSH", np.cosh, np.linspace(1.0, 80.0, 1000)),
        ("ELEMENT_WISE_ASINH", np.sinh, np.linspace(-80.0, 80.0, 1001)),
        ("ELEMENT_WISE_ATANH", np.tanh, np.linspace(-1.0, 1.0, 1001)),
    ]
    for operator, function, y in pairs:
        x = function(y).astype(np.float32)
        true = reference(operator, x)
        assert np.abs(function(true) - x).max() <= 1e-13 * np.abs(x).max()
        assert np.abs(true - y).max() < 3e-7, "off by x's rounding at most"


def test_inverse_hyperbolic_functions_of_small_distances_are_series() -> None:
    t = 2.0**-23
    above_one = np.array([1 + t], np.float32)
    series = math.sqrt(2 * t) * (1 - t / 12)
    assert abs(reference("ELEMENT_WISE_ACOSH", above_one)[0] / series - 1) < 1e-14
    x = 2.0**-20
    small = np.array([x, -x], np.float32)
    for operator, term in (("ELEMENT_WISE_ASINH", -1 / 6), ("ELEMENT_WISE_ATANH", 1 / 3)):
        expected = np.array([1.0, -1.0]) * (x + term * x**3)
        assert np.abs(reference(operator, small) / expected - 1).max() < 1e-15
    below_one = np.array([1 - 2.0**-24], np.float32)
    assert abs(reference("ELEMENT_WISE_ATANH", below_one)[0] - math.log(2.0**25 - 1) / 2) < 1e-14


def test_inverse_hyperbolic_functions_of_special_values() -> None:
    x = float32(0, 0x80000000, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00001)
    above, half = float32(0x3F800001), float32(0x3F000000)
    acosh, asinh, atanh = "ELEMENT_WISE_ACOSH", "ELEMENT_WISE_ASINH", "ELEMENT_WISE_ATANH"
    assert signed(reference(acosh, x)) == ["nan"] * 4 + ["0.0", "nan", "inf", "nan", "nan"]
    one = math.log(1 + math.sqrt(2))
    got = reference(asinh, x)
    assert signed(got[:4]) == ["0.0", "-0.0", "0.0", "-0.0"]
    assert np.abs(got[4:6] - [one, -one]).max() < 1e-15
    assert signed(got[6:]) == ["inf", "-inf", "nan"]
    expected = ["0.0", "-0.0", "0.0", "-0.0", "inf", "-inf", "nan", "nan", "nan"]
    assert signed(reference(atanh, x)) == expected
    assert signed(reference(atanh, above)) == ["nan"]
    assert abs(reference(atanh, half)[0] - math.log(3) / 2) < 1e-15


def _softplus(x: Array, steepness: float) -> Array:
    return reference("ACTIVATION_SOFTPLUS", x, Steepness=steepness)


def _parametric_softplus(x: Array, alpha: float, beta: float) -> Array:
    return reference("ACTIVATION_PARAMETRIC_SOFTPLUS", x, Alpha=alpha, Beta=beta)


def test_softplus_is_symmetric_about_its_ramp_and_follows_its_ends() -> None:
    x = np.linspace(-30, 30, 121, dtype=np.float32)
    for steepness in (1.0, 2.5, -3.0, 2.0**-20):
        got = _softplus(x, steepness)
        assert np.abs(got - got[::-1] - x).max() <= 1e-14 * np.abs(got).max(), "f(x) - f(-x) = x"
        assert got[60] == math.log(2) / steepness
        assert np.abs(_parametric_softplus(x, 3.0, steepness) / (3 * steepness * got) - 1).max() < 1e-14
    far = np.array([200.0, -200.0], np.float32)
    assert np.abs(_softplus(far, 1.0) / [200.0, math.exp(-200.0)] - 1).max() < 1e-15


def test_softplus_of_special_values_and_attributes() -> None:
    inf, nan = math.inf, math.nan
    x = np.array([-inf, -2.0, -0.0, 1e-40, 2.0, inf, nan], np.float32)
    assert signed(_softplus(x, 0.0)) == ["nan", *["inf"] * 4, "nan", "nan"]
    assert signed(_softplus(x, -1e-40)) == ["nan", *["-inf"] * 4, "nan", "nan"]
    assert signed(_softplus(x, inf)) == ["0.0", "0.0", "nan", "nan", "nan", "nan", "nan"]
    assert signed(_softplus(x, -inf)) == ["nan", "nan", "nan", "nan", "-0.0", "-0.0", "nan"]
    assert signed(_softplus(x, nan)) == ["nan"] * 7
    assert signed(_softplus(x, 1.0))[::5] == ["0.0", "inf"]
    assert signed(_softplus(x, -1.0))[::5] == ["-inf", "-0.0"]
    assert signed(_parametric_softplus(x, -0.0, 1.0)) == ["-0.0", *["-0.0"] * 4, "nan", "nan"]
    assert signed(_parametric_softplus(x, -inf, 1.0)) == ["nan", *["-inf"] * 4, "-inf", "nan"]
    assert signed(_parametric_softplus(np.array([-1e30], np.float32), inf, 1.0)) == ["inf"], "above zero, if by little"
    assert signed(_parametric_softplus(x, nan, 1.0)) == ["nan"] * 7
