"""Masks and biases beside caches: one plan for all lengths, as ONNX Runtime has it, whatever holds the caches."""

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

Array = npt.NDArray[Any]

_HEADS, _SIZE, _CAPACITY, _BATCH = 4, 8, 40, 2
_HIDDEN = _HEADS * _SIZE
_OUTPUTS = ["y", *PRESENTS]
_FLOAT, _INT32 = TensorProto.FLOAT, TensorProto.INT32
_EXTRAS: dict[str, tuple[int, list[str | int | None]]] = {
    "mask": (_INT32, ["batch", "all"]),
    "bias": (_FLOAT, [1, 1, "tokens", "all"]),
    "count": (_INT32, [1]),
    "ends": (_INT32, ["batch"]),
    "total": (_INT32, [1]),
    "attention_mask": (TensorProto.INT64, ["batch", "all"]),
}


def _made_mask() -> list[onnx.NodeProto]:
    """As exporters write it: which keys stand before a query, and are not hidden by an attention_mask; ``seen``."""
    node = helper.make_node
    return [
        node("Cast", ["attention_mask"], ["given"], to=TensorProto.BOOL),
        node("Shape", ["q"], ["q_shape"]),
        node("Gather", ["q_shape", "one"], ["tokens"], axis=0),
        node("Shape", ["attention_mask"], ["mask_shape"]),
        node("Gather", ["mask_shape", "one"], ["all"], axis=0),
        node("Sub", ["all", "tokens"], ["past"]),
        node("Range", ["past", "all", "one"], ["rows"]),
        node("Range", ["zero", "all", "one"], ["columns"]),
        node("Unsqueeze", ["rows", "last"], ["queries"]),
        node("Unsqueeze", ["columns", "first"], ["keys"]),
        node("LessOrEqual", ["keys", "queries"], ["before"]),
        node("Unsqueeze", ["given", "middle"], ["wide"]),
        node("And", ["wide", "before"], ["seen"]),
    ]


def _model(op_type: str, order: list[str], made: list[onnx.NodeProto], **attributes: Any) -> onnx.ModelProto:
    domain = "" if op_type == "Attention" else "com.microsoft"
    node = helper.make_node(op_type, order, _OUTPUTS, domain=domain, **attributes)
    read = {name for each in (*made, node) for name in each.input}
    infos: dict[str, tuple[int, list[str | int | None]]]
    infos = dict.fromkeys("qkv", (_FLOAT, ["batch", "tokens", _HIDDEN]))
    infos |= dict.fromkeys(_CACHES, (_FLOAT, ["batch", _HEADS, "rows", _SIZE]))
    infos |= {name: info for name, info in _EXTRAS.items() if name in read}
    constants: dict[str, Array] = {
        "one": np.array(1),
        "zero": np.array(0),
        "last": np.array([1]),
        "first": np.array([0]),
    }
    constants |= {"middle": np.array([1, 2]), "nothing": np.array(0, np.float32), "lowest": np.array(-3e38, np.float32)}
    graph = helper.make_graph(
        [*made, node],
        "masked",
        [helper.make_tensor_value_info(name, *info) for name, info in infos.items()],
        [helper.make_tensor_value_info(name, _FLOAT, None) for name in _OUTPUTS],
        [numpy_helper.from_array(array, name) for name, array in constants.items() if name in read],
    )
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _of_kind(kind: str) -> tuple[onnx.ModelProto, int]:
    """A model, and the rows of its caches; 0: they grow."""
    causal: dict[str, Any] = {"num_heads": _HEADS, "unidirectional": 1}
    as_bias = helper.make_node("Where", ["seen", "nothing", "lowest"], ["hidden"])
    grouped = {"num_heads": _HEADS, "kv_num_heads": _HEADS}
    onnx_s = {"q_num_heads": _HEADS, "kv_num_heads": _HEADS}
    lengths = [
        helper.make_node("ReduceSum", ["attention_mask", "last"], ["sums"], keepdims=0),
        helper.make_node("Sub", ["sums", "one"], ["places"]),
        helper.make_node("Cast", ["places"], ["own ends"], to=_INT32),
        helper.make_node("Cast", ["all"], ["own total"], to=_INT32),
    ]
    behind, before = ["past_key", "past_value", "count"], ["q", "k", "v"]
    kinds: dict[str, tuple[int, Any]] = {
        "a mask, shared": (_CAPACITY, ("MultiHeadAttention", [*before, "", "mask", "", *behind], [], causal)),
        "a bias, shared": (_CAPACITY, ("MultiHeadAttention", [*before, "", "", "bias", *behind], [], causal)),
        "a bias, groups": (
            _CAPACITY,
            ("GroupQueryAttention", [*before, *_CACHES, "ends", "total", "", "", "", "bias"], [], grouped),
        ),
        "a bias that is made, groups": (
            _CAPACITY,
            (
                "GroupQueryAttention",
                [*before, *_CACHES, "own ends", "own total", "", "", "", "hidden"],
                [*_made_mask(), *lengths, as_bias],
                grouped,
            ),
        ),
        "a mask, growing": (0, ("MultiHeadAttention", [*before, "", "mask", "", *_CACHES], [], causal)),
        "a bias that is made, growing": (
            0,
            ("MultiHeadAttention", [*before, "", "", "hidden", *_CACHES], [*_made_mask(), as_bias], causal),
        ),
        "a mask that is made, growing": (0, ("Attention", [*before, "seen", *_CACHES], _made_mask(), onnx_s)),
    }
    rows, (op_type, order, made, attributes) = kinds[kind]
    return _model(op_type, order, made, **attributes), rows


