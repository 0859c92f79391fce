"""Signals, collections of garbage and the end of the program come between any two steps, and break nothing."""

from __future__ import annotations

import gc
import signal

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.arrays import memory_pool
from dmlvk.arrays.memory_pool import MemoryPool
from dmlvk.runtime.kompute import Allocation, Engine
from tests.device.processes import output_of
from tests.interrupts import interrupted


def _sign(size: int) -> dml.ElementWiseSign:
    tensor = dml.TensorDesc(dml.FLOAT32, (size,))
    return dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor)


needs_signals = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such signals")

BIG = """
import atexit, gc, signal, threading, time
big = dml.TensorDesc(dml.FLOAT32, (3 * 2**20,))
big_desc = dml.ElementWiseSign(input_tensor=big, output_tensor=big)
big_values = np.full(big.sizes, -3, np.float32)

def check(device):
    assert (device.run(big_desc, {"InputTensor": big_values})["OutputTensor"] == -1).all()
"""

IN_CHUNKS = BIG.replace("3 * 2**20", "6 * 2**20")
"""The same with arrays that other threads work at, chunk by chunk, while the one that wants the result waits."""

EACH_SIZE = pytest.mark.parametrize("big", [BIG, IN_CHUNKS], ids=["whole", "in pieces"])


@needs_signals
@pytest.mark.parametrize("what", ["device.close()", "kept[1][0].close()", "kept[1][1].close(); device.close()"])
@pytest.mark.parametrize("call", ["execute", "run", "upload and download", "create and drop"])
def test_a_signals_handler_may_close_what_the_program_is_working_with(device: dml.Device, what: str, call: str) -> None:
    """The call that is interrupted is completed, and the next one raises."""
    action = {
        "execute": "kept[3].execute()",
        "run": "device.run(desc, {'InputTensor': values}); kept[1][0].download()",
        "upload and download": "kept[1][0].upload(values); kept[1][1].download()",
        "create and drop": "device.create_buffer(4096); kept[1][0].upload(values); kept[1][1].download()",
    }[call]
    program = f"""
import signal
for turn in range(12):
    device = dml.Device(index)
    kept = record(device)
    def close(*_):
        {what}
    signal.signal(signal.SIGALRM, close)
    signal.setitimer(signal.ITIMER_REAL, 1e-4 + turn * 2e-5)
    try:
        while True:
            {action}
    except dml.DmlError as error:
        assert "closed" in str(error), error
    device.close()
    assert len(device.engine._allocations) == 0 and sum(device.engine._memory._promised) == 0
"""
    assert output_of(program, device.info.index) == ""


def test_memory_whose_finalizer_an_interrupt_took_is_freed(device: dml.Device) -> None:
    """So is memory that an interrupt kept from having a finalizer; after some more calls, whatever it was for."""
    with dml.Device(device.info.index) as own:
        own.run(sign_desc := _sign(4), {"InputTensor": [1, 2, 3, 4]}, casting="same_kind")
        before = len(own.engine._allocations)
        for _ in range(5):
            buffer, array = own.create_buffer(64), own.array(np.array([1, 2], np.float32))
            buffer._release.detach()
            array.storage._is_released = True
        orphan = own.engine.allocate(64, owner=dml.Buffer(own.engine, 4))
        del buffer, array
        gc.collect()
        assert len(own.engine._allocations) == before + 11 and own.engine.has(orphan)
        for _ in range(64):
            own.create_buffer(4).close()
        assert len(own.engine._allocations) == before and not own.engine.has(orphan)
        assert not orphan.tensor.is_init()
        own.run(sign_desc, {"InputTensor": [1, 2, 3, 4]}, casting="same_kind")


class _Owner:
    """Whom memory is for."""


@pytest.mark.parametrize("work", ["drop", "drop what is too much", "take", "take a certain one", "take a new one"])
def test_an_interrupt_in_the_pool_neither_leaks_memory_nor_gives_it_to_two(any_device: dml.Device, work: str) -> None:
    step = 0
    while _pool_interrupted(any_device.engine, work, step):
        step += 1
    assert step > 20, "no interrupt was tried"
    assert not any_device.engine.lock._is_owned()


def _returned(pool: MemoryPool, allocation: Allocation) -> None:
    pool.give_back(allocation)
    pool._collect()


def _pool_interrupted(engine: Engine, work: str, step: int) -> bool:
    pool, before = MemoryPool(engine), set(engine._allocations)
    owners = [_Owner() for _ in range(3)]
    taken, kept, dropped = (pool.take(64, owner) for owner in owners)
    del owners[1:]
    _returned(pool, kept)
    if work == "drop what is too much":
        pool._most = 64
    size, wish = 128 if work == "take a new one" else 64, kept if work == "take a certain one" else None
    calls = {"drop": lambda: _returned(pool, dropped), "take": lambda: pool.take(size, owners[0], wish)}
    was_interrupted = interrupted(calls[work.split()[0]], step, memory_pool.__file__)
    if engine.lock._is_owned():  # a signal's handler is not called between such a lock and what is done with it
        engine.lock.release()
    engine._free_orphans()
    owners += [_Owner() for _ in range(3)]
    again = [pool.take(64, owner) for owner in owners[1:]]
    assert all(map(engine.has, again)) and len({taken, *again}) == 4, step
    owners.clear()
    pool.clear()
    engine._free_orphans()
    assert not engine._allocations - before and not pool.size_in_bytes, step
    return was_interrupted


