"""``onnxruntime.capi.onnxruntime_pybind11_state``: where programs find ONNX Runtime's exceptions."""

from dmlvk.onnx import environment, exceptions, options
from dmlvk.onnx.arguments import ModelMetadata, NodeArg
from dmlvk.onnx.environment import *  # noqa: F403
from dmlvk.onnx.exceptions import *  # noqa: F403
from dmlvk.onnx.options import *  # noqa: F403
from dmlvk.onnx.ort_values import IOBinding as SessionIOBinding
from dmlvk.onnx.ort_values import OrtValue
from dmlvk.onnx.session import InferenceSession

__all__ = ["InferenceSession", "ModelMetadata", "NodeArg", "OrtValue", "SessionIOBinding"]
__all__ += environment.__all__
__all__ += exceptions.__all__
__all__ += options.__all__
