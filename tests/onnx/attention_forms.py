"""Attention nodes over caches at random, right ones and ones of which something contradicts the rest."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

from tests.onnx import models

Array = npt.NDArray[Any]
Feed = dict[str, Array]

NAMES = {
    "GroupQueryAttention": (
        *("query", "key", "value", "past_key", "past_value", "seqlens_k", "total", "cos", "sin", "position_ids"),
        *("bias", "sink", "k_scale", "v_scale"),
    ),
    "MultiHeadAttention": (
        *("query", "key", "value", "all_bias", "mask", "bias", "past_key", "past_value", "past_length", "beams"),
    ),
    "DecoderMaskedMultiHeadAttention": (
        *("query", "key", "value", "mask", "bias", "past_key", "past_value", "past_length", "width", "beams"),
        "all_bias",
    ),
    "Attention": ("input", "weights", "all_bias", "mask", "past", "bias", "past_length"),
    "ai.onnx.Attention": ("query", "key", "value", "mask", "past_key", "past_value", "nonpad"),
}
"""The inputs of each operator, in their order."""


@dataclasses.dataclass
class Form:
    operator: str  # of :data:`NAMES`
    attributes: dict[str, Any]  # of the node
    feed: Feed  # its inputs
    presents: bool  # whether caches are outputs
    opset: int = 21  # of ONNX's operators
    changes: list[str] = dataclasses.field(default_factory=list)  # what contradicts the rest, for messages

    @property
    def outputs(self) -> list[str]:
        if not self.presents:
            return ["y"]
        return ["y", "present"] if self.operator == "Attention" else ["y", "present_key", "present_value"]

    @property
    def with_presents(self) -> Form:
        """The same, whose caches are outputs: where they are none, ONNX Runtime reads what was never written."""
        return dataclasses.replace(self, presents=True)

    def model(self, *, is_open: bool) -> bytes:
        """The node as a model's file, for all sizes or those of the feed alone."""
        node = helper.make_node(
            self.operator.rpartition(".")[2],
            models.in_order(NAMES[self.operator], self.feed),
            self.outputs,
            domain="" if self.operator.startswith("ai.") else "com.microsoft",
            **self.attributes,
        )
        inputs: dict[str, Any] = self.feed
        if is_open:
            inputs = {
                name: (helper.np_dtype_to_tensor_dtype(a.dtype), [f"{name}{axis}" for axis in range(a.ndim)])
                for name, a in self.feed.items()
            }
        made: bytes = models.model([node], inputs, self.outputs, opset=self.opset).SerializeToString()
        return made

    @property
    def label(self) -> str:
        given = ", ".join(
            f"{name} {array.dtype}{list(array.shape)}" + (f"={array.tolist()}" if array.dtype.kind == "i" else "")
            for name, array in self.feed.items()
        )
        label = f"{self.operator}({given}) {self.attributes} presents {self.presents}: {'; '.join(self.changes)}"
        return label if len(label) < 900 else f"{label[:700]} … {label[-190:]}"


class _Draw:
    def __init__(self, choose: random.Random, numbers: np.random.Generator) -> None:
        self.choose, self.numbers = choose, numbers
        self.batch, self.size = choose.randint(1, 3), choose.choice((16, 32))
        self.key_heads, self.past = choose.randint(1, 2), choose.choice((0, 3, 6))
        self.dtype = np.dtype(choose.choice((np.float32, np.float32, np.float32, np.float16)))

    def chance(self, likely: float) -> bool:
        return self.choose.random() < likely

    def normal(self, *shape: int) -> Array:
        return np.asarray(self.numbers.normal(0, 0.5, shape).astype(self.dtype))

    def integers(self, least: int, end: int, *shape: int) -> Array:
        return self.numbers.integers(least, end, shape).astype(np.int32)


