"""PyTorch, on CUDA where it is there, else on the host."""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlvk.bench.cuda_graphs import captured
from dmlvk.bench.expressions import OF_TORCH
from dmlvk.bench.functions import FUNCTIONS, LibraryFunction, has_usual_attributes
from dmlvk.bench.libraries import module
from dmlvk.bench.task import Array, Task, in_memory
from dmlvk.tensors import TensorDesc

_LOGICAL = ("eq", "ge", "gt", "isinf", "isnan", "le", "lt", "logical_and", "logical_not", "logical_or", "logical_xor")
"""Whose output has booleans."""

_WITHOUT_OUT = ("isinf", "isnan")  # Which make a new output each time, as those of ``nn.functional`` do


class TorchLibrary:
    """PyTorch in eager mode; on CUDA many calls are one submission (a CUDA graph), as dmlvk's are."""

    name = "PyTorch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.version = str(torch.__version__)
        self.on_gpu = bool(torch.cuda.is_available())
        self.device = torch.cuda.get_device_name() if self.on_gpu else f"{torch.get_num_threads()} cores of the host"

    @classmethod
    def open(cls, _: object) -> TorchLibrary | str:
        torch = module("torch")
        return "not installed" if torch is None else cls(torch)

    def prepare(self, task: Task, inputs: Mapping[str, Array]) -> _PreparedTorch | None:
        try:
            return _PreparedTorch(self._torch, self.on_gpu, task, inputs)
        except (RuntimeError, TypeError, ValueError):  # not for this operator, or this data type
            return None


class _PreparedTorch:
    """What a task says, a function, or an expression for an operator that is none.

    Raises:
        ValueError: when PyTorch has no such function.
    """

    def __init__(self, torch: Any, cuda: bool, task: Task, inputs: Mapping[str, Array]) -> None:
        self._torch, self._cuda = torch, cuda
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        name = task.operator_name
        function = FUNCTIONS.get(name, LibraryFunction())
        is_function = function.torch and (name not in OF_TORCH or has_usual_attributes(task.desc))
        if task.in_torch is None and not (task.layout and (is_function or name in OF_TORCH)):
            raise ValueError(f"PyTorch has no {name}")
        self._inputs = [self._tensor(task, tensor, inputs[field.name]) for field, tensor in task.reads()]
        if (in_torch := task.in_torch) is not None:
            self._call: Callable[[], Any] = lambda: in_torch(torch, self._inputs)
        elif is_function:
            self._call = self._function_call(task, function)
        else:
            self._call = functools.partial(OF_TORCH[name], torch, task.desc, *self._inputs)
        self._submissions: dict[int, Callable[[], object]] = {}
        self._compute()
        self._wait()

    def _tensor(self, task: Task, tensor: TensorDesc, array: Array) -> Any:
        if array.dtype == np.uint32 and not task.layout:  # which are no indices to it
            array = array.astype(np.int64)
        steps = [step // array.itemsize for step in array.strides]
        contents = self._torch.from_numpy(in_memory(tensor, array)).to("cuda" if self._cuda else "cpu")
        return contents.as_strided(array.shape, steps)

    def _function_call(self, task: Task, function: LibraryFunction) -> Callable[[], Any]:
        torch, inputs, last = self._torch, self._inputs, self._inputs[-1]
        extra = [value if last.is_floating_point() else int(value) for value in function.arguments(task.desc)]
        name = function.torch
        if name == "relu":  # which has no ``out``
            name, extra = "clamp_min", [0]
        if name == "where":
            inputs[0] = inputs[0] != 0
        call: Any = operator.attrgetter(name)(torch)
        if name.startswith("nn.") or name in _WITHOUT_OUT:
            return lambda: call(*inputs, *extra)
        data_type = torch.bool if name in _LOGICAL else last.dtype
        output = torch.empty(last.shape, dtype=data_type, device=last.device)
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
        if repeats not in self._submissions:
            self._submissions = {repeats: self._submission(repeats)}
        first, last = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        self._submissions[repeats]()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3 / repeats

    def _submission(self, repeats: int) -> Callable[[], object]:
        """So many calls as one submission; one by one what cannot be captured."""

        def one_by_one() -> None:
            for _ in range(repeats):
                self._compute()

        try:
            return captured(self._torch, self._call, repeats)
        except RuntimeError:
            self._wait()
            return one_by_one

    def wall_seconds(self) -> float:
        start = time.perf_counter()
        self._compute()
        self._wait()
        return time.perf_counter() - start

    def close(self) -> None:
        del self._call, self._inputs, self._output, self._submissions
        if self._cuda:
            self._torch.cuda.empty_cache()
