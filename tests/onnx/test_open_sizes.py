"""One plan serves many sizes, with the bits of plans for each alone: models, numbers of steps, integers that follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.kernels import access_orders
from dmlvk.onnx.host.evaluation.call import FUNCTIONS
from dmlvk.onnx.host.evaluation.movement import clipped_slice
from dmlvk.onnx.plan.dynamic_rounds import DynamicRounds
from dmlvk.onnx.plan.segments import Segment
from tests.counted_calls import calls_of
from tests.onnx import models, random_decoders
from tests.onnx.models import model
from tests.onnx.open_size_models import MODELS, speaker
from tests.onnx.random_content_models import compared as compared_by_contents
from tests.onnx.random_open_models import case_of, compared

SIZES = {"recognizer": (180, 161, 252, 148, 203, 240)}
"""Of which all lie between two powers of two, and give between 17 and 32 places that text is read from."""


def _of_these_sizes(proto: onnx.ModelProto, feed: dict[str, Any]) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for info in made.graph.input:
        for dimension, size in zip(info.type.tensor_type.shape.dim, feed[info.name].shape, strict=True):
            dimension.dim_value = size
    return made


def _is_open(session: ort.InferenceSession) -> bool:
    return all(made.is_open for made in session._program.last)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "detector"])
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


def test_rounds_that_the_host_goes_on_from_are_planned_for_all_sizes(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = speaker()
    session, random = ort.InferenceSession(proto, device=device), np.random.default_rng(3)
    made = calls_of(monkeypatch, DynamicRounds, "make")
    planned = []
    for size in (40, 57, 36, 64, 33, 47, 52, 44, 61, 39, 50):
        made.clear()
        for _ in range(2):
            feed = {"ids": random.integers(0, 200, size)}
            results = session.run(None, feed)
            assert _is_open(session) and len(session._program.last) > 2
            alone = ort.InferenceSession(_of_these_sizes(proto, feed), device=device).run(None, feed)
            for result, wanted in zip(results, alone, strict=True):
                assert result.tobytes() == wanted.tobytes(), size
        planned.append(len(made))
        assert len(session._program.graphs_of_last()) == len(session._program.last)
    assert sum(planned[:3]) > 3 and not sum(planned[-3:]), planned


def test_nothing_is_compiled_for_a_new_size(device: dml.Device) -> None:
    made = MODELS["recognizer"]
    session = ort.InferenceSession(made.proto(), device=device)
    compiled = []
    for size in SIZES["recognizer"]:
        session.run(None, made.feed(size))
        compiled.append(device.engine.compilations)
    assert len(set(compiled[1:])) == 1, compiled


@pytest.mark.parametrize("is_first_alone", [True, False])
def test_a_shape_among_the_inputs_is_looked_at_in_each_run(any_device: dml.Device, is_first_alone: bool) -> None:
    """However often others came before, and whether what it reshapes has a size that varies."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 6])
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, [2])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Reshape", ["a", "shape"], ["y"])]
    graph = helper.make_graph(nodes, "reshaped", [x, shape], [result])
    opset = [helper.make_opsetid("", 17)]
    session = ort.InferenceSession(helper.make_model(graph, opset_imports=opset).SerializeToString(), device=any_device)
    for rows in (2, 2, 3) if is_first_alone else (2, 3, 4):
        values = np.arange(6 * rows, dtype=np.float32).reshape(rows, 6)
        for sizes in ((3, -1), (-1, 2), (6, -1), (1, -1), (-1, 3), (3, -1)):
            (found,) = session.run(None, {"x": values, "shape": np.array(sizes, np.int64)})
            np.testing.assert_array_equal(found, values.reshape(sizes))
        with pytest.raises(dml.DmlError):
            session.run(None, {"x": values, "shape": np.array([5, 7], np.int64)})


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
    nodes = models.parsed("y = Conv (x, w)")
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
    nodes = models.parsed("y = CumSum (x, axis)")
    proto = model(nodes, {"x": [1, "n"]}, ["y"], {"axis": np.array(1)})
    session = ort.InferenceSession(proto, device=device)
    for size in (1344, 3840, 4096, 3900):
        values = np.random.default_rng(size).standard_normal((1, size)).astype(np.float32)
        (found,) = session.run(None, {"x": values})
        np.testing.assert_allclose(found, np.cumsum(values, 1, np.float64), atol=1e-4)
    assert _is_open(session)


