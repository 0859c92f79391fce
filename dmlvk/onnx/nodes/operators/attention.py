"""Attention of ONNX: masks, causality, windows, groups of heads, past and present, capped scores."""

from __future__ import annotations

import dataclasses

from onnx import TensorProto

from dmlvk.onnx.decoding.cache_pairs import APPENDS
from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.joining.pattern import JOINED
from dmlvk.onnx.nodes.operators.appending import Heads, appended
from dmlvk.onnx.nodes.operators.attention_rules import check_onnx
from dmlvk.onnx.nodes.operators.heads import (
    MASKED,
    AttentionSizes,
    attention,
    both,
    headed,
    hiding,
    in_window,
    merged,
    positions,
    rows_without_keys,
    stepwise,
    summed,
)
from dmlvk.onnx.nodes.operators.rotary import join
from dmlvk.onnx.nodes.translation import FLOATS, Appending, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor

_MASK, _PAST_KEY, _PAST_VALUE, _LENGTHS = 3, 4, 5, 6
_OUTPUT, _PRESENT_KEY, _PRESENT_VALUE, _SCORES = range(4)


@translates(
    "Attention",
    by=["MULTIHEAD_ATTENTION1"],
    since=23,
    note="memory grows with the length; with the square of it for masks, softcap and qk_matmul_output",
    batch=batches.attention,
    check=check_onnx,
    appends=Appending((4, 5), 7, is_optional=True, masks=(3,)),
)
def onnx_attention(node: Node) -> None:
    """By MULTIHEAD_ATTENTION1; step by step where scores are capped or asked for."""
    element = node.element(0)
    node.check_element(0, *FLOATS)
    precision = node.integer("softmax_precision") or element
    if precision not in FLOATS:
        raise NotOnDevice("scores of more precision than FLOAT32")
    _check_softcap(node)
    wide = TensorProto.FLOAT if TensorProto.FLOAT in (precision, element) else element
    given = _GivenInputs.of(node, wide, has_past=node.has(_PAST_KEY))
    sizes = given.sizes
    added, lonely = _added(node, sizes, wide)
    scale = node.real("scale") if node.is_given("scale") else sizes.size**-0.5
    cap, wants_scores = node.real("softcap"), node.wants(_SCORES)
    if cap or wants_scores:
        key, value = given.key, given.value
        if given.past is not None:
            key, value = (join(node, [old, own], 2) for old, own in zip(given.past, (key, value), strict=True))
        steps = stepwise(node, given.query, key, value, scale, added=added, cap=cap)
        output, presents = steps.output, (key, value)
        if wants_scores:
            mode = node.integer("qk_matmul_output_mode")
            scores = steps.scores[mode]
            if lonely is not None and mode == len(steps.scores) - 1:
                scores = lonely.where(0.0, scores)
            node.set(node.cast(scores, element), _SCORES)
        if lonely is not None:
            output = lonely.where(0.0, output)
    else:
        rows = {"query": given.query, "key": given.key, "value": given.value}
        sources = {f"{role}_tensor": merged(node, part) for role, part in rows.items()}
        wanted = node.wants(_PRESENT_KEY) or node.wants(_PRESENT_VALUE)
        made, *rest = attention(node, sources, sizes, scale, added=added, past=given.past, presents=wanted)
        output, presents = headed(made, sizes.heads), (rest[0], rest[1]) if rest else (given.key, given.value)
        if lonely is not None:
            output = lonely.where(0.0, output)
    output = node.cast(output, element)
    node.set(output if len(node.shape(0)) == 4 else merged(node, output), _OUTPUT)
    for index, present in zip((_PRESENT_KEY, _PRESENT_VALUE), presents, strict=True):
        if node.wants(index):
            node.set(node.cast(present, element), index)


@translates(APPENDS, by=["CACHED_ATTENTION"], domain=JOINED, check=check_onnx, appends=Appending((4, 5), 7, masks=(3,)))
def appending_attention(node: Node) -> None:
    """A decoder's attention that is told how many rows the caches have to which it appends."""
    node.check_element(0, *FLOATS)
    _check_softcap(node)
    if node.has(_LENGTHS) or node.wants(_SCORES):
        raise NotOnDevice("scores and nonpad_kv_seqlen do not go with caches that are appended to")
    given, element = _GivenInputs.of(node, node.element(0), has_past=False), node.element(0)
    if given.key.element != element or given.value.element != element:
        raise NotOnDevice("queries, keys and values are of several types")
    left, right = node.integer("left_window_size", -1), node.integer("right_window_size", -1)
    is_causal = bool(node.integer("is_causal")) or right == 0
    if left < -1 or right < -1 or (right > 0 and not is_causal) or (left >= 0 and not is_causal):
        raise NotOnDevice(f"windows of {left} and {right} keys")
    sizes = given.sizes
    heads = Heads(sizes.batch, sizes.queries, sizes.heads, sizes.key_heads, sizes.size, sizes.value_size)
    if sizes.own != sizes.queries:
        raise NotOnDevice(f"{sizes.queries} queries and {sizes.own} new keys")
    added = None
    if node.has(_MASK):
        mask = _of_four(node.tensor(_MASK))
        added = _as_numbers(node, mask, element)
    scale = node.attribute("scale")
    query, key, value = (merged(node, part) for part in (given.query, given.key, given.value))
    output, *presents = appended(
        node,
        (query, key, value),
        heads,
        scale=sizes.size**-0.5 if scale is None else float(scale),
        is_causal=is_causal,
        added=added,
        softcap=node.real("softcap"),
        window=left + 1,
    )
    node.set(output if len(node.shape(0)) == 3 else headed(output, sizes.heads), _OUTPUT)
    for index, present in zip((_PRESENT_KEY, _PRESENT_VALUE), presents, strict=True):
        if node.wants(index):
            node.set(present, index)


