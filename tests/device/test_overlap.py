"""Threads that run operators on one device overlap: they wait for it without keeping each other from it.

What must happen at once is shown by barriers and events that are only passed when it does, never by times.
"""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.arrays.tensor_bytes import copied, copy_elements
from dmlvk.running import host_runs
from dmlvk.runtime import kompute, submissions
from dmlvk.runtime.afterwards import Afterwards, new_lock
from dmlvk.runtime.kompute import Engine
from tests.binding.support import compiled, floats, sign, threshold
from tests.device.watching import NEEDS_FENCES, PATIENCE, SIZE, Watch, allocation_count, run, values_of

pytestmark = NEEDS_FENCES


def test_one_thread_copies_in_while_one_waits_for_the_device_and_one_copies_out(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, roles, all_there = compiled(fresh, sign(floats(SIZE))), threading.local(), threading.Barrier(3)

    def meet(role: str) -> None:
        if getattr(roles, "mine", None) == role:
            all_there.wait(PATIENCE)

    def copying_in(destination: Any, source: Any) -> None:
        meet("copies in")
        copy_elements(destination, source)

    def copying_out(source: Any) -> Any:
        meet("copies out")
        return copied(source)

    monkeypatch.setattr("dmlvk.running.host_runs.copy_elements", copying_in)
    monkeypatch.setattr("dmlvk.running.host_runs.copied", copying_out)
    watch.before = lambda: meet("waits")

    def work(role: str, number: int) -> None:
        roles.mine = role
        run(fresh, operator, number)
        roles.mine = None

    for turn in range(3):
        tasks = ("copies in", "waits", "copies out")
        for future in [threads.submit(work, role, 3 * turn + number) for number, role in enumerate(tasks)]:
            future.result(PATIENCE)
    assert allocation_count(fresh) <= 2 * 3


def test_everything_else_goes_on_while_a_thread_waits_for_the_device(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    operator, others = compiled(fresh, sign(floats(SIZE))), compiled(fresh, threshold(floats(SIZE), 1.5))
    go_on, main, x = threading.Event(), threading.get_ident(), values_of(1)
    watch.before = lambda: threading.get_ident() == main or go_on.wait(PATIENCE)
    waiting = threads.submit(run, fresh, operator)
    watch.wait_until(1)
    with fresh.create_buffer(x.nbytes) as buffer:
        buffer.upload(x)
        assert np.array_equal(buffer.download(np.float32), x)
    assert np.array_equal(fresh.run(others, {"InputTensor": x})["OutputTensor"], np.maximum(x, np.float32(1.5)))
    kept = fresh.run(others, {"InputTensor": fresh.array(x)}, keep=True)["OutputTensor"]
    assert np.array_equal(kept.numpy(), np.maximum(x, np.float32(1.5)))
    assert not waiting.done()
    go_on.set()
    waiting.result(PATIENCE)


def test_an_operator_has_three_runs_at_most(fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor) -> None:
    operator, go_on = compiled(fresh, sign(floats(SIZE))), threading.Event()
    watch.before = lambda: go_on.wait(PATIENCE)
    tasks = [threads.submit(run, fresh, operator, number) for number in range(8)]
    watch.wait_until(host_runs.MOST_RUNS_AT_ONCE)
    go_on.set()
    for task in tasks:
        task.result(PATIENCE)
    assert watch.most == 3 and allocation_count(fresh) == 2 * 3


@pytest.mark.parametrize(("limit", "most"), [(2 * 8 * SIZE, 2), (8 * SIZE + 1, 1), (1, 1)])
def test_runs_at_once_take_a_bounded_number_of_bytes(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, limit: int, most: int
) -> None:
    monkeypatch.setattr(host_runs, "KEPT_RUN_BYTES_IN_ALL", limit)
    operator, go_on = compiled(fresh, sign(floats(SIZE))), threading.Event()
    watch.before = lambda: go_on.wait(PATIENCE)
    tasks = [threads.submit(run, fresh, operator, number) for number in range(6)]
    watch.wait_until(most)
    go_on.set()
    for task in tasks:
        task.result(PATIENCE)
    assert watch.most == most


def test_large_buffers_are_kept_while_several_threads_need_them(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_runs, "KEPT_RUN_BYTES", 1)
    operator, go_on, leaver = compiled(fresh, sign(floats(SIZE))), threading.Event(), threading.get_ident()
    watch.before = lambda: threading.get_ident() == leaver or go_on.wait(PATIENCE)
    stays = threads.submit(run, fresh, operator)
    watch.wait_until(1)
    tensors = []
    for number in range(3):
        run(fresh, operator, number)
        tensors.append({allocation.tensor for allocation in fresh.engine._allocations})
        assert len(tensors[-1]) == 4 and tensors[-1] == tensors[0], "allocated anew"
    go_on.set()
    stays.result(PATIENCE)
    assert allocation_count(fresh) == 0


def test_a_run_for_which_memory_is_short_waits_for_the_buffers_of_another(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, go_on, refused = compiled(fresh, sign(floats(SIZE))), threading.Event(), threading.Event()
    allocate = Engine.allocate

    def short(engine: Engine, size: int, **options: Any) -> kompute.Allocation:
        if len(engine._allocations) >= 3:
            refused.set()
            raise dml.OutOfMemoryError("no memory, on purpose")
        return allocate(engine, size, **options)

    monkeypatch.setattr(Engine, "allocate", short)
    watch.before = lambda: go_on.wait(PATIENCE)
    tasks = [threads.submit(run, fresh, operator, 0)]
    watch.wait_until(1)
    tasks += [threads.submit(run, fresh, operator, number) for number in (1, 2, 3)]
    assert refused.wait(PATIENCE)
    go_on.set()
    for task in tasks:
        task.result(PATIENCE)
    assert watch.most == 1 and allocation_count(fresh) == 2


def test_runs_that_read_the_same_constants_do_not_wait_for_each_other(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    drawn = dml.Graph(fresh)
    weights = np.arange(SIZE, dtype=np.float32)
    model = drawn.compile(y=drawn.input("x", dml.FLOAT32, (SIZE,)) * drawn.constant(weights))
    assert model.constants
    both = threading.Barrier(2)
    watch.before = lambda: both.wait(PATIENCE)

    def work(number: int) -> None:
        x = values_of(number)
        assert np.array_equal(fresh.run(model, {"x": x})["y"], x * weights)

    for task in [threads.submit(work, number) for number in range(2)]:
        task.result(PATIENCE)


def test_closing_waits_for_a_thread_that_waits_for_the_device(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    operator, go_on = compiled(fresh, sign(floats(SIZE))), threading.Event()
    watch.before = lambda: go_on.wait(PATIENCE)
    waiting = threads.submit(run, fresh, operator)
    watch.wait_until(1)
    tensors = [allocation.tensor for allocation in fresh.engine._allocations]
    closing = threads.submit(fresh.close)
    while not fresh.engine.is_removed:  # from here on nothing new begins
        pass
    with pytest.raises(dml.DeviceRemovedError, match="the device was closed"):
        fresh.run(operator, {"InputTensor": values_of(0)})
    assert not closing.done() and all(tensor.is_init() for tensor in tensors)
    go_on.set()
    waiting.result(PATIENCE)
    closing.result(PATIENCE)
    assert len(tensors) == 2 and not any(tensor.is_init() for tensor in tensors)


def test_what_a_signals_handler_closes_is_closed_when_the_last_thread_is_done(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    """The handler runs in the middle of one thread's run, while another waits for the device."""
    operator, go_on = compiled(fresh, sign(floats(SIZE))), threading.Event()
    watch.before = lambda: go_on.wait(PATIENCE)
    waiting = threads.submit(run, fresh, operator)
    watch.wait_until(1)
    watch.before = fresh.close
    run(fresh, operator, 1)
    tensors = [allocation.tensor for allocation in fresh.engine._allocations]
    assert len(tensors) == 4 and all(tensor.is_init() for tensor in tensors)
    go_on.set()
    waiting.result(PATIENCE)
    assert not fresh.engine._allocations and not any(tensor.is_init() for tensor in tensors)


def test_a_run_in_a_signals_handler_leaves_the_interrupted_one_alone(fresh: dml.Device, watch: Watch) -> None:
    operator = compiled(fresh, sign(floats(SIZE)))

    def handler() -> None:
        watch.before = lambda: None
        run(fresh, operator, 1)

    watch.before = handler
    run(fresh, operator, 2)
    assert allocation_count(fresh) == 2


@pytest.mark.parametrize("with_constants", [False, True])
def test_what_an_interrupt_leaves_on_the_device_is_waited_for(
    fresh: dml.Device, watch: Watch, monkeypatch: pytest.MonkeyPatch, with_constants: bool
) -> None:
    """Before the buffers are written again, and before they are freed."""
    drawn = dml.Graph(fresh)
    x = drawn.input("InputTensor", dml.FLOAT32, (SIZE,))
    model = drawn.compile(OutputTensor=x * drawn.constant(np.ones(SIZE, np.float32)))
    operator = model if with_constants else compiled(fresh, sign(floats(SIZE)))
    events: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    def copying(destination: Any, source: Any) -> None:
        events.append("copied")
        copy_elements(destination, source)

    monkeypatch.setattr("dmlvk.running.host_runs.copy_elements", copying)
    for number in range(2):
        watch.before = interrupt
        with pytest.raises(KeyboardInterrupt):
            fresh.run(operator, {"InputTensor": values_of(9)})
        assert len(fresh.engine._running) == 1
        watch.before = lambda: events.append("waited")
        events.clear()
        given = np.sign(values_of(number))
        assert np.array_equal(fresh.run(operator, {"InputTensor": given})["OutputTensor"], given)
        assert events == ["waited", "copied", "waited"] and not fresh.engine._running
    watch.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        fresh.run(operator, {"InputTensor": values_of(9)})
    watch.before = lambda: events.append("waited")
    events.clear()
    del operator, model, drawn, x
    assert allocation_count(fresh) == 0 and events == ["waited"]


def test_a_device_that_one_thread_finds_lost_is_lost_for_the_one_that_waits(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    operator, go_on, main = compiled(fresh, sign(floats(SIZE))), threading.Event(), threading.get_ident()

    def wait() -> None:
        if threading.get_ident() != main:
            go_on.wait(PATIENCE)
            watch.failure[threading.get_ident()] = "vk::Device::waitForFences: ErrorDeviceLost (second)"

    watch.before = wait
    waiting = threads.submit(run, fresh, operator)
    watch.wait_until(1)
    watch.failure[main] = "vk::Device::waitForFences: ErrorDeviceLost (first)"
    message = r"the device was lost while running on the device \(.*first\)\)$"
    with pytest.raises(dml.DeviceRemovedError, match=message):
        run(fresh, operator)
    go_on.set()
    with pytest.raises(dml.DeviceRemovedError, match=message):
        waiting.result(PATIENCE)
    with pytest.raises(dml.DeviceRemovedError, match=message):
        fresh.array(values_of(0))
    assert not fresh.engine._running
    fresh.close()
    assert not fresh.engine._allocations


def test_submissions_that_nobody_waits_for_are_bounded(fresh: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "MOST_RUNNING", 4)
    operator = compiled(fresh, sign(floats(SIZE)))
    x = fresh.array(values_of(3))
    made = []
    for number in range(10):
        made.append(fresh.run(operator, {"InputTensor": x}, keep=True)["OutputTensor"])
        assert len(fresh.engine._running) == min(number + 1, 4)
    for array in made:
        assert np.array_equal(array.numpy(), np.sign(values_of(3)))


def test_what_is_put_off_to_the_end_is_done_by_whoever_leaves_last() -> None:
    lock = new_lock()
    afterwards = Afterwards(lock)
    done: list[str] = []
    entered, leave = threading.Barrier(2), threading.Event()

    def visit() -> None:
        with afterwards, afterwards.visit(), afterwards, afterwards.visit():
            entered.wait(PATIENCE)
            leave.wait(PATIENCE)
        done.append("other thread left")

    other = threading.Thread(target=visit)
    other.start()
    entered.wait(PATIENCE)
    assert not afterwards.in_call() and afterwards.is_visited()
    with afterwards, afterwards.visit():
        afterwards.put_off_to_the_end(lambda: done.append("end"))
        afterwards.put_off(lambda: done.append("free"))
        assert afterwards.in_call() and not done
    with afterwards, lock:
        pass
    assert done == ["free"], "visits do not keep what is freed from being freed"
    leave.set()
    other.join(PATIENCE)
    assert done == ["free", "end", "other thread left"]
    del other
    gc.collect()
    assert len(afterwards._visits) == 1, "a thread that ended is remembered"
    afterwards.put_off_to_the_end(lambda: done.append("at once"))
    assert done[-1] == "at once"
