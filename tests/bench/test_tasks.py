"""Operators whose tensors have sizes of their own are timed on tasks that are theirs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import pytest

import dmlvk as dml
from dmlvk.bench import task_measurement
from dmlvk.bench.registry import MAKERS
from dmlvk.bench.task import Task
from dmlvk.bench.task_measurement import TaskResult, measure_task
from dmlvk.bench.tasks import OPERATORS_WITH_TASKS, tasks
from dmlvk.operators import OPERATORS, check_operator
from tests.cli.outcome import Outcome

SMALL = 2**18


@pytest.mark.parametrize("name", [name for name in OPERATORS_WITH_TASKS if name in OPERATORS])
def test_tasks_are_descriptions_that_hold(name: str) -> None:
    made = tasks(name, dml.FLOAT32, SMALL)
    assert made
    for task in made:
        check_operator(task.desc, max(dml.FeatureLevel))
        inputs = task.inputs()
        assert set(inputs) == {field.name for field, tensor in task.desc.inputs if tensor is not None}
        for member, below in task.indices.items():
            assert 0 <= inputs[member].min() <= inputs[member].max() < below


def test_an_operator_whose_tasks_fail_or_are_not_there_is_named_and_the_others_are_timed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(data_type: dml.DataType, size: int) -> Iterator[Task]:
        raise ZeroDivisionError("no rows")

    monkeypatch.setitem(MAKERS, "JOIN", functools.partial(failing))
    outcome = Outcome(capsys, "bench", "-o", "JOIN,LP_NORMALIZATION,GATHER", "-t", "float32", "-s", "16KiB")
    assert outcome.status == 0
    lacking, failed = outcome.err.splitlines()[:2]
    assert lacking == "not timed, for there is no bench task in dmlvk/bench/tasks.py: LP_NORMALIZATION"
    assert failed.startswith("not timed: JOIN: bench task: ZeroDivisionError: no rows (test_tasks.py:")
    assert "gather" in outcome.out.lower()


def test_a_task_is_timed(any_device: dml.Device) -> None:
    (task, *_) = tasks("GATHER", dml.FLOAT32, SMALL)
    result = measure_task(any_device, task)
    assert (result.name, result.data_type, result.unit) == (task.name, "float32", "B/s")
    assert 0 < result.speed < math.inf


def test_products_with_packed_weights_are_timed_as_one_graph(any_device: dml.Device) -> None:
    (task,) = (
        task for task in tasks("DEQUANTIZE", dml.FLOAT16, 2**21) if task.name.startswith("GEMM 1 x 2048 by 2048")
    )
    assert task.work == 2048 * 2048 // 2 + 2048 * 64 * 2
    assert list(task.inputs()) == ["ATensor", "PackedTensor", "ScaleTensor"]
    assert measure_task(any_device, task).speed > 0


def test_the_command_times_them(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "bench", "-o", "GATHER", "-s", "256KiB")
    assert (outcome.status, outcome.err) == (0, "")
    assert "GATHER of rows" in outcome.out and "GB/s" in outcome.out


@pytest.mark.sweep
def test_the_command_goes_on_after_a_task_that_does_not_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(device: dml.Device, task: Task) -> TaskResult:
        if "32 x" in task.name:
            raise dml.DeviceLimitError("4 GiB in one buffer")
        return measure_task(device, task)

    monkeypatch.setattr(task_measurement, "measure_task", measured)
    outcome = Outcome(capsys, "bench", "-o", "GEMM", "-s", "1KiB")
    assert (outcome.status, outcome.err) == (0, "")
    lines = [line for line in outcome.out.splitlines() if line.startswith("GEMM")]
    assert len(lines) == 6
    assert [line.split("float32")[1].strip() for line in lines if "32 x" in line] == [
        "not measured: 4 GiB in one buffer"
    ]


@pytest.mark.parametrize("size", [2**16, 2**24, 2**28, 2**30])
def test_matrices_of_products_fit_into_a_buffer(size: int) -> None:
    for task in tasks("GEMM", dml.FLOAT32, size):
        tensors = [tensor for _, tensor in (*task.desc.inputs, *task.desc.outputs) if tensor is not None]
        assert max(tensor.size_in_bytes for tensor in tensors) <= max(size, 2**30)


def test_each_turn_is_timed_on_a_device_that_has_settled_into_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_measurement, "_WARM_UP_SECONDS", 0.0)
    last: list[str] = []

    def timer_of(name: str) -> Callable[[int], Callable[[], float]]:
        def seconds() -> float:
            found = 1e-3 if last[-5:] == [name] * 5 else 5e-3  # the clock follows what the device has lately done
            last.append(name)
            return found

        return lambda repeats: seconds

    medians = task_measurement._in_turn([timer_of("one"), timer_of("other")], 1e-3)
    assert medians == [1e-3, 1e-3], "a turn was timed behind the other one's work"
