"""Attention nodes at random: right ones, and ones over caches of which something contradicts the rest."""

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
    scores: bool = False  # whether scores are an output, the last one
    changes: list[str] = dataclasses.field(default_factory=list)  # what contradicts the rest, for messages

    @property
    def outputs(self) -> list[str]:
        caches = ["present"] if self.operator == "Attention" else ["present_key", "present_value"]
        return ["y", *(caches if self.presents else []), *(["scores"] if self.scores else [])]

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
        outputs: Any = self.outputs
        if self.scores:  # whose type ONNX Runtime does not infer
            first = next(iter(self.feed.values()))
            kinds = {name: self.feed.get(name.replace("present", "past"), first).dtype for name in outputs}
            outputs = {name: helper.np_dtype_to_tensor_dtype(kind) for name, kind in kinds.items()}
        made: bytes = models.model([node], inputs, outputs, opset=self.opset).SerializeToString()
        return made

    def counted(self, results: list[Array]) -> list[Array]:
        """Without what may be anything: rows behind a sequence's keys, tokens of prompts behind a sequence's end."""
        feed, found = self.feed, list(results)
        if self.operator == "GroupQueryAttention":
            ends = feed["seqlens_k"].reshape(-1).astype(int) + 1
            tokens = feed["query"].shape[1]
            rows = (
                np.arange(tokens)[None] < np.maximum(ends, 1)[:, None] if tokens > 1 else np.ones((len(ends), 1), bool)
            )
            found[0] = np.where(rows[:, :, None], found[0], 0)
            for index in range(1, 3 if self.presents else 1):
                keys = np.arange(found[index].shape[2])[None] < ends[:, None]
                found[index] = np.where(keys[:, None, :, None], found[index], 0)
        elif "past_length" in feed:
            end = int(feed["past_length"].reshape(-1)[0]) + feed["query"].shape[1]
            found[1:3] = [each[:, :, :end] for each in found[1:3]]
        return found

    def difference(self, found: list[Array], wanted: list[Array]) -> str:
        """What results have otherwise than others; empty: they are alike."""
        if [each.shape for each in found] != [each.shape for each in wanted]:
            return f"shapes {[each.shape for each in found]}, not {[each.shape for each in wanted]}"
        for index, (a, b) in enumerate(zip(self.counted(found), self.counted(wanted), strict=True)):
            tolerance = 2e-2 if a.dtype == np.float16 else 1 if a.dtype.kind == "i" else 5e-4
            if a.dtype != b.dtype or not np.allclose(a.astype(float), b.astype(float), rtol=tolerance, atol=tolerance):
                return f"output {index} differs by {np.nanmax(np.abs(a.astype(float) - b.astype(float)))}"
        return ""

    @property
    def label(self) -> str:
        given = ", ".join(
            f"{name} {array.dtype}{list(array.shape)}" + (f"={array.tolist()}" if array.dtype.kind == "i" else "")
            for name, array in self.feed.items()
        )
        label = f"{self.operator}({given}) {self.attributes} presents {self.presents}: {'; '.join(self.changes)}"
        return label if len(label) < 900 else f"{label[:700]} … {label[-190:]}"


