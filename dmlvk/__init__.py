"""dmlvk runs DirectML operators on any Vulkan device, through Kompute.

The same bits on every device, within a stated and tested error: see README.md.
"""

from dmlvk.binding import (
    BindingProperties,
    BindingTable,
    BufferBinding,
    CompiledOperator,
    ExecutionFlags,
    Operator,
)
from dmlvk.buffers import Buffer
from dmlvk.datatypes import DataType
from dmlvk.device import Device, Feature
from dmlvk.errors import (
    DeviceLimitError,
    DeviceNotFoundError,
    DeviceRemovedError,
    DmlError,
    InvalidArgumentError,
    ModelFileError,
    OutOfMemoryError,
    ShaderLibraryError,
    UnsupportedError,
    ValidationLayerError,
)
from dmlvk.operators import (
    ActivationIdentity,
    ActivationRelu,
    ActivationReluGrad,
    ActivationThresholdedRelu,
    ElementWiseAbs,
    ElementWiseBitAnd,
    ElementWiseBitCount,
    ElementWiseBitNot,
    ElementWiseBitOr,
    ElementWiseBitShiftLeft,
    ElementWiseBitShiftRight,
    ElementWiseBitXor,
    ElementWiseCeil,
    ElementWiseClip,
    ElementWiseClip1,
    ElementWiseClipGrad,
    ElementWiseClipGrad1,
    ElementWiseFloor,
    ElementWiseIdentity,
    ElementWiseIf,
    ElementWiseIsInfinity,
    ElementWiseIsNan,
    ElementWiseLog,
    ElementWiseLogicalAnd,
    ElementWiseLogicalEquals,
    ElementWiseLogicalGreaterThan,
    ElementWiseLogicalGreaterThanOrEqual,
    ElementWiseLogicalLessThan,
    ElementWiseLogicalLessThanOrEqual,
    ElementWiseLogicalNot,
    ElementWiseLogicalOr,
    ElementWiseLogicalXor,
    ElementWiseMax,
    ElementWiseMin,
    ElementWiseNegate,
    ElementWiseRound,
    ElementWiseSign,
    ElementWiseThreshold,
    FeatureLevel,
    IsInfinityMode,
    OperatorDesc,
    RoundingMode,
    ScaleBias,
    operator_desc,
)
from dmlvk.recording import CommandRecorder
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

__all__ = [
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "ActivationIdentity",
    "ActivationRelu",
    "ActivationReluGrad",
    "ActivationThresholdedRelu",
    "BindingProperties",
    "BindingTable",
    "Buffer",
    "BufferBinding",
    "CommandRecorder",
    "CompiledOperator",
    "DataType",
    "Device",
    "DeviceInfo",
    "DeviceLimitError",
    "DeviceNotFoundError",
    "DeviceRemovedError",
    "DmlError",
    "ElementWiseAbs",
    "ElementWiseBitAnd",
    "ElementWiseBitCount",
    "ElementWiseBitNot",
    "ElementWiseBitOr",
    "ElementWiseBitShiftLeft",
    "ElementWiseBitShiftRight",
    "ElementWiseBitXor",
    "ElementWiseCeil",
    "ElementWiseClip",
    "ElementWiseClip1",
    "ElementWiseClipGrad",
    "ElementWiseClipGrad1",
    "ElementWiseFloor",
    "ElementWiseIdentity",
    "ElementWiseIf",
    "ElementWiseIsInfinity",
    "ElementWiseIsNan",
    "ElementWiseLog",
    "ElementWiseLogicalAnd",
    "ElementWiseLogicalEquals",
    "ElementWiseLogicalGreaterThan",
    "ElementWiseLogicalGreaterThanOrEqual",
    "ElementWiseLogicalLessThan",
    "ElementWiseLogicalLessThanOrEqual",
    "ElementWiseLogicalNot",
    "ElementWiseLogicalOr",
    "ElementWiseLogicalXor",
    "ElementWiseMax",
    "ElementWiseMin",
    "ElementWiseNegate",
    "ElementWiseRound",
    "ElementWiseSign",
    "ElementWiseThreshold",
    "ExecutionFlags",
    "Feature",
    "FeatureLevel",
    "InvalidArgumentError",
    "IsInfinityMode",
    "ModelFileError",
    "Operator",
    "OperatorDesc",
    "OutOfMemoryError",
    "RoundingMode",
    "ScaleBias",
    "ShaderLibraryError",
    "TensorDesc",
    "TensorFlags",
    "UnsupportedError",
    "ValidationLayerError",
    "list_devices",
    "operator_desc",
]
