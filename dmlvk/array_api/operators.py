"""Python's operators of the standard's arrays: the functions of the same meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from dmlvk.array_api.dtypes import is_number
from dmlvk.arrays.array_operators import ArrayOperators
from dmlvk.arrays.device_array import Array as DeviceArray
from dmlvk.errors import InvalidArgumentError


class Operators(ArrayOperators):
    """Operators by functions; what is neither an array nor a number is left to the other operand.

    Attributes:
        functions: the namespace, which is told here when it is imported: its functions make arrays, and so stand above.
    """

    functions: ClassVar[Any]

    def _operated(self, name: str, *other: Any, swapped: bool = False) -> Any:
        if other and not (isinstance(other[0], (Operators, DeviceArray)) or is_number(other[0])):
            return NotImplemented
        function = getattr(self.functions, name)
        return function(*other, self) if swapped else function(self, *other)

    def __pos__(self) -> Any:
        return self._operated("positive")

    def _in_place(self, name: str, other: Any) -> Any:
        made = self._operated(name, other)
        if made is NotImplemented:
            return made
        own: Any = self
        if made.shape != own.shape or made.dtype != own.dtype:
            raise InvalidArgumentError(
                f"{name}: in place, {own.dtype.name} {list(own.shape)} cannot become {made.dtype.name} "
                f"{list(made.shape)}"
            )
        return own._become(made)


def _in_place(name: str) -> Callable[[Operators, Any], Any]:
    def method(self: Operators, other: Any, /) -> Any:
        return self._in_place(name, other)

    return method


for _word, _name in {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}.items():
    setattr(Operators, f"__i{_word}__", _in_place(_name))
