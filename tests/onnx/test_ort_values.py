"""ONNX Runtime's names, values and bindings: programs run unchanged, and what is on the device stays there."""

from __future__ import annotations

import builtins
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as theirs

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.capi import onnxruntime_pybind11_state as ours
from tests.onnx.models import model, parsed, two_branches
from tests.processes import python

_NOT_HERE = {
    "InferenceSession": {  # what only its C++ side can give
        *("run_with_ortvaluevector", "get_input_epdevices", "get_input_memory_infos", "get_output_memory_infos")
    },
    "OrtValue": {"as_sparse_tensor", "ort_value_from_sparse_tensor"},
    "IOBinding": set(),
    "SessionOptions": {  # of execution providers that are loaded as libraries
        *("add_external_initializers_from_files_in_memory", "clear_ep_context_data_read_func"),
        "set_ep_context_data_read_func",
    },
    "RunOptions": set(),
}

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)


@pytest.mark.parametrize("name", sorted(_NOT_HERE))
def test_public_names_are_those_of_onnx_runtime(name: str) -> None:
    theirs = (
        {item for item in dir(getattr(onnxruntime, name)()) if not item.startswith("_")}
        if "Opt" in name
        else {item for item in dir(getattr(onnxruntime, name)) if not item.startswith("_")}
    )
    instance = getattr(ort, name)() if "Opt" in name else getattr(ort, name)
    assert {item for item in theirs if not hasattr(instance, item)} == _NOT_HERE[name] & theirs


def test_types_of_inputs_are_written_as_onnx_runtime_writes_them(any_device: dml.Device) -> None:
    kinds = [
        helper.make_tensor_type_proto(TensorProto.FLOAT16, ["n", 2]),
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, None)),
        helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.DOUBLE, [3])),
    ]
    graph = helper.make_graph(
        [helper.make_node("Identity", [f"x{index}"], [f"y{index}"]) for index in range(3)],
        "types",
        [helper.make_value_info(f"x{index}", kind) for index, kind in enumerate(kinds)],
        [helper.make_value_info(f"y{index}", kind) for index, kind in enumerate(kinds)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    theirs = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    mine = ort.InferenceSession(made, device=any_device)
    assert [item.type for item in mine.get_inputs()] == [item.type for item in theirs.get_inputs()]
    assert mine.get_outputs()[0].shape == theirs.get_outputs()[0].shape == ["n", 2]


def test_arrays_on_the_device_are_read_where_they_are_and_outputs_stay(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ort.InferenceSession(two_branches(), device=device)
    expected = session.run(None, {"x": X})
    on_device = device.array(X)
    value = ort.OrtValue.ortvalue_from_numpy(X, "dml", 0)
    given = [on_device, value, device.array(X.T.copy()).T, device.array(np.vstack([X, X]))[2:4]]
    results = [session.run_with_ort_values(None, {"x": item}) for item in given]

    def refuse(*_: object) -> None:
        raise AssertionError("nothing goes through the host, and nothing is allocated or recorded")

    monkeypatch.setattr(type(device.engine), "allocate", refuse)
    monkeypatch.setattr(type(device.engine), "write", refuse)
    monkeypatch.setattr(type(device.engine), "read", refuse)
    del results[1:]
    again = session.run_with_ort_values(None, {"x": on_device})
    monkeypatch.undo()
    for outputs in [*results, again, session.run(None, {"x": given[2]}), session.run(None, {"x": given[3]})]:
        for output, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(output), wanted)
    assert [output.device_name() for output in again] == ["dml", "dml"] and again[0].array() is not None


def test_bindings_say_where_inputs_and_outputs_lie(device: dml.Device) -> None:
    session = ort.InferenceSession(two_branches(), device=device)
    y, z = session.run(None, {"x": X})
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("z", "dml")
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    assert [value.device_name() for value in binding.get_outputs()] == ["dml", "cpu"]
    for found, wanted in zip(binding.copy_outputs_to_cpu(), (z, y), strict=True):
        np.testing.assert_array_equal(found, wanted)
    mine = np.zeros((3, 2), np.float32)
    binding.clear_binding_outputs()
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(mine))
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(2 * X, "cuda", 0))
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(mine, session.run(["y"], {"x": 2 * X})[0])
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_shape_and_type([2, 2], np.float32))
    with pytest.raises(dml.InvalidArgumentError, match=r"\[2, 2\]; the output is tensor\(float\) \[3, 2\]"):
        session.run_with_iobinding(binding)
    with pytest.raises(dml.UnsupportedError, match="takes no addresses"):
        binding.bind_input("x", "cuda", 0, np.float32, [2, 3], 4096)