def _feed(model: onnx.ModelProto, whole: dict[str, Array], total: int, tokens: int) -> dict[str, Array]:
    """New tokens of texts of which the second one is filled up at its beginning, by two places that are hidden."""
    seen = np.ones((_BATCH, total), np.int64)
    is_counted = any(node.op_type == "GroupQueryAttention" for node in model.graph.node)
    seen[1, :2] = is_counted
    given = {
        **{name: whole[name][:, total - tokens : total] for name in "qkv"},
        "mask": seen.astype(np.int32),
        "bias": whole["bias"][:, :, total - tokens : total, :total],
        "count": np.array([total - tokens], np.int32),
        "ends": np.full(_BATCH, total - 1, np.int32),
        "total": np.array([total], np.int32),
        "attention_mask": seen,
    }
    return {info.name: given[info.name] for info in model.graph.input if info.name in given}


def _whole() -> dict[str, Array]:
    random, length = np.random.default_rng(7), _CAPACITY
    made = {name: random.standard_normal((_BATCH, length, _HIDDEN)) for name in "qkv"}
    made["bias"] = random.standard_normal((1, 1, length, length))
    return {name: array.astype(np.float32) for name, array in made.items()}


def _steps(session: Any, model: onnx.ModelProto, rows: int, parts: list[int]) -> tuple[Array, Array]:
    """The results of all tokens, run in parts on arrays of the host; and the keys in the end."""
    whole, total, found = _whole(), 0, []
    caches = dict.fromkeys(_CACHES, np.zeros((_BATCH, _HEADS, rows, _SIZE), np.float32))
    for tokens in parts:
        total += tokens
        y, *presents = session.run(_OUTPUTS, {**_feed(model, whole, total, tokens), **caches})
        caches = dict(zip(_CACHES, presents, strict=True))
        found.append(y)
    return np.concatenate(found, axis=1), caches["past_key"][:, :, :total]


def _bound_steps(session: ort.InferenceSession, model: onnx.ModelProto, rows: int, parts: list[int]) -> Array:
    """The same on caches that stay on the device: shared buffers, or ones that grow."""
    whole = _whole()
    feeds = (_feed(model, whole, sum(parts[: at + 1]), tokens) for at, tokens in enumerate(parts))
    empty = np.zeros((_BATCH, _HEADS, rows, _SIZE), np.float32)
    return np.concatenate(list(bound_steps(session, feeds, empty)), axis=1)


_KINDS = [
    *("a mask, shared", "a bias, shared", "a bias, groups", "a bias that is made, groups"),
    *("a mask, growing", "a bias that is made, growing", "a mask that is made, growing"),
]


