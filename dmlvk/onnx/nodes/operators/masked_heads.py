"""ONNX Runtime's MultiHeadAttention that is told how many tokens stand before, and DecoderMaskedMultiHeadAttention."""

from __future__ import annotations

import math

from onnx import TensorProto

from dmlvk.onnx.decoding.cache_pairs import ROWS
from dmlvk.onnx.nodes.operators.appending import Heads, appended
from dmlvk.onnx.nodes.operators.attention_rules import check_decoder_masked
from dmlvk.onnx.nodes.operators.heads import summed
from dmlvk.onnx.nodes.operators.rotary import split
from dmlvk.onnx.nodes.translation import FLOATS, MICROSOFT, Appending, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor

_LOWEST_HALF = -65504.0  # Of FLOAT16


@translates(
    "DecoderMaskedMultiHeadAttention",
    by=["CACHED_ATTENTION"],
    domain=MICROSOFT,
    note="past and present share a buffer; without cross attention",
    check=check_decoder_masked,
    beams=(9, 7),
    appends=Appending((5, 6), 7, masks=(3, 4)),
)
def decoder_masked_attention(node: Node) -> None:
    """One new token of each sequence; past and present are one buffer."""
    if node.wants(3) and not node.integer("output_qk"):
        raise NotOnDevice("the scores are an output, and output_qk is 0")
    if not node.integer("past_present_share_buffer"):
        raise NotOnDevice("past and present must share a buffer (past_present_share_buffer = 1)")
    if not all(node.has(index) for index in (1, 2, 5, 6, 7)):
        raise NotOnDevice("needs keys and values, new and of the past, and past_sequence_length")
    if node.shape(0)[1] != 1:
        raise NotOnDevice(f"takes one new token of each sequence; got {node.shape(0)[1]}")
    heads_behind(node, bias=10, mask=3, added=4, beams=9)


def heads_behind(node: Node, *, bias: int, mask: int, added: int, beams: int) -> None:
    """Attention of queries, keys and values of three dimensions behind the tokens of the past.

    Args:
        node: the node; an input says how many tokens the past has.
        bias: which input is added to queries, keys and values.
        mask: which one says which keys are seen: batch, keys; or batch, tokens, keys.
        added: which one is added to scores.
        beams: which one says from which sequence of its beams a key is taken: batch, beams, places.
    """
    node.check_element(0, *FLOATS)
    sources = [node.tensor(index) for index in range(3)]
    if any(tensor.rank != 3 for tensor in sources):
        raise NotOnDevice("queries, keys and values behind a past must have three dimensions")
    query, key, value = sources
    heads = node.integer("num_heads")
    batch, tokens, hidden = query.shape
    if heads < 1 or hidden % heads or value.shape[2] % heads or key.shape != query.shape:
        raise NotOnDevice(f"{list(query.shape)} and {list(key.shape)} are not queries and keys of {heads} heads")
    sizes = Heads(batch, tokens, heads, heads, hidden // heads, value.shape[2] // heads)
    if node.has(bias):
        parts = split(node, node.tensor(bias), [hidden, hidden, value.shape[2]], 0)
        sources = [tensor + part.viewed((1, 1, part.shape[0])) for tensor, part in zip(sources, parts, strict=True)]
    shown = summed(
        node.cast(node.tensor(added), query.element) if node.has(added) else None,
        _hiding(node, node.tensor(mask), query.shape, query.element) if node.has(mask) else None,
    )
    if node.wants(3) and node.integer("unidirectional"):
        raise NotOnDevice("the scores as an output do not go with unidirectional and a past yet")
    made = appended(
        node,
        (sources[0], sources[1], sources[2]),
        sizes,
        scale=node.real("scale") or 1 / math.sqrt(sizes.size),
        is_causal=bool(node.integer("unidirectional")),
        added=shown,
        shows_scores=node.wants(3),
        beams=_beams(node, beams, batch, tokens) if node.has(beams) else None,
    )
    for index, tensor in enumerate(made):
        if index == 0 or node.wants(index):
            node.set(tensor, index)


def _beams(node: Node, index: int, batch: int, tokens: int) -> tuple[Tensor, int]:
    """From which sequence of its beams each sequence takes the key of each place, and how many beams a group has."""
    given = node.packed(node.tensor(index))
    if given.rank != 3 or given.element != TensorProto.INT32 or tokens != 1 or given.shape[0] * given.shape[1] != batch:
        raise NotOnDevice(f"cache_indirection {list(given.shape)} for {tokens} new tokens of {batch} sequences")
    return given.viewed((batch, given.shape[2])), given.shape[1]


def _hiding(node: Node, mask: Tensor, queries: tuple[int, ...], element: int) -> Tensor:
    """What is added to scores where a mask hides keys."""
    batch, tokens, _ = queries
    shapes = (batch, mask.shape[-1]), (batch, tokens, mask.shape[-1])
    if mask.element not in (TensorProto.INT32, TensorProto.INT64) or mask.shape not in shapes:
        raise NotOnDevice(f"behind a past a mask must have {batch} x keys integers; got {list(mask.shape)}")
    filtered = node.real("mask_filter_value", -10000.0)
    if element == TensorProto.FLOAT16 and filtered < _LOWEST_HALF and ROWS in node.proto.input:
        # Queries that see no key would have no shares at all, where all keys have the same: without room that is so.
        raise NotOnDevice(f"FLOAT16 has no {filtered}, which hides keys")
    hidden = node.cast(mask, TensorProto.INT32) <= 0
    found = hidden.where(filtered, node.scalar(0.0, element))
    return node.packed(found).viewed((batch, 1, math.prod(mask.shape[1:-1]), mask.shape[-1]))
