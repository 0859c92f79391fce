"""What the operators between numbers and their quantized form must give: exact, in float64 and integers of 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import (
    FLOAT32,
    arithmetic_values,
    float_format,
    round_to_format,
    sum_to_odd,
)

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]


def _zeros_where_absent(desc: dml.OperatorDesc, inputs: tuple[Array, ...]) -> dict[str, Array]:
    """The inputs by their Python names, zeros for the optional ones that are absent."""
    given = iter(inputs)
    zero = np.zeros(inputs[0].shape, np.int8)
    return {field.attribute: zero if tensor is None else next(given) for field, tensor in desc.inputs}


def _nearest_integers(dividend: Float64Array, divisor: Float64Array) -> Float64Array:
    """The integers nearest to the exact quotients, halves to even; 0 for NaN, some large number where it saturates.

    The dividend may be rounded to odd. A quotient in float64 might be rounded onto a half, so the halves around it are
    multiplied by the divisor, which is exact (they have 12 bits, the divisor 24), and compared with the dividend.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = np.clip(np.nan_to_num(dividend / divisor, nan=0.0), -1000, 1000)
        nearest = np.rint(quotient)
        signed, positive = dividend * np.sign(divisor), np.abs(divisor)
        usable = np.isfinite(dividend) & np.isfinite(divisor) & (divisor != 0) & (np.abs(quotient) < 999)
        excess = signed - (nearest + 0.5) * positive, signed - (nearest - 0.5) * positive
        is_odd = nearest % 2 != 0
        nearest = nearest + (usable & ((excess[0] > 0) | ((excess[0] == 0) & is_odd)))
        result: Float64Array = nearest - (usable & ((excess[1] < 0) | ((excess[1] == 0) & is_odd)))
    return result


def _saturated(numbers: Float64Array, zero_point: Array, data_type: np.dtype[Any]) -> Array:
    limits = np.iinfo(data_type)
    bounded: Float64Array = np.clip(numbers + zero_point, limits.min, limits.max)
    return bounded.astype(data_type)


@reference("ELEMENT_WISE_QUANTIZE_LINEAR")
def quantize_linear(desc: dml.ElementWiseQuantizeLinear, *inputs: Array) -> Array:
    """Divided in float64; the halves on both sides are then held against the dividend."""
    named = _zeros_where_absent(desc, inputs)
    x, scale = named["input_tensor"], arithmetic_values(named["scale_tensor"])
    numbers = arithmetic_values(x) if x.dtype.kind == "f" else x.astype(np.float64)
    nearest = _nearest_integers(numbers, scale)
    return _saturated(nearest, named["zero_point_tensor"], desc.output_type.numpy_dtype)


@reference("ELEMENT_WISE_DEQUANTIZE_LINEAR")
def dequantize_linear(desc: dml.ElementWiseDequantizeLinear, *inputs: Array) -> Array:
    """The difference in two parts, whose products with the scale are exact in float64, added to odd and rounded."""
    named = _zeros_where_absent(desc, inputs)
    scale = arithmetic_values(named["scale_tensor"])
    difference = named["input_tensor"].astype(np.int64) - named["zero_point_tensor"].astype(np.int64)
    sign, magnitude = np.sign(difference).astype(np.float64), np.abs(difference)
    upper, lower = magnitude >> 20 << 20, magnitude & 0xFFFFF
    with np.errstate(invalid="ignore", over="ignore"):
        first, second = (sign * part * scale for part in (upper, lower))
        total = np.where(upper == 0, second, np.where(lower == 0, first, sum_to_odd(first, second)))
    target = float_format(desc.output_type.numpy_dtype)
    return round_to_format(total, target, denormals_are_zero=target is FLOAT32)


@reference("ELEMENT_WISE_QUANTIZED_LINEAR_ADD")
def quantized_linear_add(desc: dml.ElementWiseQuantizedLinearAdd, *inputs: Array) -> Array:
    """Products of 8 by 24 bits are exact in float64; their sum is rounded to odd there, and the quotient as above."""
    named = _zeros_where_absent(desc, inputs)
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = (
            (named[f"{member}_tensor"].astype(np.float64) - named[f"{member}_zero_point_tensor"])
            * arithmetic_values(named[f"{member}_scale_tensor"])
            for member in ("a", "b")
        )
        total = sum_to_odd(a, b)
    nearest = _nearest_integers(total, arithmetic_values(named["output_scale_tensor"]))
    return _saturated(nearest, named["output_zero_point_tensor"], desc.output_type.numpy_dtype)
