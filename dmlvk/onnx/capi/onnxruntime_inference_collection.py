"""``onnxruntime.capi.onnxruntime_inference_collection``: sessions and values."""

from dmlvk.onnx.api.absent import AdapterFormat, ModelCompiler, SparseTensor
from dmlvk.onnx.api.environment import OrtDevice, OrtDeviceVendorId, copy_tensors
from dmlvk.onnx.api.ort_values import IOBinding, OrtValue
from dmlvk.onnx.api.session import InferenceSession
from dmlvk.onnx.capi import _pybind_state as C  # ONNX Runtime's name

Session = InferenceSession

__all__ = [
    "C", "AdapterFormat", "IOBinding", "InferenceSession", "ModelCompiler", "OrtDevice", "OrtDeviceVendorId",
    "OrtValue", "Session", "SparseTensor", "copy_tensors",
]  # fmt: skip
