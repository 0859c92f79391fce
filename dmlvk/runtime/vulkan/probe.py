"""A throw-away logical device that makes the buffers Kompute is about to make, and frees them again unused."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from ctypes import c_char_p, c_float, c_uint64, c_void_p
from dataclasses import dataclass

from dmlvk.errors import DeviceLimitError
from dmlvk.runtime.vulkan import loader, portability
from dmlvk.runtime.vulkan import structures as vk


@dataclass(frozen=True)
class BufferPart:
    """One buffer with memory of its own, as Kompute makes it."""

    name: str  # for messages
    size_in_bytes: int  # of the buffer; the driver may pad its memory
    usage: int  # VkBufferUsageFlags
    memory_type: int  # index of the memory type


def _destroy_device(instance: loader.Instance, device: c_void_p) -> None:
    if device.value is not None and instance.alive:
        instance.function("vkDestroyDevice")(device, None)


class LogicalDevice:
    """A VkDevice with one compute queue and no optional feature, like Kompute's own. A context manager.

    It has no extension but the one that devices with a part of Vulkan only must be opened with.

    Raises:
        DeviceNotFoundError: the driver cannot open the device.
        OutOfMemoryError: there is not even memory to open it.
    """

    def __init__(self, instance: loader.Instance, physical_device: int, queue_family: int) -> None:
        priority = c_float(1.0)
        queue = vk.DeviceQueueCreateInfo()
        queue.queueFamilyIndex, queue.queueCount = queue_family, 1
        queue.pQueuePriorities = ctypes.pointer(priority)
        info = vk.DeviceCreateInfo()
        info.queueCreateInfoCount, info.pQueueCreateInfos = 1, ctypes.pointer(queue)
        if portability.SUBSET in instance.extensions(physical_device):
            info.enabledExtensionCount = 1
            info.ppEnabledExtensionNames = (c_char_p * 1)(portability.SUBSET.encode())
        self._instance = instance
        self._handle = c_void_p()
        # First: an interrupt that comes while the driver makes the device, which takes it milliseconds, is raised
        # behind the call. It refers to the instance, which has to be destroyed after its devices.
        self._close = weakref.finalize(self, _destroy_device, instance, self._handle)
        create = instance.function("vkCreateDevice")
        loader.check(create(physical_device, ctypes.byref(info), None, ctypes.byref(self._handle)), "vkCreateDevice")

    def memory_type_bits(self, usage: int) -> int:
        """The memory types that a buffer of this usage can have, a bit for each: the same for buffers of all sizes."""
        with ExitStack() as cleanup:
            return self._buffer(BufferPart("buffer", 4, usage, 0), cleanup)[1].memoryTypeBits  # type: ignore[no-any-return]  # ctypes

    def try_allocating(self, parts: Sequence[BufferPart], max_memory_allocation_size: int, *, memory: bool) -> None:
        """Make all buffers with their memory, at the same time, and free them again. Nothing is written to the memory.

        Args:
            memory: False makes the buffers and compares their needs with the limit, but allocates no memory.

        Raises:
            OutOfMemoryError: the driver refuses.
            DeviceLimitError: with the driver's padding the memory of a buffer is larger than one allocation may be.
            DeviceRemovedError: the device was lost.
        """
        with ExitStack() as cleanup:
            for part in parts:
                buffer, requirements = self._buffer(part, cleanup)
                if requirements.size > max_memory_allocation_size:
                    raise DeviceLimitError(
                        f"{part.name}: {part.size_in_bytes} bytes need an allocation of {requirements.size} bytes with "
                        f"this driver; max_memory_allocation_size is {max_memory_allocation_size}"
                    )
                if memory:
                    allocation = self._memory(requirements.size, part.memory_type, cleanup)
                    loader.check(self._call("vkBindBufferMemory", buffer, allocation, 0), "vkBindBufferMemory")

    def _call(self, name: str, *arguments: object) -> int:
        return self._instance.function(name)(self._handle, *arguments)

    def _buffer(self, part: BufferPart, cleanup: ExitStack) -> tuple[c_uint64, vk.MemoryRequirements]:
        info = vk.BufferCreateInfo()
        info.size, info.usage = part.size_in_bytes, part.usage
        buffer = c_uint64()
        cleanup.callback(self._call, "vkDestroyBuffer", buffer, None)  # first, as above; Vulkan ignores what is null
        loader.check(self._call("vkCreateBuffer", ctypes.byref(info), None, ctypes.byref(buffer)), "vkCreateBuffer")
        requirements = vk.MemoryRequirements()
        self._call("vkGetBufferMemoryRequirements", buffer, ctypes.byref(requirements))
        return buffer, requirements

    def _memory(self, size: int, memory_type: int, cleanup: ExitStack) -> c_uint64:
        info = vk.MemoryAllocateInfo()
        info.allocationSize, info.memoryTypeIndex = size, memory_type
        memory = c_uint64()
        cleanup.callback(self._call, "vkFreeMemory", memory, None)
        loader.check(self._call("vkAllocateMemory", ctypes.byref(info), None, ctypes.byref(memory)), "vkAllocateMemory")
        return memory

    def close(self) -> None:
        """Destroy the device; once is enough, twice does no harm."""
        self._close()

    def __enter__(self) -> LogicalDevice:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
