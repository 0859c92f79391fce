"""Programs for ONNX Runtime, unchanged: lists of providers, what is refused, files of weights that change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import dmlvk.onnxruntime
from dmlvk.onnx.backend.suite import KINDS, table_in
from dmlvk.onnxruntime import PROVIDER
from dmlvk.onnxruntime.suite import run_suite
from dmlvk.onnxruntime.unchanged import first
from tests.onnxruntime.models import BOTH, alone, chain, inputs, parts_of, session_of
from tests.processes import python

_CPU, _CUDA, _AZURE = "CPUExecutionProvider", "CUDAExecutionProvider", "AzureExecutionProvider"

LISTS: dict[str, tuple[Any, Any, Any]] = {
    "none": (None, None, [PROVIDER, _CPU]),
    "empty": ([], None, [PROVIDER, _CPU]),
    "the CPU": ([_CPU], None, [PROVIDER, _CPU]),
    "a tuple": ((_CUDA, _CPU), None, [PROVIDER, _CUDA, _CPU]),
    "another device": ([_CUDA], None, [PROVIDER, _CUDA, _CPU]),
    "options": ([(_CUDA, {"device_id": 0}), _CPU], None, [PROVIDER, (_CUDA, {"device_id": 0}), _CPU]),
    "options beside": ([_CUDA, _CPU], [{"device_id": 0}, {}], [PROVIDER, (_CUDA, {"device_id": 0}), (_CPU, {})]),
    "all, as ONNX Runtime has them": ([_AZURE, _CPU, PROVIDER], None, [_AZURE, PROVIDER, _CPU]),
    "all with options": ([_CPU, PROVIDER], [{}, {"device": "1"}], [(PROVIDER, {"device": "1"}), (_CPU, {})]),
    "named": ([(PROVIDER, {"device": "1"}), _CPU], None, [(PROVIDER, {"device": "1"}), _CPU]),
    "named alone": ([PROVIDER], None, [PROVIDER, _CPU]),
}

REFUSED: dict[str, tuple[Any, Any]] = {
    "a text": (_CPU, None),
    "other lengths": ([_CUDA, _CPU], [{}]),
    "options twice": ([(_CUDA, {}), _CPU], [{}, {}]),
    "a list for a pair": ([[_CUDA, {}]], None),
    "half a pair": ([(_CUDA,)], None),
    "nothing for a name": ([None, _CPU], None),
    "options that are none": ([_CPU], ["text"]),
    "a set": ({_CPU}, None),
    "options alone": (None, [{}]),
}


@pytest.mark.parametrize("name", LISTS)
def test_dmlvk_is_first_and_the_cpu_provider_behind_it(name: str) -> None:
    providers, options, wanted = LISTS[name]
    assert first(providers, options, {}) == (wanted, None)
    assert first(providers, options, {"device": "2"})[0][0] in (wanted[0], (PROVIDER, {"device": "2"}))


@pytest.mark.parametrize("name", REFUSED)
def test_what_onnx_runtime_refuses_is_given_to_it_as_it_is(name: str) -> None:
    providers, options = REFUSED[name]
    assert first(providers, options, {"device": "0"}) == (providers, options)


def test_the_list_of_providers_goes_by_priority() -> None:
    for module in (onnxruntime, onnxruntime.capi._pybind_state, onnxruntime.capi.onnxruntime_pybind11_state):
        names = module.get_available_providers()
        assert names[0] == PROVIDER
        assert names[-1] == _CPU
    session = onnxruntime.InferenceSession(chain().SerializeToString(), providers=onnxruntime.get_available_providers())
    assert session.get_providers()[0] == PROVIDER
    dmlvk.onnxruntime.unregister()
    try:
        assert PROVIDER not in onnxruntime.get_available_providers()
    finally:
        dmlvk.onnxruntime.register()


_PROGRAM = """
import sys, onnxruntime
from onnxruntime import InferenceSession, SessionOptions, get_available_providers
sys.path.insert(0, sys.argv[2])

path = sys.argv[1]
contents = open(path, "rb").read()
all_of_them = get_available_providers()
options = SessionOptions()
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")

class Own(InferenceSession):
    def __init__(self, path):
        super().__init__(path, options, ["CPUExecutionProvider"])

def set_later():
    session = InferenceSession(path, options)
    session.set_providers(["CPUExecutionProvider"])
    return session

def set_to_all():
    session = InferenceSession(path, options)
    session.set_providers(list(reversed(all_of_them)), [{} for _ in all_of_them])
    return session

