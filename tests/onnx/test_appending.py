"""Attention of every domain that appends to caches: beside ONNX Runtime, with one plan for all lengths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.plan.execution import Segment
from tests.onnx import models
from tests.onnx.bound_caches import CACHES, PRESENTS, bound
from tests.onnx.counted_calls import calls_of
from tests.onnx.test_attention import Array, Arrays, numbers

_BATCH, _HEADS, _KEY_HEADS, _SIZE, _CAPACITY = 2, 4, 2, 8, 12
_HIDDEN = _HEADS * _SIZE
_OUTPUTS = ["y", *PRESENTS]

_MULTI_HEAD = ["q", "k", "v", "bias", "mask", "added", "past_key", "past_value", "count"]
_DECODER = ["q", "k", "v", "mask", "added", "past_key", "past_value", "count", "width", "indirection", "bias"]


def node_of(op_type: str, feed: Iterable[str], order: list[str], **attributes: Any) -> onnx.NodeProto:
    domain = "" if op_type == "Attention" else "com.microsoft"
    return helper.make_node(op_type, models.in_order(order, feed), _OUTPUTS, domain=domain, **attributes)


def behind(past: int, tokens: int, data_type: Any = np.float32) -> Arrays:
    """New tokens, and caches of which the first rows count."""
    cache = (_BATCH, _HEADS, _CAPACITY, _SIZE)
    return {
        **{name: numbers(i, _BATCH, tokens, _HIDDEN, data_type=data_type) for i, name in enumerate("qkv")},
        "past_key": numbers(3, *cache, data_type=data_type),
        "past_value": numbers(4, *cache, data_type=data_type),
        "count": np.array([past], np.int32),
    }


def multi_head(device: dml.Device, feed: Arrays, **attributes: Any) -> ort.InferenceSession:
    node = node_of("MultiHeadAttention", feed, _MULTI_HEAD, num_heads=_HEADS, **attributes)
    return ort.InferenceSession(models.model([node], feed, _OUTPUTS), device=device, strict=True)


def extras(names: str, past: int, tokens: int) -> Arrays:
    """Inputs that a node may have besides, by their names with blanks between them."""
    keys = past + tokens
    mask = np.ones((_BATCH, keys), np.int32)
    mask[0, :2] = 0
    made = {
        "bias": numbers(5, 3 * _HIDDEN),
        "mask": mask,
        "added": numbers(6, 1, _HEADS, tokens, keys),
    }
    return {name: made[name] for name in names.split()}


def check(device: dml.Device, node: onnx.NodeProto, feed: Arrays, rows: int, tolerance: float = 2e-5) -> None:
    """Compares results, and those rows of caches that count, with those of ONNX Runtime."""
    model = models.model([node], feed, _OUTPUTS)
    own = ort.InferenceSession(model, device=device, strict=True).run(None, feed)
    other = models.onnx_runtime(model).run(None, feed)
    for got, wanted in zip(own, other, strict=True):
        assert got.shape == wanted.shape
        count = got.shape[1] if got.ndim == 3 else rows
        got, wanted = (values if values.ndim == 3 else values[:, :, :count] for values in (got, wanted))
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("tokens", "more", "attributes"),
    [
        (1, "", {}),
        (1, "bias mask", {"scale": 0.2}),
        (3, "added", {"unidirectional": 1}),
        (3, "bias mask added", {"mask_filter_value": -3e3}),
    ],
)
def test_multi_head_attention_with_a_shared_buffer(
    any_device: dml.Device, tokens: int, more: str, attributes: dict[str, Any]
) -> None:
    feed = {**behind(5, tokens), **extras(more, 5, tokens)}
    check(
        any_device, node_of("MultiHeadAttention", feed, _MULTI_HEAD, num_heads=_HEADS, **attributes), feed, 5 + tokens
    )


@pytest.mark.parametrize("more", ["", "bias mask added"])
def test_decoder_masked_attention(any_device: dml.Device, more: str) -> None:
    feed = {**behind(7, 1), **extras(more, 7, 1)}
    attributes = {"num_heads": _HEADS, "past_present_share_buffer": 1}
    check(any_device, node_of("DecoderMaskedMultiHeadAttention", feed, _DECODER, **attributes), feed, 8)


def growing(kind: str, **attributes: Any) -> onnx.ModelProto:
    """A model of one node with open sizes, whose caches grow."""
    heads = _HEADS if kind == "MultiHeadAttention" else _KEY_HEADS
    shapes: dict[str, Any] = dict.fromkeys("qkv", ("batch", "tokens", heads * _SIZE))
    shapes |= {"q": ("batch", "tokens", _HIDDEN)} | dict.fromkeys(CACHES, ("batch", heads, "past", _SIZE))
    order = ["q", "k", "v", "mask", *CACHES] if kind == "Attention" else _MULTI_HEAD
    counts = {"q_num_heads": _HEADS, "kv_num_heads": heads, "is_causal": 1}
    if kind == "MultiHeadAttention":
        counts = {"num_heads": _HEADS}
    return models.model([node_of(kind, shapes, order, **counts, **attributes)], shapes, _OUTPUTS, opset=23)


def grown(session: Any, kind: str, parts: list[int]) -> tuple[Array, Array]:
    """The results of all tokens, run in parts one after the other, and the keys in the end."""
    heads = _HEADS if kind == "MultiHeadAttention" else _KEY_HEADS
    wide, empty = {"q": _HIDDEN, "k": heads * _SIZE, "v": heads * _SIZE}, np.zeros((1, heads, 0, _SIZE), np.float32)
    whole = {name: numbers(number, 1, sum(parts), width) for number, (name, width) in enumerate(wide.items())}
    state: dict[str, npt.NDArray[Any]] = {"past_key": empty, "past_value": empty}
    found, total = [], 0
    for count in parts:
        feed = {name: values[:, total : total + count] for name, values in whole.items()}
        y, *caches = session.run(_OUTPUTS, {**feed, **state})
        total += count
        assert caches[0].shape == (1, heads, total, _SIZE)
        found.append(y)
        state = dict(zip(CACHES, caches, strict=True))
    return np.concatenate(found, axis=1), state["past_key"]


_KINDS: list[tuple[str, dict[str, Any]]] = [
    ("MultiHeadAttention", {"unidirectional": 1}),
    ("Attention", {}),
    ("Attention", {"softcap": 2.0, "scale": 0.5}),
]


@pytest.mark.parametrize(("kind", "attributes"), _KINDS)
def test_caches_that_grow_have_one_plan_for_all_lengths(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: str, attributes: dict[str, Any]
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    model, parts = growing(kind, **attributes), [5, *[1] * 9]
    session = ort.InferenceSession(model, device=any_device, strict=True)
    y, keys = grown(session, kind, parts)
    assert len(plans) == 2  # of the prompt, and of a token
    other = models.onnx_runtime(model)
    for got, wanted in zip((y, keys), grown(other, kind, parts), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
    assert grown(session, kind, [2, 9, 3])[0].tobytes() == y.tobytes()


_WRONG: dict[str, tuple[int, str, str]] = {
    "more than there is room for": (_CAPACITY, "", f"{_CAPACITY} tokens and 1 new ones do not go into"),
    "less than nothing": (-1, "", "-1 tokens stand before"),
    "a mask of other keys": (5, "mask", "5 tokens and 1 new ones contradict a mask of 4 keys"),
}


@pytest.mark.parametrize("name", list(_WRONG))
def test_counts_that_contradict_are_refused_and_caches_stay(any_device: dml.Device, name: str) -> None:
    past, more, words = _WRONG[name]
    feed = {**behind(past, 1), **extras(more, 3, 1)}
    session = multi_head(any_device, feed)
    caches = {name: ort.OrtValue.ortvalue_from_numpy(feed[name], "dml") for name in CACHES}
    others = {name: array for name, array in feed.items() if name not in CACHES}
    binding = bound(session, others, caches, are_shared=True)
    with pytest.raises(dml.DmlError, match=words):
        binding.run()
    assert all(value.numpy().tobytes() == feed[name].tobytes() for name, value in caches.items())


def test_a_buffer_s_capacity_does_not_show(any_device: dml.Device) -> None:
    """Caches of more room give the same bits; what lies behind the rows that count does not matter."""
    feed = behind(5, 1, np.float16)
    (expected, *_) = multi_head(any_device, feed).run(None, feed)
    room = [(0, 0), (0, 0), (0, 400), (0, 0)]
    wide = {name: np.pad(feed[name][:, :, :5], room, constant_values=7) for name in CACHES}
    large = {**feed, **wide}
    assert multi_head(any_device, large).run(None, large)[0].tobytes() == expected.tobytes()
