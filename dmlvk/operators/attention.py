"""Attention of several heads."""

from __future__ import annotations

import enum
from typing import TypeAlias

from dmlvk.operators.words import *


class MultiheadAttentionMaskType(enum.IntEnum):
    """DML_MULTIHEAD_ATTENTION_MASK_TYPE: what MaskTensor says of the keys that queries may see."""

    NONE = 0
    KEY_SEQUENCE_LENGTH = 1
    KEY_SEQUENCE_END_START = 2
    KEY_QUERY_SEQUENCE_LENGTH_START_END = 3
    BOOLEAN = 4


SOURCES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "query": (("query_tensor", -1), ("stacked_query_key_tensor", 0), ("stacked_query_key_value_tensor", 0)),
    "key": (
        ("key_tensor", -1),
        ("stacked_query_key_tensor", 1),
        ("stacked_key_value_tensor", 0),
        ("stacked_query_key_value_tensor", 1),
    ),
    "value": (("value_tensor", -1), ("stacked_key_value_tensor", 1), ("stacked_query_key_value_tensor", 2)),
}
"""Where queries, keys and values come from: a member, and their place in it if it is stacked (else -1)."""

_STACKED = {"stacked_query_key_tensor": 2, "stacked_key_value_tensor": 2, "stacked_query_key_value_tensor": 3}


_Attention: TypeAlias = "MultiheadAttention | MultiheadAttention1 | Draft"


def source_of(desc: Described, role: str) -> tuple[str, int]:
    """Which member has the queries, keys or values, and their place in it if it is stacked (else -1).

    Raises:
        InvalidArgumentError: when none has them, or several have.
    """
    given = [source for source in SOURCES[role] if getattr(desc, source[0]) is not None]
    if len(given) != 1:
        names = [name for name, _ in SOURCES[role]]
        words = ", ".join(map(member_text, names))
        refuse(desc, names[0], f"or another source of the {role} must be given once, of {words}; got {len(given)}")
    return given[0]


def head_member(desc: Described, role: str) -> str:
    """The member that says how many heads the queries, keys or values have."""
    if desc.operator_name == "MULTIHEAD_ATTENTION":
        return "head_count"
    return "query_head_count" if role == "query" else "key_value_head_count"


def head_counts(desc: Described) -> tuple[int, int]:
    """How many heads the queries have, and the keys and values.

    Raises:
        InvalidArgumentError: when there are none, or the former is no multiple of the latter.
    """
    names = [head_member(desc, role) for role in ("query", "key")]
    queries, keys = (int(getattr(desc, name)) for name in names)
    for name, count in zip(names, (queries, keys), strict=True):
        if count < 1:
            refuse(desc, name, f"must be at least 1; got {count}")
    if queries % keys:
        refuse(desc, names[0], f"must be a multiple of {member_text(names[1])} {keys}; got {queries}")
    return queries, keys


def last_sizes(desc: Described, member: str, count: int) -> tuple[int, ...]:
    """A tensor's last so many sizes; those before them must be 1.

    Raises:
        InvalidArgumentError: when there are fewer, or one before them is not 1.
    """
    sizes = tuple(tensor_of(desc, member).sizes)
    if len(sizes) < count or any(size != 1 for size in sizes[:-count]):
        refuse(desc, f"{member}.sizes", f"must have {count} dimensions, or sizes of 1 before them; got {list(sizes)}")
    return sizes[-count:]


def part_sizes(desc: Described, role: str) -> tuple[int, int, int]:
    """Batch, length of the sequence, and size of a head, of queries, keys or values.

    Raises:
        InvalidArgumentError: when the tensor does not have them.
    """
    name, index = source_of(desc, role)
    counts = head_counts(desc)
    heads, member = counts[role != "query"], member_text(head_member(desc, role))
    if index >= 0:
        if "query" in name and counts[0] != counts[1]:
            refuse(desc, name, f"needs as many heads of queries as of keys; got {counts[0]} and {counts[1]}")
        batch, length, own, parts, size = last_sizes(desc, name, 5)
        if (own, parts) != (heads, _STACKED[name]):
            sizes = list(tensor_of(desc, name).sizes)
            wanted = f"{heads} ({member}) and {_STACKED[name]}"
            refuse(desc, f"{name}.sizes", f"must have {wanted} as third and fourth; got {sizes}")
        return batch, length, size
    batch, length, hidden = last_sizes(desc, name, 3)
    if hidden % heads:
        refuse(desc, f"{name}.sizes", f"must end with a multiple of {member} {heads}; got {hidden}")
    return batch, length, hidden // heads


