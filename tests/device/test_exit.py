"""Processes end quietly and well, whatever is still open (rule 104)."""

from __future__ import annotations

import pytest

import dmlvk as dml
from tests.device.processes import output_of, run_program
from tests.effort import some

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


@pytest.mark.parametrize("ending", some(ENDINGS, 3))
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
