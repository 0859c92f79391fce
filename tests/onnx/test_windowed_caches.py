"""GroupQueryAttention with caches of a window, with tokens that fill up, and normalized, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.plan.execution import Segment
from tests.onnx.counted_calls import calls_of
from tests.onnx.models import on_host

_HEADS, _KEY_HEADS, _SIZE, _POSITIONS = 4, 2, 16, 700
_WIDTHS = (_HEADS * _SIZE, _KEY_HEADS * _SIZE, _KEY_HEADS * _SIZE)

_CACHES = ("past_key", "past_value")

Array = np.ndarray[Any, Any]


def _angles(rng: np.random.Generator) -> dict[str, Array]:
    angles = rng.standard_normal((_POSITIONS, _SIZE // 2))
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def _model(nodes: list[onnx.NodeProto], constants: dict[str, Array]) -> bytes:
    """A model of a node whose sizes are open."""
    rows = ["batch", "tokens"]
    inputs: dict[str, tuple[int, list[str | int | None]]]
    inputs = {name: (TensorProto.FLOAT, [*rows, width]) for name, width in zip("qkv", _WIDTHS, strict=True)}
    cache: list[str | int | None] = ["batch", _KEY_HEADS, "rows", _SIZE]
    inputs |= dict.fromkeys(_CACHES, (TensorProto.FLOAT, cache))
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
    sizes |= dict.fromkeys(_CACHES, (batch, _KEY_HEADS, rows, _SIZE))
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
        caches = dict(zip(_CACHES, expected[1:], strict=True))
    assert not on_host(ours)


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


_MORE = ("", "bias", "", "k scale", "v scale", "", "", "counts")
"""Names of inputs behind the angles."""

_KINDS: dict[str, tuple[tuple[str, ...], int, int]] = {
    "int8": (("k scale", "v scale"), 4, 6),
    "a bias": (("bias",), 4, 6),
    "tokens that fill up": (("counts",), 0, 40),
    "tokens that fill up, in a window": (("counts",), 4, 6),
    "tokens that fill up, a bias": (("counts", "bias"), 0, 40),
    "tokens that fill up, int8 in a window": (("counts", "k scale", "v scale"), 4, 6),
}


@pytest.mark.parametrize("kind", list(_KINDS))
def test_what_windows_and_tokens_that_fill_up_go_with_is_as_onnx_runtime_has_it(
    any_device: dml.Device, kind: str
) -> None:
    given, window, capacity = _KINDS[kind]
    rng, is_quantized, has_counts = np.random.default_rng(len(kind)), "k scale" in given, "counts" in given
    node = _attention(["q", "k", "v"])
    node.input.extend(name if name in given else "" for name in _MORE)
    attributes: dict[str, Any] = {"local_window_size": window, "sliding_window_cache": 1} if window else {}
    if is_quantized:
        attributes |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    scales = {name: np.array([0.03], np.float32) for name in given if "scale" in name}
    model = onnx.load_from_string(_model([node], _angles(rng) | scales))
    for info in (*model.graph.input, *model.graph.output) if is_quantized else ():
        if info.name in (*_CACHES, "key", "value"):
            info.type.tensor_type.elem_type = TensorProto.INT8
    infos: dict[str, tuple[int, list[str | int | None]]]
    infos = {"bias": (TensorProto.FLOAT, [1, 1, "tokens", "all"]), "counts": (TensorProto.INT32, ["batch"])}
    model.graph.input.extend(helper.make_tensor_value_info(n, *info) for n, info in infos.items() if n in given)
    ours = ort.InferenceSession(model, device=any_device, strict=True)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    totals = np.zeros(2 if has_counts else 1, np.int32)
    parts = [[5, 3], [1, 1], [2, 4], [0, 1], [1, 1]] if has_counts else [[5], [1], [1], [1], [1], [9]]
    caches: dict[str, Array] = {}
    for part in parts:
        totals += np.array(part, np.int32)
        feed = _feed(rng, len(part), max(part), capacity, [int(total) - 1 for total in totals])
        if has_counts:
            feed["total"] = np.maximum(feed["total"], capacity)
        bias = rng.standard_normal((1, 1, max(part), int(feed["total"][0]))).astype(np.float32)
        more: dict[str, Array] = {"counts": np.array(part, np.int32), "bias": bias}
        feed |= {name: array for name, array in more.items() if name in given}
        if is_quantized:
            feed |= {n: np.zeros(feed[n].shape, np.int8) for n in _CACHES}
        feed |= caches
        found, expected = ours.run(None, feed), theirs.run(None, feed)
        caches = dict(zip(_CACHES, found[1:], strict=True))
        for number, own in enumerate(part):
            np.testing.assert_allclose(found[0][number, :own], expected[0][number, :own], rtol=1e-4, atol=1e-5)
            rows = _resident(int(totals[number]), capacity, window) if window else int(totals[number])
            for a, b in zip(found[1:], expected[1:], strict=True):
                np.testing.assert_allclose(a[number, :, :rows], b[number, :, :rows], rtol=1e-4, atol=1e-5)


def test_a_window_s_caches_have_one_plan_and_the_bits_of_caches_of_all_keys(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    recorded = calls_of(monkeypatch, any_device.engine, "record")
    rng, window = np.random.default_rng(1), 300
    whole = _feed(rng, 1, 620, 620, [619])
    angles = _angles(rng)

    def run(session: ort.InferenceSession, capacity: int, parts: list[int]) -> Array:
        binding, found, total = session.io_binding(), [], 0
        for role in ("key", "value"):
            shape = (1, _KEY_HEADS, capacity, _SIZE)
            value = ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "dml")
            binding.bind_ortvalue_input(f"past_{role}", value)
            binding.bind_ortvalue_output(role, value)
        binding.bind_output("y")
        for count in parts:
            for name in "qkv":
                binding.bind_cpu_input(name, whole[name][:, total : total + count])
            total += count
            binding.bind_cpu_input("ends", np.array([total - 1], np.int32))
            binding.bind_cpu_input("total", np.array([total], np.int32))
            binding.run()
            found.append(binding.get_outputs()[-1].numpy())
        bits: Array = np.concatenate(found, axis=1).view(np.uint32)
        return bits

    node = _attention(["q", "k", "v"], local_window_size=window)
    with ort.InferenceSession(_model([node], angles), device=any_device, strict=True) as session:
        expected = run(session, 620, [620])
    node.attribute.append(helper.make_attribute("sliding_window_cache", 1))
    with ort.InferenceSession(_model([node], angles), device=any_device, strict=True) as session:
        np.testing.assert_array_equal(run(session, 310, [290, 290] + [1] * 40), expected)
        planned, before = len(plans), len(recorded)
        assert planned == 3  # of caches of all keys; of the prompt, and of a token
        np.testing.assert_array_equal(run(session, 310, [290, 290] + [1] * 40), expected)
        assert len(plans) == planned
        assert len(recorded) - before <= 4  # for the memory of the second call's caches and results
        np.testing.assert_array_equal(run(session, window, [100, 490] + [1] * 30), expected)


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
