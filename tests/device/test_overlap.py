"""Threads that run operators on one device overlap: they wait for it without keeping each other from it.

What must happen at once is shown by barriers and events that are only passed when it does, never by times.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import running
from dmlvk.arrays import copied, copy_elements
from dmlvk.runtime import kompute, submissions
from dmlvk.runtime.afterwards import Afterwards, new_lock
from dmlvk.runtime.kompute import Engine, Recording
from tests.binding.support import Binding, buffer_with, compiled, floats, sign, table_for, threshold

pytestmark = pytest.mark.skipif(
    not hasattr(kompute._kompute(), "OpMemoryBarrier"), reason="the unchanged Kompute waits where it submits"
)

SIZE = 48
PATIENCE = 30
"""Seconds after which something that must happen counts as missing."""

Values = npt.NDArray[np.float32]


def values_of(number: int) -> Values:
    return np.random.default_rng(number).integers(-5, 6, SIZE).astype(np.float32)


class Watch:
    """Calls something before a thread waits for the device, and notes which threads are about to."""

    def __init__(self) -> None:
        self.before: Callable[[], object] = lambda: None
        self.failure: dict[int, str] = {}
        self._changed = threading.Condition()
        self.waiting = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._changed:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            self._changed.notify_all()

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self.waiting -= 1

    def wait_until(self, count: int) -> None:
        """Returns when so many threads are about to wait for the device."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.waiting >= count, PATIENCE)


class Watched:
    """Kompute's sequence, under watch."""

    def __init__(self, sequence: Any, watch: Watch) -> None:
        self._sequence, self._watch = sequence, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sequence, name)

    def eval_await(self) -> None:
        with self._watch:
            self._watch.before()
        self._sequence.eval_await()  # also before it fails: a device that is lost is at rest
        if threading.get_ident() in self._watch.failure:
            raise RuntimeError(self._watch.failure[threading.get_ident()])


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """All that is recorded in the test is under watch."""
    watch, record = Watch(), Engine.record

    def watched(engine: Engine, *args: Any, **options: Any) -> Recording:
        recording = record(engine, *args, **options)
        object.__setattr__(recording, "sequence", Watched(recording.sequence, watch))
        return recording

    monkeypatch.setattr(Engine, "record", watched)
    return watch


@pytest.fixture
def fresh(device: dml.Device) -> Iterator[dml.Device]:
    with dml.Device(device.info.index) as opened:
        yield opened


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def run(device: dml.Device, operator: dml.CompiledOperator, number: int = 0) -> None:
    """Runs SIGN, and looks at the result."""
    x = values_of(number)
    assert np.array_equal(device.run(operator, {"InputTensor": x})["OutputTensor"], np.sign(x))


def allocation_count(device: dml.Device) -> int:
    gc.collect()
    return len(device.engine._allocations)


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

    monkeypatch.setattr("dmlvk.running.copy_elements", copying_in)
    monkeypatch.setattr("dmlvk.running.copied", copying_out)
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
    watch.wait_until(running.MOST_RUNS_AT_ONCE)
    go_on.set()
    for task in tasks:
        task.result(PATIENCE)
    assert watch.most == 3 and allocation_count(fresh) == 2 * 3


@pytest.mark.parametrize(("limit", "most"), [(2 * 8 * SIZE, 2), (8 * SIZE + 1, 1), (1, 1)])
def test_runs_at_once_take_a_bounded_number_of_bytes(
    fresh: dml.Device,
    watch: Watch,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    most: int,
) -> None:
    monkeypatch.setattr(running, "KEPT_RUN_BYTES_IN_ALL", limit)
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
    monkeypatch.setattr(running, "KEPT_RUN_BYTES", 1)
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
    assert model.constants is not None
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

    monkeypatch.setattr("dmlvk.running.copy_elements", copying)
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
