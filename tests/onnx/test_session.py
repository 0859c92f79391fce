"""Sessions compute what ONNX says, plan once for each set of shapes, and say where each node runs."""

from __future__ import annotations

import gc
import itertools
import logging
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.graphs.placement import placed
from dmlvk.objects import portable
from tests.counted_calls import calls_of
from tests.onnx.models import assert_same_bits, by_device, by_onnx_runtime, model, parsed, two_branches


def test_a_model_gives_what_its_nodes_say_for_every_size_of_a_symbolic_dimension(device: dml.Device) -> None:
    session = ort.InferenceSession(two_branches(), device=device)
    for rows in (1, 4, 2, 4):
        x = np.linspace(-3, 3, rows * 3, dtype=np.float32).reshape(rows, 3)
        bent = np.maximum(x + np.array([1, -2, 3], np.float32), 0)
        y, z = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, bent.reshape(3, rows))
        np.testing.assert_allclose(z, np.exp(bent.T.astype(np.float64)), rtol=2e-7)


def test_names_are_those_of_onnx_runtime(any_device: dml.Device) -> None:
    session = ort.InferenceSession(two_branches().SerializeToString(), device=any_device, providers=["Any"])
    (argument,) = session.get_inputs()
    assert (argument.name, argument.shape, argument.type) == ("x", ["rows", 3], "tensor(float)")
    assert [argument.name for argument in session.get_outputs()] == ["y", "z"]
    assert session.get_modelmeta().graph_name == "small"
    assert session.get_providers() == ort.get_available_providers() == ["DmlExecutionProvider", "CPUExecutionProvider"]
    (z,) = session.run(["z"], {"x": np.zeros((1, 3), np.float32)})
    assert z.shape == (3, 1)


def test_options_choose_the_arithmetic(device: dml.Device) -> None:
    graph = model("y = MatMul (x, x)", {"x": [5, 5]}, ["y"])
    x = np.arange(25, dtype=np.float32).reshape(5, 5)

    def kernels(session: ort.InferenceSession) -> set[bool]:
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x @ x)
        (graph,) = session._program.graphs_of_last()
        return {step.kernel.variant.endswith(".device") for step in graph.steps}

    assert kernels(ort.InferenceSession(graph, device=device)) == {False}
    assert kernels(ort.InferenceSession(graph, device=device, arithmetic="device")) == {True}
    options = {"arithmetic": "device"}
    assert kernels(ort.InferenceSession(graph, device=device, provider_options=[options])) == {True}
    named = ("DmlExecutionProvider", {**options, "device_id": device.info.index})
    with ort.InferenceSession(graph, providers=[named]) as session:
        assert kernels(session) == {True}
        with pytest.raises(dml.InvalidArgumentError, match=r"cannot be 'portable': the device was opened with"):
            ort.InferenceSession(graph, device=session.device, arithmetic="portable")
    message = r"^InferenceSession: arithmetic must be 'portable' or 'device'; got 'fast'$"
    with pytest.raises(dml.InvalidArgumentError, match=message):
        ort.InferenceSession(graph, device=device, provider_options=[{"arithmetic": "fast"}])


def _looped_and_hosted() -> onnx.ModelProto:
    """A loop whose body is on the device, a node of the host, and more of the device behind it."""
    nodes = (
        "l = Loop (n,, x) <body = body (int64 i, bool go, float[2, 3] s) => (bool on, float[2, 3] t)"
        " {t = Add (s, x)  on = Identity (go)}>  u = Unique (l)  y = Neg (u)"
    )
    return model(nodes, {"x": [2, 3]}, ["y"], {"n": np.array(3)})


