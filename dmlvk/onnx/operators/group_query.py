"""GroupQueryAttention of ONNX Runtime: groups of heads, a cache of keys and values, rotary embeddings, windows."""

from __future__ import annotations

import math
from typing import Any

from onnx import TensorProto

from dmlvk.onnx.operators.appending import Heads, cached, numbers
from dmlvk.onnx.translation import FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.values import NotOnDevice, Tensor

_UNKNOWN = {
    12: "k_scale",
    13: "v_scale",
    14: "q_norm_weight",
    15: "k_norm_weight",
    16: "query_seqlens",
}
_ENDS, _TOTAL, _POSITIONS, _BIAS, _SINK = 5, 6, 9, 10, 11


@translates(
    "GroupQueryAttention",
    by=["CACHED_ATTENTION"],
    domain=MICROSOFT,
    note="lengths are read on the device; caches of whole sequences, not quantized",
)
def group_query_attention(node: Node) -> None:
    """Each sequence's keys follow those of its past, which may be shorter than the cache."""
    node.check_element(0, *FLOATS)
    for index, name in _UNKNOWN.items():
        if node.has(index):
            raise NotOnDevice(f"{name} is not there yet{' (quantized caches)' if index in (12, 13) else ''}")
    for name in ("sliding_window_cache", "qk_output"):
        if node.integer(name):
            raise NotOnDevice(f"{name} is not there yet")
    query, heads, key_heads = node.packed(node.tensor(0)), node.integer("num_heads"), node.integer("kv_num_heads")
    if heads < 1 or key_heads < 1 or heads % key_heads:
        raise NotOnDevice(f"{heads} heads of queries and {key_heads} of keys")
    batch, tokens, hidden = query.shape
    sources: dict[str, Tensor] = {"query_tensor": query}
    size = hidden // heads
    if node.has(1):
        sources |= {"key_tensor": node.packed(node.tensor(1)), "value_tensor": node.packed(node.tensor(2))}
    elif hidden % (heads + 2 * key_heads):
        raise NotOnDevice(f"{hidden} elements are not those of {heads} + 2 x {key_heads} heads")
    else:
        size = hidden // (heads + 2 * key_heads)
    window, scale = node.integer("local_window_size", -1), node.real("scale")
    members: dict[str, Any] = {
        "ends_tensor": numbers(node, _ENDS, batch),
        "total_tensor": numbers(node, _TOTAL, 1),
        "query_head_count": heads,
        "key_value_head_count": key_heads,
        "scale": scale or 1 / math.sqrt(size),
        "softcap": node.real("softcap"),
        "window": max(0, window),
        "is_causal": bool(node.integer("causal", 1)),
        "is_interleaved": bool(node.integer("rotary_interleaved")),
        "counts_past": False,
        "has_empty_sink": node.integer("smooth_softmax") == 1,
    }
    places = None
    if node.integer("do_rotary"):
        members |= {"cosine_tensor": node.packed(node.tensor(7)), "sine_tensor": node.packed(node.tensor(8))}
        if node.has(_POSITIONS):
            members["position_tensor"] = node.cast(node.tensor(_POSITIONS), TensorProto.INT64)
        else:
            places = node.shape(7)[0]
    if node.has(_BIAS):
        members["bias_tensor"] = node.tensor(_BIAS)
    if node.has(_SINK):
        members["sink_tensor"] = node.cast(node.packed(node.tensor(_SINK)), query.element)
    made, *present = node.apply_all(
        "CACHED_ATTENTION",
        **sources,
        **members,
        **cached(node, Heads(batch, tokens, heads, key_heads, size, size), query.element, places),
    )
    node.set(made)
    for index, tensor in enumerate(present, 1):
        if node.wants(index):
            node.set(tensor, index)
