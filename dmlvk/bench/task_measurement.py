"""Times tasks: dmlvk's own, and PyTorch's in the same run."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dmlvk as dml
from dmlvk.arrays.tensor_bytes import elements_of, has_views, lay_out
from dmlvk.bench.libraries import module
from dmlvk.bench.task import Array, Task

_WARM_UP_SECONDS = 0.5
_SETTLING_SECONDS = 0.06
"""So long each works again before its turn counts, where arithmetic limits it: at the limit of its power a device's
clock is what the work of the last milliseconds has left it, and that was the other one's. So an NVIDIA H100 (700 W)
gives cuBLAS's FLOAT16 products 728 TFLOP/s in turns of 3 ms beside what takes less power, and 640 by themselves."""

_ROUNDS = 7
_SAMPLE_SECONDS = 0.003
_MOST_REPEATS = 64
_TOLERANCES = {16: 2e-2, 32: 2e-4}
"""By the bits of a float type: how far PyTorch's results may be off, as a part of the largest."""


@dataclasses.dataclass(frozen=True)
class TaskResult:
    """What a task took.

    Attributes:
        name: the task's.
        data_type: its name.
        unit: of the speeds.
        speed: of dmlvk.
        torch_speed: of PyTorch; ``None`` where it has no such function, or is not there.
        remark: why there is no speed of PyTorch's, or an empty string.
        series: the task's.
        extent: the task's.
    """

    name: str
    data_type: str
    unit: str
    speed: float
    torch_speed: float | None
    remark: str = ""
    series: str = ""
    extent: int = 0


def _compiled(device: dml.Device, task: Task) -> dml.CompiledOperator:
    """The task's operator, or the graph of it and of what makes its weights."""
    product = device.create_operator(task.desc)
    if task.weights is None:
        return device.compile_operator(product)
    nodes = [dml.OperatorGraphNode(device.create_operator(task.weights)), dml.OperatorGraphNode(product)]
    count = sum(tensor is not None for _, tensor in task.weights.inputs)
    indices = [number for number, (_, tensor) in enumerate(task.weights.inputs) if tensor is not None]
    inputs = [dml.InputGraphEdge(0, 1, 0)]
    inputs += [dml.InputGraphEdge(1 + number, 0, index) for number, index in enumerate(indices)]
    between = [dml.IntermediateGraphEdge(0, 0, 1, 1)]
    return device.compile_graph(dml.GraphDesc(1 + count, 1, nodes, inputs, [dml.OutputGraphEdge(1, 0, 0)], between))


class _Own:
    """A task on a device, bound and recorded."""

    def __init__(self, device: dml.Device, task: Task, inputs: dict[str, Array]) -> None:
        self._device = device
        self._compiled = _compiled(device, task)
        read = [tensor for _, tensor in task.reads()]
        written = [tensor for _, tensor in task.desc.outputs if tensor is not None]
        self._buffers = [device.create_buffer(tensor.size_in_bytes) for tensor in (*read, *written)]
        for buffer, tensor, array in zip(self._buffers, read, inputs.values(), strict=False):
            if has_views(tensor):
                first = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.element_strides)
                buffer.upload(np.ascontiguousarray(array[first]))
            else:
                contents = np.zeros(tensor.size_in_bytes, np.uint8)
                lay_out(array, tensor, contents, task.name)
                buffer.upload(contents)
        bindings = iter(dml.BufferBinding(buffer, 0, buffer.size_in_bytes) for buffer in self._buffers)
        table = device.create_binding_table(self._compiled)
        inputs_of = task.desc.inputs if task.weights is None else task.reads()
        table.bind_inputs([None if tensor is None else next(bindings) for _, tensor in inputs_of])
        table.bind_outputs([None if tensor is None else next(bindings) for _, tensor in task.desc.outputs])
        scratch = self._compiled.binding_properties.temporary_resource_size
        if scratch:
            self._buffers.append(device.create_buffer(scratch))
            table.bind_temporary_resource(dml.BufferBinding(self._buffers[-1], 0, scratch))
        self._recorder = device.create_command_recorder()
        self._recorder.record_dispatch(self._compiled, table)
        self._first_output = len(read)
        self._tensor = written[0]
        steps = self._recorder.dispatches[0].steps
        self._launches = [step.launch(device.engine) for step in steps]

    def result(self) -> Array:
        """The first output."""
        self._recorder.execute()
        return elements_of(self._buffers[self._first_output].download(), self._tensor)

    def timer(self, repeats: int) -> Callable[[], float]:
        """Takes the time of one of so many runs back to back."""
        engine = self._device.engine
        # One run after the other: the steps of the next wait for those of the one before.
        first = dataclasses.replace(self._launches[0], depends=True)
        launches = [*self._launches, *[first, *self._launches[1:]] * (repeats - 1)]
        has_clock = self._device.info.kind != "CPU"
        recording = engine.record(launches, timestamps=has_clock)

        def seconds() -> float:
            start = time.perf_counter()
            engine.run(recording)
            wall = time.perf_counter() - start
            if not has_clock:
                return wall / repeats
            spans = recording.dispatch_spans()
            return (spans[-1][0] + spans[-1][1] - spans[0][0]) / repeats

        return seconds

    def close(self) -> None:
        """Frees the buffers."""
        self._recorder.reset()
        for buffer in self._buffers:
            buffer.close()