def _check(desc: Described, member: str, wanted: Sequence[int], why: str = "") -> None:
    """A tensor that may have leading dimensions of size 1 has these sizes behind them."""
    if getattr(desc, member) is not None:
        count = tensor_of(desc, member).dimension_count
        check_sizes(desc, member, (*(1,) * (count - len(wanted)), *wanted), why)


def _mask(desc: _Attention, batch: int, heads: int, queries: int, keys: int) -> None:
    kind, types = desc.mask_type, MultiheadAttentionMaskType
    if (desc.mask_tensor is None) != (kind is types.NONE):
        state = "absent" if desc.mask_tensor is None else "given"
        refuse(desc, "mask_tensor", f"must be given where MaskType is not NONE; it is {state}, with {kind.name}")
    if kind is types.BOOLEAN:
        sizes = last_sizes(desc, "mask_tensor", min(4, tensor_of(desc, "mask_tensor").dimension_count))
        full = (batch, heads, queries, keys)[-len(sizes) :]
        if any(size not in (1, whole) for size, whole in zip(sizes, full, strict=True)):
            refuse(desc, "mask_tensor.sizes", f"must be those of {list(full)} or 1; got {list(sizes)}")
    elif kind is not types.NONE:
        wanted = {
            types.KEY_SEQUENCE_LENGTH: (1, batch),
            types.KEY_SEQUENCE_END_START: (2, batch),
            types.KEY_QUERY_SEQUENCE_LENGTH_START_END: (3 * batch + 2,),
        }[kind]
        _check(desc, "mask_tensor", wanted, f"MaskType {kind.name}")


def past_lengths(desc: Described) -> TensorDesc | None:
    """PastSequenceLengthsTensor, which MULTIHEAD_ATTENTION does not have."""
    given: TensorDesc | None = getattr(desc, "past_sequence_lengths_tensor", None)
    return given


def _attention_sizes(desc: _Attention) -> Mapping[str, Sequence[int]]:
    batch, queries, size = part_sizes(desc, "query")
    key_batch, own, key_size = part_sizes(desc, "key")
    value_batch, value_length, value_size = part_sizes(desc, "value")
    heads, own_heads = head_counts(desc)
    if (key_batch, key_size) != (batch, size):
        name = source_of(desc, "key")[0]
        refuse(
            desc,
            f"{name}.sizes",
            f"must have the queries' batch {batch} and head size {size}; got {key_batch}, {key_size}",
        )
    if (value_batch, value_length) != (batch, own):
        name = source_of(desc, "value")[0]
        got = f"{value_batch}, {value_length}"
        refuse(desc, f"{name}.sizes", f"must have the keys' batch {batch} and length {own}; got {got}")
    if (desc.past_key_tensor is None) != (desc.past_value_tensor is None):
        refuse(desc, "past_key_tensor", "and PastValueTensor must be given together")
    past = 0
    if desc.past_key_tensor is not None:
        past = last_sizes(desc, "past_key_tensor", 4)[2]
        _check(desc, "past_key_tensor", (batch, own_heads, past, size))
        _check(desc, "past_value_tensor", (batch, own_heads, past, value_size))
    if past_lengths(desc) is not None:
        if desc.past_key_tensor is None:
            refuse(desc, "past_sequence_lengths_tensor", "needs PastKeyTensor and PastValueTensor, which are absent")
        _check(desc, "past_sequence_lengths_tensor", (batch,), "a length for each element of the batch")
    keys = past + own
    _check(desc, "bias_tensor", (heads * size + own_heads * (size + value_size),), "of queries, keys and values")
    if desc.relative_position_bias_tensor is not None:
        sizes = last_sizes(desc, "relative_position_bias_tensor", 4)
        _check(desc, "relative_position_bias_tensor", (1 if sizes[0] == 1 else batch, heads, queries, keys))
    _mask(desc, batch, heads, queries, keys)
    found: dict[str, Sequence[int]] = {
        "output_tensor": (batch, queries, heads * value_size),
        "output_present_key_tensor": (batch, own_heads, keys, size),
        "output_present_value_tensor": (batch, own_heads, keys, value_size),
    }
    for name, wanted in list(found.items()):
        tensor = getattr(desc, name)
        if tensor is not None:
            found[name] = (*(1,) * (tensor.dimension_count - len(wanted)), *wanted)
    return found


