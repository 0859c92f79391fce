"""A node that the host computes from arrays, and the table of functions that do so with the same bits everywhere."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from dmlvk.dynamic.sizes import DynamicSize
from dmlvk.onnx.model.node_attributes import NodeAttributes

Array = npt.NDArray[Any]

Check = Callable[[Sequence[int], np.dtype[Any]], None]  # Refuses a shape and a type of a result by an error of its own

Function = Callable[["Call"], Any]
"""Computes a node: one array for its first output, or a tuple with one for each output."""


class NotComputed(Exception):
    """A function does not know this node with these inputs; the message says why, and others may know it."""


class Call(NodeAttributes):
    """A node with the values of its inputs.

    Args:
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

    def of(self, inputs: Sequence[Any]) -> Call:
        """The same node with other inputs."""
        made = Call.__new__(Call)
        made.__dict__.update(self.__dict__, inputs=list(inputs))
        return made

    # Inputs.

    def has(self, index: int) -> bool:
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
        return index < len(self.proto.output) and bool(self.proto.output[index])


def checked_axis(axis: int, rank: int) -> int:
    """An axis counted from the first.

    Raises:
        ValueError: when there is no such axis.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"the axis {axis} is not among {rank} dimensions")
    return axis % rank


@dataclasses.dataclass(frozen=True)
class HostFunction:
    """A function of the host as it is registered."""

    since: int  # the version of its operator from which on it holds, up to the next function's
    compute: Function  # the function
    # whether it also computes with arrays of objects, integers of :mod:`dmlvk.dynamic.sizes` among them
    of_sizes: bool = False
    # where models make numbers by the operator from which nothing follows but how much of tensors counts:
    # :data:`LENGTHS`, or only :data:`MASKS`; empty: nowhere
    counts: str = ""
    grows: bool = False  # whether the results of large inputs take more memory than they do
    # from how many inputs on results are drawn, and differ from run to run; ``None``: they never are
    draws: int | None = None
    of_shape: bool = False  # whether results follow from the input's shape alone


LENGTHS = "lengths"  # Lengths are made by an operator, and masks

MASKS = "masks"  # Masks are

FUNCTIONS: dict[tuple[str, str], list[HostFunction]] = {}
"""The functions by domain and operator, each list by rising version."""


def computes(
    *op_types: str,
    since: int = 1,
    domain: str = "",
    of_sizes: bool = False,
    counts: str = "",
    grows: bool = False,
    draws: int | None = None,
    of_shape: bool = False,
) -> Callable[[Function], Function]:
    """Registers a function.

    Args:
        since: the first version of them that it knows.
        of_sizes: as of :class:`HostFunction`.
    """

    def register(function: Function) -> Function:
        record = HostFunction(since, function, of_sizes, counts, grows, draws, of_shape)
        for op_type in op_types:
            bisect.insort(FUNCTIONS.setdefault((domain, op_type), []), record, key=lambda item: item.since)
        return function

    return register


def function_of(domain: str, op_type: str, version: int) -> HostFunction | None:
    known = [item for item in FUNCTIONS.get((domain, op_type), ()) if item.since <= version]
    return known[-1] if known else None


def is_of_sizes(array: Array) -> bool:
    """Whether it is an array of objects that are integers; others have texts."""
    return array.dtype == object and all(isinstance(number, (int, DynamicSize)) for number in array.flat)