def _in_torch(task: Task, inputs: dict[str, Array]) -> tuple[Callable[[int], Callable[[], float]], Array] | str:
    """What times PyTorch, and its result; or why it cannot be timed."""
    torch = module("torch")
    if torch is None or task.in_torch is None:
        return "PyTorch is not installed" if torch is None else "PyTorch has no such function"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    cuda = bool(torch.cuda.is_available())
    try:
        # Unsigned indices of 32 bits are no indices to it.
        tensors = [
            torch.from_numpy(np.ascontiguousarray(a).astype(np.int64 if a.dtype == np.uint32 else a.dtype))
            for a in inputs.values()
        ]
        tensors = [tensor.to("cuda" if cuda else "cpu") for tensor in tensors]
        result: Array = task.in_torch(torch, tensors).cpu().numpy()
    except (RuntimeError, TypeError, ValueError) as error:
        return f"PyTorch: {str(error).splitlines()[0][:60]}"
    call = task.in_torch

    def timer(repeats: int) -> Callable[[], float]:
        if not cuda:

            def on_host() -> float:
                start = time.perf_counter()
                for _ in range(repeats):
                    call(torch, tensors)
                return (time.perf_counter() - start) / repeats

            return on_host
        submit = _submission(torch, lambda: call(torch, tensors), repeats)

        def seconds() -> float:
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            submit()
            last.record()
            last.synchronize()
            return float(first.elapsed_time(last)) / 1e3 / repeats

        return seconds

    return timer, result


def _submission(torch: Any, call: Callable[[], object], repeats: int) -> Callable[[], object]:
    """So many calls as one submission, a CUDA graph, as dmlvk's runs are; one by one what cannot be captured."""

    def one_by_one() -> None:
        for _ in range(repeats):
            call()

    own_stream, other_stream = torch.cuda.current_stream(), torch.cuda.Stream()
    other_stream.wait_stream(own_stream)
    with torch.cuda.stream(other_stream):
        call()  # so that nothing is made once within the graph
    own_stream.wait_stream(other_stream)
    graph = torch.cuda.CUDAGraph()
    try:
        # A capture that fails leaves its own stream behind as the current one.
        with torch.cuda.stream(own_stream), torch.cuda.graph(graph):
            one_by_one()
    except RuntimeError:  # as by calls that wait for the device, or ask it how large a result is
        torch.cuda.synchronize()
        return one_by_one
    return lambda: graph.replay()


def measure_task(device: dml.Device, task: Task) -> TaskResult:
    """Times a task, and PyTorch's in turn; results of the two are compared first."""
    inputs = task.inputs()
    with contextlib.closing(_Own(device, task, inputs)) as own:
        beside: Any = _in_torch(task, inputs)
        timers: list[Callable[[int], Callable[[], float]]] = [own.timer]
        remark = beside if isinstance(beside, str) else _difference(own.result(), beside[1])
        if not remark:
            timers.append(beside[0])
        is_on_gpu = device.info.kind != "CPU"
        medians = _in_turn(timers, _SETTLING_SECONDS if task.unit == "OP/s" and is_on_gpu else 0.0)
    speeds = [task.work / median for median in medians]
    torch_speed = speeds[1] if len(speeds) > 1 else None
    name = task.data_type.name.lower()
    return TaskResult(task.name, name, task.unit, speeds[0], torch_speed, remark, task.series, task.extent)


def _in_turn(timers: Sequence[Callable[[int], Callable[[], float]]], settling: float) -> list[float]:
    """The median seconds of each, taken in turns after all have warmed up; each turn after so many seconds of work."""
    ready = []
    for timer in timers:
        once = timer(1)
        took, end = once(), time.perf_counter() + _WARM_UP_SECONDS
        while time.perf_counter() < end:
            took = min(took, once())
        ready.append(timer(max(1, min(_MOST_REPEATS, int(_SAMPLE_SECONDS / took) + 1))))
    samples: list[list[float]] = [[] for _ in ready]
    for _ in range(_ROUNDS):
        for taken, seconds in zip(samples, ready, strict=True):
            end = time.perf_counter() + settling
            while time.perf_counter() < end:
                seconds()
            taken.append(seconds())
    return [statistics.median(taken) for taken in samples]


def _difference(own: Array, other: Array) -> str:
    """What is different, or an empty string."""
    if own.size != other.size:
        return f"PyTorch gives {other.shape}"
    a, b = own.reshape(-1).astype(np.float64), other.reshape(-1).astype(np.float64)
    if own.dtype.kind != "f":
        wrong = int(np.count_nonzero(a != b))
        return f"PyTorch differs in {wrong} of {a.size}" if wrong > a.size // 1000 else ""
    scale = float(np.max(np.abs(b), where=np.isfinite(b), initial=1e-30))
    apart = float(np.max(np.abs(a - b), initial=0.0)) / scale
    return "" if apart <= _TOLERANCES.get(8 * own.dtype.itemsize, 1e-6) else f"PyTorch is {apart:.2g} off"
