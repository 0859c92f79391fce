"""Programs for ONNX Runtime find its names, and run unchanged."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as theirs

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.capi import onnxruntime_pybind11_state as ours
from tests.onnx.models import model, two_branches

_PROGRAM = """
import importlib.metadata, sys
import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile
from onnxruntime.quantization import QuantType
assert ort.get_build_info().startswith("dmlvk"), ort
assert importlib.metadata.version("onnxruntime")
try:
    ort.InferenceSession("nowhere.onnx")
except NoSuchFile as error:
    print(type(error).__name__)
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
try:
    session.run(None, {"x": np.zeros((1, 4), np.float32)})
except InvalidArgument as error:
    print(type(error).__name__)
print(session.run(["y"], {"x": [[1, 2, 3]]})[0].ravel().tolist(), session._model_path == sys.argv[1], __name__)
"""


@pytest.mark.parametrize("as_module", [False, True])
def test_a_program_for_onnx_runtime_runs_unchanged(tmp_path: Path, as_module: bool) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    model = str(tmp_path / "model.onnx")
    onnx.save(two_branches(), model)
    program = ["-m", "program"] if as_module else [str(tmp_path / "program.py")]
    paths = [str(Path(dml.__file__).parents[1]), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "dmlvk.onnx", *program, model],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["NoSuchFile", "InvalidArgumentError", "[2.0, 0.0, 6.0] True __main__"]


_STARTS_OTHERS = """
import multiprocessing, subprocess, sys
import onnxruntime as ort

def name(_):
    import onnxruntime
    return onnxruntime.get_build_info().split()[0], len(onnxruntime.InferenceSession(sys.argv[1]).get_inputs())

