"""What attention nodes ask of their inputs' sizes and types, as ONNX Runtime's kernels check it before they compute.

The rules are those of ``group_query_attention_helper.h``, ``multihead_attention_helper.h`` and
``core/providers/cpu/llm/attention_helper.h`` there. A node that breaks one is refused, whoever would compute it: a
cache of other heads or of another width would be read and written beyond its rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from onnx import TensorProto

from dmlvk.onnx.nodes.translation import Node
from dmlvk.onnx.nodes.values import NodeInputError, element_name

_Size: TypeAlias = "int | tuple[int, ...] | None"  # A size, some of which any will do, or any at all

_GROUP_QUERY = (
    *("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache"),
    *("sin_cache", "position_ids", "attention_bias", "head_sink"),
)
_MULTI_HEAD = (
    *("query", "key", "value", "bias", "key_padding_mask", "attention_bias", "past_key", "past_value"),
    *("past_sequence_length", "cache_indirection"),
)
_DECODER_MASKED = (
    *("query", "key", "value", "mask_index", "attention_bias", "past_key", "past_value", "past_sequence_length"),
    *("beam_width", "cache_indirection", "bias"),
)
_OF_PROJECTIONS = ("input", "weights", "bias", "mask_index", "past", "attention_bias")
_OF_ONNX = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
_COUNTS = ("past_sequence_length", "cache_indirection", "beam_width", "key_padding_mask", "mask_index", "seqlens_k")


class _Given:
    """A node's inputs by the names that its operator has for them.

    Args:
        names: of its inputs, in their order.
    """

    def __init__(self, node: Node, names: Sequence[str]) -> None:
        self._node = node
        self._places = {name: place for place, name in enumerate(names)}

    def has(self, name: str) -> bool:
        return self._node.has(self._places[name])

    def shape(self, name: str) -> tuple[int, ...]:
        return self._node.shape(self._places[name])

    def rows(self, name: str) -> int | None:
        """The rows of a cache of four dimensions, where it is there."""
        return self.shape(name)[2] if self.has(name) else None

    def refuse(self, name: str, rule: str) -> NoReturn:
        place = self._places[name]
        value = self._node.proto.input[place] if place < len(self._node.proto.input) else ""
        raise NodeInputError(f"{name}{f' ({value!r})' if value else ''} {rule}")

    def check_sizes(self, name: str, *wanted: _Size) -> None:
        """Refuses an input of other sizes, where it is there."""
        if not self.has(name):
            return
        shape = self.shape(name)
        if len(shape) != len(wanted) or not all(map(_fits, shape, wanted)):
            found: list[_Size] = list(map(int, shape))
            if len(shape) == len(wanted):  # caches that are appended to have more rows here than a caller sees
                found = [None if any_will_do is None else size for size, any_will_do in zip(found, wanted, strict=True)]
            said, got = (", ".join(map(_shown, sizes)) for sizes in (wanted, found))
            self.refuse(name, f"must have the shape [{said}]; got [{got}]")

    def check_is_filled(self, *names: str) -> None:
        """Refuses inputs without elements: ONNX Runtime refuses some, and dies of others."""
        for name in names:
            if self.has(name) and 0 in self.shape(name):
                self.refuse(name, f"must have elements; got the shape {list(map(int, self.shape(name)))}")

    def check_is_number(self, name: str) -> None:
        """Refuses an input that is neither a scalar nor an array of one number."""
        if self.has(name) and self.shape(name) != ():
            self.check_sizes(name, 1)

    def check_together(self, *names: str) -> None:
        """Refuses inputs of which one is there and another is not."""
        missing = [name for name in names if not self.has(name)]
        if missing and len(missing) < len(names):
            others = " and ".join(name for name in names if name not in missing)
            self.refuse(missing[0], f"must be given together with {others}")

    def check_types(self, *names: str, element: int | None = None) -> None:
        """Refuses inputs that are not of the type of the first one, or of another one."""
        there = [name for name in names if name in self._places and self.has(name)]
        for name in there:
            wanted = self._node.element(self._places[there[0]]) if element is None else element
            found = self._node.element(self._places[name])
            if found != wanted:
                self.refuse(name, f"must be of {element_name(wanted)}; got {element_name(found)}")

    def check_is_float(self, name: str) -> None:
        """Refuses an input of integers."""
        element = self._node.element(self._places[name])
        if element not in _FLOATS:
            self.refuse(name, f"must be of floating-point numbers; got {element_name(element)}")

    def check_counts(self) -> None:
        """Refuses numbers and masks that are not of INT32."""
        self.check_types(*_COUNTS, element=TensorProto.INT32)


def _fits(size: int, wanted: _Size) -> bool:
    return wanted is None or (size in wanted if isinstance(wanted, tuple) else size == wanted)


def _shown(wanted: _Size) -> str:
    if wanted is None:
        return "any"
    return " or ".join(str(int(size)) for size in dict.fromkeys(wanted)) if isinstance(wanted, tuple) else f"{wanted}"


def _head(name: str, width: int, heads: int) -> int:
    """The elements of a head, where a token has so many altogether."""
    if heads < 1 or width % heads or not width:
        raise NodeInputError(f"{name} must end with elements of {heads} heads; got {width}")
    return width // heads


def check_group_query(node: Node) -> None:
    """The rules of GroupQueryAttention.

    Raises:
        NodeInputError: naming the input that breaks one.
    """
    given = _Given(node, _GROUP_QUERY)
    given.check_sizes("query", None, None, None)
    given.check_is_filled("query")
    batch, tokens, hidden = given.shape("query")
    heads, key_heads = node.integer("num_heads"), node.integer("kv_num_heads")
    if heads < 1 or key_heads < 1 or heads % key_heads:
        raise NodeInputError(f"num_heads {heads} must be a multiple of kv_num_heads {key_heads}")
    for together in (("key", "value"), ("past_key", "past_value"), ("cos_cache", "sin_cache")):
        given.check_together(*together)
    size = _head("query", hidden, heads if given.has("key") else heads + 2 * key_heads)
    none = given.has("key") and given.shape("key")[1:2] == (0,)  # it sees the keys of another node
    for name in ("key", "value"):
        given.check_sizes(name, (1, batch) if none else batch, 0 if none else tokens, key_heads * size)
    if none and not given.has("past_key"):
        given.refuse("past_key", "must be given where there are no new keys")
    is_quantized = any(node.text(f"{role}_quant_type", "NONE") != "NONE" for role in "kv")
    bits = node.integer("kv_cache_bit_width") if is_quantized else 0
    line = size // 2 if bits == 4 else size
    given.check_sizes("past_key", batch, key_heads, None, line)
    given.check_sizes("past_value", batch, key_heads, given.rows("past_key"), line)
    cached = () if is_quantized else ("past_key", "past_value")
    given.check_types("query", "key", "value", *cached, "cos_cache", "sin_cache", "attention_bias", "head_sink")
    given.check_types("past_key", "past_value")
    given.check_is_float("query")
    given.check_counts()
    if given.shape("seqlens_k") == () or math.prod(given.shape("seqlens_k")) != batch:
        given.check_sizes("seqlens_k", batch)
    given.check_is_number("total_sequence_length")
    if node.integer("do_rotary") and not given.has("cos_cache"):
        given.refuse("cos_cache", "must be given where do_rotary is 1")
    if given.has("cos_cache"):
        given.check_sizes("cos_cache", None, None)
        places, turned = given.shape("cos_cache")
        given.check_sizes("sin_cache", None, turned)
        if 2 * turned > size:
            given.refuse("cos_cache", f"must have at most {size // 2} columns for heads of {size}; got {turned}")
        if given.has("position_ids"):
            given.check_sizes("position_ids", batch, tokens)
            node.check_range(9, "position_ids", 0, places)
    given.check_sizes("attention_bias", (1, batch), (1, heads), tokens, None)
    given.check_sizes("head_sink", heads)


def check_multi_head(node: Node) -> None:
    """The rules of MultiHeadAttention.

    Raises:
        NodeInputError: naming the input that breaks one.
    """
    _check_heads(node, _Given(node, _MULTI_HEAD))


def check_decoder_masked(node: Node) -> None:
    """The rules of DecoderMaskedMultiHeadAttention.

    Raises:
        NodeInputError: naming the input that breaks one.
    """
    given = _Given(node, _DECODER_MASKED)
    _check_heads(node, given)
    if given.has("beam_width"):
        given.check_is_filled("beam_width")
        if given.has("cache_indirection"):
            given.check_sizes("cache_indirection", None, None, None)
            width = given.shape("cache_indirection")[1]
            node.check_range(8, "beam_width", width, width + 1)
        else:
            node.check_range(8, "beam_width", -(2**31), 2)


def _check_heads(node: Node, given: _Given) -> None:
    heads, query = node.integer("num_heads"), given.shape("query")
    given.check_together("past_key", "past_value")
    given.check_types("query", "key", "value", "bias", "attention_bias", "past_key", "past_value")
    given.check_is_float("query")
    given.check_counts()
    if len(query) == 5:
        given.check_sizes("query", None, None, heads, 3, None)
        for name in ("key", "value"):
            if given.has(name):
                given.refuse(name, "must not be given where query has all three")
        size = value_size = query[4]
    else:
        given.check_sizes("query", None, None, None)
        size = _head("query", query[2], heads)
        value_size = _check_keys(given, query, heads, size)
    batch, tokens = query[:2]
    given.check_sizes("past_key", batch, heads, None, size)
    given.check_sizes("past_value", batch, heads, given.rows("past_key"), value_size)
    given.check_sizes("bias", heads * (2 * size + value_size))
    given.check_sizes("attention_bias", (1, batch), (1, heads), tokens, None)
    given.check_is_number("past_sequence_length")


def _check_keys(given: _Given, query: tuple[int, ...], heads: int, size: int) -> int:
    """Looks at keys and values beside queries of three dimensions; the elements of a head of values."""
    batch, _, hidden = query
    if not given.has("key"):
        return size  # stacked behind the queries, which no translator knows
    key = given.shape("key")
    if len(key) == 5:
        given.check_sizes("key", batch, None, heads, 2, size)
        if given.has("value"):
            given.refuse("value", "must not be given where key has both")
        return size
    given.check_together("key", "value")
    if len(key) == 4:
        given.check_sizes("key", batch, heads, None, size)
        given.check_sizes("value", batch, heads, key[2], None)
        for name in ("bias", "past_key"):
            if given.has(name):
                given.refuse(name, "must not be given where key has four dimensions")
        return given.shape("value")[3]
    given.check_sizes("key", batch, None, hidden)
    given.check_sizes("value", batch, key[1], None)
    return _head("value", given.shape("value")[2], heads)


def check_projections(node: Node) -> None:
    """The rules of ONNX Runtime's Attention.

    Raises:
        NodeInputError: naming the input that breaks one.
    """
    given, heads = _Given(node, _OF_PROJECTIONS), node.integer("num_heads")
    given.check_sizes("input", None, None, None)
    batch, tokens, wide = given.shape("input")
    given.check_sizes("weights", wide, None)
    columns = given.shape("weights")[1]
    given.check_sizes("bias", columns)
    given.check_types("input", "weights", "bias", "past", "attention_bias")
    given.check_is_float("input")
    given.check_counts()
    hidden = node.list("qkv_hidden_sizes") or [_head("weights", columns, 3)] * 3
    given.check_sizes("past", 2, batch, heads, None, _head("weights", hidden[0], heads))
    given.check_sizes("attention_bias", (1, batch), (1, heads), tokens, None)


def check_onnx(node: Node) -> None:
    """The rules of ONNX's own Attention.

    Raises:
        NodeInputError: naming the input that breaks one.
    """
    given = _Given(node, _OF_ONNX)
    given.check_types("Q", "K", "past_key")
    given.check_types("V", "past_value")
    for name in ("Q", "V"):
        given.check_is_float(name)
    given.check_together("past_key", "past_value")
    given.check_is_filled("Q", "K", "V")
    query, rank = given.shape("Q"), len(given.shape("Q"))
    for name in ("K", "V"):
        if len(given.shape(name)) != rank or rank not in (3, 4):
            given.refuse(name, f"must have the 3 or 4 dimensions of Q; got {len(given.shape(name))} beside {rank}")
    batch, key, value = query[0], given.shape("K"), given.shape("V")
    if rank == 4:
        heads, key_heads = query[1], key[1]
        for name, found in (("q_num_heads", heads), ("kv_num_heads", key_heads)):
            if node.integer(name) not in (0, found):
                raise NodeInputError(f"{name} {node.integer(name)} must be the heads that there are: {found}")
        size, value_size, own = query[3], value[3], key[2]
        given.check_sizes("K", batch, None, None, size)
        given.check_sizes("V", batch, key_heads, own, None)
    else:
        heads, key_heads, own = node.integer("q_num_heads"), node.integer("kv_num_heads"), key[1]
        size, value_size = _head("Q", query[2], heads), _head("V", value[2], key_heads)
        given.check_sizes("K", batch, None, key_heads * size)
        given.check_sizes("V", batch, own, None)
    if heads < 1 or key_heads < 1 or heads % key_heads:
        raise NodeInputError(f"{heads} heads of Q must be a multiple of {key_heads} heads of K")
    given.check_sizes("past_key", batch, key_heads, None, size)
    given.check_sizes("past_value", batch, key_heads, given.rows("past_key"), value_size)
    if given.has("attn_mask"):
        count = min(max(len(given.shape("attn_mask")), 1), 4)
        tokens = query[2] if rank == 4 else query[1]
        given.check_sizes("attn_mask", *((1, batch), (1, heads), (1, tokens), None)[4 - count :])
    if given.has("nonpad_kv_seqlen"):
        given.check_types("nonpad_kv_seqlen", element=TensorProto.INT64)
        given.check_sizes("nonpad_kv_seqlen", batch)
        if given.has("past_key"):
            given.refuse("nonpad_kv_seqlen", "does not go with past_key and past_value")
        node.check_range(6, "nonpad_kv_seqlen", 0, own + 1)