def _group_query(d: _Draw) -> Form:
    heads, size, batch = d.key_heads * d.choose.randint(1, 2), d.size, d.batch
    tokens = d.choose.choice((1, 1, 2, 4)) if not d.past or batch == 1 else 1
    total = d.past + tokens
    room = total + d.choose.randint(0, 3) if d.chance(0.4) else d.past
    widths = (heads * size, d.key_heads * size, d.key_heads * size)
    if d.chance(0.3):
        feed = {"query": d.normal(batch, tokens, sum(widths))}
    else:
        feed = {name: d.normal(batch, tokens, w) for name, w in zip(("query", "key", "value"), widths, strict=True)}
    if room or d.chance(0.5):
        feed |= {f"past_{role}": d.normal(batch, d.key_heads, room, size) for role in ("key", "value")}
    ends = np.full(batch, total - 1, np.int32)
    if batch > 1 and total > tokens:
        ends[1:] -= d.integers(0, d.past + 1, batch - 1)
    feed |= {"seqlens_k": ends, "total": np.array([total], np.int32)}
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": d.key_heads}
    if d.chance(0.4):
        attributes |= {"do_rotary": 1}
        rows = total + d.choose.randint(0, 4)
        feed |= {name: d.normal(rows, size // 2) for name in ("cos", "sin")}
        if d.chance(0.3) and total == tokens:  # ONNX Runtime counts from the first one's
            feed["position_ids"] = np.tile(np.arange(tokens) + rows - total, (batch, 1))
        elif d.chance(0.3) and total != tokens:
            feed["position_ids"] = d.integers(0, rows, batch, tokens).astype(np.int64)
    if d.chance(0.25):
        feed["bias"] = d.normal(d.choose.choice((1, batch)), d.choose.choice((1, heads)), tokens, total)
    if d.chance(0.2):
        feed["sink"] = d.normal(heads)
    if d.chance(0.2):
        attributes["local_window_size"] = d.choose.randint(1, 4)
    if d.chance(0.2) and "past_key" in feed:
        kind = d.choose.choice(("PER_TENSOR", "PER_CHANNEL"))
        attributes |= {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": 8}
        shape = (1,) if kind == "PER_TENSOR" else (1, d.key_heads, 1, size)
        for role in ("key", "value"):
            feed[f"past_{role}"] = d.numbers.integers(-9, 9, feed[f"past_{role}"].shape).astype(np.int8)
            feed[f"{role[0]}_scale"] = np.full(shape, 0.02, np.float32)
    return Form("GroupQueryAttention", attributes, feed, presents=d.chance(0.75))


def _multi_head(d: _Draw) -> Form:
    heads, batch, size = d.key_heads, d.batch, d.size
    tokens, hidden = d.choose.choice((1, 1, 2, 4)), d.key_heads * d.size
    feed = {name: d.normal(batch, tokens, hidden) for name in ("query", "key", "value")}
    attributes: dict[str, Any] = {"num_heads": heads}
    is_told, is_masked = d.past > 0 and d.chance(0.5), d.chance(0.4)
    total = d.past + tokens
    room = total + d.choose.randint(0, 3) if is_told else d.past
    if d.past or d.chance(0.3):
        feed |= {f"past_{role}": d.normal(batch, heads, room, size) for role in ("key", "value")}
    if is_told:
        feed["past_length"] = np.array([d.past], np.int32)
        if tokens == 1 and d.chance(0.5):
            feed["beams"] = d.integers(0, batch, 1, batch, room)
    if is_masked and d.chance(0.5):
        feed["mask"] = d.integers(0, 2, batch, total)
    if d.chance(0.3):
        sequences = 1 if "beams" in feed else d.choose.choice((1, batch))  # there ONNX Runtime reads the first one's
        feed["bias"] = d.normal(sequences, d.choose.choice((1, heads)), tokens, total)
    if d.chance(0.3):
        feed["all_bias"] = d.normal(3 * hidden)
    return Form("MultiHeadAttention", attributes, feed, presents=d.chance(0.75) or is_told)


def _decoder_masked(d: _Draw) -> Form:
    form = _multi_head(d)
    d.past = past = d.choose.randint(1, 6)
    feed, heads, hidden = form.feed, form.attributes["num_heads"], form.feed["query"].shape[2]
    d.dtype, room = np.dtype(np.float32), past + d.choose.randint(1, 4)
    feed = {name: d.normal(d.batch, 1, hidden) for name in ("query", "key", "value")}
    feed |= {f"past_{role}": d.normal(d.batch, heads, room, d.size) for role in ("key", "value")}
    feed["past_length"] = np.array([past], np.int32)
    if d.chance(0.4):
        feed["mask"] = d.integers(0, 2, d.batch, past + 1)
    if d.chance(0.3):
        feed["bias"] = d.normal(1, heads, 1, past + 1)
    if d.chance(0.3):
        feed |= {"width": np.array([d.batch], np.int32), "beams": d.integers(0, d.batch, 1, d.batch, room)}
    attributes = {"num_heads": heads, "past_present_share_buffer": 1}
    return Form("DecoderMaskedMultiHeadAttention", attributes, feed, presents=True)


def _of_projections(d: _Draw) -> Form:
    heads, hidden, tokens = d.key_heads, d.key_heads * d.size, d.choose.randint(1, 4)
    d.dtype = np.dtype(np.float32)
    feed = {"input": d.normal(d.batch, tokens, 8), "weights": d.normal(8, 3 * hidden), "all_bias": d.normal(3 * hidden)}
    if d.past:
        feed["past"] = d.normal(2, d.batch, heads, d.past, d.size)
    if d.chance(0.4):
        shapes = ((d.batch, d.past + tokens), (d.batch, tokens, d.past + tokens))
        feed["mask"] = d.integers(0, 2, *d.choose.choice(shapes))
    if d.chance(0.3) and not d.past:
        feed["bias"] = d.normal(d.choose.choice((1, d.batch)), d.choose.choice((1, heads)), tokens, tokens)
    return Form("Attention", {"num_heads": heads}, feed, presents=d.chance(0.75) or bool(d.past))


def _of_onnx(d: _Draw) -> Form:
    heads, size, value_size = d.key_heads * d.choose.randint(1, 2), d.size, d.choose.choice((d.size, 8))
    tokens, own = d.choose.choice((1, 1, 2, 4)), d.choose.choice((1, 2, 4))
    counts = {"query": (heads, tokens, size), "key": (d.key_heads, own, size), "value": (d.key_heads, own, value_size)}
    attributes: dict[str, Any] = {}
    if d.chance(0.6):
        attributes |= {"q_num_heads": heads, "kv_num_heads": d.key_heads}
        feed = {name: d.normal(d.batch, rows, count * wide) for name, (count, rows, wide) in counts.items()}
    else:
        feed = {name: d.normal(d.batch, *shape) for name, shape in counts.items()}
    opset, past = d.choose.choice((23, 24)), d.past
    if past or d.chance(0.3):
        feed["past_key"] = d.normal(d.batch, d.key_heads, past, size)
        feed["past_value"] = d.normal(d.batch, d.key_heads, past, value_size)
    elif opset == 24 and d.chance(0.5):
        feed["nonpad"] = d.integers(1, own + 1, d.batch).astype(np.int64)
    if d.chance(0.4):
        whole = (d.choose.choice((1, d.batch)), d.choose.choice((1, heads)), tokens, past + own)
        feed["mask"] = d.normal(*whole[d.choose.choice((0, 1, 2)) :])
        if d.chance(0.3):
            feed["mask"] = feed["mask"] > 0
    if d.chance(0.3) and own == tokens and not past:  # other ones ONNX Runtime aligns otherwise than ONNX says
        attributes["is_causal"] = 1
    return Form("ai.onnx.Attention", attributes, feed, d.chance(0.75) and "past_key" in feed, opset)


_RECIPES: tuple[Callable[[_Draw], Form], ...] = (
    *(_group_query, _group_query, _multi_head, _decoder_masked, _of_projections, _of_onnx),
)

_EXTREMES = (-(2**31), -5, -1, 0, 1, 2, 3, 5, 7, 99, 2**31 - 1)
_OF_MASKS = (0, 1, 2, 99)


def _resized(choose: random.Random, form: Form, name: str) -> str:
    array = form.feed[name]
    if not array.ndim or not array.size:
        return ""
    axis = choose.randrange(array.ndim)
    size = array.shape[axis]
    wanted = choose.choice([size + 1, max(1, size - 1), 2 * size, max(1, size // 2), 1, size + 8, 0])
    form.feed[name] = np.take(array, np.arange(wanted) % size, axis)
    return f"{name}: axis {axis} {size} -> {wanted}"


def _dropped(choose: random.Random, form: Form, name: str) -> str:
    del form.feed[name]
    return f"no {name}"


def _of_other_type(choose: random.Random, form: Form, name: str) -> str:
    array = form.feed[name]
    kinds = (np.float32, np.float16, np.int32, np.int64)
    form.feed[name] = array.astype(choose.choice([kind for kind in kinds if np.dtype(kind) != array.dtype]))
    return f"{name} of {form.feed[name].dtype}"


def _of_other_rank(choose: random.Random, form: Form, name: str) -> str:
    array = form.feed[name]
    shape = (1, *array.shape) if choose.random() < 0.5 or array.ndim < 2 else (-1, *array.shape[2:])
    form.feed[name] = array.reshape(shape) if array.size else array[None]
    return f"{name} {list(form.feed[name].shape)}"


def _with_other_numbers(choose: random.Random, form: Form, name: str) -> str:
    array = form.feed[name] = form.feed[name].copy()
    if array.dtype.kind != "i" or not array.size or (name == "position_ids" and array.shape[1] > 1):
        return ""  # of prompts ONNX Runtime reads only the first place
    place = choose.randrange(array.size)
    info = np.iinfo(array.dtype)
    extremes = _OF_MASKS if name == "mask" else _EXTREMES
    array.reshape(-1)[place] = min(max(choose.choice(extremes), info.min), info.max)
    return f"{name}[{place}] = {array.reshape(-1)[place]}"


def _with_other_attribute(choose: random.Random, form: Form, name: str) -> str:
    counts = [each for each in form.attributes if each.endswith("heads")]
    if not counts:
        return ""
    changed = choose.choice(counts)
    form.attributes[changed] = choose.choice([each for each in (1, 2, 3, 4, 8) if each != form.attributes[changed]])
    return f"{changed} {form.attributes[changed]}"


_CHANGES = (
    *(_resized,) * 8,
    *(_with_other_numbers,) * 5,
    *(_dropped, _of_other_type, _of_other_rank, _with_other_attribute),
)


def form_of(seed: int, number: int) -> tuple[Form, Form]:
    """A right form, and the same with what contradicts the rest; a few times nothing does."""
    choose, numbers = random.Random(f"{seed} {number}"), np.random.default_rng([seed, number])
    right = choose.choice(_RECIPES)(_Draw(choose, numbers))
    changed = dataclasses.replace(right, feed=dict(right.feed), attributes=dict(right.attributes), changes=[])
    for _ in range(choose.choice((0, 1, 1, 1, 1, 1, 1, 2, 2))):
        change = choose.choice(_CHANGES)
        integers = [name for name, array in changed.feed.items() if array.dtype.kind == "i"]
        names = integers if change is _with_other_numbers and integers else list(changed.feed)
        words = change(choose, changed, choose.choice(names)) if names else ""
        changed.changes += [words] if words else []
    return right, changed
