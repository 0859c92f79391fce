"""Products and convolutions of quantized tensors, in integers and fractions of any size; quantization by range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Expected
from dmlvk.conformance.references.integer_products import convolution_integer, matrix_multiply_integer
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import FLOAT32, arithmetic_value, nearest_number

Array = npt.NDArray[Any]

_BEYOND_BYTES = 10**6


def _product(total: int, factors: Sequence[Any]) -> Fraction | float:
    """An integer times float32 numbers: exactly, or infinite, or NaN."""
    numbers = [arithmetic_value(factor) for factor in factors]
    if all(math.isfinite(number) for number in numbers):
        return math.prod((Fraction(number) for number in numbers), start=Fraction(total))
    if any(math.isnan(number) for number in numbers) or 0 in (total, *numbers):
        return math.nan
    return math.inf * math.prod(math.copysign(1.0, number) for number in (total, *numbers))


def nearest_quotient(total: int, factors: Sequence[Any], divisor: Any, count: int = 1) -> int:
    """The integer nearest to total * factors / (count * divisor), halves to even; far beyond 8 bits where infinite."""
    dividend, by = _product(total, factors), arithmetic_value(divisor)
    if math.isnan(by) or math.isinf(by) or dividend == 0 or math.isnan(dividend):
        return 0
    if by == 0.0 or math.isinf(dividend):
        return _BEYOND_BYTES if (dividend > 0) == (math.copysign(1.0, by) > 0) else -_BEYOND_BYTES
    return round(Fraction(dividend) / (Fraction(by) * count))


def _nearest_float32(value: Fraction | float) -> np.float32:
    """The FLOAT32 nearest to a number, ties to even; 0 below 2^-126."""
    return np.float32(nearest_number(value, FLOAT32) if isinstance(value, Fraction) and value else value)


def _quantized(
    desc: dml.QuantizedLinearMatrixMultiply | dml.QuantizedLinearConvolution,
    sums: Array,
    parameters: Sequence[Array | None],
    divisor: Array,
    zero: Array | None,
) -> Mapping[str, Expected]:
    """Quantized results of sums; scales and zero points broadcast to them."""
    scales = [np.broadcast_to(scale, sums.shape) for scale in parameters if scale is not None]
    by = np.broadcast_to(divisor, sums.shape)
    zeros = np.broadcast_to(np.zeros((), np.int64) if zero is None else zero.astype(np.int64), sums.shape)
    data_type = desc.output_tensor.data_type.numpy_dtype
    limits = np.iinfo(data_type)
    output = np.empty(sums.shape, data_type)
    for index in np.ndindex(*sums.shape):
        quotient = nearest_quotient(int(sums[index]), [scale[index] for scale in scales], by[index])
        output[index] = min(max(quotient + int(zeros[index]), limits.min), limits.max)
    return {"OutputTensor": output}


def _of_rows(array: Array | None) -> Array | None:
    return None if array is None else array.reshape(-1, 1)


def _of_channels(array: Array | None, rank: int) -> Array | None:
    return None if array is None else array.reshape(1, -1, *(1,) * (rank - 2))


@reference("QUANTIZED_LINEAR_MATRIX_MULTIPLY")
def quantized_matrix_product(
    desc: dml.QuantizedLinearMatrixMultiply, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    """Each sum of its own, as a fraction."""
    sums: Any = matrix_multiply_integer(desc, inputs)["OutputTensor"]
    scales = [_of_rows(inputs["AScaleTensor"]), inputs["BScaleTensor"].reshape(1, -1)]
    zero = _of_rows(inputs.get("OutputZeroPointTensor"))
    return _quantized(desc, sums, scales, inputs["OutputScaleTensor"].reshape(-1, 1), zero)


@reference("QUANTIZED_LINEAR_CONVOLUTION")
def quantized_convolution(desc: dml.QuantizedLinearConvolution, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Each sum of its own, as a fraction."""
    sums: Any = convolution_integer(desc, inputs)["OutputTensor"]
    rank = sums.ndim
    if "BiasTensor" in inputs:
        total = sums.astype(np.int64) + inputs["BiasTensor"].astype(np.int64)
        sums = total.astype(np.uint32).view(np.int32)
    scales = [_of_channels(inputs[name], rank) for name in ("InputScaleTensor", "FilterScaleTensor")]
    zero = _of_channels(inputs.get("OutputZeroPointTensor"), rank)
    return _quantized(desc, sums, scales, inputs["OutputScaleTensor"].reshape((1,) * rank), zero)


