"""GroupQueryAttention of ONNX Runtime: groups of heads, a cache of keys and values, rotary embeddings, windows."""

from __future__ import annotations

import itertools
import math
from typing import Any

from onnx import TensorProto

from dmlvk.onnx.nodes.operators.appending import Heads, borrowed, cached, numbers
from dmlvk.onnx.nodes.operators.attention_rules import check_group_query
from dmlvk.onnx.nodes.operators.movement import sliced
from dmlvk.onnx.nodes.operators.normalization import normalized_rows
from dmlvk.onnx.nodes.translation import FLOATS, MICROSOFT, Appending, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor

_ENDS, _TOTAL, _POSITIONS, _BIAS, _SINK, _QUERY_SCALE, _KEY_SCALE = 5, 6, 9, 10, 11, 14, 15
_CACHE_SCALES = {12: "key", 13: "value"}
_QUERY_LENGTHS = 16
_SHARES = 2


_MEMBERS = ("query_tensor", "key_tensor", "value_tensor")


@translates(
    "GroupQueryAttention",
    by=["CACHED_ATTENTION"],
    domain=MICROSOFT,
    note="lengths are read on the device; caches may be quantized, keep a window, and be those of another node",
    check=check_group_query,
    appends=Appending((3, 4), 5, 6, counts=16, keys=1, masks=(10,)),
)
def group_query_attention(node: Node) -> None:
    """Each sequence's keys follow those of its past, which may be shorter than the cache."""
    node.check_element(0, *FLOATS)
    shown = _shown_scores(node)
    query, heads, key_heads = node.packed(node.tensor(0)), node.integer("num_heads"), node.integer("kv_num_heads")
    batch, tokens, hidden = query.shape
    size = hidden // heads
    if not node.has(1):
        size = hidden // (heads + 2 * key_heads)
    sources = _sources(node, query, (heads * size, key_heads * size))
    if node.has(_QUERY_SCALE) or node.has(_KEY_SCALE):
        sources |= _normalized(node, sources, size)
    members, positions = _members(node, query.element, (heads, key_heads), size)
    bits, scales = _quantized(node, key_heads * size)
    lengths = {"query_lengths_tensor": numbers(node, _QUERY_LENGTHS, batch)} if node.has(_QUERY_LENGTHS) else {}
    caches = borrowed if node.has(1) and not node.shape(1)[1] else cached
    made, *present = node.apply_all(
        "CACHED_ATTENTION",
        **sources,
        **members,
        **scales,
        **lengths,
        ends_tensor=numbers(node, _ENDS, batch),
        total_tensor=numbers(node, _TOTAL, 1),
        shows_shares=shown == _SHARES,
        beam_width=0,
        **caches(
            node,
            Heads(batch, tokens, heads, key_heads, size, size, bits),
            query.element,
            positions,
            node.shape(_BIAS)[3] if node.has(_BIAS) else None,
            shows_scores=shown != 0,
        ),
    )
    node.set(made)
    for index, tensor in enumerate(present, 1):
        if node.wants(index):
            node.set(tensor, index)


def _shown_scores(node: Node) -> int:
    """Which numbers are an output: 0 none, 1 scores, 2 the shares that are made of them."""
    shown = node.integer("qk_output")
    if shown not in (0, 1, _SHARES) or (shown != 0) != node.wants(3):
        raise NotOnDevice(f"qk_output {shown} and the outputs contradict one another")
    if shown and (node.integer("sliding_window_cache") or node.has(_QUERY_LENGTHS)):
        raise NotOnDevice("qk_output does not go with sliding_window_cache and query_seqlens")
    return shown


