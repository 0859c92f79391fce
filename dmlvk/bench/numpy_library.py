"""NumPy, on one core of the host."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlvk.bench.functions import FUNCTIONS
from dmlvk.bench.numpy_expressions import EXPRESSIONS
from dmlvk.bench.workload import Array, Workload


def _computation(workload: Workload) -> Callable[[], Any] | None:
    """What computes a workload into the same output each time where NumPy can do that; ``None``: NumPy cannot."""
    name, inputs = workload.operator.operator_name, workload.views
    expression = EXPRESSIONS.get(name)
    if expression is not None:
        # Where inputs are no packed tensors, neither is what is made of them; but the output of the operator is.
        return lambda: np.ascontiguousarray(expression(workload.desc, *inputs))
    function = FUNCTIONS.get(name)
    if function is None or not function.numpy:
        return None
    call = getattr(np, function.numpy)
    arguments = [*inputs, *(inputs[0].dtype.type(value) for value in function.arguments(workload.desc))]
    output = np.empty(workload.geometry.sizes, call(*(argument.flat[:1] for argument in arguments)).dtype)
    return functools.partial(call, *arguments, out=output)


class NumPyLibrary:
    """NumPy."""

    name = "NumPy"
    version = np.__version__
    device = "one core of the host"

    @classmethod
    def open(cls, _: object) -> NumPyLibrary | str:
        """It is always there."""
        return cls()

    def prepare(self, workload: Workload) -> _PreparedNumpy | None:
        """Any workload whose function NumPy has, for the data type."""
        try:
            compute = _computation(workload)
            if compute is None:
                return None
            compute()
        except (TypeError, AttributeError):  # not for this data type, or not in this version
            return None
        return _PreparedNumpy(compute)


class _PreparedNumpy:
    def __init__(self, compute: Callable[[], Array]) -> None:
        self._compute = compute

    def result(self) -> Array:
        return np.array(self._compute())

    def seconds(self, repeats: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            self._compute()
        return (time.perf_counter() - start) / repeats

    def wall_seconds(self) -> float:
        return self.seconds(1)

    def close(self) -> None:
        """Gives the output back."""
        del self._compute
