"""What Python's operators of Arrays compute: a graph of one expression each, compiled once for its shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.arrays.conversion import converted
from dmlvk.arrays.device_array import Array
from dmlvk.arrays.tensor_bytes import plain_array
from dmlvk.datatypes import DataType
from dmlvk.graphs.builder import Graph

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "matmul": operator.matmul,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_left_shift": operator.lshift,
    "bitwise_right_shift": operator.rshift,
    "bitwise_invert": operator.invert,
    "negative": operator.neg,
    "abs": operator.abs,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


def operated(name: str, array: Array, operands: tuple[Any, ...]) -> Array:
    """What an operator of expressions gives for Arrays, NumPy arrays and numbers.

    Args:
        name: of the array API standard's function.
        array: one of the operands, which tells the device and the type of what has none of its own.
        operands: in order.

    Raises:
        InvalidArgumentError: when the operation refuses its operands.
        UnsupportedError, DeviceLimitError, OutOfMemoryError: when the device cannot do it.
    """
    device = array.device
    given = [_on_device(device, item, array.data_type, name) for item in operands]
    key = (name, *(_key(item) for item in given))
    programs = device.arrays.programs
    found = programs.get("operator", key) or programs.keep("operator", key, _compiled(device, _FUNCTIONS[name], given))
    compiled, is_truth = found
    arrays = {f"operand {number}": item for number, item in enumerate(given) if isinstance(item, Array)}
    made = device.run(compiled, arrays, keep=True)["output"]
    made.is_truth = is_truth
    return made


def _on_device(device: Device, operand: Any, data_type: DataType, name: str) -> Any:
    """Arrays as Arrays; lists, and arrays of NumPy's default types, in the data type beside which they stand."""
    if isinstance(operand, (list, tuple)):
        operand = plain_array(operand, name)
    if not isinstance(operand, np.ndarray):
        return operand
    if operand.dtype in (np.float64, np.int64) and data_type.size_in_bits >= 8:
        operand = converted(operand, data_type.numpy_dtype, name) if operand.dtype != data_type.numpy_dtype else operand
    return device.array(operand)


def _key(operand: Any) -> Hashable:
    if isinstance(operand, Array):
        return operand.data_type, operand.shape, operand.tensor.element_strides, operand.is_truth
    return type(operand), repr(operand)  # not the number itself: -0 equals 0


def _compiled(device: Device, operation: Callable[..., Any], operands: list[Any]) -> tuple[CompiledGraph, bool]:
    graph = Graph(device)
    expressions = []
    for number, item in enumerate(operands):
        if isinstance(item, Array):
            expression = graph.input(f"operand {number}", item.data_type, item.shape, item.tensor.strides)
            expression.is_truth = item.is_truth
            expressions.append(expression)
        else:
            expressions.append(item)
    made = operation(*expressions)
    return graph.compile(made, fuse=False), made.is_truth
