"""wgpu-py on the same Vulkan device, with WGSL's built-in functions."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dmlvk.bench.functions import FUNCTIONS
from dmlvk.bench.libraries import module
from dmlvk.bench.workload import Array, Workload
from dmlvk.datatypes import DataType
from dmlvk.device import Device

_SHADER = """
@group(0) @binding(0) var<storage, read> input_a: array<vec4<f32>>;
%s
@group(0) @binding(%d) var<storage, read_write> output: array<vec4<f32>>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>) {
    let i = (group.y * groups.x + group.x) * 256u + local.x;
    if (i >= arrayLength(&output)) { return; }
    let a = input_a[i];
    %s
    output[i] = %s;
}
"""


class WgpuLibrary:
    """wgpu-py, 16 bytes for each invocation."""

    name = "wgpu-py"

    def __init__(self, wgpu: Any, adapter: Any) -> None:
        self._wgpu = wgpu
        self.version = str(wgpu.__version__)
        self.device = str(adapter.info["device"])
        limits = {
            name: adapter.limits[name]
            for name in ("max-storage-buffer-binding-size", "max-buffer-size")
            if name in adapter.limits
        }
        self._largest = min(limits.values(), default=2**27)
        self._device = adapter.request_device_sync(required_limits=limits)

    @classmethod
    def open(cls, device: Device) -> WgpuLibrary | str:
        """Where it is installed and finds the same device through Vulkan."""
        wgpu = module("wgpu")
        if wgpu is None:
            return "not installed"
        adapters = wgpu.gpu.enumerate_adapters_sync()
        for adapter in adapters:
            if adapter.info["backend_type"] == "Vulkan" and adapter.info["device"] == device.info.name:
                return cls(wgpu, adapter)
        return f"does not offer {device.info.name} through Vulkan"

    def prepare(self, workload: Workload) -> _PreparedWgpu | None:
        """Packed FLOAT32 tensors of a multiple of 4 elements."""
        function = FUNCTIONS.get(workload.operator.operator_name)
        fits = workload.data_type is DataType.FLOAT32 and workload.layout == "contiguous" and not workload.elements % 4
        if not function or not function.shader or not fits or 4 * workload.elements > self._largest:
            return None
        expression = function.shader_of(workload.desc).replace("vec4(", "vec4<f32>(")
        return _PreparedWgpu(self._wgpu, self._device, expression, workload)


class _PreparedWgpu:
    def __init__(self, wgpu: Any, device: Any, expression: str, workload: Workload) -> None:
        self._device = device
        inputs = len(workload.arrays)
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
        self._buffers = [device.create_buffer_with_data(data=array, usage=usage) for array in workload.arrays]
        self._buffers.append(device.create_buffer(size=4 * workload.elements, usage=usage))
        second = "@group(0) @binding(1) var<storage, read> input_b: array<vec4<f32>>;" if inputs == 2 else ""
        code = _SHADER % (second, inputs, "let b = input_b[i];" if inputs == 2 else "", expression)
        self._pipeline = device.create_compute_pipeline(
            layout="auto", compute={"module": device.create_shader_module(code=code), "entry_point": "main"}
        )
        self._group = device.create_bind_group(
            layout=self._pipeline.get_bind_group_layout(0),
            entries=[
                {"binding": i, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
                for i, buffer in enumerate(self._buffers)
            ],
        )
        groups = -(-workload.elements // 1024)
        rows = -(-groups // 65535)
        self._groups = (-(-groups // rows), rows, 1)

    def _submit(self, repeats: int) -> None:
        encoder = self._device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        compute.set_pipeline(self._pipeline)
        compute.set_bind_group(0, self._group)
        for _ in range(repeats):
            compute.dispatch_workgroups(*self._groups)
        compute.end()
        self._device.queue.submit([encoder.finish()])
        # Waits; its own way of waiting fails with wgpu-native's current interface (0.32).
        self._device.queue.read_buffer(self._buffers[-1], 0, 4)

    def result(self) -> Array:
        self._submit(1)
        return np.frombuffer(self._device.queue.read_buffer(self._buffers[-1]), np.float32).copy()

    def seconds(self, repeats: int) -> float:
        start = time.perf_counter()
        self._submit(repeats)
        return (time.perf_counter() - start) / repeats

    def wall_seconds(self) -> float:
        return self.seconds(1)

    def close(self) -> None:
        """Frees the buffers."""
        for buffer in self._buffers:
            buffer.destroy()
