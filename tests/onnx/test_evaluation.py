"""What the host computes: by dmlvk's own functions, by ONNX Runtime, by the onnx package's evaluator."""

from __future__ import annotations

import logging
import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.backend.suite import cases, data_sets, plain
from dmlvk.onnx.host.evaluation import reference, runtime
from dmlvk.onnx.host.evaluation.reference import COMPARED
from dmlvk.onnx.host.evaluators import own_results
from dmlvk.onnx.model.loading import load
from tests.effort import IS_QUICK
from tests.onnx import models
from tests.onnx.random_nodes import results

_ODD = (
    *((19, kind) for kind in ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")),
    *((21, kind) for kind in ("INT4", "UINT4")),
)
"""Types that ONNX Runtime takes and gives inside of a graph only, with the first version that has them."""


model_of = models.model
by_onnx_runtime = models.by_onnx_runtime


def test_the_evaluator_s_operators_give_what_the_suite_expects() -> None:
    """Every operator that it may compute, in the newest version of each that the suite has."""
    proved: set[tuple[str, str]] = set()
    wanted = {op_type for _, op_type in COMPARED}
    for _, case in cases(["node"]):
        model = case.model
        if model is None or len(model.graph.node) != 1 or model.graph.node[0].op_type not in wanted:
            continue
        loaded = load(model)
        step = loaded.steps[0]
        if not reference.is_compared(step):
            continue
        for inputs, expected in data_sets(model, case):
            values = dict(zip([info.name for info in model.graph.input], inputs, strict=False))
            found = reference.evaluated(step, values, loaded.opsets)
            shown = [value for name, value in zip(step.proto.output, found, strict=True) if name]
            Runner.assert_similar_outputs(plain(expected), plain(shown), case.rtol, case.atol)
        proved.add((step.domain, step.proto.op_type))
    assert proved == set(COMPARED)


@pytest.mark.parametrize(("first", "kind"), _ODD)
def test_the_evaluator_casts_and_quantizes_odd_types_as_onnx_runtime_does(first: int, kind: str) -> None:
    """In all versions that it may compute; casts to 4 bits are dmlvk's own."""
    element = TensorProto.DataType.Value(kind)
    numbers = np.array([0.3, -0.4, 1.5, 2.5, -3.6, 6.9, -0.02, 4.4, 0], np.float32)
    scale = np.array(0.25, np.float32)
    for opset in (version for version in COMPARED["", "QuantizeLinear"] if first <= version < 25):
        casts = [
            helper.make_node("Cast", ["x"], ["a"], to=element),
            helper.make_node("Cast", ["a"], ["y"], to=TensorProto.FLOAT),
        ]
        zero = numpy_helper.to_array(helper.make_tensor("z", element, [], [0]))
        steps = models.parsed("q = QuantizeLinear (x, s, z)  w = DequantizeLinear (q, s, z)")
        for nodes, output, constants in ((casts, "y", {}), (steps, "w", {"s": scale, "z": zero})):
            model = model_of(nodes, {"x": numbers}, [output], constants, opset=opset)
            (expected,) = by_onnx_runtime(model, {"x": numbers})
            there: dict[str, Any] = {"x": numbers, **constants}
            loaded = load(model)
            for step in loaded.steps:
                found = own_results(step, there, "model") if step.proto.op_type == "Cast" else None
                if found is None:
                    assert reference.is_compared(step), step.label
                    found = reference.evaluated(step, there, loaded.opsets)
                there.update(zip(step.proto.output, found, strict=True))
            np.testing.assert_array_equal(there[output], expected, f"{kind} {opset} {nodes[0].op_type}")


_RANDOM_NODES = 60 if IS_QUICK else 200


def test_random_nodes_come_out_as_by_onnx_runtime(device: dml.Device) -> None:
    """Others by ``python -m tests.onnx.random_nodes``."""
    level = logging.getLogger("dmlvk").level
    logging.getLogger("dmlvk").setLevel(logging.ERROR)
    try:
        found = list(results(device, 7, range(_RANDOM_NODES)))
    finally:
        logging.getLogger("dmlvk").setLevel(level)
    assert [(case.label, outcome, why) for case, outcome, why in found if outcome in ("wrong", "refused")] == []
    assert sum(outcome == "same" for _, outcome, _ in found) > 0.75 * _RANDOM_NODES


@pytest.mark.parametrize("is_constant", [True, False], ids=["of a constant", "of an input"])
def test_functions_of_doubles_are_as_exact_as_doubles(device: dml.Device, is_constant: bool) -> None:
    """They have bodies in ONNX, and translations, whose numbers are FLOAT."""
    x = np.linspace(-3, 3, 7)
    gelu = helper.make_node("Gelu", ["x"], ["y"], approximate="tanh")
    window = helper.make_node("HannWindow", ["n"], ["w"], output_datatype=TensorProto.DOUBLE)
    given = {"x": x, "n": np.array(9)}
    for node, name in ((gelu, "x"), (window, "n")):
        parts = ({}, {name: given[name]}) if is_constant else ({name: given[name]}, {})
        made = model_of([node], parts[0], list(node.output), parts[1], opset=20)
        (found,) = ort.InferenceSession(made, device=device).run(None, parts[0])
        np.testing.assert_allclose(found, by_onnx_runtime(made, parts[0])[0], rtol=1e-14, atol=1e-16)


def test_the_partition_names_the_program_that_computed_a_node(any_device: dml.Device) -> None:
    x = np.array([[1, 2], [3, 5]], np.float64)
    nodes = models.parsed("a = Add (x, x)  b = Softmax (a)  c = Sqrt (w)")
    model = model_of(nodes, {"x": x}, ["b", "c"], {"w": np.array([4, 9], np.float32)})
    session = ort.InferenceSession(model, device=any_device)
    b, c = session.run(None, {"x": x})
    np.testing.assert_allclose(b, by_onnx_runtime(model, {"x": x})[0], rtol=1e-12)
    np.testing.assert_array_equal(c, [2, 3])
    c[0] = 7  # an array of the caller's own
    np.testing.assert_array_equal(session.run(["c"], {"x": x})[0], [2, 3])
    assert [(item.place, item.program) for item in session.partition] == [
        ("host", "dmlvk"),
        ("host", "onnxruntime"),
        ("constant", "dmlvk"),
    ]


@pytest.fixture
def without_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    runtime.onnx_runtime.cache_clear()
    monkeypatch.setattr(runtime, "onnx_runtime", lambda: None)
    yield


def test_without_onnx_runtime_what_nothing_else_knows_is_refused(
    without_onnx_runtime: None, any_device: dml.Device
) -> None:
    x = np.array([[1, 2], [3, 5]], np.float64)
    model = model_of(models.parsed("y = Softmax <axis = 0> (x)"), {"x": x}, ["y"], opset=11)
    with pytest.raises(dml.ModelFileError, match=r"Softmax.*pip install onnxruntime.*version 11 was not compared"):
        ort.InferenceSession(model, device=any_device).run(None, {"x": x})


def test_onnx_runtime_is_found_behind_a_module_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = types.ModuleType("dmlvk.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", stand_in)
    runtime.onnx_runtime.cache_clear()
    found = runtime.onnx_runtime()
    assert found is not stand_in and hasattr(found, "InferenceSession")
    assert sys.modules["onnxruntime"] is stand_in
    runtime.onnx_runtime.cache_clear()


def test_views_of_one_weight_are_one_buffer(any_device: dml.Device, tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    nodes, x = [], "x"
    for index, kind in enumerate(["Identity", "Transpose", "Transpose", "Unsqueeze", "Identity"]):
        nodes.append(helper.make_node(kind, ["w", "zero"] if kind == "Unsqueeze" else ["w"], [f"v{index}"]))
        nodes.append(helper.make_node("MatMul", [x, f"v{index}"], [f"y{index}"]))
        x = f"y{index}"
    feed = {"x": np.random.default_rng(1).standard_normal((1, 64), np.float32)}
    model = model_of(nodes, feed, [x], {"w": w, "zero": np.array([0], np.int64)})
    session = ort.InferenceSession(model, device=any_device)
    (found,) = session.run(None, feed)
    (expected,) = by_onnx_runtime(model, feed)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    assert session.usage.device_bytes < 1.3 * w.nbytes


def test_weights_in_nodes_are_weights(any_device: dml.Device) -> None:
    """Their contents are kept once, and go with a session that is pickled."""
    w = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(w)),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    feed = {"x": np.eye(64, dtype=np.float32)}
    session = ort.InferenceSession(model_of(nodes, feed, ["y", "w"]), device=any_device)
    again = pickle.loads(pickle.dumps(session))
    for tried in (session, again):
        for found in tried.run(None, feed):
            np.testing.assert_array_equal(found, w)
    assert [item.place for item in session.partition] == ["constant", "device"]
    nodes.append(helper.make_node("Identity", ["x"], ["w"]))
    with pytest.raises(dml.ModelFileError, match="'w' is there already"):
        ort.InferenceSession(model_of(nodes, feed, ["y"]), device=any_device)


def test_quantized_weights_stay_as_small_as_they_are(any_device: dml.Device) -> None:
    """DequantizeLinear of large constants is computed in every run; its results are those of the small ones."""
    rng = np.random.default_rng(0)
    w = rng.integers(-128, 128, (2048, 1024)).astype(np.int8)
    scale = rng.uniform(0.01, 0.02, 1024).astype(np.float32)
    nodes = models.parsed("f = DequantizeLinear <axis = 1> (w, s)  y = Gather (f, x)")
    feed = {"x": np.array([5, 2047], np.int64)}
    session = ort.InferenceSession(model_of(nodes, feed, ["y"], {"w": w, "s": scale}), device=any_device)
    np.testing.assert_array_equal(session.run(None, feed)[0], w[[5, 2047]] * scale)
    assert [item.place for item in session.partition] == ["device", "device"]


def test_texts_are_put_together_as_by_onnx_runtime(any_device: dml.Device) -> None:
    """With zeros at their ends, which NumPy's own texts lose."""
    feed = {"a": np.array([["a"], ["\xe9\0"]], object), "b": np.array(["x", "", "zz\0"], object)}
    model = model_of(models.parsed("y = StringConcat (a, b)"), feed, ["y"], opset=20)
    found = ort.InferenceSession(model, device=any_device).run(None, feed)[0]
    assert found.tolist() == by_onnx_runtime(model, feed)[0].tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint64])
