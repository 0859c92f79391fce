"""Whoever waits for work that was submitted before keeps no other thread from the device.

What must happen at once is shown by barriers and events that are only passed when it does, never by times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.runtime import submissions
from dmlvk.runtime.kompute import Engine
from tests.binding.support import Binding, buffer_with, compiled, floats, sign, table_for
from tests.device.watching import NEEDS_FENCES, PATIENCE, SIZE, Watch, Watched, run, values_of

pytestmark = NEEDS_FENCES


def _pending(fresh: dml.Device, operator: dml.CompiledOperator) -> tuple[dml.Array, dml.Array]:
    """An array, and another one that the device is about to compute from it.

    The first one is to be kept: its memory would be the next one that an array gets, who would wait for the work.
    """
    x = fresh.array(values_of(1))
    return x, fresh.run(operator, {"InputTensor": x}, keep=True)["OutputTensor"]


def _recorder(fresh: dml.Device, x: dml.Buffer, y: dml.Buffer) -> dml.CommandRecorder:
    operator = compiled(fresh, sign(floats(SIZE)))
    recorder = fresh.create_command_recorder()
    recorder.record_dispatch(operator, table_for(operator, [Binding(x)], [Binding(y)]))
    return recorder


def _keeping(memory: object, call: Callable[[], object]) -> Callable[[], object]:
    """A call before which nothing is freed."""

    def call_and_let_go(*_: object) -> None:
        call()

    return partial(call_and_let_go, memory)


WAITS: dict[str, Callable[[dml.Device, dml.CompiledOperator], Callable[[], object]]] = {}
"""Each submits work; what it returns waits for that work and looks at the result."""


def _waits(make: Callable[[dml.Device, dml.CompiledOperator], Callable[[], object]]) -> None:
    WAITS[make.__name__.strip("_")] = make


@_waits
def _array_numpy(fresh: dml.Device, operator: dml.CompiledOperator) -> Callable[[], object]:
    x, y = _pending(fresh, operator)
    return lambda: np.testing.assert_array_equal(y.numpy(), np.sign(x.numpy()))


@_waits
def _array_wait(fresh: dml.Device, operator: dml.CompiledOperator) -> Callable[[], object]:
    x, y = _pending(fresh, operator)

    def wait() -> None:
        y.wait()
        x.wait()

    return wait


@_waits
def _run_on_the_device(fresh: dml.Device, operator: dml.CompiledOperator) -> Callable[[], object]:
    x, y = _pending(fresh, operator)

    def run_again() -> None:
        z = fresh.run(operator, {"InputTensor": y}, keep=True)["OutputTensor"]
        assert np.array_equal(z.numpy(), np.sign(x.numpy()))

    return run_again


@_waits
def _copy_on_the_device(fresh: dml.Device, operator: dml.CompiledOperator) -> Callable[[], object]:
    x, y = _pending(fresh, operator)
    return lambda: np.testing.assert_array_equal((+y).numpy(), np.sign(x.numpy()))


@_waits
def _buffer_download(fresh: dml.Device, _: dml.CompiledOperator) -> Callable[[], object]:
    x, y = buffer_with(fresh, values_of(1)), fresh.create_buffer(4 * SIZE)
    _recorder(fresh, x, y).submit()
    return lambda: np.testing.assert_array_equal(y.download(np.float32), np.sign(x.download(np.float32)))


@_waits
def _buffer_upload(fresh: dml.Device, _: dml.CompiledOperator) -> Callable[[], object]:
    x, y = buffer_with(fresh, values_of(1)), fresh.create_buffer(4 * SIZE)
    _recorder(fresh, x, y).submit()

    def upload() -> None:
        x.upload(values_of(2))
        assert np.array_equal(y.download(np.float32), np.sign(values_of(1)))

    return upload


@_waits
def _recorder_wait(fresh: dml.Device, _: dml.CompiledOperator) -> Callable[[], object]:
    x, y = buffer_with(fresh, values_of(1)), fresh.create_buffer(4 * SIZE)
    recorder = _recorder(fresh, x, y)
    recorder.submit()
    return _keeping((x, y), recorder.wait)


@_waits
def _recorder_submit(fresh: dml.Device, _: dml.CompiledOperator) -> Callable[[], object]:
    x, y = buffer_with(fresh, values_of(1)), fresh.create_buffer(4 * SIZE)
    recorder = _recorder(fresh, x, y)
    recorder.submit()
    return _keeping((x, y), recorder.submit)


@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("staged", [False, True])
def test_whoever_waits_for_submitted_work_keeps_nobody_from_the_device(
    device: dml.Device,
    watch: Watch,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    staged: bool,
) -> None:
    """While a thread waits in any of these, another one uploads, runs and reads."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda _: staged))
    with dml.Device(device.info.index) as fresh:
        go_on, main, x = threading.Event(), threading.get_ident(), values_of(3)
        operator = compiled(fresh, sign(floats(SIZE)))
        waits = WAITS[name](fresh, operator)
        watch.before = lambda: threading.get_ident() == main or go_on.wait(PATIENCE)
        waiting = threads.submit(waits)
        watch.wait_until(1)
        assert fresh.engine.lock.acquire(timeout=PATIENCE)
        fresh.engine.lock.release()
        assert np.array_equal(fresh.array(x).numpy(), x)
        with fresh.create_buffer(x.nbytes) as buffer:
            buffer.upload(x)
            assert np.array_equal(buffer.download(np.float32), x)
        made = fresh.run(operator, {"InputTensor": fresh.array(x)}, keep=True)["OutputTensor"]
        assert np.array_equal(made.numpy(), np.sign(x))
        run(fresh, operator, 4)
        assert not waiting.done()
        go_on.set()
        waiting.result(PATIENCE)
        assert np.array_equal(made.numpy(), np.sign(x))


