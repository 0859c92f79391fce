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

from dmlvk.onnx.execution import Usage
from dmlvk.onnx.options import (
    PROVIDER,
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from dmlvk.onnx.ort_values import IOBinding, OrtValue
from dmlvk.onnx.planning import Placement
from dmlvk.onnx.session import InferenceSession, ModelMetadata, NodeArg

assert _onnx


def get_available_providers() -> list[str]:
    """dmlvk, under the name of the provider of ONNX Runtime that it stands in for."""
    return [PROVIDER]


def get_device() -> str:
    """As ONNX Runtime has it."""
    return "GPU-DML"


def get_all_providers() -> list[str]:
    """As :func:`get_available_providers`."""
    return get_available_providers()


def set_default_logger_severity(severity: int) -> None:
    """Accepted for ONNX Runtime's sake: dmlvk writes to the logger ``dmlvk`` of Python's logging."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted for ONNX Runtime's sake."""


def set_seed(seed: int) -> None:
    """Accepted for ONNX Runtime's sake: random nodes take the seed that their attribute says."""


def disable_telemetry_events() -> None:
    """Accepted for ONNX Runtime's sake: dmlvk sends nothing anywhere."""


__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "Placement",
    "RunOptions",
    "SessionOptions",
    "Usage",
    "disable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]
