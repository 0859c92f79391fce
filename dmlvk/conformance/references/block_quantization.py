"""What QUANTIZE and DEQUANTIZE must give: quotients and products by fractions, those of each block by its own scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import FLOAT32, arithmetic_values, float_format, round_to_format
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]


def spread(values: Array, sizes: tuple[int, ...]) -> Array:
    """Each element as often as its block has elements."""
    for axis, size in enumerate(sizes):
        values = np.repeat(values, size // values.shape[axis], axis)
    return values


def _number(value: Any) -> float:
    """A float; of FLOAT32's denormals a zero."""
    number = float(value)
    return 0.0 * number if isinstance(value, np.float32) and abs(number) < 2.0**-126 else number


def _operands(desc: dml.Dequantize | dml.Quantize, inputs: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """The input, and as large as it the scale and the zero point."""
    source = inputs["InputTensor"]
    scale = spread(inputs["QuantizationTensors[0]"], source.shape)
    zero = inputs.get("QuantizationTensors[1]")
    return source, scale, np.zeros(source.shape, np.int8) if zero is None else spread(zero, source.shape)


def _quotient(x: Any, scale: Any) -> int:
    """The integer nearest to a quotient, halves to even; some large one where it is infinite, 0 where it is NaN."""
    dividend, divisor = _number(x), _number(scale)
    with np.errstate(all="ignore"):
        special = float(np.float64(dividend) / np.float64(divisor))
    if np.isnan(special):
        return 0
    if divisor == 0 or np.isinf(dividend):
        return 1000 if special > 0 else -1000
    if np.isinf(divisor):
        return 0
    return round(Fraction(dividend) / Fraction(divisor))


def _limits(data_type: DataType) -> tuple[int, int]:
    signed = data_type in (DataType.INT8, DataType.INT4)
    count = 16 if data_type in (DataType.INT4, DataType.UINT4) else 256
    return (-count // 2, count // 2 - 1) if signed else (0, count - 1)


def _each(function: Callable[..., Any], *arrays: Array) -> list[Any]:
    return [function(*values) for values in zip(*(array.reshape(-1) for array in arrays), strict=True)]


@reference("QUANTIZE")
def quantize(desc: dml.Quantize, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Exact quotients, each rounded by Python."""
    source, scale, zero = _operands(desc, inputs)
    least, greatest = _limits(desc.output_tensor.data_type)

    def quantized(x: Any, by: Any, zero_point: Any) -> int:
        return min(max(_quotient(x, by) + int(zero_point), least), greatest)

    dtype = np.int8 if least < 0 else np.uint8
    return {"OutputTensor": np.array(_each(quantized, source, scale, zero), dtype).reshape(source.shape)}


@reference("DEQUANTIZE")
def dequantize(desc: dml.Dequantize, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Products of 9 by 24 bits are exact in float64, and rounded once."""
    source, scale, zero = _operands(desc, inputs)
    difference = source.astype(np.float64) - zero.astype(np.float64)
    with np.errstate(invalid="ignore"):
        product = difference * arithmetic_values(scale)
    target = float_format(desc.output_tensor.data_type.numpy_dtype)
    return {"OutputTensor": round_to_format(product, target, denormals_are_zero=target is FLOAT32)}
