"""dmlvk itself as one of the libraries that are measured."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

import dmlvk
from dmlvk.arrays.tensor_bytes import elements_of
from dmlvk.bench.task import Array, Task, in_memory
from dmlvk.device import Device
from dmlvk.runtime.kompute import Launch, Recording


class BoundRun:
    """An operator or graph that is recorded, once or behind itself, with buffers of its own for all tensors."""

    def __init__(self, device: Device, compiled: dmlvk.CompiledOperator, runs: int = 1) -> None:
        self.inputs, self.outputs = (
            [None if point.tensor is None else device.create_buffer(point.size_in_bytes) for point in points]
            for points in (compiled.inputs, compiled.outputs)
        )
        scratch = compiled.binding_properties.temporary_resource_size
        self._scratch = device.create_buffer(scratch) if scratch else None
        table = device.create_binding_table(compiled)
        table.bind_inputs([None if buffer is None else dmlvk.BufferBinding(buffer) for buffer in self.inputs])
        table.bind_outputs([None if buffer is None else dmlvk.BufferBinding(buffer) for buffer in self.outputs])
        if self._scratch is not None:
            table.bind_temporary_resource(dmlvk.BufferBinding(self._scratch))
        self.recorder = device.create_command_recorder()
        for _ in range(runs):
            self.recorder.record_dispatch(compiled, table)
        self._device = device

    @functools.cached_property
    def launches(self) -> list[Launch]:
        return [step.launch(self._device.engine) for step in self.recorder.dispatches[0].steps]

    def upload(self, arrays: Iterable[Array]) -> None:
        for buffer, array in zip((each for each in self.inputs if each is not None), arrays, strict=True):
            buffer.upload(array)

    def result(self) -> npt.NDArray[np.uint8]:
        """The bytes of the first output, computed once."""
        self.recorder.execute()
        return next(buffer for buffer in self.outputs if buffer is not None).download()

    def close(self) -> None:
        self.recorder.reset()
        for buffer in (*self.inputs, *self.outputs, self._scratch):
            if buffer is not None:
                buffer.close()


class OwnLibrary:
    """dmlvk on an open device."""

    name = "dmlvk"
    version = dmlvk.__version__

    def __init__(self, device: Device) -> None:
        self._device = device
        self.device = device.info.name
        self.on_gpu = device.info.kind != "CPU"

    def prepare(self, task: Task, inputs: Mapping[str, Array]) -> OwnPrepared:
        return OwnPrepared(self._device, task, inputs)


class OwnPrepared:
    """A compiled operator, or the graph of it and of what makes its weights, with its buffers bound and recorded."""

    def __init__(self, device: Device, task: Task, inputs: Mapping[str, Array]) -> None:
        self._device = device
        self._bound = BoundRun(device, _compiled(device, task))
        self._bound.upload(in_memory(tensor, inputs[field.name]) for field, tensor in task.reads())
        self._output = next(tensor for _, tensor in task.desc.outputs if tensor is not None)
        self._recordings: dict[int, Recording] = {}

    def result(self) -> Array:
        """The first output, computed once."""
        return elements_of(self._bound.result(), self._output)

    def seconds(self, repeats: int) -> float:
        """By the device's own clock on a GPU; by the wall on a CPU, where both are the same."""
        engine = self._device.engine
        has_clock = self._device.info.kind != "CPU"
        if repeats not in self._recordings:
            # One run after the other: the steps of the next wait for those of the one before.
            first, *others = self._bound.launches
            again = [dataclasses.replace(first, depends=True), *others]
            self._recordings = {repeats: engine.record([first, *others, *again * (repeats - 1)], timestamps=has_clock)}
        recording = self._recordings[repeats]
        start = time.perf_counter()
        engine.run(recording)
        wall = (time.perf_counter() - start) / repeats
        if not has_clock:
            return wall
        spans = recording.dispatch_spans()
        return (spans[-1][0] + spans[-1][1] - spans[0][0]) / repeats

    def wall_seconds(self) -> float:
        """One submission and the wait for it."""
        start = time.perf_counter()
        self._bound.recorder.execute()
        return time.perf_counter() - start

    def close(self) -> None:
        self._recordings.clear()
        self._bound.close()


def _compiled(device: Device, task: Task) -> dmlvk.CompiledOperator:
    """The task's operator, or the graph of it and of what makes its weights."""
    product = device.create_operator(task.desc)
    if task.weights is None:
        return device.compile_operator(product)
    nodes = [dmlvk.OperatorGraphNode(device.create_operator(task.weights)), dmlvk.OperatorGraphNode(product)]
    indices = [number for number, (_, tensor) in enumerate(task.weights.inputs) if tensor is not None]
    inputs = [dmlvk.InputGraphEdge(0, 1, 0)]
    inputs += [dmlvk.InputGraphEdge(1 + number, 0, index) for number, index in enumerate(indices)]
    between = [dmlvk.IntermediateGraphEdge(0, 0, 1, 1)]
    outputs = [dmlvk.OutputGraphEdge(1, 0, 0)]
    return device.compile_graph(dmlvk.GraphDesc(1 + len(indices), 1, nodes, inputs, outputs, between))
