"""What of a model only counts: nodes that make lengths of masks and shapes, which the host computes before each run.

onnxruntime-genai writes ``ReduceSum(attention_mask) - 1`` and ``Shape(attention_mask)[1]``. A graph on the device reads
what they give as numbers in memory: so neither their contents nor the mask's shape is anything that a plan depends on.
The same is done for masks that follow from such numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from dmlvk.onnx.host.evaluation.call import LENGTHS, MASKS, function_of
from dmlvk.onnx.host.evaluators import Repeated, evaluate
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.model.looking import leading_to
from dmlvk.onnx.nodes.values import Array
from dmlvk.onnx.plan.execution import DeviceValue

_INTEGERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
_SHAPES = ("Shape", "Size")


class Counting:
    """The nodes that lead from inputs to lengths.

    Raises:
        NotCountedError: when something else leads to them, too.
    """

    def __init__(
        self,
        model: OnnxModel,
        steps: Sequence[Step],  # its nodes that are not constants
        constants: Mapping[str, Any],  # values that are known, by name
        lengths: Collection[str],  # names of values that are lengths
        masks: Collection[str] = (),  # names of values that are masks
        *,
        # whether others that read what is counted on the way count it themselves: with sizes that they know, where the
        # host only gives contents
        counts_again: bool = False,
    ) -> None:
        self._model = model
        self._constants = constants
        of_lengths = makers_of(model, steps, constants, lengths)
        of_masks = makers_of(model, steps, constants, masks, are_masks=True)
        counted = of_lengths.steps | of_masks.steps
        self._read, self._shapes = of_lengths.read | of_masks.read, of_lengths.shapes | of_masks.shapes
        self.steps = tuple(step for step in steps if step in counted)
        shown = {info.name for info in model.outputs}
        given = {*lengths, *masks}
        self.rest = (
            tuple(leading_to(shown, steps, given)) if counts_again else tuple(s for s in steps if s not in counted)
        )
        read_by_rest = {name for step in self.rest for name in step.reads} | shown
        made = read_by_rest & given if counts_again else read_by_rest
        self.made = tuple(name for step in self.steps for name in step.proto.output if name in made)
        self.dropped = frozenset(info.name for info in model.inputs if info.name not in read_by_rest)
        self._work = [(step, _quick(step, constants)) for step in self.steps]
        self._again: dict[Step, Repeated] = {}

    def counted(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        """Every value that the nodes give, and the inputs that they read.

        Raises:
            ModelFileError: when a node cannot be computed.
        """
        values: dict[str, Any] = {name: _contents(arrays[name]) for name in self._read}
        for name in self._shapes - self._read:
            shape = np.shape(arrays[name]) if not isinstance(arrays[name], DeviceValue) else arrays[name].shape
            values[name] = np.broadcast_to(np.zeros((), np.int8), shape)
        for step, quick in self._work:
            if quick is not None:
                values[step.proto.output[0]] = quick(values)
                continue
            given = {name: values[name] if name in values else self._constants[name] for name in step.reads}
            if step in self._again:
                with np.errstate(all="ignore"):
                    results = self._again[step](given)
            else:
                results, _ = evaluate(step, given, self._model.opsets, self._model.name)
                self._again[step] = Repeated(step, self._model.opsets, self._model.name)
            values.update(zip(step.proto.output, results, strict=True))
        return values


class NotCountedError(Exception):
    """More than counting leads to a value; the message says what."""


@dataclasses.dataclass(frozen=True)
class Makers:
    steps: dict[Step, None]  # the nodes
    read: set[str]  # the model's inputs whose contents count
    shapes: set[str]  # those whose shapes do


def makers_of(
    model: OnnxModel,
    steps: Sequence[Step],  # its nodes that are not constants
    constants: Mapping[str, Any],  # values that are known, by name
    names: Collection[str],
    *,
    are_masks: bool = False,  # whether they are masks, and not lengths
) -> Makers:
    """What leads to lengths or masks.

    Raises:
        NotCountedError: when that is more than counting.
    """
    inputs = {info.name: info for info in model.inputs}
    makers = {name: step for step in steps for name in step.proto.output if name}
    allowed = (LENGTHS, MASKS) if are_masks else (LENGTHS,)
    found = Makers({}, set(), set())
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in constants:
            continue
        if name in inputs:
            if inputs[name].element not in _INTEGERS and not are_masks:
                raise NotCountedError(f"{name!r} is no input of integers")
            found.read.add(name)
            continue
        step = makers.get(name)
        function = None if step is None else function_of(step.domain, step.proto.op_type, step.version)
        if step is None or function is None or function.counts not in allowed:
            raise NotCountedError(f"{name!r} is made by more than counting")
        if step in found.steps:
            continue
        found.steps[step] = None
        if step.proto.op_type in _SHAPES and step.proto.input[0] in inputs:
            found.shapes.add(step.proto.input[0])
        else:
            pending += step.reads
    return found


def is_counted(model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any], name: str) -> bool:
    """Whether a value follows from inputs by counting; arguments as of :func:`makers_of`."""
    try:
        makers_of(model, steps, constants, [name])
    except NotCountedError:
        return False
    return name not in constants


def is_size(step: Step) -> bool:
    """Whether a node reads nothing of a value but its shape."""
    return step.proto.op_type in _SHAPES and not step.domain


def conditions_of(steps: Sequence[Step]) -> set[str]:
    """The values that decide which branches of steps are taken."""
    return {step.proto.input[0] for step in steps if step.proto.op_type == "If" and not step.domain}


def _contents(value: Any) -> Array:
    return np.asarray(value.array() if isinstance(value, DeviceValue) else value)


def _quick(step: Step, constants: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any] | None:
    """The commonest of these nodes without an evaluator; ``None`` for others."""
    proto = step.proto
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute}
    names = list(proto.input)

    def get(values: Mapping[str, Any], name: str) -> Array:
        return np.asarray(values[name] if name in values else constants[name])

    if proto.op_type == "Shape":
        start, end = given.get("start", 0), given.get("end")
        return lambda values: np.array(get(values, names[0]).shape[start:end], np.int64)
    if proto.op_type == "Cast":
        wanted = helper.tensor_dtype_to_np_dtype(given["to"])
        return (lambda values: get(values, names[0]).astype(wanted)) if wanted.kind in "iu" else None
    if proto.op_type == "Gather" and given.get("axis", 0) == 0:
        return lambda values: np.asarray(get(values, names[0])[get(values, names[1])])
    if proto.op_type in ("Add", "Sub"):
        function = np.add if proto.op_type == "Add" else np.subtract
        return lambda values: np.asarray(function(get(values, names[0]), get(values, names[1])))
    if proto.op_type == "ReduceSum" and len(names) == 2 and names[1] in constants:
        axes = tuple(int(axis) for axis in np.asarray(constants[names[1]]).reshape(-1))
        keeps = bool(given.get("keepdims", 1))
        if not axes:
            return None

        def total(values: Mapping[str, Any]) -> Array:
            array = get(values, names[0])
            return np.asarray(np.add.reduce(array, axis=axes, keepdims=keeps, dtype=array.dtype))

        return total
    return None
