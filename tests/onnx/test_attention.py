"""Attention, rotary embeddings and what stands around them in transformers, beside ONNX Runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.backend.suite import run_suite
from dmlvk.onnx.nodes.operators import normalization
from tests.onnx import models

runtime = pytest.importorskip("onnxruntime")

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

_MICROSOFT = "com.microsoft"


def numbers(seed: int, *shape: int, data_type: Any = np.float32) -> Array:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(data_type)


def compare(device: dml.Device, model: onnx.ModelProto, feed: Arrays, *, tolerance: float = 2e-5) -> list[Array]:
    """Runs a model, on the device alone, and holds every output against ONNX Runtime's."""
    outputs = ort.InferenceSession(model, device=device, strict=True).run(None, feed)
    for got, expected in zip(outputs, models.onnx_runtime(model).run(None, feed), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)
    return list(outputs)


def compare_node(
    device: dml.Device,
    op_type: str,
    feed: Arrays,
    outputs: list[str],
    *,
    order: Sequence[str] | None = None,
    **more: Any,
) -> list[Array]:
    """The same of one node of ONNX Runtime's domain; ``order`` has its inputs where some may be absent."""
    tolerance = more.pop("tolerance", 2e-5)
    inputs = models.in_order(order or feed, feed)
    node = helper.make_node(op_type, inputs, outputs, domain=_MICROSOFT, **more)
    return compare(device, models.model([node], feed, [name for name in outputs if name]), feed, tolerance=tolerance)


def rotary_feed(shape: tuple[int, ...], positions: Array, half: int, data_type: Any = np.float32) -> Arrays:
    angles = np.random.default_rng(9).uniform(-3, 3, (16, half))
    return {
        "x": numbers(1, *shape, data_type=data_type),
        "places": positions,
        "cos": np.cos(angles).astype(data_type),
        "sin": np.sin(angles).astype(data_type),
    }


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(
    ("shape", "positions", "half", "more"),
    [
        ((2, 3, 24), np.array([[4, 5, 6], [0, 1, 2]]), 4, {}),
        ((2, 3, 24), np.array([7]), 4, {}),
        ((2, 4, 3, 8), np.array([[4, 1, 6], [0, 1, 15]]), 4, {}),
        ((2, 3, 24), np.array([[4, 5, 6], [0, 1, 2]]), 2, {"num_heads": 3, "rotary_embedding_dim": 4}),
    ],
    ids=["three dimensions", "by the first place", "four dimensions", "a part"],
)
def test_rotary_embedding_of_onnx_runtime(
    any_device: dml.Device, shape: tuple[int, ...], positions: Array, half: int, more: dict[str, int], interleaved: int
) -> None:
    feed = rotary_feed(shape, positions, half)
    attributes: dict[str, Any] = {**more, "interleaved": interleaved}
    compare_node(any_device, "RotaryEmbedding", feed, ["y"], **attributes)


def test_the_suite_s_rotary_embeddings_run_on_the_device(device: dml.Device) -> None:
    results = run_suite(device, ["node"], "^test_rotary_embedding(?!.*expanded)")
    assert len(results) > 6
    assert [result for result in results if result.outcome != "device"] == []


_CASES = (
    "test_attention_(3d|3d_gqa_softcap|3d_with_past_and_present_qk_matmul_softcap|4d_attn_mask_4d_causal|4d_gqa_with_past_and_present|"
    "4d_attn_mask_bool|4d_diff_heads_mask4d_padded_kv|4d_causal_nonpad_attn_mask_composition|4d_fp16|"
    "causal_boolmask_nan_robustness|local_window_ext_cache_rank3_head_mask|4d_with_qk_matmul_softmax)"
)


@pytest.mark.sweep
def test_the_suite_s_attention_runs_on_the_device(device: dml.Device) -> None:
    results = run_suite(device, ["node"], f"^{_CASES}$")
    assert len(results) > 10
    assert [result for result in results if result.outcome != "device"] == []


def onnx_attention(feed: Arrays, outputs: list[str], **attributes: Any) -> onnx.ModelProto:
    names = ("q", "k", "v", "mask", "past_k", "past_v", "lengths")
    node = helper.make_node("Attention", models.in_order(names, feed), outputs, **attributes)
    return models.model([node], feed, [name for name in outputs if name], opset=24)


