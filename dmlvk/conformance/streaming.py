"""Results of an operator for all inputs, chunk after chunk, on their way from a device to the processes that compare.

One process alone works with the device: a GPU that many processes share gives each a slice of time, and idles in most
of them. A few of its threads write inputs, run the operator and copy the results into files that are mapped into
memory, where the other processes read them.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.workers import keep_freed_memory
from dmlvk.operators import OperatorDesc
from dmlvk.support.processes import is_running

Array = npt.NDArray[Any]

_PREFIX = "dmlvk-results-"

_BENCHES = 3  # Threads that keep the device busy: most of a unit's time goes into copying


class Slots:
    """Files in memory for the results of chunks, used again and again.

    Args:
        most: how many there will be at most.
    """

    def __init__(self, size_in_bytes: int, most: int) -> None:
        self._size = size_in_bytes
        base = _roomy_directory(size_in_bytes * most)
        _remove_leftovers(Path(base))
        self._directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
        self._free: list[Path] = []
        self._made = 0
        self._lock = threading.Lock()

    def take(self) -> Path:
        """A slot that nobody uses.

        Raises:
            OSError: when there is no room for it.
        """
        with self._lock:
            if self._free:
                return self._free.pop()
            path = self._directory / f"{self._made}"
            self._made += 1
            with path.open("wb") as file:
                # Room is made now: where it turns out later that there is none, writing to mapped memory kills.
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, self._size)
                else:
                    file.write(bytes(self._size))
            return path

    def give_back(self, slot: Path) -> None:
        with self._lock:
            self._free.append(slot)

    def close(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)  # on Windows one that is still mapped stays behind


def _roomy_directory(size_in_bytes: int) -> str:
    """A directory in main memory if it has room enough (containers often have little), else the one for all."""
    memory = "/dev/shm"
    with contextlib.suppress(OSError, AttributeError):
        room = os.statvfs(memory)
        if os.access(memory, os.W_OK) and room.f_bavail * room.f_frsize > 1.5 * size_in_bytes:
            return memory
    return tempfile.gettempdir()


def _remove_leftovers(base: Path) -> None:
    """Deletes what killed runs have left behind: of processes that are no more, and not touched for an hour."""
    for path in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            process = int(path.name.removeprefix(_PREFIX).split("-")[0])
            newest = max(file.stat().st_mtime for file in (path, *path.iterdir()))
            if time.time() - newest > 3600 and not is_running(process):
                shutil.rmtree(path, ignore_errors=True)


def results_in(slot: Path, data_type: dml.DataType, count: int, *, writable: bool = False) -> Array:
    return np.memmap(slot, data_type.numpy_dtype, "r+" if writable else "r", shape=(count,))


class Bench:
    """Buffers for a unit of inputs and results on a device, with everything recorded.

    Args:
        desc: an operator with one FLOAT32 input, for tensors of a unit's size.
    """

    def __init__(self, device: dml.Device, desc: OperatorDesc) -> None:
        compiled = device.compile_operator(device.create_operator(desc))
        self._count = next(tensor.sizes[0] for _, tensor in desc.inputs if tensor is not None)
        self._result_type = desc.output_type.numpy_dtype
        self._input = device.create_buffer(4 * self._count)
        self._output = device.create_buffer(self._count * desc.output_type.size_in_bytes)
        table = device.create_binding_table(compiled)
        table.bind_inputs([dml.BufferBinding(self._input)])
        table.bind_outputs([dml.BufferBinding(self._output)])
        self._recorder = device.create_command_recorder()
        self._recorder.record_dispatch(compiled, table)
        self._numbers = np.arange(self._count, dtype=np.uint32)
        self._patterns = np.empty(self._count, np.uint32)

    def run(self, first: int, results: Array) -> None:
        """Fills in the device's results for the patterns from ``first`` on: units as long as the array is."""
        for start in range(0, results.size, self._count):
            np.add(self._numbers, np.uint32(first + start), out=self._patterns)
            self._input.upload(self._patterns)
            self._recorder.execute()
            results[start : start + self._count] = self._output.download(self._result_type)

    def close(self) -> None:
        self._input.close()
        self._output.close()


def computed(
    make_bench: Callable[[], Bench], data_type: dml.DataType, slots: Slots, numbers: Sequence[int], chunk: int
) -> Generator[tuple[int, Path], None, None]:
    """Has the device compute one chunk after the other, a few ahead of who asks for them.

    Args:
        make_bench: called once for each thread.
        numbers: which chunks; the inputs of chunk n are the patterns from n * chunk on.

    Yields:
        The number of each chunk, in order, and the slot that holds its results.
    """
    keep_freed_memory()
    with contextlib.ExitStack() as stack:
        benches: queue.SimpleQueue[Bench] = queue.SimpleQueue()
        for _ in range(_BENCHES):
            benches.put(stack.enter_context(contextlib.closing(make_bench())))
        pool = stack.enter_context(ThreadPoolExecutor(_BENCHES))

        def compute(number: int) -> tuple[int, Path]:
            slot, bench = slots.take(), benches.get()
            try:
                bench.run(number * chunk, results_in(slot, data_type, chunk, writable=True))
            finally:
                benches.put(bench)
            return number, slot

        ahead: collections.deque[Future[tuple[int, Path]]] = collections.deque()
        for number in numbers:
            ahead.append(pool.submit(compute, number))
            if len(ahead) > _BENCHES:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def slots_needed(waiting: int) -> int:
    """Slots that are in use at most, when so many chunks wait for being compared or are being so."""
    return waiting + _BENCHES + 1