def _check_softcap(node: Node) -> None:
    if node.real("softcap") < 0:
        raise NotOnDevice(f"softcap must not be below 0; got {node.real('softcap')}")


@dataclasses.dataclass(frozen=True)
class _GivenInputs:
    """Queries, keys and values as batch, heads, length, size; those of the past likewise."""

    query: Tensor
    key: Tensor
    value: Tensor
    past: tuple[Tensor, Tensor] | None

    @classmethod
    def of(cls, node: Node, element: int, *, has_past: bool) -> _GivenInputs:
        """The inputs of a node, in an element type; with those of the past where they count."""
        counts = (node.integer("q_num_heads"), node.integer("kv_num_heads"), node.integer("kv_num_heads"))
        parts = []
        for index, count in enumerate(counts):
            tensor = node.cast(node.tensor(index), element)
            parts.append(tensor if tensor.rank == 4 else headed(tensor, count))
        past = None
        if has_past:
            past = (node.cast(node.tensor(_PAST_KEY), element), node.cast(node.tensor(_PAST_VALUE), element))
        return cls(parts[0], parts[1], parts[2], past)

    @property
    def sizes(self) -> AttentionSizes:
        batch, heads, queries, size = self.query.shape
        key_heads, own = self.key.shape[1:3]
        past = 0 if self.past is None else self.past[0].shape[2]
        return AttentionSizes(batch, heads, key_heads, queries, own, past, size, self.value.shape[3])


def _added(node: Node, sizes: AttentionSizes, element: int) -> tuple[Tensor | None, Tensor | None]:
    """What is added to scores, and which queries see no key at all; ``None`` where that is nothing, or none."""
    seen, first = None, sizes.past
    start: int | Tensor = first
    if node.has(_LENGTHS):
        lengths = node.cast(node.tensor(_LENGTHS), TensorProto.INT32)
        if lengths.shape != (sizes.batch,):
            raise NotOnDevice(f"nonpad_kv_seqlen must have the shape [{sizes.batch}]; got {list(lengths.shape)}")
        columns = positions(node, sizes.keys).viewed((1, 1, 1, sizes.keys))
        seen = columns < lengths.viewed((sizes.batch, 1, 1, 1))
        queries = node.scalar(sizes.queries, TensorProto.INT32).broadcast((sizes.batch,))
        start = lengths - queries
    left, right = node.integer("left_window_size", -1), node.integer("right_window_size", -1)
    if node.integer("is_causal"):
        right = 0
    if left < -1 or right < -1:
        raise NotOnDevice(f"windows of {left} and {right} keys")
    if left >= 0 or right >= 0:
        seen = both(seen, in_window(node, sizes.queries, sizes.keys, start, left=left, right=right))
    given = None
    is_risky = node.has(_LENGTHS) or left >= 0
    if node.has(_MASK):
        mask = _of_four(node.tensor(_MASK))
        is_risky = True
        if mask.element == TensorProto.BOOL and mask.shape[3] == sizes.keys:
            seen = both(seen, mask)
        else:
            given = _widened(node, _as_numbers(node, mask, element), sizes.keys)
    added = summed(hiding(seen, element), given)
    lonely = rows_without_keys(added) if added is not None and is_risky else None
    return added, lonely


def _of_four(mask: Tensor) -> Tensor:
    if not 1 <= mask.rank <= 4:
        raise NotOnDevice(f"a mask of {mask.rank} dimensions")
    missing = 4 - mask.rank
    return mask.viewed((1,) * missing + mask.shape, (0,) * missing + mask.strides)


def _as_numbers(node: Node, mask: Tensor, element: int) -> Tensor:
    if mask.element == TensorProto.BOOL:
        found = hiding(mask, element)
        assert found is not None  # there is a mask
        return found
    return node.cast(mask, element)


def _widened(node: Node, mask: Tensor, keys: int) -> Tensor:
    """A mask of fewer keys hides those that it does not have."""
    if mask.shape[3] == keys:
        return mask
    more = node.scalar(MASKED, mask.element).viewed((1, 1, 1, 1)).broadcast((*mask.shape[:3], keys - mask.shape[3]))
    return join(node, [mask, more])
