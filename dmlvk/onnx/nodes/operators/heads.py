"""What attention operators of every domain have in common: who sees whom, and two ways to compute them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.operators.matrix import matmul
from dmlvk.onnx.nodes.translation import Node
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.operators import MultiheadAttentionMaskType, ReduceFunction

MASKED = -np.inf  # What is added to scores of keys that must not be seen


@dataclasses.dataclass(frozen=True)
class AttentionSizes:
    batch: int  # sequences
    heads: int  # of the queries
    key_heads: int  # of keys and values: each serves the same number of heads
    queries: int  # queries of a sequence
    own: int  # keys without those of the past
    past: int  # keys of the past
    size: int  # of a query, and of a key
    value_size: int  # of a value

    @property
    def keys(self) -> int:
        return self.past + self.own


@dataclasses.dataclass(frozen=True)
class Mask:
    """A mask as DirectML's operator takes it."""

    tensor: Tensor  # of INT32
    kind: MultiheadAttentionMaskType  # what it says
    filtered: float  # what is added where it hides a key


def attention(
    node: Node,
    sources: Mapping[str, Tensor],  # of queries, keys and values, by DirectML's members in Python's words
    sizes: AttentionSizes,
    scale: float,  # what scores are multiplied by
    *,
    bias: Tensor | None = None,  # what is added to queries, keys and values
    added: Tensor | None = None,  # what is added to scores; broadcasts to batch, heads, queries, keys
    mask: Mask | None = None,
    past: tuple[Tensor, Tensor] | None = None,  # keys and values before these, as batch, heads, past, size
    presents: bool = False,  # whether past and own keys and values are asked for
) -> tuple[Tensor, ...]:
    """MULTIHEAD_ATTENTION1: the results as batch, queries, heads * value size, and present keys and values."""
    element = next(iter(sources.values())).element
    whole = (sizes.batch, sizes.heads, sizes.queries, sizes.keys)
    present = {
        "output_present_key_tensor": New(element, (sizes.batch, sizes.key_heads, sizes.keys, sizes.size)),
        "output_present_value_tensor": New(element, (sizes.batch, sizes.key_heads, sizes.keys, sizes.value_size)),
    }
    return node.apply_all(
        "MULTIHEAD_ATTENTION1",
        **sources,
        bias_tensor=bias,
        mask_tensor=None if mask is None else mask.tensor,
        relative_position_bias_tensor=None if added is None else added.broadcast(whole),
        past_key_tensor=None if past is None else past[0],
        past_value_tensor=None if past is None else past[1],
        output_tensor=New(element, (sizes.batch, sizes.queries, sizes.heads * sizes.value_size)),
        **(present if presents else {}),
        scale=scale,
        mask_filter_value=0.0 if mask is None else mask.filtered,
        query_head_count=sizes.heads,
        key_value_head_count=sizes.key_heads,
        mask_type=MultiheadAttentionMaskType.NONE if mask is None else mask.kind,
    )


@dataclasses.dataclass(frozen=True)
class Steps:
    """What attention that is computed step by step gives."""

    output: Tensor  # batch, heads, queries, value size
    # of every query and key, as the product gives them; capped; with what is added; and as shares
    scores: tuple[Tensor, Tensor, Tensor, Tensor]


def stepwise(
    node: Node,
    query: Tensor,  # batch, heads, queries, size
    key: Tensor,  # batch, heads of keys, keys, size
    value: Tensor,  # batch, heads of keys, keys, value size
    scale: float,  # what scores are multiplied by
    *,
    added: Tensor | None = None,  # what is added to scores; broadcasts to batch, heads, queries, keys
    cap: float = 0.0,  # scores are bent so that they stay below it; 0: they are not
) -> Steps:
    """The same from single operators, which also bend scores and give them out; its memory grows with their number."""
    batch, heads, queries, size = query.shape
    key_heads, keys = key.shape[1:3]
    group, (outer, step, *inner) = heads // key_heads, query.strides
    grouped = query.viewed((batch, key_heads, group, queries, size), (outer, group * step, step, *inner))
    whole = (batch, heads, queries, keys)
    raw = matmul(node, grouped, key.transposed((0, 1, 3, 2)).with_axis(2), alpha=scale).viewed(whole)
    capped = raw if cap == 0 else capped_by(node, raw, cap)
    biased = capped if added is None else capped + added
    shares = node.apply("ACTIVATION_SOFTMAX1", input_tensor=biased, axes=[3])
    parts = shares.viewed((batch, key_heads, group, queries, keys))
    made = matmul(node, parts, value.with_axis(2)).viewed((batch, heads, queries, value.shape[3]))
    return Steps(made, (raw, capped, biased, shares))


def capped_by(node: Node, scores: Tensor, cap: float) -> Tensor:
    """``cap * tanh(scores / cap)``."""
    limit = node.scalar(cap, scores.element)
    return node.apply("ELEMENT_WISE_TANH", input_tensor=scores / limit) * limit


def positions(node: Node, count: int, first: int = 0) -> Tensor:
    return node.assembly.constant(np.arange(first, first + count, dtype=np.int32), TensorProto.INT32)


def in_window(
    node: Node, queries: int, keys: int, first: int | Tensor, *, left: int = -1, right: int = -1
) -> Tensor | None:
    """Which keys lie close enough to each query: batch or 1, 1, queries, keys; ``None``: all.

    Args:
        first: the place of the first query among the keys; or a number for each sequence, of INT32.
        left: how far before a query keys may lie; -1: any distance.
        right: how far behind it; 0: none that follows is seen.
    """
    if not isinstance(first, Tensor):  # a number, which may follow from open sizes
        rows = positions(node, queries, first).viewed((1, 1, queries, 1))
        if right >= 0 and first + right >= keys - 1:
            right = -1
        if left >= first + queries - 1:
            left = -1
    else:
        rows = positions(node, queries).viewed((1, 1, queries, 1)) + first.viewed((first.shape[0], 1, 1, 1))
    columns = positions(node, keys).viewed((1, 1, 1, keys))
    seen = None
    if right >= 0:
        seen = columns <= (rows if right == 0 else rows + right)
    if left >= 0:
        seen = both(seen, columns >= (rows if left == 0 else rows - left))
    return seen


def both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Keys that both say are seen; ``None`` says so of all."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def summed(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The sum of what is added to scores; ``None`` is nothing."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def hiding(seen: Tensor | None, element: int) -> Tensor | None:
    """What is added to scores so that only these keys are seen."""
    return None if seen is None else seen.where(0.0, seen.graph.scalar(MASKED, element))


def rows_without_keys(added: Tensor) -> Tensor:
    """Which queries see no key, by what is added to their scores: of its shape, but one key."""
    largest = {"function": ReduceFunction.MAX, "input_tensor": added, "axes": [added.rank - 1]}
    return added.graph.add("REDUCE", largest)[0].equals(MASKED)


def headed(tensor: Tensor, heads: int) -> Tensor:
    """Batch, length, heads * size as batch, heads, length, size."""
    if tensor.rank != 3 or heads < 1 or tensor.shape[2] % heads:
        raise NotOnDevice(f"{list(tensor.shape)} are not sequences of {heads} heads")
    batch, length, hidden = tensor.shape
    (outer, row, step), size = tensor.strides, hidden // heads
    return tensor.viewed((batch, heads, length, size), (outer, size * step, row, step))


def merged(node: Node, tensor: Tensor) -> Tensor:
    """Batch, heads, length, size as batch, length, heads * size."""
    batch, heads, length, size = tensor.shape
    return node.packed(tensor.transposed((0, 2, 1, 3))).viewed((batch, length, heads * size))
