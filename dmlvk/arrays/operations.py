"""What Python's operators of Arrays compute: a graph of one expression each, compiled once for its shapes."""

from __future__ import annotations

import collections
import threading
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

_KEPT = 64
"""Compiled operations that are kept of a device."""


class Operations:
    """The operations on Arrays that a device has compiled."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[Hashable, tuple[CompiledGraph, bool]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forgets all of them."""
        with self._lock:
            self._kept.clear()

    def run(self, device: Device, operation: Callable[..., Any], *operands: Any) -> Array:
        """What an operation on expressions gives for Arrays, NumPy arrays and numbers.

        Raises:
            InvalidArgumentError: when the operation refuses its operands.
            UnsupportedError, DeviceLimitError, OutOfMemoryError: when the device cannot do it.
        """
        data_type = next(item.data_type for item in operands if isinstance(item, Array))
        given = [_on_device(device, item, data_type, operation.__name__) for item in operands]
        key = (operation.__name__, *(_key(item) for item in given))
        with self._lock:
            found = self._kept.get(key)
        compiled, is_truth = found or _compiled(device, operation, given)
        with self._lock:
            self._kept[key] = compiled, is_truth
            self._kept.move_to_end(key)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
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
