"""Nodes of tensors without elements (a batch of no pictures): DirectML has none, and evaluators often fail on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from dmlvk.errors import DmlError
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.assembly import Assembly
from dmlvk.onnx.nodes.translation import Node, translation_of
from dmlvk.onnx.nodes.values import (
    NUMPY_TYPES,
    Array,
    Known,
    NeedsValue,
    NodeInputError,
    NotOnDevice,
    Value,
    element_of,
    input_tensor,
)
from dmlvk.support import faults

if TYPE_CHECKING:
    from dmlvk.device import Device


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return True if dtype.kind == "b" else np.inf


_OF_NOTHING: Mapping[str, Callable[[np.dtype[Any]], Any]] = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"), lambda dtype: 0),
    "ReduceProd": lambda dtype: 1,
    **dict.fromkeys(("ReduceMax", "ReduceLogSum", "ReduceLogSumExp"), _lowest),
    "ReduceMin": _highest,
}
"""What reductions give of no elements, as ONNX says (its ReduceMean: undefined) and ONNX Runtime has it."""


def of_nothing(
    step: Step, inputs: Sequence[Any], outputs: Sequence[tuple[int, tuple[int, ...]] | None]
) -> list[Array | None] | None:
    """The results of a node that follow from shapes alone; ``None`` where something is to be computed.

    Args:
        step: the node.
        inputs: its inputs.
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
        zeros: list[Array] = [np.zeros(shape, dtype) for dtype, shape in shapes]
        return [value if name else None for name, value in zip(names, zeros, strict=True)]
    if step.domain:
        return None
    first = inputs[0]
    if not isinstance(first, np.ndarray) or first.size:
        return None
    if step.proto.op_type in _OF_NOTHING:
        dtype, shape = shapes[0]
        return [np.full(shape, _OF_NOTHING[step.proto.op_type](dtype), dtype)]
    if step.proto.op_type == "DynamicQuantizeLinear":
        made: list[Array] = [np.zeros(first.shape, np.uint8), np.array(1, np.float32), np.array(0, np.uint8)]
        return [value if name else None for name, value in zip(names, made, strict=False)]
    if step.proto.op_type in ("GRU", "LSTM", "RNN"):
        return _without_steps(step, inputs, shapes)
    return None


def _without_steps(
    step: Step, inputs: Sequence[Any], shapes: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]
) -> list[Array | None] | None:
    """The states of before, as they were, where a recurrent network has no step; ``None``: it has some."""
    is_batch_first = any(attribute.name == "layout" and attribute.i for attribute in step.proto.attribute)
    if inputs[0].ndim != 3 or inputs[0].shape[1 if is_batch_first else 0]:
        return None
    results: list[Array | None] = []
    for number, (name, (dtype, shape)) in enumerate(zip(step.proto.output, shapes, strict=True)):
        state = inputs[4 + number] if number and 4 + number < len(inputs) else None
        made = np.zeros(shape, dtype) if state is None else np.asarray(state, dtype)
        if made.shape != shape:
            return None  # whoever computes it says what is wrong
        results.append(made if name else None)
    return results


def of_pretended(step: Step, inputs: Sequence[Value | None], device: Device) -> list[Array | None] | None:
    """The results of a node of which ONNX does not say the shapes, where these have no elements; else ``None``.

    How large they are is what its translator says, with 3 and with 5 in the place of each 0: sizes grow evenly.

    Args:
        step: the node.
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
    for size in (3, 5):
        try:
            pretended = [_pretended(number, value, size) for number, value in enumerate(inputs)]
            node = Node(step.proto, step.schema, pretended, [None] * len(step.proto.output), Assembly(device))
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
        shape = [a - 3 * (b - a) // 2 for a, b in zip(small.shape, large.shape, strict=True)]
        if 0 not in shape or min(shape) < 0:
            return None
        results.append(np.zeros(shape, NUMPY_TYPES[small.element]))
    return results


def _pretended(number: int, value: Value | None, size: int) -> Value | None:
    if not isinstance(value, Known) or not is_empty(value.value):
        return value
    element = element_of(value.value)
    if element is None:
        raise NotOnDevice(f"the device has no {value.value.dtype}")
    return input_tensor(f"pretended {number}", element, [length or size for length in value.value.shape])


def is_empty(value: Any) -> bool:
    """Whether it is an array without elements."""
    return isinstance(value, np.ndarray) and value.size == 0


__all__ = ["is_empty", "of_nothing", "of_pretended"]
