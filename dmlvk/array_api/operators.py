"""Python's operators of the standard's arrays: the functions of the same meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dmlvk.array_api.dtypes import is_number
from dmlvk.arrays.device_array import Array as DeviceArray
from dmlvk.errors import InvalidArgumentError

if TYPE_CHECKING:
    from dmlvk.array_api.array import Array


class Operators:
    """Operators by functions; what is neither an array nor a number is left to the other operand.

    Attributes:
        functions: the namespace, which is told here when it is imported: its functions make arrays, and so stand above.
    """

    functions: ClassVar[Any]

    def _with(self, name: str, other: Any, swapped: bool = False) -> Any:
        if not (isinstance(other, (Operators, DeviceArray)) or is_number(other)):
            return NotImplemented
        function = getattr(self.functions, name)
        return function(other, self) if swapped else function(self, other)

    def _alone(self, name: str) -> Array:
        made: Array = getattr(self.functions, name)(self)
        return made

    def _in_place(self, name: str, other: Any) -> Any:
        made = self._with(name, other)
        if made is NotImplemented:
            return made
        own: Any = self
        if made.shape != own.shape or made.dtype != own.dtype:
            raise InvalidArgumentError(
                f"{name}: in place, {own.dtype.name} {list(own.shape)} cannot become {made.dtype.name} "
                f"{list(made.shape)}"
            )
        return own._become(made)

    def __abs__(self) -> Array:
        return self._alone("abs")

    def __invert__(self) -> Array:
        return self._alone("bitwise_invert")

    def __neg__(self) -> Array:
        return self._alone("negative")

    def __pos__(self) -> Array:
        return self._alone("positive")

    def __lt__(self, other: Any, /) -> Any:
        return self._with("less", other)

    def __le__(self, other: Any, /) -> Any:
        return self._with("less_equal", other)

    def __gt__(self, other: Any, /) -> Any:
        return self._with("greater", other)

    def __ge__(self, other: Any, /) -> Any:
        return self._with("greater_equal", other)

    def __eq__(self, other: Any, /) -> Any:
        return self._with("equal", other)

    def __ne__(self, other: Any, /) -> Any:
        return self._with("not_equal", other)

    def __add__(self, other: Any, /) -> Any:
        return self._with("add", other)

    def __radd__(self, other: Any, /) -> Any:
        return self._with("add", other, swapped=True)

    def __iadd__(self, other: Any, /) -> Any:
        return self._in_place("add", other)

    def __sub__(self, other: Any, /) -> Any:
        return self._with("subtract", other)

    def __rsub__(self, other: Any, /) -> Any:
        return self._with("subtract", other, swapped=True)

    def __isub__(self, other: Any, /) -> Any:
        return self._in_place("subtract", other)

    def __mul__(self, other: Any, /) -> Any:
        return self._with("multiply", other)

    def __rmul__(self, other: Any, /) -> Any:
        return self._with("multiply", other, swapped=True)

    def __imul__(self, other: Any, /) -> Any:
        return self._in_place("multiply", other)

    def __truediv__(self, other: Any, /) -> Any:
        return self._with("divide", other)

    def __rtruediv__(self, other: Any, /) -> Any:
        return self._with("divide", other, swapped=True)

    def __itruediv__(self, other: Any, /) -> Any:
        return self._in_place("divide", other)

    def __floordiv__(self, other: Any, /) -> Any:
        return self._with("floor_divide", other)

    def __rfloordiv__(self, other: Any, /) -> Any:
        return self._with("floor_divide", other, swapped=True)

    def __ifloordiv__(self, other: Any, /) -> Any:
        return self._in_place("floor_divide", other)

    def __mod__(self, other: Any, /) -> Any:
        return self._with("remainder", other)

    def __rmod__(self, other: Any, /) -> Any:
        return self._with("remainder", other, swapped=True)

    def __imod__(self, other: Any, /) -> Any:
        return self._in_place("remainder", other)

    def __pow__(self, other: Any, /) -> Any:
        return self._with("pow", other)

    def __rpow__(self, other: Any, /) -> Any:
        return self._with("pow", other, swapped=True)

    def __ipow__(self, other: Any, /) -> Any:
        return self._in_place("pow", other)

    def __lshift__(self, other: Any, /) -> Any:
        return self._with("bitwise_left_shift", other)

    def __rlshift__(self, other: Any, /) -> Any:
        return self._with("bitwise_left_shift", other, swapped=True)

    def __ilshift__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_left_shift", other)

    def __rshift__(self, other: Any, /) -> Any:
        return self._with("bitwise_right_shift", other)

    def __rrshift__(self, other: Any, /) -> Any:
        return self._with("bitwise_right_shift", other, swapped=True)

    def __irshift__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_right_shift", other)

    def __and__(self, other: Any, /) -> Any:
        return self._with("bitwise_and", other)

    def __rand__(self, other: Any, /) -> Any:
        return self._with("bitwise_and", other, swapped=True)

    def __iand__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_and", other)

    def __or__(self, other: Any, /) -> Any:
        return self._with("bitwise_or", other)

    def __ror__(self, other: Any, /) -> Any:
        return self._with("bitwise_or", other, swapped=True)

    def __ior__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_or", other)

    def __xor__(self, other: Any, /) -> Any:
        return self._with("bitwise_xor", other)

    def __rxor__(self, other: Any, /) -> Any:
        return self._with("bitwise_xor", other, swapped=True)

    def __ixor__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_xor", other)

    def __matmul__(self, other: Any, /) -> Any:
        return self._with("matmul", other)

    def __rmatmul__(self, other: Any, /) -> Any:
        return self._with("matmul", other, swapped=True)

    def __imatmul__(self, other: Any, /) -> Any:
        return self._in_place("matmul", other)
