"""What ONNX Runtime's package says and takes besides sessions: versions, devices, loggers, allocators, libraries."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Sequence
from typing import Any

import dmlvk
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.onnx.api.options import HOST_PROVIDER, PROVIDER
from dmlvk.onnx.api.ort_values import OrtValue

ONNX_RUNTIME_VERSION = "1.24.4"
"""The version of onnxruntime-directml whose names and meanings the package follows."""


class OrtAllocatorType(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtSparseFormat(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtHardwareDeviceType(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtExecutionProviderDevicePolicy(enum.IntEnum):
    """Accepted where ONNX Runtime accepts it: a session's device is what it is given."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtDeviceVendorId(enum.IntEnum):
    """Numbers of vendors."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


_DEVICE_TYPES = {"cpu": 0, "cuda": 1, "gpu": 1, "webgpu": 1, "npu": 3, "cann": 3, "dml": 4}


class OrtDevice:
    """A kind of device with a number, as programs name them; every kind but the host's means the session's device.

    Args:
        device_type: a number of ONNX Runtime.
        memory_type: likewise.
        vendor_id: likewise.
        device_id: which device of its kind.
    """

    def __init__(self, device_type: int, memory_type: int = 0, vendor_id: int = 0, device_id: int = 0) -> None:
        self._numbers = (int(device_type), int(memory_type), int(vendor_id), int(device_id))

    @staticmethod
    def make(ort_device_name: str, device_id: int = 0, vendor_id: int = -1) -> OrtDevice:
        """A device by the name of its kind.

        Raises:
            InvalidArgumentError: when ONNX Runtime has no such kind.
        """
        if ort_device_name not in _DEVICE_TYPES:
            known = ", ".join(_DEVICE_TYPES)
            raise InvalidArgumentError(f"OrtDevice: the kind must be one of {known}; got {ort_device_name!r}")
        return OrtDevice(_DEVICE_TYPES[ort_device_name], 0, max(int(vendor_id), 0), device_id)

    @staticmethod
    def cpu() -> int:
        """The number of the host's kind."""
        return 0

    @staticmethod
    def cuda() -> int:
        """The number of GPUs' kind."""
        return 1

    gpu = webgpu = cuda

    @staticmethod
    def npu() -> int:
        """The number of that kind."""
        return 3

    cann = npu

    @staticmethod
    def dml() -> int:
        """The number of DirectML's kind."""
        return 4

    @staticmethod
    def default_memory() -> int:
        """The number of the usual memory."""
        return 0

    def device_type(self) -> int:
        """The number of its kind."""
        return self._numbers[0]

    def device_mem_type(self) -> int:
        """The number of its memory's kind."""
        return self._numbers[1]

    mem_type = device_mem_type

    def device_vendor_id(self) -> int:
        """The number of its vendor."""
        return self._numbers[2]

    vendor_id = device_vendor_id

    def device_id(self) -> int:
        """Which device of its kind."""
        return self._numbers[3]

    def __repr__(self) -> str:
        return f"OrtDevice{self._numbers}"


class OrtMemoryInfo:
    """Accepted where ONNX Runtime accepts it."""

    def __init__(self, name: str, allocator_type: Any, device_id: int = 0, mem_type: Any = OrtMemType.DEFAULT) -> None:
        self.name = name
        self.allocator_type = allocator_type
        self.device_id = device_id
        self.mem_type = mem_type


class OrtArenaCfg:
    """Accepted where ONNX Runtime accepts it: buffers are kept and used again by rules of dmlvk's own."""

    def __init__(self, *settings: Any) -> None:
        self.settings = settings


def get_available_providers() -> list[str]:
    """dmlvk, under the name of the provider that it stands in for, and the host's, as onnxruntime-directml says it."""
    return [PROVIDER, HOST_PROVIDER]


def get_all_providers() -> list[str]:
    """As :func:`get_available_providers`."""
    return get_available_providers()


def get_device() -> str:
    """As onnxruntime-directml has it."""
    return "GPU-DML"


def get_version_string() -> str:
    """The version of ONNX Runtime whose names are followed; ``dmlvk.__version__`` is dmlvk's own."""
    return ONNX_RUNTIME_VERSION


def get_build_info() -> str:
    """Which program this is, in words."""
    return f"dmlvk {dmlvk.__version__}, by the names of ONNX Runtime {ONNX_RUNTIME_VERSION}"


def get_ep_devices() -> list[Any]:
    """None: devices are chosen by ``device=`` or ``device_id``, and listed by ``dmlvk.enumerate_devices()``."""
    return []


def has_collective_ops() -> bool:
    """False."""
    return False


def set_default_logger_severity(severity: int) -> None:
    """Accepted for ONNX Runtime's sake: dmlvk writes to the logger ``dmlvk`` of Python's logging."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted for ONNX Runtime's sake."""


def set_default_logger_callback(callback: Callable[..., object] | None) -> None:
    """Accepted for ONNX Runtime's sake: the logger ``dmlvk`` takes handlers."""


def set_seed(seed: int) -> None:
    """Accepted for ONNX Runtime's sake: random nodes take the seed that their attribute says."""


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Accepted for ONNX Runtime's sake."""


def enable_telemetry_events() -> None:
    """Accepted for ONNX Runtime's sake: dmlvk sends nothing anywhere."""


def disable_telemetry_events() -> None:
    """Accepted for ONNX Runtime's sake: dmlvk sends nothing anywhere."""


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | os.PathLike[str] | None = None
) -> None:
    """Accepted for ONNX Runtime's sake: a Vulkan driver is all that is needed."""


def print_debug_info() -> None:
    """Prints which program this is."""
    print(get_build_info())


def create_and_register_allocator(mem_info: Any, arena_cfg: Any = None) -> None:
    """Accepted for ONNX Runtime's sake."""


def create_and_register_allocator_v2(*settings: Any) -> None:
    """Accepted for ONNX Runtime's sake."""


def register_execution_provider_library(name: str, path: str | os.PathLike[str]) -> None:
    """Not there: the kernels of such a library are for another machine.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(f"register_execution_provider_library: dmlvk cannot use the kernels of {path!s}")


def unregister_execution_provider_library(name: str) -> None:
    """Nothing: no library can be registered."""


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies contents of values to others of the same types and shapes.

    Raises:
        InvalidArgumentError: when there are more of one than of the other, or they do not fit.
    """
    if len(src) != len(dst):
        raise InvalidArgumentError(f"copy_tensors: {len(src)} values cannot become {len(dst)}")
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source.numpy())


__all__ = [
    "ONNX_RUNTIME_VERSION", "OrtAllocatorType", "OrtArenaCfg", "OrtDevice", "OrtDeviceMemoryType",
    "OrtDeviceVendorId", "OrtExecutionProviderDevicePolicy", "OrtHardwareDeviceType", "OrtMemType", "OrtMemoryInfo",
    "OrtSparseFormat", "copy_tensors", "create_and_register_allocator", "create_and_register_allocator_v2",
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers", "get_available_providers",
    "get_build_info", "get_device", "get_ep_devices", "get_version_string", "has_collective_ops", "preload_dlls",
    "print_debug_info", "register_execution_provider_library", "set_default_logger_callback",
    "set_default_logger_severity", "set_default_logger_verbosity", "set_global_thread_pool_sizes", "set_seed",
    "unregister_execution_provider_library",
]  # fmt: skip
