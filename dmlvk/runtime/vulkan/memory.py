"""Yes or no before Kompute allocates: Kompute does not look at the results, and past the memory the process dies.

What Kompute's tensors consist of:

========= ====================================================================================================
device    a buffer in device-local memory and a staging buffer of the same size in host-visible, host-coherent memory
resident  the former without the latter, which comes and goes as ``staging``
host      one buffer in host-visible, host-coherent memory
storage   one buffer in device-local memory
========= ====================================================================================================

Each buffer has an allocation of its own, in the first memory type that has those properties.

Can Kompute still die after a yes? Yes, in two ways, which nobody outside Kompute can close:

* Another process (or another user of Vulkan in this one) takes the memory in the moment between the answer and
  Kompute's own allocation. Vulkan hands no allocation over from one VkDevice to another without extensions that Kompute
  does not switch on, Kompute's own VkDevice is not to be had from Python, and a function of ours that Kompute called in
  place of vkAllocateMemory could not raise through it.
* Where memory is the operating system's (CPU devices, integrated GPUs, staging buffers), a driver's yes is a promise of
  addresses. When other processes grow before the memory is first written, the system kills somebody.

Small objects that Kompute makes besides (descriptor pools, pipelines, command pools) are not asked for here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dmlvk.errors import (
    DeviceLimitError,
    DeviceNotFoundError,
    DeviceRemovedError,
    InvalidArgumentError,
    OutOfMemoryError,
)
from dmlvk.runtime.vulkan.devices import DeviceInfo, MemoryHeap, describe, open_instance
from dmlvk.runtime.vulkan.host_memory import available_in_bytes, can_reserve, resident_in_bytes

if TYPE_CHECKING:
    from dmlvk.runtime.vulkan.loader import Instance
    from dmlvk.runtime.vulkan.probe import BufferPart

TensorKind = Literal["device", "resident", "staging", "host", "storage"]

MAX_TENSOR_SIZE_IN_BYTES = 2**32 - 4
"""Kompute keeps a tensor's byte size in 32 bits, and dmlvk's tensors consist of 4-byte words."""

TRUSTED_BYTES = 64 << 20
"""So many bytes may be promised by calculation only before the operating system and the driver are asked again."""

LOW_BYTES = 256 << 20  # With less than this left, they are asked every time

HOST_RESERVE_BYTES = 128 << 20  # What is left to the operating system and the rest of the process

SPARE_ADDRESSES = 32 << 20
"""What a process with a limit on its addresses keeps for the driver's and its own needs beside the buffers."""

PADDING_BYTES = 1 << 20
"""How much a driver may add to an allocation, so that one that fits its limit by calculation fails."""

_PLENTY = 1 << 63

# Suffix of the name, VkBufferUsageFlags, whether the memory is to be device-local (else host-visible and coherent).
_STORAGE, _STORAGE_AND_COPY, _COPY = 0x20, 0x23, 0x3
_PARTS: dict[TensorKind, tuple[tuple[str, int, bool], ...]] = {
    "device": (("", _STORAGE_AND_COPY, True), ("'s staging buffer", _COPY, False)),
    "resident": (("", _STORAGE_AND_COPY, True),),
    "staging": (("'s staging buffer", _COPY, False),),
    "host": (("", _STORAGE_AND_COPY, False),),
    "storage": (("", _STORAGE, True),),
}


@dataclass(frozen=True)
class MemoryRequest:
    size_in_bytes: int  # of the tensor, from 1 to 2**32 - 4; a ``device`` tensor takes twice as much
    kind: TensorKind = "device"  # Kompute's tensor type
    name: str = "buffer"  # what it is for, for messages: ``InputTensor``


