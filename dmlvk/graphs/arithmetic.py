"""Python's operators for tensors that are not computed yet: of expressions, and of models that are translated."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, TypeVar

from dmlvk.datatypes import DataType

Symbol = TypeVar("Symbol", bound="Arithmetic")


def binary(operator: str) -> Callable[[Symbol, Any], Symbol]:
    """The method that applies an element-wise operator to a tensor and another operand."""
    return lambda self, other: self.elementwise(operator, a_tensor=self, b_tensor=other)


def _reflected(operator: str) -> Callable[[Symbol, Any], Symbol]:
    return lambda self, other: self.elementwise(operator, a_tensor=other, b_tensor=self)


def _bitwise(operator: str) -> Callable[[Symbol, Any], Symbol]:
    def function(self: Symbol, other: Any) -> Symbol:
        both_truths = self.has_truths() and isinstance(other, Arithmetic) and other.has_truths()
        return self.elementwise(f"{'LOGICAL' if both_truths else 'BIT'}_{operator}", a_tensor=self, b_tensor=other)

    return function


class Arithmetic(abc.ABC):
    """A tensor that is not computed yet, with Python's operators.

    ``+ - * / % **``, unary ``-``, ``abs``, ``< <= > >=``, ``& | ^ ~ << >>`` make further ones; what they are combined
    with may be a tensor or a number. ``~ & | ^`` of comparisons combine these as 0 and 1, of anything else all bits.
    """

    @property
    @abc.abstractmethod
    def data_type(self) -> DataType:
        """The type of the elements."""

    @abc.abstractmethod
    def has_truths(self) -> bool:
        """Whether the elements are 0 and 1 of a comparison, which ``~ & | ^`` combine as such."""

    @abc.abstractmethod
    def elementwise(self: Symbol, operator: str, **members: Any) -> Symbol:
        """What an element-wise operator gives.

        Args:
            operator: DirectML's name without ``ELEMENT_WISE_``.
            members: tensors, numbers in their place, and attributes, by their Python names.
        """

    def where(self: Symbol, a: Any, b: Any) -> Symbol:
        """One value where this is not 0, else another one; all broadcast, and one of the two may be a number."""
        return self.elementwise("IF", condition_tensor=self, a_tensor=a, b_tensor=b)

    def __pos__(self: Symbol) -> Symbol:
        return self

    def __neg__(self: Symbol) -> Symbol:
        return self.elementwise("NEGATE", input_tensor=self)

    def __abs__(self: Symbol) -> Symbol:
        return self.elementwise("ABS", input_tensor=self)

    def __invert__(self: Symbol) -> Symbol:
        return self.elementwise("LOGICAL_NOT" if self.has_truths() else "BIT_NOT", input_tensor=self)

    def __pow__(self: Symbol, exponent: Any) -> Symbol:
        if isinstance(exponent, (int, float)) and self.data_type.is_float:
            return self.elementwise("CONSTANT_POW", input_tensor=self, exponent=float(exponent))
        return self.elementwise("POW", input_tensor=self, exponent_tensor=exponent)

    def __rpow__(self: Symbol, base: Any) -> Symbol:
        return self.elementwise("POW", input_tensor=base, exponent_tensor=self)

    __lt__ = binary("LOGICAL_LESS_THAN")
    __le__ = binary("LOGICAL_LESS_THAN_OR_EQUAL")
    __gt__ = binary("LOGICAL_GREATER_THAN")
    __ge__ = binary("LOGICAL_GREATER_THAN_OR_EQUAL")
    __add__, __radd__ = binary("ADD"), _reflected("ADD")
    __sub__, __rsub__ = binary("SUBTRACT"), _reflected("SUBTRACT")
    __mul__, __rmul__ = binary("MULTIPLY"), _reflected("MULTIPLY")
    __truediv__, __rtruediv__ = binary("DIVIDE"), _reflected("DIVIDE")
    __mod__, __rmod__ = binary("MODULUS_FLOOR"), _reflected("MODULUS_FLOOR")
    __lshift__, __rlshift__ = binary("BIT_SHIFT_LEFT"), _reflected("BIT_SHIFT_LEFT")
    __rshift__, __rrshift__ = binary("BIT_SHIFT_RIGHT"), _reflected("BIT_SHIFT_RIGHT")
    __and__, __rand__ = _bitwise("AND"), _reflected("BIT_AND")
    __or__, __ror__ = _bitwise("OR"), _reflected("BIT_OR")
    __xor__, __rxor__ = _bitwise("XOR"), _reflected("BIT_XOR")
