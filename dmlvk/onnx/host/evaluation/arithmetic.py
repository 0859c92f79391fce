"""Element-wise operators whose results IEEE 754 or the integers define to the last bit, and choices along axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from dmlvk.onnx.host.evaluation.call import (
    LENGTHS,
    MASKS,
    Array,
    Call,
    NotComputed,
    checked_axis,
    computes,
    is_of_sizes,
)

_NUMBERS = "iuf"


def _check_numbers(*arrays: Array) -> None:
    """Refuses types that NumPy has not itself, and inputs of several types."""
    are_numbers = all(array.dtype.kind in _NUMBERS or is_of_sizes(array) for array in arrays)
    if not are_numbers or len({array.dtype for array in arrays}) > 1:
        raise NotComputed(f"{', '.join(str(array.dtype) for array in arrays)}")


def _check_signs(a: Array, b: Array) -> None:
    """Refuses to divide sizes that may be negative: ONNX rounds towards zero, and they know floor division."""
    if a.dtype == object and not ((a >= 0).all() and (b > 0).all()):
        raise NotComputed("a quotient of sizes that is not of positive ones")


def _is_narrow(*arrays: Array) -> bool:
    """Whether all are of BFLOAT16: sums, products, quotients and square roots of it are rounded once from FLOAT."""
    return all(array.dtype.name == "bfloat16" for array in arrays)


def _pair(call: Call) -> tuple[Array, Array]:
    """Two inputs that broadcast; before version 7 the second one's axes may begin anywhere."""
    a, b = call.array(0), call.array(1)
    if call.version < 7 and call.integer("broadcast", 0) and b.shape != a.shape:
        axis = call.attribute("axis")
        first = a.ndim - b.ndim if axis is None else checked_axis(int(axis), a.ndim)
        b = b.reshape(b.shape + (1,) * (a.ndim - b.ndim - first))
    elif call.version < 7 and a.shape != b.shape:
        raise ValueError(f"the shapes {list(a.shape)} and {list(b.shape)} differ")
    call.checked_shape(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    return a, b


_BINARY: dict[str, Callable[[Array, Array], Array]] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}


@computes("Add", "Sub", "Mul", of_sizes=True, counts=LENGTHS)
def binary(call: Call) -> Array:
    """Correctly rounded; integers wrap."""
    a, b = _pair(call)
    if not _is_narrow(a, b):
        _check_numbers(a, b)
    return np.asarray(_BINARY[call.op_type](a, b))


@computes("Div", of_sizes=True, counts=LENGTHS)
def divide(call: Call) -> Array:
    """Correctly rounded; integers towards zero."""
    a, b = _pair(call)
    if _is_narrow(a, b):
        return np.asarray(np.divide(a, b))
    _check_numbers(a, b)
    if a.dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    _check_signs(a, b)
    if not np.all(b):
        raise NotComputed("a division of integers by zero")
    quotients = np.floor_divide(a, b)
    if a.dtype.kind == "i":
        towards_zero = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
        quotients = quotients + towards_zero.astype(a.dtype)
    return np.asarray(quotients)


@computes("Mod", since=10, of_sizes=True)
def modulus(call: Call) -> Array:
    """Of the divisor's sign, or with fmod of the dividend's."""
    a, b = _pair(call)
    _check_numbers(a, b)
    _check_signs(a, b)
    if a.dtype.kind != "f" and not np.all(b):
        raise NotComputed("a division of integers by zero")
    if a.dtype.kind == "f" and not call.integer("fmod", 0):
        raise NotComputed("a modulus of floats without fmod")
    is_of_c = call.integer("fmod", 0) and a.dtype != object
    return np.asarray(np.fmod(a, b) if is_of_c else np.remainder(a, b))


@computes("Pow", since=7)
def power(call: Call) -> Array:
    """Of integers, where the results are below 2^53."""
    a, b = _pair(call)
    if a.dtype.kind not in "iu" or b.dtype.kind not in "iu" or a.size * b.size > 2**16:
        raise NotComputed("powers of floats")
    exponents = [int(number) for number in b.reshape(-1)]
    largest = max((abs(int(number)) for number in a.reshape(-1)), default=0)
    most = max(exponents, default=0)
    if min(exponents, default=0) < 0 or most > 64 or largest**most >= min(2**53, np.iinfo(a.dtype).max):
        raise NotComputed("powers that are no small integers")
    return np.asarray(np.power(a.astype(np.int64), b.astype(np.int64)).astype(a.dtype))


