"""Exhaustive runs: every input is tried, an interrupted run goes on; work is spread over processes and streams."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance import exhaustive, state, streaming
from dmlvk.conformance.cases import typical_attributes, value_cases
from dmlvk.conformance.exhaustive import ExhaustiveRun, WorkerChunk, exhaustive_runs, judge_part, measure_exhaustively
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.results import CaseReport
from dmlvk.conformance.streaming import Bench, Slots, computed, results_in, slots_needed
from dmlvk.conformance.ulp import ulp_errors
from dmlvk.conformance.workers import Stopped, WorkerContext, WorkerCrashError, Workers
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


def signs(context: WorkerContext, item: tuple[int, float]) -> tuple[int, int, list[float]]:
    """Item number, process, and what each of the context's devices makes of a value."""
    number, value = item
    tensor = dml.TensorDesc(dml.FLOAT32, (1,))
    desc = dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor)
    x = np.array([value], np.float32)
    found = [device.run(desc, {"InputTensor": x})["OutputTensor"].tolist()[0] for device in context.devices]
    return number, os.getpid(), found


def crashes(_: WorkerContext, item: int) -> int:
    if item == 1:
        os._exit(3)
    return item


def fails(_: WorkerContext, item: int) -> int:
    if item == 1:
        raise dml.OutOfMemoryError("too much")
    return item


def until_stopped(context: WorkerContext, item: int) -> int:
    """The first item is done at once, the others wait to be stopped; the fourth finishes all the same."""
    end = time.monotonic() + 60
    while item > 0 and not context.stopped():
        assert time.monotonic() < end
        time.sleep(0.01)
    if item in (0, 3):
        return item
    raise Stopped


@pytest.fixture(scope="module")
def devices() -> Iterator[list[dml.Device]]:
    opened = [dml.Device(info.index) for info in dml.list_devices() if info.usable]
    yield opened
    for device in opened:
        device.close()


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_item_is_worked_on_with_all_devices(devices: list[dml.Device], jobs: int) -> None:
    items = [(i, float(i - 5)) for i in range(12)]
    taken: list[tuple[int, int, list[float]]] = []
    with Workers(devices, jobs) as workers:
        workers.run(signs, items, taken.append)
        workers.run(signs, [(100, -1.0)], taken.append)
    assert sorted(number for number, _, _ in taken) == [*range(12), 100]
    for number, process, found in taken:
        assert found == [np.sign(-1.0 if number == 100 else number - 5)] * len(devices)
        assert (process == os.getpid()) == (jobs == 1)
    assert len({process for _, process, _ in taken}) <= jobs


def test_a_crash_is_an_error_of_one_line(devices: list[dml.Device]) -> None:
    with Workers(devices[:1], 2) as workers, pytest.raises(WorkerCrashError, match="a worker process has crashed"):
        workers.run(crashes, range(4), lambda _: None)


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_come_through(devices: list[dml.Device], jobs: int) -> None:
    taken: list[int] = []
    with Workers(devices[:1], jobs) as workers, pytest.raises(dml.OutOfMemoryError, match="too much"):
        workers.run(fails, range(2), taken.append)
    assert taken == [0]


def test_an_interrupt_stops_the_workers_and_takes_what_they_finish(devices: list[dml.Device]) -> None:
    taken: list[int] = []

    def interrupt(item: int) -> None:
        taken.append(item)
        if item == 0:
            raise KeyboardInterrupt

    with Workers(devices[:1], 3) as workers, pytest.raises(KeyboardInterrupt):
        workers.run(until_stopped, [1, 3, 0, 2, *range(10, 50)], interrupt)
    assert taken == [0, 3]


CHUNK, UNIT = 2**12, 2**10


@pytest.fixture
def slots() -> Iterator[Slots]:
    made = Slots(4 * CHUNK, 8)
    yield made
    made.close()


def sign_bench(device: dml.Device) -> Bench:
    tensor = dml.TensorDesc(dml.FLOAT32, (UNIT,))
    return Bench(device, dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor))


def test_chunks_come_in_order_with_the_device_s_results(any_device: dml.Device, slots: Slots) -> None:
    numbers = [5, 2**20 - 1, 0, 2**19, 7, 8, 9]
    found = []
    for number, slot in computed(lambda: sign_bench(any_device), dml.FLOAT32, slots, numbers, CHUNK):
        patterns = np.arange(number * CHUNK, (number + 1) * CHUNK, dtype=np.uint64).astype(np.uint32)
        values = patterns.view(np.float32)
        signs = (values > 0).astype(np.float32) - (values < 0).astype(np.float32)
        assert np.array_equal(results_in(slot, dml.FLOAT32, CHUNK), signs), number
        slots.give_back(slot)
        found.append(number)
    assert found == numbers


def test_no_more_slots_are_used_than_needed(any_device: dml.Device, slots: Slots) -> None:
    seen: list[Path] = []
    waiting: list[Path] = []
    for _, slot in computed(lambda: sign_bench(any_device), dml.FLOAT32, slots, range(30), CHUNK):
        seen.append(slot)
        waiting.append(slot)
        if len(waiting) == 5:
            slots.give_back(waiting.pop(0))
    assert len(set(seen)) <= slots_needed(5)


def test_an_error_of_the_device_reaches_the_reader(any_device: dml.Device, slots: Slots) -> None:
    class Broken(Bench):
        def run(self, first: int, results: Any) -> None:
            if first == 2 * CHUNK:
                raise dml.DeviceRemovedError("gone")
            super().run(first, results)

    tensor = dml.TensorDesc(dml.FLOAT32, (UNIT,))
    desc = dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor)
    found = []
    with pytest.raises(dml.DeviceRemovedError, match="gone"):
        for number, _ in computed(lambda: Broken(any_device, desc), dml.FLOAT32, slots, range(9), CHUNK):
            found.append(number)
    assert found == [0, 1]


def test_files_have_their_room_and_go(slots: Slots) -> None:
    first = slots.take()
    assert first.stat().st_size == 4 * CHUNK
    assert slots.take() != first
    slots.give_back(first)
    assert slots.take() == first
    slots.close()
    assert not first.parent.exists()


@pytest.mark.skipif(not hasattr(os, "statvfs"), reason="only where /dev/shm can be")
def test_little_shared_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's 64 MiB would be full soon, and writing to memory that is not there kills the process."""
    room = namedtuple("room", ["f_bavail", "f_frsize"])
    monkeypatch.setattr(os, "statvfs", lambda _: room(2**14, 4096))
    made = Slots(2**26, 10)
    try:
        assert "shm" not in str(made.take())
    finally:
        made.close()


def test_no_room_is_an_error(monkeypatch: pytest.MonkeyPatch, slots: Slots) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        slots.take()


def test_leftovers_of_killed_runs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_roomy_directory", lambda size: str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    long_ago = time.time() - 7200
    folders = {name: tmp_path / f"dmlvk-results-{name}-x" for name in (str(ended.pid), str(os.getpid()), "nobody")}
    for folder in folders.values():
        folder.mkdir()
        (folder / "0").write_bytes(b"x")
        for path in (folder / "0", folder):
            os.utime(path, (long_ago, long_ago))
    fresh = tmp_path / f"dmlvk-results-{ended.pid}-fresh"
    fresh.mkdir()
    Slots(16, 1).close()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {folders[str(os.getpid())].name, folders["nobody"].name, fresh.name}
