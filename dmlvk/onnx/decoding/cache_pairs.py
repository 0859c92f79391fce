"""Which inputs and outputs of a model are caches of keys and values, and what says how many rows they have."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from dmlvk.onnx.decoding.caches import CachePair
from dmlvk.onnx.decoding.counting import is_size
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.joining.pattern import JOINED
from dmlvk.onnx.nodes.translation import Appending, translation_of

ROWS = "rows of caches that grow"
"""The name of a value that no model has: how many rows all those caches have that have as many as there are keys."""

APPENDS = "AttentionThatAppends"  # What ONNX's Attention is where it is told the number of rows, by an input of its own

_SHAPES = "rows and other sizes of caches that grow"


def _appending(step: Step) -> Appending | None:
    translation = translation_of(step.domain, step.proto.op_type, step.version)
    return None if translation is None else translation.appends


def _seen_by(step: Step, constants: Mapping[str, Any]) -> set[str]:
    """The caches of other nodes that a node sees, which appends nothing to them."""
    kind, given = _appending(step), list(step.proto.input)
    if kind is None or kind.keys is None or len(given) <= max(kind.past):
        return set()
    keys = constants.get(given[kind.keys])
    return {given[index] for index in kind.past} if keys is not None and 0 in np.shape(keys) else set()


def masks_of(steps: Sequence[Step]) -> list[tuple[Step, tuple[str, ...]]]:
    """The nodes that append to caches, with their masks; those that have one."""
    kinds = [(step, _appending(step)) for step in steps]
    found = [(step, kind.masks_in(list(step.proto.input))) for step, kind in kinds if kind is not None]
    return [(step, names) for step, names in found if names]


def with_rows(
    model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any], widened: Collection[str] = ()
) -> tuple[list[Step], list[Step]]:
    """The steps, of which those whose caches grow are told by a number how many rows these have.

    Args:
        widened: masks that have a column for each row that there is room for.

    Returns:
        the steps, and those that make the number :data:`ROWS`; none where no cache grows so.
    """
    caches, made, first = _CacheCandidates(model, steps, constants), [], ""
    for step in steps:
        kind = _appending(step)
        given = list(step.proto.input)
        if kind is None or not kind.grows_in(given, widened) or len(caches.of(step, kind)) != 2:
            made.append(step)
            continue
        first = first or given[kind.past[0]]
        proto = onnx.NodeProto()
        proto.CopyFrom(step.proto)
        proto.input.extend([""] * (kind.ends + 1 - len(given)))
        proto.input[kind.ends] = ROWS
        schema = step.schema
        if not step.domain:  # ONNX's own has no such input
            proto.op_type, proto.domain, schema = APPENDS, JOINED, None
        made.append(dataclasses.replace(step, proto=proto, schema=schema, reads=(*step.reads, ROWS)))
    if not first:
        return made, []
    nodes = [
        helper.make_node("Shape", [first], [_SHAPES], start=2, end=3),
        helper.make_node("Cast", [_SHAPES], [ROWS], to=TensorProto.INT32),
    ]
    return made, [Step(-1, node, onnx.defs.get_schema(node.op_type, 21), tuple(node.input)) for node in nodes]


def cache_pairs(
    model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any], widened: Collection[str] = ()
) -> list[CachePair]:
    """The inputs and outputs of a model that are caches of its attention, and nothing else."""
    caches, found = _CacheCandidates(model, steps, constants), []
    for step in steps:
        kind = _appending(step)
        given = list(step.proto.input)
        if caches.reads_scores_of(step):
            continue
        if kind is None or len(given) <= max(kind.ends, kind.total or 0) or not given[kind.ends]:
            continue
        ends, total = given[kind.ends], "" if kind.total is None else given[kind.total]
        if kind.total is not None and not total:
            continue
        counts = "" if kind.counts is None or len(given) <= kind.counts else given[kind.counts]
        keeps_window = any(each.name == "sliding_window_cache" and each.i for each in step.proto.attribute)
        masks = tuple(name for name in kind.masks_in(given) if name in widened)
        pair = CachePair("", "", step.label, ends, total, counts, masks, grows=ends == ROWS, keeps_window=keeps_window)
        found += [dataclasses.replace(pair, past=past, present=present) for past, present in caches.of(step, kind)]
    return found


class _CacheCandidates:
    def __init__(self, model: OnnxModel, steps: Sequence[Step], constants: Mapping[str, Any]) -> None:
        self._inputs, self._outputs = {info.name for info in model.inputs}, {info.name for info in model.outputs}
        self._readers: dict[str, int] = {}
        for step in steps:
            if is_size(step):
                continue
            seen = _seen_by(step, constants)
            for name in step.reads:
                if name not in seen:
                    self._readers[name] = self._readers.get(name, 0) + 1

    def reads_scores_of(self, step: Step) -> bool:
        """Whether a node's scores are read in the model, whose columns no plan of all lengths knows."""
        made = list(step.proto.output)
        return step.domain == "com.microsoft" and len(made) > 3 and made[3] in self._readers

    def of(self, step: Step, kind: Appending) -> list[tuple[str, str]]:
        """Inputs and outputs of the model that a node reads and writes as caches; others read only shapes of them."""
        given, made = list(step.proto.input), list(step.proto.output)
        pasts = [given[index] for index in kind.past if index < len(given)]
        return [
            (past, present)
            for past, present in zip(pasts, made[1:3], strict=False)
            if past in self._inputs
            and present in self._outputs
            and self._readers.get(past) == 1
            and present not in self._readers
        ]