def test_a_value_fed_back_run_after_run_stays_on_the_device(device: dml.Device) -> None:
    nodes = parsed("y = Add (x, x)  less = Less (x, y)")
    session = ort.InferenceSession(model(nodes, {"x": [2, 3]}, ["y", "less"]), device=device)
    value = ort.OrtValue.ortvalue_from_numpy(X, "dml")
    for _ in range(5):
        value, less = session.run_with_ort_values(["y", "less"], {"x": value})
    np.testing.assert_array_equal(value.numpy(), 32 * X)
    assert less.data_type() == "tensor(bool)" and less.numpy().dtype == np.bool_
    np.testing.assert_array_equal(less.numpy(), X > 0)


def test_values_of_the_host_and_of_other_devices(any_device: dml.Device, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "dmlvk")
    nodes = parsed("y = Unique (x)  z = Neg (y)")
    session = ort.InferenceSession(model(nodes, {"x": [4]}, ["y", "z"]), device=any_device)
    x = np.array([2, 1, 2, 1], np.float32)
    for _ in range(2):
        y, z = session.run_with_ort_values(None, {"x": any_device.array(x)})
        np.testing.assert_array_equal(y.numpy(), [1, 2])
        np.testing.assert_array_equal(z.numpy(), [-1, -2])
        assert y.device_name() == z.device_name() == "dml"
    with dml.Device() as other, pytest.raises(dml.InvalidArgumentError, match="another device"):
        session.run(None, {"x": other.array(x)})
    with pytest.raises(dml.InvalidArgumentError, match="must be of FLOAT; got INT32"):
        session.run(None, {"x": any_device.array(np.arange(4, dtype=np.int32))})
    with pytest.raises(dml.InvalidArgumentError, match=r"must have the shape \[4\]; got \[3\]"):
        session.run(None, {"x": any_device.array(x[:3])})


def test_options_fix_sizes_and_note_times(any_device: dml.Device, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_free_dimension_override_by_name("rows", 2)
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "times")
    session = ort.InferenceSession(
        two_branches(), options, ["DmlExecutionProvider", "CPUExecutionProvider"], device=any_device
    )
    assert session.get_inputs()[0].shape == [2, 3] and session.partition  # planned when it was loaded
    assert session.get_session_options().get_session_config_entry("session.disable_prepacking") == "1"
    session.run(None, {"x": X})
    assert json.loads(Path(session.end_profiling()).read_text())["traceEvents"]
    with pytest.raises(dml.InvalidArgumentError, match=r"must have the shape \[2, 3\]; got \[1, 3\]"):
        session.run(None, {"x": X[:1]})
    with pytest.raises(dml.InvalidArgumentError, match="size of 'rows'"):
        options.add_free_dimension_override_by_name("rows", -1)


def test_a_run_in_a_thread_tells_its_caller_how_it_ended(any_device: dml.Device) -> None:
    session = ort.InferenceSession(two_branches(), device=any_device)
    outcomes: list[Any] = []
    for feed in ({"x": X}, {"w": X}):
        done = threading.Event()

        def note(*outcome: Any, done: threading.Event = done) -> None:
            outcomes.append(outcome)
            done.set()

        session.run_async(["y"], feed, note, "mine")
        assert done.wait(60)
    (outputs, first, nothing), (none, second, message) = outcomes
    np.testing.assert_array_equal(outputs[0], session.run(["y"], {"x": X})[0])
    assert (first, second, nothing, none) == ("mine", "mine", "", []) and "has no input 'w'" in message


def test_the_device_id_of_the_providers_options_chooses_the_device() -> None:
    with pytest.raises(dml.DmlError, match="99"):
        ort.InferenceSession(two_branches(), providers=[("DmlExecutionProvider", {"device_id": "99"})])
    with pytest.raises(dml.InvalidArgumentError, match="device_id must be a number; got 'x'"):
        ort.InferenceSession(two_branches(), None, ["DmlExecutionProvider"], [{"device_id": "x"}])
    with ort.InferenceSession(two_branches(), providers=[("CUDAExecutionProvider", {"device_id": 99})]) as session:
        options = {"device_id": str(session.device.info.index)}
        assert session.get_provider_options() == {"DmlExecutionProvider": options, "CPUExecutionProvider": {}}


