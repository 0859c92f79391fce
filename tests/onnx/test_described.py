"""What a session says of inputs and outputs is what ONNX Runtime's says, where the model itself is silent, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.api.arguments import NodeArg, node_arg, output_args
from dmlvk.onnx.backend.suite import cases
from dmlvk.onnx.model.loading import load

onnxruntime = pytest.importorskip("onnxruntime")

_OTHER_RULES = re.compile(
    "center_crop_pad|sequence|group_normalization_e|normalization_.*_expanded|local_window|linear_attention|sce_.*_expanded"
)
"""Cases of which the onnx package's rules say more than ONNX Runtime's, or less: functions whose sizes it computes."""


def _cases() -> Iterator[tuple[str, onnx.ModelProto]]:
    """The models of the ONNX project's suite."""
    for _, case in cases(("node", "pytorch-operator", "pytorch-converted")):
        folder = case.model_dir
        yield case.name, case.model if folder is None else onnx.load(Path(folder) / "model.onnx")


def _silent(model: onnx.ModelProto, *, is_open: bool) -> onnx.ModelProto:
    """A model that says nothing of its outputs but their types; with sizes that are open."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for info in made.graph.output:
        if info.type.WhichOneof("value") == "tensor_type":
            info.type.tensor_type.ClearField("shape")
    del made.graph.value_info[:]
    known = {tensor.name for tensor in made.graph.initializer}
    for info in made.graph.input if is_open else ():
        for axis, size in enumerate(info.type.tensor_type.shape.dim):
            if axis == 0 and info.name not in known:
                size.dim_param = "batch"
            elif axis == 2 and info.name not in known:
                size.ClearField("value")
    return made


def _of_onnx_runtime(model: onnx.ModelProto) -> tuple[list[NodeArg], list[NodeArg]] | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - its exceptions have no base of their own
        return None
    both = (session.get_inputs(), session.get_outputs())
    given, taken = ([NodeArg(each.name, list(each.shape), each.type) for each in args] for args in both)
    return given, taken


@pytest.mark.parametrize("is_open", [False, True])
def test_models_that_are_silent_are_described_as_onnx_runtime_describes_them(is_open: bool) -> None:
    compared = 0
    for number, (name, model) in enumerate(_cases()):
        if number % 12 != 5 * is_open or _OTHER_RULES.search(name):
            continue
        silent = _silent(model, is_open=is_open)
        wanted = _of_onnx_runtime(silent)
        if wanted is None:
            continue
        loaded = load(silent)
        found = [node_arg(info) for info in loaded.inputs], output_args(loaded)
        if is_open or not name.endswith("_expanded"):  # what these compute of sizes, a plan says: below
            assert found == wanted, name
            compared += 1
    assert compared > 100


def test_where_sizes_are_given_outputs_are_as_they_are_planned(device: dml.Device) -> None:
    compared = 0
    for number, (name, model) in enumerate(_cases()):
        if number % 40 or _OTHER_RULES.search(name):
            continue
        silent = _silent(model, is_open=False)
        wanted = _of_onnx_runtime(silent)
        if wanted is None:
            continue
        try:
            session = ort.InferenceSession(silent, device=device)
        except dml.DmlError:
            continue
        assert (session.get_inputs(), session.get_outputs()) == wanted, name
        compared += 1
    assert compared > 25


def test_sizes_that_only_a_run_shows_are_none_before_and_after_it(device: dml.Device) -> None:
    x, shape = (helper.make_tensor_value_info(*each) for each in (("x", 1, [2, 3]), ("shape", TensorProto.INT64, [2])))
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in (("y", 1), ("places", 7), ("z", 1))]
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Relu", ["x"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "silent", [x, shape], results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session, wanted = ort.InferenceSession(model, device=device), _of_onnx_runtime(model)
    assert wanted is not None
    for _ in range(2):
        assert session.get_outputs() == wanted[1]
        session.run(None, {"x": [[1, 0, 2], [0, 0, 1]], "shape": [3, 2]})
