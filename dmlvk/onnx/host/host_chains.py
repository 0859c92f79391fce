"""Nodes that follow the host's on the host, without another round: those that read a type that no device has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.host.evaluation.call import function_of
from dmlvk.onnx.host.evaluators import is_random
from dmlvk.onnx.model.control import CONTROL_FLOW
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Array, Awaited, Known, Tensor, Value, element_of

_FOREIGN = int(TensorProto.UNDEFINED)  # Stands for every type that the device does not have

_OF_THE_HOST = (_FOREIGN, int(TensorProto.DOUBLE))


def follows_on_host(step: Step, read: Sequence[Value | None]) -> bool:
    """Whether only the host can compute a node, once it has computed what the node waits for.

    Args:
        read: all that it reads; ``None`` for what has a type that the device does not have.
    """
    if any(isinstance(value, Awaited) and not value.is_from_host for value in read):
        return False
    if step.proto.op_type in CONTROL_FLOW or is_random(step) or is_of_shape(step):
        return False
    return any(_element(value) in _OF_THE_HOST for value in read)


def given_by_host(step: Step, read: Sequence[Value | None]) -> list[Awaited]:
    """What a node gives that the host computes, with the element types as far as the operator's schema tells them.

    Args:
        read: all that it reads, as for :func:`follows_on_host`.
    """
    if step.schema is None:
        return [Awaited(is_from_host=True)] * len(step.proto.output)
    by_name = dict(zip(step.reads, read, strict=True))
    elements: dict[str, int | None] = {}
    for number, name in enumerate(step.proto.input):
        formal = step.schema.inputs[min(number, len(step.schema.inputs) - 1)] if step.schema.inputs else None
        if formal is not None and name in by_name:
            elements.setdefault(formal.type_str, _element(by_name[name]))
    formals = step.schema.outputs
    return [
        Awaited(elements.get(formals[min(number, len(formals) - 1)].type_str), is_from_host=True)
        for number in range(len(step.proto.output))
    ]


def is_of_shape(step: Step) -> bool:
    """Whether what a node gives follows from the shape of its input."""
    function = function_of(step.domain, step.proto.op_type, step.version)
    return function is not None and function.of_shape


def of_shape(step: Step, value: Known | Tensor, check: Callable[[int, Sequence[int]], None]) -> Array | None:
    """What a node gives that :func:`is_of_shape`; ``None``: there is no such value.

    Args:
        value: its input; one that is known is so large that its results were not computed with other constants.
        check: refuses element types and shapes of results that would be too large.

    Returns:
        Sizes are objects: integers, or what stands for open ones.
    """
    given = {attribute.name: attribute.i for attribute in step.proto.attribute}
    shape: Sequence[int] = np.shape(value.value) if isinstance(value, Known) else value.shape
    if step.proto.op_type == "Size":
        return np.array(math.prod(shape), object)
    if step.proto.op_type == "Shape":
        return np.array(shape, object)[given.get("start", 0) : given.get("end", len(shape))]
    element = given.get("dtype", _element(value))
    if len(shape) != 2 or element not in NUMPY_TYPES:
        return None
    check(element, shape)
    rows, columns = shape
    return np.eye(rows, columns, given.get("k", 0), NUMPY_TYPES[element])


def _element(value: Value | None) -> int | None:
    if value is None:
        return _FOREIGN
    if isinstance(value, (Tensor, Awaited)):
        return value.element
    if isinstance(value, Known) and isinstance(value.value, np.ndarray):
        found = element_of(value.value)
        return _FOREIGN if found is None else found
    return None
