"""What the activations made of straight lines must give: exact numbers in float64, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.arithmetic import rounded_as
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import (
    Float64Array,
    arithmetic_value,
    arithmetic_values,
    sum_to_odd,
    truncated_affine,
    widened,
)
from dmlvk.conformance.references.scaling import prescaled

Array = npt.NDArray[Any]


@reference("ACTIVATION_LINEAR")
def linear(desc: dml.ActivationLinear, x: Array) -> Array:
    """As a ScaleBias of the same numbers."""
    return prescaled(x, dml.ScaleBias(desc.alpha, desc.beta))


@reference("ACTIVATION_HARD_SIGMOID")
def hard_sigmoid(desc: dml.ActivationHardSigmoid, x: Array) -> Array:
    """The rounded line between the bounds; what is not above zero is +0."""
    line = widened(prescaled(x, dml.ScaleBias(desc.alpha, desc.beta)))
    bounded = np.where(line > 0, np.minimum(line, 1.0), 0.0)
    return rounded_as(x, np.where(np.isnan(line), np.nan, bounded))


@reference("ACTIVATION_HARD_SWISH")
def hard_swish(desc: dml.ActivationHardSwish, x: Array) -> Float64Array:
    """The true value: in float64 the line's product is exact, so that its sum and the last product are rounded."""
    numbers = arithmetic_values(x)
    with np.errstate(invalid="ignore"):
        line = numbers * arithmetic_value(desc.alpha) + arithmetic_value(desc.beta)
        bounded = np.where(np.isnan(line), np.nan, np.where(line > 0, np.minimum(line, 1.0), 0.0))
        result: Float64Array = numbers * bounded
    return result


def _with_slope(x: Array, slope: Float64Array | float) -> Array:
    numbers = arithmetic_values(x)
    with np.errstate(invalid="ignore"):
        return rounded_as(x, np.where(numbers < 0, numbers * slope, numbers))


@reference("ACTIVATION_LEAKY_RELU")
def leaky_relu(desc: dml.ActivationLeakyRelu, x: Array) -> Array:
    """The product is exact in float64."""
    return _with_slope(x, arithmetic_value(desc.alpha))


@reference("ACTIVATION_PARAMETERIZED_RELU")
def parameterized_relu(desc: dml.ActivationParameterizedRelu, x: Array, slope: Array) -> Array:
    """The product is exact in float64; integers are NumPy's."""
    return _with_slope(x, arithmetic_values(slope)) if x.dtype.kind == "f" else np.where(x < 0, x * slope, x)


@reference("ACTIVATION_SHRINK")
def shrink(desc: dml.ActivationShrink, x: Array) -> Array:
    """Sums of floats are rounded to odd, then to the type; those of integers are truncated from exact numbers."""
    bias, threshold = arithmetic_value(desc.bias), arithmetic_value(desc.threshold)
    if x.dtype.kind == "f":
        numbers = arithmetic_values(x)
        above, below = numbers > threshold, numbers < -threshold
        moved = np.where(above, sum_to_odd(numbers, -bias), np.where(below, sum_to_odd(numbers, bias), 0.0))
        return rounded_as(x, np.where(np.isnan(numbers), np.nan, moved))
    wide, limits = x.astype(np.int64), np.iinfo(x.dtype)
    down, up = (truncated_affine(wide, 1.0, b, int(limits.min), int(limits.max)) for b in (-bias, bias))
    return np.where(wide > threshold, down, np.where(wide < -threshold, up, 0)).astype(x.dtype)


@reference("ACTIVATION_SOFTSIGN")
def softsign(desc: dml.ActivationSoftsign, x: Array) -> Float64Array:
    """The true value, in float64."""
    numbers = arithmetic_values(x)
    with np.errstate(invalid="ignore"):
        ratio = numbers / (1.0 + np.abs(numbers))
    return np.where(np.isinf(numbers), np.copysign(1.0, numbers), ratio)