def test_files_in_onnx_runtimes_own_format_are_refused_by_name(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "model.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    made = model("y = Neg (x)", {"x": [2]}, ["y"])
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    with pytest.raises(dml.ModelFileError, match=r"model.ort: is in ONNX Runtime's own format \(.ort\)"):
        ort.InferenceSession(tmp_path / "model.ort")


def test_options_have_onnx_runtimes_attributes_only() -> None:
    options = ort.SessionOptions()
    with pytest.raises(AttributeError, match="did you mean 'graph_optimization_level'"):
        options.graph_optimisation_level = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'xyz'; it has enable_profiling"):
        options.xyz = 1  # type: ignore[attr-defined]
    options.log_severity_level = 3
    assert options.log_severity_level == 3


def test_mistakes_are_named_where_they_are_made(device: dml.Device, tmp_path: Path) -> None:
    session = ort.InferenceSession(two_branches(), device=device)
    name, output = session.get_inputs()[0].name, session.get_outputs()[0].name
    binding, anything = session.io_binding(), cast("Any", None)
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "nowhere/trace")
    noting = ort.InferenceSession(two_branches(), options, device=device)
    mistakes: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: binding.bind_cpu_input("q", X), r"has no input 'q'; it has \["),
        (lambda: binding.bind_output("q"), r"has no output 'q'; it has \["),
        (lambda: session.run_with_iobinding(anything), r"iobinding must be what io_binding\(\) returned; got None"),
        (lambda: binding.bind_ortvalue_input(name, anything), "must be an OrtValue; got None"),
        (lambda: binding.bind_ortvalue_output(output, anything), "must be an OrtValue; got None"),
        (
            lambda: ort.OrtValue.ortvalue_from_shape_and_type([2, -3], np.float32),
            r"shape\[1\] must be at least 0; got -3",
        ),
        (lambda: ort.OrtValue.ortvalue_from_shape_and_type([2], "nothing"), r"\[2\] elements of 'nothing': "),
        (
            lambda: session.run(anything or output, {}),
            f"output_names must be a sequence of names, or None; got '{output}'",
        ),
        (lambda: session.run_async(None, {}, anything), "run_async: callback must be a function; got None"),
        (
            lambda: ort.InferenceSession(anything),
            "takes a path, the bytes of a model's file, or a ModelProto; got None",
        ),
        (lambda: ort.InferenceSession(two_branches(), cast("Any", 3)), "sess_options must be a SessionOptions or None"),
        (lambda: ort.InferenceSession(two_branches(), providers="dml"), "providers must be a list, or None; got 'dml'"),
        (noting.end_profiling, r"end_profiling: .*nowhere/trace.*No such file"),
    )
    for call, message in mistakes:
        with pytest.raises(dml.InvalidArgumentError, match=message):
            call()
    with pytest.raises(dml.OutOfMemoryError, match=r"^OrtValue: \[1099511627776\] elements of float64: "):
        ort.OrtValue.ortvalue_from_shape_and_type([2**40], np.float64)


@pytest.mark.parametrize("given", [object(), [1.0, 2.0], None, np.ndarray, "text"])
def test_what_gives_itself_by_no_dlpack_is_refused(given: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"OrtValue\.from_dlpack: takes arrays with __dlpack__"):
        ort.OrtValue.from_dlpack(given)


def test_what_numpy_cannot_take_by_dlpack_is_refused() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for given in (np.ones(3, ml_dtypes.bfloat16), np.array(["text"])):
        with pytest.raises(dml.UnsupportedError, match=r"OrtValue\.from_dlpack: ndarray does not give its elements"):
            ort.OrtValue.from_dlpack(given)


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
    done = python(
        "-m", "dmlvk.onnx", *program, model, env={"PYTHONPATH": os.pathsep.join(paths)}, cwd=tmp_path, timeout=120
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
    done = python(
        "-m",
        "dmlvk.onnx",
        str(tmp_path / "program.py"),
        model,
        env={"PYTHONPATH": str(Path(dml.__file__).parents[1])},
        cwd=tmp_path,
        timeout=240,
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
    graph = helper.make_graph(parsed("y = Identity (x)"), "one", infos[:1], infos[1:])
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
    made = model("y = Mul (x, w)", {"x": [2, 3]}, ["y"], {"w": weights})
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
    made = model("y = Mul (x, w)", {"x": [2, 3]}, ["y"], {"w": weights})
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
        source = model("y = Abs (x)", {}, ["y"]).SerializeToString()
    elif isinstance(source, str):
        source = str(tmp_path / source)
    with pytest.raises(Exception) as refusal:
        onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    name = type(refusal.value).__name__
    kind = getattr(ours, name, None) or getattr(builtins, name)
    with pytest.raises(kind) as own:
        ort.InferenceSession(source)
    assert isinstance(own.value, dml.DmlError)
