"""Exhaustive runs: every input is tried, an interrupted run goes on, states of other devices are refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance import exhaustive, state
from dmlvk.conformance.cases import typical_attributes, value_cases
from dmlvk.conformance.exhaustive import ExhaustiveRun, WorkerChunk, exhaustive_runs, judge_part, measure_exhaustively
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.results import CaseReport
from dmlvk.conformance.ulp import ulp_errors
from dmlvk.conformance.workers import Stopped, WorkerContext, Workers
from dmlvk.operators import OPERATORS
from tests.cli.outcome import Outcome
from tests.operators.broken import break_shader


@pytest.fixture(autouse=True)
def _few_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 2**20 patterns in 16 chunks."""
    for name, value in (("TOTAL", 2**20), ("CHUNK", 2**16), ("UNIT", 2**15), ("BLOCK", 2**14)):
        monkeypatch.setattr(exhaustive, name, value)


def named(name: str) -> ExhaustiveRun:
    return next(run for run in exhaustive_runs(value_cases()) if run.name.startswith(f"{name} exhaustive"))


def measured(
    run: ExhaustiveRun,
    device: dml.Device,
    directory: Path | None,
    *,
    advance: Callable[[int], None] = lambda steps: None,
    notices: list[str] | None = None,
) -> CaseReport:
    notice = (lambda line: None) if notices is None else notices.append
    with Workers((), 1) as workers:  # one job: others would not see that there are only a few inputs
        report, _ = measure_exhaustively(run, [device], workers, directory, advance, notice)
    return report


def test_every_input_is_tried_once(device: dml.Device, tmp_path: Path) -> None:
    """The hash, the counts and the profile are those of one large array."""
    steps: list[int] = []
    report = measured(named("exp-float32"), device, tmp_path, advance=steps.append)
    (found,) = report.measurements
    assert (sum(steps), found.results) == (2**20, 2**20)
    assert (report.exhaustive, report.kept, report.name) == (True, True, "exp-float32 exhaustive")
    x = np.arange(2**20, dtype=np.uint32).view(np.float32)
    tensor = dml.TensorDesc(dml.FLOAT32, x.shape)
    desc = dml.ElementWiseExp(input_tensor=tensor, output_tensor=tensor)
    y = device.run(desc, {"InputTensor": x})["OutputTensor"]
    parts = [hashlib.sha256(part.tobytes()).digest() for part in np.split(y, 16)]
    assert found.sha256 == hashlib.sha256(b"".join(parts)).hexdigest()
    errors = ulp_errors(y, expected_output(desc, [x]))
    assert found.misrounded == np.count_nonzero(errors > 0.5)
    assert found.largest_error == errors.max()
    profile = found.profile["InputTensor"]
    assert profile[0] == errors.max()
    assert profile[1:] == [None] * 4095


def test_stretches_of_the_profile_are_those_of_the_inputs(
    device: dml.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TOTAL", 2**23), ("CHUNK", 2**21), ("UNIT", 2**20), ("BLOCK", 2**15)):
        monkeypatch.setattr(exhaustive, name, value)
    small = OPERATORS["ELEMENT_WISE_EXP"]
    run = named("exp-float32")
    assert run.case.desc_class is small

    def wrong_where(desc: dml.OperatorDesc, inputs: list[Any]) -> Any:
        bits = inputs[0].view(np.uint32)
        return np.where((bits >> 20) == 5, 1.25, 1.0)

    monkeypatch.setattr(exhaustive, "expected_output", wrong_where)
    profile = measured(run, device, tmp_path).measurements[0].profile["InputTensor"]
    # exp of what is below 2**-126 is 1: a quarter of 1.25 is 2**21 units of it.
    assert profile[:8] == [0.0] * 5 + [2.0**21] + [0.0] * 2
    assert profile[8:] == [None] * 4088


def test_an_interrupted_run_goes_on_where_it_stopped(any_device: dml.Device, tmp_path: Path) -> None:
    whole = measured(named("log-float32"), any_device, tmp_path / "whole")
    done: list[int] = []

    def stop_soon(steps: int) -> None:
        done.append(steps)
        if len(done) == 6:
            raise KeyboardInterrupt

    notices: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        measured(named("log-float32"), any_device, tmp_path / "parts", advance=stop_soon, notices=notices)
    (path,) = (tmp_path / "parts").iterdir()
    kept = json.loads(path.read_text())["chunks"]
    assert len(kept) == 5, "the first step is that of what was there before: nothing"
    assert len(notices) == 1
    assert f"{len(kept) * 2**16:,} of 1,048,576 results, 0 of them wrong" in notices[0]
    assert str(path) in notices[0]
    again: list[int] = []
    report = measured(named("log-float32"), any_device, tmp_path / "parts", advance=again.append)
    assert again[0] == len(kept) * 2**16, "what was finished counts at once"
    assert sum(again) == 2**20
    first, second = whole.measurements[0], report.measurements[0]
    for fact in ("results", "broken", "misrounded", "worst", "sha256", "profile"):
        assert getattr(first, fact) == getattr(second, fact), fact


def test_a_part_that_is_stopped_stops_soon(tmp_path: Path) -> None:
    answers = iter([False, True])
    context = WorkerContext([], lambda: next(answers))
    slot = tmp_path / "slot"
    slot.write_bytes(bytes(2**18))
    with contextlib.closing(context), pytest.raises(Stopped):
        judge_part(context, WorkerChunk(named("sign-float32"), 3, slot))
    assert next(answers, None) is None


@pytest.mark.parametrize("key", ["device", "driver", "shader", "operator", "definition"])
def test_states_of_something_else_are_refused(any_device: dml.Device, tmp_path: Path, key: str) -> None:
    right = measured(named("sign-float32"), any_device, tmp_path)
    (path,) = tmp_path.iterdir()
    document = json.loads(path.read_text())
    document["identity"][key] = "another one"
    for chunk in document["chunks"].values():
        chunk["broken"] = 1
    path.write_text(json.dumps(document))
    notices: list[str] = []
    report = measured(named("sign-float32"), any_device, tmp_path, notices=notices)
    assert len(notices) == 1
    assert notices[0].startswith(f"{path}: starting anew: it is of another {key} (another one, now ")
    assert report.measurements[0].sha256 == right.measurements[0].sha256
    assert report.kept


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 7, "identity": {}, "chunks": {}}'])
def test_damaged_states_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    found = state.RunState(tmp_path, "x", {"device": "y"})
    assert found.refusal is not None
    assert found.chunks == {}
    found.store(3, {"sha256": "0"})
    assert state.RunState(tmp_path, "x", {"device": "y"}).chunks == {3: {"sha256": "0"}}