@pytest.mark.parametrize("mask_shape", [None, (1, 5, 5), (5, 5), ("n", 5, 5)], ids=str)
def test_attention_without_heads_has_one_plan_for_all_batches(mask_shape: Any, device: dml.Device) -> None:
    nodes = models.parsed(
        "keys = Transpose <perm = [0, 2, 1]> (x)  scores = MatMul (x, keys)  masked = Add (scores, mask)"
        f" shares = Softmax <axis = -1> ({'masked' if mask_shape else 'scores'})  y = MatMul (shares, x)"
    )
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
    nodes = models.parsed("y = Add (a, b)")
    session = ort.InferenceSession(model(nodes, {"a": ["n", 3], "b": ["m", 3]}, ["y"]), device=device)
    for n, m in ((4, 4), (5, 5), (1, 6), (6, 1), (7, 7), (1, 1)):
        a, b = np.ones((n, 3), np.float32), np.arange(3 * m, dtype=np.float32).reshape(m, 3)
        np.testing.assert_array_equal(session.run(None, {"a": a, "b": b})[0], a + b)
    with pytest.raises(dml.DmlError):
        session.run(None, {"a": np.ones((4, 3), np.float32), "b": np.ones((5, 3), np.float32)})
    np.testing.assert_array_equal(session.run(None, {"a": a, "b": b})[0], a + b)


def test_a_size_whose_name_is_a_sum_is_that_sum_where_it_is_true(device: dml.Device) -> None:
    nodes = models.parsed("joined = Concat <axis = 0> (a, b)  y = Add (joined, c)")
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
    nodes = models.parsed(
        "shape = Shape (x)  count = ReduceProd <keepdims = 0> (shape)  places = Range (zero, count, two)"
        " y = Neg (x)  number = Cast <to = 1> (count)  mean = Div (y, number)"
    )
    constants = {"zero": np.array(0, np.int64), "two": np.array(2, np.int64)}
    outputs = ["shape", "count", "places", "mean"]
    session = ort.InferenceSession(model(nodes, {"x": ["n", 3]}, outputs, constants), device=device)
    for rows in (4, 7, 5, 4, 2):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        shape, count, indices, mean = session.run(None, {"x": x})
        assert (list(shape), int(count), list(indices)) == ([rows, 3], 3 * rows, list(range(0, 3 * rows, 2)))
        np.testing.assert_array_equal(mean, -x / np.float32(3 * rows))
    assert _is_open(session)


@pytest.mark.parametrize("is_inside", [False, True])
def test_what_the_host_computes_of_sizes_may_be_written_to_by_the_caller(device: dml.Device, is_inside: bool) -> None:
    nodes = (
        "zero = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()  count = Size (x)"
        " range = Range (zero, count, one)  places = Cast <to = 1> (range)  y = Add (x, places)"
    )
    inputs, outputs = {"x": ["n"]}, ["range", "places", "y"]
    proto = model(nodes, inputs, outputs)
    if is_inside:
        graph = onnx.GraphProto(name="inside", node=proto.graph.node, output=proto.graph.output)
        choice = helper.make_node("If", ["yes"], [f"{name} of it" for name in outputs])
        choice.attribute.extend(helper.make_attribute(name, graph) for name in ("then_branch", "else_branch"))
        proto = model([choice], inputs | {"yes": (TensorProto.BOOL, [])}, choice.output)
    session = ort.InferenceSession(proto, device=device)
    for count in (5, 5, 5, 6, 5):
        feed = {"x": np.ones(count, np.float32), "yes": np.array(True)}
        results = session.run(None, {name: feed[name] for name in (info.name for info in session.get_inputs())})
        for result, first in zip(results, (0, 0, 1), strict=True):
            assert result.tolist() == list(range(first, first + count))
            result[...] = -7


