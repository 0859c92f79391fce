"""NumPy, on one core of the host."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dmlvk.bench.functions import FUNCTIONS, Function
from dmlvk.bench.workload import Array, Workload


def call_out(module: Any, name: str, arguments: list[Any], out: Any) -> None:
    """Calls NumPy's or CuPy's function with an output to write to."""
    if name == "where":  # which has no ``out``
        out[...] = module.where(*arguments)
    else:
        getattr(module, name)(*arguments, out=out)


class NumPyLibrary:
    """NumPy."""

    name = "NumPy"
    version = np.__version__
    device = "one core of the host"

    @classmethod
    def open(cls, _: object) -> NumPyLibrary | str:
        """It is always there."""
        return cls()

    def prepare(self, workload: Workload) -> _Prepared | None:
        """Any workload whose function NumPy has."""
        function = FUNCTIONS.get(workload.operator.operator_name)
        return _Prepared(workload, function) if function and function.numpy else None


class _Prepared:
    def __init__(self, workload: Workload, function: Function) -> None:
        self._name = function.numpy
        inputs: list[Any] = workload.views
        if self._name == "where":
            inputs[0] = inputs[0] != 0
        self._arguments = [*inputs, *(inputs[0].dtype.type(value) for value in function.arguments(workload.desc))]
        dtype = np.dtype(bool) if self._name == "greater" else workload.output_dtype
        self._output = np.empty(workload.geometry.sizes, dtype)

    def result(self) -> Array:
        self.seconds(1)
        return self._output.copy()

    def seconds(self, repeats: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            call_out(np, self._name, self._arguments, self._output)
        return (time.perf_counter() - start) / repeats

    def wall_seconds(self) -> float:
        return self.seconds(1)

    def close(self) -> None:
        """Nothing to free."""
