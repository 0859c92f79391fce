"""Whether a model treats each item of its batch by itself, so that a batch that is too large can be run in parts.

A value is *of the batch* where its first axis counts items, each computed of the same items of the inputs alone. It
takes one look at each node: at its operator's rule here, and at the shapes that its values have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper

from dmlvk.errors import DeviceLimitError, ModelFileError
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.joining.pattern import JOINED
from dmlvk.onnx.plan.execution import DeviceValue
from dmlvk.onnx.plan.states import State

Shape = tuple[int, ...]

_MOST_KEPT = 256
"""Shapes of inputs of which it is kept whether they are divided."""


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


_ELEMENTWISE = _words(
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast "
    "Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp FastGelu Floor Gelu Greater GreaterOrEqual HardSigmoid "
    "HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or Pow "
    "PRelu Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish "
    "Tan Tanh ThresholdedRelu Where Xor"
)
_OF_EACH_PICTURE = _words(
    "AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool "
    "GlobalMaxPool GroupNormalization InstanceNormalization LRN LpPool MaxPool SpaceToDepth"
)
"""Operators whose first axis is a batch by what they are; all other inputs are weights."""

_ALONG_AN_AXIS = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LayerNormalization", "TopK"), -1),
    **dict.fromkeys(("ArgMax", "ArgMin", "Split"), 0),
}
"""Operators along an axis, with its default; the other inputs are numbers."""

_IN_ANOTHER_SHAPE = frozenset(("Expand", "Flatten", "Reshape", "Squeeze", "Unsqueeze"))
"""Items stay together where the first axis keeps its size: elements keep their order."""


_TAKES_SHAPE = frozenset(("Expand", "Reshape"))
"""Those of them whose second input is a shape."""


class _Look:
    """A node with what is known of its values.

    Args:
        step: the node.
        shapes: of every value.
        constants: values that are known.
        batched: values that are of the batch.
    """

    def __init__(
        self,
        step: Step,
        shapes: Callable[[str], Shape | None],
        constants: Mapping[str, Any],
        batched: Collection[str],
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
        """Whether the first input alone is of the batch."""
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
        """Whether an input that is a shape does not name the size of the whole batch."""
        known = self.constants.get(self.step.proto.input[position])
        first = self.inputs[0]
        return known is None or not first or np.asarray(known).reshape(-1)[:1].tolist() != [first[0]]

    def named(self) -> frozenset[str]:
        """The input that is a shape and names the size of the whole batch, as parts of it need another one."""
        takes_shape = self.kind in _TAKES_SHAPE and not self.step.domain and len(self.step.proto.input) > 1
        return frozenset(self.step.proto.input[1:2]) if takes_shape and not self.is_open_shape(1) else frozenset()

    def keeps_size(self) -> bool:
        """Whether the first axis of all outputs is as long as that of the first input."""
        first = self.inputs[0]
        return bool(first) and all(shape and first and shape[0] == first[0] for shape in self.outputs)


def _broadcasts(look: _Look) -> bool:
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


def _along(look: _Look) -> bool:
    is_old = look.kind in ("Softmax", "LogSoftmax", "Hardmax") and look.step.version < 13  # over all axes from one on
    axis = int(look.given.get("axis", 1 if is_old else _ALONG_AN_AXIS[look.kind]))
    shape = look.inputs[0]
    return bool(shape) and look.first_alone and axis % len(shape or (1,)) != 0


def _product(look: _Look) -> bool:
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


def _attention(look: _Look) -> bool:
    mask = look.inputs[3] if len(look.inputs) > 3 else None
    query = look.inputs[0]
    is_same = mask is None or (query is not None and (len(mask) < len(query) or mask[0] == 1))
    return all(look.is_batched[:3]) and not any(look.is_batched[3:]) and is_same


def _picture(look: _Look) -> bool:
    """Of one result: indices of MaxPool count through the whole batch, statistics are of all of it."""
    return look.first_alone and len(look.outputs) == 1 and not look.given.get("training_mode", 0)


def _reshaped(look: _Look) -> bool:
    if look.kind == "Expand" and len(look.inputs[0] or ()) != len(look.outputs[0] or ()):
        return False
    is_open = look.kind in _TAKES_SHAPE or all(map(look.is_open_shape, range(1, len(look.inputs))))
    return look.first_alone and look.keeps_size() and is_open


def _resized(look: _Look) -> bool:
    is_cropped = look.given.get("coordinate_transformation_mode") == b"tf_crop_and_resize"
    has_sizes = look.kind == "Resize" and len(look.step.proto.input) > 3 and look.step.proto.input[3] in look.constants
    return look.first_alone and look.keeps_size() and not is_cropped and not has_sizes


def _outside_of_axes(position: int) -> Callable[[_Look], bool]:
    """A rule for operators along the axes that an attribute or an input names."""

    def rule(look: _Look) -> bool:
        axes = look.axes(position)
        return look.first_alone and axes is not None and len(axes) > 0 and 0 not in axes

    return rule


def _concat(look: _Look) -> bool:
    shape = look.inputs[0]
    return bool(shape) and all(look.is_batched) and int(look.given.get("axis", 0)) % len(shape or (1,)) != 0


def _gather(look: _Look) -> bool:
    shape, indices = look.inputs[0], look.inputs[1]
    if not shape or indices is None:
        return False
    axis = int(look.given.get("axis", 0)) % len(shape)
    return (look.first_alone and axis != 0) or (look.is_batched == [False, True] and axis == 0 and len(indices) > 0)


_RULES: dict[str, Callable[[_Look], bool]] = {
    **dict.fromkeys(_ELEMENTWISE, _broadcasts),
    **dict.fromkeys(_OF_EACH_PICTURE, _picture),
    **dict.fromkeys(_ALONG_AN_AXIS, _along),
    **dict.fromkeys(_IN_ANOTHER_SHAPE, _reshaped),
    **dict.fromkeys(("Gemm", "MatMul"), _product),
    **dict.fromkeys(("Resize", "Upsample"), _resized),
    **{
        f"Reduce{what}": _outside_of_axes(1)
        for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
    "Attention": _attention,
    "Concat": _concat,
    "Dropout": lambda look: look.first_alone and len(look.inputs) < 3,
    "Gather": _gather,
    "Slice": _outside_of_axes(3),
    "Transpose": lambda look: look.first_alone and list(look.given.get("perm", ()))[:1] == [0],
}


def _groups(look: _Look) -> bool:
    """Joined ones read the shapes that their groups and their result have."""
    return look.first_alone and look.is_open_shape(3) and look.is_open_shape(4)


_JOINED_RULES = {
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _outside_of_axes(9)),
    "GroupNormalization": _groups,
}
"""Rules of joined nodes that are others than those of ONNX's operators of these names."""

