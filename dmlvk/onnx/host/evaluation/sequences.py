"""Sequences and optional values, which are Python's lists and ``None``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlvk.onnx.host.evaluation.call import Array, Call, NotComputed, checked_axis, computes
from dmlvk.onnx.model.limits import CountedSequence, size_of


def _sequence(call: Call) -> Sequence[Any]:
    value = call.inputs[0] if call.inputs else None
    if not isinstance(value, (list, tuple)):
        raise ValueError("its input is no sequence")
    return value


def _position(call: Call, index: int, count: int, *, is_new: bool = False) -> int:
    """A place in a sequence of so many elements, which may be counted from the end."""
    position = call.integer_input(index)
    if not -count <= position < count + is_new:
        raise ValueError(f"the place {position} is not among {count} elements")
    return position + count if position < 0 else position


@computes("SequenceEmpty")
def empty(call: Call) -> tuple[list[Any]]:
    return ([],)


@computes("SequenceConstruct")
def construct(call: Call) -> tuple[list[Any]]:
    return (list(call.inputs),)


@computes("SequenceAt")
def at(call: Call) -> Any:
    values = _sequence(call)
    return (values[_position(call, 1, len(values))],)


@computes("SequenceLength")
def length(call: Call) -> Array:
    return np.array(len(_sequence(call)), np.int64)


@computes("SequenceInsert")
def insert(call: Call) -> tuple[list[Any]]:
    """With one element more, behind all others where no place is given."""
    before = _sequence(call)
    values = CountedSequence(before, size_of(before) + size_of(call.inputs[1]))
    values.insert(_position(call, 2, len(values), is_new=True) if call.has(2) else len(values), call.inputs[1])
    return (values,)


@computes("SequenceErase")
def erase(call: Call) -> tuple[list[Any]]:
    """With one element less, the last one where no place is given."""
    values = list(_sequence(call))
    del values[_position(call, 1, len(values)) if call.has(1) else -1]
    return (values,)


@computes("SplitToSequence")
def split(call: Call) -> tuple[list[Array]]:
    array = call.array(0)
    axis = call.axis(array.ndim)
    size = array.shape[axis]
    if not call.has(1):
        parts = np.split(array, size, axis) if size else []
        return (parts if call.integer("keepdims", 1) else [np.squeeze(part, axis) for part in parts],)
    given = call.array(1)
    numbers = call.integers(1)
    if given.ndim == 0:
        if numbers[0] < 1:
            raise ValueError(f"parts of {numbers[0]} elements")
        numbers = [min(numbers[0], size - start) for start in range(0, size, numbers[0])]
    if sum(numbers) != size or min(numbers, default=0) < 0:
        raise ValueError(f"the parts {numbers} are not {size} elements")
    return (np.split(array, np.cumsum(numbers)[:-1], axis) if numbers else [],)


@computes("ConcatFromSequence")
def concat(call: Call) -> Array:
    """Behind one another along an axis, or along a new one."""
    values = _sequence(call)
    if not values or not all(isinstance(value, np.ndarray) for value in values):
        raise ValueError("its sequence has no tensors")
    if call.integer("new_axis", 0):
        return np.stack(values, checked_axis(call.integer("axis"), values[0].ndim + 1))
    return np.concatenate(values, checked_axis(call.integer("axis"), values[0].ndim))


@computes("Optional")
def optional(call: Call) -> Any:
    return (call.inputs[0] if call.inputs else None,)


@computes("OptionalHasElement")
def has_element(call: Call) -> Array:
    return np.array(bool(call.inputs) and call.inputs[0] is not None)


@computes("OptionalGetElement")
def get_element(call: Call) -> Any:
    if not call.inputs or call.inputs[0] is None:
        raise ValueError("its value is absent")
    if not call.proto.output:
        raise NotComputed("no output")
    return (call.inputs[0],)
