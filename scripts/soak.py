#!/usr/bin/env python3
"""Uses a device for minutes as unkind programs do, and reports what grows, hangs or crashes.

    python scripts/soak.py --minutes 5 [--device N|NAME] [--seed N]

In turn, in an order that follows from the seed: operators of ever new shapes, graphs, arrays that stay on the device,
several threads on one device, sessions of ONNX models that threads share, a second device that is opened and closed in
the middle of things, forks, signals during runs, and calls that must be refused. Every result is compared with NumPy's.
Memory is noted after five minutes, or half of a shorter run, when the bounded caches (a few hundred compiled operators
and pipelines for each open device) should be full.

Two sizes are told: what is in use, which must not grow by more than 10 MiB, and what is resident, of which the C
library's free pieces are a part: each thread has some, between pieces in use, as drivers' compilers leave them.

Exit status: 0 nothing found, 1 something was, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import functools
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import numpy.typing as npt

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk import functions as F
from tests.onnx.models import two_branches

_HANG_SECONDS = 120
_WARM_MINUTES = 5.0
_MOST_GROWTH_MIB = 10.0
"""Of what is in use, from the first third of the time in which it is noted to the last third."""
_RESIDENT_MIB_PER_MINUTE = 8.0
_MIB_OF_BLOCK = 96 / 2**20
"""Of Python's small objects, on average."""
_THREADS = 4

Floats = npt.NDArray[np.float32]


class Fault(Exception):
    """A result that is not right, or an error that did not come."""


def resident_mib(*, trimmed: bool = False) -> float:
    """Memory of this process that is in use, in MiB (Linux).

    Args:
        trimmed: whether the C library gives back first what is free between pieces that are in use. The drivers'
            compilers leave much of that, in an order that differs from run to run: it hides what grows.
    """
    if trimmed:
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class _Pieces(ctypes.Structure):
    """``struct mallinfo2`` of the GNU C library."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def used_mib() -> float:
    """What the program and its libraries have asked for and not given back, in MiB; 0 with another C library."""
    try:
        count = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0.0
    count.restype = _Pieces
    pieces = count()
    return float((pieces.uordblks + pieces.hblkhd) / 2**20 + sys.getallocatedblocks() * _MIB_OF_BLOCK)


def _growth(values: Sequence[float]) -> float:
    """From the mean of the first third to that of the last."""
    third = max(len(values) // 3, 1)
    return float(np.mean(values[-third:]) - np.mean(values[:third]))


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the line that fits best."""
    x, y = np.array(points).T
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


def _sizes(choice: random.Random) -> tuple[int, ...]:
    return tuple(choice.randrange(1, 24) for _ in range(choice.randrange(1, 5)))


def _array(choice: random.Random, sizes: Sequence[int]) -> Floats:
    return np.random.default_rng(choice.randrange(2**32)).standard_normal(sizes).astype(np.float32)


def _same(got: object, expected: Floats, what: str) -> None:
    if not np.array_equal(np.asarray(got), expected):
        raise Fault(f"{what}: wrong result of shape {expected.shape}")


def one_operator(device: dml.Device, choice: random.Random) -> None:
    """An operator of a shape that was most likely never seen."""
    x = _array(choice, _sizes(choice))
    tensor = dml.TensorDesc(dml.FLOAT32, x.shape)
    operator = dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    _same(device.run(operator, {"ATensor": x, "BTensor": x})["OutputTensor"], x + x, "ADD")


def one_graph(device: dml.Device, choice: random.Random) -> None:
    """A graph, some of whose operators are not fused."""
    x = _array(choice, _sizes(choice))
    graph = dml.Graph(device)
    given = graph.input("x", dml.FLOAT32, x.shape)
    model = graph.compile(y=F.max(abs(given) - 1, given), fuse=choice.random() < 0.05)
    _same(device.run(model, {"x": x})["y"], np.maximum(np.abs(x) - 1, x), "graph")


