"""Attention, rotary embeddings, normalized sums: by hand and at random, beside ONNX Runtime and ONNX's evaluator."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.nodes.operators import normalization
from tests.onnx import models
from tests.onnx.attention_forms import NAMES, whole_form

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


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("operator", NAMES)
def test_attention_at_random(any_device: dml.Device, operator: str, seed: int) -> None:
    """Beside ONNX Runtime; ONNX's own beside ONNX's evaluator, which holds to the standard."""
    form = whole_form(operator, seed)
    model = form.model(is_open=False)
    if operator.startswith("ai."):
        expected = ReferenceEvaluator(onnx.load_from_string(model)).run(None, form.feed)
    else:
        expected = models.by_onnx_runtime(model, form.feed)
    found = models.by_device(any_device, model, form.feed)
    assert form.difference(found, [np.asarray(each) for each in expected]) == "", form.label


_ORDER = ("query", "key", "value", "bias", "mask", "added")


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention_of_every_source(device: dml.Device, unidirectional: int) -> None:
    batch, heads, length, size = 2, 3, 4, 8
    q, k, v = (numbers(seed, batch, length, heads, size) for seed in (1, 2, 3))
    apart = {name: values.reshape(batch, length, -1) for name, values in zip(_ORDER, (q, k, v), strict=False)}
    sources: list[Arrays] = [
        {"query": apart["query"], "key": np.stack([k, v], axis=3)},
        {"query": np.stack([q, k, v], axis=3)},
    ]
    added = {"added": numbers(4, 1, heads, length, length)}
    more: dict[str, Any] = {"num_heads": heads, "unidirectional": unidirectional}
    (expected,) = compare_node(device, "MultiHeadAttention", apart | added, ["y"], order=_ORDER, **more)
    for feed in (source | added for source in sources):  # ONNX Runtime has no stacked keys and values on processors
        names = models.in_order(_ORDER, feed)
        node = helper.make_node("MultiHeadAttention", names, ["y"], domain="com.microsoft", **more)
        (y,) = ort.InferenceSession(models.model([node], feed, ["y"]), device=device, strict=True).run(None, feed)
        assert y.tobytes() == expected.tobytes()


_SEEN: dict[str, Array] = {
    "of keys": np.array([[0, 0, 0, 0], [0, 1, 0, 1]], np.int32),
    "lengths": np.array([0, 3], np.int32),
    "ends and starts": np.array([2, 4, 2, 1], np.int32),
}


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("kind", list(_SEEN))
@pytest.mark.parametrize("hides", [-1e4, -1e9])
def test_queries_of_float16_that_see_no_key_are_computed_as_those_of_float32(
    device: dml.Device, kind: str, unidirectional: int, hides: float
) -> None:
    feed: Arrays = {"x": numbers(1, 2, 4, 8) / 4, "w": numbers(2, 8, 24) / 4, "b": numbers(3, 24), "mask": _SEEN[kind]}
    feed = {name: array.astype(np.float16).astype(array.dtype) for name, array in feed.items()}
    more: dict[str, Any] = {"num_heads": 2, "unidirectional": unidirectional, "mask_filter_value": hides}
    (expected,) = compare_node(device, "Attention", feed, ["y"], **more)
    half = {name: array if array.dtype == np.int32 else array.astype(np.float16) for name, array in feed.items()}
    node = helper.make_node("Attention", list(half), ["y"], domain="com.microsoft", **more)
    (y,) = ort.InferenceSession(models.model([node], half, ["y"]), device=device, strict=True).run(None, half)
    np.testing.assert_allclose(y, expected, atol=4e-3)
