"""True values of the operators around the exponential function, in float64.

NumPy's functions of float64 stand for the true values: they are within a few units of float64's last place, 2**-51,
while results are judged in units of float32's, 2**-23.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import Float64Array, arithmetic_value, arithmetic_values

Array = npt.NDArray[Any]


@reference("ACTIVATION_SCALED_TANH")
def scaled_hyperbolic_tangent(desc: dml.ActivationScaledTanh, x: Array) -> Float64Array:
    """Products of float32 values are exact in float64, and neither overflow nor vanish."""
    with np.errstate(invalid="ignore"):
        true: Float64Array = arithmetic_value(desc.alpha) * np.tanh(arithmetic_value(desc.beta) * arithmetic_values(x))
    return true


def _logistic(t: Float64Array) -> Float64Array:
    """Through the hyperbolic tangent above -1, where that loses nothing; below by a quotient of two numbers below 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        power = np.exp(np.minimum(t, 0.0))
        return np.where(t > -1.0, 0.5 + 0.5 * np.tanh(0.5 * t), power / (1.0 + power))


@reference("ACTIVATION_SIGMOID")
def logistic(desc: dml.ActivationSigmoid, x: Array) -> Float64Array:
    """See :func:`_logistic`."""
    return _logistic(arithmetic_values(x))


@reference("ACTIVATION_SWISH")
def swish(desc: dml.ActivationSwish, x: Array) -> Float64Array:
    """The product; its limit where an infinity meets a zero."""
    numbers = arithmetic_values(x)
    with np.errstate(invalid="ignore"):
        argument = arithmetic_value(desc.sigmoid_input_scale) * numbers
        product = numbers * _logistic(argument)
    return np.where(np.isinf(numbers) & (argument < 0), np.copysign(0.0, numbers), product)


@reference("ACTIVATION_ELU")
def exponential_linear(desc: dml.ActivationElu, x: Array) -> Float64Array:
    """NumPy's expm1."""
    numbers = arithmetic_values(x)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(numbers >= 0, numbers, arithmetic_value(desc.alpha) * np.expm1(numbers))


@reference("ACTIVATION_SCALED_ELU")
def scaled_exponential_linear(desc: dml.ActivationScaledElu, x: Array) -> Float64Array:
    """NumPy's expm1; the product of the factors is exact in float64."""
    numbers = arithmetic_values(x)
    alpha, gamma = arithmetic_value(desc.alpha), arithmetic_value(desc.gamma)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(numbers >= 0, gamma * numbers, gamma * alpha * np.expm1(numbers))


@reference("ACTIVATION_CELU")
def continuous_exponential_linear(desc: dml.ActivationCelu, x: Array) -> Float64Array:
    """NumPy's expm1; a zero or infinite Alpha by its limits."""
    numbers = arithmetic_values(x)
    alpha = arithmetic_value(desc.alpha)
    if math.isnan(alpha):
        return np.full(x.shape, alpha)
    if math.isinf(alpha):
        return numbers
    with np.errstate(over="ignore", invalid="ignore"):
        below = alpha * np.expm1(numbers / alpha) if alpha else np.where(np.isnan(numbers), numbers, -0.0)
    return np.where(numbers >= 0, numbers, below)
