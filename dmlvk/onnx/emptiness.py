"""Nodes of tensors without elements (a batch of no pictures): DirectML has none, and evaluators often fail on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper

from dmlvk.onnx.loading import Step
from dmlvk.onnx.values import Array


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
    if not any(isinstance(value, np.ndarray) and value.size == 0 for value in inputs):
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
    if step.domain:
        return None
    first = inputs[0]
    if not isinstance(first, np.ndarray) or first.size:
        return None
    if step.proto.op_type in _OF_NOTHING:
        dtype, shape = shapes[0]
        return [np.full(shape, _OF_NOTHING[step.proto.op_type](dtype), dtype)]
    if step.proto.op_type == "DynamicQuantizeLinear":
        made = (np.zeros(first.shape, np.uint8), np.array(1, np.float32), np.array(0, np.uint8))
        return [value if name else None for name, value in zip(names, made, strict=False)]
    return None


__all__ = ["of_nothing"]
