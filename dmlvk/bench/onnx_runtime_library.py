"""ONNX Runtime, on CUDA where it has that, else on the host."""

from __future__ import annotations

import time
from typing import Any

from dmlvk.bench.functions import FUNCTIONS
from dmlvk.bench.libraries import module
from dmlvk.bench.workload import Array, Workload
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
_LOGICAL = ("Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual")
"""Whose output has booleans."""


class OnnxRuntimeLibrary:
    """ONNX Runtime with a model of one node, inputs and output bound to the device."""

    name = "ONNX Runtime"

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self.version = str(runtime.__version__)
        self._cuda = "CUDAExecutionProvider" in runtime.get_available_providers()
        self.device = "CUDA" if self._cuda else "the host"

    @classmethod
    def open(cls, _: object) -> OnnxRuntimeLibrary | str:
        """Where it is installed."""
        runtime = module("onnxruntime")
        if runtime is None:
            return "not installed"
        runtime.set_default_logger_severity(4)
        return cls(runtime)

    def prepare(self, workload: Workload) -> _PreparedOnnxRuntime | None:
        """Packed tensors only; ONNX knows no strides."""
        function = FUNCTIONS.get(workload.operator.operator_name)
        if not function or not function.onnx or not workload.is_packed:
            return None
        if workload.data_type not in _ELEMENT_TYPES:
            return None
        try:
            return _PreparedOnnxRuntime(self._runtime, self._cuda, workload, function.onnx)
        except Exception as error:  # its own exceptions have no common base that is public
            if type(error).__module__.startswith("onnxruntime"):
                return None  # not for this data type
            raise


class _PreparedOnnxRuntime:
    def __init__(self, runtime: Any, cuda: bool, workload: Workload, onnx: str) -> None:
        arrays = [array != 0 if onnx == "Where" and i == 0 else array for i, array in enumerate(workload.views)]
        element = _ELEMENT_TYPES[workload.data_type]
        inputs = [(f"x{i}", _BOOL if array.dtype == bool else element) for i, array in enumerate(arrays)]
        model = _model(onnx, inputs, _BOOL if onnx in _LOGICAL else element, workload.geometry.sizes)
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
        """Frees the session's memory."""
        del self._session, self._binding, self._values


def _model(operator: str, inputs: list[tuple[str, int]], output_type: int, sizes: tuple[int, ...]) -> bytes:
    """A model of one node in ONNX's protobuf format: a message is fields, each a number, a wire type and a value."""
    node = b"".join(_field(1, name.encode()) for name, _ in inputs) + _field(2, b"y") + _field(4, operator.encode())
    graph = _field(1, node) + _field(2, b"g")
    graph += b"".join(_field(11, _value_info(name, element, sizes)) for name, element in inputs)
    graph += _field(12, _value_info("y", output_type, sizes))
    operator_set = _field(1, b"") + _field(2, 17)
    return _field(1, 8) + _field(7, graph) + _field(8, operator_set)


def _value_info(name: str, element: int, sizes: tuple[int, ...]) -> bytes:
    shape = b"".join(_field(1, _field(1, size)) for size in sizes)
    tensor = _field(1, element) + _field(2, shape)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
