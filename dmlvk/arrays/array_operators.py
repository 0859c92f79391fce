"""Python's operators of Arrays: each is a graph of one expression, compiled once for its shapes and numbers."""

from __future__ import annotations

import collections
import operator
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.conversion import converted
from dmlvk.arrays.tensor_bytes import plain_array
from dmlvk.datatypes import DataType

if TYPE_CHECKING:
    from dmlvk.arrays.device_array import Array
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph

Other: TypeAlias = "Array | npt.NDArray[Any] | float | np.generic | list[Any]"
"""What an Array is combined with."""

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
        from dmlvk.arrays.device_array import Array

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
    from dmlvk.arrays.device_array import Array

    if isinstance(operand, Array):
        return operand.data_type, operand.shape, operand.tensor.element_strides, operand.is_truth
    return type(operand), repr(operand)  # not the number itself: -0 equals 0


def _compiled(device: Device, operation: Callable[..., Any], operands: list[Any]) -> tuple[CompiledGraph, bool]:
    from dmlvk.arrays.device_array import Array
    from dmlvk.graphs.builder import Graph

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


def _swapped(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def made(first: Any, second: Any) -> Any:
        return operation(second, first)

    made.__name__ = f"r{operation.__name__}"
    return made


_RADD, _RSUB, _RMUL, _RTRUEDIV = map(_swapped, (operator.add, operator.sub, operator.mul, operator.truediv))
_RFLOORDIV, _RMOD, _RPOW, _RMATMUL = map(_swapped, (operator.floordiv, operator.mod, operator.pow, operator.matmul))
_RAND, _ROR, _RXOR = map(_swapped, (operator.and_, operator.or_, operator.xor))
_RLSHIFT, _RRSHIFT = map(_swapped, (operator.lshift, operator.rshift))


class ArrayOperators:
    """The operators that expressions of graphs have, computed at once on the device."""

    device: Device

    __array_priority__ = 1000  # NumPy's arrays and numbers on the left leave the operator to this class

    def _computed(self, operation: Callable[..., Any], *others: Other) -> Array:
        return self.device.arrays.operations.run(self.device, operation, self, *others)

    def __add__(self, other: Other) -> Array:
        return self._computed(operator.add, other)

    def __radd__(self, other: Other) -> Array:
        return self._computed(_RADD, other)

    def __sub__(self, other: Other) -> Array:
        return self._computed(operator.sub, other)

    def __rsub__(self, other: Other) -> Array:
        return self._computed(_RSUB, other)

    def __mul__(self, other: Other) -> Array:
        return self._computed(operator.mul, other)

    def __rmul__(self, other: Other) -> Array:
        return self._computed(_RMUL, other)

    def __truediv__(self, other: Other) -> Array:
        return self._computed(operator.truediv, other)

    def __rtruediv__(self, other: Other) -> Array:
        return self._computed(_RTRUEDIV, other)

    def __floordiv__(self, other: Other) -> Array:
        return self._computed(operator.floordiv, other)

    def __rfloordiv__(self, other: Other) -> Array:
        return self._computed(_RFLOORDIV, other)

    def __mod__(self, other: Other) -> Array:
        return self._computed(operator.mod, other)

    def __rmod__(self, other: Other) -> Array:
        return self._computed(_RMOD, other)

    def __divmod__(self, other: Other) -> tuple[Array, Array]:
        return self // other, self % other

    def __rdivmod__(self, other: Other) -> tuple[Array, Array]:
        return self.__rfloordiv__(other), self.__rmod__(other)

    def __pow__(self, other: Other) -> Array:
        return self._computed(operator.pow, other)

    def __rpow__(self, other: Other) -> Array:
        return self._computed(_RPOW, other)

    def __matmul__(self, other: Other) -> Array:
        return self._computed(operator.matmul, other)

    def __rmatmul__(self, other: Other) -> Array:
        return self._computed(_RMATMUL, other)

    def __neg__(self) -> Array:
        return self._computed(operator.neg)

    def __abs__(self) -> Array:
        return self._computed(operator.abs)

    def __invert__(self) -> Array:
        return self._computed(operator.invert)

    def __lt__(self, other: Other) -> Array:
        return self._computed(operator.lt, other)

    def __le__(self, other: Other) -> Array:
        return self._computed(operator.le, other)

    def __gt__(self, other: Other) -> Array:
        return self._computed(operator.gt, other)

    def __ge__(self, other: Other) -> Array:
        return self._computed(operator.ge, other)

    def __eq__(self, other: Other) -> Array:  # type: ignore[override]  # an array, as in NumPy
        return self._computed(operator.eq, other)

    def __ne__(self, other: Other) -> Array:  # type: ignore[override]  # likewise
        return self._computed(operator.ne, other)

    __hash__ = object.__hash__

    def __and__(self, other: Other) -> Array:
        return self._computed(operator.and_, other)

    def __rand__(self, other: Other) -> Array:
        return self._computed(_RAND, other)

    def __or__(self, other: Other) -> Array:
        return self._computed(operator.or_, other)

    def __ror__(self, other: Other) -> Array:
        return self._computed(_ROR, other)

    def __xor__(self, other: Other) -> Array:
        return self._computed(operator.xor, other)

    def __rxor__(self, other: Other) -> Array:
        return self._computed(_RXOR, other)

    def __lshift__(self, other: Other) -> Array:
        return self._computed(operator.lshift, other)

    def __rlshift__(self, other: Other) -> Array:
        return self._computed(_RLSHIFT, other)

    def __rshift__(self, other: Other) -> Array:
        return self._computed(operator.rshift, other)

    def __rrshift__(self, other: Other) -> Array:
        return self._computed(_RRSHIFT, other)