@pytest.mark.parametrize("is_list", [False, True])
def test_constants_that_pass_the_host_may_be_written_to_by_the_caller(device: dml.Device, is_list: bool) -> None:
    """By a Loop without iterations, and as elements of sequences."""
    nodes = "sum = Add (a, b)  all = SequenceConstruct (sum, a)  y = SequenceAt (all, place)"
    if not is_list:
        body = "body (int64 i, bool go, float[n] v) => (bool on, float[n] w) { on = Identity (go)  w = Add (v, x) }"
        nodes = f"sum = Add (a, b)  y = Loop <body = {body}> (place, , sum)"
    inputs: dict[str, Any] = {"x": ["n"], "place": (TensorProto.INT64, [])}
    constants = {"a": np.array([1, 2], np.float32), "b": np.array([3, 4], np.float32)}
    session = ort.InferenceSession(model(nodes, inputs, {"y": TensorProto.FLOAT}, constants), device=device)
    for _ in range(3):
        feed = {"x": np.ones(2, np.float32), "place": np.array(0)}
        (y,) = session.run(None, {info.name: feed[info.name] for info in session.get_inputs()})
        assert y.tolist() == [4, 6]
        y[...] = -7


def test_a_sequence_waits_while_the_device_computes(device: dml.Device) -> None:
    nodes = (
        "both = SequenceConstruct (x, x)  one = SequenceAt (both, place)  y = Neg (one)  z = SequenceAt (both, place)"
    )
    made = model(nodes, {"x": ["n"], "place": (TensorProto.INT64, [])}, ["y", "both"])
    session = ort.InferenceSession(made, device=device)
    for count in (2, 3, 2):
        y, both = session.run(None, {"x": np.ones(count, np.float32), "place": np.array(1)})
        assert (y.tolist(), [each.tolist() for each in both]) == ([-1] * count, [[1] * count] * 2)


def test_integers_that_decide_are_those_of_the_run(device: dml.Device) -> None:
    nodes = "part = Slice (x, first, last)  best, places = TopK (part, k)"
    inputs = {"x": ["n", "m"], **{name: (TensorProto.INT64, [1]) for name in ("first", "last", "k")}}
    session, random = ort.InferenceSession(model(nodes, inputs, ["best"]), device=device), np.random.default_rng(5)
    for n, first, last, k in (
        *((9, 4, 7, 4), (9, 5, 8, 5), (9, 1, 4, 6), (9, -3, -1, 2), (9, 2, 5, 7), (9, 2, 5, 1), (9, 2, 5, 1)),
        *((9, 3, 7, 8), (12, 3, 7, 8), (15, 3, 7, 8), (15, 3, 7, 1), (19, 3, 7, 1)),
    ):
        x = random.standard_normal((n, 8)).astype(np.float32)
        feed = {"x": x, "first": np.array([first]), "last": np.array([last]), "k": np.array([k])}
        (best,) = session.run(None, feed)
        np.testing.assert_array_equal(best, -np.sort(-x[first:last])[:, :k])
        tensor = session._program.graphs_of_last()[-1].outputs[0].tensor
        assert tensor is not None
        assert tensor.sizes[-2:] == best.shape
    assert _is_open(session), session._program._dynamic.refused


def test_infinity_among_what_the_host_computes_of_sizes_leaves_them_open(device: dml.Device) -> None:
    nodes = (
        "count = Size (x)  places = Range (zero, count, one)  is_near = Less (places, five)"
        " mask = Where (is_near, nothing, lowest)  y = Add (x, mask)"
    )
    constants: dict[str, Any] = {
        "zero": 0,
        "one": 1,
        "five": 5,
        "nothing": np.float32(0),
        "lowest": np.float32(-np.inf),
    }
    session = ort.InferenceSession(model(nodes, {"x": ["n"]}, ["y"], constants), device=device)
    for count in (8, 4, 12):
        x = np.arange(count, dtype=np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.where(x < 5, x, -np.inf))
        assert _is_open(session), session._program._dynamic.refused


