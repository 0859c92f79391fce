"""Attention of ONNX Runtime's domain, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.test_attention import Array, Arrays, compare_node, numbers

_BATCH, _HEADS, _QUERIES, _KEYS, _SIZE = 2, 3, 4, 6, 8
_HIDDEN = _HEADS * _SIZE


def separate(keys: int = _KEYS, value_size: int = _SIZE) -> Arrays:
    return {
        "query": numbers(1, _BATCH, _QUERIES, _HIDDEN),
        "key": numbers(2, _BATCH, keys, _HIDDEN),
        "value": numbers(3, _BATCH, keys, _HEADS * value_size),
    }


_ORDER = ("query", "key", "value", "bias", "mask", "added", "past_key", "past_value")


def multi_head(device: dml.Device, feed: Arrays, outputs: list[str], **more: Any) -> list[Array]:
    return compare_node(device, "MultiHeadAttention", feed, outputs, order=_ORDER, num_heads=_HEADS, **more)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention_of_every_source(device: dml.Device, unidirectional: int) -> None:
    apart = separate(_QUERIES)
    q, k, v = (values.reshape(_BATCH, _QUERIES, _HEADS, _SIZE) for values in apart.values())
    sources: list[Arrays] = [
        apart,
        {"query": apart["query"], "key": np.stack([k, v], axis=3)},
        {"query": np.stack([q, k, v], axis=3)},
    ]
    added = numbers(4, 1, _HEADS, _QUERIES, _QUERIES)
    (expected,) = multi_head(device, {**apart, "added": added}, ["y"], unidirectional=unidirectional)
    for source in sources[1:]:  # ONNX Runtime has no stacked keys and values on processors
        feed = {**source, "added": added}
        names = models.in_order(_ORDER, feed)
        attributes: dict[str, Any] = {"num_heads": _HEADS, "unidirectional": unidirectional}
        node = helper.make_node("MultiHeadAttention", names, ["y"], domain="com.microsoft", **attributes)
        model = models.model([node], feed, ["y"])
        (y,) = ort.InferenceSession(model, device=device, strict=True).run(None, feed)
        assert y.tobytes() == expected.tobytes()


_LENGTHS = np.array([2, 6], np.int32)
_MASKS: dict[str, Array] = {
    "lengths": _LENGTHS,
    "of keys": (np.arange(_KEYS) < _LENGTHS[:, None]).astype(np.int32),
    "of queries and keys": np.random.default_rng(7).integers(0, 2, (_BATCH, _QUERIES, _KEYS)).astype(np.int32),
}


@pytest.mark.parametrize("kind", list(_MASKS))
def test_multi_head_attention_with_masks(any_device: dml.Device, kind: str) -> None:
    feed = {**separate(value_size=5), "mask": _MASKS[kind]}
    multi_head(any_device, feed, ["y"], mask_filter_value=-3e3, scale=0.4)


def test_multi_head_attention_with_bias_past_and_present(device: dml.Device) -> None:
    feed = separate(_QUERIES)
    feed["bias"] = numbers(5, 3 * _HIDDEN)
    feed["past_key"], feed["past_value"] = (numbers(seed, _BATCH, _HEADS, 3, _SIZE) for seed in (6, 7))
    multi_head(device, feed, ["y", "present_key", "present_value"])


def test_multi_head_attention_with_keys_of_an_encoder(any_device: dml.Device) -> None:
    feed = {
        "query": numbers(1, _BATCH, _QUERIES, _HIDDEN),
        "key": numbers(2, _BATCH, _HEADS, _KEYS, _SIZE),
        "value": numbers(3, _BATCH, _HEADS, _KEYS, _SIZE),
    }
    multi_head(any_device, feed, ["y"])


_ATTENTION_ORDER = ("x", "weights", "bias", "mask", "past", "added")


@pytest.mark.parametrize(
    ("mask", "past", "hidden", "unidirectional"),
    [
        (None, 0, None, 0),
        (None, 0, [24, 24, 12], 1),
        (np.array([3, 1], np.int32), 0, None, 0),
        (np.array([4, 3, 1, 0], np.int32), 0, None, 0),
        (np.array([[1, 1, 0, 1], [0, 1, 1, 0]], np.int32), 0, None, 1),
        (np.random.default_rng(3).integers(0, 2, (2, 4, 6)).astype(np.int32), 2, None, 0),
    ],
    ids=["plain", "causal, other values", "lengths", "ends and starts", "keys, causal", "past"],
)
def test_attention_of_projections(
    any_device: dml.Device, mask: Array | None, past: int, hidden: list[int] | None, unidirectional: int
) -> None:
    columns = sum(hidden or [_HIDDEN] * 3)
    feed = {"x": numbers(1, _BATCH, 4, 10), "weights": numbers(2, 10, columns) / 3, "bias": numbers(3, columns)}
    more: dict[str, Any] = {"qkv_hidden_sizes": hidden} if hidden else {}
    outputs = ["y"]
    if mask is not None:
        feed["mask"] = mask
    if past:
        feed["past"] = numbers(4, 2, _BATCH, _HEADS, past, _SIZE)
        outputs.append("present")
    compare_node(
        any_device,
        "Attention",
        feed,
        outputs,
        order=_ATTENTION_ORDER,
        num_heads=_HEADS,
        unidirectional=unidirectional,
        **more,
    )


_GROUP_ORDER = (
    *("query", "key", "value", "past_key", "past_value", "ends", "total", "cos", "sin", "places", "added", "sink"),
)
_KEY_HEADS, _ALL_HEADS, _WIDE = 2, 4, 16
_ANGLES = np.random.default_rng(9).uniform(-3, 3, (16, _WIDE // 2))


def grouped(device: dml.Device, feed: Arrays, **more: Any) -> list[Array]:
    outputs = ["y", "present_key", "present_value"]
    counts = {"num_heads": _ALL_HEADS, "kv_num_heads": _KEY_HEADS}
    return compare_node(device, "GroupQueryAttention", feed, outputs, order=_GROUP_ORDER, **counts, **more)


def prompt(length: int, ends: list[int], total: int, cache: int = 0) -> Arrays:
    """Tokens of two sequences, and perhaps a cache that holds so many of each."""
    feed = {
        "query": numbers(1, _BATCH, length, _ALL_HEADS * _WIDE),
        "key": numbers(2, _BATCH, length, _KEY_HEADS * _WIDE),
        "value": numbers(3, _BATCH, length, _KEY_HEADS * _WIDE),
        "ends": np.array(ends, np.int32) - 1,
        "total": np.array(total, np.int32),
    }
    if cache:
        feed["past_key"], feed["past_value"] = (numbers(seed, _BATCH, _KEY_HEADS, cache, _WIDE) for seed in (4, 5))
    return feed


_TURNED = {"cos": np.cos(_ANGLES).astype(np.float32), "sin": np.sin(_ANGLES).astype(np.float32)}

_GROUPED: dict[str, tuple[Arrays, dict[str, Any]]] = {
    "prompt": (prompt(5, [5, 5], 5), {}),
    "prompt, turned": ({**prompt(5, [5, 5], 5), **_TURNED}, {"do_rotary": 1}),
    "prompt, neighbours turned": ({**prompt(5, [5, 5], 5), **_TURNED}, {"do_rotary": 1, "rotary_interleaved": 1}),
    "token": ({**prompt(1, [6, 6], 6, 5), **_TURNED}, {"do_rotary": 1}),
    "tokens of other lengths": ({**prompt(1, [6, 3], 6, 5), **_TURNED}, {"do_rotary": 1}),
    "a cache that is not full": (prompt(1, [4, 4], 4, 8), {}),
    "both": ({**prompt(1, [2, 5], 5, 8), **_TURNED}, {"do_rotary": 1}),
    "softcap": (prompt(5, [5, 5], 5), {"softcap": 1.5}),
    "window": (prompt(5, [5, 5], 5), {"local_window_size": 2}),
    "window, token": (prompt(1, [6, 6], 6, 5), {"local_window_size": 3}),
    "smooth": (prompt(5, [5, 5], 5), {"smooth_softmax": 1}),
    "sink": ({**prompt(1, [6, 6], 6, 5), "sink": numbers(6, _ALL_HEADS)}, {}),
    "bias": ({**prompt(1, [6, 4], 6, 5), "added": numbers(7, 1, _ALL_HEADS, 1, 6)}, {"scale": 0.2}),
}


@pytest.mark.parametrize("name", list(_GROUPED))
def test_group_query_attention(any_device: dml.Device, name: str) -> None:
    feed, attributes = _GROUPED[name]
    grouped(any_device, feed, **attributes)


def test_group_query_attention_of_one_tensor(device: dml.Device) -> None:
    feed = prompt(5, [5, 5], 5)
    expected = grouped(device, feed)
    stacked = np.concatenate([feed["query"], feed["key"], feed["value"]], axis=2)
    made = grouped(device, {"query": stacked, "ends": feed["ends"], "total": feed["total"]})
    assert [values.tobytes() for values in made] == [values.tobytes() for values in expected]


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
