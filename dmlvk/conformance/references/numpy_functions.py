"""The true values of functions that NumPy has, from its float64: NaN outside their domains, infinite beyond float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import Float64Array, arithmetic_values
from dmlvk.conformance.references.scaling import prescaled

Array = npt.NDArray[Any]

_FUNCTIONS: dict[str, np.ufunc] = {
    "ACTIVATION_TANH": np.tanh,
    "ELEMENT_WISE_ACOS": np.arccos,
    "ELEMENT_WISE_ACOSH": np.arccosh,
    "ELEMENT_WISE_ASIN": np.arcsin,
    "ELEMENT_WISE_ASINH": np.arcsinh,
    "ELEMENT_WISE_ATAN": np.arctan,
    "ELEMENT_WISE_ATANH": np.arctanh,
    "ELEMENT_WISE_COS": np.cos,
    "ELEMENT_WISE_COSH": np.cosh,
    "ELEMENT_WISE_EXP": np.exp,
    "ELEMENT_WISE_LOG": np.log,
    "ELEMENT_WISE_SIN": np.sin,
    "ELEMENT_WISE_SINH": np.sinh,
    "ELEMENT_WISE_TAN": np.tan,
    "ELEMENT_WISE_TANH": np.tanh,
}


@reference(*_FUNCTIONS)
def function(desc: dml.OperatorDesc, x: Array) -> Float64Array:
    """NumPy's function, of the scaled input where there is a ScaleBias."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        numbers = arithmetic_values(prescaled(x, getattr(desc, "scale_bias", None)))
        true: Float64Array = _FUNCTIONS[desc.operator_name](numbers)
    return true


@reference("ELEMENT_WISE_ATAN_YX")
def angle(desc: dml.ElementWiseAtanYx, y: Array, x: Array) -> Float64Array:
    """NumPy's arctan2; the quotient of float32 numbers is far inside float64's range."""
    with np.errstate(invalid="ignore"):
        true: Float64Array = np.arctan2(arithmetic_values(y), arithmetic_values(x))
    return true
