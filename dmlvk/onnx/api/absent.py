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


class ModelCompiler(_NotThere):
    """A session compiles its model itself."""


class ModelPackage(_NotThere):
    """Packages of several models are not there."""


class ModelPackageComponentContext(_NotThere):
    """As :class:`ModelPackage`."""


class ModelPackageContext(_NotThere):
    """As :class:`ModelPackage`."""


class ModelPackageOptions(_NotThere):
    """As :class:`ModelPackage`."""


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


class OrtEpAssignedNode(_NotThere):
    """``session.partition`` says where nodes are computed."""


class OrtEpAssignedSubgraph(_NotThere):
    """As :class:`OrtEpAssignedNode`."""


class OrtEpContextData(_NotThere):
    """Compiled contexts of other providers are not there."""


class OrtEpContextDataBuffer(_NotThere):
    """As :class:`OrtEpContextData`."""


class OrtEpDevice(_NotThere):
    """``dmlvk.enumerate_devices()`` lists devices."""


class OrtHardwareDevice(_NotThere):
    """As :class:`OrtEpDevice`."""


class OrtExternalInitializerInfo(_NotThere):
    """External data lies beside a model's file."""


class OrtSyncStream(_NotThere):
    """A device's queue decides about order."""


class SparseTensor(_NotThere):
    """Sparse tensors become dense ones here; a program cannot give one."""


__all__ = [
    "AdapterFormat",
    "LoraAdapter",
    "ModelCompiler",
    "ModelPackage",
    "ModelPackageComponentContext",
    "ModelPackageContext",
    "ModelPackageOptions",
    "ModelPackageWriteMode",
    "OrtCompileApiFlags",
    "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph",
    "OrtEpContextData",
    "OrtEpContextDataBuffer",
    "OrtEpDevice",
    "OrtExternalInitializerInfo",
    "OrtHardwareDevice",
    "OrtMemoryInfoDeviceType",
    "OrtSyncStream",
    "SparseTensor",
]
