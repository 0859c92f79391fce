"""Has a Vulkan driver compile compute pipelines that are never run, and tells what it made of them.

For drivers whose compiler works without the hardware: RADV_FORCE_FAMILY makes Mesa's driver for AMD's GPUs one that has
no card, compiles for any, and tells registers, spills and memory (VK_KHR_pipeline_executable_properties).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from ctypes import c_char, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from dmlvk.errors import DmlError
from dmlvk.runtime.vulkan import loader
from dmlvk.runtime.vulkan import structures as vk

_STATISTICS = b"VK_KHR_pipeline_executable_properties"
UNCACHED = MappingProxyType(
    {"MESA_SHADER_CACHE_DISABLE": "true", "RADV_DEBUG": "nocache", "VK_ENABLE_PIPELINE_CACHE": "false"}
)
"""Settings by which Mesa's drivers compile a pipeline anew, though they have it: only then times can be told."""

_FLAGS = 0x40  # VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR
_COMPUTE_STAGE = 0x20
_STORAGE_BUFFER = 7


class _ExecutableFeatures(vk.Extensible):
    structure_type = 1000269000
    _fields_: ClassVar[Any] = [("pipelineExecutableInfo", c_uint32)]


class _ShaderModuleInfo(vk.Extensible):
    structure_type = 16
    _fields_: ClassVar[Any] = [("flags", c_uint32), ("codeSize", c_size_t), ("pCode", c_void_p)]


class _DescriptorBinding(ctypes.Structure):
    _fields_ = [
        ("binding", c_uint32), ("descriptorType", c_int32), ("descriptorCount", c_uint32), ("stageFlags", c_uint32),
        ("pImmutableSamplers", c_void_p),
    ]  # fmt: skip


class _SetLayout(vk.Extensible):
    structure_type = 32
    _fields_: ClassVar[Any] = [
        ("flags", c_uint32),
        ("bindingCount", c_uint32),
        ("pBindings", ctypes.POINTER(_DescriptorBinding)),
    ]


class _PushRange(ctypes.Structure):
    _fields_ = [("stageFlags", c_uint32), ("offset", c_uint32), ("size", c_uint32)]


class _PipelineLayout(vk.Extensible):
    structure_type = 30
    _fields_: ClassVar[Any] = [
        ("flags", c_uint32), ("setLayoutCount", c_uint32), ("pSetLayouts", ctypes.POINTER(c_uint64)),
        ("pushConstantRangeCount", c_uint32), ("pPushConstantRanges", ctypes.POINTER(_PushRange)),
    ]  # fmt: skip


class _MapEntry(ctypes.Structure):
    _fields_ = [("constantID", c_uint32), ("offset", c_uint32), ("size", c_size_t)]


class _Specialization(ctypes.Structure):
    _fields_ = [
        ("mapEntryCount", c_uint32), ("pMapEntries", ctypes.POINTER(_MapEntry)), ("dataSize", c_size_t),
        ("pData", c_void_p),
    ]  # fmt: skip


class _ShaderStage(ctypes.Structure):
    _fields_ = [
        ("sType", c_int32), ("pNext", c_void_p), ("flags", c_uint32), ("stage", c_uint32), ("module", c_uint64),
        ("pName", c_char_p), ("pSpecializationInfo", ctypes.POINTER(_Specialization)),
    ]  # fmt: skip


class _Pipeline(vk.Extensible):
    structure_type = 29
    _fields_: ClassVar[Any] = [
        ("flags", c_uint32), ("stage", _ShaderStage), ("layout", c_uint64), ("basePipelineHandle", c_uint64),
        ("basePipelineIndex", c_int32),
    ]  # fmt: skip


class _ExecutableInfo(vk.Extensible):
    structure_type = 1000269003
    _fields_: ClassVar[Any] = [("pipeline", c_uint64), ("executableIndex", c_uint32)]


class _Statistic(vk.Extensible):
    structure_type = 1000269004
    _fields_: ClassVar[Any] = [
        ("name", c_char * 256),
        ("description", c_char * 256),
        ("format", c_int32),
        ("value", c_uint64),
    ]


_P = c_void_p
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "vkGetDeviceProcAddr": (c_void_p, _P, c_char_p),
    "vkCreateShaderModule": (c_int32, _P, _P, _P, _P),
    "vkDestroyShaderModule": (None, _P, c_uint64, _P),
    "vkCreateDescriptorSetLayout": (c_int32, _P, _P, _P, _P),
    "vkDestroyDescriptorSetLayout": (None, _P, c_uint64, _P),
    "vkCreatePipelineLayout": (c_int32, _P, _P, _P, _P),
    "vkDestroyPipelineLayout": (None, _P, c_uint64, _P),
    "vkCreateComputePipelines": (c_int32, _P, c_uint64, c_uint32, _P, _P, _P),
    "vkDestroyPipeline": (None, _P, c_uint64, _P),
    "vkGetPipelineExecutableStatisticsKHR": (c_int32, _P, _P, _P, _P),
}


@dataclass(frozen=True)
class Compiled:
    seconds: float  # of a processor core, to compile it
    statistics: dict[str, int]  # the driver's own numbers, by its own names


class DriverCompiler(Protocol):
    def compile(self, spirv: bytes, constants: Sequence[int], bindings: int, push_words: int) -> Compiled:
        """As ``PipelineCompiler.compile``."""


