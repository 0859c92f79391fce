"""The command line: what it shows, and its exit statuses."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.operators import OPERATORS
from tests.cli.outcome import Outcome

EXAMPLES = Path(__file__).parents[2] / "examples"
DEVICES = len(dml.list_devices())


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dmlvk", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=EXAMPLES.parent, **options
    )


def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "devices")
    assert (outcome.status, outcome.err) == (0, "")
    for info in dml.list_devices():
        assert re.search(rf"{info.index} .*{re.escape(info.name)}.*{info.kind}.*{info.api_version}", outcome.out)


def test_devices_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "devices", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    listed = json.loads(outcome.out)
    assert [device["name"] for device in listed] == [info.name for info in dml.list_devices()]
    assert {"index", "driver", "kind", "api_version", "memory", "heaps", "limits", "usable"} <= set(listed[0])
    assert listed[0]["limits"]["max_storage_buffer_range"] > 0


def test_operators(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "operators")
    assert (outcome.status, outcome.err) == (0, "")
    for name, operator in OPERATORS.items():
        assert f"\n{name}\n" in f"\n{outcome.out}"
        assert operator.declaration.formula in outcome.out


def test_operators_as_json_are_complete(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "operators", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    listed = json.loads(outcome.out)
    assert sorted(listed) == sorted(OPERATORS)
    threshold = listed["ELEMENT_WISE_THRESHOLD"]
    assert [field["name"] for field in threshold["fields"]] == ["InputTensor", "OutputTensor", "ScaleBias", "Min"]
    assert threshold["fields"][2]["optional"] is True
    assert threshold["in_place_inputs"] == ["InputTensor"]
    assert threshold["accuracy"]["promise"] == "exact"
    assert [table["from_feature_level"] for table in threshold["support"]] == ["1_0", "2_1", "3_0"]
    assert threshold["support"][0] == {
        "from_feature_level": "1_0",
        "dimensions": [4, 4],
        "dimensions_of": {},
        "required": [],
        "data_types": {"InputTensor": ["FLOAT32", "FLOAT16"], "OutputTensor": ["FLOAT32", "FLOAT16"]},
    }
    quantize = listed["ELEMENT_WISE_QUANTIZE_LINEAR"]
    assert [table["required"] for table in quantize["support"]] == [["ZeroPointTensor"]] * 4 + [[]]
    assert quantize["data_type_rules"] == [
        {"member": "ScaleTensor", "source": "InputTensor", "exceptions": {"INT32": "FLOAT32"}}
    ]
    assert "AScaleTensor" in listed["ELEMENT_WISE_QUANTIZED_LINEAR_ADD"]["one_element"]


@pytest.mark.parametrize("label", ["2_1", "2.1", "DML_FEATURE_LEVEL_2_1"])
def test_operators_at_a_feature_level(capsys: pytest.CaptureFixture[str], label: str) -> None:
    listed = json.loads(Outcome(capsys, "operators", "--json", "--feature-level", label).out)
    assert [table["from_feature_level"] for table in listed["ELEMENT_WISE_IF"]["support"]] == ["2_0"]
    assert [table["from_feature_level"] for table in listed["ELEMENT_WISE_SIGN"]["support"]] == ["2_1"]
    assert "ELEMENT_WISE_SIGN" not in Outcome(capsys, "operators", "--feature-level", "1_0").out
    assert Outcome(capsys, "operators", "--feature-level", "1_0").status == 0


def test_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = Outcome(capsys, "run", str(EXAMPLES / "sign.json"), "--output-dir", str(tmp_path / "new" / "place"))
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert re.fullmatch(r"Running on '.*'", lines[0])
    assert lines[1:3] == ["Resource 'Out': -1, 0, 0, 1, -1, 0, -1, 1", "Expect 'Out': 8 values as expected (exact)"]
    assert (tmp_path / "new" / "place" / "sign.npy").is_file()


def test_run_writes_below_the_current_directory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Outcome(capsys, "run", str(EXAMPLES / "sign.json")).status == 0
    assert (tmp_path / "output" / "sign.npy").is_file()


def test_a_failing_expectation_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "run", str(EXAMPLES / "failing_expect.json"))
    assert (outcome.status, outcome.err) == (1, "")
    lines = outcome.out.splitlines()
    assert re.fullmatch(
        r"Expect 'Out' FAILED \(.*failing_expect\.json:17:9\): 1 of 3 values differ \(exact\)", lines[2]
    )
    assert lines[3] == "  [1] got 0 (0x00000000), expected 1 (0x3F800000), off by 1, 1065353216 ULP"
    assert lines[-2:] == ["Resource 'Out': -1, 0, 1", "1 of 2 expectations failed"]


@pytest.mark.parametrize("index", range(DEVICES))
def test_run_on_a_chosen_device(capsys: pytest.CaptureFixture[str], index: int) -> None:
    info = dml.list_devices()[index]
    for choice in (str(index), info.name[:9].upper()):
        outcome = Outcome(capsys, "run", str(EXAMPLES / "if.json"), "--device", choice)
        assert outcome.status == 0
        assert outcome.out.startswith(f"Running on '{info.name}'")


def test_timing(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "run", str(EXAMPLES / "threshold.json"), "--timing", "-i", "4", "-w", "2")
    assert outcome.status == 0
    assert re.search(r"'threshold': 4 iterations, median wall time \d+\.\d{4} ms cold, \d+\.\d{4} ms hot", outcome.out)


def test_run_with_a_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    outcome = Outcome(capsys, "run", str(EXAMPLES / "if.json"), "--timing", "-i", "2", "-r", "2", "--trace", str(trace))
    assert outcome.status == 0
    assert f"Kernel times written to '{trace}'" in outcome.out
    events = json.loads(trace.read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["if: ELEMENT_WISE_IF"] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "dmlvk: No such command 'nonsense'. (see `dmlvk --help`)"),
        (["run"], "dmlvk: Missing argument 'MODEL'. (see `dmlvk run --help`)"),
        (["run", "a.json", "b.json"], "dmlvk: Got unexpected extra argument"),
        (
            ["run", "a.json", "--iterations", "0"],
            "dmlvk: Invalid value for '--iterations' / '-i': 0 is not in the range",
        ),
        (
            ["run", "a.json", "--iterations", "3"],
            "dmlvk: --iterations, --warm-up, --repeat and --trace are for --timing",
        ),
        (["run", "a.json", "--output-dir", __file__], "dmlvk: Invalid value for '--output-dir' / '-o'"),
        (["run", "a.json", "--trace", "/no/where"], "dmlvk: Invalid value for '--trace': '/no/where'"),
        (["bench", "--json", "."], "dmlvk: Invalid value for '--json'"),
        (["bench", "--plot", "x" * 300 + ".svg"], "dmlvk: Invalid value for '--plot'"),
        (["bench", "models", "--json", "/no/where"], "dmlvk: Invalid value for '--json'"),
        (["conformance", "--write-hashes", "/no/where"], "dmlvk: Invalid value for '--write-hashes'"),
        (["run", "nowhere.json"], "nowhere.json:1:1: cannot read the model file: there is no such file"),
        (["run", str(EXAMPLES / "if.json"), "--device", "99"], "dmlvk: "),
        (["run", str(EXAMPLES / "if.json"), "--device", "no such card"], "dmlvk: "),
        (["operators", "--feature-level", "9_9"], "dmlvk: unknown feature level '9_9'; known are 1_0, 2_0,"),
        (["devices", "--yaml"], "dmlvk: No such option"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    outcome = Outcome(capsys, *arguments)
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.startswith(message)
    assert outcome.err.count("\n") == 1


def test_a_wrong_model_exits_with_2_and_its_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{ "resources": {},\n  "dispatchables": {}, "commands": [ { "type": "go" } ] }')
    outcome = Outcome(capsys, "run", str(path))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(f"{path}:2:48: commands[0]: unknown command 'go'; known are dispatch,")
    assert outcome.err.count("\n") == 1


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["run", "--help"], ["-h"]):
        outcome = Outcome(capsys, *arguments)
        assert (outcome.status, outcome.err) == (0, "")
        assert outcome.out.startswith("Usage: dmlvk")
    assert Outcome(capsys, "--version").out == f"dmlvk, version {dml.__version__}\n"
    assert Outcome(capsys).status == 2


def test_an_interrupt_is_no_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dmlvk.runtime.vulkan.list_devices", interrupt)
    outcome = Outcome(capsys, "devices")
    assert (outcome.status, outcome.out, outcome.err) == (130, "", "")


@pytest.mark.parametrize(("error", "message"), [(MemoryError(), "not enough main memory"), (OSError("disk"), "disk")])
def test_errors_of_the_system_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("dmlvk.runtime.vulkan.list_devices", fail)
    outcome = Outcome(capsys, "devices")
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_as_a_process() -> None:
    good = process("run", str(EXAMPLES / "greater_than.json"))
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.endswith("Resource 'Out': 1, 0, 0, 0, 1, 0, 1, 0\nExpect 'Out': 8 values as expected (exact)\n")
    bad = process("run", "missing.json")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "missing.json:1:1: cannot read the model file: there is no such file\n"


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="pipes end otherwise on this system")
def test_a_reader_that_leaves(tmp_path: Path) -> None:
    values = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 200_000, "value": 0.125}}
    commands = [{"type": "print", "resource": "A"}, {"type": "print", "resource": "A", "verbose": True}]
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"resources": {"A": values}, "dispatchables": {}, "commands": commands}))
    command = [sys.executable, "-m", "dmlvk", "run", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=EXAMPLES.parent) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.read(10)
        running.stdout.close()
        assert running.wait(timeout=120) == 141
        assert running.stderr.read() == b""


def test_no_device_is_one_line(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.json")
    environment = {**os.environ, "VK_DRIVER_FILES": nowhere, "VK_ICD_FILENAMES": nowhere}
    for arguments in (["devices"], ["run", str(EXAMPLES / "if.json")]):
        outcome = process(*arguments, env=environment)
        assert (outcome.returncode, outcome.stdout) == (2, "")
        assert outcome.stderr.startswith("dmlvk: ")
        assert outcome.stderr.count("\n") == 1


def test_help_is_there_at_once() -> None:
    """The commands import what they need themselves."""
    names = "kp", "dmlvk.runtime.bundled", "rich", "PIL", "dmlvk.models"
    code = f"import sys, dmlvk.cli; print([name for name in {names} if name in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=EXAMPLES.parent
    )
    assert loaded.stdout == "[]\n"


def test_operators_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "operators", "exp", "BIT_SHIFT_*")
    assert (outcome.status, outcome.err) == (0, "")
    titles = [line for line in outcome.out.splitlines() if line in OPERATORS]
    assert titles == ["ELEMENT_WISE_BIT_SHIFT_LEFT", "ELEMENT_WISE_BIT_SHIFT_RIGHT", "ELEMENT_WISE_EXP"]
    assert "  promise     accurate: FLOAT32 at most 0.55 ULP, FLOAT16 at most 0.500067 ULP" in outcome.out
    for decision in OPERATORS["ELEMENT_WISE_EXP"].declaration.decisions:
        assert f"  note        {decision[:100]}" in outcome.out
    listed = json.loads(Outcome(capsys, "operators", "--json", "DML_OPERATOR_ELEMENT_WISE_EXP").out)
    assert list(listed) == ["ELEMENT_WISE_EXP"]
    assert listed["ELEMENT_WISE_EXP"]["accuracy"]["by_data_type"] == {
        "FLOAT32": "at most 0.55 ULP",
        "FLOAT16": "at most 0.500067 ULP",
    }


@pytest.mark.parametrize("arguments", [["nonsense"], ["sign", "nonsense*"], ["sign", "--feature-level", "1_0"]])
def test_operators_that_are_not_there(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    outcome = Outcome(capsys, "operators", *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith("dmlvk: there is no operator ")


def test_a_device_of_many_digits_is_not_found_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Python itself refuses to make a number of 5,000 digits."""
    digits = "1" * 5000
    for command in (["run", str(EXAMPLES / "if.json")], ["conformance", "-o", "sign-int8"], ["bench", "-o", "SIGN"]):
        outcome = Outcome(capsys, *command, "--device", digits)
        assert outcome.status == 2
        assert outcome.err.startswith("dmlvk: No Vulkan device matches device '1111")
        assert (outcome.err.count("\n"), len(outcome.err) < 1500) == (1, True)


@pytest.mark.skipif(os.name == "nt", reason="other shells do not close streams")
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_crash(closed: str) -> None:
    """As a service without a terminal may start a program."""
    command = f"exec {shlex.quote(sys.executable)} -m dmlvk operators sign {closed}"
    finished = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
