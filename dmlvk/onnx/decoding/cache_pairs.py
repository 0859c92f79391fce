"""Which inputs and outputs of a model are caches of keys and values, and what says how many rows they have."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import onnx
from onnx import TensorProto, helper

from dmlvk.onnx.decoding.caches import CachePair
from dmlvk.onnx.decoding.counting import is_size
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.joining.pattern import JOINED

ROWS = "rows of caches that grow"
"""The name of a value that no model has: how many rows all those caches have that have as many as there are keys."""

APPENDS = "AttentionThatAppends"
"""What ONNX's Attention is where it is told the number of rows, by an input of its own."""

_SHAPES = "rows and other sizes of caches that grow"


@dataclasses.dataclass(frozen=True)
class Appending:
    """Where a node that appends to caches has what.

    Attributes:
        past: its inputs of keys and values from before.
        ends: its input that says where sequences end; without a total, how many rows there are.
        total: its input that says how long the longest sequence is; ``None``: it has none.
        is_optional: whether caches grow where ``ends`` is not given: then they have the rows that there are.
        counts: its input that says how many new tokens of each sequence count; ``None``: it has none.
        masks: its inputs that have a number for each key. Caches that grow beside one of them are appended to where the
            host makes it, as wide as they are: else each length would be a plan of its own, where open sizes have few.
    """

    past: tuple[int, int]
    ends: int
    total: int | None = None
    is_optional: bool = False
    counts: int | None = None
    masks: tuple[int, ...] = ()

    def grows_in(self, given: Sequence[str], widened: Collection[str]) -> bool:
        """Whether caches grow, and are appended to, in a node with these inputs, some of which are widened masks."""
        is_given = self.ends < len(given) and given[self.ends]
        return self.is_optional and not is_given and all(name in widened for name in self.masks_in(given))

    def masks_in(self, given: Sequence[str]) -> tuple[str, ...]:
        """The masks of a node with these inputs."""
        return tuple(given[index] for index in self.masks if index < len(given) and given[index])


APPENDING = {
    ("com.microsoft", "GroupQueryAttention"): Appending((3, 4), 5, 6, counts=16, masks=(10,)),
    ("com.microsoft", "MultiHeadAttention"): Appending((6, 7), 8, is_optional=True, masks=(4, 5)),
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): Appending((5, 6), 7, masks=(3, 4)),
    ("", "Attention"): Appending((4, 5), 7, is_optional=True, masks=(3,)),
    (JOINED, APPENDS): Appending((4, 5), 7, masks=(3,)),
}
"""The nodes, by domain and operator. The outputs 1 and 2 are keys and values with those of the new tokens."""


def masks_of(steps: Sequence[Step]) -> list[tuple[Step, tuple[str, ...]]]:
    """The nodes that append to caches, with their masks; those that have one."""
    kinds = [(step, APPENDING.get((step.domain, step.proto.op_type))) for step in steps]
    found = [(step, kind.masks_in(list(step.proto.input))) for step, kind in kinds if kind is not None]
    return [(step, names) for step, names in found if names]


def with_rows(model: OnnxModel, steps: Sequence[Step], widened: Collection[str] = ()) -> tuple[list[Step], list[Step]]:
    """The steps, of which those whose caches grow are told by a number how many rows these have.

    Args:
        model: the model.
        steps: its nodes.
        widened: masks that have a column for each row that there is room for.

    Returns:
        the steps, and those that make the number :data:`ROWS`; none where no cache grows so.
    """
    caches, made, first = _CacheCandidates(model, steps), [], ""
    for step in steps:
        kind = APPENDING.get((step.domain, step.proto.op_type))
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


def cache_pairs(model: OnnxModel, steps: Sequence[Step], widened: Collection[str] = ()) -> list[CachePair]:
    """The inputs and outputs of a model that are caches of its attention, and nothing else.

    Args:
        model: the model.
        steps: its nodes.
        widened: as for :func:`with_rows`.
    """
    caches, found = _CacheCandidates(model, steps), []
    for step in steps:
        kind = APPENDING.get((step.domain, step.proto.op_type))
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
    """What of a model may be a cache.

    Args:
        model: the model.
        steps: its nodes.
    """

    def __init__(self, model: OnnxModel, steps: Sequence[Step]) -> None:
        self._inputs, self._outputs = {info.name for info in model.inputs}, {info.name for info in model.outputs}
        self._readers: dict[str, int] = {}
        for step in steps:
            if is_size(step):
                continue
            for name in step.reads:
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
            and self._readers[past] == 1
            and present not in self._readers
        ]


__all__ = ["APPENDING", "APPENDS", "ROWS", "Appending", "cache_pairs", "masks_of", "with_rows"]
