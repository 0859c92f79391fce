"""The true values of trigonometric functions and their inverses, from NumPy's float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import Float64Array, arithmetic_values
from dmlvk.conformance.references.scaling import prescaled

Array = npt.NDArray[Any]


@reference("ELEMENT_WISE_ATAN_YX")
def angle(desc: dml.ElementWiseAtanYx, y: Array, x: Array) -> Float64Array:
    """NumPy's arctan2; the quotient of float32 numbers is far inside float64's range."""
    with np.errstate(invalid="ignore"):
        true: Float64Array = np.arctan2(arithmetic_values(y), arithmetic_values(x))
    return true


@reference("ELEMENT_WISE_ACOS")
def arccosine(desc: dml.ElementWiseAcos, x: Array) -> Float64Array:
    """NumPy's arccosine; NaN outside its domain."""
    return _function(np.arccos, prescaled(x, desc.scale_bias))


@reference("ELEMENT_WISE_ASIN")
def arcsine(desc: dml.ElementWiseAsin, x: Array) -> Float64Array:
    """NumPy's arcsine; NaN outside its domain."""
    return _function(np.arcsin, prescaled(x, desc.scale_bias))


@reference("ELEMENT_WISE_ATAN")
def arctangent(desc: dml.ElementWiseAtan, x: Array) -> Float64Array:
    """NumPy's arctangent."""
    return _function(np.arctan, prescaled(x, desc.scale_bias))


@reference("ELEMENT_WISE_COS")
def cosine(desc: dml.ElementWiseCos, x: Array) -> Float64Array:
    """NumPy's cosine; NaN of infinities."""
    return _function(np.cos, prescaled(x, desc.scale_bias))


@reference("ELEMENT_WISE_SIN")
def sine(desc: dml.ElementWiseSin, x: Array) -> Float64Array:
    """NumPy's sine; NaN of infinities."""
    return _function(np.sin, prescaled(x, desc.scale_bias))


@reference("ELEMENT_WISE_TAN")
def tangent(desc: dml.ElementWiseTan, x: Array) -> Float64Array:
    """NumPy's tangent; NaN of infinities."""
    return _function(np.tan, prescaled(x, desc.scale_bias))


def _function(function: np.ufunc, x: Array) -> Float64Array:
    with np.errstate(invalid="ignore"):
        true: Float64Array = function(arithmetic_values(x))
    return true