def resident(device: dml.Device, choice: random.Random) -> None:
    """Arrays that stay on the device, and views of them."""
    x = _array(choice, (choice.randrange(2, 50), choice.randrange(2, 50)))
    tensor = dml.TensorDesc(dml.FLOAT32, x.shape)
    negate = dml.ElementWiseNegate(input_tensor=tensor, output_tensor=tensor)
    kept = device.run(negate, {"InputTensor": device.array(x)}, keep=True)["OutputTensor"]
    _same(kept.T[1:], (-x).T[1:], "Array")


def threads(device: dml.Device, choice: random.Random) -> None:
    """Several threads on one device."""
    faults: list[BaseException] = []

    def work(seed: int) -> None:
        own = random.Random(seed)
        try:
            for _ in range(5):
                own.choice((one_operator, one_graph, resident))(device, own)
        except Exception as error:  # noqa: BLE001  # whatever it is, the main thread reports it
            faults.append(error)

    _side_by_side(work, choice)
    if faults:
        raise faults[0]


def _side_by_side(work: Callable[[int], None], choice: random.Random) -> None:
    """Threads that have a seed each."""
    workers = [threading.Thread(target=work, args=(choice.randrange(2**32),)) for _ in range(_THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def sessions(device: dml.Device, choice: random.Random) -> None:
    """A session of an ONNX model, on this device, the process's or its own; threads run it with ever new sizes."""
    options = ort.SessionOptions()
    options.shares_device = choice.random() < 0.9
    session = ort.InferenceSession(two_branches(), options, device=choice.choice((device, None)))
    faults: list[BaseException] = []

    def work(seed: int) -> None:
        own = random.Random(seed)
        try:
            for _ in range(3):
                x = _array(own, (own.randrange(1, 5000), 3))
                bent, _ = session.run(None, {"x": x})
                _same(bent, np.maximum(x + np.array([1, -2, 3], np.float32), 0).reshape(3, -1), "a session")
        except Exception as error:  # noqa: BLE001  # whatever it is, the main thread reports it
            faults.append(error)

    _side_by_side(work, choice)
    if choice.random() < 0.5:
        session.close()
    if faults:
        raise faults[0]


def another_device(device: dml.Device, choice: random.Random) -> None:
    """A device of its own, closed while its arrays are alive; using them afterwards must be refused."""
    other = dml.Device(device.info.index)
    one_operator(other, choice)
    kept = other.array(_array(choice, (8,)))
    other.close()
    try:
        kept.numpy()
    except dml.DmlError:
        return
    raise Fault("an Array of a closed device could be read")


def fork(device: dml.Device, choice: random.Random) -> None:
    """A child process that opens a device of its own, or is refused; it must end, and not by a signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(_HANG_SECONDS // 2)
            with dml.Device(device.info.index) as own:
                one_operator(own, choice)
            status = 0
        except dml.DmlError:
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise Fault(f"a forked process ended with status {status:#x}")


class _CutShort(BaseException):
    """Like KeyboardInterrupt no Exception: ``np.array_equal`` takes those for unequal arrays."""


def _unraisable(hook: Callable[[sys.UnraisableHookArgs], object], args: sys.UnraisableHookArgs) -> None:
    """Python's hook, but for interrupts that came while a finalizer ran, where Python has nobody to raise them to."""
    if args.exc_type is not _CutShort:
        hook(args)


def interrupted(device: dml.Device, choice: random.Random) -> None:
    """A signal whose handler raises, at any place of a run; the device must be usable afterwards."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _CutShort

    before = signal.signal(signal.SIGALRM, stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, choice.uniform(1e-4, 2e-2))
            for _ in range(20):
                one_operator(device, choice)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)  # the signal may still come until here
    except _CutShort:
        pass
    finally:
        signal.signal(signal.SIGALRM, before)
    one_operator(device, choice)


def refused(device: dml.Device, choice: random.Random) -> None:
    """What breaks a rule."""
    x = _array(choice, _sizes(choice))
    tensor, other = dml.TensorDesc(dml.FLOAT32, x.shape), dml.TensorDesc(dml.FLOAT32, (*x.shape, 2))
    try:
        device.run(dml.ElementWiseAbs(input_tensor=tensor, output_tensor=other), {"InputTensor": x})
    except dml.DmlError:
        return
    raise Fault("outputs of another shape were not refused")


Action = Callable[[dml.Device, random.Random], None]

ACTIONS: tuple[tuple[Action, int], ...] = (
    (one_operator, 40),
    (one_graph, 20),
    (resident, 20),
    (refused, 10),
    (threads, 4),
    (sessions, 4),
    (interrupted, 4),
    (another_device, 1),
    (fork, 1),
)


def warm_up(device: dml.Device) -> None:
    """A large tensor: what is known of kernels is read, once, when the first one is there."""
    t = dml.TensorDesc(dml.FLOAT32, (2**20,))
    x = np.ones(t.sizes, np.float32)
    _same(
        device.run(dml.ElementWiseExp(input_tensor=t, output_tensor=t), {"InputTensor": 0 * x})["OutputTensor"],
        x,
        "EXP",
    )


def soak(device: dml.Device, minutes: float, choice: random.Random, say: Callable[[str], None] = print) -> list[str]:
    """Runs for as long as told; returns what was found."""
    actions, weights = zip(*ACTIONS, strict=True)
    began = said = time.monotonic()
    end, warm = began + 60 * minutes, began + 60 * min(minutes / 2, _WARM_MINUTES)
    counts = {action.__name__: 0 for action in actions}
    memory: list[tuple[float, float, float]] = []  # when, resident, in use
    found: list[str] = []
    while (now := time.monotonic()) < end and len(found) < 10:
        action = choice.choices(actions, weights)[0]
        faulthandler.dump_traceback_later(_HANG_SECONDS, exit=True)  # a hang ends with everybody's stack
        try:
            action(device, choice)
        except (Fault, dml.DmlError, OSError, RuntimeError) as error:
            found.append(f"{action.__name__}: {type(error).__name__}: {error}")
            say(found[-1])
        finally:
            faulthandler.cancel_dump_traceback_later()
        counts[action.__name__] += 1
        if now - said >= min(10.0, 6 * minutes):
            said = now
            gc.collect()
            resident, used = resident_mib(trimmed=True), used_mib()
            memory += [(now, resident, used)] if now >= warm else []
            done = f"{now - began:.0f} s: {sum(counts.values()):,} actions"
            say(f"{done}, {used:.1f} MiB in use, {resident:.0f} MiB resident")
    say(", ".join(f"{name} {count:,}" for name, count in counts.items()))
    return found + _judged(memory, say)


def _judged(memory: Sequence[tuple[float, float, float]], say: Callable[[str], None]) -> list[str]:
    """What is wrong with the memory of a run: moments in seconds, MiB resident, MiB in use."""
    if len(memory) < 3:
        return []
    growth = _growth([used for _, _, used in memory])
    slope = 60 * _slope([(now, resident) for now, resident, _ in memory])
    say(f"memory: in use {growth:+.1f} MiB, resident {slope:+.2f} MiB a minute")
    faults = [f"memory in use grows by {growth:.1f} MiB"] if growth > _MOST_GROWTH_MIB else []
    return faults + ([f"memory grows by {slope:.1f} MiB a minute"] if slope > _RESIDENT_MIB_PER_MINUTE else [])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--device", help="index, UUID, PCI address or part of the name")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    text = options.device
    sys.unraisablehook = functools.partial(_unraisable, sys.unraisablehook)
    with dml.Device(int(text) if text is not None and text.isdigit() else text) as device:
        warm_up(device)
        found = soak(device, options.minutes, random.Random(options.seed))
    print(f"{len(found)} faults found" if found else "nothing found")
    for line in found:
        print(f"  {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
