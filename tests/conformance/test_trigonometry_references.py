"""The references of trigonometric functions agree with series that are summed in exact integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from tests.conformance.known import reference, signed

Array = npt.NDArray[Any]

PRECISION = 300
"""Bits behind the point of the fixed-point numbers here: 128 for the largest float32, 64 for a remainder near zero."""


def _inverse_arctangent(n: int) -> int:
    """arctan(1 / n)."""
    power, total, k = (1 << PRECISION) // n, 0, 0
    while power:
        total += (-1) ** k * (power // (2 * k + 1))
        power //= n * n
        k += 1
    return total


PI = 4 * (4 * _inverse_arctangent(5) - _inverse_arctangent(239))  # J. Machin's formula


def _sine_and_cosine(x: Fraction) -> tuple[float, float]:
    angle = int(x * (1 << PRECISION)) % (2 * PI)
    sums, power, n = [0, 0], 1 << PRECISION, 0
    while power:
        sums[n % 2] += power if n % 4 < 2 else -power
        n += 1
        power = (power * angle >> PRECISION) // n
    cosine, sine = (float(Fraction(total, 1 << PRECISION)) for total in sums)
    return sine, cosine


# 16367173 * 2**72 is the float32 nearest to a multiple of pi/2, 9168424 * 2**-12 one of the nearest below 4096.
ANGLES = [0.1, 0.5, 0.7853982, 1.0, 1.5707964, 3.1415927, 4.0, 6.2831855, 100.0, 4095.9998, 4096.0, 65504.0, 1e10]
ANGLES += [16367173 * 2.0**72, 9168424 * 2.0**-12, 1e30, 3.4028235e38, 2.0**127, 1e-30, 2.0**-126]


def test_sine_cosine_and_tangent_agree_with_series() -> None:
    x = np.array([*ANGLES, *(-angle for angle in ANGLES)], np.float32)
    expected = [_sine_and_cosine(Fraction(float(value))) for value in x]
    sines, cosines = (np.array(column) for column in zip(*expected, strict=True))
    np.testing.assert_allclose(reference("ELEMENT_WISE_SIN", x), sines, rtol=2.0**-48)
    np.testing.assert_allclose(reference("ELEMENT_WISE_COS", x), cosines, rtol=2.0**-48)
    np.testing.assert_allclose(reference("ELEMENT_WISE_TAN", x), sines / cosines, rtol=2.0**-48)


@pytest.mark.parametrize("operator", ["ELEMENT_WISE_SIN", "ELEMENT_WISE_COS", "ELEMENT_WISE_TAN"])
def test_trigonometric_functions_of_infinities_are_nan(operator: str) -> None:
    for dtype in (np.float32, np.float16):
        x = np.array([math.inf, -math.inf, math.nan], dtype)
        assert np.isnan(reference(operator, x)).all()


def test_odd_functions_keep_the_sign_of_zero_and_float32_denormals_are_zeros() -> None:
    x = np.array([0.0, -0.0, 1e-40, -1e-40], np.float32)
    for operator in ("ELEMENT_WISE_SIN", "ELEMENT_WISE_TAN"):
        assert [math.copysign(1, value) if value == 0 else 0 for value in reference(operator, x)] == [1, -1, 1, -1]
    assert reference("ELEMENT_WISE_COS", x).tolist() == [1.0] * 4
    tiny = np.array([2.0**-24], np.float16)
    assert reference("ELEMENT_WISE_SIN", tiny).tolist() == [math.sin(2.0**-24)]


def test_an_angle_is_scaled_and_biased_first() -> None:
    x = np.array([1.0, 2.0], np.float32)
    pair = dml.ScaleBias(-2.0, 0.5)
    assert reference("ELEMENT_WISE_SIN", x, ScaleBias=pair).tolist() == [math.sin(-1.5), math.sin(-3.5)]
    assert reference("ELEMENT_WISE_COS", x, ScaleBias=pair).tolist() == [math.cos(-1.5), math.cos(-3.5)]


def test_inverse_functions_undo_the_series() -> None:
    angles = np.array([-1.5, -0.7, -0.1, 1e-6, 0.3, 0.5235988, 0.8, 1.2, 1.57])
    for angle in angles.tolist():
        sine, cosine = _sine_and_cosine(Fraction(angle))
        for operator, value, slope in (
            ("ELEMENT_WISE_ASIN", sine, 1 / cosine),
            ("ELEMENT_WISE_ACOS", sine, -1 / cosine),
            ("ELEMENT_WISE_ATAN", sine / cosine, cosine * cosine),
        ):
            x = np.array([value], np.float32)
            difference = float(x[0]) - value
            if abs(slope * difference) > 2.0**-24:
                continue  # too steep for one step along the tangent
            start = angle if operator != "ELEMENT_WISE_ACOS" else math.pi / 2 - angle
            curved = start + slope * difference
            np.testing.assert_allclose(reference(operator, x), [curved], rtol=0, atol=2.0**-40)


def test_inverse_functions_of_special_values() -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, 1.0000001, math.inf, -math.inf, math.nan, -1e-40], np.float32)
    half_pi, quarter_pi, pi = PI / 2 ** (PRECISION + 1), PI / 2 ** (PRECISION + 2), PI / 2**PRECISION
    assert signed(reference("ELEMENT_WISE_ASIN", x)) == signed(
        [0.0, -0.0, half_pi, -half_pi, math.nan, math.nan, math.nan, math.nan, -0.0]
    )
    assert signed(reference("ELEMENT_WISE_ACOS", x)) == signed(
        [half_pi, half_pi, 0.0, pi, math.nan, math.nan, math.nan, math.nan, half_pi]
    )
    assert signed(reference("ELEMENT_WISE_ATAN", x)) == signed(
        [0.0, -0.0, quarter_pi, -quarter_pi, math.atan(1 + 2.0**-23), half_pi, -half_pi, math.nan, -0.0]
    )


def test_angle_of_points_in_every_quadrant_and_at_the_edges() -> None:
    pi, inf = PI / 2**PRECISION, math.inf
    points = [
        (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, pi), (-0.0, -0.0, -pi),
        (0.0, 2.0, 0.0), (-0.0, 2.0, -0.0), (0.0, -2.0, pi), (-0.0, -2.0, -pi),
        (2.0, 0.0, pi / 2), (2.0, -0.0, pi / 2), (-2.0, 0.0, -pi / 2), (-2.0, -0.0, -pi / 2),
        (3.0, inf, 0.0), (-3.0, inf, -0.0), (3.0, -inf, pi), (-3.0, -inf, -pi),
        (inf, 3.0, pi / 2), (-inf, -3.0, -pi / 2),
        (inf, inf, pi / 4), (-inf, inf, -pi / 4), (inf, -inf, 3 * pi / 4), (-inf, -inf, -3 * pi / 4),
        (math.nan, 0.0, math.nan), (0.0, math.nan, math.nan),
        (5.0, 5.0, pi / 4), (5.0, -5.0, 3 * pi / 4), (-5.0, -5.0, -3 * pi / 4), (-5.0, 5.0, -pi / 4),
        (2.0**-126, 2.0**127, 2.0**-253), (2.0**-126, -(2.0**127), pi), (1e-40, 1.0, 0.0), (-1e-40, -1e-40, -pi),
    ]  # fmt: skip
    y, x, expected = (np.array(column) for column in zip(*points, strict=True))
    found = reference("ELEMENT_WISE_ATAN_YX", y.astype(np.float32), x.astype(np.float32))
    assert signed(found) == signed(expected)
