"""What a session says of inputs and outputs is what ONNX Runtime's says, where the model itself is silent, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx import TensorProto

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.api.arguments import NodeArg, node_arg, output_args
from dmlvk.onnx.api.described import described_outputs
from dmlvk.onnx.api.overriding import Overriding
from dmlvk.onnx.backend.suite import cases
from dmlvk.onnx.model.loading import load
from tests.onnx import models

onnxruntime = pytest.importorskip("onnxruntime")

_OTHER_RULES = re.compile("attention_local_window_with_past")
"""ONNX Runtime has no kernel for attention with a window. It puts the nodes of ONNX's definition in its place, of which
more follows than of the operator, whose rule leaves out the caches where sizes are open."""


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
    try:
        session = models.onnx_runtime(model)
    except Exception:  # noqa: BLE001 - its exceptions have no base of their own
        return None
    both = (session.get_inputs(), session.get_outputs())
    given, taken = ([NodeArg(each.name, list(each.shape), each.type) for each in args] for args in both)
    return given, taken


def _described(model: onnx.ModelProto) -> tuple[list[NodeArg], list[NodeArg]]:
    loaded = load(model)
    outputs = described_outputs(loaded, Overriding[ort.InferenceSession](loaded).names)
    return [node_arg(info) for info in loaded.inputs], output_args(loaded, outputs)


@pytest.mark.parametrize("is_open", [False, True])
def test_models_that_are_silent_are_described_as_onnx_runtime_describes_them(is_open: bool) -> None:
    compared = 0
    for number, (name, model) in enumerate(_cases()):
        if number % 10 != 5 * is_open or (is_open and _OTHER_RULES.search(name)):
            continue
        silent = _silent(model, is_open=is_open)
        wanted = _of_onnx_runtime(silent)
        if wanted is not None:
            assert _described(silent) == wanted, name
            compared += 1
    assert compared > 150


FOLLOWING: dict[str, tuple[str, list[int | str | None]]] = {
    "constants of constants": (
        "(float[batch] x) => (float[] y) {a = Constant <value_ints = [-3]> () b = Neg (a) y = ConstantOfShape (b)}",
        [3],
    ),
    "some of the sizes": (
        "(float[batch, 4, 6] x) => (float[] y) {s = Shape <start = 1> (x) y = ConstantOfShape (s)}",
        [4, 6],
    ),
    "sizes of sizes": (
        "(float[batch, 7, 3] x) => (float[] y) {a = Shape <start = 1> (x) b = ConstantOfShape (a) c = Shape (b)"
        " d = ConstantOfShape (c) e = Shape (d) y = ConstantOfShape (e)}",
        [7, 3],
    ),
    "functions of which ONNX says nothing": (
        "(float[batch, 4] x, int64[batch] t, int64[any] s) => (float[] y) {a = Reshape (x, s)"
        ' y = NegativeLogLikelihoodLoss <reduction = "none"> (a, t)}',
        ["batch"],
    ),
    "constants around a graph": (
        "(bool c, float[batch, 4] x) => (float[] y) {one = Constant <value_ints = [1]> () two = Add (one, one)"
        " y = If (c) <then_branch = a () => (float[batch, 4, 1] d) {d = Unsqueeze (x, two)},"
        " else_branch = b () => (float[] e) {f = Unsqueeze (x, two) e = Neg (f)}>}",
        ["batch", 4, 1],
    ),
    "no contents that a run may give": (
        "(float[2, 6] x, int64[2] s = {3, 4}) => (float[] y) {y = Reshape (x, s)}",
        [None, None],
    ),
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_sizes_that_follow_are_those_that_onnx_runtime_finds(name: str) -> None:
    text, shape = FOLLOWING[name]
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> silent {text}')
    model.graph.output[0].type.tensor_type.ClearField("shape")
    found = _described(model)
    assert found[1] == [NodeArg("y", shape, "tensor(float)")]
    assert found == _of_onnx_runtime(model)


def test_sizes_that_only_a_run_shows_are_none_before_and_after_it(device: dml.Device) -> None:
    inputs = {"x": (2, 3), "shape": (TensorProto.INT64, (2,))}
    nodes = "y = Reshape (x, shape)  places = NonZero (x)  z = Relu (x)"
    model = models.model(nodes, inputs, {"y": TensorProto.FLOAT, "places": TensorProto.INT64, "z": TensorProto.FLOAT})
    session, wanted = ort.InferenceSession(model, device=device), _of_onnx_runtime(model)
    assert wanted is not None
    for _ in range(2):
        assert session.get_outputs() == wanted[1]
        session.run(None, {"x": [[1, 0, 2], [0, 0, 1]], "shape": [3, 2]})
