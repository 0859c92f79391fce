"""NumPy, on one core of the host."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.bench.expressions import OF_NUMPY
from dmlvk.bench.functions import FUNCTIONS
from dmlvk.bench.task import Array, Task


def _computation(task: Task, inputs: Sequence[Array]) -> Callable[[], Any] | None:
    """What computes a task into the same output each time where NumPy can do that; ``None``: NumPy cannot."""
    name = task.operator_name
    expression = OF_NUMPY.get(name)
    if expression is not None:
        # Where inputs are no packed tensors, neither is what is made of them; but the output of the operator is.
        return lambda: np.ascontiguousarray(expression(np, task.desc, *inputs))
    function = FUNCTIONS.get(name)
    if function is None or not function.numpy:
        return None
    call = getattr(np, function.numpy)
    arguments = [*inputs, *(inputs[0].dtype.type(value) for value in function.arguments(task.desc))]
    output = np.empty(inputs[0].shape, call(*(argument.flat[:1] for argument in arguments)).dtype)
    return functools.partial(call, *arguments, out=output)


class NumPyLibrary:
    name = "NumPy"
    version = np.__version__
    device = "one core of the host"
    on_gpu = False

    @classmethod
    def open(cls, _: object) -> NumPyLibrary | str:
        return cls()

    def prepare(self, task: Task, inputs: Mapping[str, Array]) -> _PreparedNumpy | None:
        """Any element-wise operator whose function NumPy has, for the data type."""
        try:
            compute = _computation(task, list(inputs.values()))
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
        del self._compute