def test_rounds_for_sizes_alone_read_what_their_own_run_has_left(device: dml.Device, tmp_path: Any) -> None:
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "times")
    nodes = "total = ReduceSum <keepdims = 1> (x)  found = Unique (total)  y = Add (total, found)"
    session = ort.InferenceSession(model(nodes, {"x": ["n"]}, ["y"]), options, device=device)
    for count in (4, 5, 4, 6, 5):
        x = np.arange(count, dtype=np.float32) + count
        assert session.run(None, {"x": x})[0].tolist() == [2 * x.sum()]
        assert len(session._program.last) == 2 and not _is_open(session)


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
    graph = helper.make_graph(models.parsed("n = SequenceLength (s)"), "g", [taken], [length])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(proto, device=any_device)
    for count in (3, 2):
        (found,) = session.run(None, {"s": [np.ones((2, 2), np.float32)] * count})
        assert int(found) == count


def test_attention_to_a_past_that_is_computed_has_one_plan_for_all_lengths(any_device: dml.Device) -> None:
    text = "past = Neg (before)  y, k, v = Attention <is_causal = 1> (q, q, q, , past, past)"  # so it is no cache
    proto = model(text, {"q": (1, 2, "new", 8), "before": (1, 2, "old", 8)}, ["y"], opset=24)
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


Array = npt.NDArray[Any]

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

_BATCH, _INPUTS, _UNITS = 3, 4, 6

_STEPS = (5, 8, 7, 6, 9, 16, 12, 2, 3, 11)
"""Between 2 and 16: powers of two, and what lies between them; a plan each for 2, up to 4, up to 8, and up to 16."""


def _model(
    op_type: str, direction: str, steps: int | str, *, has_lengths: bool, layout: int = 0, **attributes: Any
) -> onnx.ModelProto:
    random, directions = np.random.default_rng(1), 2 if direction == "bidirectional" else 1
    rows = _GATES[op_type] * _UNITS
    shapes = {"w": (rows, _INPUTS), "r": (rows, _UNITS), "b": (2 * rows,)}
    constants = {name: random.normal(0, 0.5, (directions, *s)).astype(np.float32) for name, s in shapes.items()}
    outputs = ["y", "y_h", "y_c"][: 3 if op_type == "LSTM" else 2]
    names = ["x", "w", "r", "b", *(["lengths"] if has_lengths else [])]
    more: dict[str, Any] = {"layout": 1} if layout else {}
    node = helper.make_node(op_type, names, outputs, direction=direction, hidden_size=_UNITS, **attributes, **more)
    inputs: dict[str, Any] = {"x": _turned([steps, "batch", _INPUTS], layout)}
    if has_lengths:
        inputs["lengths"] = (TensorProto.INT32, ["batch"])
    return models.model([node], inputs, outputs, constants, opset=14)


def _turned(shape: list[Any], layout: int) -> list[Any]:
    return [shape[1], shape[0], shape[2]] if layout else shape


