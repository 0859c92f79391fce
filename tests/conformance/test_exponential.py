"""The references around the exponential function give known values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from tests.conformance.known import reference

Array = npt.NDArray[Any]

_E = 2.718281828459045
INF, NAN = math.inf, math.nan


def _is(got: float, expected: float) -> bool:
    """Equal to within 2**-48, zeros with their signs."""
    if math.isnan(expected) or expected == 0 or math.isinf(expected):
        return math.isnan(got) if math.isnan(expected) else got == expected and str(got) == str(expected)
    return math.isclose(got, expected, rel_tol=2.0**-48)


KNOWN: dict[str, tuple[tuple[str, ...], list[tuple[float, ...]]]] = {
    "ELEMENT_WISE_EXP": (
        (),
        [
            (0.0, 1.0), (-0.0, 1.0), (1e-40, 1.0), (1.0, _E), (-1.0, 1 / _E), (0.5, 1.6487212707001282),
            (10.0, 22026.465794806718), (-87.0, 1.6458114310822737e-38), (1000.0, math.inf), (-1000.0, 0.0),
            (math.inf, math.inf), (-math.inf, 0.0), (math.nan, math.nan),
        ],
    ),
    "ACTIVATION_SIGMOID": (
        (),
        [
            (0.0, 0.5), (-0.0, 0.5), (1e-40, 0.5), (1.0, _E / (1 + _E)), (-1.0, 1 / (1 + _E)), (40.0, 1.0),
            (-87.0, 1.6458114310822737e-38), (-1000.0, 0.0), (-INF, 0.0), (INF, 1.0), (NAN, NAN),
        ],
    ),
    "ACTIVATION_SWISH": (
        ("SigmoidInputScale",),
        [
            (2.0, 0.0, 1.0), (-2.0, -0.0, -1.0), (3.0, 1e-40, 1.5), (1.0, 1.0, _E / (1 + _E)),
            (-1.0, 1.0, -1 / (1 + _E)), (2.0, -0.5, 2 / (1 + _E)), (2.0**127, 2.0**-126, 1.4985985723568012e+38),
            (2.0**127, -(2.0**-120), 4.376387467694916e-18),
            (INF, 1.0, INF), (-INF, 1.0, -0.0), (INF, -2.0, 0.0), (-INF, -2.0, -INF),
            (INF, 0.0, NAN), (0.0, INF, NAN), (-0.0, 5.0, -0.0), (1e-40, 5.0, 0.0),
            (2.0, INF, 2.0), (-2.0, INF, -0.0), (-2.0, -INF, -2.0), (2.0, -INF, 0.0),
            (-INF, INF, -0.0), (NAN, 1.0, NAN), (1.0, NAN, NAN),
        ],
    ),
    "ACTIVATION_ELU": (
        ("Alpha",),
        [
            (2.5, 3.0, 2.5), (0.0, NAN, 0.0), (-0.0, 2.0, -0.0), (-1e-40, 2.0, -0.0), (1e-40, 2.0, 0.0),
            (INF, 2.0, INF),
            (-1.0, 1.0, 1 / _E - 1), (-1.0, -2.0, 2 - 2 / _E), (-(2.0**-30), 2.0, -(2.0**-29) * (1 - 2.0**-31)),
            (-INF, 1.5, -1.5), (-1.0, INF, -INF), (-1.0, -INF, INF), (-1.0, 0.0, -0.0),
            (-1.0, -1e-40, 0.0), (-1.0, NAN, NAN), (1.0, NAN, 1.0), (NAN, 1.0, NAN),
        ],
    ),
    "ACTIVATION_SCALED_ELU": (
        ("Alpha", "Gamma"),
        [
            (2.5, 3.0, -2.0, -5.0), (0.0, 3.0, -2.0, -0.0), (-0.0, 3.0, 2.0, -0.0), (-1.0, 2.0, 4.0, 8 / _E - 8),
            (-INF, 1.5, 2.0, -3.0), (INF, 1.5, -2.0, -INF), (1.0, NAN, 2.0, 2.0),
            (-1.0, NAN, 2.0, NAN),
            (1.0, 1.0, NAN, NAN), (NAN, 1.0, 1.0, NAN), (INF, 1.0, 0.0, NAN), (0.0, 1.0, INF, NAN),
            (-1.0, 0.0, INF, NAN), (-1.0, INF, 1e-40, NAN), (-1.0, INF, -1.0, INF),
            (-1.0, 2.0**100, 2.0**100, 2.0**200 * (1 / _E - 1)), (5.0, INF, 2.0, 10.0),
        ],
    ),
    "ACTIVATION_CELU": (
        ("Alpha",),
        [
            (2.5, 3.0, 2.5), (2.5, -3.0, 2.5), (-0.0, 2.0, -0.0), (-1e-40, 2.0, -0.0), (INF, -2.0, INF),
            (-1.0, 1.0, 1 / _E - 1), (-2.0, 2.0, 2 / _E - 2), (-2.0, -2.0, 2 - 2 * _E), (-1.0, 2.0**-20, -(2.0**-20)),
            (-1.0, 2.0**120, -1.0), (-INF, 1.5, -1.5), (-INF, -1.5, -INF),
            (-1.0, 0.0, -0.0), (-1.0, -0.0, -0.0), (-1.0, -1e-40, -0.0), (1.0, 0.0, 1.0), (-INF, 0.0, -0.0),
            (-3.0, INF, -3.0), (-3.0, -INF, -3.0), (-INF, INF, -INF),
            (1.0, NAN, NAN), (-1.0, NAN, NAN), (NAN, 1.0, NAN), (NAN, 0.0, NAN), (NAN, INF, NAN),
        ],
    ),
    "ACTIVATION_SCALED_TANH": (
        ("Alpha", "Beta"),
        [
            (1.0, 3.0, 0.5, 3 * 0.46211715726000973), (-1.0, 3.0, 0.5, -3 * 0.46211715726000973),
            (5.0, 2.0, 1e-40, 0.0), (2.0**-100, 2.0**100, 2.0**-100, 2.0**-100),
            (INF, -2.0, 3.0, -2.0), (-0.0, 2.0, 3.0, -0.0), (1.0, 2.0, -INF, -2.0), (0.0, 2.0, INF, NAN),
            (INF, 2.0, 0.0, NAN),
            (1.0, INF, 1.0, INF),
            (0.0, INF, 1.0, NAN), (1.0, INF, 0.0, NAN), (1.0, NAN, 1.0, NAN), (1.0, 1.0, NAN, NAN),
            (NAN, 1.0, 1.0, NAN), (1.0, -0.0, 1.0, -0.0),
        ],
    ),
    "ELEMENT_WISE_SINH": (
        (),
        [
            (0.5, 0.5210953054937474), (-2.0, -3.626860407847019), (2.0**-20, 9.536743164063946e-07),
            (89.0, 2.2448064095871728e+38), (-0.0, -0.0), (-1e-40, -0.0), (2000.0, INF),
            (-INF, -INF), (NAN, NAN),
        ],
    ),
    "ELEMENT_WISE_COSH": (
        (),
        [
            (0.5, 1.1276259652063807), (-2.0, 3.7621956910836314), (-0.0, 1.0), (1e-40, 1.0),
            (-INF, INF), (NAN, NAN),
        ],
    ),
    "ELEMENT_WISE_TANH": (
        (),
        [
            (0.5, 0.46211715726000973), (-2.0, -0.9640275800758169), (30.0, 1.0),
            (2.0**-20, 9.536743164059608e-07), (-0.0, -0.0), (1e-40, 0.0), (-INF, -1.0), (NAN, NAN),
        ],
    ),
    "ACTIVATION_TANH": (
        (),
        [
            (0.5, 0.46211715726000973), (-2.0, -0.9640275800758169), (30.0, 1.0),
            (2.0**-20, 9.536743164059608e-07), (-0.0, -0.0), (1e-40, 0.0), (-INF, -1.0), (NAN, NAN),
        ],
    ),
}  # fmt: skip
"""By operator its attributes, and rows of an input, values of these attributes, and the result."""


@pytest.mark.parametrize("operator", KNOWN)
def test_known_values(operator: str) -> None:
    names, rows = KNOWN[operator]
    for x, *values, expected in rows:
        attributes: dict[str, Any] = dict(zip(names, values, strict=True))
        (got,) = reference(operator, np.array([x], np.float32), **attributes)
        assert _is(float(got), expected), (x, *values)


def test_exponential_of_what_scale_bias_made() -> None:
    half = dml.ScaleBias(0.5, -1.0)
    assert _is(reference("ELEMENT_WISE_EXP", np.array([4.0], np.float32), ScaleBias=half)[0], _E)
    # 1 + 2**-24 is 1 in float32 and 2**-24 itself a denormal of float16, which counts.
    assert _is(
        reference("ELEMENT_WISE_EXP", np.array([2.0**-24], np.float32), ScaleBias=dml.ScaleBias(1.0, 1.0))[0], _E
    )
    assert _is(reference("ELEMENT_WISE_EXP", np.array([2.0**-24], np.float16))[0], 1 + 2.0**-24 + 2.0**-49)


def test_hyperbolic_functions_of_what_scale_bias_made() -> None:
    half = dml.ScaleBias(0.5, -1.0)
    assert _is(reference("ELEMENT_WISE_SINH", np.array([3.0], np.float32), ScaleBias=half)[0], 0.5210953054937474)
    assert _is(reference("ELEMENT_WISE_COSH", np.array([3.0], np.float32), ScaleBias=half)[0], 1.1276259652063807)
    assert _is(reference("ELEMENT_WISE_TANH", np.array([3.0], np.float32), ScaleBias=half)[0], 0.46211715726000973)
