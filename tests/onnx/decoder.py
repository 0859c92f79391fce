"""Blocks of transformer decoders as models: with ONNX Runtime's operators, and with ONNX's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.onnx.models import model, parsed

HEADS, KEY_HEADS, SIZE, INNER, LONGEST = 4, 2, 16, 96, 32
HIDDEN = HEADS * SIZE

_WHOLE = (TensorProto.FLOAT, ("batch", KEY_HEADS, "whole", SIZE))
_OUTPUTS = {"y": (TensorProto.FLOAT, ("batch", "length", HIDDEN)), "present_key": _WHOLE, "present_value": _WHOLE}
_GATED = (
    "gate = MatMul (normal, w_gate)  up = MatMul (normal, w_up)  share = Sigmoid (gate)"
    " bent = Mul (gate, share)  inner = Mul (bent, up)  down = MatMul (inner, w_down)  y = Add (sum, down)"
)
"""A gated network of two layers: from ``normal`` and ``sum`` to ``y``."""


def _weights(random: np.random.Generator, **shapes: tuple[int, ...]) -> dict[str, npt.NDArray[Any]]:
    """Of matrices: normally distributed; of lines: about 1."""
    return {
        name: (random.normal(0, 1, s) / np.sqrt(s[0]) if len(s) > 1 else random.uniform(0.5, 1.5, s)).astype(np.float32)
        for name, s in shapes.items()
    }


_OF_GATED = {"w_gate": (HIDDEN, INNER), "w_up": (HIDDEN, INNER), "w_down": (INNER, HIDDEN)}


def with_cache() -> onnx.ModelProto:
    """Root mean squares and GroupQueryAttention with rotary embeddings and a cache.

    Its inputs are x, past_key, past_value, ends and total.
    """
    angles = np.outer(np.arange(LONGEST), 100.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    nodes = (
        "first = SimplifiedLayerNormalization <axis = -1, epsilon = 1e-6> (x, scale)"
        " query = MatMul (first, w_query)  key = MatMul (first, w_key)  value = MatMul (first, w_value)"
        " seen, present_key, present_value = com.microsoft.GroupQueryAttention"
        f" <num_heads = {HEADS}, kv_num_heads = {KEY_HEADS}, do_rotary = 1>"
        " (query, key, value, past_key, past_value, ends, total, cos, sin)  mixed = MatMul (seen, w_seen)"
        " normal,,, sum = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-6> (x, mixed, second_scale)"
    )
    keys = KEY_HEADS * SIZE
    shapes = {"scale": (HIDDEN,), "second_scale": (HIDDEN,), "w_query": (HIDDEN, HIDDEN), "w_key": (HIDDEN, keys)}
    shapes |= {"w_value": (HIDDEN, keys), "w_seen": (HIDDEN, HIDDEN), **_OF_GATED}
    constants = _weights(np.random.default_rng(3), **shapes)
    constants |= {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    inputs: dict[str, Any] = {"x": ("batch", "length", HIDDEN)}
    inputs |= dict.fromkeys(("past_key", "past_value"), ("batch", KEY_HEADS, "past", SIZE))
    inputs |= {"ends": (TensorProto.INT32, ("batch",)), "total": (TensorProto.INT32, ())}
    return model(f"{nodes}  {_GATED}", inputs, _OUTPUTS, constants)


def of_onnx() -> onnx.ModelProto:
    """LayerNormalization, RotaryEmbedding and causal Attention of ONNX: inputs x, cos, sin, past_key, past_value."""
    nodes = (
        "first = LayerNormalization <axis = -1> (x, scale, shift)  all = MatMul (first, w_all)"
        " query, key, value = Split <axis = -1> (all, sizes)"
        f" turned_query = RotaryEmbedding <num_heads = {HEADS}> (query, cos, sin)"
        f" turned_key = RotaryEmbedding <num_heads = {KEY_HEADS}> (key, cos, sin)"
        f" seen, present_key, present_value = Attention <q_num_heads = {HEADS}, kv_num_heads = {KEY_HEADS},"
        " is_causal = 1> (turned_query, turned_key, value,, past_key, past_value)  mixed = MatMul (seen, w_seen)"
        " sum = Add (x, mixed)  normal = RMSNormalization <axis = -1> (sum, scale)"
    )
    sizes = [HIDDEN, KEY_HEADS * SIZE, KEY_HEADS * SIZE]
    shapes = {"scale": (HIDDEN,), "shift": (HIDDEN,), "w_all": (HIDDEN, sum(sizes)), "w_seen": (HIDDEN, HIDDEN)}
    constants = _weights(np.random.default_rng(4), **shapes, **_OF_GATED) | {"sizes": np.array(sizes, np.int64)}
    inputs: dict[str, Any] = {"x": ("batch", "length", HIDDEN)}
    inputs |= dict.fromkeys(("cos", "sin"), ("batch", "length", SIZE // 2))
    inputs |= dict.fromkeys(("past_key", "past_value"), ("batch", KEY_HEADS, "past", SIZE))
    return model(f"{nodes}  {_GATED}", inputs, _OUTPUTS, constants, opset=23)


def with_mask() -> onnx.ModelProto:
    """The block of :func:`with_cache` as onnxruntime-genai writes it: lengths are counted from an attention_mask."""
    made = with_cache()
    counted = parsed(
        "lengths = ReduceSum <keepdims = 0> (attention_mask, axis)  last = Sub (lengths, one)"
        " ends = Cast <to = 6> (last)  shape = Shape (attention_mask)  longest = Gather <axis = 0> (shape, second)"
        " total = Cast <to = 6> (longest)"
    )
    nodes = [*counted, *made.graph.node]
    del made.graph.node[:], made.graph.input[-2:]
    made.graph.node.extend(nodes)
    constants = {"axis": np.array([1]), "one": np.array([1]), "second": np.array(1)}
    made.graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in constants.items())
    made.graph.input.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ("batch", "whole")))
    return made


def with_branches(longest: int) -> onnx.ModelProto:
    """The block of :func:`with_mask` with other angles for texts that are longer than so many tokens."""
    model = with_mask()
    graph = model.graph
    tables = {info.name: numpy_helper.to_array(info) for info in graph.initializer if info.name in ("cos", "sin")}
    kept = [info for info in graph.initializer if info.name not in tables]
    branches = [
        helper.make_graph(
            [
                helper.make_node(
                    "Constant", [], [f"{name} {turn}"], value=numpy_helper.from_array(table[::step].copy())
                )
                for name, table in tables.items()
            ],
            f"branch {turn}",
            [],
            [helper.make_tensor_value_info(f"{name} {turn}", TensorProto.FLOAT, None) for name in tables],
        )
        for turn, step in enumerate((-1, 1))
    ]
    limit = numpy_helper.from_array(np.array(longest, np.int64), "limit")
    chosen = [
        helper.make_node("Greater", ["longest", "limit"], ["is_long"]),
        helper.make_node("If", ["is_long"], list(tables), then_branch=branches[0], else_branch=branches[1]),
    ]
    index = 1 + max(number for number, node in enumerate(graph.node) if "longest" in node.output)
    nodes = [*graph.node[:index], *chosen, *graph.node[index:]]
    made = helper.make_graph(nodes, "decoder", list(graph.input), list(graph.output), [*kept, limit])
    return helper.make_model(made, opset_imports=list(model.opset_import), ir_version=model.ir_version)
