"""Layers whose past is a state of fixed size: linear attention with and without the delta rule, short convolutions."""

from __future__ import annotations

import math

from onnx import TensorProto

from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.operators.convolution import channel_bias, convolved_channels
from dmlvk.onnx.nodes.operators.movement import padded, sliced
from dmlvk.onnx.nodes.operators.normalization import normalized_rows
from dmlvk.onnx.nodes.translation import FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import NodeInputError, NotOnDevice, Tensor

_QUERY, _KEY, _VALUE, _PAST, _DECAY, _RATE = range(6)
_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""Whether states decay, and whether what is written is a difference."""


def _check_window(node: Node) -> None:
    if node.integer("state_window") or node.integer("state_update_capacity"):
        raise NotOnDevice("states of several tokens at once are not there yet")


@translates("LinearAttention", by=["DMLVK_LINEAR_ATTENTION"], since=27)
@translates("LinearAttention", by=["DMLVK_LINEAR_ATTENTION"], domain=MICROSOFT, note="without state_window")
def linear_attention(node: Node) -> None:
    """Computed in FLOAT32; other types are rounded at the end, states behind the last token."""
    node.check_element(_QUERY, *FLOATS)
    _check_window(node)
    rule = node.text("update_rule", "gated_delta")
    if rule not in _RULES:
        raise NodeInputError(f"update_rule {rule!r} is none of {sorted(_RULES)}")
    used = dict(zip((_DECAY, _RATE), _RULES[rule], strict=True))
    if any(is_used and not node.has(index) for index, is_used in used.items()):
        raise NodeInputError(f"update_rule {rule!r} lacks decay or beta")
    parts = [node.cast(node.tensor(index), TensorProto.FLOAT) for index in (_QUERY, _KEY, _VALUE)]
    heads, query_heads = node.integer("kv_num_heads"), node.integer("q_num_heads")
    if any(part.rank != 3 for part in parts) or min(heads, query_heads) < 1 or parts[0].shape[2] % query_heads:
        raise NodeInputError(f"{query_heads} and {heads} heads in {[part.shape for part in parts]}")
    batch, tokens, width = parts[0].shape
    size, value_size = width // query_heads, parts[2].shape[2] // heads
    state = (batch, heads, size, value_size)
    past = node.tensor(_PAST) if node.has(_PAST) else None
    decay, rate = (_packed(node, index) if is_used else None for index, is_used in used.items())
    made, present = node.apply_all(
        "DMLVK_LINEAR_ATTENTION",
        query_tensor=parts[0],
        key_tensor=parts[1],
        value_tensor=parts[2],
        past_state_tensor=_packed(node, _PAST),
        decay_tensor=None if decay is None else node.apply("ELEMENT_WISE_EXP", input_tensor=decay),
        rate_tensor=rate,
        output_tensor=New(TensorProto.FLOAT, (batch, tokens, max(heads, query_heads) * value_size)),
        present_state_tensor=New(TensorProto.FLOAT, state),
        query_head_count=query_heads,
        key_head_count=parts[1].shape[2] // size,
        value_head_count=heads,
        scale=node.real("scale") or 1 / math.sqrt(size),
    )
    element = node.element(_QUERY)
    node.set(node.cast(made, element))
    if node.wants(1):
        node.set(node.cast(present, element if past is None else past.element), 1)


def _packed(node: Node, index: int) -> Tensor | None:
    """An optional input in FLOAT32, as it lies without gaps."""
    return node.packed(node.cast(node.tensor(index), TensorProto.FLOAT)) if node.has(index) else None


@translates(
    "LinearAttentionGate", by=["ACTIVATION_SOFTPLUS", "ELEMENT_WISE_MULTIPLY", "ACTIVATION_SIGMOID"], domain=MICROSOFT
)
def linear_attention_gate(node: Node) -> None:
    """``decay_scale * softplus(a + dt_bias)``, and ``sigmoid(b)``."""
    node.check_element(0, *FLOATS)
    element = node.element(0)
    ramp = node.cast(node.tensor(0), TensorProto.FLOAT) + node.tensor(1)
    ramp = node.apply("ACTIVATION_SOFTPLUS", input_tensor=ramp, steepness=1.0)
    node.set(node.cast(ramp * node.tensor(2), element))
    if node.wants(1):
        rate = node.cast(node.tensor(3), TensorProto.FLOAT)
        node.set(node.cast(node.apply("ACTIVATION_SIGMOID", input_tensor=rate), element), 1)


@translates("GatedRMSNorm", by=["ACTIVATION_SWISH", "ELEMENT_WISE_MULTIPLY"], domain=MICROSOFT)
def gated_normalization(node: Node) -> None:
    """Heads divided by the root of their mean square, times a scale, and times a function of what gates them."""
    node.check_element(0, *FLOATS)
    if not node.shape(1):
        raise NotOnDevice("a scale without dimensions")
    kind, element, shape, length = node.text("activation", "silu"), node.element(0), node.shape(0), node.shape(1)[-1]
    if kind not in ("silu", "swish", "sigmoid") or node.shape(2) != shape or shape[-1] % length:
        raise NotOnDevice(f"activation {kind!r}, {list(shape)} in rows of {length} by {list(node.shape(2))}")
    rows, gate = (node.cast(node.tensor(index), TensorProto.FLOAT) for index in (0, 2))
    rows = node.packed(rows).viewed((*shape[:-1], shape[-1] // length, length))
    scale = node.cast(node.tensor(1), TensorProto.FLOAT)
    made = normalized_rows(node, rows, scale, node.real("epsilon", 1e-5)).viewed(shape)
    if kind == "sigmoid":
        gate = node.apply("ACTIVATION_SIGMOID", input_tensor=gate)
    else:
        gate = node.apply("ACTIVATION_SWISH", input_tensor=gate, sigmoid_input_scale=1.0)
    node.set(node.cast(made * gate, element))


@translates("CausalConvWithState", by=["CONVOLUTION", "JOIN", "SLICE1"], since=27)
@translates(
    "CausalConvWithState",
    by=["CONVOLUTION", "JOIN", "SLICE1"],
    domain=MICROSOFT,
    note="of one axis, without dilation and state_window",
)
def causal_convolution(node: Node) -> None:
    """Each channel's own taps over a token and those before it, which the state has of the past."""
    node.check_element(0, *FLOATS)
    _check_window(node)
    kind, is_last = node.text("activation", "none"), bool(node.integer("channels_last"))
    if node.integer("ndim", 1) != 1 or node.integer("dilation", 1) != 1 or node.integer("input_channels"):
        raise NotOnDevice("ndim and dilation must be 1, and channels those of the input")
    source, weights = node.tensor(0), node.tensor(1)
    if source.rank != 3 or weights.rank != 3 or kind not in ("none", "silu", "swish"):
        raise NotOnDevice(f"input {list(source.shape)}, weight {list(weights.shape)}, activation {kind!r}")
    new, *past = (_channels_first(node.tensor(index), is_last=is_last) for index in (0, 3) if node.has(index))
    batch, channels, tokens = new.shape
    before = weights.shape[2] - 1
    if weights.shape[:2] != (channels, 1) or any(each.shape != (batch, channels, before) for each in past):
        raise NodeInputError(f"weight {list(weights.shape)} and past_state do not fit {channels} channels")
    lines = new
    if before:
        joined = node.apply("JOIN", input_tensors=[*past, new], axis=2) if past else None
        lines = padded(node, new, [0, 0, before], [0, 0, 0]) if joined is None else joined
    made = convolved_channels(node, lines, weights, channel_bias(node, 2, channels))
    if kind != "none":
        made = node.apply("ACTIVATION_SWISH", input_tensor=made, sigmoid_input_scale=1.0)
    node.set(_channels_first(made, is_last=is_last))
    if node.wants(1):
        if not before:
            raise NotOnDevice("a state of no places")
        present = sliced(node, lines, [0, 0, tokens], [batch, channels, before], [1, 1, 1])
        node.set(_channels_first(present, is_last=is_last), 1)


def _channels_first(tensor: Tensor, *, is_last: bool) -> Tensor:
    """With channels where they were not: before or behind places."""
    return tensor.transposed([0, 2, 1]) if is_last else tensor
