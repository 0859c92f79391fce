"""One plan serves many sizes, with the bits of plans that are made for each of them alone, and compiles nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.kernels import access_orders
from dmlvk.onnx.host.evaluation.movement import clipped_slice
from tests.effort import some
from tests.onnx.models import model
from tests.onnx.open_size_models import MODELS

SIZES = {"recognizer": (180, 161, 252, 148, 203, 240)}
"""Of which all lie between two powers of two, and give between 17 and 32 places that text is read from."""


def _of_these_sizes(proto: onnx.ModelProto, feed: dict[str, Any]) -> onnx.ModelProto:
    """The model for the sizes of its inputs alone."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for info in made.graph.input:
        for dimension, size in zip(info.type.tensor_type.shape.dim, feed[info.name].shape, strict=True):
            dimension.dim_value = size
    return made


def _is_open(session: ort.InferenceSession) -> bool:
    return all(made.is_open for made in session._program.last)


@pytest.mark.parametrize("name", some((name for name in MODELS if name != "detector"), 2))
def test_a_plan_gives_the_bits_of_plans_for_its_sizes_alone(name: str, device: dml.Device) -> None:
    made = MODELS[name]
    proto = made.proto()
    session = ort.InferenceSession(proto, device=device)
    for size in SIZES.get(name, (40, 57, 36, 64, 33, 47)):
        feed = made.feed(size)
        results = session.run(None, feed)
        assert _is_open(session), session._program._dynamic.refused
        alone = ort.InferenceSession(_of_these_sizes(proto, feed), device=device).run(None, feed)
        for result, wanted in zip(results, alone, strict=True):
            assert result.tobytes() == wanted.tobytes(), (name, size)
            assert result.shape == wanted.shape
    assert len(session._program._dynamic) == 1


def test_nothing_is_compiled_for_a_new_size(device: dml.Device) -> None:
    made = MODELS["recognizer"]
    session = ort.InferenceSession(made.proto(), device=device)
    compiled = []
    for size in SIZES["recognizer"]:
        session.run(None, made.feed(size))
        compiled.append(device.engine.compilations)
    assert len(set(compiled[1:])) == 1, compiled