def test_what_calls_leave_to_the_defaults_of_functions_is_onnx_runtimes(device: dml.Device) -> None:
    """From the graph, from another function and from a graph inside of a node."""
    made = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 17, "own": 1]>
        g (float[n] x, bool c) => (float[n] a, float[n] b, float[m] d) {
            a = own.Outer (x)  b = own.Outer <slope = 0.5> (x)
            d = If (c) <then_branch = t () => (float[n] e) {e = own.Inner (x)}, else_branch = o () => (float[n] f)
                {f = own.Inner <slope = 4.0> (x)}>
        }
        <domain: "own", opset_import: ["": 17]> Inner <slope: float = 0.25> (x) => (y)
            {y = LeakyRelu <alpha: float = @slope> (x)}
        <domain: "own", opset_import: ["": 17, "own": 1]> Outer <slope: float = 2.0> (x) => (y)
            {i = own.Inner (x)  j = own.Inner <slope: float = @slope> (i)  y = Add (i, j)}""")
    for is_so in (True, False):
        feed = {"x": np.array([-2, 4], np.float32), "c": np.array(is_so)}
        assert_same_bits(by_device(device, made, feed, strict=False), by_onnx_runtime(made, feed))


@pytest.mark.parametrize("made", [two_branches, _looped_and_hosted])
def test_a_second_run_compiles_and_allocates_nothing(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, made: Callable[[], onnx.ModelProto]
) -> None:
    """It records one submission, which all later ones replay: the first run cannot know that another one comes."""
    session = ort.InferenceSession(made(), device=device)
    x = np.ones((2, 3), np.float32)
    first = session.run(None, {"x": x})

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a later run must not do this")

    for name in ("compile_graph", "create_operator", "create_buffer", "create_command_recorder"):
        monkeypatch.setattr(dml.Device, name, refuse)
    monkeypatch.setattr(type(device.engine), "allocate", refuse)
    recordings = calls_of(monkeypatch, type(device.engine), "record")
    for _ in range(3):
        for a, b in zip(session.run(None, {"x": x}), first, strict=True):
            assert a.tobytes() == b.tobytes()
        assert len(recordings) == (made is two_branches), "in the second run, and in no other"


def test_temporary_memory_beyond_one_buffer_lies_in_several(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for large batches on devices whose buffers are small."""
    nodes = parsed(
        "t = Transpose <perm = [1, 0]> (x)  a = MatMul (x, t)  b = MatMul (t, x)  c = MatMul (a, x)"
        " d = MatMul (x, b)  e = Sub (c, d)  y = MatMul (e, b)"
    )
    made = model(nodes, {"x": [24, 24]}, ["y"])
    x = np.random.default_rng(4).standard_normal((24, 24), np.float32)
    whole = ort.InferenceSession(made, device=device, strict=True)
    expected = whole.run(None, {"x": x})[0]

    def limited(network: Any, stages: Any, inputs: Any, most_bytes: int, once: Any) -> Any:
        return placed(network, stages, inputs, 24 * 24 * 4, once)

    monkeypatch.setattr("dmlvk.graphs.plan.placed", limited)
    session = ort.InferenceSession(made, device=device, strict=True)
    for _ in range(2):
        (y,) = session.run(None, {"x": x})
        assert y.tobytes() == expected.tobytes()
    (value,) = session.run_with_ort_values(None, {"x": device.array(x)})
    assert value.numpy().tobytes() == expected.tobytes()
    assert session.usage.launches == whole.usage.launches
    assert session.usage.device_bytes <= 1.2 * session.usage.least_bytes
    assert len(session.profile({"x": x}, repeats=1)) == session.usage.launches


def test_results_of_one_run_outlive_the_next(device: dml.Device) -> None:
    session = ort.InferenceSession(two_branches(), device=device)
    y, _ = session.run(None, {"x": np.ones((2, 3), np.float32)})
    kept = y.copy()
    session.run(None, {"x": np.full((2, 3), 7, np.float32)})
    np.testing.assert_array_equal(y, kept)


def test_no_output_is_an_input_or_another_output(device: dml.Device) -> None:
    loop = (
        "Loop (n,, x) <body = body (int64 turn, bool going, int64[2] sum) => (bool goes, int64[2] sums)"
        " {goes = Identity (going)  sums = Add (sum, x)}>"
    )
    shown = model(f"y = {loop}  z = {loop}", {"x": [2], "n": []}, ["y", "z", "x"], element=TensorProto.INT64)
    session = ort.InferenceSession(shown, device=device)
    x = np.ones(2, np.int64)
    x.flags.writeable = False
    for _ in range(3):
        results = session.run(None, {"x": x, "n": np.array(0)})
        for number, result in enumerate(results):
            result[:] = number  # each is the caller's own
        assert [result[0] for result in results] == [0, 1, 2]