_TAKES_SIZES = frozenset(("Expand", "GroupNormalization", "Reshape", "Resize", "Upsample"))
"""Operators that may read what follows from the size of the batch: their results' shapes tell whether that is right."""


def divided_by(
    steps: Iterable[Step],
    shapes: Callable[[str], Shape | None],
    constants: Mapping[str, Any],
    inputs: Collection[str],
    outputs: Sequence[str],
) -> frozenset[str] | None:
    """Whether the outputs are what they are for parts of the batch, one behind the other.

    Args:
        steps: the nodes, each behind those that it reads from.
        shapes: of every value, for the whole batch.
        constants: values that are known.
        inputs: those that are of the batch.
        outputs: of the model.

    Returns:
        The constants that are shapes whose first number is the size of the batch, and that of the part in a part of
        it; ``None``: the outputs are not so.
    """
    batched, sized = set(inputs), set[str]()
    named, read_otherwise = set[str](), set(outputs)
    for step in steps:
        written = [name for name in step.proto.output if name]
        if not batched.intersection(step.reads):
            read_otherwise.update(step.reads)
            if sized.intersection(step.reads):
                sized.update(written)
            continue
        if step.proto.op_type in ("Shape", "Size") and not step.domain:
            sized.update(written)
            continue
        if step.domain not in ("", JOINED) or (sized.intersection(step.reads) and not _takes_sizes(step, sized)):
            return None
        look = _Look(step, shapes, constants, batched)
        is_joined = step.domain == JOINED
        rule = (_JOINED_RULES.get(look.kind) if is_joined else None) or _RULES.get(look.kind)
        if rule is None or not rule(look):
            return None
        batched.update(written)
        named.update(look.named())
        read_otherwise.update(set(step.reads) - look.named())
    return frozenset(named) if batched.issuperset(outputs) and named.isdisjoint(read_otherwise) else None


def _takes_sizes(step: Step, sized: Collection[str]) -> bool:
    return step.proto.op_type in _TAKES_SIZES and step.proto.input[0] not in sized