@reference("MATRIX_MULTIPLY_INTEGER_TO_FLOAT")
def matrix_product_to_float(
    desc: dml.MatrixMultiplyIntegerToFloat, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    """Sums of Python's integers; their products as fractions, rounded; then NumPy's sum."""
    a, b = inputs["ATensor"].astype(object), inputs["BTensor"].astype(object)
    if "AZeroPointTensor" in inputs:
        a = a - inputs["AZeroPointTensor"].astype(object).reshape(-1, 1)
    if "BZeroPointTensor" in inputs:
        b = b - inputs["BZeroPointTensor"].astype(object).reshape(1, -1)
    sums = a @ b
    rows = np.broadcast_to(inputs["AScaleTensor"].astype(np.float32).reshape(-1, 1), sums.shape)
    columns = np.broadcast_to(inputs["BScaleTensor"].astype(np.float32).reshape(1, -1), sums.shape)
    bias = inputs.get("BiasTensor")
    output = np.empty(sums.shape, desc.output_tensor.data_type.numpy_dtype)
    with np.errstate(all="ignore"):
        for index in np.ndindex(*sums.shape):
            product = _product(int(sums[index]), [rows[index], columns[index]])
            result = _nearest_float32(product)
            if product == 0:
                result = np.float32(math.copysign(0.0, _sign(sums[index]) * _sign(rows[index]) * _sign(columns[index])))
            if bias is not None:
                total = result + np.float32(arithmetic_value(bias[index]))
                result = np.float32(arithmetic_value(total))
            output[index] = np.float32(np.nan) if np.isnan(result) else result
    return {"OutputTensor": output}


def _sign(number: Any) -> float:
    return math.copysign(1.0, float(number))


@reference("DYNAMIC_QUANTIZE_LINEAR")
def dynamic_quantize(desc: dml.DynamicQuantizeLinear, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Fractions throughout."""
    values = inputs["InputTensor"].astype(np.float32)
    data_type = desc.output_tensor.data_type.numpy_dtype
    limits = np.iinfo(data_type)
    numbers = values[~np.isnan(values)]
    smallest = arithmetic_value(min(0.0, float(numbers.min()))) if numbers.size else 0.0
    largest = arithmetic_value(max(0.0, float(numbers.max()))) if numbers.size else math.nan
    if not math.isfinite(largest) or not math.isfinite(smallest):
        scale = np.float32(largest - smallest)
    else:
        difference = _nearest_float32(Fraction(largest) - Fraction(smallest))
        if np.isinf(difference):
            half = _nearest_float32((Fraction(largest) - Fraction(smallest)) / 2)
            scale = _nearest_float32(Fraction(float(half)) / Fraction(255, 2))
        else:
            scale = _nearest_float32(Fraction(float(difference)) / 255)
        if scale == 0:
            scale = _nearest_float32(Fraction(1, 255))
    zero = _saturated(limits.min - _quotient_of(smallest, scale), limits)
    flat = [_saturated(_quotient_of(value, scale) + zero, limits) for value in values.ravel()]
    ones = desc.output_scale_tensor.sizes
    return {
        "OutputTensor": np.array(flat, data_type).reshape(values.shape),
        "OutputScaleTensor": np.full(ones, scale, np.float32),
        "OutputZeroPointTensor": np.full(ones, zero, data_type),
    }


def _quotient_of(value: Any, scale: Any) -> int:
    return nearest_quotient(1, [value], scale)


def _saturated(value: int, limits: Any) -> int:
    return min(max(value, int(limits.min)), int(limits.max))
