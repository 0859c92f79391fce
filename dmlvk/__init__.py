"""dmlvk runs DirectML operators on any Vulkan device, through Kompute.

The same bits on every device, within a stated and tested error: see README.md.
"""

import functools as _functools
import types as _types

from dmlvk.support import command_start

command_start.begins()  # before the others, which take a quarter of a second

# ruff: noqa: E402
from dmlvk.arrays.array import Array
from dmlvk.datatypes import DataType
from dmlvk.device import Device, Feature
from dmlvk.errors import (
    ArithmeticWarning,
    CallError,
    DeviceLimitError,
    DeviceNotFoundError,
    DeviceRemovedError,
    DmlError,
    InvalidArgumentError,
    ModelFileError,
    OutOfMemoryError,
    ShaderCompilationError,
    ShaderLibraryError,
    UnsupportedError,
    ValidationLayerError,
)
from dmlvk.graphs import (
    ConstantGraphNode,
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OperatorGraphNode,
    OutputGraphEdge,
)
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.compiled import CompiledGraph
from dmlvk.graphs.expression import Expression
from dmlvk.objects.binding import BindingTable, BufferArrayBinding, BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import (
    BindingProperties,
    CompiledOperator,
    ExecutionFlags,
    Operator,
    OperatorInitializer,
)
from dmlvk.objects.portable import default_device
from dmlvk.objects.profiling import write_trace
from dmlvk.objects.recording import CommandRecorder, KernelTime
from dmlvk.operators import (
    FeatureLevel,
    FusedActivation,
    IsInfinityMode,
    OperatorDesc,
    RoundingMode,
    ScaleBias,
    Size2D,
    fused_activation,
    operator_desc,
)
from dmlvk.operators import families as _families
from dmlvk.operators.families import *  # noqa: F403  # the families say what they export
from dmlvk.runtime.vulkan import DeviceInfo, list_devices
from dmlvk.tensors import TensorDesc, TensorFlags

__version__ = "0.1.0"

FLOAT64 = DataType.FLOAT64
FLOAT32 = DataType.FLOAT32
FLOAT16 = DataType.FLOAT16
INT64 = DataType.INT64
INT32 = DataType.INT32
INT16 = DataType.INT16
INT8 = DataType.INT8
UINT64 = DataType.UINT64
UINT32 = DataType.UINT32
UINT16 = DataType.UINT16
UINT8 = DataType.UINT8
INT4 = DataType.INT4
UINT4 = DataType.UINT4

__all__ = [
    "FLOAT16", "FLOAT32", "FLOAT64", "INT4", "INT8", "INT16", "INT32", "INT64", "UINT4", "UINT8", "UINT16", "UINT32",
    "UINT64", "Array", "BindingProperties", "BindingTable", "Buffer", "BufferArrayBinding", "BufferBinding",
    "CallError", "CommandRecorder", "CompiledGraph", "CompiledOperator", "ConstantGraphNode", "DataType", "Device",
    "DeviceInfo", "DeviceLimitError", "DeviceNotFoundError", "DeviceRemovedError", "DmlError", "ExecutionFlags",
    "Expression", "Feature", "FeatureLevel", "FusedActivation", "Graph", "GraphDesc", "InputGraphEdge",
    "IntermediateGraphEdge", "InvalidArgumentError", "IsInfinityMode", "KernelTime", "ModelFileError", "Operator",
    "OperatorDesc", "OperatorGraphNode", "OperatorInitializer", "OutOfMemoryError", "OutputGraphEdge",
    "RoundingMode", "ScaleBias", "Size2D", "ShaderCompilationError", "ShaderLibraryError", "TensorDesc",
    "TensorFlags", "UnsupportedError", "ValidationLayerError", "ArithmeticWarning", "default_device", "list_devices",
    "write_trace", "fused_activation", "operator_desc",
]  # fmt: skip


@_functools.cache
def _namespace() -> _types.ModuleType:
    from dmlvk import array_api  # when it is asked for: who wants no operations on arrays does not wait for them

    return array_api


Array.namespace = staticmethod(_namespace)

__all__ += [name for name in vars(_families) if not name.startswith("_")]