_DIMENSIONS: Mapping[str, tuple[int, int]] = {
    "stacked_query_key_tensor": (5, 5), "stacked_key_value_tensor": (5, 5), "stacked_query_key_value_tensor": (5, 5),
    "bias_tensor": (1, 5), "mask_tensor": (1, 5), "relative_position_bias_tensor": (4, 5), "past_key_tensor": (4, 5),
    "past_value_tensor": (4, 5), "output_present_key_tensor": (4, 5), "output_present_value_tensor": (4, 5),
}  # fmt: skip

_FLOAT_INPUTS = (
    "query_tensor", "key_tensor", "value_tensor", "stacked_query_key_tensor", "stacked_key_value_tensor",
    "stacked_query_key_value_tensor", "bias_tensor", "relative_position_bias_tensor", "past_key_tensor",
    "past_value_tensor",
)  # fmt: skip
_OUTPUTS = ("output_tensor", "output_present_key_tensor", "output_present_value_tensor")

_FORMULA = "Softmax(Scale * (Q + B) * (K + B)^T + RelativePositionBias + mask) * (V + B), of each head"

_ACCURACY = Accuracy(
    "accurate", float("inf"), "the errors of ELEMENT_WISE_ADD, GEMM, ACTIVATION_SOFTMAX and GEMM in turn"
)

_DECISIONS = (
    "Each step is the one of an operator, and is rounded to the tensors' data type: ELEMENT_WISE_ADD for the "
    "bias, GEMM for scores (with Scale, and with RelativePositionBiasTensor as what is added), "
    "ELEMENT_WISE_ADD for the mask, ACTIVATION_SOFTMAX, GEMM for the results. So a row does not depend on the "
    "batch, or on other rows.",
    "MaskFilterValue is added to the scores of masked keys, also where the page says that they are set to it. "
    "A row whose keys are all masked by a finite number has its usual result, up to rounding; by -infinity, "
    "NaN.",
    "MaskTensor of KEY_QUERY_SEQUENCE_LENGTH_START_END: only the lengths of the keys mask scores; the other "
    "numbers say where sequences lie without padding, and these tensors are padded. A BOOLEAN mask broadcasts "
    "from sizes of 1, and what is not 0 counts as 1.",
    "RelativePositionBiasTensor is {batch or 1, heads, queries, past and own keys}. PastKeyTensor and "
    "PastValueTensor are given together, and do not get the bias; present tensors have it.",
)


class _StackedInputs(OperatorDesc):
    query_tensor: TensorDesc | None = tensor_input("the queries: batch, queries, heads * head size", default=None)
    key_tensor: TensorDesc | None = tensor_input("the keys: batch, keys, heads * head size", default=None)
    value_tensor: TensorDesc | None = tensor_input("the values: batch, keys, heads * value size", default=None)
    stacked_query_key_tensor: TensorDesc | None = tensor_input(
        "queries and keys: batch, length, heads, 2, head size", default=None
    )
    stacked_key_value_tensor: TensorDesc | None = tensor_input(
        "keys and values: batch, keys, heads, 2, head size", default=None
    )
    stacked_query_key_value_tensor: TensorDesc | None = tensor_input(
        "queries, keys and values: batch, length, heads, 3, head size", default=None
    )
    bias_tensor: TensorDesc | None = tensor_input(
        "what is added to queries, keys and values, one behind another: heads * (head size + head size + value size)",
        default=None,
    )
    mask_tensor: TensorDesc | None = tensor_input("which keys queries see, as MaskType says", default=None)
    relative_position_bias_tensor: TensorDesc | None = tensor_input(
        "what is added to scores: batch or 1, heads, queries, past and own keys", default=None
    )
    past_key_tensor: TensorDesc | None = tensor_input(
        "keys before KeyTensor's: batch, heads, past, head size", default=None
    )
    past_value_tensor: TensorDesc | None = tensor_input(
        "values before ValueTensor's: batch, heads, past, value size", default=None
    )


