"""``onnxruntime.capi.onnxruntime_pybind11_state``: where programs find ONNX Runtime's exceptions.

What its tools (quantizers and the like) call besides, and what runs no model, is ONNX Runtime's own where its package
is installed.
"""

from typing import Any

from dmlvk.onnx.api import absent, environment, exceptions, options
from dmlvk.onnx.api.absent import *  # noqa: F403  # each module says what it exports
from dmlvk.onnx.api.arguments import ModelMetadata, NodeArg
from dmlvk.onnx.api.environment import *  # noqa: F403  # each module says what it exports
from dmlvk.onnx.api.exceptions import *  # noqa: F403  # each module says what it exports
from dmlvk.onnx.api.options import *  # noqa: F403  # each module says what it exports
from dmlvk.onnx.api.options import SessionOptions
from dmlvk.onnx.api.ort_values import IOBinding as SessionIOBinding
from dmlvk.onnx.api.ort_values import OrtValue
from dmlvk.onnx.api.session import InferenceSession
from dmlvk.onnx.host.evaluation.runtime import onnx_runtime

__all__ = [
    "InferenceSession", "get_default_session_options", "ModelMetadata", "NodeArg", "OrtValue", "SessionIOBinding",
]  # fmt: skip
__all__ += absent.__all__
__all__ += environment.__all__
__all__ += exceptions.__all__
__all__ += options.__all__


def get_default_session_options() -> SessionOptions:
    return SessionOptions()


_OF_TOOLS = ("get_all_op", "opkernel", "pack_", "quantize_", "schemadef")


def __getattr__(name: str) -> Any:
    package = onnx_runtime() if name.startswith(_OF_TOOLS) else None
    found = getattr(getattr(package, "capi", None), "onnxruntime_pybind11_state", None)
    if not hasattr(found, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(found, name)
