"""Random attention over caches; any number of them: ``python -m tests.attack --only decoder``.

A text comes in parts, by one session whose sizes are open: batches of several lengths, numbers of tokens that count,
caches that grow, are shared or hold a window only, windows, softcap, sinks, angles, biases, integers in caches, scores
as an output. Each part must be what ONNX Runtime gives, and have the bits of the whole text at once, alone, of a
session for these sizes alone, and of caches on the device.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.bound_caches import CACHES, PRESENTS, bound

Array = npt.NDArray[Any]
Feed = dict[str, Array]

_PAST, _SCALES = [*CACHES, "ends", "total", "cos", "sin"], ["k_scale", "v_scale"]
_ORDER = ["q", "k", "v", *_PAST, "", "bias", "sink", *_SCALES, "", "", "counts"]
_PLACES = 600


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A node, a text for each sequence, and how it comes."""

    label: str  # what it is
    attributes: dict[str, Any]  # of the node
    tokens: dict[str, Array]  # queries, keys and values: sequences, tokens, heads * size
    steady: Feed  # inputs that are the same in every run
    bias: Array | None  # what is added to scores, of the whole text: 1 or sequences, heads or 1, tokens, keys
    # how many tokens of each sequence come together; from the second part on as many of each, where nothing counts them
    parts: list[list[int]]
    are_counted: bool  # whether an input says how many those are
    room: int  # rows of caches that are shared; 0: they grow
    line: int  # elements of a head in the caches
    cached: np.dtype[Any]  # their type

    @property
    def outputs(self) -> list[str]:
        return ["y", *PRESENTS, *(["scores"] if self.attributes.get("qk_output") else [])]

    def rows(self, length: int) -> int:
        """How many keys of a text the caches hold: where one is too many, all but the window go."""
        if "sliding_window_cache" not in self.attributes or length <= self.room:
            return length
        window: int = self.attributes["local_window_size"]
        return window + (length - self.room - 1) % (self.room - window + 1)

    def empty(self, batch: int) -> Feed:
        """Caches without a row that counts."""
        shape = (batch, self.attributes["kv_num_heads"], self.room, self.line)
        fill = 8 | 8 << 4 if self.cached == np.uint8 else 0
        return {name: np.full(shape, fill, self.cached) for name in CACHES}

    def model(self, feed: Feed, *, is_open: bool) -> onnx.ModelProto:
        """The node, for all sizes or for those of a feed alone."""
        axes: dict[str, Any] = {}
        if is_open:
            axes = {name: ("b", "t", feed[name].shape[2]) for name in "qkv" if name in feed}
            rows = self.room or "p"
            axes |= dict.fromkeys(CACHES, ("b", feed["past_key"].shape[1], rows, self.line))
            axes |= {"ends": ("b",), "counts": ("b",)}
            if self.bias is not None:
                axes |= {
                    "bias": (*("b" if size > 1 else 1 for size in self.bias.shape[:1]), self.bias.shape[1], "t", "a")
                }
        order = models.in_order(_ORDER, feed)
        node = helper.make_node("GroupQueryAttention", order, self.outputs, domain="com.microsoft", **self.attributes)
        inputs = {
            name: (helper.np_dtype_to_tensor_dtype(array.dtype), axes.get(name, array.shape))
            for name, array in feed.items()
        }
        kinds = dict.fromkeys(self.outputs, helper.np_dtype_to_tensor_dtype(self.tokens["q"].dtype))
        kinds |= dict.fromkeys(PRESENTS, helper.np_dtype_to_tensor_dtype(self.cached))
        return models.model([node], inputs, kinds)


