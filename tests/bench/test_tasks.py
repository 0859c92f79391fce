"""Operators whose tensors have sizes of their own are timed on tasks that are theirs."""

from __future__ import annotations

import math

import pytest

import dmlvk as dml
from dmlvk.bench.task_measurement import measure_task
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


def test_a_task_is_timed(any_device: dml.Device) -> None:
    (task, *_) = tasks("GATHER", dml.FLOAT32, SMALL)
    result = measure_task(any_device, task)
    assert (result.name, result.data_type, result.unit) == (task.name, "float32", "B/s")
    assert 0 < result.speed < math.inf


def test_the_command_times_them(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, "bench", "-o", "GATHER", "-s", "256KiB")
    assert (outcome.status, outcome.err) == (0, "")
    assert "GATHER of rows" in outcome.out and "GB/s" in outcome.out
