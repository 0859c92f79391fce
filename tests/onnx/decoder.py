"""Blocks of transformer decoders as models: with ONNX Runtime's operators, and with ONNX's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS, KEY_HEADS, SIZE, INNER, LONGEST = 4, 2, 16, 96, 32
HIDDEN = HEADS * SIZE

_FLOAT, _INT32 = TensorProto.FLOAT, TensorProto.INT32
_CACHE = ("batch", KEY_HEADS, "past", SIZE)


def _weights(random: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    return np.asarray(random.normal(0, 1, shape) / np.sqrt(shape[0]), np.float32)


def _model(
    nodes: list[onnx.NodeProto],
    constants: dict[str, npt.NDArray[Any]],
    inputs: dict[str, tuple[int, Any]],
    outputs: dict[str, Any],
    opset: int,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "decoder",
        [helper.make_tensor_value_info(name, element, shape) for name, (element, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, _FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _gated(random: np.random.Generator) -> tuple[list[onnx.NodeProto], dict[str, npt.NDArray[Any]]]:
    """A gated network of two layers: from ``normal`` and ``sum`` to ``y``."""
    nodes = [
        helper.make_node("MatMul", ["normal", "w_gate"], ["gate"]),
        helper.make_node("MatMul", ["normal", "w_up"], ["up"]),
        helper.make_node("Sigmoid", ["gate"], ["share"]),
        helper.make_node("Mul", ["gate", "share"], ["bent"]),
        helper.make_node("Mul", ["bent", "up"], ["inner"]),
        helper.make_node("MatMul", ["inner", "w_down"], ["down"]),
        helper.make_node("Add", ["sum", "down"], ["y"]),
    ]
    constants = {
        "w_gate": _weights(random, HIDDEN, INNER),
        "w_up": _weights(random, HIDDEN, INNER),
        "w_down": _weights(random, INNER, HIDDEN),
    }
    return nodes, constants


def with_cache() -> onnx.ModelProto:
    """Root mean squares and GroupQueryAttention with rotary embeddings and a cache.

    Its inputs are x, past_key, past_value, ends and total.
    """
    random = np.random.default_rng(3)
    angles = np.outer(np.arange(LONGEST), 100.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    nodes = [
        helper.make_node("SimplifiedLayerNormalization", ["x", "scale"], ["first"], axis=-1, epsilon=1e-6),
        *(helper.make_node("MatMul", ["first", f"w_{name}"], [name]) for name in ("query", "key", "value")),
        helper.make_node(
            "GroupQueryAttention",
            ["query", "key", "value", "past_key", "past_value", "ends", "total", "cos", "sin"],
            ["seen", "present_key", "present_value"],
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=KEY_HEADS,
            do_rotary=1,
        ),
        helper.make_node("MatMul", ["seen", "w_seen"], ["mixed"]),
        helper.make_node(
            "SkipSimplifiedLayerNormalization",
            ["x", "mixed", "second_scale"],
            ["normal", "", "", "sum"],
            domain="com.microsoft",
            epsilon=1e-6,
        ),
    ]
    constants = {
        "scale": random.uniform(0.5, 1.5, HIDDEN).astype(np.float32),
        "second_scale": random.uniform(0.5, 1.5, HIDDEN).astype(np.float32),
        "w_query": _weights(random, HIDDEN, HIDDEN),
        "w_key": _weights(random, HIDDEN, KEY_HEADS * SIZE),
        "w_value": _weights(random, HIDDEN, KEY_HEADS * SIZE),
        "w_seen": _weights(random, HIDDEN, HIDDEN),
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }
    more, weights = _gated(random)
    inputs: dict[str, tuple[int, Any]] = {
        "x": (_FLOAT, ("batch", "length", HIDDEN)),
        "past_key": (_FLOAT, _CACHE),
        "past_value": (_FLOAT, _CACHE),
        "ends": (_INT32, ("batch",)),
        "total": (_INT32, ()),
    }
    whole = ("batch", KEY_HEADS, "whole", SIZE)
    outputs = {"y": ("batch", "length", HIDDEN), "present_key": whole, "present_value": whole}
    return _model([*nodes, *more], constants | weights, inputs, outputs, 17)


def of_onnx() -> onnx.ModelProto:
    """LayerNormalization, RotaryEmbedding and causal Attention of ONNX: inputs x, cos, sin, past_key, past_value."""
    random = np.random.default_rng(4)
    heads = {"query": HEADS, "key": KEY_HEADS}
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["first"], axis=-1),
        helper.make_node("MatMul", ["first", "w_all"], ["all"]),
        helper.make_node("Split", ["all", "sizes"], ["query", "key", "value"], axis=-1),
        *(
            helper.make_node("RotaryEmbedding", [name, "cos", "sin"], [f"turned_{name}"], num_heads=count)
            for name, count in heads.items()
        ),
        helper.make_node(
            "Attention",
            ["turned_query", "turned_key", "value", "", "past_key", "past_value"],
            ["seen", "present_key", "present_value"],
            q_num_heads=HEADS,
            kv_num_heads=KEY_HEADS,
            is_causal=1,
        ),
        helper.make_node("MatMul", ["seen", "w_seen"], ["mixed"]),
        helper.make_node("Add", ["x", "mixed"], ["sum"]),
        helper.make_node("RMSNormalization", ["sum", "scale"], ["normal"], axis=-1),
    ]
    sizes = [HIDDEN, KEY_HEADS * SIZE, KEY_HEADS * SIZE]
    constants: dict[str, npt.NDArray[Any]] = {
        "scale": random.uniform(0.5, 1.5, HIDDEN).astype(np.float32),
        "shift": random.normal(0, 1, HIDDEN).astype(np.float32),
        "w_all": _weights(random, HIDDEN, sum(sizes)),
        "w_seen": _weights(random, HIDDEN, HIDDEN),
        "sizes": np.array(sizes, np.int64),
    }
    more, weights = _gated(random)
    angles = (_FLOAT, ("batch", "length", SIZE // 2))
    inputs: dict[str, tuple[int, Any]] = {
        "x": (_FLOAT, ("batch", "length", HIDDEN)),
        "cos": angles,
        "sin": angles,
        "past_key": (_FLOAT, _CACHE),
        "past_value": (_FLOAT, _CACHE),
    }
    whole = ("batch", KEY_HEADS, "whole", SIZE)
    outputs = {"y": ("batch", "length", HIDDEN), "present_key": whole, "present_value": whole}
    return _model([*nodes, *more], constants | weights, inputs, outputs, 23)


def with_mask() -> onnx.ModelProto:
    """The block of :func:`with_cache` as onnxruntime-genai writes it: lengths are counted from an attention_mask."""
    model = with_cache()
    nodes = [
        helper.make_node("ReduceSum", ["attention_mask", "axis"], ["lengths"], keepdims=0),
        helper.make_node("Sub", ["lengths", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["ends"], to=_INT32),
        helper.make_node("Shape", ["attention_mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "second"], ["longest"], axis=0),
        helper.make_node("Cast", ["longest"], ["total"], to=_INT32),
    ]
    graph = model.graph
    constants = {"axis": np.array([1]), "one": np.array([1]), "second": np.array(1)}
    graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in constants.items())
    given = [info for info in graph.input if info.name not in ("ends", "total")]
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ("batch", "whole"))
    made = helper.make_graph(
        [*nodes, *graph.node], "decoder", [*given, mask], list(graph.output), list(graph.initializer)
    )
    return helper.make_model(made, opset_imports=list(model.opset_import), ir_version=model.ir_version)


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
            [helper.make_tensor_value_info(f"{name} {turn}", _FLOAT, None) for name in tables],
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
