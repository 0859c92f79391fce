"""Attention, rotary embeddings, normalized sums: by hand and at random, beside ONNX Runtime and ONNX's evaluator."""

from __future__ import annotations

import dataclasses
import random
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


class _Draw:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.batch, self.queries = self.choose.randint(1, 3), self.choose.randint(1, 9)
        self.key_heads, self.group = self.choose.randint(1, 3), self.choose.randint(1, 3)
        self.size, self.past = self.choose.choice((1, 3, 8)), self.choose.choice((0, 0, 1, 4))
        self.value_size = self.size if self.past else self.choose.choice((self.size, 5))

    def normal(self, *shape: int) -> Array:
        return self.numbers.normal(0, 1, shape).astype(np.float32)

    def chance(self, likely: float) -> bool:
        return self.choose.random() < likely

    def mask(self, keys: int, own: int, *, has_starts: bool = False) -> Array | None:
        shapes: list[tuple[int, ...]] = [(self.batch, keys), (self.batch, self.queries, keys)]
        shape = self.choose.choice([None, (), *shapes])
        if shape is None or (shape == () and self.past):
            return None
        found = self.numbers.integers(1, own + 1, self.batch) if shape == () else self.numbers.integers(0, 2, shape)
        if shape == () and has_starts and self.chance(0.5):  # ends, and where the first key stands
            found = np.concatenate([found, self.numbers.integers(0, own, self.batch)])
        return found.astype(np.int32)

    def added(self, heads: int, keys: int) -> Array:
        sizes = (self.choose.choice((1, self.batch)), self.choose.choice((1, heads)))
        return self.normal(*sizes, self.queries, keys)

    def maybe(self, likely: float, **values: Any) -> dict[str, Any]:
        return values if self.chance(likely) else {}


def _multi_head(draw: _Draw) -> tuple[Arrays, str, list[str], dict[str, Any]]:
    heads, own = draw.key_heads, draw.queries if draw.chance(0.4) else draw.choose.randint(1, 9)
    keys = draw.past + own
    attributes = {"num_heads": heads, **draw.maybe(0.3, scale=0.4), **draw.maybe(0.3, mask_filter_value=-3e3)}
    feed: Arrays = {"q": draw.normal(draw.batch, draw.queries, heads * draw.size)}
    order, outputs = "q k v bias mask added past_key past_value", ["y", "present_key", "present_value"]
    if not draw.past and draw.chance(0.2):  # keys of an encoder
        feed |= {name: draw.normal(draw.batch, heads, own, draw.size) for name in "kv"}
        return feed, order, ["y"], attributes
    feed |= {"k": draw.normal(draw.batch, own, heads * draw.size)}
    feed |= {"v": draw.normal(draw.batch, own, heads * draw.value_size)}
    feed |= draw.maybe(0.5, bias=draw.normal(heads * (2 * draw.size + draw.value_size)))
    if (mask := draw.mask(keys, own)) is not None:
        feed["mask"] = mask
    feed |= draw.maybe(0.4, added=draw.added(heads, keys))
    if draw.past:
        feed["past_key"] = draw.normal(draw.batch, heads, draw.past, draw.size)
        feed["past_value"] = draw.normal(draw.batch, heads, draw.past, draw.value_size)
    if own == draw.queries:
        attributes |= draw.maybe(0.5, unidirectional=1)
    if draw.chance(0.5):
        return feed, order, [*outputs, "scores"], attributes
    return feed, order, outputs if draw.past or draw.chance(0.5) else ["y"], attributes


def _of_projections(draw: _Draw) -> tuple[Arrays, str, list[str], dict[str, Any]]:
    heads, width, keys = draw.key_heads, draw.choose.choice((3, 8)), draw.past + draw.queries
    hidden = [heads * draw.size, heads * draw.size, heads * draw.value_size]
    feed: Arrays = {"x": draw.normal(draw.batch, draw.queries, width)}
    feed |= {"weights": draw.normal(width, sum(hidden)) / 2, "bias": draw.normal(sum(hidden))}
    if (mask := draw.mask(keys, draw.queries, has_starts=True)) is not None:
        feed["mask"] = mask
    if draw.past:
        feed["past"] = draw.normal(2, draw.batch, heads, draw.past, draw.size)
    else:
        feed |= draw.maybe(0.5, added=draw.added(heads, keys))
    attributes = {"num_heads": heads, "qkv_hidden_sizes": hidden, **draw.maybe(0.5, unidirectional=1)}
    return feed, "x weights bias mask past added", ["y", "present"] if draw.past else ["y"], attributes


