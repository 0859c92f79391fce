"""The Vulkan devices of this machine: what they are called, what they can do, and which one to take."""

from __future__ import annotations

import os
import re
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dmlvk.errors import DeviceNotFoundError
from dmlvk.runtime import validation

if TYPE_CHECKING:
    from dmlvk.runtime.vulkan import structures as vk
    from dmlvk.runtime.vulkan.loader import Instance

_Structure = TypeVar("_Structure", bound="vk.Extensible")

# What dmlvk's shaders and launches are written for; Vulkan 1.1 guarantees the last two, but only 128 invocations.
REQUIRED_INVOCATIONS = 256
REQUIRED_STORAGE_BUFFERS = 4
REQUIRED_PUSH_CONSTANT_BYTES = 128

_KINDS = {1: "integrated GPU", 2: "discrete GPU", 3: "virtual GPU", 4: "CPU"}  # VkPhysicalDeviceType
_PREFERRED_KINDS = ("discrete GPU", "integrated GPU", "virtual GPU", "CPU", "other")

_COMPONENT_TYPES = {
    0: "FLOAT16", 1: "FLOAT32", 2: "FLOAT64", 3: "INT8", 4: "INT16", 5: "INT32", 6: "INT64",
    7: "UINT8", 8: "UINT16", 9: "UINT32", 10: "UINT64", 1000141000: "BFLOAT16",
}  # fmt: skip
"""VkComponentTypeKHR."""
_SUBGROUP_SCOPE = 3  # VkScopeKHR
_COMPUTE_STAGE = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT
_SHUFFLES = 0x14  # VK_SUBGROUP_FEATURE_ARITHMETIC_BIT and _SHUFFLE_BIT

_NVIDIA = 0x10DE


@dataclass(frozen=True)
class MemoryHeap:
    """A pool of memory that the device allocates from.

    Attributes:
        size_in_bytes: all of it.
        device_local: whether it is the device's own memory (on a CPU device all memory is).
        budget_in_bytes: how much this process can expect to use in all, what it uses already included, when the
            snapshot was taken; None where the driver does not tell (extension VK_EXT_memory_budget).
    """

    size_in_bytes: int
    device_local: bool
    budget_in_bytes: int | None = None


@dataclass(frozen=True)
class MemoryType:
    """A way to allocate from a heap; Kompute takes the first type with the properties that it needs.

    Attributes:
        heap: index into the device's heaps.
        device_local: fastest for the device.
        host_visible: can be mapped.
        host_coherent: writes of either side are seen by the other without flushing.
    """

    heap: int
    device_local: bool
    host_visible: bool
    host_coherent: bool


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of a device, after VkPhysicalDeviceLimits; sizes and alignments are in bytes.

    Attributes:
        max_storage_buffer_range: the largest part of a buffer that a shader can be given.
        max_memory_allocation_size: the largest single allocation, padding by the driver included.
        max_memory_allocation_count: how many allocations may exist at a time.
        max_buffer_size: the largest buffer; None where the driver does not tell (Vulkan 1.3 or VK_KHR_maintenance4).
        max_compute_work_group_count: work groups of one dispatch in x, y and z.
        max_compute_work_group_size: invocations of one work group in x, y and z.
        max_compute_work_group_invocations: invocations of one work group in all.
        max_compute_shared_memory_size: shared memory of one work group.
        max_push_constants_size: push constants of one pipeline.
        max_per_stage_descriptor_storage_buffers: storage buffers that one shader can use.
        max_bound_descriptor_sets: descriptor sets that one pipeline can use.
        min_storage_buffer_offset_alignment: what offsets of storage buffers must be multiples of.
        min_memory_map_alignment: what addresses of mapped memory are multiples of.
        non_coherent_atom_size: what ranges to flush must be multiples of, for memory that is not host-coherent.
        subgroup_size: invocations that run in step; 0 where not known.
        min_subgroup_size: the fewest that a driver may make of it for a kernel; where it does not tell, the same.
        timestamp_period_in_nanoseconds: nanoseconds of one tick of a timestamp.
        timestamp_valid_bits: bits of a timestamp on the compute queue; 0 where it has none.
    """

    max_storage_buffer_range: int
    max_memory_allocation_size: int
    max_memory_allocation_count: int
    max_buffer_size: int | None
    max_compute_work_group_count: tuple[int, int, int]
    max_compute_work_group_size: tuple[int, int, int]
    max_compute_work_group_invocations: int
    max_compute_shared_memory_size: int
    max_push_constants_size: int
    max_per_stage_descriptor_storage_buffers: int
    max_bound_descriptor_sets: int
    min_storage_buffer_offset_alignment: int
    min_memory_map_alignment: int
    non_coherent_atom_size: int
    subgroup_size: int
    min_subgroup_size: int
    timestamp_period_in_nanoseconds: float
    timestamp_valid_bits: int

    @property
    def buffer_limits(self) -> dict[str, int]:
        """What bounds a buffer that a kernel is given whole, in bytes, by Vulkan's names."""
        names = ("max_storage_buffer_range", "max_memory_allocation_size", "max_buffer_size")
        return {name: limit for name in names if (limit := getattr(self, name))}

    @property
    def largest_buffer(self) -> int:
        """Bytes of the largest buffer that a kernel can be given whole."""
        return min(self.buffer_limits.values())