@pytest.mark.parametrize("kind", _KINDS)
def test_a_mask_s_length_is_in_no_plan_and_no_recording(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    open_plans = calls_of(monkeypatch, DynamicSegment, "__init__")
    recorded = calls_of(monkeypatch, any_device.engine, "record")
    model, rows = _of_kind(kind)
    session = ort.InferenceSession(model, device=any_device)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    parts = [5, *[1] * 12]
    y, keys = _steps(session, model, rows, parts)
    assert len(plans) + len(open_plans) == 2  # of the prompt, and of a token
    for got, wanted in zip((y, keys), _steps(theirs, model, rows, parts), strict=True):
        got, wanted = (array if array.ndim == 4 else array[:, 2:] for array in (got, wanted))
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)  # who is hidden sees what nobody needs
    made = len(plans) + len(open_plans) + len(recorded)
    assert _bound_steps(session, model, rows, parts).tobytes() == y.tobytes()
    assert len(plans) + len(open_plans) <= 4  # caches that grow have more room on the device
    assert len(plans) + len(open_plans) + len(recorded) - made <= 8
    made = len(plans) + len(open_plans) + len(recorded)
    assert _bound_steps(session, model, rows, [5, *[1] * 30])[:, : y.shape[1]].tobytes() == y.tobytes()
    assert len(plans) + len(open_plans) + len(recorded) - made <= 4  # for the memory of other caches


def test_a_mask_of_what_stands_before_gives_the_bits_of_no_mask(device: dml.Device) -> None:
    model, _ = _of_kind("a mask that is made, growing")
    plain = _model("Attention", ["q", "k", "v", "", *_CACHES], [], q_num_heads=_HEADS, kv_num_heads=_HEADS, is_causal=1)
    parts = [5, 1, 2, 1]
    y, _ = _steps(ort.InferenceSession(model, device=device), model, 0, parts)
    expected, _ = _steps(ort.InferenceSession(plain, device=device), plain, 0, parts)
    assert y[0].tobytes() == expected[0].tobytes()  # nothing of the first text is hidden


def test_caches_with_much_room_have_one_plan_too(device: dml.Device) -> None:
    model, _ = _of_kind("a mask, shared")
    with ort.InferenceSession(model, device=device) as session:
        y, _ = _steps(session, model, 9000, [3, 1, 1, 1])
        assert session._program.plan_count == 2
        assert _steps(session, model, _CAPACITY, [3, 1, 1, 1])[0].tobytes() == y.tobytes()


def test_a_mask_of_other_keys_is_refused_and_shared_caches_stay(any_device: dml.Device) -> None:
    model, rows = _of_kind("a mask, shared")
    session = ort.InferenceSession(model, device=any_device)
    feed = _feed(model, _whole(), 6, 1) | {"mask": np.ones((_BATCH, 9), np.int32)}
    values = np.ones((_BATCH, _HEADS, rows, _SIZE), np.float32)
    caches = {name: ort.OrtValue.ortvalue_from_numpy(values, "dml") for name in _CACHES}
    binding = bound(session, feed, caches, are_shared=True)
    with pytest.raises(dml.DmlError, match="5 tokens and 1 new ones contradict a mask of 9 keys"):
        binding.run()
    assert all(cache.numpy().tobytes() == values.tobytes() for cache in caches.values())


def test_keys_and_values_of_different_rows_are_refused_and_stay(any_device: dml.Device) -> None:
    model, rows = _of_kind("a bias, groups")
    session = ort.InferenceSession(model, device=any_device)
    feed = _feed(model, _whole(), 6, 1)
    of_rows = zip(_CACHES, (rows, rows - 1), strict=True)
    values = {name: np.ones((_BATCH, _HEADS, count, _SIZE), np.float32) for name, count in of_rows}
    caches = {name: ort.OrtValue.ortvalue_from_numpy(array, "dml") for name, array in values.items()}
    binding = bound(session, feed, caches, are_shared=True)
    message = "'past_key' and 'past_value' must have as many sequences, heads and rows; got"
    with pytest.raises(dml.InvalidArgumentError, match=message):
        binding.run()
    assert all(caches[name].numpy().tobytes() == array.tobytes() for name, array in values.items())
    with pytest.raises(dml.InvalidArgumentError, match=message):
        session.run(None, feed | values)


def test_numbers_of_a_mask_up_to_0_hide_a_key(device: dml.Device) -> None:
    model, rows = _of_kind("a mask, shared")
    feed = _feed(model, _whole(), 6, 1) | dict.fromkeys(_CACHES, np.ones((_BATCH, _HEADS, rows, _SIZE), np.float32))
    feed["mask"] = np.array([[1, -1, 2, 1, 0, 1], [-7, 0, 1, 1, 3, 1]], np.int32)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    made, expected = (each.run(None, feed)[0] for each in (ort.InferenceSession(model, device=device), theirs))
    np.testing.assert_allclose(made, expected, rtol=2e-5, atol=2e-5)
