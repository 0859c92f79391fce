"""Attention that appends to caches by CACHED_ATTENTION: what the operators of every domain have in common."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from onnx import TensorProto

from dmlvk.onnx.decoding.caches import Lengths
from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.translation import Appending, Node, translation_of
from dmlvk.onnx.nodes.values import NodeInputError, NotOnDevice, Tensor

_SCORES = 3  # The output that shows scores, of every operator that has one


def numbers(node: Node, index: int, count: int) -> Tensor:
    """Lengths as a tensor of INT32."""
    tensor = node.packed(node.tensor(index))
    if math.prod(tensor.shape) != count or tensor.element != TensorProto.INT32:
        raise NotOnDevice(f"input {index} must be {count} numbers of INT32; got {list(tensor.shape)}")
    return tensor.viewed((count,))


@dataclasses.dataclass(frozen=True)
class Heads:
    batch: int  # sequences
    tokens: int  # new ones of each
    heads: int  # of queries
    key_heads: int  # of keys and values
    size: int  # of a head of queries and keys
    value_size: int  # of a head of values
    bits: int = 0  # of an integer in caches of integers: 8 or 4; 0: caches have the queries' type

    def output(self, element: int) -> New:
        """Results, where queries have an element type."""
        return New(element, (self.batch, self.tokens, self.heads * self.value_size))

    def present(self, element: int, capacity: int, size: int) -> New:
        """A cache of heads of so many elements, where queries have an element type."""
        kept = {8: TensorProto.INT8, 4: TensorProto.UINT8}.get(self.bits, element)
        return New(kept, (self.batch, self.key_heads, capacity, size // 2 if self.bits == 4 else size))


def cached(
    node: Node,
    heads: Heads,
    element: int,
    positions: int | None = None,  # as of :class:`Lengths`
    masked: int | None = None,
    *,
    shows_scores: bool = False,  # whether scores are an output
) -> dict[str, Any]:
    """The caches, where they lie in memory of their own that stays; else those of the past, and new ones."""
    kind = _kind(node)
    capacity = node.assembly.capacity_of(node.proto.output[1] if len(node.proto.output) > 1 else "")
    members: dict[str, Any] = {"keeps_past": capacity is not None}
    columns = capacity
    if capacity is None:
        past = node.shape(kind.past[0])[2] if node.has(kind.past[0]) else 0
        if node.integer("sliding_window_cache"):
            capacity = _window_capacity(node, kind, past, positions)
        else:
            columns = _checked_total(node, kind, heads.tokens, past, positions, masked)
            capacity = max(columns, past)
        if past:
            members |= _past(node, kind)
    else:
        node.assembly.appended.update(node.proto.output[1:3])
        _note_lengths(node, kind, heads, positions, masked, shows_scores=shows_scores)
    if shows_scores and columns is not None:
        members |= {"scores_tensor": New(element, (heads.batch, heads.heads, heads.tokens, columns))}
    return {
        **members,
        "output_tensor": heads.output(element),
        "present_key_tensor": heads.present(element, capacity, heads.size),
        "present_value_tensor": heads.present(element, capacity, heads.value_size),
    }


def borrowed(
    node: Node,
    heads: Heads,
    element: int,
    positions: int | None = None,  # as of :class:`Lengths`
    masked: int | None = None,
    *,
    shows_scores: bool = False,  # whether scores are an output
) -> dict[str, Any]:
    """The caches of another node, to which that has appended new keys and values."""
    kind = _kind(node)
    if node.wants(1) or node.wants(2) or shows_scores or node.integer("sliding_window_cache"):
        raise NotOnDevice("caches of another node go with no outputs but results, and keep no window")
    if node.assembly.capacity_of(node.proto.input[kind.past[0]]) is None:
        rows = node.shape(kind.past[0])[2]
        total = _checked_total(node, kind, heads.tokens, rows, positions, masked)
        if total > rows:
            raise NodeInputError(f"total_sequence_length must be at most the {rows} rows of the caches; got {total}")
    else:
        _note_lengths(node, kind, heads, positions, masked)
    return {"keeps_past": False, **_past(node, kind), "output_tensor": heads.output(element)}


def _past(node: Node, kind: Appending) -> dict[str, Tensor]:
    names = ("past_key_tensor", "past_value_tensor")
    return {name: node.packed(node.tensor(index)) for name, index in zip(names, kind.past, strict=True)}


def _checked_total(
    node: Node, kind: Appending, tokens: int, past: int, positions: int | None, masked: int | None
) -> int:
    """How long the longest sequence is, with its new tokens, for which there are angles and a mask."""
    total = _total(node, kind, tokens, past)
    if positions is not None and total > positions:
        raise NodeInputError(f"{total} tokens stand in the caches; there are angles for {positions}")
    if masked is not None and masked != total:
        raise NotOnDevice(f"{total} tokens contradict a mask of {masked} keys")
    return total


def _note_lengths(
    node: Node, kind: Appending, heads: Heads, positions: int | None, masked: int | None, *, shows_scores: bool = False
) -> None:
    """Notes which lengths a node reads, that are looked at before each run."""
    given = node.proto.input
    total = "" if kind.total is None else given[kind.total]
    counts = given[kind.counts] if kind.counts is not None and node.has(kind.counts) else ""
    masks = tuple(name for name in kind.masks_in(given) if node.assembly.capacity_of(name) is not None)
    masked = None if masks else masked
    scores = node.proto.output[_SCORES] if shows_scores else ""
    node.assembly.lengths.append(
        Lengths(node.name, given[kind.ends], total, heads.batch, heads.tokens, positions, masked, counts, masks, scores)
    )


def _kind(node: Node) -> Appending:
    translation = translation_of(node.proto.domain, node.op_type, node.version)
    assert translation is not None and translation.appends is not None  # only those that append come here
    return translation.appends


def _window_capacity(node: Node, kind: Appending, past: int, positions: int | None) -> int:
    """The rows of a window's caches, which have those of the past."""
    window = node.integer("local_window_size", -1)
    if not 0 < window <= past:
        raise NotOnDevice(f"caches of {past} rows for a window of {window}")
    if positions is not None and max(node.integers(kind.ends)) >= positions:
        raise NotOnDevice(f"sequences that end at {node.integers(kind.ends)}, and angles for {positions} places")
    return past


