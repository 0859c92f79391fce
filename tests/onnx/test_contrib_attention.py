"""Attention of ONNX Runtime's domain, where ONNX Runtime's processors have no such sources or types to be beside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.test_attention import Array, Arrays, compare_node, numbers

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