def seen_by_hand(feed: Arrays, heads: int, key_heads: int, scale: float) -> Array:
    """Row after row, over the keys that it sees alone: what is causal is bottom right, and a row of none is zero."""
    batch, queries, hidden = feed["q"].shape
    own, size = feed["k"].shape[1], hidden // heads
    parts = [feed[name].astype(np.float64).reshape(batch, own, key_heads, -1) for name in "kv"]
    result = np.zeros((batch, queries, heads, parts[1].shape[3]))
    for b in range(batch):
        for head in range(heads):
            for row in range(queries):
                last = row + feed["lengths"][b] - queries
                seen = [j for j in range(own) if j <= last and j < feed["lengths"][b] and feed["mask"][row, j]]
                if seen:
                    key, value = (part[b, seen, head // (heads // key_heads)] for part in parts)
                    powers = np.exp(scale * key @ feed["q"][b, row, head * size : (head + 1) * size])
                    result[b, row, head] = powers @ value / powers.sum()
    return result.reshape(batch, queries, -1)


@pytest.mark.parametrize("capped", [False, True])
def test_attention_by_hand(device: dml.Device, capped: bool) -> None:
    feed = {
        "q": numbers(1, 3, 4, 4 * 6),
        "k": numbers(2, 3, 7, 2 * 6),
        "v": numbers(3, 3, 7, 2 * 5),
        "mask": np.random.default_rng(4).integers(0, 2, (4, 7)).astype(bool),
        "lengths": np.array([2, 7, 4], np.int64),
    }
    cap = {"softcap": 1e6} if capped else {}  # which bends nothing
    model = onnx_attention(feed, ["y"], q_num_heads=4, kv_num_heads=2, is_causal=1, scale=0.3, **cap)
    (y,) = ort.InferenceSession(model, device=device, strict=True).run(None, feed)
    expected = seen_by_hand(feed, 4, 2, 0.3)
    assert (expected == 0).all(axis=2).any()  # rows that see nothing
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)


def test_past_and_present_are_one_sequence(device: dml.Device) -> None:
    whole = {"q": numbers(1, 2, 6, 24), "k": numbers(2, 2, 6, 12), "v": numbers(3, 2, 6, 12)}
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1}
    session = ort.InferenceSession(onnx_attention(whole, ["y", "pk", "pv"], **heads), device=device, strict=True)
    expected = session.run(None, whole)
    made = []
    state: Arrays = {}
    for begin, end in ((0, 3), (3, 4), (4, 6)):
        feed = {**{name: whole[name][:, begin:end] for name in "qkv"}, **state}
        step = ort.InferenceSession(onnx_attention(feed, ["y", "pk", "pv"], **heads), device=device, strict=True)
        y, past_key, past_value = step.run(None, feed)
        made.append(y)
        state = {"past_k": past_key, "past_v": past_value}
    assert past_key.tobytes() == expected[1].tobytes()
    assert past_value.tobytes() == expected[2].tobytes()
    np.testing.assert_allclose(np.concatenate(made, axis=1), expected[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("bias", [False, True])
def test_skip_simplified_layer_normalization(any_device: dml.Device, bias: bool) -> None:
    feed = {"x": numbers(1, 2, 3, 8), "skip": numbers(2, 2, 3, 8), "gamma": numbers(3, 8)}
    if bias:
        feed["bias"] = numbers(4, 8)
    compare_node(any_device, "SkipSimplifiedLayerNormalization", feed, ["y", "", "", "sum"], epsilon=1e-6)


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
@pytest.mark.parametrize("largest", [1e-12, 1.0, 2e4, 1e15])
def test_normalization_of_a_sum_has_the_bits_of_its_operators(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, data_type: type[np.floating[Any]], largest: float
) -> None:
    """One kernel gives what ELEMENT_WISE_ADD and MEAN_VARIANCE_NORMALIZATION2 give one after the other."""
    whole, row = (2, 3, 1026), (1, 1, 1026)
    limit = min(largest, float(np.finfo(data_type).max) / 16)
    feed = {
        "x": (numbers(1, *whole) * limit).astype(data_type),
        "skip": (numbers(2, *row) * limit).astype(data_type),
        "gamma": numbers(3, 1026).astype(data_type),
    }
    names = ["y", "", "", "sum"]
    node = helper.make_node("SkipSimplifiedLayerNormalization", list(feed), names, domain="com.microsoft", epsilon=1e-5)
    model = models.model([node], feed, ["y", "sum"])
    session = ort.InferenceSession(model, device=device, strict=True)
    found = session.run(None, feed)
    assert session.usage.launches == 1
    monkeypatch.setattr(normalization, "_is_residual", lambda *_: False)
    expected = ort.InferenceSession(model, device=device, strict=True).run(None, feed)
    assert [values.tobytes() for values in found] == [values.tobytes() for values in expected]


def test_more_invocations_normalize_a_long_row_with_the_same_bits(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of GPUs, where more load and multiply than add; rows that are held at once, and longer ones."""
    gpu = dataclasses.replace(device.target, is_cpu=False, work_group_size=1024)
    for length in (2048, 4100, 6000):
        feed = {"x": numbers(1, 2, length, data_type=np.float16), "gamma": numbers(3, length, data_type=np.float16)}
        feed["skip"] = feed["x"][::-1].copy()
        names = ["y", "", "", "sum"]
        inputs = ["x", "skip", "gamma"]
        node = helper.make_node("SkipSimplifiedLayerNormalization", inputs, names, domain="com.microsoft", epsilon=1e-5)
        model, found = models.model([node], feed, ["y", "sum"]), []
        for target in (device.target, gpu):
            with monkeypatch.context() as patch:
                patch.setattr(dml.Device, "target", target)
                made = ort.InferenceSession(model, device=device, strict=True).run(None, feed)
            found.append([values.tobytes() for values in made])
        assert found[0] == found[1]


def test_simplified_layer_normalization(any_device: dml.Device) -> None:
    feed = {"x": numbers(1, 2, 3, 8), "gamma": numbers(3, 8)}
    node = helper.make_node("SimplifiedLayerNormalization", list(feed), ["y"], axis=-1, epsilon=1e-6)
    (y,) = ort.InferenceSession(models.model([node], feed, ["y"]), device=any_device, strict=True).run(None, feed)
    x = feed["x"].astype(np.float64)
    expected = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * feed["gamma"]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
