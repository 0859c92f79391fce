"""Attention whose past is one matrix for each head, which each token changes: dmlvk's own, DirectML has none.

I. Schlag, K. Irie and J. Schmidhuber, "Linear transformers are secretly fast weight programmers", 2021; with gates:
S. Yang, J. Kautz and A. Hatamizadeh, "Gated delta networks", 2024.
"""

from __future__ import annotations

from dmlvk.operators.words import *

_RANK = 3


def _sizes(desc: LinearAttention | Draft) -> Mapping[str, Sequence[int]]:
    """Checks all sizes against heads.

    Raises:
        InvalidArgumentError: they do not fit.
    """
    query_heads, key_heads, heads = desc.query_head_count, desc.key_head_count, desc.value_head_count
    counts = (query_heads, key_heads, heads)
    fits = min(counts) > 0 and heads % key_heads == 0 and (heads % query_heads == 0 or query_heads % heads == 0)
    if not fits:
        refuse(desc, "value_head_count", f"must be a multiple of heads of keys, and fit those of queries; got {counts}")
    for name in ("query_tensor", "key_tensor", "value_tensor", "decay_tensor", "rate_tensor"):
        tensor = getattr(desc, name)
        if tensor is not None and len(tensor.sizes) != _RANK:
            refuse(desc, f"{name}.sizes", f"must be {_RANK}: batch, tokens, elements; got {list(tensor.sizes)}")
    for name in ("past_state_tensor", "decay_tensor", "rate_tensor", "output_tensor", "present_state_tensor"):
        tensor = getattr(desc, name)
        if isinstance(tensor, TensorDesc) and not tensor.is_packed:
            refuse(desc, f"{name}.strides", f"must be those of packed elements; got {list(tensor.element_strides)}")
    batch, tokens, width = desc.key_tensor.sizes
    values = desc.value_tensor.sizes[2]
    if width % key_heads or values % heads:
        refuse(desc, "key_tensor.sizes", f"must end with whole heads, and ValueTensor's; got {width} and {values}")
    size, value_size = width // key_heads, values // heads
    check_sizes(desc, "query_tensor", (batch, tokens, query_heads * size))
    check_sizes(desc, "value_tensor", (batch, tokens, values))
    state = (batch, heads, size, value_size)
    if desc.past_state_tensor is not None:
        check_sizes(desc, "past_state_tensor", state)
    for name, tensor, sizes in (
        ("decay_tensor", desc.decay_tensor, (heads, heads * size)),
        ("rate_tensor", desc.rate_tensor, (1, heads)),
    ):
        if tensor is not None and tensor.sizes[2] not in sizes:
            refuse(desc, f"{name}.sizes", f"must end with one of {sizes}; got {tensor.sizes[2]}")
        if tensor is not None:
            check_sizes(desc, name, (batch, tokens, tensor.sizes[2]))
    outputs = (batch, tokens, max(query_heads, heads) * value_size)
    return {"output_tensor": outputs, "present_state_tensor": state}


class LinearAttention(OperatorDesc, is_listed=False):
    """Attention to a state, S, of each head of values, that tokens change one after the other."""

    query_tensor: TensorDesc = tensor_input("batch, tokens, heads of queries * size")
    key_tensor: TensorDesc = tensor_input("batch, tokens, heads of keys * size")
    value_tensor: TensorDesc = tensor_input("batch, tokens, heads of values * size of values")
    past_state_tensor: TensorDesc | None = tensor_input(
        "batch, heads of values, size, size of values; without it zeros", default=None
    )
    decay_tensor: TensorDesc | None = tensor_input(
        "batch, tokens, heads of values, or these * size: what rows of the state are multiplied by", default=None
    )
    rate_tensor: TensorDesc | None = tensor_input(
        "batch, tokens, heads of values or 1: how much of a value's difference is written; without it the value is",
        default=None,
    )
    output_tensor: TensorDesc = tensor_output("batch, tokens, the larger number of heads * size of values")
    present_state_tensor: TensorDesc = tensor_output("the state behind the last token")
    query_head_count: int = unsigned_attribute("heads of queries")
    key_head_count: int = unsigned_attribute("heads of keys, each of which serves as many of values")
    value_head_count: int = unsigned_attribute("heads of values: states")
    scale: float = float_attribute("what outputs are multiplied by")
    declaration: ClassVar = Declaration(
        "recurrent",
        "S = Decay * S; S = S + Key ⊗ (Rate * (Value - Keyᵀ S)), or S + Key ⊗ Value without Rate; "
        "Output = Scale * (Queryᵀ S)",
        name="DMLVK_LINEAR_ATTENTION",
        shapes=_sizes,
        decisions=(
            "Each product, sum and difference is rounded to FLOAT32; denormals count as zeros of their sign.",
            "A sum over a head's elements is added up in eight chains: chain c has the elements c, c + 8, and so on, "
            "in rising order from +0. It is ((c0 + c1) + (c2 + c3)) + ((c4 + c5) + (c6 + c7)).",
            "Tokens are taken one by one: a text has the same bits in one piece and in several.",
        ),
        accuracy=Accuracy(
            "accurate", float("inf"), "of one token's step that of the roundings above; a step begins with the last"
        ),
        support=(
            Support(
                "1_0",
                (3, 4),
                (DataType.FLOAT32,),
            ),
        ),
    )
