"""The provider inside of ONNX Runtime: devices, options, parts of graphs, errors."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx
import dmlvk.onnxruntime
import tests.onnx.models
from dmlvk.onnx.model.loading import OnnxModel
from dmlvk.onnx.plan.engine import DeviceModel
from dmlvk.onnxruntime import PROVIDER, parts
from dmlvk.support.mapped_files import file_of
from tests.onnx.models import parsed
from tests.onnxruntime.models import BOTH, WIDTH, alone, chain, inputs, model_of, parts_of, session_of
from tests.processes import in_threads, python


def test_every_usable_device_is_a_gpu_with_its_names() -> None:
    found = {device.ep_metadata["uuid"]: device for device in dmlvk.onnxruntime.devices()}
    wanted = [info for info in dml.list_devices() if info.usable]
    assert len(found) == len(wanted) > 0
    for info in wanted:
        device = found[info.uuid or ""]
        assert device.ep_metadata["name"] == info.name
        assert device.device.type == onnxruntime.OrtHardwareDeviceType.GPU
        assert (device.device.vendor_id, device.device.device_id) == (info.vendor_id, info.device_id)
        assert device.device.vendor == info.driver


@pytest.mark.parametrize("batch", ["batch", 3])
def test_whole_graphs_give_the_bits_of_dmlvk_onnx(batch: int | str) -> None:
    model = chain(batch)
    session = session_of(model)
    assert parts_of(session) == [["MatMul", "Tanh", "MatMul", "Softmax"]]
    expected = dmlvk.onnx.InferenceSession(model)
    for size in (1, 3, 2, 1) if batch == "batch" else (3,):
        given = inputs(size, size)
        (found,), (wanted,) = session.run(None, given), expected.run(None, given)
        assert found.tobytes() == wanted.tobytes(), size
        np.testing.assert_allclose(found, alone(model).run(None, given)[0], rtol=1e-5)


def test_every_device_gives_the_same_bits() -> None:
    model, given = chain(), inputs(5)
    sessions = []
    for device in dmlvk.onnxruntime.devices():
        options = onnxruntime.SessionOptions()
        options.add_provider_for_devices([device], {})
        sessions.append(onnxruntime.InferenceSession(model.SerializeToString(), options))
    by_name = [session_of(model, device=device.ep_metadata["index"]) for device in dmlvk.onnxruntime.devices()]
    assert len({session.run(None, given)[0].tobytes() for session in [*sessions, *by_name]}) == 1


def test_selection_policies_find_the_device() -> None:
    options = onnxruntime.SessionOptions()
    options.set_provider_selection_policy(onnxruntime.OrtExecutionProviderDevicePolicy.PREFER_GPU)
    assert onnxruntime.InferenceSession(chain().SerializeToString(), options).get_providers() == BOTH


def test_what_the_device_lacks_divides_the_graph_without_circles() -> None:
    model = model_of(
        parsed(
            "a = MatMul (x, w0)  rounded = Round (a)  unique = Unique (rounded)  size = Size (unique)"
            " factor = Cast <to = 1> (size)  b = Mul (a, factor)  c = MatMul (b, w1)  d = MatMul (a, w1)"
            " y = Mul (c, d)"
        ),
        {"x": ["batch", WIDTH]},
        ["y", "unique"],
    )
    session = session_of(model)
    first, second = parts_of(session)
    assert sorted(first) == ["MatMul", "MatMul", "Round"]
    assert sorted(second) == ["Cast", "MatMul", "Mul", "Mul"]
    for size in (1, 4):
        given = inputs(size)
        for found, wanted in zip(session.run(None, given), alone(model).run(None, given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_cheap_node_between_host_nodes_stays_there() -> None:
    model = model_of(parsed("a = Unique (x)  b = Abs (a)  y = Unique (b)"), {"x": [6]}, ["y"])
    session = session_of(model)
    assert parts_of(session) == []
    given = {"x": np.array([1, -1, 2, -2, 3, 1], np.float32)}
    assert session.run(None, given)[0].tolist() == [1, 2, 3]


def test_functions_sequences_loops_and_texts_run() -> None:
    twice = helper.make_function(
        "local", "Twice", ["X"], ["Y"], parsed("Y = Add (X, X)"), [helper.make_opsetid("", 17)]
    )
    model = model_of(
        parsed(
            f"a = local.Twice (x)  b = Loop (k,, a) <body = body (int64 number, bool go, float[batch, {WIDTH}] before)"
            f" => (bool on, float[batch, {WIDTH}] after)"
            " {product = MatMul (before, w0)  after = Tanh (product)  on = Identity (go)}>"
            " s = SequenceConstruct (a, b)  y = ConcatFromSequence <axis = 0> (s)"
        ),
        {"x": ["batch", WIDTH], "k": frozenset()},
        ["y"],
        functions=[twice],
    )
    session = session_of(model)
    given = inputs(2) | {"k": np.array(3)}
    assert ["MatMul", "Tanh"] in parts_of(session)
    np.testing.assert_allclose(session.run(None, given)[0], alone(model).run(None, given)[0], rtol=1e-4, atol=1e-6)


def test_models_with_external_data_run(tmp_path: Path) -> None:
    path = str(tmp_path / "model.onnx")
    onnx.save(copy.deepcopy(chain()), path, save_as_external_data=True, location="model.data", size_threshold=0)
    given = inputs(2)
    found = session_of(path).run(None, given)[0]
    assert found.tobytes() == session_of(chain()).run(None, given)[0].tobytes()


def test_large_external_data_is_mapped_and_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "model.onnx")
    weights = {name: np.ones((192, 192), np.float32) for name in ("w", "second")}
    nodes = parsed("a = MatMul (x, w)  y = MatMul (a, second)")
    model = tests.onnx.models.model(nodes, {"x": ["batch", 192]}, ["y"], weights)
    onnx.save(model, path, save_as_external_data=True, location="model.data", size_threshold=0)
    loaded: list[OnnxModel] = []

    made = parts.Part.__init__

    def noting(self: parts.Part, *given: Any) -> None:
        loaded.extend(value for value in given if isinstance(value, OnnxModel))
        made(self, *given)

    monkeypatch.setattr(parts.Part, "__init__", noting)
    session_of(path)
    (loaded_model,) = loaded
    assert len(loaded_model.constants) == 2
    for array in loaded_model.constants.values():
        assert file_of(array) is not None, "a copy of what is in the file"


def test_runs_in_several_threads_give_what_they_give_alone() -> None:
    session = session_of(chain())
    given = [inputs(1 + seed % 3, seed) for seed in range(6)]
    wanted = [session.run(None, feed)[0].tobytes() for feed in given]
    found: dict[int, set[bytes]] = {}

    def work(number: int) -> None:
        found[number] = {session.run(None, given[number])[0].tobytes() for _ in range(10)}

    in_threads(work, range(6))
    assert found == {number: {wanted[number]} for number in range(6)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "none such"}, "No Vulkan device matches"),
        ({"devise": "0"}, "has no option 'devise'; it has device, feature_level, arithmetic"),
        ({"feature_level": "9_9"}, "unknown feature level '9_9'"),
        ({"arithmetic": "fast"}, "must be 'portable' or 'device'; got 'fast'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: dict[str, str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    made = onnxruntime.SessionOptions()
    said = ""
    try:
        made.add_provider_for_devices(dmlvk.onnxruntime.devices()[:1], options)
        session = onnxruntime.InferenceSession(chain().SerializeToString(), made)
        assert PROVIDER not in session.get_providers()  # ONNX Runtime before 1.32 tells it, and takes the CPU provider
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's own kinds
        said = str(error)
    assert message in said + capfd.readouterr().out


def test_an_error_names_node_and_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(
        parsed("a = MatMul (x, w0)  [shaped] y = Reshape (a, k)"), {"x": ["batch", WIDTH], "k": frozenset({2})}, ["y"]
    )
    session = session_of(model)
    assert parts_of(session) == [["MatMul", "Reshape"]]
    with pytest.raises(Exception, match=r"dmlvk: .*node 'shaped' \(Reshape\)"):
        session.run(None, inputs(2) | {"k": np.array([7, 5])})
    assert session.run(None, inputs(2) | {"k": np.array([WIDTH, -1])})[0].shape == (WIDTH, 2)


def test_what_a_run_shows_to_be_too_much_for_the_device_is_computed_by_the_cpu_provider(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    onnxruntime.set_default_logger_severity(2)  # to which it writes here; other tests of this process make it silent
    session, given = session_of(chain(), log_severity=2), inputs(3)

    def refuse(*_: object, **__: object) -> None:
        raise dml.DeviceLimitError("MatMul: 9 bytes; a buffer has 8")

    monkeypatch.setattr(DeviceModel, "run", refuse)
    for _ in range(2):
        np.testing.assert_allclose(session.run(None, given)[0], alone(chain()).run(None, given)[0], rtol=1e-5)
    warnings = [line for line in capfd.readouterr().err.splitlines() if "CPU provider computes" in line]
    assert len(warnings) == 1, "once in ONNX Runtime's log"
    assert "MatMul: 9 bytes; a buffer has 8" in warnings[0]


def test_kernels_are_in_the_profile_that_onnxruntime_writes(tmp_path: Path) -> None:
    session = session_of(chain(), profile=str(tmp_path / "profile"))
    wanted = session_of(chain()).run(None, inputs(3))[0]
    assert session.run(None, inputs(3))[0].tobytes() == wanted.tobytes(), "the same bits while it is profiled"
    events = json.loads(Path(session.end_profiling()).read_text())
    if int(onnxruntime.__version__.split(".")[1]) < 25:
        pytest.skip("ONNX Runtime before 1.25 asks no provider for events: only its own are there")
    (run,) = (event for event in events if event["cat"] == "Kernel" and event["name"].endswith("_run"))
    assert run["args"]["nodes"] == "4"
    (node,) = (event for event in events if event["cat"] == "Node" and event["name"].endswith("_kernel_time"))
    assert node["ts"] <= run["ts"] <= run["ts"] + run["dur"] <= node["ts"] + node["dur"] + 2, "where the node ran"
    kernels = [event for event in events if event["args"].get("parent_name")]
    assert [event["name"].split()[0] for event in kernels] == ["MatMul", "Tanh", "second", "Softmax"]
    assert all(run["ts"] - 1 <= event["ts"] <= run["ts"] + run["dur"] + 1 for event in kernels)


def test_a_library_of_another_interface_is_refused_in_one_line(tmp_path: Path) -> None:
    # The library is asked as an older ONNX Runtime would ask it.
    source = tmp_path / "old.c"
    source.write_text(
        "#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "static void *status(int code, const char *text) { (void)code; return strdup(text); }\n"
        "static void *table[400] = {(void *)status};\n"
        "static const void *api(uint32_t version) { return version <= 23 ? table : 0; }\n"
        'static const char *version(void) { return "1.23.2"; }\n'
        "const void *base[2] = {(void *)api, (void *)version};\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "old.so"), str(source)], check=True)
    program = (
        "import ctypes, sys\n"
        "old, new = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])\n"
        "new.CreateEpFactories.restype = ctypes.c_char_p\n"
        "count, room = ctypes.c_size_t(), (ctypes.c_void_p * 4)()\n"
        "base = ctypes.addressof(ctypes.c_char.in_dll(old, 'base'))\n"
        "print(new.CreateEpFactories(b'x', ctypes.c_void_p(base), None, room, 4, ctypes.byref(count)).decode())\n"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "old.so"), dmlvk.onnxruntime.library_path()]
    said = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(said) == 1
    assert "version 24" in said[0]
    assert "ONNX Runtime 1.23.2 does not have that" in said[0]


def test_a_row_that_a_table_has_not_is_refused_in_runs_that_repeat_as_well() -> None:
    nodes = parsed("a = Gather (w0, ids)  y = MatMul (a, w1)")
    session = session_of(model_of(nodes, {"ids": frozenset([1])}, ["y"]))
    for token in (3, 5, 0, 47, -48):
        assert session.run(None, {"ids": np.array([token])})[0].shape == (1, WIDTH)
    for token in (48, -49):
        with pytest.raises(Exception, match=f"{token}.*48"):
            session.run(None, {"ids": np.array([token])})


_ENDINGS = {
    "sessions that are alive": "",
    "a provider that is taken away": (
        "dmlvk.onnxruntime.unregister()\n"
        "for _ in range(3):\n"
        "    assert session.run(None, given)[0].tobytes() == wanted\n"
        "dmlvk.onnxruntime.register()\n"
        "again = session_of(chain())\n"
        "assert again.run(None, given)[0].tobytes() == wanted\n"
    ),
    "a run in another thread": (
        "import threading, time\n"
        "def work():\n"
        "    while True:\n"
        "        session.run(None, given)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.2)\n"
    ),
}


@pytest.mark.parametrize("ending", _ENDINGS)
def test_the_interpreter_ends_well_with(ending: str) -> None:
    program = (
        "import dmlvk.onnxruntime\n"
        "from tests.onnxruntime.models import chain, inputs, session_of\n"
        "session, given = session_of(chain()), inputs(2)\n"
        "wanted = session.run(None, given)[0].tobytes()\n"
        f"{_ENDINGS[ending]}"
        "print('end')\n"
    )
    done = python("-c", program, timeout=120)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
