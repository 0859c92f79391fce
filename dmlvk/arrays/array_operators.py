"""Python's operators of Arrays, as methods: :mod:`dmlvk.arrays.operations` computes them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dmlvk.arrays.device_array import Array
    from dmlvk.device import Device

Other: TypeAlias = "Array | npt.NDArray[Any] | float | np.generic | list[Any]"
"""What an Array is combined with."""


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