@dataclass(frozen=True)
class CooperativeMatrix:
    """A kind of matrices that a subgroup holds together and multiplies by one instruction.

    Attributes:
        rows: of the left operand and of the sums.
        columns: of the right operand and of the sums.
        terms: columns of the left operand and rows of the right one.
        left_type: what the left operand's elements are: ``FLOAT16``, ``INT8``.
        right_type: the same of the right operand.
        sum_type: the same of what is added to, and of the result.
    """

    rows: int
    columns: int
    terms: int
    left_type: str
    right_type: str
    sum_type: str


@dataclass(frozen=True)
class DeviceInfo:
    """A Vulkan device: a snapshot, in which only the heaps' budgets can grow old.

    Attributes:
        index: its position in Vulkan's list, which is the index that Kompute takes.
        name: what the driver calls the device.
        driver: what the driver calls itself; ``unknown`` where it does not tell.
        driver_version: in the driver's own words where it has some.
        kind: ``discrete GPU``, ``integrated GPU``, ``virtual GPU``, ``CPU`` or ``other``.
        api_version: the Vulkan version that it supports, ``1.3.230``.
        vendor_id: PCI vendor (or Khronos vendor number).
        device_id: the vendor's number of the device.
        uuid: what tells the device from all others, the same in every process and after a reboot; None where the
            driver gives none.
        pci_address: where it sits, ``0000:3b:00.0``; None where the driver does not tell (VK_EXT_pci_bus_info).
        memory: bytes of all device-local heaps together.
        heaps: its memory heaps.
        memory_types: its memory types, in the driver's order of preference.
        compute_queue_family: the queue family that Kompute is told to take: one that only computes, where there is one;
            None where none computes.
        limits: its limits.
        features: optional features that the device has, by Vulkan's names. dmlvk needs none.
        cooperative_matrices: the kinds of matrices that its subgroups multiply (VK_KHR_cooperative_matrix).
        usable: whether dmlvk can run on it.
        unusable_reason: why not, in one clause; None for a usable device.
        float_controls: what modules may demand of its FLOAT32 arithmetic, by Vulkan's names
            (VK_KHR_shader_float_controls).
        subgroups_shuffle: whether invocations of a kernel's subgroup read one another's numbers, and combine them.
    """

    index: int
    name: str
    driver: str
    driver_version: str
    kind: str
    api_version: str
    vendor_id: int
    device_id: int
    uuid: str | None
    pci_address: str | None
    memory: int
    heaps: tuple[MemoryHeap, ...]
    memory_types: tuple[MemoryType, ...]
    compute_queue_family: int | None
    limits: DeviceLimits
    features: tuple[str, ...]
    cooperative_matrices: tuple[CooperativeMatrix, ...]
    usable: bool
    unusable_reason: str | None
    float_controls: tuple[str, ...] = ()
    subgroups_shuffle: bool = False