@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
def test_scattered_elements_are_reduced_as_by_onnx_runtime(
    any_device: dml.Device, operator: str, reduction: str, dtype: type
) -> None:
    """Where that refuses FLOAT16, as by the onnx package's evaluator, one update after the other."""
    random = np.random.default_rng(5)
    feed: dict[str, npt.NDArray[Any]] = {"x": (random.standard_normal((5, 4)) * 3).astype(dtype)}
    feed["i"] = random.integers(-5, 5, (9, 1) if operator == "ScatterND" else (5, 4))
    feed["u"] = (random.standard_normal((9, 4) if operator == "ScatterND" else (5, 4)) * 3).astype(dtype)
    model = model_of([helper.make_node(operator, ["x", "i", "u"], ["y"], reduction=reduction)], feed, ["y"], opset=18)
    for has_nan in (False, True)[: 2 if dtype in (np.float32, np.float64) else 1]:
        if has_nan:
            feed["x"][0, 0] = feed["u"][1, 1] = np.nan
        try:
            wanted = by_onnx_runtime(model, feed)
        except Exception as error:  # noqa: BLE001 - its exceptions have no base of their own
            assert dtype is np.float16 and "not supported" in str(error)
            wanted = list(ReferenceEvaluator(model).run(None, feed))
        with ort.InferenceSession(model, device=any_device) as session:
            found = session.run(None, feed)
        np.testing.assert_array_equal(found[0], wanted[0])
        assert found[0].dtype == dtype


