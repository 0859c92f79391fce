"""Work is spread over processes, which end with the run, whatever happens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.workers import Stopped, WorkerContext, WorkerCrashError, Workers


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
