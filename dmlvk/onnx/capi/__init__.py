"""The modules that programs reach through ``onnxruntime.capi``: exceptions, and the package's own names."""

from dmlvk.onnx.capi import (
    _pybind_state,
    build_and_package_info,
    onnxruntime_inference_collection,
    onnxruntime_pybind11_state,
    onnxruntime_validation,
)

__all__ = [
    "_pybind_state",
    "build_and_package_info",
    "onnxruntime_inference_collection",
    "onnxruntime_pybind11_state",
    "onnxruntime_validation",
]
