"""Masks beside caches that only the device makes: one plan for all lengths, with the bits of plans for each alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.plan.dynamic_execution import DynamicSegment
from dmlvk.onnx.plan.execution import Segment
from tests.onnx.bound_caches import CACHES as _CACHES
from tests.onnx.bound_caches import PRESENTS, bound, bound_steps
from tests.onnx.counted_calls import calls_of
from tests.targets import most_plans

Array = npt.NDArray[Any]

_HEADS, _SIZE, _CAPACITY, _BATCH = 4, 8, 40, 2
_HIDDEN = _HEADS * _SIZE
_OUTPUTS = ["y", *PRESENTS]
_FLOAT, _INT32, _INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
_node = helper.make_node

_CONSTANTS: dict[str, Array] = {
    "zero": np.array(0),
    "one": np.array(1),
    "two": np.array(2),
    "first": np.array([0]),
    "last": np.array([1]),
    "middle": np.array([1, 2]),
    "unit": np.array(1, np.float32),
    "nothing": np.array(0, np.float32),
    "lowest": np.array(-3e38, np.float32),
    "slopes": np.array([0.5, 0.25, 0.125, 0.0625], np.float32).reshape(_HEADS, 1, 1),
}

_SEEN = [
    _node("Cast", ["attention_mask"], ["given"], to=TensorProto.BOOL),
    _node("Shape", ["q"], ["q_shape"]),
    _node("Gather", ["q_shape", "one"], ["tokens"], axis=0),
    _node("Range", ["past", "all", "one"], ["rows"]),
    _node("Range", ["zero", "all", "one"], ["columns"]),
    _node("Unsqueeze", ["rows", "last"], ["queries"]),
    _node("Unsqueeze", ["columns", "first"], ["keys"]),
    _node("LessOrEqual", ["keys", "queries"], ["before"]),
    _node("Unsqueeze", ["given", "middle"], ["wide"]),
    _node("And", ["wide", "before"], ["seen"]),
]

_BIAS = [  # farther keys count less, by a logarithm, which no host may compute: its bits would be another processor's
    *_SEEN,
    _node("Where", ["seen", "nothing", "lowest"], ["hidden"]),
    _node("Sub", ["queries", "keys"], ["apart"]),
    _node("Abs", ["apart"], ["distance"]),
    _node("Cast", ["distance"], ["far"], to=_FLOAT),
    _node("Add", ["far", "unit"], ["farther"]),
    _node("Log", ["farther"], ["logarithms"]),
    _node("Mul", ["logarithms", "slopes"], ["slanted"]),
    _node("Sub", ["hidden", "slanted"], ["bias"]),
]

_BY_MASK = [  # how many keys there are, as the attention_mask's shape says
    _node("Shape", ["attention_mask"], ["mask_shape"]),
    _node("Gather", ["mask_shape", "one"], ["all"], axis=0),
    _node("Sub", ["all", "tokens"], ["past"]),
]

_BY_CACHE = [  # as the caches' rows say
    _node("Shape", ["past_key"], ["cache_shape"]),
    _node("Gather", ["cache_shape", "two"], ["past"], axis=0),
    _node("Add", ["past", "tokens"], ["all"]),
]

_LENGTHS = [
    _node("ReduceSum", ["attention_mask", "last"], ["sums"], keepdims=0),
    _node("Sub", ["sums", "one"], ["places"]),
    _node("Cast", ["places"], ["ends"], to=_INT32),
    _node("Cast", ["all"], ["total"], to=_INT32),
]


def _of_kind(kind: str, batch: int | str = "batch", tokens: int | str = "tokens", total: int | str = "all") -> Any:
    """A model, whose sizes are open or given, and the rows of its caches; 0: they grow."""
    before, counted = ["q", "k", "v"], [_SEEN[1], _SEEN[2], *_BY_MASK]
    behind = [_SEEN[0], *_BIAS[3:]]
    causal: dict[str, Any] = {"num_heads": _HEADS, "unidirectional": 1}
    onnx_s = {"q_num_heads": _HEADS, "kv_num_heads": _HEADS}
    grouped = {"num_heads": _HEADS, "kv_num_heads": _HEADS}
    of_groups = [*before, *_CACHES, "ends", "total", "", "", "", "bias"]
    kinds: dict[str, tuple[int, str, list[str], list[onnx.NodeProto], dict[str, Any]]] = {
        "shared, groups": (_CAPACITY, "GroupQueryAttention", of_groups, [*counted, *_LENGTHS, *behind], grouped),
        "shared, heads": (
            _CAPACITY,
            "MultiHeadAttention",
            [*before, "", "", "bias", *_CACHES, "count"],
            [*counted, *behind],
            causal,
        ),
        "growing, heads": (0, "MultiHeadAttention", [*before, "", "", "bias", *_CACHES], [*counted, *behind], causal),
        "growing, ONNX": (0, "Attention", [*before, "bias", *_CACHES], [*counted, *behind], onnx_s),
        "growing, by the caches": (
            0,
            "Attention",
            [*before, "bias", *_CACHES],
            [_SEEN[1], _SEEN[2], *_BY_CACHE, *behind],
            onnx_s,
        ),
    }
    rows, op_type, order, made, attributes = kinds[kind]
    domain = "" if op_type == "Attention" else "com.microsoft"
    node = _node(op_type, order, _OUTPUTS, domain=domain, **attributes)
    read = {name for each in (*made, node) for name in each.input}
    past = "past" if not isinstance(total, int) or not isinstance(tokens, int) else total - tokens
    infos: dict[str, tuple[int, list[Any]]] = dict.fromkeys("qkv", (_FLOAT, [batch, tokens, _HIDDEN]))
    infos |= dict.fromkeys(_CACHES, (_FLOAT, [batch, _HEADS, rows or past, _SIZE]))
    infos |= {"attention_mask": (_INT64, [batch, total]), "count": (_INT32, [1])}
    graph = helper.make_graph(
        [*made, node],
        "masked",
        [helper.make_tensor_value_info(name, *info) for name, info in infos.items() if name in read],
        [helper.make_tensor_value_info(name, _FLOAT, None) for name in _OUTPUTS],
        [numpy_helper.from_array(array, name) for name, array in _CONSTANTS.items() if name in read],
    )
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), rows


def _whole(length: int) -> dict[str, Array]:
    random = np.random.default_rng(7)
    return {name: random.standard_normal((_BATCH, length, _HIDDEN)).astype(np.float32) for name in "qkv"}


def _feeds(model: onnx.ModelProto, parts: list[int]) -> list[dict[str, Array]]:
    """New tokens of texts, part by part."""
    whole, total, feeds = _whole(sum(parts)), 0, []
    names = {info.name for info in model.graph.input} - set(_CACHES)
    for tokens in parts:
        given: dict[str, Array] = {name: whole[name][:, total : total + tokens] for name in "qkv"}
        given |= {"count": np.array([total], np.int32), "attention_mask": np.ones((_BATCH, total + tokens), np.int64)}
        total += tokens
        feeds.append({name: given[name] for name in names})
    return feeds


def _steps(session: Any, model: onnx.ModelProto, rows: int, parts: list[int]) -> list[list[Array]]:
    """The results of each part, on arrays of the host."""
    found = []
    caches = dict.fromkeys(_CACHES, np.zeros((_BATCH, _HEADS, rows, _SIZE), np.float32))
    for feed in _feeds(model, parts):
        y, *presents = session.run(_OUTPUTS, {**feed, **caches})
        found.append([y, *presents])
        caches = dict(zip(_CACHES, presents, strict=True))
    return found


_KINDS = ["shared, groups", "shared, heads", "growing, heads", "growing, ONNX", "growing, by the caches"]


@pytest.mark.parametrize("kind", _KINDS)
def test_nothing_is_planned_from_the_second_length_on(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    open_plans = calls_of(monkeypatch, DynamicSegment, "__init__")
    model, rows = _of_kind(kind)
    session = ort.InferenceSession(model, device=device)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    parts = [5, *[1] * 30]
    made = _steps(session, model, rows, parts)
    count = len(plans) + len(open_plans)
    # A prompt, and a token; where shapes of caches are read, the prompt without any has rounds of its own.
    most = most_plans(device, 4 if kind == "growing, by the caches" else 2)
    assert count <= most, f"{count} plans for {len(parts)} lengths"
    for part, (own, expected) in enumerate(zip(made, _steps(theirs, model, rows, parts), strict=True)):
        for name, got, wanted in zip(_OUTPUTS, own, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5, err_msg=f"{name} of part {part}")
    empty = np.zeros((_BATCH, _HEADS, rows, _SIZE), np.float32)
    on_device = bound_steps(session, _feeds(model, parts), empty)
    differing = [part for part, (a, b) in enumerate(zip(on_device, made, strict=True)) if a.tobytes() != b[0].tobytes()]
    assert not differing, f"on caches that stay on the device parts {differing} have other bits"
    assert len(plans) + len(open_plans) <= count + 2  # for the room of other caches


@pytest.mark.parametrize("kind", _KINDS)
def test_results_have_the_bits_of_plans_for_their_lengths_alone(any_device: dml.Device, kind: str) -> None:
    model, rows = _of_kind(kind)
    parts = [5, 1, 1, 3, 1]
    made = _steps(ort.InferenceSession(model, device=any_device), model, rows, parts)
    caches = dict.fromkeys(_CACHES, np.zeros((_BATCH, _HEADS, rows, _SIZE), np.float32))
    total = 0
    for part, (tokens, feed) in enumerate(zip(parts, _feeds(model, parts), strict=True)):
        total += tokens
        alone, _ = _of_kind(kind, _BATCH, tokens, total)
        expected = ort.InferenceSession(alone, device=any_device).run(_OUTPUTS, {**feed, **caches})
        for name, got, wanted in zip(_OUTPUTS, made[part], expected, strict=True):
            assert got.tobytes() == wanted.tobytes(), f"{name} of part {part} has other bits than planned alone"
        caches = dict(zip(_CACHES, made[part][1:], strict=True))


def test_a_mask_of_other_keys_is_refused_and_shared_caches_stay(any_device: dml.Device) -> None:
    model, rows = _of_kind("shared, heads")
    session = ort.InferenceSession(model, device=any_device)
    values = np.ones((_BATCH, _HEADS, rows, _SIZE), np.float32)
    caches = {name: ort.OrtValue.ortvalue_from_numpy(values, "dml") for name in _CACHES}
    feed = _feeds(model, [5, 1])[1] | {"attention_mask": np.ones((_BATCH, 9), np.int64)}
    binding = bound(session, feed, caches, are_shared=True)
    with pytest.raises(dml.DmlError, match="5 tokens and 1 new ones contradict a mask of 9 keys"):
        binding.run()
    assert all(cache.numpy().tobytes() == values.tobytes() for cache in caches.values())
