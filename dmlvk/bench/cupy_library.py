"""CuPy, on CUDA."""

from __future__ import annotations

import time
from typing import Any

from dmlvk.bench.functions import FUNCTIONS, Function
from dmlvk.bench.libraries import module
from dmlvk.bench.numpy_library import call_out
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

    def prepare(self, workload: Workload) -> _Prepared | None:
        """Any workload whose function NumPy has."""
        function = FUNCTIONS.get(workload.operator.operator_name)
        if not function or not function.numpy or function.numpy == "where":  # CuPy's where has no output to write to
            return None
        try:
            return _Prepared(self._cupy, workload, function)
        except (TypeError, AttributeError):  # not for this data type
            return None


class _Prepared:
    def __init__(self, cupy: Any, workload: Workload, function: Function) -> None:
        self._cupy, self._name = cupy, function.numpy
        self._arguments = []
        for number, array in enumerate(workload.arrays):
            strides = tuple(stride * array.itemsize for stride in workload.geometry.strides[number])
            on_device = cupy.asarray(array)
            self._arguments.append(cupy.lib.stride_tricks.as_strided(on_device, workload.geometry.sizes, strides))
        dtype = bool if self._name == "greater" else workload.output_dtype
        self._output = cupy.empty(workload.geometry.sizes, dtype)
        self._arguments += [self._arguments[0].dtype.type(value) for value in function.arguments(workload.desc)]
        self._compute()

    def _compute(self) -> None:
        call_out(self._cupy, self._name, self._arguments, self._output)

    def result(self) -> Array:
        self._compute()
        made: Array = self._cupy.asnumpy(self._output)
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
        del self._arguments, self._output
        self._cupy.get_default_memory_pool().free_all_blocks()