_FLOAT_CONTROLS = (
    "shaderSignedZeroInfNanPreserveFloat32", "shaderDenormPreserveFloat32", "shaderRoundingModeRTEFloat32",
)  # fmt: skip

_INDEX_DIGITS = 9
_SHOWN_CHARACTERS = 200


def open_instance() -> Instance:
    """An instance of our own, validated when ``DMLVK_VALIDATION`` asks for it; to be closed by the caller."""
    from dmlvk.runtime.vulkan import loader, portability

    with validation.new_instance():
        loader.keep_drivers_loaded(with_portability=portability.kompute_lists_them())
        return loader.Instance(with_portability=portability.kompute_lists_them())


def list_devices() -> list[DeviceInfo]:
    """All Vulkan devices, usable or not, in Vulkan's and Kompute's order. Asks the drivers anew at every call.

    Raises:
        DeviceNotFoundError: no Vulkan loader, no driver, or no device; the message says what to install.
        ValidationLayerError: ``DMLVK_VALIDATION`` asks for a layer that is not installed.
    """
    from dmlvk.runtime.vulkan import loader

    try:
        with open_instance() as instance:
            devices = [describe(instance, index, handle) for index, handle in enumerate(instance.physical_devices())]
    except DeviceNotFoundError as error:
        raise DeviceNotFoundError(str(error) + _hidden_devices()) from error
    if not devices:
        raise DeviceNotFoundError(f"Vulkan lists no device. {loader.how_to_install()}{_hidden_devices()}")
    return devices


def _hidden_devices() -> str:
    """A sentence about devices that the loader keeps from an unchanged Kompute, which does not ask for them."""
    from dmlvk.runtime.vulkan import loader, portability

    try:
        if portability.kompute_lists_them() or not loader.offers_portability():
            return ""
        with loader.Instance(with_portability=True) as instance:
            handles = instance.physical_devices()
            names = [_text(instance.properties(handle).deviceName) for handle in handles]
    except DeviceNotFoundError:
        return ""
    if not names:
        return ""
    return (
        f" The loader hides {', '.join(names)}, whose driver is marked as a portability driver (MoltenVK): "
        "dmlvk's own Kompute asks for it (unset DMLVK_KOMPUTE)."
    )


def describe(instance: Instance, index: int, handle: int) -> DeviceInfo:
    """Everything that dmlvk wants to know about one physical device, its heaps' budgets included."""
    from dmlvk.runtime.vulkan import loader
    from dmlvk.runtime.vulkan import structures as vk

    properties = instance.properties(handle)
    extensions = instance.extensions(handle)
    version = min(properties.apiVersion & ~0xFFF, instance.api_version)
    extra = _ExtraFacts(instance, handle, version, extensions)
    memory = instance.memory_properties(handle)
    budgets = extra.budgets(memory.memoryHeapCount)
    heaps = tuple(
        MemoryHeap(heap.size, bool(heap.flags & vk.MEMORY_HEAP_DEVICE_LOCAL_BIT), budget)
        for heap, budget in zip(memory.memoryHeaps[: memory.memoryHeapCount], budgets, strict=True)
    )
    families = instance.queue_families(handle)
    compute = _compute_queue_family(families)
    limits = _limits(properties.limits, extra, 0 if compute is None else families[compute].timestampValidBits)
    types = tuple(_memory_type(memory.memoryTypes[i]) for i in range(memory.memoryTypeCount))
    too_old = None if version >= loader.API_VERSION_1_1 else _version_text(version)
    reason = _why_unusable(too_old, compute, limits, types)
    return DeviceInfo(
        index=index,
        name=_text(properties.deviceName),
        driver=extra.driver or "unknown",
        driver_version=extra.driver_version or _driver_version(properties.vendorID, properties.driverVersion),
        kind=_KINDS.get(properties.deviceType, "other"),
        api_version=_version_text(properties.apiVersion),
        vendor_id=properties.vendorID,
        device_id=properties.deviceID,
        uuid=extra.uuid,
        pci_address=extra.pci_address,
        memory=sum(heap.size_in_bytes for heap in heaps if heap.device_local),
        heaps=heaps,
        memory_types=types,
        compute_queue_family=compute,
        limits=limits,
        features=extra.features,
        cooperative_matrices=extra.cooperative_matrices(extensions),
        usable=reason is None,
        unusable_reason=reason,
        float_controls=extra.float_controls,
        subgroups_shuffle=extra.subgroups_shuffle,
    )