_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}


@computes("Equal", "Greater", "Less", of_sizes=True, counts=LENGTHS)
@computes("GreaterOrEqual", "LessOrEqual", of_sizes=True, counts=MASKS)
def compare(call: Call) -> Array:
    a, b = _pair(call)
    is_text = call.op_type == "Equal" and a.dtype.kind in "OU" and b.dtype.kind in "OU"
    is_number = a.dtype.kind in _NUMBERS + "b" or (is_of_sizes(a) and is_of_sizes(b))
    if not is_text and (not is_number or a.dtype != b.dtype):
        raise NotComputed(f"{a.dtype} and {b.dtype}")
    return np.asarray(_COMPARISONS[call.op_type](a, b)).astype(np.bool_)


_LOGICAL: dict[str, Callable[..., Array]] = {
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
}  # fmt: skip


@computes("And", "Or", "Xor", counts=MASKS)
@computes("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def logic(call: Call) -> Array:
    """Of BOOL, or of the bits of integers."""
    a, b = _pair(call)
    kinds = "iu" if call.op_type.startswith("Bitwise") else "b"
    if a.dtype.kind not in kinds or a.dtype != b.dtype:
        raise NotComputed(f"{a.dtype} and {b.dtype}")
    return np.asarray(_LOGICAL[call.op_type](a, b))


@computes("Not", counts=LENGTHS)
@computes("BitwiseNot")
def invert(call: Call) -> Array:
    """Of BOOL, or of the bits of integers."""
    array = call.array(0)
    if array.dtype.kind not in ("b" if call.op_type == "Not" else "iu"):
        raise NotComputed(str(array.dtype))
    return np.asarray(np.invert(array))


@computes("BitShift")
def shift(call: Call) -> Array:
    a, b = _pair(call)
    if a.dtype.kind != "u" or a.dtype != b.dtype or (b.size and int(b.max()) >= 8 * a.dtype.itemsize):
        raise NotComputed("shifts by all bits, or of signed integers")
    return np.asarray(np.left_shift(a, b) if call.text("direction") == "LEFT" else np.right_shift(a, b))


_UNARY: dict[str, Callable[[Array], Array]] = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Sign": np.sign,
    "Relu": lambda array: np.maximum(array, array.dtype.type(0)),
}
_UNARY_OF_FLOATS: dict[str, Callable[[Array], Array]] = {
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Sqrt": np.sqrt,
    "Reciprocal": lambda array: array.dtype.type(1) / array,
    "IsNaN": np.isnan,
}


@computes("Neg", of_sizes=True, counts=LENGTHS)
@computes("Abs", "Sign", "Relu")
def unary(call: Call) -> Array:
    array = call.array(0)
    _check_numbers(array)
    return np.asarray(_UNARY[call.op_type](array))


@computes(*_UNARY_OF_FLOATS)
def unary_of_floats(call: Call) -> Array:
    """Correctly rounded."""
    array = call.array(0)
    if array.dtype.kind != "f" and not (call.op_type == "Sqrt" and _is_narrow(array)):
        raise NotComputed(str(array.dtype))
    return np.asarray(_UNARY_OF_FLOATS[call.op_type](array))


@computes("PRelu")
def parameterized_relu(call: Call) -> Array:
    """Below zero times a slope; before version 7 one for each channel."""
    array, slope = call.array(0), call.array(1)
    _check_numbers(array, slope)
    if call.version < 7 and slope.ndim == 1 and slope.size > 1:
        slope = slope.reshape((-1,) + (1,) * (array.ndim - 2))
    call.checked_shape(np.broadcast_shapes(array.shape, slope.shape), array.dtype)
    return np.asarray(np.where(array < 0, array * slope, array))


@computes("IsInf")
def is_infinite(call: Call) -> Array:
    """Infinities of one sign or both."""
    array = call.array(0)
    if array.dtype.kind != "f":
        raise NotComputed(str(array.dtype))
    positive = np.isposinf(array) if call.integer("detect_positive", 1) else np.zeros(array.shape, np.bool_)
    negative = np.isneginf(array) if call.integer("detect_negative", 1) else np.zeros(array.shape, np.bool_)
    return np.asarray(positive | negative)


