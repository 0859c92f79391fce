"""GroupQueryAttention of ONNX Runtime: groups of heads, a cache of keys and values, rotary embeddings, windows."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.operators.heads import Sizes, attention, headed, hiding, in_window, merged, stepwise, summed
from dmlvk.onnx.operators.rotary import join, rotated, rows_of, split
from dmlvk.onnx.translation import FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.values import NotOnDevice, Tensor

_UNKNOWN = {
    12: "k_scale",
    13: "v_scale",
    14: "q_norm_weight",
    15: "k_norm_weight",
    16: "query_seqlens",
}
_POSITIONS, _BIAS, _SINK = 9, 10, 11


@dataclasses.dataclass(frozen=True)
class _Part:
    """Sequences of a batch whose past is equally long.

    Attributes:
        query: batch, length, heads * size.
        key: of the keys; turned already, as queries are.
        value: likewise.
        past: cached keys and values, those that count alone; ``None``: none do.
        bias: what is added to scores; for all keys.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    past: tuple[Tensor, Tensor] | None
    bias: Tensor | None


@translates(
    "GroupQueryAttention",
    by=["MULTIHEAD_ATTENTION1", "JOIN", "SPLIT"],
    domain=MICROSOFT,
    note="lengths decide how it is planned; caches of whole sequences, not quantized",
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
    query, key, value = _parts(node)
    batch, length = query.shape[:2]
    total = node.integers(6)[0]
    ends = [number + 1 for number in node.integers(5)]
    if len(ends) != batch:
        raise NotOnDevice(f"{len(ends)} lengths of {batch} sequences")
    first = total == length
    pasts = [0 if first else end - length for end in ends]
    cached = node.shape(3)[2] if node.has(3) else 0
    if min(pasts) < 0 or max(pasts) > cached:
        raise NotOnDevice(f"pasts of {pasts} keys in a cache of {cached}")
    if node.integer("do_rotary"):
        query, key = _turned(node, query, key, pasts)
    bias = node.tensor(_BIAS) if node.has(_BIAS) else None
    cache = (node.tensor(3), node.tensor(4)) if node.has(3) and 0 not in node.shape(3) else None
    whole = _Part(query, key, value, cache, bias)
    parts = [whole] if len(set(pasts)) == 1 else _sequences(node, whole)
    made = [_attended(node, part, past) for part, past in zip(parts, pasts, strict=False)]
    wanted = max(total, cached)
    outputs = [found[0] for found in made]
    node.set(outputs[0] if len(outputs) == 1 else join(node, outputs, 0), 0)
    for index in (1, 2):
        if node.wants(index):
            grown = [_grown(node, found[index], wanted) for found in made]
            node.set(grown[0] if len(grown) == 1 else join(node, grown, 0), index)


def _parts(node: Node) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as batch, length, heads * size; they may lie in one tensor."""
    query = node.packed(node.tensor(0))
    heads, key_heads = node.integer("num_heads"), node.integer("kv_num_heads")
    if heads < 1 or key_heads < 1 or heads % key_heads:
        raise NotOnDevice(f"{heads} heads of queries and {key_heads} of keys")
    if node.has(1):
        return query, node.packed(node.tensor(1)), node.packed(node.tensor(2))
    if query.shape[2] % (heads + 2 * key_heads):
        raise NotOnDevice(f"{query.shape[2]} elements are not those of {heads} + 2 x {key_heads} heads")
    size = query.shape[2] // (heads + 2 * key_heads)
    found = split(node, query, [heads * size, key_heads * size, key_heads * size])
    return found[0], found[1], found[2]


def _turned(node: Node, query: Tensor, key: Tensor, pasts: list[int]) -> tuple[Tensor, Tensor]:
    """Rotary embeddings of queries and keys, by their places."""
    batch, length = query.shape[:2]
    if node.has(_POSITIONS):
        numbers = node.tensor(_POSITIONS)
    else:
        table = np.add.outer(np.array(pasts, np.int64), np.arange(length, dtype=np.int64))
        numbers = node.assembly.constant(table, TensorProto.INT64)
    cosines, sines = (rows_of(node, node.tensor(index), numbers).with_axis(2) for index in (7, 8))
    interleaved = bool(node.integer("rotary_interleaved"))
    made = []
    for tensor, heads in ((query, node.integer("num_heads")), (key, node.integer("kv_num_heads"))):
        rows = tensor.viewed((batch, length, heads, tensor.shape[2] // heads))
        turned = 2 * cosines.shape[-1]
        made.append(rotated(node, rows, cosines, sines, turned, interleaved).viewed(tensor.shape))
    return made[0], made[1]


def _sequences(node: Node, whole: _Part) -> list[_Part]:
    """Each sequence of a batch alone."""
    count = whole.query.shape[0]

    def apart(tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor,) * count if tensor.shape[0] == 1 else split(node, tensor, [1] * count, 0)

    given = [apart(tensor) for tensor in (whole.query, whole.key, whole.value)]
    pasts = [apart(tensor) for tensor in whole.past or ()]
    biases = None if whole.bias is None else apart(whole.bias)
    return [
        _Part(
            given[0][index],
            given[1][index],
            given[2][index],
            (pasts[0][index], pasts[1][index]) if pasts else None,
            biases[index] if biases else None,
        )
        for index in range(count)
    ]


def _attended(node: Node, part: _Part, past: int) -> tuple[Tensor, Tensor, Tensor]:
    """The results, and past and own keys and values."""
    heads, key_heads = node.integer("num_heads"), node.integer("kv_num_heads")
    batch, length, hidden = part.query.shape
    own = part.key.shape[1]
    sizes = Sizes(batch, heads, key_heads, length, own, past, hidden // heads, part.value.shape[2] // key_heads)
    window = node.integer("local_window_size", -1)
    seen = None
    if node.integer("causal", 1):
        left = window - 1 if window > 0 else -1
        seen = in_window(node, length, sizes.keys, past, left=left, right=0)
    added = hiding(node, seen, part.query.element)
    if part.bias is not None:
        added = summed(node, part.bias.viewed((*part.bias.shape[:3], sizes.keys), part.bias.strides), added)
    scale = node.real("scale") or 1 / math.sqrt(sizes.size)
    seen_past = None
    if past and part.past is not None:
        seen_past = tuple(
            tensor.viewed((batch, key_heads, past, tensor.shape[3]), tensor.strides) for tensor in part.past
        )
    cap = node.real("softcap")
    sink = node.tensor(_SINK) if node.has(_SINK) else None
    if sink is None and node.integer("smooth_softmax") == 1:
        sink = node.scalar(0.0, part.query.element)
    if cap == 0 and sink is None:
        sources = {"query_tensor": part.query, "key_tensor": part.key, "value_tensor": part.value}
        pair_of = None if seen_past is None else (seen_past[0], seen_past[1])
        made = attention(node, sources, sizes, scale, added=added, past=pair_of, presents=True)
        return made[0], made[1], made[2]
    present = [headed(node, tensor, key_heads) for tensor in (part.key, part.value)]
    if seen_past is not None:
        present = [join(node, [old, new], 2) for old, new in zip(seen_past, present, strict=True)]
    steps = stepwise(
        node, headed(node, part.query, heads), present[0], present[1], scale, added=added, cap=cap, sink=sink
    )
    return merged(node, steps.output), present[0], present[1]


def _grown(node: Node, present: Tensor, length: int) -> Tensor:
    """Zeros behind keys or values, up to the length of the cache."""
    batch, heads, keys, size = present.shape
    if keys >= length:
        return present
    zero = node.scalar(0.0, present.element).viewed((1, 1, 1, 1)).broadcast((batch, heads, length - keys, size))
    return join(node, [present, zero], 2)
