"""The references of the error function and of GELU agree with Python's, and with exact series."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from tests.conformance.known import reference, signed

Array = npt.NDArray[Any]


def _samples(count: int, widest: float) -> Array:
    """Float32 numbers of both signs, of every magnitude up to ``widest``, and the places where the method changes."""
    random = np.random.default_rng(11)
    spread = random.uniform(-widest, widest, count)
    small = random.choice((-1, 1), count) * 2.0 ** random.uniform(-126, 3, count)
    edges = [0.5, 0.49999997, math.sqrt(0.5), 0.70710677, 6.0, 5.9999995, 36.0, 37.0]
    samples: Array = np.concatenate([spread, small, edges, np.negative(edges)]).astype(np.float32)
    return samples


def test_error_function_agrees_with_pythons() -> None:
    x = _samples(20000, 7.0)
    expected = [math.erf(value) for value in x.tolist()]
    np.testing.assert_allclose(reference("ELEMENT_WISE_ERF", x), expected, rtol=2.0**-48)


def _probability_below(x: float) -> float:
    """The normal distribution's, from Python's erfc, whose slope makes up for the rounding of x / sqrt(2)."""
    y = -x * math.sqrt(0.5)
    rounding = float(Fraction(x) ** 2 / 2 - Fraction(y) ** 2) / (2 * y)
    return 0.5 * (math.erfc(y) - 2 / math.sqrt(math.pi) * math.exp(-y * y) * rounding)


def test_gelu_agrees_with_pythons_complementary_error_function() -> None:
    x = _samples(20000, 14.0)
    x = x[np.abs(x) < 36]
    expected = [value * _probability_below(value) for value in x.tolist()]
    np.testing.assert_allclose(reference("ACTIVATION_GELU", x), expected, rtol=2.0**-46)


def test_gelu_below_zero_agrees_with_a_series_of_fractions() -> None:
    # x / 2 + x^2 / sqrt(2 pi) * (1 - x^2 / 6 + x^4 / 40 - ...), in which much cancels: hence 400 bits.
    root = Fraction(math.isqrt((1 << 800) * 2 * 31415926535897932384626433832795 // 10**31), 1 << 400)
    for x in (-0.5, -1.5, -3.0, -5.0):
        square, term, total = Fraction(x) ** 2, Fraction(1), Fraction(0)
        for n in range(200):
            total += term / (2 * n + 1)
            term *= -square / (2 * (n + 1))
        expected = float(Fraction(x) / 2 + square * total / root)
        got = float(reference("ACTIVATION_GELU", np.array([x], np.float32))[0])
        assert math.isclose(got, expected, rel_tol=2.0**-46), x


def test_special_values() -> None:
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e30, -1e30], np.float32)
    assert signed(reference("ELEMENT_WISE_ERF", x)) == signed([0.0, -0.0, 1, -1, math.nan, 0.0, -0.0, 1, -1])
    got = reference("ACTIVATION_GELU", x)
    assert signed(got) == signed([0.0, -0.0, math.inf, -0.0, math.nan, 0.0, -0.0, x[7], -0.0])
    half = np.array([2.0**-24, -(2.0**-24), 65504, -65504], np.float16)
    assert signed(reference("ELEMENT_WISE_ERF", half))[2:] == ["1.0", "-1.0"]
    tiny = reference("ELEMENT_WISE_ERF", half)[:2] * math.sqrt(math.pi) / 2
    np.testing.assert_allclose(tiny, [2.0**-24, -(2.0**-24)], rtol=2.0**-44)


def test_the_error_function_is_scaled_and_biased_first() -> None:
    x = np.array([1.0, 0.5], np.float32)
    got = reference("ELEMENT_WISE_ERF", x, ScaleBias=dml.ScaleBias(-2.0, 0.5))
    np.testing.assert_allclose(got, [math.erf(-1.5), math.erf(-0.5)], rtol=2.0**-48)
