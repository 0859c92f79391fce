"""The lists of providers that programs have, each of them with dmlvk's first; what ONNX Runtime refuses, it refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import onnxruntime
import pytest

import dmlvk.onnxruntime
from dmlvk.bench.onnx_models import chain
from dmlvk.onnxruntime import PROVIDER
from dmlvk.onnxruntime.unchanged import first
from tests.onnxruntime.models import inputs

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
from dmlvk.bench.onnx_models import chain
from dmlvk.onnx.plan.engine import DeviceModel
from tests.onnxruntime.models import alone, inputs

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
