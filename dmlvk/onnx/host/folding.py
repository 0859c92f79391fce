"""Constants that follow from constants: computed once, when a model is loaded, where that takes no more memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.onnx.host.evaluation.call import function_of
from dmlvk.onnx.host.evaluators import is_random, own_results
from dmlvk.onnx.model.control import CONTROL_FLOW
from dmlvk.onnx.model.inference import NotInferred, inferred
from dmlvk.onnx.model.limits import Budget, Limits
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Known

_SMALL = 2**20  # Bytes that all results together may take, whatever the model's constants take

_PART = 8  # Beyond that, the part of the constants' bytes that results may take more than what they follow from


@dataclasses.dataclass(frozen=True)
class Folding:
    constants: dict[str, Any]  # initializers, and results that something still reads, by name
    steps: tuple[Step, ...]  # the nodes that are left
    # those of them whose results would be constants, but take more memory than what they follow from. The device
    # computes them in every run, as quantized weights are read
    unfolded: frozenset[Step]


def folded(model: OnnxModel, steps: Sequence[Step], limits: Limits, budget: Budget) -> Folding:
    """Computes what depends on nothing but constants, with the same bits on every machine.

    What dmlvk has no such function for is left: the device computes it, or whoever can when the model is planned.

    Args:
        steps: those of its nodes that are needed.
        limits: what it may ask for.
        budget: what results may take together.

    Raises:
        ModelFileError: naming a node that breaks a rule or asks for too much.
    """
    constants: dict[str, Any] = dict(model.constants)
    more = _SMALL + sum(array.nbytes for array in model.constants.values()) // _PART
    left: list[Step] = []
    unfolded: set[Step] = set()
    kept = 0
    for step in steps:
        is_fixed = step.proto.op_type not in CONTROL_FLOW and not is_random(step)
        if not is_fixed or not all(name in constants for name in step.reads):
            left.append(step)
            continue
        if step.proto.op_type == "Constant" and step.proto.output[0] in constants:
            continue  # its contents were taken when the model was loaded
        values = {name: constants[name] for name in step.reads}
        if _least_more(step, values, model) > more:
            left.append(step)
            unfolded.add(step)
            continue
        results = own_results(step, values, model.name, limits)
        if results is None:
            left.append(step)
            continue
        grown = _bytes_of(results, values.values()) - sum(_size(value) for value in values.values())
        if grown > more:
            left.append(step)
            unfolded.add(step)
            continue
        more -= max(grown, 0)
        kept = budget.kept_by(results, kept, step, model.name)
        constants.update({name: made for name, made in zip(step.proto.output, results, strict=True) if name})
    read = {name for step in left for name in step.reads} | {info.name for info in model.outputs}
    return Folding({name: value for name, value in constants.items() if name in read}, tuple(left), frozenset(unfolded))


def _least_more(step: Step, values: Mapping[str, Any], model: OnnxModel) -> int:
    """What the results of large inputs surely take more, found without computing them."""
    given = sum(_size(value) for value in values.values())
    function = function_of(step.domain, step.proto.op_type, step.version)
    if given < _SMALL or function is None or not function.grows:
        return 0
    try:
        found = inferred(step, [Known(values[name]) if name else None for name in step.proto.input], model.opsets)
    except NotInferred:
        return 0
    if any(item is None or item[0] not in NUMPY_TYPES for item in found):
        return 0
    return sum(NUMPY_TYPES[item[0]].itemsize * math.prod(item[1]) for item in found if item is not None) - given


def _size(value: Any) -> int:
    """The bytes of an array, those that a view shows several times counted once."""
    if not isinstance(value, np.ndarray):
        return 0
    steps = zip(value.shape, value.strides, strict=True)
    return value.itemsize * math.prod(size for size, stride in steps if stride or not size)


def _bytes_of(results: Iterable[Any], inputs: Collection[Any]) -> int:
    """The bytes of results that are no views of the inputs."""
    there = [value for value in inputs if isinstance(value, np.ndarray)]
    arrays = [made for made in results if isinstance(made, np.ndarray)]
    return sum(_size(made) for made in arrays if not any(np.may_share_memory(made, value) for value in there))
