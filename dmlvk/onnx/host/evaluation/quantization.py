"""Integers that stand for numbers: exact products, and roundings that are the device's."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from dmlvk.onnx.host.evaluation.call import Array, Call, NotComputed, computes

_MICROSOFT = "com.microsoft"

_MOST_PRODUCTS = 2**26  # Larger products are the device's, which is faster


def _spread(call: Call, array: Array, values: Array) -> Array:
    """Scales or zero points as they lie along the input: one, one for each element of an axis, or one for a block."""
    if values.size == 1:
        return values.reshape(())
    axis = call.integer("axis", 1)
    block = call.integer("block_size", 0) if call.version >= 21 else 0
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"the axis {axis} is not among {array.ndim} dimensions")
    axis %= array.ndim
    if block:
        if values.ndim != array.ndim or values.shape[axis] * block < array.shape[axis]:
            raise ValueError(f"scales of {list(values.shape)} in blocks of {block} for {list(array.shape)}")
        return np.repeat(values, block, axis)[(slice(None),) * axis + (slice(array.shape[axis]),)]
    if values.ndim != 1 or values.size != array.shape[axis]:
        raise ValueError(f"scales of {list(values.shape)} along the axis {axis} of {list(array.shape)}")
    return values.reshape((-1,) + (1,) * (array.ndim - 1 - axis))


def _is_integer(array: Array) -> bool:
    return helper.np_dtype_to_tensor_dtype(array.dtype) in _INTEGERS


_INTEGERS = {
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.UINT8, TensorProto.UINT16),
    *(TensorProto.INT4, TensorProto.UINT4),
}
_FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


@computes("DequantizeLinear", since=10, grows=True)
@computes("DequantizeLinear", domain=_MICROSOFT, grows=True)
def dequantize(call: Call) -> Array:
    """(x - zero point) scale: the difference is exact, the product is rounded to FLOAT32 and to the scale's type."""
    array, scale = call.array(0), call.array(1)
    if not _is_integer(array) or scale.dtype not in _FLOATS:
        raise NotComputed(f"{array.dtype} by {scale.dtype}")
    if call.integer("output_dtype", 0) not in (0, helper.np_dtype_to_tensor_dtype(scale.dtype)):
        raise NotComputed("another type of results")
    numbers = array.astype(np.int64)
    if call.has(2) and call.array(2).size:
        zero = call.array(2)
        if zero.shape != scale.shape and zero.size != scale.size:
            raise ValueError(f"zero points of {list(zero.shape)} for scales of {list(scale.shape)}")
        numbers = numbers - _spread(call, array, zero).astype(np.int64)
    return (numbers.astype(np.float32) * _spread(call, array, scale).astype(np.float32)).astype(scale.dtype)


@computes("QuantizeLinear", since=10)
@computes("QuantizeLinear", domain=_MICROSOFT)
def quantize(call: Call) -> Array:
    """The exact quotient rounded to the nearest integer (ties to even), as QUANTIZE_LINEAR does it, and clipped.

    FLOAT64 is enough for that: the quotient of two FLOAT32 numbers that is no tie lies further from one than it rounds.
    """
    array, scale = call.array(0), call.array(1)
    if array.dtype not in _FLOATS or scale.dtype != array.dtype or not np.all(np.isfinite(array)):
        raise NotComputed(f"{array.dtype} by {scale.dtype}")
    wanted = call.integer("output_dtype", 0)
    otherwise = np.dtype(helper.tensor_dtype_to_np_dtype(wanted or TensorProto.UINT8))
    zero = call.array(2) if call.has(2) else np.zeros(scale.shape, otherwise)
    if zero.dtype.kind not in "iu" or zero.dtype.itemsize > 2 or not np.all(scale > 0):
        raise NotComputed(f"zero points of {zero.dtype}")
    if wanted not in (0, helper.np_dtype_to_tensor_dtype(zero.dtype)):
        raise NotComputed("another type of results")
    quotients = np.rint(array.astype(np.float64) / _spread(call, array, scale).astype(np.float64))
    bounds = np.iinfo(zero.dtype)
    return np.asarray(np.clip(quotients + _spread(call, array, zero), bounds.min, bounds.max).astype(zero.dtype))


@computes("MatMulInteger", since=10)
def product(call: Call) -> Array:
    """Sums of products of 8-bit integers, of INT32."""
    a, b = call.array(0), call.array(1)
    if a.size * (b.shape[-1] if b.ndim else 1) > _MOST_PRODUCTS or a.ndim < 2 or b.ndim < 2:
        raise NotComputed("a large product, or one of a vector")
    numbers = []
    for index, array in enumerate((a, b)):
        wide = array.astype(np.int32)
        if call.has(2 + index):
            zero = call.array(2 + index).astype(np.int32)
            if zero.ndim == 1 and zero.size > 1:
                zero = zero.reshape(-1, 1) if index == 0 else zero
            wide = wide - zero
        numbers.append(wide)
    return np.asarray(np.matmul(*numbers)).astype(np.int32)
