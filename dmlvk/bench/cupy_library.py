"""CuPy, on CUDA."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dmlvk.bench.libraries import module
from dmlvk.bench.numpy_library import computation
from dmlvk.bench.workload import Array, Workload


class CuPyLibrary:
    """CuPy."""

    name = "CuPy"

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.version = str(cupy.__version__)
        self.device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    @classmethod
    def open(cls, _: object) -> CuPyLibrary | str:
        """Where it is installed and finds a CUDA device."""
        cupy = module("cupy")
        if cupy is None:
            return "not installed"
        return cls(cupy) if cupy.cuda.is_available() else "finds no CUDA device"

    def prepare(self, workload: Workload) -> _PreparedCupy | None:
        """Any workload whose function NumPy has."""
        inputs = []
        for number, array in enumerate(workload.arrays):
            strides = tuple(stride * array.itemsize for stride in workload.geometry.strides[number])
            on_device = self._cupy.asarray(array)
            inputs.append(self._cupy.lib.stride_tricks.as_strided(on_device, workload.geometry.sizes, strides))
        try:
            compute = computation(self._cupy, workload, inputs)
            if compute is None:
                return None
            compute()
        except (TypeError, AttributeError):  # not for this data type
            return None
        return _PreparedCupy(self._cupy, compute)


class _PreparedCupy:
    def __init__(self, cupy: Any, compute: Callable[[], Any]) -> None:
        self._cupy, self._compute = cupy, compute

    def result(self) -> Array:
        made: Array = self._cupy.asnumpy(self._compute())
        return made

    def seconds(self, repeats: int) -> float:
        first, last = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        first.record()
        for _ in range(repeats):
            self._compute()
        last.record()
        last.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(first, last)) / 1e3 / repeats

    def wall_seconds(self) -> float:
        start = time.perf_counter()
        self._compute()
        self._cupy.cuda.Device().synchronize()
        return time.perf_counter() - start

    def close(self) -> None:
        """Gives the memory back to the device."""
        del self._compute
        self._cupy.get_default_memory_pool().free_all_blocks()
