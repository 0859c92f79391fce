"""A device's life, of its objects and of the process: quiet, and well at the end, whatever is still open."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import device as device_module
from dmlvk.running import host_runs
from dmlvk.runtime import kompute, pipelines
from tests.binding.support import Binding, buffer_with, compiled, execute, floats, sign, table_for, threshold
from tests.device.processes import output_of, run_program
from tests.device.watching import allocation_count
from tests.effort import IS_QUICK

VALUES = np.linspace(-2, 2, 64, dtype=np.float32)


def promised_bytes(device: dml.Device) -> int:
    """What the memory guard believes to be in use."""
    gc.collect()
    return sum(device.engine._memory._promised)


def record_once(device: dml.Device) -> dml.CommandRecorder:
    """Records and runs SIGN between two new buffers."""
    operator = compiled(device, sign(floats(64)))
    source, target = buffer_with(device, VALUES), device.create_buffer(256)
    recorder = device.create_command_recorder()
    recorder.record_dispatch(operator, table_for(operator, [Binding(source)], [Binding(target)]))
    recorder.execute()
    assert np.array_equal(target.download(np.float32), np.sign(VALUES))
    return recorder


def test_block_closes_the_device_whatever_happens(any_device: dml.Device) -> None:
    with pytest.raises(ZeroDivisionError), dml.Device(any_device.info.index) as device:
        buffer = device.create_buffer(16)
        raise ZeroDivisionError
    assert buffer.is_closed and device.engine.is_closed
    with pytest.raises(dml.DeviceRemovedError):
        device.create_buffer(16)


def test_buffer_is_freed_with_the_last_reference(fresh: dml.Device) -> None:
    """By reference counting, and through a cycle by garbage collection."""
    before = allocation_count(fresh), promised_bytes(fresh)
    buffer = fresh.create_buffer(2**16)
    tensor = buffer.allocation.tensor
    assert tensor.is_init()
    assert promised_bytes(fresh) >= before[1] + 2**16
    del buffer
    assert not tensor.is_init()
    assert (allocation_count(fresh), promised_bytes(fresh)) == before

    cycle: list[object] = [fresh.create_buffer(2**16)]
    cycle.append(cycle)
    del cycle
    assert (allocation_count(fresh), promised_bytes(fresh)) == before


def test_closed_buffer_is_freed_at_once_though_it_is_still_bound_and_recorded(fresh: dml.Device) -> None:
    before = allocation_count(fresh), promised_bytes(fresh)
    recorder = record_once(fresh)
    (dispatch,) = recorder.dispatches
    for bound in dispatch.inputs + dispatch.outputs:
        bound.binding.buffer.close()
    assert (allocation_count(fresh), promised_bytes(fresh)) == before
    assert len(fresh.engine._pipelines) == 0  # a pipeline goes with any buffer that it binds


def test_recorder_keeps_alive_what_it_recorded(fresh: dml.Device) -> None:
    """Rule 77 leaves this to the application; here a dropped buffer that was recorded is still there to run."""
    recorder = record_once(fresh)
    output = weakref.ref(recorder.dispatches[0].outputs[0].binding.buffer)
    gc.collect()
    recorder.execute()
    assert output() is not None
    recorder.reset()
    gc.collect()
    assert output() is None
    recorder.execute()


def test_binding_table_keeps_its_buffers_alive(fresh: dml.Device) -> None:
    operator = compiled(fresh, sign(floats(4)))
    table = table_for(operator, [Binding(fresh.create_buffer(16))], [Binding(fresh.create_buffer(16))])
    assert allocation_count(fresh) == 2
    table.bind_inputs(None)
    assert allocation_count(fresh) == 1
    del table
    assert allocation_count(fresh) == 0


def test_recordings_are_freed_with_their_recorder(fresh: dml.Device) -> None:
    recorder = record_once(fresh)
    recording = weakref.ref(recorder._recording)
    sequence = weakref.ref(recording().sequence)  # type: ignore[union-attr]  # it was just recorded
    del recorder
    gc.collect()
    assert recording() is None and sequence() is None
    assert allocation_count(fresh) == 0


def test_operator_that_is_let_go_frees_the_buffers_of_its_runs(fresh: dml.Device) -> None:
    operator = compiled(fresh, sign(floats(64)))
    for _ in range(3):
        fresh.run(operator, {"InputTensor": VALUES})
    assert allocation_count(fresh) == 2
    gone = weakref.ref(operator)
    del operator
    assert allocation_count(fresh) == 0 and gone() is None
    assert len(fresh.engine._pipelines) == 0


def test_descriptions_that_were_run_keep_a_bounded_number_of_operators(
    fresh: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least recently used goes first."""
    assert fresh._compiled.most == 64
    monkeypatch.setattr(fresh._compiled, "most", 4)
    descs = [threshold(floats(4), bound) for bound in range(10)]
    x = np.arange(4, dtype=np.float32)
    for desc in [*descs, descs[7], *descs[:1]]:
        fresh.run(desc, {"InputTensor": x})
    assert list(fresh._compiled) == [descs[8], descs[9], descs[7], descs[0]]
    assert allocation_count(fresh) == 8 and len(fresh._runs) == 4
    for bound, desc in enumerate(descs):
        assert np.array_equal(fresh.run(desc, {"InputTensor": x})["OutputTensor"], np.maximum(x, np.float32(bound)))