_SEVERAL: dict[str, Callable[[Array, Array], Array]] = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}


@computes("Max", "Min", of_sizes=True, counts=LENGTHS)
@computes("Sum")
def several(call: Call) -> Array:
    arrays = call.arrays()
    _check_numbers(*arrays)
    call.checked_shape(np.broadcast_shapes(*(array.shape for array in arrays)), arrays[0].dtype)
    return np.asarray(functools.reduce(_SEVERAL[call.op_type], arrays))


@computes("Clip")
def clip(call: Call) -> Array:
    """Between bounds; where they cross, the upper one."""
    array = call.array(0)
    _check_numbers(array)
    if call.version < 11:
        bounds = [call.attribute("min"), call.attribute("max")]
        low, high = (None if bound is None else array.dtype.type(bound) for bound in bounds)
    else:
        low, high = (call.array(index).reshape(-1)[0] if call.has(index) else None for index in (1, 2))
    made = array if low is None else np.maximum(array, low)
    return np.asarray(made if high is None else np.minimum(made, high))


_EXACT_TYPES = {
    *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.BFLOAT16),
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
}

_HALVES = {TensorProto.INT4, TensorProto.UINT4}


@computes("Cast", since=6, of_sizes=True, counts=LENGTHS, grows=True)
def cast(call: Call) -> Array:
    """To another type of numbers, where the result is defined."""
    return converted(call.array(0), call.integer("to"))


@computes("CastLike", counts=MASKS, grows=True)
def cast_like(call: Call) -> Array:
    return converted(call.array(0), helper.np_dtype_to_tensor_dtype(call.array(1).dtype))


def converted(array: Array, element: int) -> Array:
    """An array as another element type.

    Raises:
        NotComputed: when the type is none of ordinary numbers, or a float has no such integer.
    """
    if array.dtype == object and element in (TensorProto.INT32, TensorProto.INT64) and is_of_sizes(array):
        return array
    if helper.np_dtype_to_tensor_dtype(array.dtype) in _HALVES:
        array = array.astype(np.int8)
    if element in _HALVES and array.dtype.kind in "iuf":
        return _halves(array, element)
    if element not in _EXACT_TYPES:
        raise NotComputed(f"type {element}")
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element))
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "iufb" and helper.np_dtype_to_tensor_dtype(array.dtype) != TensorProto.BFLOAT16:
        raise NotComputed(str(array.dtype))
    if dtype.kind in "iu" and array.dtype.kind not in "iub" and array.size:
        wide = array.astype(np.float64)
        bounds = np.iinfo(dtype)
        if not (np.all(np.isfinite(wide)) and np.trunc(wide).min() >= bounds.min and np.trunc(wide).max() < bounds.max):
            raise NotComputed("a float that no such integer is near")
    made: Array = array.astype(dtype)
    return made


def _halves(array: Array, element: int) -> Array:
    """As integers of 4 bits: floats to the nearest one, ties away from zero, and of that the lowest 4 bits.

    ONNX does not say how they are rounded; so does ONNX Runtime.
    """
    if array.dtype.kind == "f":
        if not np.all(np.abs(array) < 2**31):
            raise NotComputed("a float that no integer is near")
        array = np.sign(array) * np.floor(np.abs(array.astype(np.float64)) + 0.5)
    low = array.astype(np.int64) & 15
    signed = np.where(low > 7, low - 16, low) if element == TensorProto.INT4 else low
    made: Array = signed.astype(helper.tensor_dtype_to_np_dtype(element))
    return made


@computes("Range", counts=LENGTHS)
def numbers_between(call: Call) -> Array:
    """start, start + delta and so on, below limit; bounds may be arrays of one element."""
    numbers = call.arrays()
    if any(number.size != 1 for number in numbers):
        raise ValueError(f"needs three numbers; got {[number.size for number in numbers]} elements")
    _check_numbers(*numbers)
    start, limit, delta = (number.reshape(-1)[0] for number in numbers)
    if delta == 0 or not all(np.isfinite(number) for number in (start, limit, delta)):
        raise ValueError(f"cannot go from {start} to {limit} in steps of {delta}")
    count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0)
    call.checked_shape([count], start.dtype)
    made: Array = (start + np.arange(count, dtype=start.dtype) * delta).astype(start.dtype)
    return made