def _compute_queue_family(families: Sequence[vk.QueueFamilyProperties]) -> int | None:
    """The first queue family that computes, has a clock and does not draw, else the first that computes.

    A submission to a queue that draws, too, waits longer: of 17.6 and 13.3 µs that a small dispatch takes with both of
    its barriers (an NVIDIA H100, a program in C). What is drawn is not held up by what is computed, either.
    """
    from dmlvk.runtime.vulkan import structures as vk

    computing = [index for index, family in enumerate(families) if family.queueFlags & vk.QUEUE_COMPUTE_BIT]
    timed = [index for index in computing if families[index].timestampValidBits]
    apart = [index for index in timed if not families[index].queueFlags & vk.QUEUE_GRAPHICS_BIT]
    return next(iter((*apart, *computing)), None)


class _ExtraFacts:
    """Facts that Vulkan 1.0 does not tell. Each structure is only passed to a device that knows it."""

    def __init__(self, instance: Instance, handle: int, version: int, extensions: set[str]) -> None:
        from dmlvk.runtime.vulkan import loader

        self._instance, self._handle = instance, handle
        is_modern = version >= loader.API_VERSION_1_1  # has the calls that take a chain of structures
        self._has_budget = is_modern and "VK_EXT_memory_budget" in extensions
        self.subgroup_size = self.min_subgroup_size = 0
        self.max_memory_allocation_size: int | None = None
        self.max_buffer_size: int | None = None
        self.driver = self.driver_version = ""
        self.uuid: str | None = None
        self.pci_address: str | None = None
        self.float_controls: tuple[str, ...] = ()
        self.subgroups_shuffle = False
        if is_modern:
            self._read_properties(version, extensions)
        self.features = self._all_features(version, extensions)

    def _read_properties(self, version: int, extensions: set[str]) -> None:
        from dmlvk.runtime.vulkan import loader
        from dmlvk.runtime.vulkan import structures as vk

        subgroup, maintenance3 = vk.PhysicalDeviceSubgroupProperties(), vk.PhysicalDeviceMaintenance3Properties()
        identity = vk.PhysicalDeviceIDProperties()
        properties: list[vk.Extensible] = [vk.PhysicalDeviceProperties2(), subgroup, maintenance3, identity]

        def known(structure: type[_Structure], extension: str, since: int = sys.maxsize) -> _Structure | None:
            if version < since and extension not in extensions:
                return None
            properties.append(made := structure())
            return made

        of_1_3 = loader.API_VERSION_1_3
        driver = known(vk.PhysicalDeviceDriverProperties, "VK_KHR_driver_properties", loader.API_VERSION_1_2)
        maintenance4 = known(vk.PhysicalDeviceMaintenance4Properties, "VK_KHR_maintenance4", of_1_3)
        control = known(vk.PhysicalDeviceSubgroupSizeControlProperties, "VK_EXT_subgroup_size_control", of_1_3)
        # Vulkan 1.2's modules need not name the extension, but Kompute's instance is of 1.1.
        controls = known(vk.PhysicalDeviceFloatControlsProperties, "VK_KHR_shader_float_controls")
        bus = known(vk.PhysicalDevicePCIBusInfoProperties, "VK_EXT_pci_bus_info")
        self._instance.fill("vkGetPhysicalDeviceProperties2", self._handle, *properties)
        self.subgroup_size = self.min_subgroup_size = subgroup.subgroupSize
        is_in_kernels = subgroup.supportedStages & _COMPUTE_STAGE != 0
        self.subgroups_shuffle = is_in_kernels and subgroup.supportedOperations & _SHUFFLES == _SHUFFLES
        if control is not None:
            self.min_subgroup_size = min(control.minSubgroupSize or self.subgroup_size, self.subgroup_size)
        self.max_memory_allocation_size = maintenance3.maxMemoryAllocationSize
        if driver is not None:
            self.driver, self.driver_version = _text(driver.driverName), _text(driver.driverInfo)
        if maintenance4 is not None:
            self.max_buffer_size = maintenance4.maxBufferSize
        if controls is not None:
            self.float_controls = tuple(name for name in _FLOAT_CONTROLS if getattr(controls, name))
        if any(identity.deviceUUID):  # drivers that have no UUID to give leave zeros
            self.uuid = str(uuid.UUID(bytes=bytes(identity.deviceUUID)))
        if bus is not None:
            self.pci_address = f"{bus.pciDomain:04x}:{bus.pciBus:02x}:{bus.pciDevice:02x}.{bus.pciFunction:x}"

    def _all_features(self, version: int, extensions: set[str]) -> tuple[str, ...]:
        from dmlvk.runtime.vulkan import loader
        from dmlvk.runtime.vulkan import structures as vk

        if version < loader.API_VERSION_1_1:
            return _feature_names(self._instance.features(self._handle))
        core = vk.PhysicalDeviceFeatures2()
        known = vk.FEATURES.items()
        optional = [made() for name, (since, made) in known if name in extensions or (since and version >= since)]
        self._instance.fill("vkGetPhysicalDeviceFeatures2", self._handle, core, *optional)
        members = [(structure, field[0]) for structure in optional for field in type(structure)._fields_]
        return _feature_names(core.features) + tuple(name for structure, name in members if getattr(structure, name))

    def cooperative_matrices(self, extensions: set[str]) -> tuple[CooperativeMatrix, ...]:
        """The kinds of matrices that subgroups multiply, without saturation, of types that tensors or parts have."""
        if "cooperativeMatrix" not in self.features or "VK_KHR_cooperative_matrix" not in extensions:
            return ()
        return cooperative_matrices(self._instance.cooperative_matrices(self._handle))

    def budgets(self, heap_count: int) -> list[int | None]:
        if not self._has_budget:
            return [None] * heap_count
        return list(self._instance.memory_budget(self._handle).heapBudget[:heap_count])


