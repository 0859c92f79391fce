"""ONNX models on any Vulkan device, by ONNX Runtime's names::

    import dmlvk.onnx as ort
    session = ort.InferenceSession("model.onnx")
    outputs = session.run(None, {"input": array})

Needs the onnx package: ``pip install dmlvk[onnx]``.
"""

try:
    import onnx as _onnx
except ImportError as _error:  # pragma: no cover - the tests have it
    raise ImportError("dmlvk.onnx needs the onnx package: pip install dmlvk[onnx]") from _error

from dmlvk.onnx.planning import Placement
from dmlvk.onnx.session import InferenceSession, ModelMetadata, NodeArg, RunOptions, SessionOptions

assert _onnx


def get_available_providers() -> list[str]:
    """dmlvk, under the name of the provider of ONNX Runtime that it stands in for."""
    return ["DmlExecutionProvider"]


def get_device() -> str:
    """As ONNX Runtime has it."""
    return "GPU-DML"


__all__ = [
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "Placement",
    "RunOptions",
    "SessionOptions",
    "get_available_providers",
    "get_device",
]
