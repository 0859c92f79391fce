"""``onnxruntime.capi._pybind_state``: the names of ``onnxruntime_pybind11_state``."""

from dmlvk.onnx.capi import onnxruntime_pybind11_state as _state
from dmlvk.onnx.capi.onnxruntime_pybind11_state import *  # noqa: F403  # what it names is what this one names

__all__ = _state.__all__
__getattr__ = _state.__getattr__