def cooperative_matrices(rows: Sequence[vk.CooperativeMatrixProperties]) -> tuple[CooperativeMatrix, ...]:
    """Those of a device's kinds that subgroups multiply, without saturation, of types that tensors or parts have."""
    found = []
    for row in rows:
        kinds = [_COMPONENT_TYPES.get(kind) for kind in (row.AType, row.BType, row.CType, row.ResultType)]
        left, right, addend, result = kinds
        is_for_subgroups = row.scope == _SUBGROUP_SCOPE and not row.saturatingAccumulation
        if is_for_subgroups and left and right and addend and addend == result:
            found.append(CooperativeMatrix(row.MSize, row.NSize, row.KSize, left, right, addend))
    return tuple(found)


def _feature_names(features: vk.PhysicalDeviceFeatures) -> tuple[str, ...]:
    """Those of Vulkan 1.0's features that concern arithmetic and memory."""
    interesting = ("robustBufferAccess", "shaderFloat64", "shaderInt64", "shaderInt16")
    return tuple(name for name in interesting if getattr(features, name))


def _limits(limits: vk.PhysicalDeviceLimits, extra: _ExtraFacts, timestamp_valid_bits: int) -> DeviceLimits:
    count, size = limits.maxComputeWorkGroupCount, limits.maxComputeWorkGroupSize
    return DeviceLimits(
        max_storage_buffer_range=limits.maxStorageBufferRange,
        # Vulkan 1.1 guarantees 1 GiB, which is all that can be relied upon where the driver does not tell.
        max_memory_allocation_size=extra.max_memory_allocation_size or 1 << 30,
        max_memory_allocation_count=limits.maxMemoryAllocationCount,
        max_buffer_size=extra.max_buffer_size,
        max_compute_work_group_count=(count[0], count[1], count[2]),
        max_compute_work_group_size=(size[0], size[1], size[2]),
        max_compute_work_group_invocations=limits.maxComputeWorkGroupInvocations,
        max_compute_shared_memory_size=limits.maxComputeSharedMemorySize,
        max_push_constants_size=limits.maxPushConstantsSize,
        max_per_stage_descriptor_storage_buffers=limits.maxPerStageDescriptorStorageBuffers,
        max_bound_descriptor_sets=limits.maxBoundDescriptorSets,
        min_storage_buffer_offset_alignment=limits.minStorageBufferOffsetAlignment,
        min_memory_map_alignment=limits.minMemoryMapAlignment,
        non_coherent_atom_size=limits.nonCoherentAtomSize,
        subgroup_size=extra.subgroup_size,
        min_subgroup_size=extra.min_subgroup_size,
        timestamp_period_in_nanoseconds=limits.timestampPeriod,
        timestamp_valid_bits=timestamp_valid_bits,
    )