def _members(node: Node, element: int, heads: tuple[int, int], size: int) -> tuple[dict[str, Any], int | None]:
    """What CACHED_ATTENTION takes besides sources, lengths and caches; and the places that angles are there for.

    Args:
        heads: of queries, and of keys.
    """
    window, scale = node.integer("local_window_size", -1), node.real("scale")
    members: dict[str, Any] = {
        "query_head_count": heads[0],
        "key_value_head_count": heads[1],
        "scale": scale or 1 / math.sqrt(size),
        "softcap": node.real("softcap"),
        "window": max(0, window),
        "is_causal": bool(node.integer("causal", 1)),
        "is_interleaved": bool(node.integer("rotary_interleaved")),
        "counts_past": False,
        "keeps_window": bool(node.integer("sliding_window_cache")),
        "has_empty_sink": node.integer("smooth_softmax") == 1,
    }
    positions = None
    if node.integer("do_rotary"):
        members |= {"cosine_tensor": node.packed(node.tensor(7)), "sine_tensor": node.packed(node.tensor(8))}
        if node.has(_POSITIONS):
            members["position_tensor"] = node.cast(node.tensor(_POSITIONS), TensorProto.INT64)
        if not (node.has(_POSITIONS) and members["keeps_window"]):
            positions = node.shape(7)[0]  # ONNX Runtime asks for them beside places that are given, too
    if node.has(_BIAS):
        members["bias_tensor"] = node.tensor(_BIAS)
    if node.has(_SINK):
        members["sink_tensor"] = node.cast(node.packed(node.tensor(_SINK)), element)
    return members, positions


def _quantized(node: Node, elements: int) -> tuple[int, dict[str, Tensor]]:
    """The bits of an integer in caches of integers (0: they are none), and what these are multiplied by.

    Args:
        elements: of all heads of a token's keys.
    """
    kinds = {role: node.text(f"{role[0]}_quant_type", "NONE") for role in _CACHE_SCALES.values()}
    if all(kind == "NONE" for kind in kinds.values()):
        return 0, {}
    bits, scales = node.integer("kv_cache_bit_width"), dict[str, Tensor]()
    if bits not in (4, 8):
        raise NotOnDevice(f"kv_cache_bit_width must be 4 or 8; got {bits}")
    for index, role in _CACHE_SCALES.items():
        count = {"PER_TENSOR": 1, "PER_CHANNEL": elements}.get(kinds[role])
        if count is None or not node.has(index) or math.prod(node.shape(index)) != count:
            raise NotOnDevice(f"{role[0]}_quant_type {kinds[role]!r} and {role[0]}_scale contradict one another")
        scales[f"{role}_scale_tensor"] = node.packed(node.tensor(index)).viewed((count,))
    if kinds["key"] != kinds["value"]:
        scales = {name: node.packed(scale.broadcast((elements,))) for name, scale in scales.items()}
    return bits, scales


def _sources(node: Node, query: Tensor, widths: tuple[int, int]) -> dict[str, Tensor]:
    """Queries, keys and values, as members of CACHED_ATTENTION.

    Args:
        query: its first input, which holds all three where there is no second one.
        widths: elements of a token's queries, and of its keys.
    """
    if node.has(1) and not node.shape(1)[1]:
        return {"query_tensor": query}
    if node.has(1):
        others = [node.packed(node.tensor(index)) for index in (1, 2)]
        return dict(zip(_MEMBERS, [query, *others], strict=True))
    if not node.has(_QUERY_SCALE):
        return {"query_tensor": query}
    batch, tokens, hidden = query.shape
    positions = (0, widths[0], widths[0] + widths[1], hidden)
    parts = itertools.pairwise(positions)
    views = [sliced(node, query, [0, 0, at], [batch, tokens, end - at], [1, 1, 1]) for at, end in parts]
    return dict(zip(_MEMBERS, views, strict=True))


def _normalized(node: Node, sources: dict[str, Tensor], size: int) -> dict[str, Tensor]:
    """Queries and keys, each head's divided by the root of its mean square, as Qwen3 has them."""
    made = {}
    scales = {"query_tensor": (_QUERY_SCALE, "q_norm_epsilon"), "key_tensor": (_KEY_SCALE, "k_norm_epsilon")}
    for name, (index, epsilon) in scales.items():
        if name not in sources or not node.has(index) or node.shape(index) != (size,):
            raise NotOnDevice(f"q_norm_weight and k_norm_weight must be there together, with {size} elements each")
        tensor = sources[name]
        batch, tokens, width = tensor.shape
        heads = tensor.viewed((batch, tokens, width // size, size))
        least = node.real(epsilon, node.real("qk_norm_epsilon", 1e-6))
        made[name] = normalized_rows(node, heads, node.tensor(index), least).viewed(tensor.shape)
    return made
