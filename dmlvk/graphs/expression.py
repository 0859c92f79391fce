"""Expressions: the tensors of a graph that is being built, with Python's operators."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from dmlvk.arrays.indexing import axis_order, part_of, reshaped_sizes
from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import value_of
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.arithmetic import Arithmetic, binary
from dmlvk.operators.members import RoundingMode
from dmlvk.support.integers import checked_integers
from dmlvk.tensors import TensorDesc, packed_strides, reshaped_strides

if TYPE_CHECKING:
    from dmlvk.graphs.builder import Graph, Operand


_LARGEST_SIZE = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Source:
    """Where an expression's bytes come from: a graph input, or a node of the builder."""

    kind: Literal["input", "node"]  # which of the two
    index: int  # its number
    output: int = 0  # which output of the node


def shape_text(sizes: Sequence[int]) -> str:
    """A shape for messages: ``[2, 3]``."""
    return str([value_of(size) for size in sizes])


class GraphOfExpressions(abc.ABC):
    """What expressions ask of their graph, beside ``apply``: words of NumPy's, which are made of expressions."""

    @abc.abstractmethod
    def matrix_product(self, first: Operand, second: Operand) -> Expression:
        """What ``first @ second`` gives."""

    @abc.abstractmethod
    def universal_function(self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """What a universal function of NumPy gives for expressions."""

    @abc.abstractmethod
    def numpy_function(self, called: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """What another function of NumPy gives for expressions."""


class Expression(Arithmetic):
    """A tensor of a graph. Made by :class:`dmlvk.Graph`, by functions of :mod:`dmlvk.functions`, and by operators.

    ``+ - * / // % @ **``, unary ``-``, ``abs``, comparisons, ``& | ^ ~ << >>`` make further expressions; what they are
    combined with may be an expression, a number or an array. Comparisons give UINT8 of 0 and 1; ``~`` of such an
    expression is its logical negation, of any other one the negation of all bits. ``(x < 0).where(a, b)`` chooses.

    Attributes:
        graph: the graph that it belongs to.
        source: where its bytes come from.
        tensor: how they are seen.
        name: for messages.
        is_truth: whether the elements are 0 and 1 of a comparison, which ``~ & | ^`` combine as such.
    """

    __hash__ = object.__hash__
    __eq__ = binary("LOGICAL_EQUALS")  # type: ignore[assignment]  # an expression, as in NumPy

    def __init__(
        self, graph: Graph, source: Source, tensor: TensorDesc, name: str = "", *, is_truth: bool = False
    ) -> None:
        self.graph = graph
        self.source = source
        self.tensor = tensor
        self.name = name
        self.is_truth = is_truth

    @property
    def data_type(self) -> DataType:
        return self.tensor.data_type

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.tensor.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, by NumPy's name; the same as ``sizes``."""
        return self.sizes

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.tensor.sizes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's data type of the elements."""
        return self.data_type.numpy_dtype

    @property
    def T(self) -> Expression:
        """The axes in the opposite order, as a view."""
        return self.transpose()

    def __repr__(self) -> str:
        return f"<dmlvk.Expression {self.name or self.source.kind}: {self.data_type.name} {shape_text(self.sizes)}>"

    def __bool__(self) -> NoReturn:
        raise InvalidArgumentError(f"{self!r} has no truth value: it is a tensor that is not computed yet")

    def __float__(self) -> NoReturn:
        raise InvalidArgumentError(f"{self!r} is no number: it is a tensor that is not computed yet")

    def __int__(self) -> NoReturn:
        raise InvalidArgumentError(f"{self!r} is no number: it is a tensor that is not computed yet")

    def __iter__(self) -> NoReturn:
        raise InvalidArgumentError(f"{self!r} cannot be iterated over: it is a tensor that is not computed yet")

    def reinterpret(
        self, sizes: Sequence[int], strides: Sequence[int] | None = None, data_type: DataType | None = None
    ) -> Expression:
        """The same bytes seen as another tensor.

        Args:
            sizes: the shape.
            strides: in elements; ``None``: packed.
            data_type: ``None``: the same.

        Raises:
            InvalidArgumentError: when the tensor would need more bytes than there are.
        """
        made = TensorDesc(data_type or self.data_type, sizes, strides)
        total = self.tensor.size_in_bytes
        if made.minimum_size_in_bytes > total:
            raise InvalidArgumentError(
                f"{self!r}: as {shape_text(made.sizes)} of {made.data_type.name} it would need "
                f"{made.minimum_size_in_bytes} bytes; it has {total}"
            )
        view = dataclasses.replace(made, total_tensor_size_in_bytes=total, flags=self.tensor.flags)
        return Expression(self.graph, self.source, view, self.name, is_truth=self.is_truth and data_type is None)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise InvalidArgumentError(f"{self!r} is no array: it is a tensor that is not computed yet")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        """For NumPy: ``np.sin(x)``, and what an array on the left of an operator does."""
        return self.graph.universal_function(ufunc, method, inputs, named)

    def __array_function__(
        self, called: Callable[..., Any], _types: object, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """For NumPy: ``np.concatenate([x, y])``."""
        return self.graph.numpy_function(called, arguments, named)

    def reshape(self, *sizes: int | Sequence[int]) -> Expression:
        """The same elements in another shape, given as integers or as one sequence of them; one size may be -1.

        Raises:
            InvalidArgumentError: when the number of elements differs, or no strides can say it.
        """
        wanted = reshaped_sizes(self.sizes, sizes, repr(self))
        strides = reshaped_strides(self.sizes, self.tensor.element_strides, wanted)
        if strides is None:
            raise InvalidArgumentError(
                f"{self!r} cannot be reshaped: its elements do not lie in order (use functions.identity first)"
            )
        return self.reinterpret(wanted, None if strides == packed_strides(wanted) else strides)

    def __getitem__(self, key: Any) -> Expression:
        """A part of the tensor, by integers, slices, ``...`` and ``None`` (a new axis), as in NumPy.

        What begins at the first element of every axis, and goes upwards, is a view; the rest is copied (SLICE1).

        Raises:
            InvalidArgumentError: when the part lies outside or is empty, or the index is of another kind
                (functions.gather takes tensors of indices).
        """
        part = part_of(self.sizes, key, repr(self))
        whole = self
        steps = [axis.step for axis in part.axes]
        if any(axis.start or axis.step < 0 for axis in part.axes):
            windows = [axis.window for axis in part.axes]
            attributes = {
                "input_window_offsets": [offset for offset, _ in windows],
                "input_window_sizes": [size for _, size in windows],
                "input_window_strides": steps,
            }
            whole = self.graph.apply("SLICE1", {"input_tensor": self}, attributes)
            whole.is_truth = self.is_truth
            steps = [1] * len(steps)
        strides = [stride * step for stride, step in zip(whole.tensor.element_strides, steps, strict=True)]
        seen = [(1, 1) if axis is None else (part.axes[axis].count, strides[axis]) for axis in part.shown] or [(1, 1)]
        sizes, strides = [size for size, _ in seen], [stride for _, stride in seen]
        if list(whole.sizes) == sizes and list(whole.tensor.element_strides) == strides:
            return whole
        return whole.reinterpret(sizes, strides)

    def transpose(self, *axes: int | Sequence[int]) -> Expression:
        """The axes in another order, given as integers or as one sequence of them; without any in the opposite one.

        Raises:
            InvalidArgumentError: when ``axes`` is no permutation.
        """
        order = axis_order(self.ndim, axes, repr(self))
        strides = self.tensor.element_strides
        return self.reinterpret([self.sizes[axis] for axis in order], [strides[axis] for axis in order])

    def broadcast_to(self, sizes: Sequence[int]) -> Expression:
        """The elements repeated along axes of size 1, and along new leading ones, by strides of 0.

        Raises:
            InvalidArgumentError: when the shapes do not fit.
        """
        wanted = tuple(checked_integers(sizes, f"{self!r}: broadcast_to: sizes", 1, _LARGEST_SIZE))
        missing = len(wanted) - len(self.sizes)
        padded = (1,) * missing + self.sizes
        if missing < 0 or any(size not in (1, other) for size, other in zip(padded, wanted, strict=True)):
            raise InvalidArgumentError(f"{self!r} does not broadcast to {shape_text(wanted)}")
        if wanted == self.sizes:
            return self
        strides = (0,) * missing + self.tensor.element_strides
        # Along an axis of size 1 the stride does not matter; packed where nothing is repeated, so that it reads well.
        packed = packed_strides(wanted)
        steps = [
            (0 if other > 1 else straight) if size == 1 else stride
            for size, other, stride, straight in zip(padded, wanted, strides, packed, strict=True)
        ]
        return self.reinterpret(wanted, steps)

    def has_truths(self) -> bool:
        return self.is_truth

    def elementwise(self, operator: str, **members: Any) -> Expression:
        tensors = {member: value for member, value in members.items() if member.endswith("_tensor")}
        attributes = {member: value for member, value in members.items() if member not in tensors}
        return self.graph.apply(f"ELEMENT_WISE_{operator}", tensors, attributes)

    def __matmul__(self, other: Operand) -> Expression:
        return self.graph.matrix_product(self, other)

    def __rmatmul__(self, other: Operand) -> Expression:
        return self.graph.matrix_product(other, self)

    def __floordiv__(self, other: Operand) -> Expression:
        return self._floor_division(self, other)

    def __rfloordiv__(self, other: Operand) -> Expression:
        return self._floor_division(other, self)

    def _floor_division(self, first: Operand, second: Operand) -> Expression:
        """The quotient rounded down: what the remainder leaves is divided, so that nothing is rounded up on the way.

        Of floats as NumPy has it: 0 has the sign of the quotient, and by 0 it is what division gives. (A quotient
        that is rounded down to 0, times 0, is a zero of its sign.)
        """

        def made(operator: str, a: Operand, b: Operand) -> Expression:
            return self.elementwise(operator, a_tensor=a, b_tensor=b)

        first, second = (
            self.graph.constant(each, self.data_type) if isinstance(each, (int, float)) else each
            for each in (first, second)
        )
        remainder = made("MODULUS_TRUNCATE", first, second)
        quotient = made("DIVIDE", made("SUBTRACT", first, remainder), second)
        if self.data_type.is_float:
            mode = RoundingMode.HALVES_TO_NEAREST_EVEN
            quotient = self.elementwise("ROUND", input_tensor=quotient, rounding_mode=mode)
        is_down = made("LOGICAL_EQUALS", made("MODULUS_FLOOR", first, second), remainder)
        floored = is_down.where(quotient, quotient - 1)
        if not self.data_type.is_float:
            return floored
        plain = made("DIVIDE", first, second)
        signed = (floored == 0).where(plain * 0, floored)
        return made("LOGICAL_EQUALS", second, 0).where(plain, signed)

    def __divmod__(self, other: Operand) -> tuple[Expression, Expression]:
        return self // other, self % other

    def __rdivmod__(self, other: Operand) -> tuple[Expression, Expression]:
        return self._floor_division(other, self), self.__rmod__(other)

    def __ne__(self, other: Operand) -> Expression:  # type: ignore[override]  # an expression, as in NumPy
        return self.elementwise("LOGICAL_NOT", input_tensor=self == other)