def _memory_type(memory_type: vk.VkMemoryType) -> MemoryType:
    from dmlvk.runtime.vulkan import structures as vk

    flags = memory_type.propertyFlags
    return MemoryType(
        heap=memory_type.heapIndex,
        device_local=bool(flags & vk.MEMORY_PROPERTY_DEVICE_LOCAL_BIT),
        host_visible=bool(flags & vk.MEMORY_PROPERTY_HOST_VISIBLE_BIT),
        host_coherent=bool(flags & vk.MEMORY_PROPERTY_HOST_COHERENT_BIT),
    )


def _why_unusable(
    too_old: str | None, compute: int | None, limits: DeviceLimits, types: Sequence[MemoryType]
) -> str | None:
    """The first requirement that is not met, as the end of a sentence that begins with the device's name."""
    invocations = min(limits.max_compute_work_group_invocations, limits.max_compute_work_group_size[0])
    buffers = limits.max_per_stage_descriptor_storage_buffers
    rules = (
        (
            too_old is not None,
            f"needs Vulkan 1.1, and loader and driver together offer {too_old}: update the graphics driver",
        ),
        (compute is None, "has no compute queue"),
        (invocations < REQUIRED_INVOCATIONS, f"needs work groups of {REQUIRED_INVOCATIONS}, has {invocations}"),
        (buffers < REQUIRED_STORAGE_BUFFERS, f"needs {REQUIRED_STORAGE_BUFFERS} storage buffers, has {buffers}"),
        (
            limits.max_push_constants_size < REQUIRED_PUSH_CONSTANT_BYTES,
            f"needs {REQUIRED_PUSH_CONSTANT_BYTES} bytes of push constants, has {limits.max_push_constants_size}",
        ),
        (not any(t.device_local for t in types), "has no device-local memory"),
        (not any(t.host_visible and t.host_coherent for t in types), "has no host-visible, host-coherent memory"),
    )
    return next((reason for broken, reason in rules if broken), None)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace").strip()


def _version_text(version: int) -> str:
    """``major.minor.patch`` of a packed Vulkan version."""
    return f"{version >> 22 & 0x7F}.{version >> 12 & 0x3FF}.{version & 0xFFF}"


def _driver_version(vendor_id: int, version: int) -> str:
    if vendor_id == _NVIDIA:
        return f"{version >> 22}.{version >> 14 & 0xFF}.{version >> 6 & 0xFF}.{version & 0x3F}"
    return _version_text(version)


