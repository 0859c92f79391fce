"""``onnxruntime.capi.onnxruntime_inference_collection``: sessions and values."""

from dmlvk.onnx.absent import AdapterFormat, ModelCompiler, SparseTensor
from dmlvk.onnx.capi import _pybind_state as C  # ONNX Runtime's name
from dmlvk.onnx.environment import OrtDevice, OrtDeviceVendorId, copy_tensors
from dmlvk.onnx.ort_values import IOBinding, OrtValue
from dmlvk.onnx.session import InferenceSession

Session = InferenceSession

__all__ = [
    "C",
    "AdapterFormat",
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtValue",
    "Session",
    "SparseTensor",
    "copy_tensors",
]