def _feed(steps: int, *, has_lengths: bool, layout: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(steps)
    x = random.standard_normal(_turned([steps, _BATCH, _INPUTS], layout)).astype(np.float32)
    lengths = {"lengths": np.array([steps, 1, max(1, steps - 2)], np.int32)} if has_lengths else {}
    return {"x": x, **lengths}


@pytest.mark.parametrize("has_lengths", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op_type", "attributes"), [("RNN", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {})]
)
def test_steps_have_a_plan_for_each_power_of_two_and_the_bits_of_one_for_them_alone(
    any_device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    op_type: str,
    attributes: dict[str, Any],
    direction: str,
    has_lengths: bool,
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    model = _model(op_type, direction, "steps", has_lengths=has_lengths, **attributes)
    session = ort.InferenceSession(model, device=any_device, strict=True)
    theirs = models.onnx_runtime(model)
    feeds = [_feed(steps, has_lengths=has_lengths) for steps in _STEPS]
    made = [session.run(None, feed) for feed in feeds]
    assert len(plans) == 4, f"{len(plans)} plans for {len(_STEPS)} sizes"
    for steps, feed, results in zip(_STEPS, feeds, made, strict=True):
        alone = _model(op_type, direction, steps, has_lengths=has_lengths, **attributes)
        planned = ort.InferenceSession(alone, device=any_device, strict=True).run(None, feed)
        for number, (got, wanted) in enumerate(zip(results, planned, strict=True)):
            assert got.tobytes() == wanted.tobytes(), f"output {number} of {steps} steps has other bits than alone"
        for got, wanted in zip(results, theirs.run(None, feed), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=f"{steps} steps")


@pytest.mark.parametrize("op_type", list(_GATES))
def test_open_steps_of_sequences_that_come_first(device: dml.Device, op_type: str) -> None:
    model = _model(op_type, "bidirectional", "steps", has_lengths=True, layout=1)
    session = ort.InferenceSession(model, device=device, strict=True)
    for steps in _STEPS:
        feed = _feed(steps, has_lengths=True, layout=1)
        alone = _model(op_type, "bidirectional", steps, has_lengths=True)
        turned = feed | {"x": np.ascontiguousarray(feed["x"].swapaxes(0, 1))}
        expected = ort.InferenceSession(alone, device=device, strict=True).run(None, turned)
        y, *states = session.run(None, feed)
        assert y.tobytes() == expected[0].transpose(2, 0, 1, 3).tobytes(), f"{steps} steps"
        for got, wanted in zip(states, expected[1:], strict=True):
            assert got.tobytes() == wanted.swapaxes(0, 1).tobytes(), f"last states of {steps} steps"
    assert session._program.plan_count == 4


_OF_THREE: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "Add": ([[1, 2, 0]], {}),
    "Sub": ([[1, 2, 3]], {}),
    "Mul": ([[3, 1, 2]], {}),
    "Div": ([[2, 3, 4]], {}),
    "Mod": ([[64, 63, 64]], {}),
    "Max": ([[4, 0, 2]], {}),
    "Min": ([[99, 98, 97]], {}),
    "Neg": ([], {}),
    "Identity": ([], {}),
    "Cast": ([], {"to": TensorProto.INT32}),
    "Equal": ([[3, 3, 4]], {}),
    "Greater": ([[3, 99, 4]], {}),
    "GreaterOrEqual": ([[3, 99, 4]], {}),
    "Less": ([[3, 99, 4]], {}),
    "LessOrEqual": ([[3, 99, 4]], {}),
    "ReduceSum": ([[0]], {"keepdims": 0}),
    "ReduceProd": ([], {"axes": [0], "keepdims": 1}),
    "ReduceMax": ([], {"keepdims": 1}),
    "ReduceMin": ([], {"keepdims": 0}),
    "Reshape": ([[1, 3]], {}),
    "Flatten": ([], {"axis": 0}),
    "Squeeze": ([], {}),
    "Unsqueeze": ([[0, 2]], {}),
    "Transpose": ([], {"perm": [0]}),
    "Expand": ([[2, 1]], {}),
    "Tile": ([[2]], {}),
    "Concat": ([[7]], {"axis": 0}),
    "Split": ([[1, 2]], {"axis": 0}),
    "Slice": ([[-1], [2**63 - 1], [0], [-1]], {}),
    "Gather": ([[2, -3]], {"axis": 0}),
    "Where": ([], {}),
}
"""Further inputs of each operator, whose first one has three sizes; and its attributes."""

_SIZES = ((4, 8, 12), (8, 12, 16), (8, 12, 20))


def model_of(op_type: str) -> onnx.ModelProto:
    """An operator of the shape of x, with numbers that say the shape of another result."""
    more, attributes = _OF_THREE[op_type]
    constants = {f"c{number}": np.array(values, np.int64) for number, values in enumerate(more)}
    given = ["s", *constants]
    if op_type == "Where":
        constants = {"chosen": np.array([True, False, True]), "other": np.array([4, 5, 6], np.int64)}
        given = ["chosen", "s", "other"]
    outputs = ["v", "w"] if op_type == "Split" else ["v"]
    names = {**constants, "flat": np.array([-1], np.int64), "least": np.array([1], np.int64)}
    names |= {"first": np.zeros(3, np.int64), "second": np.ones(3, np.int64)}
    nodes = [
        *models.parsed("s = Shape (x)"),
        helper.make_node(op_type, given, outputs, **attributes),
        *models.parsed(
            "numbers = Cast <to = 7> (v)  row = Reshape (numbers, flat)  shape = Max (row, least)"
            " corner = Slice (x, first, second)  one = Reshape (corner, flat)  filled = Expand (one, shape)"
        ),
    ]
    return models.model(nodes, {"x": ["a", "b", "c"]}, [*outputs, "filled"], names)


def test_every_function_that_knows_sizes_is_tried() -> None:
    assert {name for (_, name), records in FUNCTIONS.items() if any(each.of_sizes for each in records)} == set(
        _OF_THREE
    )


@pytest.mark.parametrize("op_type", _OF_THREE)
def test_one_plan_computes_with_open_sizes_what_onnx_runtime_does(op_type: str, any_device: dml.Device) -> None:
    model = model_of(op_type)
    reference = models.onnx_runtime(model)
    with ort.InferenceSession(model, device=any_device) as session:
        for sizes in _SIZES:
            feed = {"x": np.random.default_rng(sizes).standard_normal(sizes, np.float32)}
            for found, expected in zip(session.run(None, feed), reference.run(None, feed), strict=True):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)
        assert len(session._program._dynamic) == 1


