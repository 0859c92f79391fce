"""The references around the exponential function give known values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.references import expected_output

Array = npt.NDArray[Any]

_E = 2.718281828459045


def _tensor(x: Array) -> dml.TensorDesc:
    return dml.TensorDesc(dml.DataType.from_name(x.dtype.name.upper()), x.shape)


def _true(name: str, values: list[float], dtype: type[np.floating[Any]] = np.float32, **attributes: Any) -> list[float]:
    x = np.array(values, dtype)
    tensor = _tensor(x)
    desc = dml.operator_desc(name, InputTensor=tensor, OutputTensor=tensor, **attributes)
    result: list[float] = expected_output(desc, [x]).tolist()
    return result


def _activation(name: str, x: float, **attributes: float) -> float:
    return _true(f"ACTIVATION_{name}", [x], np.float32, **attributes)[0]


def _is(got: float, expected: float) -> bool:
    """Equal to within 2**-48, zeros with their signs."""
    if math.isnan(expected) or expected == 0 or math.isinf(expected):
        return math.isnan(got) if math.isnan(expected) else got == expected and str(got) == str(expected)
    return math.isclose(got, expected, rel_tol=2.0**-48)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.0, 1.0), (-0.0, 1.0), (1e-40, 1.0), (1.0, _E), (-1.0, 1 / _E), (0.5, 1.6487212707001282),
        (10.0, 22026.465794806718), (-87.0, 1.6458114310822737e-38), (1000.0, math.inf), (-1000.0, 0.0),
        (math.inf, math.inf), (-math.inf, 0.0), (math.nan, math.nan),
    ],
)  # fmt: skip
def test_exponential(x: float, expected: float) -> None:
    assert _is(_true("ELEMENT_WISE_EXP", [x])[0], expected)


def test_exponential_of_what_scale_bias_made() -> None:
    half = dml.ScaleBias(0.5, -1.0)
    assert _is(_true("ELEMENT_WISE_EXP", [4.0], ScaleBias=half)[0], _E)
    # 1 + 2**-24 is 1 in float32 and 2**-24 itself a denormal of float16, which counts.
    assert _is(_true("ELEMENT_WISE_EXP", [2.0**-24], ScaleBias=dml.ScaleBias(1.0, 1.0))[0], _E)
    assert _is(_true("ELEMENT_WISE_EXP", [2.0**-24], np.float16)[0], 1 + 2.0**-24 + 2.0**-49)


_INFINITY, _NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("SINH", 0.5, 0.5210953054937474), ("SINH", -2.0, -3.626860407847019),
        ("SINH", 2.0**-20, 9.536743164063946e-07),
        ("SINH", 89.0, 2.2448064095871728e+38), ("SINH", -0.0, -0.0), ("SINH", -1e-40, -0.0),
        ("SINH", 2000.0, _INFINITY),
        ("SINH", -_INFINITY, -_INFINITY), ("SINH", _NAN, _NAN),
        ("COSH", 0.5, 1.1276259652063807), ("COSH", -2.0, 3.7621956910836314), ("COSH", -0.0, 1.0),
        ("COSH", 1e-40, 1.0),
        ("COSH", -_INFINITY, _INFINITY), ("COSH", _NAN, _NAN),
        ("TANH", 0.5, 0.46211715726000973), ("TANH", -2.0, -0.9640275800758169), ("TANH", 30.0, 1.0),
        ("TANH", 2.0**-20, 9.536743164059608e-07), ("TANH", -0.0, -0.0), ("TANH", 1e-40, 0.0),
        ("TANH", -_INFINITY, -1.0), ("TANH", _NAN, _NAN),
    ],
)  # fmt: skip
def test_hyperbolic_functions(name: str, x: float, expected: float) -> None:
    assert _is(_true(f"ELEMENT_WISE_{name}", [x])[0], expected)
    if name == "TANH":
        assert _is(_activation(name, x), expected)


def test_hyperbolic_functions_of_what_scale_bias_made() -> None:
    half = dml.ScaleBias(0.5, -1.0)
    assert _is(_true("ELEMENT_WISE_SINH", [3.0], ScaleBias=half)[0], 0.5210953054937474)
    assert _is(_true("ELEMENT_WISE_COSH", [3.0], ScaleBias=half)[0], 1.1276259652063807)
    assert _is(_true("ELEMENT_WISE_TANH", [3.0], ScaleBias=half)[0], 0.46211715726000973)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.0, 0.5), (-0.0, 0.5), (1e-40, 0.5), (1.0, _E / (1 + _E)), (-1.0, 1 / (1 + _E)), (40.0, 1.0),
        (-87.0, 1.6458114310822737e-38), (-1000.0, 0.0), (-_INFINITY, 0.0), (_INFINITY, 1.0), (_NAN, _NAN),
    ],
)  # fmt: skip
def test_sigmoid(x: float, expected: float) -> None:
    assert _is(_activation("SIGMOID", x), expected)


@pytest.mark.parametrize(
    ("x", "scale", "expected"),
    [
        (2.0, 0.0, 1.0), (-2.0, -0.0, -1.0), (3.0, 1e-40, 1.5), (1.0, 1.0, _E / (1 + _E)), (-1.0, 1.0, -1 / (1 + _E)),
        (2.0, -0.5, 2 / (1 + _E)), (2.0**127, 2.0**-126, 1.4985985723568012e+38),
        (2.0**127, -(2.0**-120), 4.376387467694916e-18),
        (_INFINITY, 1.0, _INFINITY), (-_INFINITY, 1.0, -0.0), (_INFINITY, -2.0, 0.0), (-_INFINITY, -2.0, -_INFINITY),
        (_INFINITY, 0.0, _NAN), (0.0, _INFINITY, _NAN), (-0.0, 5.0, -0.0), (1e-40, 5.0, 0.0),
        (2.0, _INFINITY, 2.0), (-2.0, _INFINITY, -0.0), (-2.0, -_INFINITY, -2.0), (2.0, -_INFINITY, 0.0),
        (-_INFINITY, _INFINITY, -0.0), (_NAN, 1.0, _NAN), (1.0, _NAN, _NAN),
    ],
)  # fmt: skip
def test_swish(x: float, scale: float, expected: float) -> None:
    assert _is(_activation("SWISH", x, SigmoidInputScale=scale), expected)


@pytest.mark.parametrize(
    ("x", "alpha", "expected"),
    [
        (2.5, 3.0, 2.5), (0.0, _NAN, 0.0), (-0.0, 2.0, -0.0), (-1e-40, 2.0, -0.0), (1e-40, 2.0, 0.0),
        (_INFINITY, 2.0, _INFINITY),
        (-1.0, 1.0, 1 / _E - 1), (-1.0, -2.0, 2 - 2 / _E), (-(2.0**-30), 2.0, -(2.0**-29) * (1 - 2.0**-31)),
        (-_INFINITY, 1.5, -1.5), (-1.0, _INFINITY, -_INFINITY), (-1.0, -_INFINITY, _INFINITY), (-1.0, 0.0, -0.0),
        (-1.0, -1e-40, 0.0), (-1.0, _NAN, _NAN), (1.0, _NAN, 1.0), (_NAN, 1.0, _NAN),
    ],
)  # fmt: skip
def test_exponential_linear(x: float, alpha: float, expected: float) -> None:
    assert _is(_activation("ELU", x, Alpha=alpha), expected)


@pytest.mark.parametrize(
    ("x", "alpha", "gamma", "expected"),
    [
        (2.5, 3.0, -2.0, -5.0), (0.0, 3.0, -2.0, -0.0), (-0.0, 3.0, 2.0, -0.0), (-1.0, 2.0, 4.0, 8 / _E - 8),
        (-_INFINITY, 1.5, 2.0, -3.0), (_INFINITY, 1.5, -2.0, -_INFINITY), (1.0, _NAN, 2.0, 2.0),
        (-1.0, _NAN, 2.0, _NAN),
        (1.0, 1.0, _NAN, _NAN), (_NAN, 1.0, 1.0, _NAN), (_INFINITY, 1.0, 0.0, _NAN), (0.0, 1.0, _INFINITY, _NAN),
        (-1.0, 0.0, _INFINITY, _NAN), (-1.0, _INFINITY, 1e-40, _NAN), (-1.0, _INFINITY, -1.0, _INFINITY),
        (-1.0, 2.0**100, 2.0**100, 2.0**200 * (1 / _E - 1)), (5.0, _INFINITY, 2.0, 10.0),
    ],
)  # fmt: skip
def test_scaled_exponential_linear(x: float, alpha: float, gamma: float, expected: float) -> None:
    assert _is(_activation("SCALED_ELU", x, Alpha=alpha, Gamma=gamma), expected)


@pytest.mark.parametrize(
    ("x", "alpha", "expected"),
    [
        (2.5, 3.0, 2.5), (2.5, -3.0, 2.5), (-0.0, 2.0, -0.0), (-1e-40, 2.0, -0.0), (_INFINITY, -2.0, _INFINITY),
        (-1.0, 1.0, 1 / _E - 1), (-2.0, 2.0, 2 / _E - 2), (-2.0, -2.0, 2 - 2 * _E), (-1.0, 2.0**-20, -(2.0**-20)),
        (-1.0, 2.0**120, -1.0), (-_INFINITY, 1.5, -1.5), (-_INFINITY, -1.5, -_INFINITY),
        (-1.0, 0.0, -0.0), (-1.0, -0.0, -0.0), (-1.0, -1e-40, -0.0), (1.0, 0.0, 1.0), (-_INFINITY, 0.0, -0.0),
        (-3.0, _INFINITY, -3.0), (-3.0, -_INFINITY, -3.0), (-_INFINITY, _INFINITY, -_INFINITY),
        (1.0, _NAN, _NAN), (-1.0, _NAN, _NAN), (_NAN, 1.0, _NAN), (_NAN, 0.0, _NAN), (_NAN, _INFINITY, _NAN),
    ],
)  # fmt: skip
def test_continuous_exponential_linear(x: float, alpha: float, expected: float) -> None:
    assert _is(_activation("CELU", x, Alpha=alpha), expected)


@pytest.mark.parametrize(
    ("x", "alpha", "beta", "expected"),
    [
        (1.0, 3.0, 0.5, 3 * 0.46211715726000973), (-1.0, 3.0, 0.5, -3 * 0.46211715726000973), (5.0, 2.0, 1e-40, 0.0),
        (2.0**-100, 2.0**100, 2.0**-100, 2.0**-100), (_INFINITY, -2.0, 3.0, -2.0), (-0.0, 2.0, 3.0, -0.0),
        (1.0, 2.0, -_INFINITY, -2.0), (0.0, 2.0, _INFINITY, _NAN), (_INFINITY, 2.0, 0.0, _NAN),
        (1.0, _INFINITY, 1.0, _INFINITY),
        (0.0, _INFINITY, 1.0, _NAN), (1.0, _INFINITY, 0.0, _NAN), (1.0, _NAN, 1.0, _NAN), (1.0, 1.0, _NAN, _NAN),
        (_NAN, 1.0, 1.0, _NAN), (1.0, -0.0, 1.0, -0.0),
    ],
)  # fmt: skip
def test_scaled_hyperbolic_tangent(x: float, alpha: float, beta: float, expected: float) -> None:
    assert _is(_activation("SCALED_TANH", x, Alpha=alpha, Beta=beta), expected)