def test_the_partition_says_what_the_host_computes_and_why(
    any_device: dml.Device, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = parsed('[first] a = Abs (x)  ["only the host"] u = Unique (a)  [last] y = Neg (u)')
    session = ort.InferenceSession(model(nodes, {"x": [4]}, ["y"]), device=any_device)
    with caplog.at_level(logging.WARNING, "dmlvk"):
        (y,) = session.run(None, {"x": np.array([-2, 2, 1, -1], np.float32)})
    np.testing.assert_array_equal(y, [-1, -2])
    assert [item.place for item in session.partition] == ["device", "host", "device"]
    assert session.partition[1].node == "only the host" and session.partition[1].reason
    with pytest.raises(dml.UnsupportedError, match="strict: node 'only the host'"):
        ort.InferenceSession(model(nodes, {"x": [4]}, ["y"]), device=any_device, strict=True)


def test_what_the_host_computes_is_told_once_for_each_node(
    any_device: dml.Device, caplog: pytest.LogCaptureFixture
) -> None:
    """Not for each size, nor for each of the rounds that go to the host and back."""
    nodes = parsed("[one] a = Unique (x)  b = Abs (a)  [two] c = Unique (b)  y = Neg (c)")
    session = ort.InferenceSession(model(nodes, {"x": ["n"]}, ["y"]), device=any_device)
    with caplog.at_level(logging.WARNING, "dmlvk"):
        for size in (4, 3, 7, 5, 9, 4):
            (y,) = session.run(None, {"x": np.arange(size, dtype=np.float32) % 3 - 1})
            np.testing.assert_array_equal(y, [0, -1])
    told = [line for line in caplog.messages if "the host computes" in line]
    assert len(told) == 2
    assert "'one'" in told[0]
    assert "'two'" in told[1]


def test_a_shape_that_is_an_input_is_taken_from_its_contents(device: dml.Device) -> None:
    graph = model("y = Reshape (x, shape)", {"x": [2, 6]}, ["y"])
    graph.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, ["n"]))
    session = ort.InferenceSession(graph, device=device, strict=True)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for shape in ([3, 4], [-1], [1, 12, 1], [3, 4]):
        (y,) = session.run(None, {"x": x, "shape": np.array(shape)})
        np.testing.assert_array_equal(y, x.reshape(shape))


