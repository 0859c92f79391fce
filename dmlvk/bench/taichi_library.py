"""Taichi on Vulkan."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from pathlib import Path
from typing import Any

from dmlvk.bench.functions import FUNCTIONS
from dmlvk.bench.libraries import module
from dmlvk.bench.workload import Array, Workload
from dmlvk.datatypes import DataType
from dmlvk.device import Device

_KERNEL = """import taichi as ti

@ti.kernel
def kernel(%s: ti.types.ndarray(dtype=ti.f32, ndim=1), out: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in out:
        a = %s
        %s
        out[i] = %s
"""


class TaichiLibrary:
    """Taichi, with kernels of one line."""

    name = "Taichi"

    def __init__(self, taichi: Any, device: Device) -> None:
        self._taichi = taichi
        self.version = ".".join(str(part) for part in taichi.__version__)
        self.device = f"Vulkan's default device (here {device.info.name})"
        self._directory = tempfile.TemporaryDirectory()  # Taichi reads its kernels' sources from files

    @classmethod
    def open(cls, device: Device) -> TaichiLibrary | str:
        """Where it is installed and has Vulkan."""
        taichi = module("taichi")
        if taichi is None:
            return "not installed"
        taichi.init(arch=taichi.vulkan, log_level=taichi.ERROR, offline_cache=False)
        if taichi.cfg.arch != taichi.vulkan:
            return "finds no Vulkan device"
        return cls(taichi, device)

    def close(self) -> None:
        """Ends its runtime."""
        self._taichi.reset()
        self._directory.cleanup()

    def prepare(self, workload: Workload) -> _PreparedTaichi | None:
        """Packed FLOAT32 tensors."""
        function = FUNCTIONS.get(workload.operator.operator_name)
        fits = workload.data_type is DataType.FLOAT32 and workload.layout == "contiguous"
        if not function or not function.taichi or not fits:
            return None
        return _PreparedTaichi(self._taichi, self._kernel(workload, function.taichi_of(workload.desc)), workload)

    def _kernel(self, workload: Workload, expression: str) -> Any:
        two = len(workload.arrays) == 2
        names = "x: ti.types.ndarray(dtype=ti.f32, ndim=1), y" if two else "x"
        text = _KERNEL % (names, "x[i]", "b = y[i]" if two else "pass", expression)
        name = f"taichi_{workload.operator.operator_name.lower()}"
        path = Path(self._directory.name) / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made.kernel


class _PreparedTaichi:
    def __init__(self, taichi: Any, kernel: Any, workload: Workload) -> None:
        self._taichi, self._kernel = taichi, kernel
        self._operands = []
        for array in (*workload.arrays, None):
            operand = taichi.ndarray(taichi.f32, (workload.elements,))
            if array is not None:
                operand.from_numpy(array)
            self._operands.append(operand)

    def result(self) -> Array:
        self.seconds(1)
        made: Array = self._operands[-1].to_numpy()
        return made

    def seconds(self, repeats: int) -> float:
        self._taichi.sync()
        start = time.perf_counter()
        for _ in range(repeats):
            self._kernel(*self._operands)
        self._taichi.sync()
        return (time.perf_counter() - start) / repeats

    def wall_seconds(self) -> float:
        return self.seconds(1)

    def close(self) -> None:
        """Gives the memory back."""
        self._operands.clear()
