"""ONNX models in model files: bindings by name, open sizes, deferred resources, and refusals that name the place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
from dmlvk.models import Model, RunResult, Timing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model: y = 2 x, of any number of rows of 3; and s, the sum of each row."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("ReduceSum", ["y", "axes"], ["s"], keepdims=0)],
        "twice",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 3]),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, ["rows"]),
        ],
        [onnx.numpy_helper.from_array(np.array([1]), "axes")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(made, str(tmp_path / "twice.onnx"))
    return tmp_path


def _model(bindings: dict[str, Any], *more: dict[str, Any], **dispatchable: Any) -> dict[str, Any]:
    return {
        "resources": {
            "X": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4, 5, 6]},
            "Y": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 6, "value": 9}},
            "S": {"initialValues": "deferred"},
        },
        "dispatchables": {
            "twice": {"type": "Onnx", "sourcePath": "twice.onnx", **dispatchable},
            "sign": {
                "type": "ELEMENT_WISE_SIGN",
                "desc": {name: {"DataType": "FLOAT32", "Sizes": [2]} for name in ("InputTensor", "OutputTensor")},
            },
        },
        "commands": [{"type": "dispatch", "dispatchable": "twice", "bindings": bindings}, *more],
    }


PRINT_S = {"type": "print", "resource": "S"}


def test_a_model_runs_on_what_is_bound(folder: Path, run: Callable[..., tuple[RunResult, list[str]]]) -> None:
    bindings = {"x": {"name": "X", "shape": [2, 3]}, "y": ["Y"], "s": "S"}
    more: list[dict[str, Any]] = [
        {"type": "print", "resource": "Y"},
        {"type": "dispatch", "dispatchable": "sign", "bindings": {"InputTensor": "S", "OutputTensor": "Y"}},
        {"type": "print", "resource": "Y"},
        {"type": "writeFile", "resource": "S", "targetPath": "s.npy"},
        PRINT_S,
    ]
    _, lines = run(_model(bindings, *more))
    assert lines[:3] == [
        "Resource 'S': FLOAT32 [2] of output s",
        "Resource 'Y': 2, 4, 6, 8, 10, 12",
        "Resource 'Y': 1, 1, 6, 8, 10, 12",
    ]
    assert lines[-1] == "Resource 'S': 12, 30"
    np.testing.assert_array_equal(np.load(folder / "out" / "s.npy"), [12, 30])


def test_open_sizes_are_1_or_what_the_file_says_and_unbound_inputs_are_zeros(
    folder: Path, run: Callable[..., tuple[RunResult, list[str]]]
) -> None:
    _, lines = run(_model({"x": "X", "s": "S"}, PRINT_S))
    assert lines[-1] == "Resource 'S': 12"
    fixed = {"freeDimensionNameOverrides": {"rows": 2}, "graphOptimizationLevel": 99, "loggingLevel": 2}
    _, lines = run(_model({"x": "X", "s": "S"}, PRINT_S, **fixed, sessionOptionsConfigEntries={"a": "b"}))
    assert lines[-1] == "Resource 'S': 12, 30"
    _, lines = run(_model({"s": "S"}, PRINT_S, **fixed))
    assert lines[-1] == "Resource 'S': 0, 0"


def test_runs_are_timed(folder: Path, run: Callable[..., tuple[RunResult, list[str]]]) -> None:
    result, lines = run(_model({"x": "X", "s": "S"}), Timing(iterations=3))
    assert lines[-1].startswith("Dispatch 'twice': 3 iterations, median wall time")
    assert not result.kernel_times or result.kernel_times[0].label


def test_what_a_resource_is_to_hold_is_checked(folder: Path, run: Callable[..., tuple[RunResult, list[str]]]) -> None:
    content = _model({"x": "X", "s": "S"}, {"type": "expect", "resource": "S", "values": [12]})
    content["resources"]["S"]["initialValuesDataType"] = "FLOAT32"
    result, _ = run(content)
    assert (result.expectations, result.failures) == (1, 0)
    content["resources"]["S"]["initialValuesDataType"] = "INT32"
    with pytest.raises(dml.ModelFileError, match="'S' is to hold INT32; the output is FLOAT32"):
        run(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            _model({"x": "X", "q": "Y"}),
            r"dispatchable 'twice': the model has no input or output 'q'; it has \['x', 'y'",
        ),
        (_model({"x": {"name": "X", "shape": [3, 3]}}), "takes 36 bytes; the resource 'X' has 24"),
        (
            _model({"x": {"name": "X", "shape": [2, 3]}, "y": {"name": "Y", "shape": [3, 3]}}),
            r"the shape \[2, 3\], not",
        ),
        (_model({"x": "S"}), "'S' is deferred, and is used before an ONNX model gives it"),
        (_model({"x": "X"}, PRINT_S), "'S' is deferred, and is used before an ONNX model gives it"),
        (_model({"x": {"name": "X", "shape": [1, 4]}}), r"must have the shape \['rows', 3\]; got \[1, 4\]"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    folder: Path, run: Callable[..., tuple[RunResult, list[str]]], content: dict[str, Any], message: str
) -> None:
    with pytest.raises(dml.ModelFileError, match=rf"model.json:\d+:\d+: .*{message}"):
        run(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_model({"x": ["X", "Y"]}), "x: a tensor of an ONNX model takes one resource; 2 are bound"),
        (_model({"x": {"name": "X", "elementOffset": 1}}), "elementOffset must be 0"),
        (_model({"x": {"name": "X", "counter": "Y"}}), "has no counter"),
        (_model({"x": "Z"}), "there is no resource 'Z'"),
        (_model({}, freeDimensionNameOverrides={"rows": -1}), "freeDimensionNameOverrides: rows must be from 0"),
        (_model({}, graphOptimizationLevel=7), "graphOptimizationLevel must be one of"),
        (_model({}, sourcePath="nothing.onnx"), "sourcePath: there is no file 'nothing.onnx'"),
        (_model({}, loglevel=2), "'loglevel'"),
        (_model({}, {"type": "expect", "resource": "S", "values": [1]}), "say its initialValuesDataType"),
    ],
)
def test_mistakes_are_found_when_the_file_is_read(
    folder: Path, refused: Callable[[Any], str], content: dict[str, Any], message: str
) -> None:
    assert message in refused(content)


def test_a_file_that_is_no_model_and_a_missing_package_are_named(
    folder: Path,
    any_device: dml.Device,
    load: Callable[[Any], Model],
    run: Callable[..., tuple[RunResult, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "twice.onnx").write_bytes(b"no model")
    with pytest.raises(dml.ModelFileError, match=r"model.json:\d+:\d+: the dispatchable 'twice': .*is no ONNX model"):
        run(_model({}))
    for name in [name for name in sys.modules if name.startswith("dmlvk.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(dml.ModelFileError, match=r"the dispatchable 'twice': .*pip install dmlvk\[onnx\]"):
        run(_model({}))
