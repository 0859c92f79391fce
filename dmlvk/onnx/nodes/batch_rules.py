"""Which operators treat each item of a batch by itself: the rules that translators name for their operators.

A value is *of the batch* where its first axis counts items, each computed of the same items of the inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from onnx import helper

from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.translation import BatchRule

Shape = tuple[int, ...]


class Look:
    def __init__(
        self,
        step: Step,
        shapes: Callable[[str], Shape | None],
        constants: Mapping[str, Any],
        batched: Collection[str],  # values that are of the batch
    ) -> None:
        self.step = step
        self.kind = step.proto.op_type
        self.constants = constants
        names = [name for name in step.proto.input if name]
        self.inputs = [shapes(name) for name in names]
        self.is_batched = [name in batched for name in names]
        self.outputs = [shapes(name) for name in step.proto.output if name]
        self.given = {item.name: helper.get_attribute_value(item) for item in step.proto.attribute}

    @property
    def first_alone(self) -> bool:
        return self.is_batched[0] and not any(self.is_batched[1:])

    def axes(self, position: int) -> list[int] | None:
        """The axes that an attribute or an input names, counted from the front; ``None``: they are not known."""
        found = self.given.get("axes")
        if found is None and position < len(self.step.proto.input):
            found = self.constants.get(self.step.proto.input[position])
        shape = self.inputs[0]
        if found is None or shape is None:
            return None
        return [int(axis) % len(shape) for axis in np.asarray(found).reshape(-1)]

    def is_open_shape(self, position: int) -> bool:
        known = self.constants.get(self.step.proto.input[position])
        first = self.inputs[0]
        return known is None or not first or np.asarray(known).reshape(-1)[:1].tolist() != [first[0]]

    def keeps_size(self) -> bool:
        """Whether the first axis of all outputs is as long as that of the first input."""
        first = self.inputs[0]
        return bool(first) and all(shape and first and shape[0] == first[0] for shape in self.outputs)


def elementwise(look: Look) -> bool:
    """Whether operands of the batch have their items where the result has them, and the others are the same for all."""
    result = look.outputs[0]
    for shape, is_batched in zip(look.inputs, look.is_batched, strict=True):
        if not result or shape is None:
            return False
        is_leading = len(shape) == len(result)
        if is_batched and not (is_leading and shape[0] == result[0]):
            return False
        if not is_batched and is_leading and shape[0] != 1:
            return False
    return True


def along_an_axis(default: int) -> BatchRule:
    """Operators along one axis, with its default; the other inputs are numbers."""

    def rule(look: Look) -> bool:
        # Before version 13 these go over all axes from the one on.
        is_old = look.kind in ("Softmax", "LogSoftmax", "Hardmax") and look.step.version < 13
        axis = int(look.given.get("axis", 1 if is_old else default))
        shape = look.inputs[0]
        return bool(shape) and look.first_alone and axis % len(shape or (1,)) != 0

    return rule


def product(look: Look) -> bool:
    if len(look.inputs) < 2 or look.inputs[0] is None or look.inputs[1] is None:
        return False
    first, second = look.inputs[0], look.inputs[1]
    if look.kind == "Gemm":
        added = look.inputs[2] if len(look.inputs) > 2 else None
        is_same = added is None or len(added) < 2 or added[0] == 1
        return look.first_alone and is_same and not look.given.get("transA", 0)
    if look.first_alone:
        return len(first) >= 2 and (len(second) <= 2 or (len(second) <= len(first) and second[0] == 1))
    return all(look.is_batched[:2]) and len(first) == len(second) >= 3 and first[0] == second[0]


def attention(look: Look) -> bool:
    """Queries, keys and values of the batch."""
    mask = look.inputs[3] if len(look.inputs) > 3 else None
    query = look.inputs[0]
    is_same = mask is None or (query is not None and (len(mask) < len(query) or mask[0] == 1))
    return all(look.is_batched[:3]) and not any(look.is_batched[3:]) and is_same


def each_picture(look: Look) -> bool:
    """Of one result: indices of MaxPool count through the whole batch, statistics are of all of it."""
    return look.first_alone and len(look.outputs) == 1 and not look.given.get("training_mode", 0)


def reshaped(look: Look) -> bool:
    """Items stay together where the first axis keeps its size: elements keep their order."""
    return look.first_alone and look.keeps_size() and all(map(look.is_open_shape, range(1, len(look.inputs))))


def by_shape(look: Look) -> bool:
    is_aligned = look.kind != "Expand" or len(look.inputs[0] or ()) == len(look.outputs[0] or ())
    return look.first_alone and look.keeps_size() and is_aligned


def size_named_by(look: Look, rule: BatchRule) -> frozenset[str]:
    """The input that is a shape and names the size of the whole batch, as parts of it need another one."""
    takes_shape = rule is by_shape and len(look.step.proto.input) > 1
    return frozenset(look.step.proto.input[1:2]) if takes_shape and not look.is_open_shape(1) else frozenset()


def resized(look: Look) -> bool:
    is_cropped = look.given.get("coordinate_transformation_mode") == b"tf_crop_and_resize"
    has_sizes = look.kind == "Resize" and len(look.step.proto.input) > 3 and look.step.proto.input[3] in look.constants
    return look.first_alone and look.keeps_size() and not is_cropped and not has_sizes


def outside_of_axes(position: int) -> BatchRule:
    """A rule for operators along the axes that an attribute or an input names."""

    def rule(look: Look) -> bool:
        axes = look.axes(position)
        return look.first_alone and axes is not None and len(axes) > 0 and 0 not in axes

    return rule


def joined(look: Look) -> bool:
    shape = look.inputs[0]
    return bool(shape) and all(look.is_batched) and int(look.given.get("axis", 0)) % len(shape or (1,)) != 0


def gathered(look: Look) -> bool:
    """Along another axis, or rows of one table for all."""
    shape, indices = look.inputs[0], look.inputs[1]
    if not shape or indices is None:
        return False
    axis = int(look.given.get("axis", 0)) % len(shape)
    return (look.first_alone and axis != 0) or (look.is_batched == [False, True] and axis == 0 and len(indices) > 0)


def groups(look: Look) -> bool:
    """Joined ones read the shapes that their groups and their result have."""
    return look.first_alone and look.is_open_shape(3) and look.is_open_shape(4)


def dropped_out(look: Look) -> bool:
    """Dropout of a model that is used, not trained."""
    return look.first_alone and len(look.inputs) < 3


def transposed(look: Look) -> bool:
    return look.first_alone and list(look.given.get("perm", ()))[:1] == [0]
