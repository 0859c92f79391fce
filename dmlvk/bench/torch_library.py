"""PyTorch, on CUDA where it is there, else on the host."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from typing import Any

from dmlvk.bench.functions import FUNCTIONS, LibraryFunction, has_usual_attributes
from dmlvk.bench.libraries import module
from dmlvk.bench.torch_expressions import EXPRESSIONS
from dmlvk.bench.workload import Array, Workload

_LOGICAL = ("eq", "ge", "gt", "isinf", "isnan", "le", "lt", "logical_and", "logical_not", "logical_or", "logical_xor")
"""Whose output has booleans."""

_WITHOUT_OUT = ("isinf", "isnan")
"""Which make a new output each time, as those of ``nn.functional`` do."""


class TorchLibrary:
    """PyTorch in eager mode."""

    name = "PyTorch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.version = str(torch.__version__)
        self._cuda = bool(torch.cuda.is_available())
        self.device = torch.cuda.get_device_name() if self._cuda else f"{torch.get_num_threads()} cores of the host"

    @classmethod
    def open(cls, _: object) -> TorchLibrary | str:
        """Where it is installed."""
        torch = module("torch")
        return "not installed" if torch is None else cls(torch)

    def prepare(self, workload: Workload) -> _PreparedTorch | None:
        """Any workload whose function and data type PyTorch has."""
        name = workload.operator.operator_name
        function = FUNCTIONS.get(name, LibraryFunction())
        is_function = function.torch and (name not in EXPRESSIONS or has_usual_attributes(workload.desc))
        if not is_function and name not in EXPRESSIONS:
            return None
        try:
            return _PreparedTorch(self._torch, self._cuda, workload, function if is_function else None)
        except (RuntimeError, TypeError):  # not for this data type
            return None


class _PreparedTorch:
    """A function, or an expression for an operator that is none."""

    def __init__(self, torch: Any, cuda: bool, workload: Workload, function: LibraryFunction | None) -> None:
        self._torch, self._cuda = torch, cuda
        self._inputs = []
        for number, array in enumerate(workload.arrays):
            tensor = torch.from_numpy(array).to("cuda" if cuda else "cpu")
            tensor = tensor.as_strided(workload.geometry.sizes, workload.geometry.strides[number])
            self._inputs.append(tensor != 0 if number == 0 and function and function.torch == "where" else tensor)
        self._call = self._function_call(workload, function) if function else self._expression_call(workload)
        self._compute()
        self._wait()

    def _expression_call(self, workload: Workload) -> Callable[[], Any]:
        expression = EXPRESSIONS[workload.operator.operator_name]
        return lambda: expression(self._torch, workload.desc, *self._inputs)

    def _function_call(self, workload: Workload, function: LibraryFunction) -> Callable[[], Any]:
        torch, inputs, last = self._torch, self._inputs, self._inputs[-1]
        extra = [value if last.is_floating_point() else int(value) for value in function.arguments(workload.desc)]
        name = function.torch
        if name == "relu":  # which has no ``out``
            name, extra = "clamp_min", [0]
        call = operator.attrgetter(name)(torch)
        if name.startswith("nn.") or name in _WITHOUT_OUT:
            return lambda: call(*inputs, *extra)
        data_type = torch.bool if name in _LOGICAL else last.dtype
        output = torch.empty(workload.geometry.sizes, dtype=data_type, device=last.device)
        if name == "clone":
            return lambda: output.copy_(inputs[0])
        return lambda: call(*inputs, *extra, out=output)

    def _compute(self) -> None:
        self._output = self._call()

    def _wait(self) -> None:
        if self._cuda:
            self._torch.cuda.synchronize()

    def result(self) -> Array:
        self._compute()
        made: Array = self._output.cpu().numpy()
        return made

    def seconds(self, repeats: int) -> float:
        if not self._cuda:
            start = time.perf_counter()
            for _ in range(repeats):
                self._compute()
            return (time.perf_counter() - start) / repeats
        first, last = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(repeats):
            self._compute()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3 / repeats

    def wall_seconds(self) -> float:
        start = time.perf_counter()
        self._compute()
        self._wait()
        return time.perf_counter() - start

    def close(self) -> None:
        """Gives the memory back to the device."""
        del self._call, self._inputs, self._output
        if self._cuda:
            self._torch.cuda.empty_cache()
