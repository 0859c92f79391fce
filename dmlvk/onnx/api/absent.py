"""Classes of ONNX Runtime that programs import, by name or for type hints, and that dmlvk cannot stand in for."""

from __future__ import annotations

import enum
from typing import Any

from dmlvk.errors import UnsupportedError


class _NotThere:
    def __init__(self, *_: Any, **__: Any) -> None:
        raise UnsupportedError(f"{type(self).__name__}: dmlvk.onnx does not have it")


class AdapterFormat(_NotThere):
    """Adapters are not there."""

    @staticmethod
    def read_adapter(file_path: Any) -> AdapterFormat:
        """Not there.

        Raises:
            UnsupportedError: always.
        """
        return AdapterFormat(file_path)


class LoraAdapter(_NotThere):
    """Adapters are not there."""

    def Load(self, file_path: Any) -> None:  # ONNX Runtime's name
        """Not there: no such object can be made."""


class ModelPackageWriteMode(enum.IntEnum):
    """As :class:`ModelPackage`."""

    PRESERVE = 0
    DENSE = 1


class OrtCompileApiFlags(enum.IntFlag):
    """Of :class:`ModelCompiler`."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class OrtMemoryInfoDeviceType(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


def _not_there(name: str, reason: str) -> type[Any]:
    return type(name, (_NotThere,), {"__doc__": reason, "__module__": __name__})


ModelCompiler = _not_there("ModelCompiler", "A session compiles its model itself.")
ModelPackage = _not_there("ModelPackage", "Packages of several models are not there.")
ModelPackageComponentContext = _not_there("ModelPackageComponentContext", "As :class:`ModelPackage`.")
ModelPackageContext = _not_there("ModelPackageContext", "As :class:`ModelPackage`.")
ModelPackageOptions = _not_there("ModelPackageOptions", "As :class:`ModelPackage`.")
OrtEpAssignedNode = _not_there("OrtEpAssignedNode", "``session.partition`` says where nodes are computed.")
OrtEpAssignedSubgraph = _not_there("OrtEpAssignedSubgraph", "As :class:`OrtEpAssignedNode`.")
OrtEpContextData = _not_there("OrtEpContextData", "Compiled contexts of other providers are not there.")
OrtEpContextDataBuffer = _not_there("OrtEpContextDataBuffer", "As :class:`OrtEpContextData`.")
OrtEpDevice = _not_there("OrtEpDevice", "``dmlvk.enumerate_devices()`` lists devices.")
OrtHardwareDevice = _not_there("OrtHardwareDevice", "As :class:`OrtEpDevice`.")
OrtExternalInitializerInfo = _not_there("OrtExternalInitializerInfo", "External data lies beside a model's file.")
OrtSyncStream = _not_there("OrtSyncStream", "A device's queue decides about order.")
SparseTensor = _not_there("SparseTensor", "Sparse tensors become dense ones here; a program cannot give one.")

__all__ = [
    "AdapterFormat", "LoraAdapter", "ModelCompiler", "ModelPackage", "ModelPackageComponentContext",
    "ModelPackageContext", "ModelPackageOptions", "ModelPackageWriteMode", "OrtCompileApiFlags", "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph", "OrtEpContextData", "OrtEpContextDataBuffer", "OrtEpDevice",
    "OrtExternalInitializerInfo", "OrtHardwareDevice", "OrtMemoryInfoDeviceType", "OrtSyncStream", "SparseTensor",
]  # fmt: skip