sessions = [
    InferenceSession(path, options),
    InferenceSession(path, sess_options=options, providers=all_of_them),
    InferenceSession(path, options, all_of_them),
    InferenceSession(path, options, tuple(reversed(all_of_them))),
    InferenceSession(path, options, ["CPUExecutionProvider"], [{}]),
    InferenceSession(path, options, ["CPUExecutionProvider"], provider_options=[{}]),
    InferenceSession(path_or_bytes=contents, sess_options=options, providers=[("CPUExecutionProvider", {})]),
    InferenceSession(path, options, providers=["CPUExecutionProvider"], enable_fallback=0),
    Own(path), set_later(), set_to_all(),
]
for session in sessions:
    parts = session.get_provider_graph_assignment_info()
    print([part.ep_name for part in parts], len(parts[0].get_nodes()))
"""


def test_every_way_to_make_a_session_computes_with_dmlvk(tmp_path: Any) -> None:
    (tmp_path / "model.onnx").write_bytes(chain().SerializeToString())
    (tmp_path / "program.py").write_text(_PROGRAM)
    command = [
        sys.executable,
        "-m",
        "dmlvk.onnxruntime",
        str(tmp_path / "program.py"),
        str(tmp_path / "model.onnx"),
        ".",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"['{PROVIDER}'] 4"] * 11, done.stderr


_FALLING = """
import sys, numpy as np, onnxruntime
import dmlvk as dml
from dmlvk.onnx.plan.engine import DeviceModel
from tests.onnxruntime.models import alone, chain, inputs

session = onnxruntime.InferenceSession(chain().SerializeToString(), providers=["CPUExecutionProvider"])
wanted = session.run(None, inputs(3))[0]
works = DeviceModel.run

def refuse(*_, **__):
    raise error

DeviceModel.run = refuse
for error in (dml.DeviceLimitError("too large"), dml.DeviceRemovedError("lost")):
    np.testing.assert_allclose(session.run(None, inputs(3))[0], wanted, rtol=1e-5)
    print(session.get_providers()[0])
"""


def test_what_the_device_cannot_do_and_a_lost_one_end_with_the_cpu_provider() -> None:
    """dmlvk's own sessions for the CPU provider have no provider of dmlvk's before it."""
    assert inputs(3)
    start = f"import sys; sys.argv = ['-']; exec({_FALLING!r})"
    command = [sys.executable, "-c", f"from dmlvk.onnxruntime.unchanged import pass_on; pass_on(None); {start}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.endswith("Provider")]
    assert lines == [PROVIDER, _CPU], f"{done.stdout}\n{done.stderr}"


_FILE_PROGRAM = """
import itertools, os, pathlib, tempfile
import numpy as np, onnx, onnxruntime
from onnx import helper
import dmlvk.onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from tests.onnx.models import model
from tests.onnxruntime.models import BOTH

onnxruntime.set_default_logger_severity(4)
weights = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
KINDS = {
    "product": helper.make_node("MatMul", ["x", "w"], ["a"]),
    "sum": helper.make_node("Add", ["x", "w"], ["a"]),
    "lines": helper.make_node("Gather", ["w", "k"], ["a"]),
}

def truncated(path): os.truncate(path, 100)
def emptied(path): path.write_bytes(b"")
def longer(path): path.write_bytes(path.read_bytes() + b"more")
def other(path): path.write_bytes((weights * 2).tobytes())
def removed(path): path.unlink()
def replaced(path):
    path.with_name("new").write_bytes((weights * 3).tobytes()); os.replace(path.with_name("new"), path)
def cut_and_replaced(path):
    path.with_name("new").write_bytes(b"short"); os.replace(path.with_name("new"), path)

CHANGES = (truncated, emptied, longer, other, removed, replaced, cut_and_replaced)

for turn, (name, change, before) in enumerate(itertools.product(KINDS, CHANGES, (0, 1))):
    folder = pathlib.Path(tempfile.mkdtemp())
    nodes = [KINDS[name], helper.make_node("Mul", ["a", "x"], ["y"])]
    given = {"x": np.full((1 if name == "lines" else 256, 256), 2, np.float32)}
    rows = given["x"].shape[0] if turn % 3 else "rows"
    source = model(nodes, {"x": [rows, 256]}, ["y"], {"w": weights, "k": np.arange(5)})
    onnx.save(source, folder / "model.onnx", save_as_external_data=True, location="w", size_threshold=100)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=BOTH)  # which may fall back
    wanted = {"product": given["x"] @ weights, "sum": given["x"] + weights, "lines": weights[:5]}[name] * given["x"]
    said = "right"
    for run in range(2):
        if run == before:
            change(folder / "w")
        try:
            np.testing.assert_allclose(session.run(None, given)[0], wanted, rtol=1e-4, atol=1e-4)
        except Fail as error:
            assert "was written to after the model was loaded" in str(error), error
            said = "refused"
        assert session.get_providers() == BOTH
    print(name, change.__name__, before, said, flush=True)
