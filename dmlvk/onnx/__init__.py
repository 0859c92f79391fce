"""ONNX models on any Vulkan device, by ONNX Runtime's names::

    import dmlvk.onnx as ort
    session = ort.InferenceSession("model.onnx")
    outputs = session.run(None, {"input": array})

Programs that import ``onnxruntime`` run unchanged by ``python -m dmlvk.onnx PROGRAM``, or after :func:`install`.

Needs the onnx package: ``pip install dmlvk[onnx]``.
"""

try:
    import onnx as _onnx
except ImportError as _error:  # pragma: no cover - the tests have it
    raise ImportError("dmlvk.onnx needs the onnx package: pip install dmlvk[onnx]") from _error

from dmlvk.onnx.api import absent as _absent
from dmlvk.onnx.api import environment as _environment
from dmlvk.onnx.api.absent import *  # noqa: F403  # each module says what it exports
from dmlvk.onnx.api.arguments import ModelMetadata, NodeArg
from dmlvk.onnx.api.environment import *  # noqa: F403  # each module says what it exports
from dmlvk.onnx.api.installation import install
from dmlvk.onnx.api.options import (
    PROVIDER,
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from dmlvk.onnx.api.ort_values import IOBinding, OrtValue
from dmlvk.onnx.api.session import InferenceSession
from dmlvk.onnx.plan.execution import Usage
from dmlvk.onnx.plan.round_plans import Placement

from dmlvk.onnx import capi  # isort: skip  # has the names of this module

assert _onnx

SessionIOBinding = IOBinding
__version__ = _environment.ONNX_RUNTIME_VERSION

__all__ = [
    "PROVIDER", "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
    "ModelMetadata", "NodeArg", "OrtValue", "Placement", "RunOptions", "SessionIOBinding", "SessionOptions", "Usage",
    "capi", "install",
]  # fmt: skip
__all__ += _absent.__all__
__all__ += _environment.__all__
