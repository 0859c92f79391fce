"""Attention of ONNX Runtime's own domain: MultiHeadAttention and Attention."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes.operators.attention_rules import check_multi_head, check_projections
from dmlvk.onnx.nodes.operators.heads import (
    AttentionSizes,
    Mask,
    attention,
    headed,
    hiding,
    in_window,
    merged,
    positions,
    summed,
)
from dmlvk.onnx.nodes.operators.masked_heads import heads_behind
from dmlvk.onnx.nodes.operators.matrix import matmul, product
from dmlvk.onnx.nodes.operators.quantization import of_matrix
from dmlvk.onnx.nodes.operators.quantized import integer_product
from dmlvk.onnx.nodes.operators.reduction import reduced
from dmlvk.onnx.nodes.operators.rotary import join, split
from dmlvk.onnx.nodes.translation import FLOATS, MICROSOFT, Appending, Node, translates
from dmlvk.onnx.nodes.values import NUMPY_TYPES, NotOnDevice, Tensor
from dmlvk.operators import MultiheadAttentionMaskType
from dmlvk.operators.members import ReduceFunction

_OF_PACKED = MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END

_LOWEST_HALF = -65504.0  # Of FLOAT16: what hides keys by less is kept beside a score in FLOAT32, and swallows it

_HIDES_IN_HALF = -30000.0  # Hides a key as well as any smaller number; its sum with a score is one of FLOAT16

_INTEGERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)


@translates(
    "MultiHeadAttention",
    by=["MULTIHEAD_ATTENTION1", "CACHED_ATTENTION"],
    domain=MICROSOFT,
    note="past and present may share a buffer",
    check=check_multi_head,
    beams=(9, 8),
    appends=Appending((6, 7), 8, is_optional=True, masks=(4, 5)),
)
def multi_head_attention(node: Node) -> None:
    """Queries, keys and values apart or stacked, with a bias for all three."""
    node.check_element(0, *FLOATS)
    if node.has(8):
        heads_behind(node, bias=3, mask=4, added=5, beams=9)
        return
    if node.has(9):
        raise NotOnDevice("cache_indirection needs past_sequence_length")
    heads = node.integer("num_heads")
    has_past = node.has(6) and 0 not in node.shape(6)  # the first step of a decoder has none
    sources, sizes = _sources(node, heads, node.shape(6)[2] if has_past else 0)
    made, *presents = _attended(
        node,
        sources,
        sizes,
        bias=node.tensor(3) if node.has(3) else None,
        added=5,
        mask=4,
        past=(node.tensor(6), node.tensor(7)) if has_past else None,
        presents=node.wants(1) or node.wants(2),
    )
    node.set(made)
    for index, present in enumerate(presents, 1):
        node.set(present, index)
    if node.wants(3):
        node.set(_scores(node, sources, sizes, (node.tensor(6), node.tensor(7)) if has_past else None), 3)


def _scores(
    node: Node, sources: Mapping[str, Tensor], sizes: AttentionSizes, past: tuple[Tensor, Tensor] | None
) -> Tensor:
    """The numbers that shares are made of, as ONNX Runtime gives them out: scaled products with all that is added."""
    if not sources.keys() >= {"query_tensor", "key_tensor"}:
        raise NotOnDevice("the scores of stacked keys as an output are not there yet")
    query, key = sources["query_tensor"], sources["key_tensor"]
    if node.has(3):
        width = query.shape[2]
        bias = split(node, node.tensor(3), [width, width, sizes.heads * sizes.value_size], 0)
        query, key = (tensor + part.viewed((1, 1, width)) for tensor, part in zip((query, key), bias, strict=False))
    query, key = (headed(node.packed(tensor), sizes.heads) for tensor in (query, key))
    if past is not None:
        key = join(node, [past[0], key], 2)
    scale = node.real("scale") or 1 / math.sqrt(sizes.size)
    scores = matmul(node, query, key.transposed((0, 1, 3, 2)), alpha=scale)
    element = query.element
    if node.has(5):
        scores = scores + node.cast(node.tensor(5), element)
    if node.has(4):
        mask = _mask(node, node.tensor(4), sizes)
        if mask.kind == _OF_PACKED or (element == TensorProto.FLOAT16 and mask.filtered < _LOWEST_HALF):
            raise NotOnDevice("the scores as an output do not go with this mask yet")
        hidden = _seen(node, mask, sizes).where(0.0, node.scalar(mask.filtered, element))
        scores = scores + hidden
    if node.integer("unidirectional"):
        seen = in_window(node, sizes.queries, sizes.keys, sizes.past, right=0)
        if seen is not None:
            lowest = float(np.finfo(NUMPY_TYPES[element]).min)
            scores = seen.where(scores, lowest)
    return scores


def _sources(node: Node, heads: int, past: int) -> tuple[dict[str, Tensor], AttentionSizes]:
    """Queries, keys and values by DirectML's members."""
    query = node.tensor(0)
    if query.rank == 5:
        batch, length, _, _, size = query.shape
        return {"stacked_query_key_value_tensor": query}, AttentionSizes(
            batch, heads, heads, length, length, past, size, size
        )
    batch, queries, hidden = query.shape
    size = hidden // heads
    key = node.tensor(1)
    if key.rank == 5:
        sizes = AttentionSizes(batch, heads, heads, queries, key.shape[1], past, size, key.shape[4])
        return {"query_tensor": query, "stacked_key_value_tensor": key}, sizes
    value = node.tensor(2)
    if key.rank == 4:  # of cross attention: as they were given out before
        if node.has(3):
            raise NotOnDevice("a bias of queries alone is not there yet")
        key, value = merged(node, key), merged(node, value)
    sizes = AttentionSizes(batch, heads, heads, queries, key.shape[1], past, size, value.shape[2] // heads)
    return {"query_tensor": query, "key_tensor": key, "value_tensor": value}, sizes


@translates(
    "Attention",
    by=["GEMM", "MULTIHEAD_ATTENTION1"],
    domain=MICROSOFT,
    note="without do_rotary and shared buffers of past and present",
    check=check_projections,
)
def attention_of_projections(node: Node) -> None:
    """Queries, keys and values are products of the input and one matrix."""
    node.check_element(0, *FLOATS)
    if node.integer("do_rotary") or node.integer("past_present_share_buffer") or node.has(6):
        raise NotOnDevice("do_rotary and shared buffers are not there yet")
    tensor, weights = node.packed(node.tensor(0)), node.tensor(1)
    batch, queries, wide = tensor.shape
    rows = tensor.viewed((batch * queries, wide))
    bias = node.tensor(2).broadcast((batch * queries, weights.shape[1])) if node.has(2) else None
    all_three = product(node, rows, weights, c=bias, beta=1.0).viewed((batch, queries, weights.shape[1]))
    _attend(node, all_three, mask=3, past=4, added=5)


@translates(
    "QAttention",
    by=["MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "MULTIHEAD_ATTENTION1"],
    domain=MICROSOFT,
    note="without do_rotary and shared buffers of past and present",
)
def attention_of_integer_projections(node: Node) -> None:
    """Queries, keys and values are products of integers; from there on it is Attention."""
    if node.integer("do_rotary") or node.integer("past_present_share_buffer"):
        raise NotOnDevice("do_rotary and shared buffers are not there yet")
    tensor, weights = node.packed(node.tensor(0)), node.tensor(1)
    batch, queries, wide = tensor.shape
    made = integer_product(
        node,
        (tensor.viewed((batch * queries, wide)), of_matrix(node, 3, 2, rows=True), of_matrix(node, 6, 2, rows=True)),
        (weights, of_matrix(node, 4, 2, rows=False), of_matrix(node, 7, 2, rows=False)),
        bias=2,
    )
    _attend(node, made.viewed((batch, queries, weights.shape[1])), mask=5, past=8, added=None)


def _attend(node: Node, all_three: Tensor, *, mask: int, past: int, added: int | None) -> None:
    """Sets the outputs.

    Args:
        all_three: queries, keys and values behind one another: batch, length, hidden.
        past: which one has keys and values from before.
        added: which one is added to the scores.
    """
    heads = node.integer("num_heads")
    batch, queries, columns = all_three.shape
    hidden = node.list("qkv_hidden_sizes") or [columns // 3] * 3
    if heads < 1 or len(hidden) != 3 or sum(hidden) != columns or any(part % heads for part in hidden):
        raise NotOnDevice(f"{columns} columns are not queries, keys and values of {hidden} and {heads} heads")
    query, key, value = split(node, all_three, hidden)
    before = None
    if node.has(past) and 0 not in node.shape(past):  # the first step of a decoder has none
        given = node.tensor(past)
        parts = split(node, given, [1, 1], 0)
        before = (parts[0].viewed(given.shape[1:]), parts[1].viewed(given.shape[1:]))
    sizes = AttentionSizes(
        batch,
        heads,
        heads,
        queries,
        queries,
        0 if before is None else before[0].shape[2],
        hidden[0] // heads,
        hidden[2] // heads,
    )
    made, *presents = _attended(
        node,
        {"query_tensor": query, "key_tensor": key, "value_tensor": value},
        sizes,
        added=added,
        mask=mask,
        past=before,
        presents=node.wants(1),
    )
    node.set(made)
    if presents:
        node.set(join(node, [present.viewed((1, *present.shape)) for present in presents], 0), 1)


def _attended(
    node: Node,
    sources: Mapping[str, Tensor],  # of queries, keys and values, by DirectML's members
    sizes: AttentionSizes,
    *,
    added: int | None,  # which input is added to the scores
    mask: int,  # which input is the mask
    past: tuple[Tensor, Tensor] | None,  # keys and values from before
    presents: bool,  # whether all keys and values are asked for
    bias: Tensor | None = None,  # what is added to queries, keys and values
) -> list[Tensor]:
    """The results, and present keys and values where they are asked for.

    A query that sees no key has the shares that it would have without the mask: what hides a key is added to every
    score then. FLOAT16 cannot hold such sums, so there the mask is lifted from those queries, or all is FLOAT32.
    """
    element = wide = next(iter(sources.values())).element
    masked = _mask(node, node.tensor(mask), sizes) if node.has(mask) else None
    if masked is not None and element == TensorProto.FLOAT16:
        if masked.filtered < _LOWEST_HALF or masked.kind == _OF_PACKED:
            wide = TensorProto.FLOAT
        else:
            masked = _lifted(node, masked, sizes)
    found = attention(
        node,
        {member: node.cast(tensor, wide) for member, tensor in sources.items()},
        sizes,
        node.real("scale") or 1 / math.sqrt(sizes.size),
        bias=None if bias is None else node.cast(bias, wide),
        added=_added(node, sizes, added, wide),
        mask=masked,
        past=None if past is None else (node.cast(past[0], wide), node.cast(past[1], wide)),
        presents=presents,
    )
    return [node.cast(tensor, element) for tensor in found]


def _lifted(node: Node, mask: Mask, sizes: AttentionSizes) -> Mask:
    """The mask as one for each query and key, without those queries that would see none."""
    seen = _seen(node, mask, sizes)
    causal = in_window(node, sizes.queries, sizes.keys, sizes.past, right=0) if node.integer("unidirectional") else None
    visible = seen if causal is None else seen & causal
    sees_some = reduced(node, ReduceFunction.MAX, visible, [3])
    kept = seen | node.apply("ELEMENT_WISE_LOGICAL_NOT", input_tensor=sees_some)
    kind = MultiheadAttentionMaskType.BOOLEAN
    return Mask(node.cast(kept, TensorProto.INT32), kind, max(mask.filtered, _HIDES_IN_HALF))


def _seen(node: Node, mask: Mask, sizes: AttentionSizes) -> Tensor:
    """Which keys a mask shows: batch, 1, queries or 1, keys."""
    columns = positions(node, sizes.keys).viewed((1, 1, 1, sizes.keys))
    if mask.kind == MultiheadAttentionMaskType.BOOLEAN:
        seen = mask.tensor.equals(0)
        return node.apply("ELEMENT_WISE_LOGICAL_NOT", input_tensor=seen)
    end, *start = split(node, mask.tensor, [1] * mask.tensor.shape[0], 0)
    seen = columns < end.viewed((sizes.batch, 1, 1, 1))
    if start:
        begun = columns >= start[0].viewed((sizes.batch, 1, 1, 1))
        seen = seen & begun
    return seen


def _added(node: Node, sizes: AttentionSizes, index: int | None, element: int) -> Tensor | None:
    """The bias of scores, and what hides the keys that follow a query."""
    added = node.tensor(index) if index is not None and node.has(index) else None
    if not node.integer("unidirectional"):
        return None if added is None else node.cast(added, element)
    seen = in_window(node, sizes.queries, sizes.keys, sizes.past, right=0)
    return summed(None if added is None else node.cast(added, element), hiding(seen, element))


def _mask(node: Node, mask: Tensor, sizes: AttentionSizes) -> Mask:
    """ONNX Runtime's ways of masks, which their shapes tell apart."""
    if mask.element not in _INTEGERS:
        raise NotOnDevice("masks are of integers")
    mask, types = node.cast(mask, TensorProto.INT32), MultiheadAttentionMaskType
    filtered = node.real("mask_filter_value", -10000.0)
    batch, queries, keys = sizes.batch, sizes.queries, sizes.keys
    boolean = {
        (batch, keys): (batch, 1, 1, keys),
        (batch, queries, keys): (batch, 1, queries, keys),
        (batch, 1, queries, keys): (batch, 1, queries, keys),
    }
    lengths = {
        (batch,): ((1, batch), types.KEY_SEQUENCE_LENGTH),
        (2 * batch,): ((2, batch), types.KEY_SEQUENCE_END_START),
        (3 * batch + 2,): ((3 * batch + 2,), types.KEY_QUERY_SEQUENCE_LENGTH_START_END),
    }
    if mask.shape in boolean:
        return Mask(node.packed(mask).viewed(boolean[mask.shape]), types.BOOLEAN, filtered)
    if mask.shape in lengths:
        shape, kind = lengths[mask.shape]
        return Mask(node.packed(mask).viewed(shape), kind, filtered)
    raise NotOnDevice(f"a mask of the shape {list(mask.shape)} for {batch} x {queries} queries and {keys} keys")