def test_large_runs_keep_no_buffers(fresh: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_runs, "KEPT_RUN_BYTES", 511)
    operator = compiled(fresh, sign(floats(64)))
    for _ in range(3):
        assert np.array_equal(fresh.run(operator, {"InputTensor": VALUES})["OutputTensor"], np.sign(VALUES))
        assert allocation_count(fresh) == 0


def test_runs_keep_a_bounded_number_of_bytes_in_all(fresh: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 operators could hold 16 GiB otherwise; the least recently used buffers go first, and come when needed."""
    assert device_module._KEPT_OPERATORS * host_runs.KEPT_RUN_BYTES == 16 * host_runs.KEPT_RUN_BYTES_IN_ALL
    assert [host_runs.kept_bytes_in_all(gibibytes * 2**30) // 2**20 for gibibytes in (2, 8, 80)] == [256, 1024, 1024]
    monkeypatch.setattr(host_runs, "KEPT_RUN_BYTES_IN_ALL", 3 * 512)
    operators = [compiled(fresh, threshold(floats(64), bound)) for bound in range(5)]
    order = [0, 1, 2, 0, 3, 4, 1, 1, 0]
    for bound in order:
        found = fresh.run(operators[bound], {"InputTensor": VALUES})["OutputTensor"]
        assert np.array_equal(found, np.maximum(VALUES, np.float32(bound)))
        assert allocation_count(fresh) <= 6
    assert list(fresh._runs) == [operators[4], operators[1], operators[0]]


def test_failed_run_leaves_nothing_behind(fresh: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the second buffer cannot be had, the first one is given back."""
    allocate = kompute.Engine.allocate
    calls = []

    def failing(engine: kompute.Engine, size: int, **options: Any) -> kompute.Allocation:
        calls.append(size)
        if len(calls) == 2:
            raise dml.OutOfMemoryError("no memory, on purpose")
        return allocate(engine, size, **options)

    with monkeypatch.context() as patched:
        patched.setattr(kompute.Engine, "allocate", failing)
        with pytest.raises(dml.OutOfMemoryError, match="on purpose"):
            fresh.run(sign(floats(64)), {"InputTensor": VALUES})
    assert allocation_count(fresh) == 0
    assert np.array_equal(fresh.run(sign(floats(64)), {"InputTensor": VALUES})["OutputTensor"], np.sign(VALUES))


def refused(device: dml.Device) -> None:
    with pytest.raises(dml.DmlError):
        device.create_buffer(-1)


def kept_twice(device: dml.Device) -> None:
    """The memory of two arrays may change places from one run to the next."""
    for _ in range(2):
        device.run(sign(floats(64)), {"InputTensor": device.array(VALUES)}, keep=True)


ACTIONS: dict[str, Callable[[dml.Device], object]] = {
    "run": lambda device: device.run(sign(floats(64)), {"InputTensor": VALUES}),
    "record": lambda device: record_once(device),
    "buffer": lambda device: buffer_with(device, VALUES).download(),
    "refused": lambda device: refused(device),
    "array": lambda device: device.array(VALUES)[3:, ...].numpy(),
    "kept": lambda device: kept_twice(device),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_nothing_is_left_of_many_repetitions(fresh: dml.Device, action: str) -> None:
    """Objects are counted: allocations, promised bytes, pipelines, operators, recordings."""

    def census() -> tuple[int, ...]:
        kinds = (kompute.Allocation, kompute.Recording, dml.Buffer, dml.CompiledOperator, dml.CommandRecorder)
        gc.collect()  # what other tests have left, too
        alive = gc.get_objects()
        return (
            allocation_count(fresh),
            promised_bytes(fresh),
            len(fresh.engine._pipelines),
            len(fresh._compiled),
            len(fresh._runs),
            *(sum(isinstance(thing, kind) for thing in alive) for kind in kinds),
        )

    ACTIONS[action](fresh)
    before = census()
    repetitions = 50 if IS_QUICK else 1000
    if action == "record":
        repetitions //= 10  # SwiftShader takes its time for a pipeline
    for _ in range(repetitions):
        ACTIONS[action](fresh)
    assert census() == before


def test_pipelines_are_kept_for_buffers_that_are_kept(fresh: dml.Device) -> None:
    """A thousand recordings on the same buffers share a pipeline for no offsets and one for all others."""
    operator = compiled(fresh, sign(floats(4)))
    with fresh.create_buffer(1024) as source, fresh.create_buffer(1024) as target:
        for i in range(1000):
            here = Binding(source, 16 * (i % 64), 16), Binding(target, 16 * (i * 7 % 64), 16)
            recorder = fresh.create_command_recorder()
            recorder.record_dispatch(operator, table_for(operator, [here[0]], [here[1]]))
            if i % 50 == 0:
                recorder.execute()
        assert len(fresh.engine._pipelines) <= 2


def test_number_of_kept_pipelines_is_bounded(fresh: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded with a pipeline that is no longer kept still runs; the least recently used one goes first."""
    assert pipelines.MOST_BOUND == 512
    monkeypatch.setattr(pipelines, "MOST_BOUND", 3)
    operator = compiled(fresh, sign(floats(64)))
    with buffer_with(fresh, VALUES) as source:
        targets = [fresh.create_buffer(256) for _ in range(7)]
        recorder = fresh.create_command_recorder()
        for target in targets:
            recorder.record_dispatch(operator, table_for(operator, [Binding(source)], [Binding(target)]))
        for sign_of_values in (1, -1):
            source.upload(VALUES * sign_of_values)
            recorder.execute()
            assert len(fresh.engine._pipelines) == 3
            for target in targets:
                assert np.array_equal(target.download(np.float32), np.sign(VALUES) * sign_of_values)
        kept = list(fresh.engine._pipelines._bound.values())
        execute(operator, [Binding(source)], [Binding(targets[4])])  # the oldest of the three: now the newest
        assert list(fresh.engine._pipelines._bound.values()) == [*kept[1:], kept[0]]
        for target in targets[:5]:
            target.close()
        assert len(fresh.engine._pipelines) == 2


def test_closing_a_device_frees_all_that_hangs_on_it(any_device: dml.Device) -> None:
    """Recorders, tables, operators and buffers that are still referred to hold no memory, and no device."""
    device = dml.Device(any_device.info.index)
    device.run(sign(floats(64)), {"InputTensor": VALUES})
    recorder = record_once(device)
    bound = recorder.dispatches[0].inputs[0].binding.buffer
    tensors = [allocation.tensor for allocation in device.engine._allocations]
    assert len(tensors) >= 4 and all(tensor.is_init() for tensor in tensors)
    device.close()
    assert not any(tensor.is_init() for tensor in tensors)
    assert allocation_count(device) == len(device.engine._pipelines) == len(device._compiled) == 0
    assert bound.is_closed
    gone, engine = weakref.ref(device), weakref.ref(device.engine)
    del device, recorder, bound
    gc.collect()
    assert gone() is None and engine() is None


def test_device_that_is_let_go_closes_itself(any_device: dml.Device) -> None:
    """Without close(): when nothing of it is referred to any more."""
    device = dml.Device(any_device.info.index)
    device.run(sign(floats(64)), {"InputTensor": VALUES})
    recorder = record_once(device)
    tensors = [allocation.tensor for allocation in device.engine._allocations]
    gone = weakref.ref(device.engine)
    del device
    gc.collect()
    assert gone() is not None, "the recorder needs it"
    recorder.execute()
    del recorder
    gc.collect()
    assert gone() is None
    assert not any(tensor.is_init() for tensor in tensors)


def test_buffer_keeps_its_device_open(any_device: dml.Device) -> None:
    """Rule 79: children hold strong references."""
    buffer = buffer_with(dml.Device(any_device.info.index), VALUES)
    gc.collect()
    assert np.array_equal(buffer.download(np.float32), VALUES)
    operator = compiled(dml.Device(any_device.info.index), sign(floats(64)))
    gc.collect()
    assert np.array_equal(operator.device.run(operator, {"InputTensor": VALUES})["OutputTensor"], np.sign(VALUES))


def test_devices_open_at_once_do_not_disturb_each_other(any_device: dml.Device) -> None:
    """Several of each kind, used in turns, closed in another order."""
    devices = [dml.Device(info.index) for info in dml.list_devices() for _ in range(2)]
    buffers = [buffer_with(device, VALUES * i) for i, device in enumerate(devices)]
    for device in devices[::2] + devices[1::2]:
        assert np.array_equal(device.run(sign(floats(64)), {"InputTensor": VALUES})["OutputTensor"], np.sign(VALUES))
        record_once(device)
    for i in (1, 0, *range(2, len(devices))):
        devices[i].close()
        for j, buffer in enumerate(buffers):
            assert buffer.is_closed == devices[j].engine.is_closed
            if not buffer.is_closed:
                assert np.array_equal(buffer.download(np.float32), VALUES * j)


def test_opening_and_closing_again_and_again(device: dml.Device) -> None:
    for _ in range(30):
        with dml.Device(device.info.index) as opened, opened.create_buffer(64) as buffer:
            buffer.upload(VALUES[:16])
            assert np.array_equal(buffer.download(np.float32), VALUES[:16])


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("step", "count", "limit_in_bytes_each"),
    [
        ("device.run(desc, {'InputTensor': values})", 1500, 20),
        ("device.create_buffer(2**16).upload(values)", 1500, 200),
        ("record(device)", 60, 4000),
        ("recorder.execute()", 1500, 20),
        ("recorder.reset(); recorder.record_dispatch(operator, table); recorder.execute()", 1000, 200),
        ("dml.Device(index).close()", 10, 20_000),
        ("never_seen()", 300, 600),
    ],
    ids=["run", "buffer", "record", "execute", "record again", "device", "new sizes and attributes"],
)
def test_process_does_not_grow(device: dml.Device, step: str, count: int, limit_in_bytes_each: int) -> None:
    """Resident memory, in the best of ten rounds of a warm loop: what leaks, leaks in each of them.

    Kompute itself keeps some 50 bytes for each object that it ever made. The allocator's own pools grow for some rounds
    more, in steps (1,500 buffers on llvmpipe: 74, 49, 66, 565, 0, 46, 0 bytes each), which is no leak.
    """
    limit = count * limit_in_bytes_each
    program = f"""
device = dml.Device(index)
operator, buffers, table, recorder = record(device)

alphas = iter(range(10**6))

def never_seen():
    number = next(alphas)
    tensor = dml.TensorDesc(dml.FLOAT32, (2 + number % 89, 5))
    elu = dml.ActivationElu(input_tensor=tensor, output_tensor=tensor, alpha=1 + number / 1024)
    device.run(elu, {{"InputTensor": np.ones(tensor.sizes, np.float32)}})

def growth(count):
    before = resident_bytes()
    for _ in range(count):
        {step}
    return resident_bytes() - before

growth({count})
rounds = []
while len(rounds) < 10 and min(rounds, default={limit} + 1) > {limit}:
    rounds.append(growth({count}))
print(*rounds)
"""
    rounds = [int(word) for word in output_of(program, device.info.index).split()]
    assert min(rounds) <= limit, f"bytes for {count} times {step} in each round: {rounds}"


EVERYTHING_OPEN = """
device = dml.Device(index)
assert np.array_equal(device.run(desc, {"InputTensor": values})["OutputTensor"], np.sign(values))
kept = record(device)
"""

ENDINGS = {
    "at the end of the program": "",
    "by sys.exit": "sys.exit(0)",
    "by sys.exit inside a with block": "with dml.Device(index) as inner:\n    more = record(inner)\n    sys.exit(0)",
    "with the device held by a cycle": "class Cycle: pass\ncycle = Cycle()\ncycle.itself = cycle, device, kept",
    "with the device in a module": "import json\njson.device = device\njson.kept = kept",
    "with the device deleted": "del device",
    "with the buffers deleted only": "del kept",
    "with the device closed": "device.close()",
    "with a buffer closed after the device": "device.close()\nkept[1][0].close()",
    "with two devices": "second = dml.Device(index)\nkept_too = record(second)\nmore = record(device)",
    "with every device": "all_of_them = [record(dml.Device(info.index)) for info in dml.list_devices()]",
    "with another thread's device": (
        "import threading\nfound = []\n"
        "thread = threading.Thread(target=lambda: found.append(record(dml.Device(index))))\n"
        "thread.start(); thread.join()"
    ),
    "with an exit handler that still uses the device": (
        "import atexit\natexit.register(lambda: print(device.run(desc, {'InputTensor': values})['OutputTensor'].sum()))"
    ),
    "with an earlier exit handler that closes it": "import atexit\natexit.register(device.close)",
    "with garbage that was never collected": (
        "import gc\ngc.disable()\nkept[1].append(kept)\nkept[1].append(device)\ndel kept, device"
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_interpreter_exits_quietly(device: dml.Device, ending: str) -> None:
    """Status 0 and not a word, with everything open."""
    printed = output_of(EVERYTHING_OPEN + ENDINGS[ending], device.info.index)
    assert printed in ("", "0.0\n")


def test_interpreter_exits_quietly_with_a_daemon_thread_at_work(device: dml.Device) -> None:
    program = """
import threading, time

def work():
    try:
        while True:
            device.run(desc, {"InputTensor": values})
    except dml.DeviceRemovedError:
        pass

threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""
    assert output_of(EVERYTHING_OPEN + program, device.info.index) == ""


@pytest.mark.parametrize("where", ["outside", "inside a with block", "inside a thread's with block"])
def test_exit_from_an_exception_shows_that_exception_only(device: dml.Device, where: str) -> None:
    program = {
        "outside": "raise ZeroDivisionError('on purpose')",
        "inside a with block": "with device:\n    more = record(device)\n    raise ZeroDivisionError('on purpose')",
        "inside a thread's with block": (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "def fail():\n    with dml.Device(index) as inner:\n        record(inner)\n"
            "        raise ZeroDivisionError('on purpose')\n"
            "ThreadPoolExecutor(1).submit(fail).result()"
        ),
    }[where]
    finished = run_program(EVERYTHING_OPEN + program, device.info.index)
    assert finished.returncode == 1 and finished.stdout == ""
    assert finished.stderr.startswith("Traceback (most recent call last):")
    assert finished.stderr.endswith("ZeroDivisionError: on purpose\n") and finished.stderr.count("Traceback") == 1


def test_exit_after_a_refused_call_is_quiet(device: dml.Device) -> None:
    program = """
for wrong in (None, 0, -1, "x"):
    try:
        device.create_buffer(wrong)
    except dml.DmlError as error:
        kept_error = error  # its traceback holds frames, which hold the device
"""
    assert output_of(EVERYTHING_OPEN + program, device.info.index) == ""


@pytest.mark.parametrize("end", ["", "import gc; gc.collect()", "del cycle", "del cycle, array; gc.collect()"])
def test_arrays_that_are_too_large_to_be_kept_go_quietly(device: dml.Device, end: str) -> None:
    """Their memory is freed, not kept for others: also together with the device, as garbage."""
    program = f"""
import gc
inner = dml.Device(index)
inner.arrays.pool._most = 0
array = inner.array(np.ones(64, np.float32))
cycle = [array + array, inner]
cycle.append(cycle)
assert (cycle[0].numpy() == 2).all()
del inner
{end}
"""
    assert output_of(program, device.info.index) == ""