def test_several_threads_wait_for_the_same_work(fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor) -> None:
    """And the work is submitted anew as soon as the first of them knows that it is done."""
    x, y = buffer_with(fresh, values_of(0)), fresh.create_buffer(4 * SIZE)
    recorder = _recorder(fresh, x, y)

    def work() -> None:
        for _ in range(50):
            found = y.download(np.float32)
            assert np.array_equal(found, np.sign(values_of(0)))

    recorder.execute()
    tasks = [threads.submit(work) for _ in range(4)]
    for _ in range(50):
        recorder.execute()
    for task in tasks:
        task.result(PATIENCE)


def test_a_submission_waits_until_nobody_looks_at_the_fence_of_the_last_one(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = buffer_with(fresh, values_of(0)), fresh.create_buffer(4 * SIZE)
    recorder = _recorder(fresh, x, y)
    recorder.submit()
    recording = recorder._submitted
    assert recording is not None
    events: list[str] = []
    sequence = recording.sequence

    class Noting(Watched):
        def eval_async(self) -> None:
            events.append("submitted")
            sequence.eval_async()

    object.__setattr__(recording, "sequence", Noting(sequence._sequence, watch))
    main, inside, leave = threading.get_ident(), threading.Event(), threading.Event()

    def stay() -> None:
        if threading.get_ident() != main:
            inside.set()
            leave.wait(PATIENCE)
            events.append("left")

    watch.before = stay
    reading = threads.submit(y.download)
    assert inside.wait(PATIENCE)
    real_sleep = time.sleep

    def let_leave(seconds: float) -> None:
        leave.set()
        real_sleep(seconds)

    monkeypatch.setattr(time, "sleep", let_leave)
    monkeypatch.setattr(submissions, "_LONGEST_LEAVE_IN_SECONDS", PATIENCE)
    with fresh.engine.lock:  # whoever has the lock waits for the fence itself
        recorder.submit()
    assert events == ["left", "submitted"]
    recorder.wait()
    reading.result(PATIENCE)


def test_closing_a_buffer_under_a_thread_that_waits_for_it_ends_the_call_with_an_error(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    x, y = buffer_with(fresh, values_of(0)), fresh.create_buffer(4 * SIZE)
    recorder = _recorder(fresh, x, y)
    recorder.submit()
    go_on, main = threading.Event(), threading.get_ident()
    watch.before = lambda: threading.get_ident() == main or go_on.wait(PATIENCE)
    reading, submitting = threads.submit(y.download), threads.submit(recorder.submit)
    watch.wait_until(1)
    y.close()
    go_on.set()
    for task in (reading, submitting):
        with pytest.raises(dml.InvalidArgumentError, match="closed"):
            task.result(PATIENCE)


def test_closing_the_device_waits_for_a_thread_that_reads(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    """The call has begun, and gets what it wants."""
    _, y = _pending(fresh, compiled(fresh, sign(floats(SIZE))))
    go_on = threading.Event()
    watch.before = lambda: go_on.wait(PATIENCE)
    reading = threads.submit(y.numpy)
    watch.wait_until(1)
    closing = threads.submit(fresh.close)
    while not fresh.engine.is_removed:
        pass
    assert not closing.done()
    go_on.set()
    assert np.array_equal(reading.result(PATIENCE), np.sign(values_of(1)))
    closing.result(PATIENCE)
    assert not fresh.engine._allocations


def test_a_read_that_an_interrupt_ends_leaves_the_device_to_others(
    fresh: dml.Device, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    _, y = _pending(fresh, compiled(fresh, sign(floats(SIZE))))

    def interrupt() -> None:
        raise KeyboardInterrupt

    watch.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        y.numpy()
    watch.before = lambda: None
    assert np.array_equal(threads.submit(y.numpy).result(PATIENCE), np.sign(values_of(1)))


def test_a_signals_handler_may_read_what_the_interrupted_call_waits_for(fresh: dml.Device, watch: Watch) -> None:
    _, y = _pending(fresh, compiled(fresh, sign(floats(SIZE))))
    found = []

    def handler() -> None:
        watch.before = lambda: None
        found.append(y.numpy())

    watch.before = handler
    found.append(y.numpy())
    assert all(np.array_equal(each, np.sign(values_of(1))) for each in found) and len(found) == 2
