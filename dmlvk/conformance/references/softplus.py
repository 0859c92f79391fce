"""The true values of SOFTPLUS, from float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import Float64Array, arithmetic_values

Array = npt.NDArray[Any]


def _softplus(product: Float64Array) -> Float64Array:
    """ln(1 + exp(product)); of finite products above zero, be it by less than any result tells."""
    with np.errstate(invalid="ignore"):
        ramp: Float64Array = np.logaddexp(0.0, product)
    return np.where(np.isfinite(product), np.maximum(ramp, 2.0**-1000), ramp)


def _factor(value: float) -> np.float64:
    """A FLOAT attribute as arithmetic takes it."""
    return np.float64(arithmetic_values(np.array([value], np.float32))[0])


@reference("ACTIVATION_SOFTPLUS")
def softplus(desc: dml.ActivationSoftplus, x: Array) -> Float64Array:
    """The formula; the product of two float32 numbers is exact in float64."""
    steepness = _factor(desc.steepness)
    with np.errstate(divide="ignore", invalid="ignore"):
        true: Float64Array = _softplus(steepness * arithmetic_values(x)) / steepness
    return true


@reference("ACTIVATION_PARAMETRIC_SOFTPLUS")
def parametric_softplus(desc: dml.ActivationParametricSoftplus, x: Array) -> Float64Array:
    """The formula; the product of two float32 numbers is exact in float64."""
    with np.errstate(invalid="ignore"):
        true: Float64Array = _factor(desc.alpha) * _softplus(_factor(desc.beta) * arithmetic_values(x))
    return true