if __name__ == "__main__":
    for way in ("fork", "spawn"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(*pool.map(name, [0])[0])
    code = "import onnxruntime.capi, onnxruntime as o; print(o.get_build_info().split()[0], o.__name__)"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no forks")
def test_processes_of_a_program_run_by_dmlvk_as_well(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_STARTS_OTHERS)
    model = str(tmp_path / "model.onnx")
    onnx.save(two_branches(), model)
    done = subprocess.run(
        [sys.executable, "-m", "dmlvk.onnx", str(tmp_path / "program.py"), model],
        env={**os.environ, "PYTHONPATH": str(Path(dml.__file__).parents[1])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.splitlines() == ["dmlvk 1", "dmlvk 1", "dmlvk dmlvk.onnx"], done.stderr


def test_a_program_that_is_not_there_is_told_so() -> None:
    for arguments in (["nowhere.py"], ["-x"], []):
        done = subprocess.run([sys.executable, "-m", "dmlvk.onnx", *arguments], capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.count(b"\n") == 1


_NOT_THERE = {  # modules and numbers that the package has imported or made for itself
    name
    for name in dir(onnxruntime)
    if name.startswith("_")
    or name in ("contextlib", "cuda_version", "import_capi_exception", "onnxruntime_validation", "package_name")
    or name == "version"
}


def test_the_names_of_onnx_runtime_are_there() -> None:
    assert {name for name in dir(onnxruntime) if name not in dir(ort)} <= _NOT_THERE
    errors = {name for name, value in vars(theirs).items() if isinstance(value, type) and issubclass(value, Exception)}
    for name in errors:
        assert issubclass(getattr(ours, name), dml.DmlError), name
    assert ours.OrtDevice.make("dml", 1).device_id() == 1
    with pytest.raises(dml.InvalidArgumentError, match=r"^OrtDevice: the kind must be one of cpu, .*; got 'abacus'$"):
        ort.OrtDevice.make("abacus")


def _identity(element: int) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, element, [-1, 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "one", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("element", "value"),
    [
        (TensorProto.INT32, [[1, 2], [3, 4]]),
        (TensorProto.INT64, [np.array([1, 2], np.int8), np.array([3, 4])]),
        (TensorProto.FLOAT16, [[1, 2.5]]),
        (TensorProto.BOOL, [[0, 1]]),
        (TensorProto.STRING, [["a", "bcd"]]),
        (TensorProto.STRING, np.array([["a", "bcd"]])),
        (TensorProto.STRING, np.array([["a", 3]], object)),
    ],
)
def test_inputs_and_outputs_have_the_types_of_onnx_runtime(device: dml.Device, element: int, value: Any) -> None:
    model = _identity(element)
    session = ort.InferenceSession(model, device=device)
    assert session.get_inputs()[0].shape == [None, 2]
    (found,) = session.run(None, {"x": value})
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = theirs.run(None, {"x": value})
    assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


@pytest.mark.parametrize("value", [[[1.0], [2.0, 3.0]], [["a", "b"]], [object()]])
def test_lists_that_are_no_arrays_are_refused(device: dml.Device, value: Any) -> None:
    session = ort.InferenceSession(_identity(TensorProto.FLOAT16), device=device)
    with pytest.raises(dml.InvalidArgumentError, match=r"^one: the input 'x' is not an array of the dtype float16"):
        session.run(None, {"x": value})


def test_initializers_that_a_program_gives_stand_for_those_of_the_file(any_device: dml.Device, tmp_path: Path) -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = model([helper.make_node("Mul", ["x", "w"], ["y"])], {"x": [2, 3]}, ["y"], {"w": weights})
    onnx.save(made, tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    (tmp_path / "weights").unlink()
    options = ort.SessionOptions()
    options.add_external_initializers(["w"], [ort.OrtValue.ortvalue_from_numpy(weights + 1)])
    session = ort.InferenceSession(tmp_path / "model.onnx", options, device=any_device)
    np.testing.assert_array_equal(session.run(None, {"x": np.ones((2, 3), np.float32)})[0], weights + 1)
    options.add_initializer("w", weights[:1])
    with pytest.raises(dml.InvalidArgumentError, match=r"initializer 'w' is float32\[2, 3\].* is float32\[1, 3\]"):
        ort.InferenceSession(made, options, device=any_device)


def test_a_session_writes_its_model_where_a_program_asks_for_it(any_device: dml.Device, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "written.onnx")
    ort.InferenceSession(two_branches(), options, device=any_device)
    assert onnx.load(tmp_path / "written.onnx") == two_branches()


def test_onnx_runtimes_quantizers_find_their_functions() -> None:
    assert ours.quantize_matmul_4bits is theirs.quantize_matmul_4bits
    assert len(ours.get_all_operator_schema()) == len(theirs.get_all_operator_schema())
    assert not hasattr(ours, "SessionObjectInitializer")


def test_a_run_may_give_initializers_that_are_inputs_too(any_device: dml.Device) -> None:
    weights = np.arange(3, dtype=np.float32)
    made = model([helper.make_node("Mul", ["x", "w"], ["y"])], {"x": [2, 3]}, ["y"], {"w": weights})
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]))
    made.ir_version = 8
    x = np.ones((2, 3), np.float32)
    beside = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    with ort.InferenceSession(made, device=any_device) as session:
        assert [given.name for given in session.get_inputs()] == ["x"]
        assert [given.name for given in session.get_overridable_initializers()] == ["w"]
        for feed in ({"x": x}, {"x": x, "w": weights + 5}, {"x": x, "w": weights - 1}, {"x": x}):
            np.testing.assert_array_equal(session.run(None, feed)[0], beside.run(None, feed)[0])
        with pytest.raises(dml.InvalidArgumentError, match="'w'"):
            session.run(None, {"x": x, "w": np.ones((2, 3, 4), np.float32)})
    with pytest.raises(dml.DeviceRemovedError, match="closed"):
        session.run(None, {"x": x, "w": weights})
    made.ir_version = 3  # where all initializers are inputs, and none may be given
    with pytest.raises(dml.InvalidArgumentError, match="has no input 'w'"):
        ort.InferenceSession(made, device=any_device).run(None, {"x": x, "w": weights})


@pytest.mark.parametrize("source", [5, None, b"", b"\1garbage" * 20, "folder", "nothing.onnx", "unread"])
def test_what_is_no_model_is_refused_by_the_exceptions_that_onnx_runtime_raises(source: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    if source == "unread":
        source = model([helper.make_node("Abs", ["x"], ["y"])], {}, ["y"]).SerializeToString()
    elif isinstance(source, str):
        source = str(tmp_path / source)
    with pytest.raises(Exception) as refusal:
        onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    name = type(refusal.value).__name__
    kind = getattr(ours, name, None) or getattr(builtins, name)
    with pytest.raises(kind) as own:
        ort.InferenceSession(source)
    assert isinstance(own.value, dml.DmlError)
