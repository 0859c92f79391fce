"""A node that the host computes from arrays, and the table of functions that do so with the same bits everywhere."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from dmlvk.onnx.model.node_attributes import NodeAttributes

Array = npt.NDArray[Any]

Check = Callable[[Sequence[int], np.dtype[Any]], None]
"""Refuses a shape and a type of a result by an error of its own."""

Function = Callable[["Call"], Any]
"""Computes a node: one array for its first output, or a tuple with one for each output."""


class NotComputed(Exception):
    """A function does not know this node with these inputs; the message says why, and others may know it."""


class Call(NodeAttributes):
    """A node with the values of its inputs.

    Args:
        proto: the node.
        schema: what ONNX says of its operator.
        inputs: the values; ``None`` for an absent optional one.
        check: refuses a shape and a type of a result.
    """

    refusal = NotComputed

    def __init__(
        self, proto: onnx.NodeProto, schema: onnx.defs.OpSchema | None, inputs: Sequence[Any], check: Check
    ) -> None:
        super().__init__(proto, schema)
        self.inputs = list(inputs)
        self._check = check

    # Inputs.

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def array(self, index: int) -> Array:
        """An input.

        Raises:
            NotComputed: when it is absent or no tensor.
        """
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, np.ndarray):
            raise NotComputed(f"input {index} is no tensor")
        return value

    def arrays(self) -> list[Array]:
        """All inputs.

        Raises:
            NotComputed: when one is absent or no tensor.
        """
        return [self.array(index) for index in range(len(self.inputs))]

    def integers(self, index: int) -> list[int]:
        """The elements of an input of integers.

        Raises:
            NotComputed: when it has others.
        """
        array = self.array(index)
        if array.dtype.kind not in "iu":
            raise NotComputed(f"input {index} is of {array.dtype}")
        return [int(number) for number in array.reshape(-1)]

    def integer_input(self, index: int) -> int:
        """The only element of an input of integers.

        Raises:
            ValueError: when it has another number of elements.
        """
        numbers = self.integers(index)
        if len(numbers) != 1:
            raise ValueError(f"input {index} must have one element; it has {len(numbers)}")
        return numbers[0]

    # Attributes.

    def axis(self, rank: int, name: str = "axis", default: int = 0) -> int:
        """An attribute that is an axis, which may be counted from the end.

        Raises:
            ValueError: when there is no such axis.
        """
        return checked_axis(self.integer(name, default), rank)

    def checked_shape(self, shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[int, ...]:
        """The shape of a result, before it is computed: what may be larger than the inputs.

        Raises:
            DmlError: when it would be too large.
        """
        sizes = tuple(int(size) for size in shape)
        self._check(sizes, dtype)
        return sizes

    def wants(self, index: int) -> bool:
        """Whether an output is asked for."""
        return index < len(self.proto.output) and bool(self.proto.output[index])


def checked_axis(axis: int, rank: int) -> int:
    """An axis counted from the first.

    Raises:
        ValueError: when there is no such axis.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"the axis {axis} is not among {rank} dimensions")
    return axis % rank


FUNCTIONS: dict[tuple[str, str], list[tuple[int, Function]]] = {}
"""The functions by domain and operator, each list by the version from which on a function holds."""


def computes(*op_types: str, since: int = 1, domain: str = "") -> Callable[[Function], Function]:
    """Registers a function.

    Args:
        op_types: the operators that it computes.
        since: the first version of them that it knows; it holds up to the next function's.
        domain: of the operators.
    """

    def register(function: Function) -> Function:
        for op_type in op_types:
            bisect.insort(FUNCTIONS.setdefault((domain, op_type), []), (since, function), key=lambda item: item[0])
        return function

    return register


def function_of(domain: str, op_type: str, version: int) -> Function | None:
    """The function that computes an operator's version."""
    found = None
    for since, function in FUNCTIONS.get((domain, op_type), ()):
        if since <= version:
            found = function
    return found
