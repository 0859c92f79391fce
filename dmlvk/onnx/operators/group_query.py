"""GroupQueryAttention of ONNX Runtime: groups of heads, a cache of keys and values, rotary embeddings, windows."""

from __future__ import annotations

import math
from typing import Any

from onnx import TensorProto

from dmlvk.onnx.assembly import New
from dmlvk.onnx.caches import Lengths
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
            raise NotOnDevice(f"{name} is not there yet")
    for name in ("sliding_window_cache", "qk_output"):
        if node.integer(name):
            raise NotOnDevice(f"{name} is not there yet")
    query, heads, key_heads = node.packed(node.tensor(0)), node.integer("num_heads"), node.integer("kv_num_heads")
    if heads < 1 or key_heads < 1 or heads % key_heads:
        raise NotOnDevice(f"{heads} heads of queries and {key_heads} of keys")
    batch, _, hidden = query.shape
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
        "ends_tensor": _numbers(node, _ENDS, batch),
        "total_tensor": _numbers(node, _TOTAL, 1),
        "query_head_count": heads,
        "key_value_head_count": key_heads,
        "scale": scale or 1 / math.sqrt(size),
        "softcap": node.real("softcap"),
        "window": max(0, window),
        "is_causal": bool(node.integer("causal", 1)),
        "is_interleaved": bool(node.integer("rotary_interleaved")),
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
        **_cached(node, (batch, key_heads, size), query.element, heads, places),
    )
    node.set(made)
    for index, tensor in enumerate(present, 1):
        if node.wants(index):
            node.set(tensor, index)


def _numbers(node: Node, index: int, count: int) -> Tensor:
    """Lengths as a tensor of INT32."""
    tensor = node.packed(node.tensor(index))
    if math.prod(tensor.shape) != count or tensor.element != TensorProto.INT32:
        raise NotOnDevice(f"input {index} must be {count} numbers of INT32; got {list(tensor.shape)}")
    return tensor.viewed((count,))


def _cached(node: Node, sizes: tuple[int, int, int], element: int, heads: int, places: int | None) -> dict[str, Any]:
    """The caches, where they lie in memory of their own that stays; else those of the past, and new ones.

    Args:
        node: the node.
        sizes: batch, heads of keys, and the size of a head.
        element: of queries.
        heads: of queries.
        places: as of :class:`Lengths`.
    """
    batch, key_heads, size = sizes
    tokens = node.shape(0)[1]
    output = New(element, (batch, tokens, heads * size))
    capacity = node.assembly.capacity_of(node.proto.output[1] if len(node.proto.output) > 1 else "")
    members: dict[str, Any] = {"keeps_past": capacity is not None}
    if capacity is None:
        cached = node.shape(3)[2] if node.has(3) else 0
        total = node.integers(_TOTAL)[0]
        if places is not None and total > places:
            raise NotOnDevice(f"{total} tokens, and angles for {places}")
        capacity = max(total, cached)
        if cached:
            members |= {
                "past_key_tensor": node.packed(node.tensor(3)),
                "past_value_tensor": node.packed(node.tensor(4)),
            }
    else:
        node.assembly.lengths.append(
            Lengths(node.name, node.proto.input[_ENDS], node.proto.input[_TOTAL], batch, tokens, places)
        )
    present = New(element, (batch, key_heads, capacity, size))
    return {
        **members,
        "output_tensor": output,
        "present_key_tensor": present,
        "present_value_tensor": present,
    }