"""


@pytest.fixture(scope="module")
def outcomes() -> list[str]:
    done = python("-c", _FILE_PROGRAM)
    assert done.returncode == 0, f"{done.stdout[-300:]}\n{done.stderr[-2000:]}"
    return done.stdout.splitlines()


def test_values_are_those_that_were_loaded_or_one_error_says_which_file_changed(outcomes: list[str]) -> None:
    assert len(outcomes) == 3 * 7 * 2
    assert all(line.split()[-1] in ("right", "refused") for line in outcomes)


def test_files_that_are_replaced_or_removed_stay_what_they_were(outcomes: list[str]) -> None:
    assert all(line.endswith("right") for line in outcomes if "replaced" in line or "removed" in line)


def test_weights_of_products_are_on_the_device_as_soon_as_there_is_a_session(outcomes: list[str]) -> None:
    assert all(line.endswith("right") for line in outcomes if line.startswith("product"))


_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64


def _model(node: onnx.NodeProto, inputs: dict[str, tuple[int, list[Any]]]) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(name, *info) for name, info in inputs.items()]
    result = helper.make_tensor_value_info("y", _FLOAT, None)
    nodes = [node, helper.make_node("Relu", ["a"], ["y"])]
    table = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "table")
    graph = helper.make_graph(nodes, "refusals", given, [result], [table])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


_PAIR = {"x": (_FLOAT, ["m", "n"]), "z": (_FLOAT, ["p", "q"])}

_SHAPED = {"x": (_FLOAT, ["m", "n"]), "z": (_INT64, ["k"])}

CASES: dict[str, tuple[onnx.NodeProto, Any, dict[str, Any], dict[str, Any]]] = {
    "product": (helper.make_node("MatMul", ["x", "z"], ["a"]), _PAIR, {"z": _ones(3, 2)}, {"z": _ones(4, 2)}),
    "sum": (helper.make_node("Add", ["x", "z"], ["a"]), _PAIR, {"z": _ones(1, 3)}, {"z": _ones(2, 5)}),
    "joined": (helper.make_node("Concat", ["x", "z"], ["a"], axis=1), _PAIR, {"z": _ones(2, 1)}, {"z": _ones(3, 1)}),
    "lines": (
        *(helper.make_node("Gather", ["table", "z"], ["a"]), {"z": _SHAPED["z"]}),
        *({"z": np.array([1, -2])}, {"z": np.array([0, 7])}),
    ),
    "shape": (
        *(helper.make_node("Reshape", ["x", "z"], ["a"]), _SHAPED),
        *({"z": np.array([3, 2])}, {"z": np.array([4, 2])}),
    ),
    "wide": (
        *(helper.make_node("Expand", ["x", "z"], ["a"]), _SHAPED),
        *({"z": np.array([4, 1, 1])}, {"z": np.array([2, 4])}),
    ),
    "parts": (
        *(helper.make_node("Tile", ["x", "z"], ["a"]), _SHAPED),
        *({"z": np.array([2, 1])}, {"z": np.array([2, 1, 1])}),
    ),
}


def _kind(session: onnxruntime.InferenceSession, given: dict[str, Any]) -> type[BaseException] | None:
    try:
        session.run(None, given)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions have no base of their own
        return type(error)
    return None


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_computed_is_refused_as_onnx_runtime_refuses_it(name: str) -> None:
    node, inputs, right, wrong = CASES[name]
    model = _model(node, inputs)
    if "x" in inputs:
        right, wrong = {"x": _ones(2, 3)} | right, {"x": _ones(2, 3)} | wrong
    assert parts_of(session_of(model)), "the device has the node"
    session, expected = onnxruntime.InferenceSession(model.SerializeToString(), providers=BOTH), alone(model)
    wanted = expected.run(None, right)[0]
    for _ in range(2):
        for _ in range(4):  # from the third run on, it repeats others
            np.testing.assert_allclose(session.run(None, right)[0], wanted, rtol=1e-5)
        kind = _kind(expected, wrong)
        assert kind is not None
        assert _kind(session, wrong) is kind
        assert session.get_providers() == BOTH


ROOT = Path(__file__).parent.parent.parent


def test_cases_whose_contents_decide_pass_on_the_device() -> None:
    results = run_suite(
        ["node"], "^test_(reshape_z|resize_upsample_sizes_nearest|slice_n|top_k|simple_rnn|gelu|if|loop11)"
    )
    assert len(results) > 20
    assert [result for result in results if result.outcome in ("wrong", "refused")] == []
    hosted = {result.name for result in results if result.outcome in ("host", "shared")}
    assert all(name.startswith(("test_if", "test_loop")) for name in hosted), hosted


def test_all_cases_of_the_page_are_right_or_excluded() -> None:
    lines = table_in((ROOT / "docs/notes/onnxruntime.md").read_text()).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[4:]]
    assert [row[0] for row in rows] == list(KINDS)
    for kind, cases, *outcomes, nodes in rows:
        assert sum(map(int, outcomes)) == int(cases), kind
        there, every = map(int, nodes.split(" of "))
        assert 0 < there <= every
