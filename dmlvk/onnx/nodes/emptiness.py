"""Nodes of tensors without elements (a batch of no pictures): DirectML has none, and evaluators often fail on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from dmlvk.errors import DmlError
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.assembly import Assembly
from dmlvk.onnx.nodes.translation import EmptyRule, Node, record_of, translation_of
from dmlvk.onnx.nodes.values import (
    NUMPY_TYPES,
    Array,
    Known,
    NeedsValue,
    NodeInputError,
    NotOnDevice,
    Tensor,
    Value,
    element_of,
)
from dmlvk.support import faults

if TYPE_CHECKING:
    from dmlvk.device import Device


_Output = tuple[np.dtype[Any], tuple[int, ...]]


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return True if dtype.kind == "b" else np.inf


def filled(value: Callable[[np.dtype[Any]], Any]) -> EmptyRule:
    """The rule of a reduction that gives a number of no elements; ONNX Runtime's where ONNX leaves it undefined."""

    def rule(_: Step, inputs: Sequence[Any], outputs: Sequence[_Output]) -> list[Array]:
        dtype, shape = outputs[0]
        return [np.full(shape, value(dtype), dtype)]

    return rule


zeros, ones, lowest, highest = filled(lambda _: 0), filled(lambda _: 1), filled(_lowest), filled(_highest)


def quantized(_: Step, inputs: Sequence[Any], outputs: Sequence[_Output]) -> list[Array]:
    """Nothing, by a scale of 1."""
    return [np.zeros(inputs[0].shape, np.uint8), np.array(1, np.float32), np.array(0, np.uint8)]


def of_nothing(
    step: Step, inputs: Sequence[Any], outputs: Sequence[tuple[int, tuple[int, ...]] | None]
) -> list[Array | None] | None:
    """The results of a node that follow from shapes alone; ``None`` where something is to be computed.

    Args:
        outputs: element type and shape of each output, as far as they follow from its inputs.
    """
    if not any(is_empty(value) for value in inputs):
        return None
    names = list(step.proto.output)
    shapes: list[tuple[np.dtype[Any], tuple[int, ...]]] = []
    for name, output in zip(names, outputs, strict=True):
        if output is None and name:
            return None
        element, shape = output or (1, (0,))
        shapes.append((np.dtype(helper.tensor_dtype_to_np_dtype(element)), shape))
    if all(0 in shape for _, shape in shapes):
        return [np.zeros(shape, dtype) if name else None for name, (dtype, shape) in zip(names, shapes, strict=True)]
    translation = record_of(step.domain, step.proto.op_type, step.version)
    if translation is None or translation.empty is None or not is_empty(inputs[0]):
        return None
    made = translation.empty(step, inputs, shapes)
    return None if made is None else [value if name else None for name, value in zip(names, made, strict=False)]


def without_steps(step: Step, inputs: Sequence[Any], outputs: Sequence[_Output]) -> list[Array] | None:
    """The states of before, as they were, where a recurrent network has no step; ``None``: it has some."""
    is_batch_first = any(attribute.name == "layout" and attribute.i for attribute in step.proto.attribute)
    if inputs[0].ndim != 3 or inputs[0].shape[1 if is_batch_first else 0]:
        return None
    results: list[Array] = []
    for number, (dtype, shape) in enumerate(outputs):
        state = inputs[4 + number] if number and 4 + number < len(inputs) else None
        made = np.zeros(shape, dtype) if state is None else np.asarray(state, dtype)
        if made.shape != shape:
            return None  # whoever computes it says what is wrong
        results.append(made)
    return results


def of_pretended(step: Step, inputs: Sequence[Value | None], device: Device) -> list[Array | None] | None:
    """The results of a node where these have no elements; ``None``: they have some, or no translator tells.

    How large they are is what its translator says, with 12 and with 24 in the place of each 0, where sizes grow evenly:
    ONNX's own rules differ from ONNX Runtime for some operators. What windows on nothing give is left to those.

    Args:
        inputs: its inputs, at least one of which has no elements.
        device: for the operators that it would become.

    Raises:
        NodeInputError: when they contradict one another.
    """
    translation = translation_of(step.domain, step.proto.op_type, step.version)
    if translation is None or translation.missing is not None:
        return None
    if translation.check is not None:
        try:
            translation.check(Node(step.proto, step.schema, inputs, [], Assembly(device)))
        except NodeInputError as error:
            raise NodeInputError(f"{step.label}: {error}") from None
    found = []
    for size in (12, 24):
        try:
            graph = Assembly(device)
            pretended = [_pretended(graph, number, value, size) for number, value in enumerate(inputs)]
            node = Node(step.proto, step.schema, pretended, [None] * len(step.proto.output), graph)
            translation.translate(node)
            made = [node.results[number] if name else None for number, name in enumerate(step.proto.output)]
        except (NeedsValue, NotOnDevice, DmlError):
            return None
        except Exception as error:  # noqa: BLE001 - told
            faults.report(error, f"translating {step.label} for tensors without elements")
            return None
        found.append(made)
    results: list[Array | None] = []
    for small, large in zip(*found, strict=True):
        if small is None or large is None or len(small.shape) != len(large.shape):
            results.append(None)
            continue
        shape = [2 * a - b for a, b in zip(small.shape, large.shape, strict=True)]
        if 0 not in shape or min(shape) < 0 or any((b - a) % 12 for a, b in zip(small.shape, large.shape, strict=True)):
            return None
        results.append(np.zeros(shape, NUMPY_TYPES[small.element]))
    return results


def _pretended(graph: Assembly, number: int, value: Value | None, size: int) -> Value | None:
    if isinstance(value, Tensor):  # of another graph
        return graph.input(f"pretended {number}", value.element, value.shape)
    if not isinstance(value, Known) or not is_empty(value.value):
        return value
    element = element_of(value.value)
    if element is None:
        raise NotOnDevice(f"the device has no {value.value.dtype}")
    return graph.input(f"pretended {number}", element, [length or size for length in value.value.shape])


def is_empty(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size == 0
