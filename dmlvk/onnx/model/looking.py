"""What is seen of a model before anything is planned: which nodes are needed, and what its constants are called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.values import Array, dense, memory_of


def needed(model: OnnxModel) -> list[Step]:
    """The nodes that lead to an output, in order; what nobody reads is not computed, as ONNX Runtime has it."""
    return leading_to((info.name for info in model.outputs), model.steps)


def leading_to(names: Iterable[str], steps: Sequence[Step], given: Collection[str] = ()) -> list[Step]:
    """The nodes that lead to values, in order, where some others are given."""
    wanted, found = set(names), []
    for step in reversed(steps):
        if not wanted.isdisjoint(name for name in step.proto.output if name not in given):
            found.append(step)
            wanted.update(step.reads)
    return found[::-1]


def described(constants: Mapping[str, Any], readers: Mapping[str, Sequence[Step | None]], array: Array) -> str:
    there = memory_of(array)
    for name, value in constants.items():
        if isinstance(value, np.ndarray) and memory_of(dense(value)) == there:
            read_by = [step.label for step in readers.get(name, ()) if step is not None]
            return f"the value {name!r}, which the {read_by[0]} reads" if read_by else f"the value {name!r}"
    return f"a constant of {array.nbytes} bytes"
