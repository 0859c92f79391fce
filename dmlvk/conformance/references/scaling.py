"""x * Scale + Bias, and bounds in a tensor's data type: exact, rounded once."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.rounding import (
    FloatFormat,
    arithmetic_value,
    arithmetic_values,
    float_format,
    round_fraction,
    round_to_format,
    sum_to_odd,
    truncated_affine,
)

Array = npt.NDArray[Any]

_BLOCK = 2**15  # Elements that are computed together: their intermediate arrays stay in the processor's cache


def prescaled(x: Array, scale_bias: dml.ScaleBias | None) -> Array:
    """X * Scale + Bias in the type of ``x``; ``x`` itself without a ScaleBias."""
    if scale_bias is None:
        return x
    if x.dtype.kind == "f":
        return _scaled_and_biased(x, scale_bias, float_format(x.dtype))
    limits = np.iinfo(x.dtype)
    scale, bias = (arithmetic_value(value) for value in (scale_bias.scale, scale_bias.bias))
    exact = truncated_affine(x.astype(np.int64), scale, bias, int(limits.min), int(limits.max))
    return exact.astype(x.dtype)


def integer_bound(value: float, data_type: np.dtype[Any]) -> Array:
    """A bound as an integer type has it, as an array without dimensions."""
    limits = np.iinfo(data_type)
    return np.array(integer_minimum(value, int(limits.min), int(limits.max)), data_type)


def float_bound(value: float, data_type: np.dtype[Any]) -> Array:
    """A bound as a float type has it, as an array without dimensions."""
    target = float_format(data_type)
    return np.array(_float_minimum(value, target), target.bits_dtype).view(target.dtype)


def _scaled_and_biased(x: Array, scale_bias: dml.ScaleBias, target: FloatFormat) -> Array:
    scale, bias = arithmetic_value(scale_bias.scale), arithmetic_value(scale_bias.bias)
    is_float32 = target.dtype == np.float32
    flat, result = x.reshape(-1), np.empty(x.size, x.dtype)
    for start in range(0, flat.size, _BLOCK):
        numbers = arithmetic_values(flat[start : start + _BLOCK])
        with np.errstate(invalid="ignore"):
            product = numbers * scale  # exact: at most 48 bits, far inside float64's range
        rounded = round_to_format(sum_to_odd(product, bias), target, denormals_are_zero=is_float32)
        result[start : start + _BLOCK] = rounded
    return result.reshape(x.shape)


def integer_minimum(value: float, lowest: int, highest: int) -> int:
    """Min as an integer type has it: truncated toward zero, saturated, 0 for NaN."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return highest if value > 0 else lowest
    return min(max(math.trunc(Fraction(value)), lowest), highest)


def _float_minimum(value: float, target: FloatFormat) -> int:
    """The bits of Min as a float type has it: rounded to nearest even. A NaN is a NaN; which one does not matter."""
    if math.isnan(value):
        return target.canonical_nan
    rounded = None if math.isinf(value) else round_fraction(Fraction(value), target)
    number = math.inf if rounded is None else float(abs(rounded))
    return int(np.array(math.copysign(number, value)).astype(target.dtype).view(target.bits_dtype))