def _total(node: Node, kind: Appending, tokens: int, capacity: int) -> int:
    """How long the longest sequence is, with its new tokens."""
    if kind.total is not None:
        total = node.integers(kind.total)[0]
        check_total(total, tokens, capacity)
        if kind.counts is None or not node.has(kind.counts):
            node.check_range(kind.ends, "seqlens_k", 0 if total == tokens else tokens - 1, total)
        return total
    before = node.integers(kind.ends)[0]
    if before < 0 or before + tokens > capacity:
        raise NodeInputError(
            f"past_sequence_length ({node.proto.input[kind.ends]!r}) {before} and {tokens} new tokens must go into "
            f"caches of {capacity}"
        )
    return before + tokens


def check_total(total: int, tokens: int, rows: int) -> None:
    """Refuses a length of the longest sequence that is no one's.

    Args:
        total: the length, with new tokens.
        rows: of the caches before: all of them count, or there is room for all.
    """
    if total < tokens or (total > rows and total != rows + tokens):
        raise NodeInputError(
            f"total_sequence_length must be from {tokens} new tokens to the caches' {rows} rows, or be the sum of "
            f"both; got {total}"
        )


def appended(
    node: Node,
    sources: tuple[Tensor, Tensor, Tensor],  # queries, keys and values: batch, tokens, heads * size
    heads: Heads,
    *,
    scale: float,  # what scores are multiplied by
    is_causal: bool,  # whether a query sees no key behind its own
    added: Tensor | None = None,  # what is added to scores: batch or 1, heads or 1, tokens or 1, keys
    softcap: float = 0.0,  # scores are bent to stay below it; 0: they are not
    window: int = 0,  # how many keys a query sees, its own last; 0: all
    shows_scores: bool = False,  # whether scores are an output
    # from which sequence of its beams each sequence takes the keys of the past, and how many a group has
    beams: tuple[Tensor, int] | None = None,
) -> list[Tensor]:
    """Attention of queries, keys and values of one type behind so many keys as an input says.

    Returns:
        The results, all keys and values, and scores where they are an output.
    """
    kind, element = _kind(node), sources[0].element
    if added is not None:
        added = added.broadcast((*added.shape[:2], heads.tokens, added.shape[3]))
    count = numbers(node, kind.ends, 1)
    names = ("query_tensor", "key_tensor", "value_tensor")
    return list(
        node.apply_all(
            "CACHED_ATTENTION",
            **{name: node.packed(tensor) for name, tensor in zip(names, sources, strict=True)},
            ends_tensor=count,
            total_tensor=count,
            counts_past=True,
            keeps_window=False,
            is_interleaved=False,
            has_empty_sink=False,
            bias_tensor=added,
            query_head_count=heads.heads,
            key_value_head_count=heads.key_heads,
            scale=scale,
            softcap=softcap,
            window=window,
            is_causal=is_causal,
            shows_shares=False,
            beams_tensor=None if beams is None else beams[0],
            beam_width=0 if beams is None else beams[1],
            **cached(node, heads, element, masked=None if added is None else added.shape[3], shows_scores=shows_scores),
        )
    )