def _group_query(draw: _Draw) -> tuple[Arrays, str, list[str], dict[str, Any]]:
    heads, size, cache = draw.key_heads * draw.group, 16, draw.choose.choice((0, 4, 9, 300))
    draw.queries = 1 if cache else draw.queries
    ends = [draw.choose.randint(0, cache) + 1 for _ in range(draw.batch)] if cache else [draw.queries] * draw.batch
    counts = {"q": heads, "k": draw.key_heads, "v": draw.key_heads}
    feed: Arrays = {name: draw.normal(draw.batch, draw.queries, count * size) for name, count in counts.items()}
    if cache:
        shape = (draw.batch, draw.key_heads, cache, size)
        feed |= {name: draw.normal(*shape) for name in ("past_key", "past_value")}
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": draw.key_heads, **draw.maybe(0.3, scale=0.2)}
    if draw.chance(0.4):
        feed |= {name: draw.normal(512, size // 2) for name in ("cos", "sin")}
        attributes |= {"do_rotary": 1, "rotary_interleaved": int(draw.chance(0.3))}
    for name, value in (("local_window_size", draw.choose.randint(1, 6)), ("softcap", 0.7)):
        attributes |= draw.maybe(0.3, **{name: value})
    if draw.chance(0.3):
        feed["sink"] = draw.normal(heads)
    else:
        attributes |= draw.maybe(0.3, smooth_softmax=1)
    feed |= draw.maybe(0.3, added=draw.normal(1, draw.choose.choice((1, heads)), draw.queries, max(ends)))
    outputs = ["y", "present_key", "present_value"]
    if draw.chance(0.5):
        outputs, attributes["qk_output"] = [*outputs, "scores"], draw.choose.randint(1, 2)
    if draw.chance(0.3):
        feed = {name: array.astype(np.float16) for name, array in feed.items()}
    feed |= {"ends": np.array(ends, np.int32) - 1, "total": np.array([max(ends)], np.int32)}
    return feed, "q k v past_key past_value ends total cos sin places added sink", outputs, attributes


_RECIPES = {"MultiHeadAttention": _multi_head, "Attention": _of_projections, "GroupQueryAttention": _group_query}


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("op_type", _RECIPES)
def test_attention_of_onnx_runtime(any_device: dml.Device, op_type: str, seed: int) -> None:
    feed, order, outputs, attributes = _RECIPES[op_type](_Draw(seed))
    first = next(iter(feed.values())).dtype
    inputs = models.in_order(order.split(), feed)
    node = helper.make_node(op_type, inputs, outputs, domain="com.microsoft", **attributes)
    made = models.model([node], feed, dict.fromkeys(outputs, helper.np_dtype_to_tensor_dtype(first)))
    compare(any_device, made, feed, tolerance=6e-3 if first == np.float16 else 3e-4)


@pytest.mark.parametrize("seed", range(24))
def test_onnx_s_attention(any_device: dml.Device, seed: int) -> None:
    draw = _Draw(seed)
    heads, own = draw.key_heads * draw.group, draw.choose.randint(1, 9)
    keys = draw.past + own
    feed: Arrays = {
        "q": draw.normal(draw.batch, heads, draw.queries, draw.size),
        "k": draw.normal(draw.batch, draw.key_heads, own, draw.size),
        "v": draw.normal(draw.batch, draw.key_heads, own, draw.value_size),
    }
    attributes: dict[str, Any] = {"is_causal": int(draw.chance(0.5))}
    if draw.chance(0.5):
        attributes |= {"q_num_heads": heads, "kv_num_heads": draw.key_heads}
        feed = {
            name: np.ascontiguousarray(x.swapaxes(1, 2)).reshape(draw.batch, x.shape[2], -1) for name, x in feed.items()
        }
    if draw.past:
        feed["past_key"] = draw.normal(draw.batch, draw.key_heads, draw.past, draw.size)
        feed["past_value"] = draw.normal(draw.batch, draw.key_heads, draw.past, draw.value_size)
    elif draw.chance(0.4):
        feed["lengths"] = draw.numbers.integers(1, own + 1, draw.batch)
    if draw.chance(0.6):
        seen = keys if "lengths" in feed else draw.choose.choice((keys, keys, max(1, keys - 2)))
        sizes = (draw.choose.choice((1, draw.batch)), draw.choose.choice((1, heads)), draw.queries, seen)
        shape = sizes[draw.choose.randint(0, 2) :]
        feed["mask"] = draw.numbers.integers(0, 2, shape).astype(bool) if draw.chance(0.5) else draw.normal(*shape)
    if draw.chance(0.3):
        attributes["softcap"] = 0.7
    outputs = ["y", *(("present_key", "present_value") if draw.past else ("", ""))]
    if draw.chance(0.4):  # the evaluator gives capped scores where those of the product are asked for
        outputs.append("scores")
        attributes["qk_matmul_output_mode"] = draw.choose.randint(1 if "softcap" in attributes else 0, 3)
    names = models.in_order(("q", "k", "v", "mask", "past_key", "past_value", "lengths"), feed)
    node = helper.make_node("Attention", names, _trimmed(outputs), **attributes)
    model = models.model([node], feed, [name for name in outputs if name], opset=24)
    found = ort.InferenceSession(model, device=any_device, strict=True).run(None, feed)
    for got, expected in zip(found, ReferenceEvaluator(model).run(None, feed), strict=True):
        np.testing.assert_allclose(got, expected, rtol=3e-4, atol=3e-4)


def _trimmed(names: list[str]) -> list[str]:
    return names if names[-1] else [name for name in names if name]


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


@pytest.mark.t_way(2)
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