class DividedRuns:
    """Runs of a model: at once, or in halves, and halves of these, where a buffer would be too large for the device.

    Args:
        model: the model.
        steps: its nodes.
        constants: values that are known of it.
    """

    def __init__(self, model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any]) -> None:
        self._model = model
        self._steps = steps
        self._constants = constants
        self._found: dict[tuple[object, ...], _Division | None] = {}

    def plan(
        self, arrays: Mapping[str, Any], look: Callable[[Mapping[str, Any]], Callable[[str], Shape | None]]
    ) -> _Division | None:
        """How a run that the device cannot do at once is divided; ``None``: it cannot be.

        Args:
            arrays: the inputs.
            look: gives the shapes of all values.
        """
        key = _key(arrays)
        if key not in self._found:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            self._found[key] = self._divided(arrays, look)
        return self._found[key]

    def run(
        self,
        arrays: Mapping[str, Any],
        at_once: Callable[[Mapping[str, Any]], State],
        look: Callable[[Mapping[str, Any]], Callable[[str], Shape | None]],
    ) -> State:
        """Runs the model.

        Args:
            arrays: the inputs.
            at_once: runs it on some.
            look: as for :meth:`plan`.

        Raises:
            DeviceLimitError: naming value and node, when the device can do neither all of it nor parts of the batch.
        """
        division = self._found.get(_key(arrays)) if self._found else None
        if division is None:
            try:
                return at_once(arrays)
            except DeviceLimitError:
                division = self.plan(arrays, look)
                if division is None:
                    raise
        half = -(-division.items // 2)
        parts: list[list[Any]] = []
        for part in (slice(0, half), slice(half, division.items)):
            given = {
                name: _on_host(value)[part] if name in division.inputs else value for name, value in arrays.items()
            }
            given |= division.shapes_of(part.stop - part.start)
            state = self.run(given, at_once, look)
            parts.append([np.array(state.host_array(name)) for name in division.outputs])  # the next part overwrites it
        for (name, shape), arrays_of_parts in zip(division.outputs.items(), zip(*parts, strict=True), strict=True):
            whole = np.concatenate(arrays_of_parts)
            if whole.shape != shape:
                raise ModelFileError(
                    f"{self._model.name}: the output {name!r} of parts of the batch has the shape {list(whole.shape)}; "
                    f"of all of it {list(shape)}"
                )
            state.values[name] = whole
        return state

    def _divided(
        self, arrays: Mapping[str, Any], look: Callable[[Mapping[str, Any]], Callable[[str], Shape | None]]
    ) -> _Division | None:
        own = {info.name: arrays[info.name] for info in self._model.inputs if info.name in arrays}
        sizes = {name: tuple(value.shape) for name, value in own.items() if hasattr(value, "shape")}
        constants = {**self._constants, **{name: value for name, value in arrays.items() if name not in own}}
        items = next((sizes[info.name][0] for info in self._model.inputs if sizes.get(info.name)), 0)
        if items < 2:
            return None
        shapes = look(arrays)
        inputs = frozenset(name for name, shape in sizes.items() if shape and shape[0] == items)
        outputs = {info.name: shapes(info.name) for info in self._model.outputs}
        named = divided_by(self._steps, shapes, constants, inputs, list(outputs))
        if named is None:
            return None
        known = {name: shape for name, shape in outputs.items() if shape is not None}
        return _Division(items, inputs, known, {name: np.asarray(constants[name]) for name in named})


@dataclasses.dataclass(frozen=True)
class _Division:
    """How a run is divided.

    Attributes:
        items: of the batch.
        inputs: those that are of the batch.
        outputs: their shapes.
        shapes: constants that are shapes and name the size of the batch.
    """

    items: int
    inputs: frozenset[str]
    outputs: Mapping[str, Shape]
    shapes: Mapping[str, Any]

    def shapes_of(self, items: int) -> dict[str, Any]:
        """What these constants are for a part."""
        return {name: np.array([items, *shape.reshape(-1)[1:]], shape.dtype) for name, shape in self.shapes.items()}


def _key(arrays: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple((name, getattr(value, "shape", None)) for name, value in arrays.items())


def _on_host(value: Any) -> Any:
    return value.array() if isinstance(value, DeviceValue) else value


__all__ = ["DividedRuns", "Shape", "divided_by"]
