"""Spreads work over processes, each with the devices open for itself.

Processes, not threads: a reference is dozens of short NumPy calls for each block of inputs, between which threads wait
for one another's turn with the interpreter (16 of them were twice as fast as one). And a driver that crashes takes a
worker with it, not the run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeAlias, TypeVar

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.errors import DeviceNotFoundError, DmlError
from dmlvk.support.arithmetic import Arithmetic

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):
    """The run was asked to end."""


class WorkerCrashError(DmlError):
    """A worker process came to a sudden end; most likely the driver crashed."""


class WorkerContext:
    """What a task finds open.

    Args:
        devices: the devices of the run, in order.
        stopped: whether the run was asked to end; long tasks ask now and then, and raise :class:`Stopped`.
    """

    def __init__(self, devices: Sequence[dml.Device], stopped: Callable[[], bool]) -> None:
        self.devices = devices
        self.stopped = stopped
        self.benches = [Workbench(device) for device in devices]  # a workbench for each device
        # what tasks keep for the next ones of the same kind, by name; closed when it is replaced
        self.kept: dict[str, Any] = {}

    def close(self) -> None:
        for resource in [*self.kept.values(), *self.benches]:
            resource.close()
        self.kept.clear()


class Workers:
    """Runs tasks: in this process when there is one job, else in as many others. A context manager.

    Args:
        devices: open in this process; the other processes open the same ones.
        jobs: how many tasks run at the same time.
    """

    def __init__(self, devices: Sequence[dml.Device], jobs: int) -> None:
        self._devices = devices
        self._jobs = jobs
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def in_flight(self) -> int:
        """Items that are taken from the others before their results are."""
        return 1 if self._jobs == 1 else _in_flight(self._jobs)

    def run(
        self, task: Callable[[WorkerContext, Item], Result], items: Iterable[Item], take: Callable[[Result], None]
    ) -> None:
        """Calls ``task(context, item)`` for each item.

        Args:
            task: a function of a module, which other processes find by its name.
            take: called in this thread with each result, in the order in which they come. After an error or an
                interrupt it still gets the results of the tasks that were under way and came to their end.

        Raises:
            WorkerCrashError: when a worker process has ended.
        """
        if self._jobs == 1:
            for item in items:
                take(task(self._context, item))
        else:
            self._pool.run(task, items, take)

    @functools.cached_property
    def _context(self) -> WorkerContext:
        keep_freed_memory()
        return self._resources.enter_context(contextlib.closing(WorkerContext(self._devices, lambda: False)))

    @functools.cached_property
    def _pool(self) -> _WorkerPool:
        return self._resources.enter_context(contextlib.closing(_WorkerPool(self._devices, self._jobs)))


def _in_flight(jobs: int) -> int:
    """For each process the item that it works on, and some that wait so that nobody idles."""
    return jobs + max(2, jobs // 2)


class _WorkerPool:
    def __init__(self, devices: Sequence[dml.Device], jobs: int) -> None:
        # Not forked: drivers and their threads do not survive that.
        multiprocess = multiprocessing.get_context("spawn")
        self._stop = multiprocess.Event()
        self._jobs = jobs
        identities = [_identity(device) for device in devices]
        self._executor = ProcessPoolExecutor(jobs, multiprocess, _begin_worker, (identities, self._stop))

    def run(
        self, task: Callable[[WorkerContext, Item], Result], items: Iterable[Item], take: Callable[[Result], None]
    ) -> None:
        remaining = iter(items)
        under_way: set[Future[Result]] = set()

        def start(count: int) -> None:
            under_way.update(self._executor.submit(_work, task, item) for item in itertools.islice(remaining, count))

        def finish(future: Future[Result]) -> None:
            under_way.discard(future)
            take(future.result())

        try:
            start(_in_flight(self._jobs))
            while under_way:
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    finish(future)
                    start(1)
        except BaseException as error:
            self._stop.set()
            for future in under_way:
                future.cancel()
            for future in wait(under_way).done:
                if not future.cancelled() and future.exception() is None:
                    finish(future)
            if isinstance(error, BrokenProcessPool):
                raise WorkerCrashError("a worker process has crashed; most likely the driver did") from error
            raise

    def close(self) -> None:
        self._stop.set()
        self._executor.shutdown(cancel_futures=True)


_Identity: TypeAlias = "tuple[int, str, str, Arithmetic]"


def _identity(device: dml.Device) -> _Identity:
    return device.info.index, device.info.name, device.info.driver_version, device.arithmetic


_make_context: Callable[[], WorkerContext] | None = None  # In a worker process, what opens its devices; once


def _begin_worker(identities: Sequence[_Identity], stop: Any) -> None:
    """Prepares a worker process. Devices are opened by its first task, whose errors reach the parent."""
    global _make_context
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the first one decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()
    _make_context = functools.cache(lambda: WorkerContext([_opened(identity) for identity in identities], stop.is_set))


def _opened(identity: _Identity) -> dml.Device:
    device = dml.Device(identity[0], arithmetic=identity[-1])
    if _identity(device) != identity:
        raise DeviceNotFoundError(f"device {identity[0]} is {device.info.name} now; it was {identity[1]}")
    return device


def _end_with_parent() -> None:
    """A parent that was killed takes its workers with it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(task: Callable[[WorkerContext, Item], Result], item: Item) -> Result:
    if _make_context is None:
        raise RuntimeError("this is no worker process")
    return task(_make_context(), item)


def keep_freed_memory() -> None:
    """Tells the C library to keep the memory of freed arrays for the next ones.

    glibc hands arrays of more than 128 KiB back to the system as soon as they are freed, which then clears new pages
    for the next ones: two thirds of the time that a reference takes. Other C libraries have no such switch.
    """
    if sys.platform == "win32":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3
        mallopt(trim_threshold, 2**30)
        mallopt(mmap_threshold, 2**30)
