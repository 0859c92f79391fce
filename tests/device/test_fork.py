"""Processes that are forked: they end well, refuse what their parent has opened, and open devices of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import dmlvk as dml
from tests.device.processes import output_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

FORKING = """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
big = dml.TensorDesc(dml.FLOAT32, (3 * 2**20,))
big_desc = dml.ElementWiseSign(input_tensor=big, output_tensor=big)
big_values = np.full(big.sizes, -3, np.float32)

def check(device):
    assert (device.run(desc, {"InputTensor": values})["OutputTensor"] == np.sign(values)).all()
    assert (device.run(big_desc, {"InputTensor": big_values})["OutputTensor"] == -1).all()

def status_of_child(work=lambda: None):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        work()
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def test_a_child_that_never_touches_dmlvk_ends_well(any_device: dml.Device) -> None:
    program = """
device = dml.Device(index)
kept = record(device)
check(device)
print(status_of_child(), status_of_child(lambda: print("said", end=" ")), status_of_child(lambda: os._exit(3)))
check(device)
print(record(device, kept[3]) is not None, status_of_child())
"""
    assert output_of(FORKING + program, any_device.info.index) == "7 said 7 3\nTrue 7\n".replace("7 said", "said 7", 1)


def test_what_the_parent_has_opened_raises_at_once_in_a_child(any_device: dml.Device) -> None:
    program = """
device = dml.Device(index)
operator, buffers, table, recorder = record(device)
check(device)
array = device.array(values)
kept = device.run(desc, {"InputTensor": array}, keep=True)["OutputTensor"]

def work():
    calls = (
        array.numpy,
        kept.wait,
        lambda: device.array(values),
        lambda: device.run(desc, {"InputTensor": array}),
        lambda: device.run(desc, {"InputTensor": values}),
        lambda: device.create_buffer(4),
        lambda: device.compile_operator(device.create_operator(desc)),
        buffers[1].download,
        lambda: buffers[0].upload(values),
        recorder.execute,
        lambda: device.create_command_recorder(),
    )
    for call in calls:
        try:
            call()
        except dml.DeviceRemovedError as error:
            assert "was opened by another process" in str(error), error
        else:
            raise AssertionError(call)
    assert buffers[0].is_closed and device.engine.is_closed
    buffers[0].close()
    array.close()
    device.close()
    buffers.clear()

print(status_of_child(work))
check(device)
assert (buffers[1].download(np.float32) == np.sign(values)).all()
recorder.execute()
assert (kept.numpy() == np.sign(array.numpy())).all()
"""
    assert output_of(FORKING + program, any_device.info.index) == "7\n"


def test_a_child_is_not_held_up_by_a_thread_of_its_parent_in_a_call(any_device: dml.Device) -> None:
    program = """
device = dml.Device(index)
check(device)

def work():
    try:
        device.run(desc, {"InputTensor": values})
    except dml.DeviceRemovedError:
        print("refused", end=" ")

stop = threading.Event()
def at_work():
    while not stop.is_set():
        check(device)

thread = threading.Thread(target=at_work)
thread.start()
print(*(status_of_child(work) for _ in range(10)))
stop.set()
thread.join()
"""
    assert output_of(FORKING + program, any_device.info.index) == "refused " * 10 + "7 7 7 7 7 7 7 7 7 7\n"


def test_a_child_opens_a_device_of_its_own(any_device: dml.Device) -> None:
    """Large copies, which threads share, and grandchildren included."""
    program = """
def work():
    with dml.Device(index) as own:
        check(own)
        print("grandchild:", status_of_child(lambda: None))
        check(own)
    own = dml.Device(index)
    check(own)  # and left open

with dml.Device(index) as device:
    check(device)
print(status_of_child(work))

device = dml.Device(index)
check(device)
try:
    status = status_of_child(work)
except dml.UnsupportedError as error:  # in the child
    assert "share" in str(error) and "SwiftShader" in device.info.name
    sys.exit()
print(status if "SwiftShader" not in device.info.name else 7)
check(device)
"""
    printed = output_of(FORKING + program, any_device.info.index)
    assert printed.splitlines()[:2] == ["grandchild: 7", "7"]
    assert printed.splitlines()[-1] == "7"


def test_a_child_fuses_kernels_whatever_its_parents_threads_are_doing(
    any_device: dml.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may have the locks of the kernels' compiler when the process forks."""
    monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path))
    program = """
from dmlvk.kernels.library import glsl, glslang

def fused(device, number):
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, (4,))
    model = graph.compile(y=abs(x) * number + 1)
    y = device.run(model, {"x": np.float32([1, -2, 3, -4])})["y"]
    assert (y == np.float32([1, 2, 3, 4]) * number + 1).all()

def work():
    with dml.Device(index) as own:
        fused(own, 3)

with dml.Device(index) as device:
    fused(device, 2)
locks = [glsl._lock, glslang._pools_lock, *(pool._lock for pool in glslang._pools.values())]
for lock in locks:
    lock.acquire()
print(status_of_child(work))
for lock in locks:
    lock.release()
"""
    assert output_of(FORKING + program, any_device.info.index) == "7\n"


def test_pools_of_forked_processes_work(device: dml.Device) -> None:
    """As PyTorch's DataLoader starts its workers."""
    program = """
import multiprocessing

def work(number):
    with dml.Device(index) as own:
        check(own)
    return number

with dml.Device(index) as device:
    check(device)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(4)) if "SwiftShader" not in device.info.name else [0, 1, 2, 3])
    check(device)
"""
    assert output_of(FORKING + program, device.info.index) == "[0, 1, 2, 3]\n"


KEPT = """
import os, warnings, weakref
from dmlvk.objects import portable
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads

class Thing:  # stands for a device
    pass

thing = Thing()
seen = weakref.ref(thing)
portable._process.devices[dml.FeatureLevel.LEVEL_1_0] = thing
del thing
child = os.fork()
if not child:
    os._exit(0 if seen() is not None and not portable._process.devices else 1)
print(os.waitpid(child, 0)[1])
"""


def test_a_child_frees_nothing_that_its_parent_shares() -> None:
    """llvmpipe waits for ever when a device is freed without its threads: a child did not come to its first line."""
    assert output_of(KEPT) == "0\n"