class MemoryClaim:
    """Memory that a :class:`MemoryGuard` has said yes to. Call :meth:`release` when Kompute's tensors are destroyed."""

    def __init__(self, guard: MemoryGuard, bytes_by_heap: dict[int, int], allocation_count: int) -> None:
        self._guard: MemoryGuard | None = guard
        self.bytes_by_heap = bytes_by_heap  # how much of each heap it takes
        self.allocation_count = allocation_count  # how many allocations it consists of

    @property
    def size_in_bytes(self) -> int:
        """Bytes in all heaps together."""
        return sum(self.bytes_by_heap.values())

    def release(self) -> None:
        """Give the memory back to the guard's books; once is enough, twice does no harm."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard._forget(self)


class MemoryGuard:
    """Keeps the books of one device's memory and asks the driver before Kompute does. A context manager.

    Opening it also proves that the device can be opened, which Kompute does not check either. It holds a Vulkan
    instance (for fresh budgets); :meth:`close` destroys it. Its methods may be called from any thread.

    A request passes when

    1. its size is one that the device, Vulkan and Kompute can express (``DeviceLimitError`` otherwise);
    2. each heap has room: its budget less its use (VK_EXT_memory_budget), or else its size less what this guard has
       promised; the heap sizes of CPU devices are nominal and not counted;
    3. the process may have as many addresses and the operating system has room, wherever the heap is not a discrete or
       virtual GPU's own;
    4. the driver has just made the same buffers, with memory, on a device of ours. On CPU devices the buffers are made
       without memory, because SwiftShader fills what it allocates (0.6 ms for each MiB); there the driver is tried for
       buffers within ``PADDING_BYTES`` of the largest allocation only, because SwiftShader refuses the last 15 bytes
       up to the limit that it tells.

    The addresses are asked for every time. The operating system's room is asked for again once ``TRUSTED_BYTES`` were
    promised without asking, and always while less than ``LOW_BYTES`` is left. The driver is tried after as much, or,
    where it keeps a budget, after a sixteenth of what is left: there the budget is what counts, and the trial is for
    what a budget does not tell.

    Measured: opening a guard takes 5 to 8 ms on llvmpipe and SwiftShader, 75 ms on an H200 (150 ms when its driver is
    not loaded yet); a request 0.02 ms as a rule, the operating system's answer 0.4 ms, a trial 2 to 8 ms on llvmpipe
    and SwiftShader whatever the size, on the H200 85 ms for the device and 0.35 ms for each MiB of a ``device`` tensor
    (0.3 of them for its staging buffer).

    Args:
        info: the device, from :func:`~dmlvk.runtime.vulkan.select_device`.

    Raises:
        DeviceNotFoundError: the device is not usable, is no longer at its index, or cannot be opened.
    """

    def __init__(self, info: DeviceInfo) -> None:
        if info.compute_queue_family is None or not info.usable:
            raise DeviceNotFoundError(f"Device {info.index}, {info.name}, {info.unusable_reason}")
        self.info = info
        self._queue_family = info.compute_queue_family
        self._lock = threading.RLock()  # garbage that is collected inside may release a claim
        self._promised = [0] * len(info.heaps)
        self._allocation_count = 0
        self._unasked = self._untried = 0  # bytes promised since the operating system was asked, the driver was tried
        self._host_left = _PLENTY
        self._has_budget = any(heap.budget_in_bytes is not None for heap in info.heaps)
        self._instance: Instance = open_instance()
        try:
            self._handle = self._find_handle()
            self._memory_types = self._kompute_memory_types()
        except BaseException:
            self._instance.close()
            raise

    def _find_handle(self) -> int:
        handles = self._instance.physical_devices()
        if self.info.index < len(handles):
            handle = handles[self.info.index]
            properties = self._instance.properties(handle)
            if (properties.vendorID, properties.deviceID) == (self.info.vendor_id, self.info.device_id):
                return handle
        raise DeviceNotFoundError(f"Device {self.info.index} is no longer {self.info.name}: list the devices again")

    def _kompute_memory_types(self) -> dict[tuple[int, bool], int]:
        """The memory type that Kompute takes for each usage and place of a buffer."""
        from dmlvk.runtime.vulkan.probe import LogicalDevice

        chosen = {}
        with LogicalDevice(self._instance, self._handle, self._queue_family) as device:
            for _, usage, device_local in {part for parts in _PARTS.values() for part in parts}:
                bits = device.memory_type_bits(usage)
                fitting = [
                    index
                    for index, kind in enumerate(self.info.memory_types)
                    if bits >> index & 1
                    and (kind.device_local if device_local else kind.host_visible and kind.host_coherent)
                ]
                if not fitting:
                    raise DeviceNotFoundError(f"Device {self.info.index}, {self.info.name}, has no memory for buffers")
                chosen[usage, device_local] = fitting[0]
        return chosen

    def heaps(self) -> tuple[MemoryHeap, ...]:
        """The device's heaps with fresh budgets."""
        with self._lock:
            return describe(self._open_instance(), self.info.index, self._handle).heaps

    def claim(self, *requests: MemoryRequest) -> MemoryClaim:
        """Ask for memory, for all of the requests together or none.

        Returns:
            The claim, to be released when the tensors are gone.

        Raises:
            InvalidArgumentError: a size that is not a positive number.
            DeviceLimitError: a size or the number of allocations is above a limit, which the message names.
            OutOfMemoryError: there is not enough memory; the message says how much, where, and what is left.
            DeviceRemovedError: the guard is closed, or the device was lost.
        """
        for request in requests:
            self._check_size(request)
        parts = [part for request in requests for part in self._parts(request)]
        with self._lock:
            instance = self._open_instance()
            self._check_count(len(parts))
            wanted: dict[int, int] = {}
            for part in parts:
                heap = self.info.memory_types[part.memory_type].heap
                wanted[heap] = wanted.get(heap, 0) + part.size_in_bytes
            what = _names(requests)
            self._check_memory(instance, parts, wanted, what)
            for heap, size in wanted.items():
                self._promised[heap] += size
            self._allocation_count += len(parts)
            return MemoryClaim(self, wanted, len(parts))

    def _check_memory(self, instance: Instance, parts: Sequence[BufferPart], wanted: dict[int, int], what: str) -> None:
        """Calculate always, ask the operating system and the driver as often as it is worth."""
        size = sum(wanted.values())
        heap_left = self._check_heaps(instance, wanted, what)
        self._check_addresses(wanted, what)
        unasked, untried = self._unasked + size, self._untried + size
        if unasked >= TRUSTED_BYTES or self._host_left < LOW_BYTES:
            self._host_left = self._check_host(wanted, what)
            unasked = 0
        trusted = max(TRUSTED_BYTES, heap_left // 16) if self._has_budget else TRUSTED_BYTES
        largest = max((part.size_in_bytes for part in parts), default=0)
        at_limit = largest > self.info.limits.max_memory_allocation_size - PADDING_BYTES
        if untried >= trusted or heap_left < LOW_BYTES or at_limit:
            self._try(instance, parts, wanted, what, memory=at_limit or self.info.kind != "CPU")
            untried = 0
        self._unasked, self._untried = unasked, untried

    def _forget(self, claim: MemoryClaim) -> None:
        with self._lock:
            for heap, size in claim.bytes_by_heap.items():
                self._promised[heap] -= size
            self._allocation_count -= claim.allocation_count

    def _open_instance(self) -> Instance:
        if self._closed:
            raise DeviceRemovedError(f"Device {self.info.index}, {self.info.name}, is closed")
        return self._instance

    @property
    def _closed(self) -> bool:
        return not self._instance.alive

    def _check_size(self, request: MemoryRequest) -> None:
        size, limits = request.size_in_bytes, self.info.limits
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidArgumentError(f"{request.name}: a size in bytes must be a positive integer, got {size!r}")
        rules = {"Kompute's largest tensor": MAX_TENSOR_SIZE_IN_BYTES, **limits.buffer_limits}
        name, limit = min(rules.items(), key=lambda rule: rule[1])
        if size > limit:
            raise DeviceLimitError(
                f"{request.name}: {_in_words(size)} in one buffer; device {self.info.index}, {self.info.name}, can do "
                f"{_in_words(limit)} ({name})"
            )

    def _parts(self, request: MemoryRequest) -> list[BufferPart]:
        from dmlvk.runtime.vulkan.probe import BufferPart

        return [
            BufferPart(request.name + suffix, request.size_in_bytes, usage, self._memory_types[usage, device_local])
            for suffix, usage, device_local in _PARTS[request.kind]
        ]

    def _check_count(self, new: int) -> None:
        limit = self.info.limits.max_memory_allocation_count
        if self._allocation_count + new > limit:
            raise DeviceLimitError(
                f"{self._allocation_count} allocations exist and {new} more are wanted; device {self.info.index}, "
                f"{self.info.name}, can have {limit} at a time (max_memory_allocation_count)"
            )

    def _check_heaps(self, instance: Instance, wanted: dict[int, int], what: str) -> int:
        """The least that would be left in any of the heaps.

        Raises:
            OutOfMemoryError: less than nothing.
        """
        budget = instance.memory_budget(self._handle) if self._has_budget else None
        least_left = _PLENTY
        for index, size in wanted.items():
            heap = self.info.heaps[index]
            if budget is not None:
                available = max(0, budget.heapBudget[index] - budget.heapUsage[index])
            elif self.info.kind == "CPU":
                continue  # nominal: llvmpipe and SwiftShader say 2 GiB and allocate more
            else:
                available = heap.size_in_bytes - self._promised[index]
            if size > available:
                raise OutOfMemoryError(self._shortage(what, size, index, f"{_in_words(available)} are available"))
            least_left = min(least_left, available - size)
        return least_left

    def _check_host(self, wanted: dict[int, int], what: str) -> int:
        """What the operating system would have left, besides the reserve.

        Raises:
            OutOfMemoryError: less than nothing.
        """
        backed = [index for index in range(len(self.info.heaps)) if self._is_host_memory(index)]
        size = sum(wanted.get(index, 0) for index in backed)
        available = available_in_bytes() if size else None
        if available is None:
            return _PLENTY
        # Of what was promised, at most what the process occupies has been taken from the system so far.
        untouched = sum(self._promised[index] for index in backed) - (resident_in_bytes() or _PLENTY)
        left = max(0, available - max(0, untouched) - HOST_RESERVE_BYTES)
        if size > left:
            index = next(index for index in backed if index in wanted)
            raise OutOfMemoryError(
                self._shortage(what, size, index, f"the operating system has {_in_words(left)} to give")
            )
        return left - size

    def _check_addresses(self, wanted: dict[int, int], what: str) -> None:
        """Costs a few microseconds, so it is asked every time: many small buffers fill a limited process, too.

        Raises:
            OutOfMemoryError: the process may not have as many addresses more, and some to spare.
        """
        for heap, size in wanted.items():
            if self._is_host_memory(heap) and not can_reserve(size + SPARE_ADDRESSES):
                refusal = "the operating system refuses this process as much (ulimit -v?)"
                raise OutOfMemoryError(self._shortage(what, size, heap, refusal))

    def _is_host_memory(self, heap: int) -> bool:
        own_memory = self.info.kind in ("discrete GPU", "virtual GPU")
        return not (own_memory and self.info.heaps[heap].device_local)

    def _try(
        self, instance: Instance, parts: Sequence[BufferPart], wanted: dict[int, int], what: str, *, memory: bool
    ) -> None:
        """Have the driver make the buffers, with or without memory of its own, and free them."""
        from dmlvk.runtime.vulkan.probe import LogicalDevice

        size = sum(wanted.values())
        heap = max(wanted, key=lambda index: wanted[index])
        try:
            with LogicalDevice(instance, self._handle, self._queue_family) as device:
                device.try_allocating(parts, self.info.limits.max_memory_allocation_size, memory=memory)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(self._shortage(what, size, heap, f"the driver has less ({error})")) from error

    def _shortage(self, what: str, size: int, heap: int, available: str) -> str:
        kind = "device-local" if self.info.heaps[heap].device_local else "host"
        return (
            f"{what}: {_in_words(size)} wanted from the {kind} heap {heap} of device {self.info.index}, "
            f"{self.info.name}, which has {_in_words(self.info.heaps[heap].size_in_bytes)} in all; {available}"
        )

    def close(self) -> None:
        """Destroy the guard's Vulkan instance. Claims may still be released; new ones raise ``DeviceRemovedError``."""
        with self._lock:
            self._instance.close()

    def leave_to_parent(self) -> None:
        """Like :meth:`close`, in a process that was forked: the instance is left alone, being the parent's."""
        self._lock = threading.RLock()  # a thread of the parent may have it
        self._instance.leave_to_parent()

    def __enter__(self) -> MemoryGuard:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _names(requests: Sequence[MemoryRequest]) -> str:
    """What the requests are for: each name once, and not more than four of them."""
    names = list(dict.fromkeys(request.name for request in requests))
    more = [f"{len(names) - 3} more"] if len(names) > 4 else []
    return ", ".join(names[:3] + more if more else names)


def _in_words(size: int) -> str:
    """``1.50 GiB (1610612736 bytes)``."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.2f} {unit} ({size} bytes)"
    return f"{size} bytes"