@pytest.mark.parametrize("opset", [9, 13, 16])
def test_layer_normalization_before_onnx_had_it_runs_on_the_device(any_device: dml.Device, opset: int) -> None:
    """ONNX Runtime's optimizer writes it into models of any version."""
    random = np.random.default_rng(3)
    feed = {"x": random.normal(1, 2, (2, 3, 8)).astype(np.float32)}
    feed |= {name: random.standard_normal(8).astype(np.float32) for name in ("scale", "bias")}
    node = helper.make_node("LayerNormalization", list(feed), ["y", "mean", "inverse"], axis=-1, epsilon=1e-3)
    model = model_of([node], feed, ["y", "mean", "inverse"], opset=opset)
    with ort.InferenceSession(model, device=any_device, strict=True) as session:
        for found, wanted in zip(session.run(None, feed), by_onnx_runtime(model, feed), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_model_with_a_sequence_or_an_optional_among_its_inputs_runs(any_device: dml.Device) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    optional = helper.make_value_info("o", helper.make_optional_type_proto(sequence.type))
    outputs = [onnx.ValueInfoProto(name=name) for name in ("count", "is_there", "y")]
    nodes = models.parsed("count = SequenceLength (s)  is_there = OptionalHasElement (o)  y = Add (x, x)")
    open_sizes = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph(nodes, "sequences", [sequence, optional, open_sizes], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    parts = [np.ones((2, 2), np.float32)] * 3
    with ort.InferenceSession(model, device=any_device) as session:
        for length in (3, 5):
            x = np.arange(length, dtype=np.float32)
            count, is_there, y = session.run(None, {"s": parts, "o": parts if length == 3 else None, "x": x})
            assert (int(count), bool(is_there), y.tolist()) == (3, length == 3, (x + x).tolist())


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("is_constant", [False, True])
def test_a_slice_backwards_without_an_end_goes_to_the_first_element(
    any_device: dml.Device, end: int, is_constant: bool
) -> None:
    data = np.arange(5, dtype=np.float32)
    known = {"starts": 3, "ends": end, "axes": 0, "steps": -1}
    constants = {name: np.array([value], np.int64) for name, value in known.items()}
    feed = {"x": np.ones(1, np.float32)} if is_constant else {"x": np.ones(1, np.float32), "data": data}
    nodes = [helper.make_node("Slice", ["data", *known], ["part"]), helper.make_node("Mul", ["part", "x"], ["y"])]
    model = models.model(nodes, feed, ["y"], {**constants, "data": data} if is_constant else constants)
    theirs = models.onnx_runtime(model)
    (found,) = ort.InferenceSession(model, device=any_device).run(None, feed)
    np.testing.assert_array_equal(found, theirs.run(None, feed)[0])


@pytest.mark.parametrize(
    "nodes", ["y = LayerNormalization (x, x)", "y = HardSwish (x)", "y = Swish (x)", "y = RMSNormalization (x, x)"]
)
def test_a_type_that_an_operator_lacks_is_refused_as_by_onnx_runtime(nodes: str, device: dml.Device) -> None:
    """What defines it by others, or evaluates it, would compute something of whole numbers."""
    x = np.array([[2, 1, 4]])
    session = ort.InferenceSession(models.model(nodes, {"x": x}, ["y"], opset=24), device=device)
    with pytest.raises(dml.ModelFileError, match="cannot be computed"):
        session.run(None, {"x": x})