def test_states_are_written_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = state.RunState(tmp_path, "a name: with/signs", {})
    kept.store(0, {"sha256": "0"})

    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(OSError, match="disk full"):
        kept.store(1, {"sha256": "1"})
    assert [path.name for path in tmp_path.iterdir()] == ["a_name_with_signs.json"]
    assert state.RunState(tmp_path, "a name: with/signs", {}).chunks == {0: {"sha256": "0"}}
    kept.remove()
    assert list(tmp_path.iterdir()) == []


def test_where_no_state_can_be_kept_runs_go_on_without_one(any_device: dml.Device, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert state.usable_directory(tmp_path / "file" / "below") is None
    assert state.usable_directory(None) is None
    made = state.usable_directory(tmp_path / "new" / "folder")
    assert made is not None and made.is_dir()
    kept = state.RunState(None, "x", {})
    kept.store(2, {"sha256": "0"})
    kept.remove()
    assert (kept.chunks, kept.refusal, kept.path) == ({2: {"sha256": "0"}}, None, None)
    assert measured(named("sign-float32"), any_device, None).kept


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such pipes")
def test_a_pipe_in_the_place_of_a_state_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.json")
    assert "is no file that was kept" in str(state.RunState(tmp_path, "x", {}).refusal)


def test_a_broken_shader_is_caught(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    break_shader(monkeypatch, tmp_path, "elementwise/sign.comp", "0x3f800000u", "0x3f800001u")
    report = measured(named("sign-float32"), any_device, tmp_path / "state")
    (found,) = report.measurements
    assert (report.kept, found.broken, found.misrounded) == (False, 2**20 - 1, 2**20 - 1)
    assert found.worst is not None
    assert (found.worst.got.bits, found.worst.expected.bits) == ("0x3f800001", "0x3f800000")
    assert found.worst.error == 1


def test_a_driver_that_fails_is_a_finding(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*_: Any) -> None:
        raise dml.OutOfMemoryError("no memory for this")

    monkeypatch.setattr(dml.Device, "create_buffer", fails)
    report = measured(named("sign-float32"), any_device, tmp_path)
    assert (report.kept, report.measurements[0].failure) == (False, "no memory for this")


def test_the_command_runs_what_can_be_exhausted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report, file = tmp_path / "report", tmp_path / "found.json"
    quick = ["--patterns", "2048", "--attribute-sets", "1", "-d", "0", "--jobs", "1"]
    outcome = Outcome(
        capsys, "conformance", *quick, "-o", "exp,round", "--exhaustive", "--report", str(report), "--json", str(file)
    )
    assert (outcome.status, outcome.err) == (0, "")
    assert "FLOAT32, all values" in outcome.out
    names = [case["name"] for case in json.loads(file.read_text())["cases"]]
    assert sorted(names[-4:]) == [
        "exp-float32 exhaustive",
        "round-float32 exhaustive (rounding_mode=HALVES_TO_NEAREST_EVEN)",
        "round-float32 exhaustive (rounding_mode=TOWARD_INFINITY)",
        "round-float32 exhaustive (rounding_mode=TOWARD_ZERO)",
    ]
    assert not list((report / "state").glob("*")), "states of a complete run are of no more use"


def test_results_that_depend_on_rows_have_no_exhaustive_runs() -> None:
    cases = [case for case in value_cases() if "MAX" in case.desc_class.operator_name]
    assert {case.desc_class.operator_name for case in cases} > {"ACTIVATION_SOFTMAX", "ELEMENT_WISE_MAX"}
    assert not [run for run in exhaustive_runs(cases) if (run.case.desc_class.declaration.pattern == "rows")]


def test_attributes_of_exhaustive_runs_are_usual_ones() -> None:
    clip = typical_attributes(OPERATORS["ELEMENT_WISE_CLIP"], dml.FLOAT32)
    assert clip == [{"scale_bias": None, "min": -1.5, "max": 3.0}]
    assert len(typical_attributes(OPERATORS["ELEMENT_WISE_IS_INFINITY"], dml.FLOAT32)) == 3
    assert typical_attributes(OPERATORS["ELEMENT_WISE_SIGN"], dml.FLOAT32) == [{}]
    elu = typical_attributes(OPERATORS["ACTIVATION_ELU"], dml.FLOAT32)
    assert elu == [{"alpha": 1.6732632}, {"alpha": 1.0}], (
        "that of most programs, for which the shader has a way of its own"
    )