@pytest.mark.parametrize("number", range(12))
def test_random_models_at_sizes_that_follow_each_other(device: dml.Device, number: int) -> None:
    outcome = compared(case_of(7, number), device)
    assert not outcome.faults, "\n".join(outcome.faults)


@pytest.mark.parametrize("number", range(18, 26))
def test_random_models_by_contents_that_follow_each_other(device: dml.Device, number: int) -> None:
    outcome = compared_by_contents(0, number, device)
    assert outcome.runs and not outcome.faults, "\n".join(outcome.faults)


def test_integers_of_one_contents_and_other_shapes_have_plans_apart(device: dml.Device) -> None:
    """Texts, which nothing is open beside, go on behind open sizes."""
    nodes = """
        texts = Cast <to = 8> (x) found = Unique (x) count = Shape (found) shown = Reshape (texts, count)
        sizes = Shape (y) seen = Unsqueeze (sizes, axes) z = Mul (seen, count) doubled = Add (y, y)
    """
    inputs = {"x": ["n"], "y": ["a", "b"], "axes": (TensorProto.INT64, ["r"])}
    outputs = {"shown": TensorProto.STRING, "z": TensorProto.INT64, "doubled": TensorProto.FLOAT}
    session = ort.InferenceSession(model(nodes, inputs, outputs), device=device)
    x, y = np.arange(4, dtype=np.float32), np.ones((3, 5), np.float32)
    for axes, shape in ([0], (1, 2)), ([0, 1], (1, 1, 2)), ([1], (2, 1)), ([0], (1, 2)):
        (z,) = session.run(["z"], {"x": x, "y": y, "axes": np.array(axes)})
        assert z.shape == shape and z.reshape(-1).tolist() == [12, 20]


@pytest.mark.parametrize("number", range(24))  # which have windows and integers in caches, and counts beside both
def test_random_decoders_whose_text_comes_in_parts(any_device: dml.Device, number: int) -> None:
    faults = random_decoders.faults_of(random_decoders.drawn(23, number), any_device)
    assert not faults, "\n".join(faults)
