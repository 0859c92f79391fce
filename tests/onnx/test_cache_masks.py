"""Masks, windows and joins of caches: one plan for all lengths, and the bits of each length alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.plan.segments import Segment
from tests.counted_calls import calls_of
from tests.onnx import models
from tests.onnx.bound_caches import CACHES, PRESENTS, bound
from tests.onnx.masked_caches import (
    BATCH,
    CAPACITY,
    FORMS,
    HEADS,
    HIDDEN,
    JOINED,
    OF_DEVICE,
    OUTPUTS,
    SIZE,
    Array,
    Form,
)
from tests.targets import most_plans

_ALL = FORMS | OF_DEVICE | JOINED


def _texts(steps: list[list[Array]]) -> Array:
    return np.concatenate([y for y, *_ in steps], axis=1)


@pytest.mark.parametrize("name", _ALL)
def test_a_length_is_in_no_plan_and_no_recording(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    recorded = calls_of(monkeypatch, any_device.engine, "record")
    form, parts = _ALL[name], [5, *[1] * 12]
    model = form.model()
    session = ort.InferenceSession(model, device=any_device)
    made = form.steps(session, parts)
    planned = len(plans)
    # A prompt, and a token; where shapes of caches are read, the prompt without any has rounds of its own.
    assert planned <= most_plans(any_device, 4 if "by the caches" in name or name in JOINED else 2)
    expected = form.steps(models.onnx_runtime(model), parts)
    y = _texts(made)
    np.testing.assert_allclose(y[:, 2:], _texts(expected)[:, 2:], rtol=2e-5, atol=2e-5)  # hidden queries see nothing
    rows = sum(parts)
    for got, wanted in zip(made[-1][1:], expected[-1][1:], strict=True):
        np.testing.assert_allclose(got[:, :, :rows], wanted[:, :, :rows], rtol=2e-5, atol=2e-5)
    for steps, most in ((12, 8), (30, 4)):  # for the room and the memory of other caches
        before = len(plans) + len(recorded)
        bound_y = np.concatenate(form.bound_steps(session, [5, *[1] * steps]), axis=1)
        assert bound_y[:, : y.shape[1]].tobytes() == y.tobytes()
        assert len(plans) + len(recorded) - before <= most


@pytest.mark.parametrize("name", OF_DEVICE | JOINED)
def test_results_have_the_bits_of_plans_for_their_lengths_alone(any_device: dml.Device, name: str) -> None:
    form, parts, total = _ALL[name], [5, 1, 1, 3, 1], 0
    made = form.steps(ort.InferenceSession(form.model(), device=any_device), parts)
    caches = form.empty()
    for part, (tokens, feed) in enumerate(zip(parts, form.feeds(parts), strict=True)):
        total += tokens
        alone = ort.InferenceSession(form.model(BATCH, tokens, total), device=any_device)
        for output, got, wanted in zip(OUTPUTS, made[part], alone.run(OUTPUTS, {**feed, **caches}), strict=True):
            assert got.tobytes() == wanted.tobytes(), f"{output} of part {part} has other bits than planned alone"
        caches = dict(zip(CACHES, made[part][1:], strict=True))


def test_a_mask_of_what_stands_before_gives_the_bits_of_no_mask(device: dml.Device) -> None:
    parts = [5, 1, 2, 1]
    y, expected = (
        _texts(form.steps(ort.InferenceSession(form.model(), device=device), parts))
        for form in (FORMS["a mask that is made, growing"], FORMS["no mask, ONNX"])
    )
    assert y[0].tobytes() == expected[0].tobytes()  # nothing of the first text is hidden


def test_caches_with_much_room_have_one_plan_too(device: dml.Device) -> None:
    form, parts = FORMS["a mask, shared"], [3, 1, 1, 1]
    with ort.InferenceSession(form.model(), device=device) as session:
        y = _texts(Form(form.op_type, form.order, 9000).steps(session, parts))
        assert session._program.plan_count == 2
        assert _texts(form.steps(session, parts)).tobytes() == y.tobytes()


_OTHER_KEYS = "5 tokens and 1 new ones contradict a mask of 9 keys"

_ROWS = "'past_key' and 'past_value' must have as many sequences, heads and rows; got"

_REFUSED: dict[str, tuple[Form, dict[str, Array], tuple[int, int], str]] = {
    "a mask of other keys": (
        *(FORMS["a mask, shared"], {"mask": np.ones((BATCH, 9), np.int32)}, (CAPACITY, CAPACITY), _OTHER_KEYS),
    ),
    "a mask on the device of other keys": (
        OF_DEVICE["shared, heads"],
        {"attention_mask": np.ones((BATCH, 9), np.int64)},
        (CAPACITY, CAPACITY),
        _OTHER_KEYS,
    ),
    "more than there is room for": (
        FORMS["no mask, shared"],
        {"count": np.array([CAPACITY], np.int32)},
        (CAPACITY, CAPACITY),
        f"{CAPACITY} tokens and 1 new ones do not go into",
    ),
    "less than nothing": (
        *(FORMS["no mask, shared"], {"count": np.array([-1], np.int32)}, (CAPACITY, CAPACITY)),
        "-1 tokens stand before",
    ),
    "keys and values of different rows": (FORMS["a bias, groups"], {}, (CAPACITY, CAPACITY - 1), _ROWS),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_contradicts_is_refused_and_shared_caches_stay(any_device: dml.Device, name: str) -> None:
    form, other, rows, words = _REFUSED[name]
    session = ort.InferenceSession(form.model(), device=any_device)
    feed: dict[str, Any] = form.feeds([5, 1])[1] | other
    values = {
        cache: np.ones((BATCH, HEADS, count, SIZE), np.float32) for cache, count in zip(CACHES, rows, strict=True)
    }
    caches = {cache: ort.OrtValue.ortvalue_from_numpy(array, "dml") for cache, array in values.items()}
    with pytest.raises(dml.DmlError, match=words):
        bound(session, feed, caches, are_shared=True).run()
    assert all(caches[cache].numpy().tobytes() == array.tobytes() for cache, array in values.items())
    with pytest.raises(dml.DmlError, match=words):
        session.run(None, feed | values)


def test_numbers_of_a_mask_up_to_0_hide_a_key(device: dml.Device) -> None:
    form = FORMS["a mask, shared"]
    feed = form.feeds([5, 1])[1] | dict.fromkeys(CACHES, np.ones((BATCH, HEADS, CAPACITY, SIZE), np.float32))
    feed["mask"] = np.array([[1, -1, 2, 1, 0, 1], [-7, 0, 1, 1, 3, 1]], np.int32)
    sessions = ort.InferenceSession(form.model(), device=device), models.onnx_runtime(form.model())
    found, expected = (session.run(None, feed)[0] for session in sessions)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def _fed(step: int, new: int) -> dict[str, Array]:
    random = np.random.default_rng(step)
    return {name: random.standard_normal((BATCH, new, HIDDEN)).astype(np.float32) for name in "qkv"}


def _session(device: dml.Device) -> ort.InferenceSession:
    return ort.InferenceSession(JOINED["joined, products"].model(), device=device)


def test_sizes_that_stay_the_same_on_the_device_are_planned_alone(device: dml.Device) -> None:
    session = _session(device)
    random = np.random.default_rng(1)
    caches = {name: random.standard_normal((BATCH, HEADS, 4, SIZE)).astype(np.float32) for name in CACHES}
    there = {name: ort.OrtValue.ortvalue_from_numpy(array, "dml") for name, array in caches.items()}
    for step in range(3):
        fed = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in _fed(step, 2).items()}
        results = session.run_with_ort_values(["y", "present_key"], fed | there)
        expected = session.run(["y", "present_key"], _fed(step, 2) | caches)
        for result, wanted in zip(results, expected, strict=True):
            assert result.numpy().tobytes() == wanted.tobytes()
    assert len(session._program._dynamic) == 1  # that of the host's arrays


def test_an_array_that_was_closed_is_refused_and_later_runs_go_on(device: dml.Device) -> None:
    session = _session(device)
    for old in (4, 6, 5, 7):
        caches = {name: device.array(np.ones((BATCH, HEADS, old, SIZE), np.float32)) for name in CACHES}
        fed = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in _fed(old, 2).items()}
        there = {name: ort.OrtValue.ortvalue_from_array(array) for name, array in caches.items()}
        if old == 5:
            caches["past_key"].close()
            with pytest.raises(dml.DmlError, match="closed"):
                session.run_with_ort_values(None, fed | there)
            continue
        present = session.run_with_ort_values(None, fed | there)[1].numpy()
        assert present.shape == (BATCH, HEADS, old + 2, SIZE) and (present[:, :, :old] == 1).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("width", [3, 4096])
def test_an_open_axis_may_be_joined_wherever_it_is_and_however_long_rows_are(
    device: dml.Device, axis: int, width: int
) -> None:
    """Copies that are not small choose the axis of which an invocation takes four elements by its length."""
    shape: list[int | str] = [2, 5, width]
    added = shape.copy()
    shape[axis], added[axis] = "old", "new"
    node = helper.make_node("Concat", ["past", "x"], ["present"], axis=axis)
    model = models.model([node], {"past": shape, "x": added}, ["present"])
    session = ort.InferenceSession(model, device=device)
    random = np.random.default_rng(axis)
    wanted = random.standard_normal([4 if size == "old" else int(size) for size in shape]).astype(np.float32)
    past = ort.OrtValue.ortvalue_from_numpy(wanted, "dml")
    for _ in range(20):
        row = random.standard_normal([2 if size == "new" else int(size) for size in added]).astype(np.float32)
        given = {"past": past, "x": ort.OrtValue.ortvalue_from_numpy(row)}
        (past,) = session.run_with_ort_values(None, given)
        wanted = np.concatenate([wanted, row], axis)
        assert np.array_equal(past.numpy(), wanted)
    assert session._program.plan_count <= 6


_HEADS, _KEY_HEADS, _SIZE, _POSITIONS = 4, 2, 16, 700

_WIDTHS = {"q": _HEADS * _SIZE, "k": _KEY_HEADS * _SIZE, "v": _KEY_HEADS * _SIZE}

_OUTPUTS = ["y", *PRESENTS]


def _angles(rng: np.random.Generator) -> dict[str, Array]:
    angles = rng.standard_normal((_POSITIONS, _SIZE // 2))
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def _attention(inputs: list[str], **attributes: Any) -> onnx.NodeProto:
    order = [*inputs, *CACHES, "ends", "total", "cos", "sin"]
    attributes |= {"num_heads": _HEADS, "kv_num_heads": _KEY_HEADS, "do_rotary": 1}
    return helper.make_node("GroupQueryAttention", order, _OUTPUTS, domain="com.microsoft", **attributes)


def _model(nodes: list[onnx.NodeProto], constants: dict[str, Array]) -> onnx.ModelProto:
    inputs: dict[str, Any] = {name: ["batch", "tokens", width] for name, width in _WIDTHS.items()}
    inputs |= dict.fromkeys(CACHES, ("batch", _KEY_HEADS, "rows", _SIZE))
    inputs |= {"ends": (TensorProto.INT32, ["batch"]), "total": (TensorProto.INT32, [1])}
    return models.model(nodes, inputs, _OUTPUTS, constants)


def _feed(rng: np.random.Generator, batch: int, tokens: int, rows: int, ends: list[int]) -> dict[str, Array]:
    sizes: dict[str, tuple[int, ...]] = {name: (batch, tokens, width) for name, width in _WIDTHS.items()}
    sizes |= dict.fromkeys(CACHES, (batch, _KEY_HEADS, rows, _SIZE))
    feed: dict[str, Array] = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in sizes.items()}
    return feed | {"ends": np.array(ends, np.int32), "total": np.array([max(ends) + 1], np.int32)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_cache_bit_width": 5}, "kv_cache_bit_width must be 4 or 8; got 5"),
        ({"v_quant_type": "NONE"}, "v_quant_type"),
    ],
)
def test_contradictions_are_named(device: dml.Device, change: dict[str, Any], message: str) -> None:
    quantized = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
    node = _attention(["q", "k", "v"], **(quantized | change))
    node.input.extend(["", "", "", "scale", "scale"])
    feed = _feed(np.random.default_rng(1), 1, 5, 24, [4])
    feed |= {cache: feed[cache].astype(np.int8) for cache in CACHES} | {"scale": np.ones(1, np.float32)}
    model = models.model([node], feed, _OUTPUTS, _angles(np.random.default_rng(2)))
    with pytest.raises(dml.DmlError, match=message):
        ort.InferenceSession(model, device=device, strict=True).run(None, feed)


def test_a_window_s_caches_have_one_plan_and_the_bits_of_caches_of_all_keys(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    recorded = calls_of(monkeypatch, any_device.engine, "record")
    rng, window = np.random.default_rng(1), 300
    whole = _feed(rng, 1, 620, 620, [619])
    angles = _angles(rng)

    def run(session: ort.InferenceSession, capacity: int, parts: list[int]) -> Array:
        binding, found, total = session.io_binding(), [], 0
        for role in ("key", "value"):
            shape = (1, _KEY_HEADS, capacity, _SIZE)
            value = ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "dml")
            binding.bind_ortvalue_input(f"past_{role}", value)
            binding.bind_ortvalue_output(f"present_{role}", value)
        binding.bind_output("y")
        for count in parts:
            for name in "qkv":
                binding.bind_cpu_input(name, whole[name][:, total : total + count])
            total += count
            binding.bind_cpu_input("ends", np.array([total - 1], np.int32))
            binding.bind_cpu_input("total", np.array([total], np.int32))
            binding.run()
            found.append(binding.get_outputs()[-1].numpy())
        bits: Array = np.concatenate(found, axis=1).view(np.uint32)
        return bits

    node = _attention(["q", "k", "v"], local_window_size=window)
    with ort.InferenceSession(_model([node], angles), device=any_device, strict=True) as session:
        expected = run(session, 620, [620])
    node.attribute.append(helper.make_attribute("sliding_window_cache", 1))
    with ort.InferenceSession(_model([node], angles), device=any_device, strict=True) as session:
        np.testing.assert_array_equal(run(session, 310, [290, 290] + [1] * 40), expected)
        planned, before = len(plans), len(recorded)
        assert planned == 3  # of caches of all keys; of the prompt, and of a token
        np.testing.assert_array_equal(run(session, 310, [290, 290] + [1] * 40), expected)
        assert len(plans) == planned
        assert len(recorded) - before <= 4  # for the memory of the second call's caches and results
        np.testing.assert_array_equal(run(session, window, [100, 490] + [1] * 30), expected)


def test_queries_and_keys_are_normalized_before_they_are_turned(any_device: dml.Device) -> None:
    rng = np.random.default_rng(0)
    scales = {name: rng.uniform(0.5, 2, _SIZE).astype(np.float32) for name in ("q scale", "k scale")}
    constants = _angles(rng) | scales
    joined = _attention(["q", "k", "v"], q_norm_epsilon=0.5, qk_norm_epsilon=1e-3)
    joined.input.extend(["", "", "", "", "", "q scale", "k scale"])
    parts = []
    for name, epsilon in (("q", 0.5), ("k", 1e-3)):
        constants |= {f"{name} heads": np.array([0, 0, -1, _SIZE]), f"{name} line": np.array([0, 0, -1])}
        parts += [
            helper.make_node("Reshape", [name, f"{name} heads"], [f"{name}1"]),
            helper.make_node(
                "SimplifiedLayerNormalization", [f"{name}1", f"{name} scale"], [f"{name}2"], epsilon=epsilon
            ),
            helper.make_node("Reshape", [f"{name}2", f"{name} line"], [f"{name}3"]),
        ]
    feed = _feed(rng, 1, 3, 5, [7])
    found = ort.InferenceSession(_model([joined], constants), device=any_device).run(None, feed)
    model = _model([*parts, _attention(["q3", "k3", "v"])], constants)
    expected = models.onnx_runtime(model).run(None, feed)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