def test_a_loss_of_track_makes_a_plan_for_one_size_and_never_a_wrong_result(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MODELS["recognizer"]

    def forgetting(number: int, count: int) -> bool:
        return int(number) % count == 0

    monkeypatch.setattr(access_orders, "is_multiple", forgetting)
    session = ort.InferenceSession(made.proto(), device=device)
    for number, size in enumerate(SIZES["recognizer"][:3], 1):
        feed = made.feed(size)
        (result,) = session.run(None, feed)
        (last,) = session._program.last
        assert last.guards is not None
        assert any("in forgetting" in location for location in last.guards.locations)
        assert len(session._program._dynamic) == number
        (wanted,) = ort.InferenceSession(_of_these_sizes(made.proto(), feed), device=device).run(None, feed)
        assert result.tobytes() == wanted.tobytes()


def test_a_convolution_has_one_plan_for_pictures_of_all_heights(device: dml.Device) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    proto = model(nodes, {"x": [1, 2, "high", "wide"]}, ["y"], {"w": np.ones((1, 2, 3, 3), np.float32)})
    session = ort.InferenceSession(proto, device=device)
    for height in (34, 38, 42, 46):
        (y,) = session.run(None, {"x": np.ones((1, 2, height, 64), np.float32)})
        np.testing.assert_array_equal(y, np.full((1, 1, height - 2, 62), 18, np.float32))
    assert session._program.plan_count == 1 and _is_open(session)


def test_memory_grows_and_larger_sizes_leave_smaller_ones_what_they_were(device: dml.Device) -> None:
    made = MODELS["bert"]
    session = ort.InferenceSession(made.proto(), device=device)
    first = {size: session.run(None, made.feed(size)) for size in (33, 60, 34, 64, 36)}
    for size, results in first.items():
        for result, again in zip(results, session.run(None, made.feed(size)), strict=True):
            assert result.tobytes() == again.tobytes()
    usage = session.usage
    assert usage.launches > 0
    assert usage.least_bytes <= usage.device_bytes < 4 * usage.least_bytes


def test_memory_grows_where_a_plan_ends_soon(device: dml.Device) -> None:
    """Larger sizes, for which memory is laid out ahead, may be none of the plan's: its divisors may be 0 there."""
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    proto = model(nodes, {"x": [1, "n"]}, ["y"], {"axis": np.array(1)})
    session = ort.InferenceSession(proto, device=device)
    for size in (1344, 3840, 4096, 3900):
        values = np.random.default_rng(size).standard_normal((1, size)).astype(np.float32)
        (found,) = session.run(None, {"x": values})
        np.testing.assert_allclose(found, np.cumsum(values, 1, np.float64), atol=1e-4)
    assert _is_open(session)


@pytest.mark.parametrize("mask_shape", [None, (1, 5, 5), (5, 5), ("n", 5, 5)], ids=str)
def test_attention_without_heads_has_one_plan_for_all_batches(mask_shape: Any, device: dml.Device) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["keys"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "keys"], ["scores"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked" if mask_shape else "scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "x"], ["y"]),
    ]
    inputs = {"x": ["n", 5, 8], "mask": list(mask_shape or [])}
    if mask_shape is None:
        del nodes[2], inputs["mask"]
    session = ort.InferenceSession(model(nodes, inputs, ["y"]), device=device)
    for size in (40, 57, 36, 64, 33, 47):
        random = np.random.default_rng(size)
        x = random.standard_normal((size, 5, 8)).astype(np.float32)
        feed = {"x": x}
        mask = np.zeros((5, 5), np.float32)
        if mask_shape is not None:
            mask = random.standard_normal([size if each == "n" else each for each in mask_shape]).astype(np.float32)
            feed["mask"] = mask
        (found,) = session.run(None, feed)
        shares = np.exp(x.astype(np.float64) @ x.transpose(0, 2, 1) + mask)
        np.testing.assert_allclose(found, shares / shares.sum(-1, keepdims=True) @ x, rtol=1e-5, atol=1e-5)
    assert _is_open(session) and session._program.plan_count <= 2, session._program._dynamic.refused


def test_equal_and_different_sizes_of_one_name_are_different_plans(device: dml.Device) -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    session = ort.InferenceSession(model(nodes, {"a": ["n", 3], "b": ["m", 3]}, ["y"]), device=device)
    for n, m in ((4, 4), (5, 5), (1, 6), (6, 1), (7, 7), (1, 1)):
        a, b = np.ones((n, 3), np.float32), np.arange(3 * m, dtype=np.float32).reshape(m, 3)
        np.testing.assert_array_equal(session.run(None, {"a": a, "b": b})[0], a + b)
    with pytest.raises(dml.DmlError):
        session.run(None, {"a": np.ones((4, 3), np.float32), "b": np.ones((5, 3), np.float32)})
    np.testing.assert_array_equal(session.run(None, {"a": a, "b": b})[0], a + b)


def test_a_size_whose_name_is_a_sum_is_that_sum_where_it_is_true(device: dml.Device) -> None:
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["joined"], axis=0),
        helper.make_node("Add", ["joined", "c"], ["y"]),
    ]
    inputs: dict[str, list[int | str | None]] = {"c": ["n + m", 3], "a": ["n", 3], "b": ["m", 3]}
    session = ort.InferenceSession(model(nodes, inputs, ["y"]), device=device)
    for n, m, rows, plans in ((5, 9, 14, 1), (7, 14, 21, 1), (6, 10, 16, 1), (7, 1, 8, 2), (6, 10, 1, 3), (1, 1, 2, 4)):
        a, b = np.ones((n, 3), np.float32), np.full((m, 3), 2, np.float32)
        c = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        (y,) = session.run(None, {"a": a, "b": b, "c": c})
        np.testing.assert_array_equal(y, np.concatenate([a, b]) + c)
        assert session._program.plan_count == plans
    with pytest.raises(dml.DmlError):
        session.run(None, {"a": a, "b": b, "c": np.ones((9, 3), np.float32)})


