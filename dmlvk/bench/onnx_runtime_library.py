"""ONNX Runtime, on CUDA where it has that, else on the host."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from dmlvk.bench.functions import FUNCTIONS
from dmlvk.bench.libraries import module
from dmlvk.bench.task import Array, Task
from dmlvk.datatypes import DataType

_ELEMENT_TYPES = {
    DataType.FLOAT32: 1,
    DataType.UINT8: 2,
    DataType.INT8: 3,
    DataType.INT32: 6,
    DataType.INT64: 7,
    DataType.FLOAT16: 10,
}
"""ONNX's TensorProto.DataType."""

_BOOL = 9
_LOGICAL = ("Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual")  # Whose output has booleans


class OnnxRuntimeLibrary:
    """ONNX Runtime with a model of one node, inputs and output bound to the device."""

    name = "ONNX Runtime"

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self.version = str(runtime.__version__)
        self.on_gpu = "CUDAExecutionProvider" in runtime.get_available_providers()
        self.device = "CUDA" if self.on_gpu else "the host"

    @classmethod
    def open(cls, _: object) -> OnnxRuntimeLibrary | str:
        runtime = module("onnxruntime")
        if runtime is None or module("onnx") is None:
            return "not installed, or without the package onnx"
        runtime.set_default_logger_severity(4)
        return cls(runtime)

    def prepare(self, task: Task, inputs: Mapping[str, Array]) -> _PreparedOnnxRuntime | None:
        """Packed tensors only; ONNX knows no strides."""
        function = FUNCTIONS.get(task.operator_name)
        arrays = list(inputs.values())
        if not function or not function.onnx or not all(array.flags.c_contiguous for array in arrays):
            return None
        if task.data_type not in _ELEMENT_TYPES:
            return None
        try:
            return _PreparedOnnxRuntime(self._runtime, self.on_gpu, task, arrays, function.onnx)
        except Exception as error:  # its own exceptions have no common base that is public
            if type(error).__module__.startswith("onnxruntime"):
                return None  # not for this data type
            raise


class _PreparedOnnxRuntime:
    def __init__(self, runtime: Any, cuda: bool, task: Task, views: Sequence[Array], onnx: str) -> None:
        arrays = [array != 0 if onnx == "Where" and i == 0 else array for i, array in enumerate(views)]
        element = _ELEMENT_TYPES[task.data_type]
        inputs = [(f"x{i}", _BOOL if array.dtype == bool else element) for i, array in enumerate(arrays)]
        model = _model(onnx, inputs, _BOOL if onnx in _LOGICAL else element, arrays[-1].shape)
        provider = "CUDAExecutionProvider" if cuda else "CPUExecutionProvider"
        self._session = runtime.InferenceSession(model, providers=[provider])
        self._binding = self._session.io_binding()
        where = "cuda" if cuda else "cpu"
        # The values own the memory that is bound.
        self._values = [runtime.OrtValue.ortvalue_from_numpy(array, where, 0) for array in arrays]
        for (name, _), value in zip(inputs, self._values, strict=True):
            self._binding.bind_ortvalue_input(name, value)
        self._binding.bind_output("y", where, 0)

    def result(self) -> Array:
        self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()
        made: Array = self._binding.copy_outputs_to_cpu()[0]
        return made

    def seconds(self, repeats: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()
        return (time.perf_counter() - start) / repeats

    def wall_seconds(self) -> float:
        return self.seconds(1)

    def close(self) -> None:
        del self._session, self._binding, self._values


def _model(operator: str, inputs: list[tuple[str, int]], output_type: int, sizes: tuple[int, ...]) -> bytes:
    from onnx import helper

    values = [helper.make_tensor_value_info(name, element, sizes) for name, element in (*inputs, ("y", output_type))]
    node = helper.make_node(operator, [name for name, _ in inputs], ["y"])
    graph = helper.make_graph([node], "node", values[:-1], values[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())