class _Draw:
    """Random choices of a node.

    Args:
        is_whole: whether it may have what contradictions of caches leave out: widths, masks, scores and so on.
    """

    def __init__(self, choose: random.Random, numbers: np.random.Generator, *, is_whole: bool = False) -> None:
        self.choose, self.numbers, self.is_whole = choose, numbers, is_whole
        self.batch, self.size = choose.randint(1, 3), choose.choice((16, 32))
        self.key_heads, self.past = choose.randint(1, 2), choose.choice((0, 3, 6))
        self.dtype = np.dtype(choose.choice((np.float32, np.float32, np.float32, np.float16)))

    def chance(self, likely: float) -> bool:
        return self.choose.random() < likely

    def maybe(self, likely: float, **attributes: Any) -> dict[str, Any]:
        return attributes if self.chance(likely) else {}

    def width(self) -> int:
        """Of a head's values, where no cache asks for that of its keys."""
        return self.choose.choice((self.size, 5)) if self.is_whole and not self.past else self.size

    def ends(self, own: int, *, has_starts: bool = False) -> Array:
        """A mask of how many keys each sequence has, and perhaps of the first that counts."""
        found = self.integers(1, own + 1, self.batch)
        return np.concatenate([found, self.integers(0, own, self.batch)]) if has_starts and self.chance(0.5) else found

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
    form = Form("GroupQueryAttention", attributes, feed, presents=d.chance(0.75))
    if d.is_whole:
        attributes |= d.maybe(0.3, scale=0.2) | d.maybe(0.3, softcap=0.7)
        attributes |= d.maybe(0.3, rotary_interleaved=1) if "do_rotary" in attributes else {}
        attributes |= d.maybe(0.3, smooth_softmax=1) if "sink" not in feed else {}
        form.presents, form.scores = True, d.chance(0.4)
        attributes |= {"qk_output": d.choose.randint(1, 2)} if form.scores else {}
    return form


def _multi_head(d: _Draw) -> Form:
    heads, batch, size = d.key_heads, d.batch, d.size
    tokens, hidden, width = d.choose.choice((1, 1, 2, 4)), d.key_heads * d.size, d.width()
    own = d.choose.randint(1, 9) if d.is_whole and not d.past else tokens
    sizes = {"query": (tokens, size), "key": (own, size), "value": (own, width)}
    feed = {name: d.normal(batch, rows, heads * wide) for name, (rows, wide) in sizes.items()}
    attributes: dict[str, Any] = {"num_heads": heads}
    is_told, is_masked = d.past > 0 and d.chance(0.5), d.chance(0.4)
    is_told = is_told and size % 2 == 0  # others are not appended to where they lie
    total = d.past + own
    room = total + d.choose.randint(0, 3) if is_told else d.past
    if d.past or (d.chance(0.3) and not d.is_whole):
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
        feed["all_bias"] = d.normal(2 * hidden + heads * width)
    form = Form("MultiHeadAttention", attributes, feed, presents=d.chance(0.75) or is_told)
    if d.is_whole:
        attributes |= d.maybe(0.3, scale=0.4) | d.maybe(0.3, mask_filter_value=-3e3)
        attributes |= d.maybe(0.5, unidirectional=1) if own == tokens else {}
        if not d.past and d.chance(0.5):
            feed["mask"] = d.ends(own) if d.chance(0.5) else d.integers(0, 2, batch, tokens, total)
        form.presents = form.presents or bool(d.past)
        form.scores = form.presents and not is_told and d.chance(0.5)
        if not d.past and d.chance(0.2):  # keys and values of an encoder
            other = {name: d.normal(batch, heads, own, size) for name in ("key", "value")}
            return Form(form.operator, {"num_heads": heads}, {"query": feed["query"], **other}, presents=False)
    return form