def test_tensors_without_elements_and_scalars_pass(device: dml.Device) -> None:
    nodes = parsed("y = Neg (x)  s = ReduceSum <keepdims = 0> (x)")
    session = ort.InferenceSession(model(nodes, {"x": ["n"]}, ["y", "s"]), device=device)
    y, s = session.run(None, {"x": np.zeros(0, np.float32)})
    assert y.shape == (0,) and s.shape == () and s == 0
    scalar = ort.InferenceSession(model("y = Neg (x)", {"x": []}, ["y"]), device=device)
    (y,) = scalar.run(None, {"x": np.float32(3)})
    assert y.shape == () and y == -3


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({}, "the input 'x' is missing"),
        ({"x": np.zeros((2, 3), np.float32), "w": 1}, "has no input 'w'"),
        ({"x": np.zeros((2, 3))}, "must be of the dtype float32; got float64"),
        ({"x": np.zeros((2, 4), np.float32)}, r"must have the shape \['rows', 3\]; got \[2, 4\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(any_device: dml.Device, feed: dict[str, object], message: str) -> None:
    session = ort.InferenceSession(two_branches(), device=any_device)
    with pytest.raises(dml.InvalidArgumentError, match=message):
        session.run(None, feed)
    with pytest.raises(dml.InvalidArgumentError, match="has no output 'q'"):
        session.run(["q"], {"x": np.zeros((1, 3), np.float32)})


def test_times_and_pictures_are_those_of_graphs(any_device: dml.Device, tmp_path: Path) -> None:
    session = ort.InferenceSession(two_branches(), device=any_device)
    with pytest.raises(dml.InvalidArgumentError, match="nothing was run"):
        session.write_picture(tmp_path / "graph.svg")
    times = session.profile({"x": np.ones((2, 3), np.float32)}, repeats=2)
    assert times and all(time.seconds >= 0 for time in times)
    (path,) = session.write_picture(tmp_path / "graph.svg")
    assert "<svg" in path.read_text()


def test_a_session_that_opened_its_device_closes_it() -> None:
    with ort.InferenceSession(two_branches()) as session:
        session.run(None, {"x": np.ones((2, 3), np.float32)})
    with pytest.raises(dml.DeviceRemovedError):
        session.run(None, {"x": np.ones((2, 3), np.float32)})


def test_an_activation_that_alone_reads_a_sum_is_part_of_it(device: dml.Device) -> None:
    nodes = parsed("s = Sum (x, x)  [bend] y = LeakyRelu <alpha = 0.5> (s)")
    session = ort.InferenceSession(model(nodes, {"x": [4]}, ["y"]), device=device)
    (y,) = session.run(None, {"x": np.array([-2, -1, 0, 3], np.float32)})
    np.testing.assert_array_equal(y, [-2, -1, 0, 6])
    assert "computed with" in session.partition[1].reason
    also_shown = ort.InferenceSession(model(nodes, {"x": [4]}, ["y", "s"]), device=device)
    _, s = also_shown.run(None, {"x": np.array([-2, -1, 0, 3], np.float32)})
    np.testing.assert_array_equal(s, [-4, -2, 0, 6])


def test_no_node_is_lost_where_many_wait_for_the_host_twice(device: dml.Device) -> None:
    """A round looks only so far ahead, by what it computes: the second one here not to the end of what waited."""
    names = [f"m{number}" for number in range(40)]
    ahead = [helper.make_node("Neg", [name], [to]) for name, to in itertools.pairwise(["x", *names])]
    twice = parsed(
        "places = NonZero (x)  floats = Cast <to = 1> (places)  later = NonZero (floats)  s0 = Cast <to = 1> (later)"
    )
    behind = [helper.make_node("Add", [f"s{number}", "one"], [f"s{number + 1}"]) for number in range(90)]
    made = model([*ahead, *twice, *behind], {"x": [5]}, [names[-1], "s90"], {"one": np.ones(1, np.float32)})
    x = np.array([3, 0, 0, 2, 1], np.float32)
    kept, shifted = ort.InferenceSession(made, device=device).run(None, {"x": x})
    np.testing.assert_array_equal(kept, x)
    np.testing.assert_array_equal(shifted, np.array(np.nonzero(np.array([[0, 3, 4]]))) + 90)


def _branched(condition: str, inner: str) -> onnx.ModelProto:
    """y = -x, twice over, or what the inner nodes make of x."""
    nodes = (
        f"{condition}  [branch] z = If (c) <then_branch = then () => (t) <float[1] two = {{2}}>"
        f" {{n = Neg (x)  t = Mul (n, two)}}, else_branch = other () => (t) {{{inner}}}>  y = Abs (z)"
    )
    return model(nodes, {"x": ["rows", 3]}, ["y", "z"], {"zero": np.array(0), "four": np.array(4)})


def test_a_branch_whose_condition_follows_from_shapes_runs_on_the_device(device: dml.Device) -> None:
    condition = "s = Shape (x)  r = Gather (s, zero)  c = Less (r, four)"
    deep = "deep () => (u) {u = Add (n, n)}"
    inner = f"n = Exp (x)  t = If (c) <then_branch = {deep}, else_branch = {deep}>"
    session = ort.InferenceSession(_branched(condition, inner), device=device, strict=True)
    for rows in (2, 5, 3):
        x = np.linspace(-1, 1, 3 * rows, dtype=np.float32).reshape(rows, 3)
        y, z = session.run(None, {"x": x})
        expected = -2 * x if rows < 4 else 2 * np.exp(x.astype(np.float64))
        np.testing.assert_allclose(z, expected, rtol=1e-6)
        np.testing.assert_array_equal(y, np.abs(z))
        branch = next(item for item in session.partition if item.op_type == "If")
        assert branch.place == "device" and branch.reason == f"its condition is known: {rows < 4}"


def test_the_partition_names_what_a_branch_leaves_to_the_host(
    any_device: dml.Device, caplog: pytest.LogCaptureFixture
) -> None:
    made = _branched("c = Less (four, zero)", "u = Unique (x)  t = Neg (u)")
    session = ort.InferenceSession(made, device=any_device)
    with caplog.at_level(logging.ERROR, "dmlvk"):
        y, z = session.run(None, {"x": np.array([[2, 1, 2]], np.float32)})
    np.testing.assert_array_equal(z, [-1, -2])
    np.testing.assert_array_equal(y, [1, 2])
    (hosted,) = [item for item in session.partition if item.place == "host"]
    assert hosted.op_type == "Unique" and "depends on the data" in hosted.reason
    with pytest.raises(dml.UnsupportedError, match=r"strict: node 'branch/.*Unique'"):
        ort.InferenceSession(made, device=any_device, strict=True).run(None, {"x": np.array([[2, 1, 2]], np.float32)})


def test_functions_of_a_model_are_put_in_place(device: dml.Device) -> None:
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], parsed("b = Add (a, a)"), [helper.make_opsetid("", 17)]
    )
    made = model("y = own.Twice (x)", {"x": [2]}, ["y"])
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid("own", 1))
    (y,) = ort.InferenceSession(made, device=device, strict=True).run(None, {"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(y, [2, 4])
    assert isinstance(made, onnx.ModelProto)


def test_what_follows_from_weights_alone_is_computed_once(any_device: dml.Device) -> None:
    """Scale / sqrt(variance + epsilon): a run is the other step, also for the next size of the batch."""
    random = np.random.default_rng(5)
    weights = {name: random.uniform(0.5, 2, 3).astype(np.float32) for name in ("scale", "bias", "mean", "variance")}
    node = helper.make_node("BatchNormalization", ["x", *weights], ["y"])
    graph = model([node], {"x": ["batch", 3, 4, 5]}, ["y"], constants=weights)
    session = ort.InferenceSession(graph, device=any_device)
    for batch in (2, 1, 2):
        x = random.normal(0, 1, (batch, 3, 4, 5)).astype(np.float32)
        scale, bias, mean, variance = (array.astype(np.float64)[:, None, None] for array in weights.values())
        expected = (x - mean) / np.sqrt(variance + 1e-5) * scale + bias
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-6)
        assert session.usage.launches == 1


def test_sessions_share_a_device_that_goes_with_the_last_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable, "_process", portable._ProcessState())  # tests before may have left shared devices
    made, feed = two_branches(), {"x": np.ones((2, 3), np.float32)}
    first, second = ort.InferenceSession(made), ort.InferenceSession(made)
    apart = ort.SessionOptions()
    apart.shares_device = False
    alone = ort.InferenceSession(made, apart)
    assert first.device is second.device is not alone.device
    first.close()
    with pytest.raises(dml.DeviceRemovedError, match="the session was closed"):
        first.run(None, feed)
    assert len(second.run(None, feed)) == 2
    second.close()
    assert second.device.engine.is_removed and not alone.device.engine.is_removed
    alone.close()


