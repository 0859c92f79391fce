"""A hand-written kernel through bare Kompute, with the driver's own functions.

It shows what dmlvk's arithmetic, which is exact or nearly so and the same everywhere, costs on a device.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dmlvk.bench.functions import FUNCTIONS
from dmlvk.bench.workload import Array, Workload
from dmlvk.datatypes import DataType
from dmlvk.device import Device
from dmlvk.runtime.kompute import Launch

_SHADER = """#version 450
layout(local_size_x = 256) in;
layout(std430, set = 0, binding = 0) readonly buffer A { vec4 as[]; };
%s
layout(std430, set = 0, binding = %d) writeonly buffer C { vec4 cs[]; };
void main()
{
    uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x * 256u + gl_GlobalInvocationID.x;
    if (i >= cs.length()) { return; }
    vec4 a = as[i];
    %s
    cs[i] = %s;
}
"""


class KomputeLibrary:
    """Kompute with kernels of one line, 16 bytes for each invocation."""

    name = "Kompute built-ins"

    def __init__(self, device: Device, compiler: str) -> None:
        self._device, self._compiler = device, compiler
        self.version = importlib.metadata.version("kp")
        self.device = device.info.name

    @classmethod
    def open(cls, device: Device) -> KomputeLibrary | str:
        """Where a GLSL compiler is installed."""
        compiler = shutil.which("glslangValidator")
        return cls(device, compiler) if compiler else "needs glslangValidator on the PATH"

    def prepare(self, workload: Workload) -> _PreparedKompute | None:
        """Packed FLOAT32 tensors of a multiple of 4 elements."""
        function = FUNCTIONS.get(workload.operator.operator_name)
        fits = workload.data_type is DataType.FLOAT32 and workload.layout == "contiguous" and not workload.elements % 4
        if not function or not function.shader or not fits:
            return None
        expression = function.shader_of(workload.desc).replace("atan2(", "atan(")
        try:
            spirv = self._spirv(expression, len(workload.arrays))
        except subprocess.CalledProcessError:  # an attribute that GLSL has no word for: NaN, an infinity
            return None
        return _PreparedKompute(self._device, spirv, workload)

    def _spirv(self, expression: str, inputs: int) -> bytes:
        second = "layout(std430, set = 0, binding = 1) readonly buffer B { vec4 bs[]; };" if inputs == 2 else ""
        text = _SHADER % (second, inputs, "vec4 b = bs[i];" if inputs == 2 else "", expression)
        with tempfile.TemporaryDirectory() as directory:
            source, target = Path(directory) / "kernel.comp", Path(directory) / "kernel.spv"
            source.write_text(text, encoding="utf-8")
            subprocess.run(
                [self._compiler, "-V", "--target-env", "vulkan1.1", "-o", str(target), str(source)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            return target.read_bytes()


class _PreparedKompute:
    def __init__(self, device: Device, spirv: bytes, workload: Workload) -> None:
        self._engine, self._workload = device.engine, workload
        self._has_clock = device.info.kind != "CPU"
        self._buffers = [device.create_buffer(array.nbytes) for array in workload.arrays]
        for buffer, array in zip(self._buffers, workload.arrays, strict=True):
            buffer.upload(array)
        self._buffers.append(device.create_buffer(4 * workload.elements))
        groups = -(-workload.elements // 1024)
        rows = -(-groups // 65535)
        allocations = tuple(buffer.allocation for buffer in self._buffers)
        size = (-(-groups // rows), rows, 1)
        self._launch = Launch(spirv, (), (), size, allocations, allocations[-1:], depends=False)
        self._recordings: dict[int, Any] = {1: self._engine.record([self._launch])}

    def result(self) -> Array:
        self._engine.run(self._recordings[1])
        return self._buffers[-1].download().view(np.float32)

    def seconds(self, repeats: int) -> float:
        key = -repeats  # beside the one for the wall
        if key not in self._recordings:
            self._recordings[key] = self._engine.record([self._launch] * repeats, timestamps=self._has_clock)
        start = time.perf_counter()
        self._engine.run(self._recordings[key])
        if not self._has_clock:
            return (time.perf_counter() - start) / repeats
        return float(np.median(self._recordings[key].dispatch_seconds()))

    def wall_seconds(self) -> float:
        start = time.perf_counter()
        self._engine.run(self._recordings[1])
        return time.perf_counter() - start

    def close(self) -> None:
        """Frees the buffers."""
        self._recordings.clear()
        for buffer in self._buffers:
            buffer.close()