@needs_signals
def test_an_interrupt_leaves_no_lock_behind(device: dml.Device) -> None:
    program = """
def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
device = dml.Device(index)
operator, (buffer, other), table, recorder = record(device)
actions = (
    lambda: buffer.upload(values),
    lambda: other.download(),
    lambda: recorder.execute(),
    lambda: device.run(desc, {"InputTensor": values}),
    lambda: device.create_buffer(64).close(),
)
for turn in range(1500):
    action = actions[turn % len(actions)]
    try:
        signal.setitimer(signal.ITIMER_REAL, 2e-5 + turn % 100 * 1e-6)
        while True:
            action()
    except KeyboardInterrupt:
        pass
    assert not device.engine.lock._is_owned(), turn

def elsewhere():
    buffer.upload(values)
    recorder.execute()
    assert (other.download(np.float32) == np.sign(values)).all()
    print("works")

thread = threading.Thread(target=elsewhere, daemon=True)
thread.start()
thread.join(60)
"""
    assert output_of(BIG + program, device.info.index) == "works\n"


@needs_signals
def test_an_interrupted_large_copy_is_over_when_the_interrupt_is_raised(device: dml.Device) -> None:
    """No thread goes on writing to memory that its owner may free."""
    program = """
import dmlvk.arrays.tensor_bytes
dmlvk.arrays.tensor_bytes.os.cpu_count = lambda: 4

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
device = dml.Device(index)
caught = 0
for turn in range(60):
    buffer = device.create_buffer(big_values.nbytes)
    try:
        signal.setitimer(signal.ITIMER_REAL, 5e-4 + turn % 30 * 1e-4)
        while True:
            buffer.upload(big_values)
    except KeyboardInterrupt:
        caught += 1
    buffer.close()  # which unmaps the memory
print(caught)
check(device)
"""
    assert output_of(BIG + program, device.info.index) == "60\n"


@pytest.mark.sweep
@pytest.mark.parametrize("call", ["buffer.upload(big_values)", "check(device)"])
def test_garbage_that_is_collected_in_another_thread_during_a_large_copy_is_freed(
    device: dml.Device, call: str
) -> None:
    """The copy holds the engine's lock and starts threads; in one of them a buffer's finalizer may run."""
    program = f"""
import dmlvk.support.shared_work

class Model:
    def __init__(self):
        self.weights = device.create_buffer(2**16)
        self.itself = self

device = dml.Device(index)
buffer = device.create_buffer(big_values.nbytes)
buffer.upload(big_values)
check(device)
before = len(device.engine._allocations)
for moment in range(1, 120):
    dmlvk.support.shared_work._forget_threads()  # as in the first large copy of a process, which starts them
    gc.collect()
    gc.disable()
    Model()
    gc.set_threshold(gc.get_count()[0] + moment, 1000, 1000)
    gc.enable()
    {call}
    gc.set_threshold(700, 10, 10)
gc.collect()
print(len(device.engine._allocations) - before)
"""
    assert output_of(BIG + program, device.info.index) == "0\n"


@EACH_SIZE
def test_a_thread_that_outlives_the_main_one_still_copies_large_arrays(device: dml.Device, big: str) -> None:
    program = """
device = dml.Device(index)

def work():
    threading.main_thread().join()
    for _ in range(5):
        check(device)
    print("done")

threading.Thread(target=work).start()
"""
    assert output_of(big + program, device.info.index) == "done\n"


@EACH_SIZE
def test_an_exit_handler_still_copies_large_arrays(device: dml.Device, big: str) -> None:
    program = """
device = dml.Device(index)
atexit.register(lambda: print("done"))
atexit.register(check, device)
"""
    assert output_of(big + program, device.info.index) == "done\n"


GRAPH = """
import atexit, os, tempfile, threading
from dmlvk import functions as F
os.environ["DMLVK_CACHE_DIR"] = tempfile.mkdtemp()  # so that kernels are compiled, by threads
device = dml.Device(index)

def check():
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, (4, 8))
    model = graph.compile(y=abs(F.cumsum(abs(x) - 1, axis=1)) + 2)
    assert (device.run(model, {"x": np.full((4, 8), 3, np.float32)})["y"][:, 1] == 6).all()
    print("done")
"""


@pytest.mark.parametrize(
    "when",
    ["threading.Thread(target=lambda: (threading.main_thread().join(), check())).start()", "atexit.register(check)"],
)
def test_a_graph_can_still_be_compiled_when_the_main_thread_has_ended(device: dml.Device, when: str) -> None:
    assert output_of(f"{GRAPH}\n{when}\n", device.info.index) == "done\n"
