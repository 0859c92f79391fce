"""dmlvk itself as one of the libraries that are measured."""

from __future__ import annotations

import dataclasses
import statistics
import time

import numpy as np

import dmlvk
from dmlvk.bench.workload import Array, Workload
from dmlvk.device import Device
from dmlvk.runtime.kompute import Launch, Recording


class OwnLibrary:
    """dmlvk on an open device."""

    name = "dmlvk"
    version = dmlvk.__version__

    def __init__(self, device: Device) -> None:
        self._device = device
        self.device = device.info.name

    def prepare(self, workload: Workload) -> OwnPrepared:
        """Any workload that there is."""
        return OwnPrepared(self._device, workload)


class OwnPrepared:
    """A compiled operator with its buffers bound and recorded."""

    def __init__(self, device: Device, workload: Workload) -> None:
        self._device, self._workload = device, workload
        desc = workload.desc
        self._compiled = device.compile_operator(device.create_operator(desc))
        tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs) if tensor is not None]
        self._buffers = [device.create_buffer(tensor.size_in_bytes) for tensor in tensors]
        for buffer, array in zip(self._buffers, workload.arrays, strict=False):
            buffer.upload(array)
        bindings = iter(dmlvk.BufferBinding(b, 0, b.size_in_bytes) for b in self._buffers)
        table = device.create_binding_table(self._compiled)
        table.bind_inputs([None if tensor is None else next(bindings) for _, tensor in desc.inputs])
        table.bind_outputs([None if tensor is None else next(bindings) for _, tensor in desc.outputs])
        self._recorder = device.create_command_recorder()
        self._recorder.record_dispatch(self._compiled, table)
        self._launches = [step.launch(device.engine) for step in self._recorder.dispatches[0].steps]
        self._recordings: dict[int, Recording] = {}

    @property
    def launch_count(self) -> int:
        """Kernels of one execution."""
        return len(self._launches)

    def result(self) -> Array:
        """The output, computed once."""
        self._recorder.execute()
        contents = self._buffers[-1].download()
        output = contents[
            : contents.size // self._workload.output_dtype.itemsize * self._workload.output_dtype.itemsize
        ]
        return np.ascontiguousarray(self._workload.view(-1, output.view(self._workload.output_dtype)))

    def seconds(self, repeats: int) -> float:
        """By the device's own clock on a GPU; by the wall on a CPU, where both are the same."""
        engine = self._device.engine
        has_clock = self._device.info.kind != "CPU"
        if repeats not in self._recordings:
            # The same results are written again and again: nothing depends on what came before.
            once = [
                dataclasses.replace(launch, depends=launch.depends and i > 0) for i, launch in enumerate(self._launches)
            ]
            launches: list[Launch] = once * repeats
            self._recordings = {repeats: engine.record(launches, timestamps=has_clock)}
        recording = self._recordings[repeats]
        start = time.perf_counter()
        engine.run(recording)
        wall = (time.perf_counter() - start) / repeats
        if not has_clock:
            return wall
        ticks = recording.dispatch_seconds()
        return statistics.median(sum(ticks[i : i + self.launch_count]) for i in range(0, len(ticks), self.launch_count))

    def wall_seconds(self) -> float:
        """One submission and the wait for it."""
        start = time.perf_counter()
        self._recorder.execute()
        return time.perf_counter() - start

    def close(self) -> None:
        """Frees the buffers."""
        self._recordings.clear()
        self._recorder.reset()
        for buffer in self._buffers:
            buffer.close()