class MultiheadAttention(_StackedInputs):
    """Attention of several heads (DML_MULTIHEAD_ATTENTION_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the results: batch, queries, heads * value size")
    output_present_key_tensor: TensorDesc | None = tensor_output(
        "past and own keys: batch, heads, past and own keys, head size", default=None
    )
    output_present_value_tensor: TensorDesc | None = tensor_output(
        "past and own values: batch, heads, past and own keys, value size", default=None
    )
    scale: float = float_attribute("what scores are multiplied by; usually 1 / sqrt(head size)")
    mask_filter_value: float = float_attribute("what is added to scores of masked keys; usually -10000")
    head_count: int = unsigned_attribute("how many heads there are")
    mask_type: MultiheadAttentionMaskType = enum_attribute("what MaskTensor says", MultiheadAttentionMaskType)
    declaration: ClassVar = Declaration(
        "composed",
        _FORMULA,
        shapes=_attention_sizes,
        same_data_type=((*_FLOAT_INPUTS, *_OUTPUTS),),
        decisions=_DECISIONS,
        accuracy=_ACCURACY,
        support=(Support("6_1", (3, 5), FLOATS, mask_tensor=(DataType.INT32,), dimensions_of=_DIMENSIONS),),
    )


class MultiheadAttention1(_StackedInputs):
    """Attention of several heads that share keys and values in groups (DML_MULTIHEAD_ATTENTION1_OPERATOR_DESC)."""

    query_tensor: TensorDesc | None = tensor_input("the queries: batch, queries, query heads * head size", default=None)
    key_tensor: TensorDesc | None = tensor_input("the keys: batch, keys, key/value heads * head size", default=None)
    value_tensor: TensorDesc | None = tensor_input(
        "the values: batch, keys, key/value heads * value size", default=None
    )
    stacked_key_value_tensor: TensorDesc | None = tensor_input(
        "keys and values: batch, keys, key/value heads, 2, head size", default=None
    )
    bias_tensor: TensorDesc | None = tensor_input(
        "what is added to queries, keys and values, one behind another: query heads * head size, then key/value heads "
        "* (head size + value size)",
        default=None,
    )
    relative_position_bias_tensor: TensorDesc | None = tensor_input(
        "what is added to scores: batch or 1, query heads, queries, past and own keys", default=None
    )
    past_key_tensor: TensorDesc | None = tensor_input(
        "keys before KeyTensor's: batch, key/value heads, past, head size", default=None
    )
    past_value_tensor: TensorDesc | None = tensor_input(
        "values before ValueTensor's: batch, key/value heads, past, value size", default=None
    )
    past_sequence_lengths_tensor: TensorDesc | None = tensor_input(
        "how many of the past keys count, from the first one on: batch", default=None
    )
    output_tensor: TensorDesc = tensor_output("the results: batch, queries, query heads * value size")
    output_present_key_tensor: TensorDesc | None = tensor_output(
        "past and own keys: batch, key/value heads, past and own keys, head size", default=None
    )
    output_present_value_tensor: TensorDesc | None = tensor_output(
        "past and own values: batch, key/value heads, past and own keys, value size", default=None
    )
    scale: float = float_attribute("what scores are multiplied by; usually 1 / sqrt(head size)")
    mask_filter_value: float = float_attribute("what is added to scores of masked keys; usually -10000")
    query_head_count: int = unsigned_attribute("how many heads queries have: a multiple of KeyValueHeadCount")
    key_value_head_count: int = unsigned_attribute("how many heads keys and values have")
    mask_type: MultiheadAttentionMaskType = enum_attribute("what MaskTensor says", MultiheadAttentionMaskType)
    declaration: ClassVar = MultiheadAttention.declaration.version(
        same_data_type=((*_FLOAT_INPUTS, "past_sequence_lengths_tensor", *_OUTPUTS),),
        decisions=(
            *_DECISIONS,
            "QueryHeadCount is a multiple of KeyValueHeadCount: head h of the queries sees the keys and values of head "
            "h // (QueryHeadCount / KeyValueHeadCount). Stacked tensors with queries need equal counts. With equal "
            "counts and without PastSequenceLengthsTensor the results have the bits of MULTIHEAD_ATTENTION.",
            "PastSequenceLengthsTensor is {batch}, comes with PastKeyTensor and PastValueTensor, and has the other "
            "tensors' data type, as the page says. Past keys at or behind their sequence's length are masked, once if "
            "MaskTensor masks them, too; present tensors hold them all the same. A length is compared as a "
            "number: a negative one hides all past keys, one beyond the past none, NaN none.",
        ),
        support=(
            Support(
                "6_3",
                (3, 5),
                FLOATS,
                mask_tensor=(DataType.INT32,),
                dimensions_of={**_DIMENSIONS, "past_sequence_lengths_tensor": (1, 5)},
            ),
        ),
    )