# Along axes.


def reduced_axes(call: Call, rank: int) -> tuple[int, ...] | None:
    """The axes of a reduction; ``None``: there is nothing to reduce."""
    has_input = call.version >= (13 if call.op_type == "ReduceSum" else 18)
    given = (call.integers(1) if call.has(1) else None) if has_input else call.list("axes")
    if not given:
        return None if has_input and call.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({checked_axis(axis, rank) for axis in given}))


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum,
    "ReduceProd": np.prod,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceL1": lambda array, **options: np.sum(np.abs(array), **options),
    "ReduceSumSquare": lambda array, **options: np.sum(array * array, **options),
}


@computes("ReduceSum", "ReduceMax", "ReduceMin", of_sizes=True, counts=LENGTHS)
@computes("ReduceProd", of_sizes=True)
@computes("ReduceL1", "ReduceSumSquare")
def reduce(call: Call) -> Array:
    """Of integers, which wrap; of floats the largest or smallest one."""
    array = call.array(0)
    chooses = call.op_type in ("ReduceMax", "ReduceMin")
    if chooses and array.dtype == np.bool_ and call.version >= 20:
        axes = reduced_axes(call, array.ndim)
        choose = np.any if call.op_type == "ReduceMax" else np.all
        return np.asarray(choose(array, axis=() if axes is None else axes, keepdims=bool(call.integer("keepdims", 1))))
    is_known = (
        array.dtype.kind in "iu"
        or is_of_sizes(array)
        or (chooses and array.dtype.kind == "f" and not np.isnan(array).any())
    )
    if not is_known or array.size == 0:
        raise NotComputed(f"{array.dtype} of {array.size} elements")
    axes = reduced_axes(call, array.ndim)
    if axes is None:
        raise NotComputed("a reduction along no axis")
    options: dict[str, Any] = {} if chooses else {"dtype": array.dtype}
    made = _REDUCTIONS[call.op_type](array, axis=axes, keepdims=bool(call.integer("keepdims", 1)), **options)
    return np.asarray(made)


@computes("ArgMax", "ArgMin")
def arg(call: Call) -> Array:
    """The place of the largest or smallest element along an axis, the first one or the last."""
    array = call.array(0)
    _check_numbers(array)
    if array.size == 0 or (array.dtype.kind == "f" and np.isnan(array).any()):
        raise NotComputed("NaN, or no elements")
    axis = call.axis(array.ndim)
    choose = np.argmax if call.op_type == "ArgMax" else np.argmin
    if call.integer("select_last_index", 0):
        found = array.shape[axis] - 1 - choose(np.flip(array, axis), axis)
    else:
        found = choose(array, axis)
    found = np.asarray(found, np.int64)
    return np.expand_dims(found, axis) if call.integer("keepdims", 1) else found


@computes("TopK")
def top(call: Call) -> tuple[Array, Array]:
    """The largest or smallest elements along an axis, in order; of equal ones the first."""
    array = call.array(0)
    _check_numbers(array)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise NotComputed("NaN")
    axis = call.axis(array.ndim, default=-1)
    count = call.integer("k") if call.version < 10 else call.integer_input(1)
    if not 0 <= count <= array.shape[axis]:
        raise ValueError(f"{count} of {array.shape[axis]} elements")
    if call.version >= 11 and not call.integer("largest", 1):
        order = np.argsort(array, axis, kind="stable")
    else:  # a stable order of the reversed array has the last of equal ones behind
        order = array.shape[axis] - 1 - np.flip(np.argsort(np.flip(array, axis), axis, kind="stable"), axis)
    indices = np.take(order, np.arange(count), axis)
    return np.take_along_axis(array, indices, axis), indices.astype(np.int64)


@computes("CumSum", counts=MASKS)
def cumulative_sum(call: Call) -> Array:
    """Of integers, which wrap."""
    array = call.array(0)
    if array.dtype.kind not in "iu":
        raise NotComputed(str(array.dtype))
    axis = checked_axis(call.integer_input(1), array.ndim)
    turned = np.flip(array, axis) if call.integer("reverse", 0) else array
    made = np.cumsum(turned, axis, dtype=array.dtype)
    if call.integer("exclusive", 0):
        made = made - turned
    return np.asarray(np.flip(made, axis) if call.integer("reverse", 0) else made)
