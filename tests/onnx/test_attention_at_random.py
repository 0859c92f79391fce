"""Attention of random sizes, masks and attributes: ONNX Runtime's operators beside it, ONNX's beside the evaluator."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import dmlvk as dml
import dmlvk.onnx as ort
from tests.effort import some
from tests.onnx import models
from tests.onnx.test_attention import Array, Arrays, compare


class _Draw:
    """What one seed chooses."""

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
        """One of ONNX Runtime's kinds."""
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


@pytest.mark.parametrize("seed", some(range(24), 5))
@pytest.mark.parametrize("op_type", _RECIPES)
def test_attention_of_onnx_runtime(any_device: dml.Device, op_type: str, seed: int) -> None:
    feed, order, outputs, attributes = _RECIPES[op_type](_Draw(seed))
    first = next(iter(feed.values())).dtype
    inputs = models.in_order(order.split(), feed)
    node = helper.make_node(op_type, inputs, outputs, domain="com.microsoft", **attributes)
    made = models.model([node], feed, dict.fromkeys(outputs, helper.np_dtype_to_tensor_dtype(first)))
    compare(any_device, made, feed, tolerance=6e-3 if first == np.float16 else 3e-4)


@pytest.mark.parametrize("seed", some(range(24), 4))
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
