"""GroupQueryAttention with caches of a window, and with normalized queries and keys, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import dmlvk as dml
import dmlvk.onnx as ort

_HEADS, _KEY_HEADS, _SIZE, _PLACES = 4, 2, 16, 64
_WIDTHS = (_HEADS * _SIZE, _KEY_HEADS * _SIZE, _KEY_HEADS * _SIZE)

Array = np.ndarray[Any, Any]


def _angles(rng: np.random.Generator) -> dict[str, Array]:
    angles = rng.standard_normal((_PLACES, _SIZE // 2))
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def _model(nodes: list[onnx.NodeProto], constants: dict[str, Array]) -> bytes:
    """A model of a node whose sizes are open."""
    rows = ["batch", "tokens"]
    inputs: dict[str, tuple[int, list[str | int | None]]]
    inputs = {name: (TensorProto.FLOAT, [*rows, width]) for name, width in zip("qkv", _WIDTHS, strict=True)}
    cache: list[str | int | None] = ["batch", _KEY_HEADS, "rows", _SIZE]
    inputs |= dict.fromkeys(("past_key", "past_value"), (TensorProto.FLOAT, cache))
    inputs |= {"ends": (TensorProto.INT32, ["batch"]), "total": (TensorProto.INT32, [1])}
    graph = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "key", "value")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made: bytes = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    return made


def _attention(inputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(
        "GroupQueryAttention",
        [*inputs, "past_key", "past_value", "ends", "total", "cos", "sin"],
        ["y", "key", "value"],
        domain="com.microsoft",
        num_heads=_HEADS,
        kv_num_heads=_KEY_HEADS,
        do_rotary=1,
        **attributes,
    )


def _feed(rng: np.random.Generator, batch: int, tokens: int, rows: int, ends: list[int]) -> dict[str, Array]:
    sizes: dict[str, tuple[int, ...]]
    sizes = {name: (batch, tokens, width) for name, width in zip("qkv", _WIDTHS, strict=True)}
    sizes |= dict.fromkeys(("past_key", "past_value"), (batch, _KEY_HEADS, rows, _SIZE))
    feed: dict[str, Array] = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in sizes.items()}
    return feed | {"ends": np.array(ends, np.int32), "total": np.array([max(ends) + 1], np.int32)}


def _resident(total: int, capacity: int, window: int) -> int:
    """How many keys stay, by taking tokens one by one: where one is too many, all but the window go."""
    rows = 0
    for _ in range(total):
        rows = rows + 1 if rows < capacity else window
    return rows


@pytest.mark.parametrize(("window", "capacity"), [(4, 4), (4, 7), (1, 3), (6, 6)])
def test_a_window_s_cache_holds_what_onnx_runtime_s_does(any_device: dml.Device, window: int, capacity: int) -> None:
    rng = np.random.default_rng(window * 10 + capacity)
    node = _attention(["q", "k", "v"], local_window_size=window, sliding_window_cache=1)
    model = _model([node], _angles(rng))
    ours = ort.InferenceSession(model, device=any_device)
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    total = 0
    caches: dict[str, Array] = {}
    for tokens in (5, 1, 1, 1, 3, 1, 9):
        total += tokens
        feed = _feed(rng, 1, tokens, capacity, [total - 1]) | caches
        found, expected = ours.run(None, feed), theirs.run(None, feed)
        rows = _resident(total, capacity, window)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
        for a, b in zip(found[1:], expected[1:], strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a[:, :, :rows], b[:, :, :rows], rtol=1e-4, atol=1e-5)
        caches = dict(zip(("past_key", "past_value"), expected[1:], strict=True))
    assert {item.place for item in ours.partition} == {"device"}


def test_sequences_of_several_lengths_have_windows_of_their_own(any_device: dml.Device) -> None:
    rng = np.random.default_rng(0)
    node = _attention(["q", "k", "v"], local_window_size=4, sliding_window_cache=1)
    model = _model([node], _angles(rng))
    feed = _feed(rng, 2, 1, 5, [8, 2])
    found = ort.InferenceSession(model, device=any_device).run(None, feed)
    expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
    for number, rows in enumerate((_resident(9, 5, 4), 3)):
        for a, b in zip(found[1:], expected[1:], strict=True):
            np.testing.assert_allclose(a[number, :, :rows], b[number, :, :rows], rtol=1e-4, atol=1e-5)


def test_queries_and_keys_are_normalized_before_they_are_turned(any_device: dml.Device) -> None:
    rng = np.random.default_rng(0)
    scales = {name: rng.uniform(0.5, 2, _SIZE).astype(np.float32) for name in ("q scale", "k scale")}
    constants = _angles(rng) | scales
    joined = _attention(["q", "k", "v"], q_norm_epsilon=0.5, qk_norm_epsilon=1e-3)
    joined.input.extend(["", "", "", "", "", "q scale", "k scale"])
    parts = []
    for name, epsilon in (("q", 0.5), ("k", 1e-3)):
        constants |= {f"{name} heads": np.array([0, 0, -1, _SIZE]), f"{name} line": np.array([0, 0, -1])}
        parts += [
            helper.make_node("Reshape", [name, f"{name} heads"], [f"{name}1"]),
            helper.make_node(
                "SimplifiedLayerNormalization", [f"{name}1", f"{name} scale"], [f"{name}2"], epsilon=epsilon
            ),
            helper.make_node("Reshape", [f"{name}2", f"{name} line"], [f"{name}3"]),
        ]
    feed = _feed(rng, 1, 3, 5, [7])
    found = ort.InferenceSession(_model([joined], constants), device=any_device).run(None, feed)
    model = _model([*parts, _attention(["q3", "k3", "v"])], constants)
    expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
