"""Masks beside caches that are appended to: made by the host before each run, as wide as the caches have rows.

So a plan depends on no text's length. Columns behind a text's keys are seen by nobody: they repeat the last one, by
which the mask of a text that grows stays the same array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.onnx.decoding.counting import NotCountedError, makers_of
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.values import Array

MOST_ELEMENTS = 2**24
"""Of a mask that the host makes: those of more are left to the device, with a plan for their sizes."""


def widened_masks(
    model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any], masks: Sequence[tuple[Step, Sequence[str]]]
) -> frozenset[str]:
    """The masks that the host can make: they follow from inputs by counting, and nothing else reads them.

    Args:
        steps: its nodes that are not constants.
        masks: the nodes that append to caches, with their masks. Where one of a node's is left to the device, all are.
    """
    readers: dict[str, int] = {info.name: 1 for info in model.outputs}
    for step in steps:
        for name in step.reads:
            readers[name] = readers.get(name, 0) + 1
    own: dict[str, int] = {}
    for _, names in masks:
        for name in set(names):
            own[name] = own.get(name, 0) + 1
    found = set()
    for name, count in own.items():
        if name in constants or readers.get(name) != count:
            continue
        try:
            makers_of(model, steps, constants, [name], are_masks=True)
        except NotCountedError:
            continue
        found.add(name)
    while left := {name for _, names in masks if not found.issuperset(names) for name in names if name in found}:
        found -= left
    return frozenset(found)


def widened(mask: Array, width: int) -> Array:
    columns = mask.shape[-1]
    if columns >= width or not columns:
        return mask
    made = np.empty((*mask.shape[:-1], width), mask.dtype)
    made[..., :columns] = mask
    made[..., columns:] = mask[..., -1:]
    return made


def is_wide(mask: Array) -> bool:
    """Whether a mask has a column for each key: those of one dimension have numbers of sequences."""
    return mask.ndim > 1