def branch() -> onnx.ModelProto:
    """A model in which the host chooses a graph of its one node."""
    nodes = (
        "most = ReduceMax <keepdims = 0> (x)  is_any = Cast <to = 9> (most)  y = If (is_any)"
        " <then_branch = then () => (inner) {inner = Neg (x)}, else_branch = other () => (inner) {inner = Abs (x)}>"
    )
    return model(nodes, {"x": [2, 3]}, ["y"])


def one_node() -> onnx.ModelProto:
    return model("y = Exp (x)", {"x": ["rows", 3]}, ["y"])


@pytest.mark.parametrize("made", [two_branches, one_node, branch])
def test_a_session_that_is_dropped_frees_its_device_at_once(made: Callable[[], onnx.ModelProto]) -> None:
    options = ort.SessionOptions()
    options.shares_device = False  # the tests before may have left one
    session = ort.InferenceSession(made(), options)
    session.run(None, {"x": np.ones((2, 3), np.float32)})
    engine = weakref.ref(session.device.engine)
    gc.disable()
    try:
        del session
        assert engine() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("token", [5, -6])
def test_tokens_that_a_table_does_not_have_are_refused(any_device: dml.Device, token: int) -> None:
    nodes = parsed("[embed] y = Gather (table, tokens)")
    table = {"table": np.arange(10, dtype=np.float32).reshape(5, 2)}
    made = model(nodes, {"tokens": ["n"]}, ["y"], table, element=TensorProto.INT64)
    session = ort.InferenceSession(made, device=any_device)
    np.testing.assert_array_equal(session.run(None, {"tokens": np.array([-5, 4])})[0], [[0, 1], [8, 9]])
    with pytest.raises(dml.InvalidArgumentError, match=rf"node 'embed' \(Gather\).* 'tokens' has the index {token}, "):
        session.run(None, {"tokens": np.array([0, token])})


def test_an_input_without_dimensions_takes_one_element_of_any(any_device: dml.Device) -> None:
    """As with ONNX Runtime, which the result stands beside."""
    proto = model("y = Add (x, s)", {"x": [3], "s": []}, ["y"])
    session, theirs = (
        ort.InferenceSession(proto, device=any_device),
        onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]),
    )
    x = np.arange(3, dtype=np.float32)
    for s in (np.float32(2), np.array([2], np.float32), np.array([[2]], np.float32)):
        feed = {"x": x, "s": np.asarray(s)}
        for a, b in zip(session.run(None, feed), theirs.run(None, feed), strict=True):
            assert np.array_equal(a, b) and a.shape == b.shape
    with pytest.raises(dml.InvalidArgumentError, match="'s' must have the shape"):
        session.run(None, {"x": x, "s": np.ones(3, np.float32)})