def drawn(seed: int, number: int) -> Decoder:
    choose, numbers = random.Random(f"{seed} {number}"), np.random.default_rng([seed, number])
    batch = choose.choice((1, 1, 1, 2, 3))
    key_heads, group, size = choose.randint(1, 2), choose.choice((1, 2, 3, 4)), choose.choice((16, 32, 64, 80, 128))
    dtype = np.dtype(choose.choice((np.float32, np.float32, np.float16)))
    parts, are_counted = [[choose.choice((1, 2, 5, 8, 17, 255, 256, 300)) for _ in range(batch)]], choose.random() < 0.3
    for _ in range(choose.randint(2, 4)):
        count = choose.choice((1, 1, 1, 2, 7)) if batch == 1 else 1
        parts.append([count, *(choose.randint(0, 4) if are_counted else count for _ in range(batch - 1))])
    whole = sum(map(max, parts))
    room = whole + choose.choice((0, 1, 60)) if are_counted or choose.random() < 0.5 else 0
    attributes: dict[str, Any] = {"num_heads": key_heads * group, "kv_num_heads": key_heads}
    steady: Feed = {}
    if choose.random() < 0.5:
        angles = numbers.uniform(-3, 3, (_PLACES, size // 2))
        steady |= {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}
        attributes |= {"do_rotary": 1, "rotary_interleaved": choose.randint(0, 1)}
    if choose.random() < 0.3:
        attributes["local_window_size"] = window = choose.choice((1, 4, 31, 256))
        if (batch == 1 or are_counted) and choose.random() < 0.5:
            attributes["sliding_window_cache"], room = 1, window + choose.choice((0, 1, 3))
    if choose.random() < 0.3:
        attributes["softcap"] = 2.0
    if choose.random() < 0.25:
        steady["sink"] = numbers.standard_normal(key_heads * group).astype(dtype)
    elif choose.random() < 0.2:
        attributes["smooth_softmax"] = 1
    line, cached = size, dtype
    if choose.random() < 0.25 and size % 8 == 0:
        bits, kind = choose.choice((4, 8)), choose.choice(("PER_TENSOR", "PER_CHANNEL"))
        if "sliding_window_cache" in attributes and size % 32:
            bits = 8  # ONNX Runtime has no others for such heads
        line, cached = (size // 2, np.dtype(np.uint8)) if bits == 4 else (size, np.dtype(np.int8))
        attributes |= {"kv_cache_bit_width": bits, "k_quant_type": kind, "v_quant_type": kind}
        shape = (1,) if kind == "PER_TENSOR" else (1, key_heads, 1, size)
        for name in ("k_scale", "v_scale"):
            steady[name] = (numbers.uniform(0.5, 1, shape) * (0.4 if bits == 4 else 0.03)).astype(np.float32)
    elif choose.random() < 0.2 and not are_counted and "sliding_window_cache" not in attributes:
        attributes["qk_output"] = choose.randint(1, 2)
    bias = None
    if choose.random() < 0.25:
        texts = batch if are_counted else choose.choice((1, batch))
        sizes = (texts, choose.choice((1, key_heads * group)), whole, max(whole, room))
        bias = numbers.standard_normal(sizes).astype(dtype)
    tokens = {
        name: numbers.standard_normal((batch, whole, heads * size)).astype(dtype)
        for name, heads in (("q", key_heads * group), ("k", key_heads), ("v", key_heads))
    }
    label = f"{seed} {number}: {dtype} {parts}{' counted' * are_counted}, heads of {size}, room {room}, {attributes}"
    label += f", {sorted(steady)}" + ("" if bias is None else f", bias {bias.shape}")
    return Decoder(label, attributes, tokens, steady, bias, parts, are_counted, room, line, cached)


def _fed(decoder: Decoder, caches: Feed, sequences: list[int], firsts: list[int], part: list[int]) -> Feed:
    lengths, count = [first + own for first, own in zip(firsts, part, strict=True)], max(part)
    total = max(*lengths, decoder.room if decoder.are_counted else 0)
    feed: Feed = {
        name: np.stack([array[row, first : first + count] for row, first in zip(sequences, firsts, strict=True)])
        for name, array in decoder.tokens.items()
    }
    feed |= {**caches, "ends": np.array(lengths, np.int32) - 1, "total": np.array([total], np.int32), **decoder.steady}
    if decoder.are_counted:
        feed["counts"] = np.array(part, np.int32)
    if decoder.bias is not None:
        own = decoder.bias
        rows = [
            own[row % len(own), :, first : first + count, :total] for row, first in zip(sequences, firsts, strict=True)
        ]
        feed["bias"] = np.stack(rows[:1] if len(own) == 1 else rows)
    return feed


def _counted(decoder: Decoder, results: list[Array], lengths: list[int], part: list[int]) -> list[Array]:
    """What counts of results: tokens of each sequence, and rows of its keys."""
    found = [results[0][index, :count] for index, count in enumerate(part)]
    found += [results[place][index, :, : decoder.rows(own)] for place in (1, 2) for index, own in enumerate(lengths)]
    if len(results) > 3:
        found += [results[3][index, :, :count] for index, count in enumerate(part)]
    return found


def faults_of(decoder: Decoder, device: dml.Device) -> list[str]:
    """What is wrong, one line each."""
    faults, batch = [], len(decoder.parts[0])
    caches, lengths = decoder.empty(batch), [0] * batch
    there = {name: ort.OrtValue.ortvalue_from_numpy(array, "dml") for name, array in caches.items() if decoder.room}
    session: ort.InferenceSession | None = None
    reference: onnxruntime.InferenceSession | None = None
    made: list[list[Array]] = [[] for _ in range(batch)]
    for number, part in enumerate(decoder.parts):
        if decoder.bias is not None and len(set(lengths)) > 1 and len(decoder.bias) == 1:
            break  # a row of the bias would be that of several places
        feed = _fed(decoder, caches, list(range(batch)), lengths, part)
        lengths = [first + own for first, own in zip(lengths, part, strict=True)]
        if session is None or reference is None:
            proto = decoder.model(feed, is_open=True)
            session = ort.InferenceSession(proto, device=device, strict=True)
            reference = models.onnx_runtime(proto)
        found, wanted = (list(map(np.asarray, each.run(None, feed))) for each in (session, reference))
        with ort.InferenceSession(decoder.model(feed, is_open=False), device=device, strict=True) as own:
            others = {"alone": [np.asarray(array) for array in own.run(None, feed)]}
        if there:
            binding = bound(session, {name: feed[name] for name in feed if name not in CACHES}, there, are_shared=True)
            binding.run()
            others["on the device"] = [binding.get_outputs()[0].numpy(), *(there[name].numpy() for name in CACHES)]
        counted, expected = (_counted(decoder, each, lengths, part) for each in (found, wanted))
        for where, results in others.items():
            for place, (a, b) in enumerate(zip(counted, _counted(decoder, results, lengths, part), strict=False)):
                if a.tobytes() != b.tobytes():
                    faults.append(f"part {number}, {place}: other bits than {where}")
        for place, (a, b) in enumerate(zip(counted, expected, strict=True)):
            if a.shape != b.shape or not _near(a, b, decoder.cached):
                faults.append(f"part {number}, {place}: {a.shape} is not ONNX Runtime's {b.shape}, by {_apart(a, b)}")
        for sequence in range(batch):
            made[sequence].append(found[0][sequence, : part[sequence]])
        caches = dict(zip(CACHES, found[1:3], strict=True))
    else:
        faults += [fault for sequence in range(batch) if (fault := _at_once(decoder, device, sequence, made[sequence]))]
    return [f"{decoder.label}: {fault}" for fault in faults]


def _at_once(decoder: Decoder, device: dml.Device, sequence: int, parts: list[Array]) -> str:
    """Whether the whole text of a sequence has the bits of its parts."""
    feed = _fed(decoder, decoder.empty(1), [sequence], [0], [sum(map(len, parts))])
    with ort.InferenceSession(decoder.model(feed, is_open=False), device=device, strict=True) as session:
        whole = np.asarray(session.run(["y"], feed)[0])
    if whole[0].tobytes() == np.concatenate(parts).tobytes():
        return ""
    places = np.nonzero((whole[0] != np.concatenate(parts)).any(axis=1))[0]
    return f"sequence {sequence}: tokens {places[:5]} have other bits in parts than at once"


def _near(a: Array, b: Array, cached: np.dtype[Any]) -> bool:
    """Whether results are alike; of what integers in caches stand for, numbers next to halves may be one off."""
    if a.dtype.kind != "f":
        nibbles = [(np.concatenate([each & 15, each >> 4]) if each.dtype == np.uint8 else each) for each in (a, b)]
        return bool((np.abs(nibbles[0].astype(int) - nibbles[1].astype(int)) <= 1).all())
    tolerance = (6e-2 if cached == np.uint8 else 2e-2) if a.dtype == np.float16 else 5e-4
    near = np.isclose(a.astype(float), b.astype(float), rtol=tolerance, atol=tolerance)
    return bool(near.sum() >= 0.98 * near.size if cached.kind in "iu" else near.all())


def _apart(a: Array, b: Array) -> float:
    return float(np.abs(a.astype(float) - b.astype(float)).max()) if a.shape == b.shape else float("nan")