def test_results_that_are_sizes_follow_them(device: dml.Device) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ReduceProd", ["shape"], ["count"], keepdims=0),
        helper.make_node("Range", ["zero", "count", "two"], ["places"]),
        helper.make_node("Neg", ["x"], ["y"]),
        helper.make_node("Cast", ["count"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["y", "number"], ["mean"]),
    ]
    constants = {"zero": np.array(0, np.int64), "two": np.array(2, np.int64)}
    outputs = ["shape", "count", "places", "mean"]
    session = ort.InferenceSession(model(nodes, {"x": ["n", 3]}, outputs, constants), device=device)
    for rows in (4, 7, 5, 4, 2):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        shape, count, indices, mean = session.run(None, {"x": x})
        assert (list(shape), int(count), list(indices)) == ([rows, 3], 3 * rows, list(range(0, 3 * rows, 2)))
        np.testing.assert_array_equal(mean, -x / np.float32(3 * rows))
    assert _is_open(session)


def test_pictures_and_profiles_are_of_the_last_sizes(device: dml.Device, tmp_path: Any) -> None:
    made = MODELS["recognizer"]
    session = ort.InferenceSession(made.proto(), device=device)
    session.run(None, made.feed(148))
    (path,) = session.write_picture(tmp_path / "picture.dot")
    assert "[1, 32, 12, 74]" in path.read_text()
    times = session.profile(made.feed(148), repeats=1)
    assert len(times) == session.usage.launches


@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_slices_are_those_of_python_where_bounds_lie_inside(step: int) -> None:
    for size in range(1, 7):
        for start in range(-size, size):
            for end in range(-size, size):
                first, count = clipped_slice(start, end, step, size)
                expected = range(*slice(start, end, step).indices(size))
                assert list(range(first, first + count * step, step)) == list(expected)


def test_a_model_that_takes_a_sequence_runs_whatever_sizes_are_open(any_device: dml.Device) -> None:
    taken = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    length = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    graph = helper.make_graph([helper.make_node("SequenceLength", ["s"], ["n"])], "g", [taken], [length])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(proto, device=any_device)
    for count in (3, 2):
        (found,) = session.run(None, {"s": [np.ones((2, 2), np.float32)] * count})
        assert int(found) == count


def test_attention_to_a_past_that_is_computed_has_one_plan_for_all_lengths(any_device: dml.Device) -> None:
    nodes = [
        helper.make_node("Neg", ["before"], ["past"]),  # so it is no cache
        helper.make_node("Attention", ["q", "q", "q", "", "past", "past"], ["y", "k", "v"], is_causal=1),
    ]
    proto = model(nodes, {"q": (1, 2, "new", 8), "before": (1, 2, "old", 8)}, ["y"], opset=24)
    session = ort.InferenceSession(proto, device=any_device)
    for new, old in ((5, 3), (9, 4), (3, 12)):
        random = np.random.default_rng(new)
        q, before = (random.standard_normal((1, 2, length, 8)).astype(np.float32) for length in (new, old))
        keys = np.concatenate([-before, q], axis=2)
        (found,) = session.run(None, {"q": q, "before": before})
        scores = q @ keys.transpose(0, 1, 3, 2) / np.sqrt(8)
        scores[..., np.arange(new)[:, None] + old < np.arange(new + old)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(found, shares / shares.sum(-1, keepdims=True) @ keys, rtol=1e-4, atol=1e-5)
    assert _is_open(session)