def _decoder_masked(d: _Draw) -> Form:
    form = _multi_head(d)
    d.past = past = d.choose.randint(1, 6)
    feed, heads, hidden = form.feed, form.attributes["num_heads"], form.feed["query"].shape[2]
    d.dtype, room = np.dtype(np.float32), past + d.choose.randint(1, 4)
    room += d.choose.choice((0, 34, 560)) if d.is_whole else 0
    beams = d.choose.choice([each for each in (1, 2, d.batch) if d.batch % each == 0]) if d.is_whole else d.batch
    feed = {name: d.normal(d.batch, 1, hidden) for name in ("query", "key", "value")}
    feed |= {f"past_{role}": d.normal(d.batch, heads, room, d.size) for role in ("key", "value")}
    feed["past_length"] = np.array([past], np.int32)
    if d.chance(0.4):
        feed["mask"] = d.integers(0, 2, d.batch, past + 1)
    if d.chance(0.3):
        feed["bias"] = d.normal(1, heads, 1, past + 1)
    if d.chance(0.3):
        feed |= {"width": np.array([beams], np.int32), "beams": d.integers(0, beams, d.batch // beams, beams, room)}
    attributes = {"num_heads": heads, "past_present_share_buffer": 1}
    form = Form("DecoderMaskedMultiHeadAttention", attributes, feed, presents=True)
    if d.is_whole:
        feed |= {"all_bias": d.normal(3 * hidden)} if d.chance(0.4) else {}
        form.scores = d.chance(0.5)
        attributes["output_qk"] = int(form.scores)
    return form


def _of_projections(d: _Draw) -> Form:
    heads, hidden, tokens, width = d.key_heads, d.key_heads * d.size, d.choose.randint(1, 4), d.width()
    d.dtype, whole = np.dtype(np.float32), 2 * hidden + heads * width
    feed = {"input": d.normal(d.batch, tokens, 8), "weights": d.normal(8, whole), "all_bias": d.normal(whole)}
    if d.past:
        feed["past"] = d.normal(2, d.batch, heads, d.past, d.size)
    if d.chance(0.4):
        shapes = ((d.batch, d.past + tokens), (d.batch, tokens, d.past + tokens))
        feed["mask"] = d.integers(0, 2, *d.choose.choice(shapes))
    if d.chance(0.3) and not d.past:
        feed["bias"] = d.normal(d.choose.choice((1, d.batch)), d.choose.choice((1, heads)), tokens, tokens)
    form = Form("Attention", {"num_heads": heads}, feed, presents=d.chance(0.75) or bool(d.past))
    if d.is_whole:
        form.attributes |= {"qkv_hidden_sizes": [hidden, hidden, heads * width]} | d.maybe(0.5, unidirectional=1)
        form.presents = bool(d.past)
        if not d.past and d.chance(0.3):
            feed["mask"] = d.ends(tokens, has_starts=True)
    return form


def _of_onnx(d: _Draw) -> Form:
    heads, size, value_size = d.key_heads * d.choose.randint(1, 2), d.size, d.choose.choice((d.size, 8))
    tokens, own = d.choose.choice((1, 1, 2, 4)), d.choose.choice((1, 2, 4))
    if d.is_whole:
        own, value_size = d.choose.randint(1, 9), d.choose.choice((size, 5))
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
    if d.chance(0.3) and (d.is_whole or (own == tokens and not past)):  # others ONNX Runtime aligns unlike ONNX
        attributes["is_causal"] = 1
    form = Form("ai.onnx.Attention", attributes, feed, d.chance(0.75) and "past_key" in feed, opset)
    if d.is_whole:
        form.presents, form.scores = "past_key" in feed, d.chance(0.4)
        if opset == 24 and "mask" in feed and "nonpad" not in feed and past + own > 2:
            feed["mask"] = feed["mask"][..., : past + own - d.choose.choice((0, 2))]
        attributes |= d.maybe(0.3, softcap=0.7)
        if form.scores:  # the evaluator gives capped scores where those of the product are asked for
            attributes["qk_matmul_output_mode"] = d.choose.randint(1 if "softcap" in attributes else 0, 3)
    return form


_RECIPES: tuple[Callable[[_Draw], Form], ...] = (
    *(_group_query, _group_query, _multi_head, _decoder_masked, _of_projections, _of_onnx),
)


def whole_form(operator: str, seed: int) -> Form:
    """A right form of an operator, with all that it may have."""
    draw = _Draw(random.Random(f"{operator} {seed}"), np.random.default_rng(seed), is_whole=True)
    draw.dtype = np.dtype(np.float32)
    if operator == "GroupQueryAttention":
        draw.size, draw.past = 16, draw.choose.choice((0, 4, 9, 300))
        draw.dtype = np.dtype(draw.choose.choice((np.float32, np.float32, np.float16)))
    elif operator != "DecoderMaskedMultiHeadAttention":  # which ONNX Runtime has for few widths
        draw.size = draw.choose.choice((1, 3, 8))
    return dict(zip(NAMES, _RECIPES[1:], strict=True))[operator](draw)


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