class PipelineCompiler:
    """A device that compiles pipelines. A context manager.

    Args:
        device: a physical device that has VK_KHR_pipeline_executable_properties.

    Raises:
        DmlError: the driver cannot tell anything about pipelines, or opens no device.
    """

    def __init__(self, instance: loader.Instance, device: int) -> None:
        self._instance = instance
        if _STATISTICS.decode() not in instance.extensions(device):
            raise DmlError("this driver tells nothing of its pipelines (VK_KHR_pipeline_executable_properties)")
        families = instance.queue_families(device)
        priority = c_float(1.0)
        queue = vk.DeviceQueueCreateInfo()
        queue.queueFamilyIndex = next(i for i, f in enumerate(families) if f.queueFlags & vk.QUEUE_COMPUTE_BIT)
        queue.queueCount, queue.pQueuePriorities = 1, ctypes.pointer(priority)
        features = _ExecutableFeatures()
        features.pipelineExecutableInfo = 1
        info = vk.DeviceCreateInfo()
        info.pNext = ctypes.addressof(features)
        info.queueCreateInfoCount, info.pQueueCreateInfos = 1, ctypes.pointer(queue)
        info.enabledExtensionCount, info.ppEnabledExtensionNames = 1, (c_char_p * 1)(_STATISTICS)
        self._device = c_void_p()
        create = instance.function("vkCreateDevice")
        loader.check(create(device, ctypes.byref(info), None, ctypes.byref(self._device)), "vkCreateDevice")
        get = loader.get_instance_proc_addr()(instance.handle, b"vkGetDeviceProcAddr")
        assert get is not None
        self._address = loader.FUNCTION_TYPE(*_SIGNATURES["vkGetDeviceProcAddr"])(get)
        self._functions: dict[str, Callable[..., int]] = {}

    def __enter__(self) -> PipelineCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self._instance.function("vkDestroyDevice")(self._device, None)

    def _function(self, name: str) -> Callable[..., int]:
        if name not in self._functions:
            address = self._address(self._device, name.encode())
            self._functions[name] = loader.FUNCTION_TYPE(*_SIGNATURES[name])(address)
        return self._functions[name]

    def _made(self, name: str, info: vk.Extensible) -> c_uint64:
        handle = c_uint64()
        loader.check(self._function(name)(self._device, ctypes.byref(info), None, ctypes.byref(handle)), name)
        return handle

    def compile(self, spirv: bytes, constants: Sequence[int], bindings: int, push_words: int) -> Compiled:
        """Compiles a module as Kompute would.

        Args:
            constants: its specialization constants, from id 0 on.
            bindings: how many storage buffers it has.
            push_words: how many words of push constants.

        Raises:
            DmlError: the driver refuses it.
        """
        code = ctypes.create_string_buffer(spirv, len(spirv))
        module_info = _ShaderModuleInfo()
        module_info.codeSize, module_info.pCode = len(spirv), ctypes.addressof(code)
        module = self._made("vkCreateShaderModule", module_info)
        each = [_DescriptorBinding(number, _STORAGE_BUFFER, 1, _COMPUTE_STAGE, None) for number in range(bindings)]
        set_info = _SetLayout()
        set_info.bindingCount, set_info.pBindings = bindings, (_DescriptorBinding * bindings)(*each)
        set_layout = self._made("vkCreateDescriptorSetLayout", set_info)
        layout_info = _PipelineLayout()
        layout_info.setLayoutCount, layout_info.pSetLayouts = 1, ctypes.pointer(set_layout)
        if push_words:
            layout_info.pushConstantRangeCount = 1
            layout_info.pPushConstantRanges = ctypes.pointer(_PushRange(_COMPUTE_STAGE, 0, 4 * push_words))
        layout = self._made("vkCreatePipelineLayout", layout_info)
        entries = (_MapEntry * len(constants))(*(_MapEntry(n, 4 * n, 4) for n in range(len(constants))))
        values = (c_uint32 * len(constants))(*constants)
        special = _Specialization(len(constants), entries, 4 * len(constants), ctypes.addressof(values))
        info = _Pipeline()
        info.flags, info.layout, info.basePipelineIndex = _FLAGS, layout.value, -1
        info.stage = _ShaderStage(18, None, 0, _COMPUTE_STAGE, module.value, b"main", ctypes.pointer(special))
        pipeline = c_uint64()
        begun = time.process_time()
        result = self._function("vkCreateComputePipelines")(
            self._device, 0, 1, ctypes.byref(info), None, ctypes.byref(pipeline)
        )
        seconds = time.process_time() - begun
        loader.check(result, "vkCreateComputePipelines")
        statistics = self._statistics(pipeline)
        self._function("vkDestroyPipeline")(self._device, pipeline, None)
        self._function("vkDestroyPipelineLayout")(self._device, layout, None)
        self._function("vkDestroyDescriptorSetLayout")(self._device, set_layout, None)
        self._function("vkDestroyShaderModule")(self._device, module, None)
        return Compiled(seconds, statistics)

    def _statistics(self, pipeline: c_uint64) -> dict[str, int]:
        info = _ExecutableInfo()
        info.pipeline = pipeline.value
        name = "vkGetPipelineExecutableStatisticsKHR"
        found = loader.enumerated(self._function(name), name, _Statistic, self._device, ctypes.byref(info))
        return {each.name.decode(): each.value for each in found}
