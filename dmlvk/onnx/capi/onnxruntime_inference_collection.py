"""``onnxruntime.capi.onnxruntime_inference_collection``: sessions and values."""

from dmlvk.onnx.environment import (
    AdapterFormat,
    ModelCompiler,
    OrtDevice,
    OrtDeviceVendorId,
    SparseTensor,
    copy_tensors,
)
from dmlvk.onnx.ort_values import IOBinding, OrtValue
from dmlvk.onnx.session import InferenceSession

Session = InferenceSession

__all__ = [
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