def select_device(selector: int | str | None = None) -> DeviceInfo:
    """The device to run on.

    Args:
        selector: an index, a UUID, a PCI address (both also as ``nvidia-smi`` writes them), or a part of the device's
            name (upper and lower case do not matter; a name that is equal goes before names that contain it; digits
            are an index where there is a device of that index). None takes
            the environment variable ``DMLVK_DEVICE``, or else the best usable device: a discrete GPU before an
            integrated one before a virtual one before a CPU, and the lowest index among equals.

    Raises:
        DeviceNotFoundError: no device, or none that fits, or several do, or the chosen one cannot be used; the message
            lists the devices.
    """
    return choose(list_devices(), selector, os.environ.get("DMLVK_DEVICE", ""))


def choose(devices: Sequence[DeviceInfo], selector: int | str | None, default: str = "") -> DeviceInfo:
    """:func:`select_device` among given devices; ``default`` is what ``DMLVK_DEVICE`` says."""
    what = "device"
    if selector is None and default.strip():
        selector, what = default, "DMLVK_DEVICE"
    if selector is None:
        usable = [device for device in devices if device.usable]
        if not usable:
            raise _not_found("No Vulkan device here can be used", devices)
        return min(usable, key=lambda device: (_PREFERRED_KINDS.index(device.kind), device.index))
    if isinstance(selector, bool) or not isinstance(selector, (int, str)):
        raise _not_found(
            f"{what} must be an index, a UUID, a PCI address or a part of a name, got {selector!r}", devices
        )
    text = selector if isinstance(selector, str) else ""
    found = _matching(devices, selector)
    if not found:
        shown = repr(selector) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!r}…"
        raise _not_found(f"No Vulkan device matches {what} {shown}", devices)
    usable = [device for device in found if device.usable]
    if not usable:
        raise _not_found(f"The device that matches {what} {selector!r} {found[0].unusable_reason}", devices)
    if len(usable) > 1:
        raise _not_found(
            f"{what} {selector!r} matches {len(usable)} devices, give an index, a UUID or a PCI address", devices
        )
    return usable[0]


def _matching(devices: Sequence[DeviceInfo], selector: int | str) -> list[DeviceInfo]:
    text = selector.strip().lower() if isinstance(selector, str) else ""
    index = int(text) if text.isascii() and text.isdigit() and len(text) <= _INDEX_DIGITS else selector
    by_index = [device for device in devices if device.index == index]
    if by_index or not text:
        return by_index
    if wanted := _uuid(text):
        return [device for device in devices if device.uuid == wanted]
    if wanted := _pci_address(text):
        return [device for device in devices if device.pci_address == wanted]
    equal = [device for device in devices if device.name.lower() == text]
    return equal or [device for device in devices if text in device.name.lower()]


def _uuid(text: str) -> str | None:
    """A UUID as :class:`DeviceInfo` has it, of one with or without hyphens, also ``GPU-…``; None of anything else."""
    digits = text.removeprefix("gpu-").replace("-", "")
    return str(uuid.UUID(digits)) if re.fullmatch("[0-9a-f]{32}", digits) else None


def _pci_address(text: str) -> str | None:
    """A PCI address as :class:`DeviceInfo` has it, of one with or without a domain; None of anything else."""
    found = re.fullmatch(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", text)
    return f"{int(found[1] or '0', 16):04x}:{found[2]}" if found else None


def _not_found(problem: str, devices: Sequence[DeviceInfo]) -> DeviceNotFoundError:
    lines = [
        f"  {device.index}: {device.name} ({', '.join(_names_of(device))})"
        + ("" if device.usable else f", not usable: {device.unusable_reason}")
        for device in devices
    ]
    return DeviceNotFoundError("\n".join([f"{problem}. Devices:", *lines]))


def _names_of(device: DeviceInfo) -> list[str]:
    """What devices of one name are told apart by."""
    addresses = [] if device.pci_address is None else [f"PCI {device.pci_address}"]
    names = [] if device.uuid is None else [f"UUID {device.uuid}"]
    return [device.kind, device.driver, *addresses, *names]
