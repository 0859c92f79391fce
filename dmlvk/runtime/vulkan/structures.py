"""Vulkan's own structures and constants, as ctypes, for the few calls that dmlvk makes.

Names, order and types are those of ``vulkan_core.h``; a structure is written out whole even where dmlvk reads two of
its members, because the driver fills all of it. ``tests/runtime/test_vulkan.py`` compares sizes and offsets with those
that a C compiler gives to the header's.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_char_p, c_float, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from itertools import pairwise
from typing import Any, ClassVar

MAX_MEMORY_TYPES = 32
MAX_MEMORY_HEAPS = 16

QUEUE_GRAPHICS_BIT = 0x1
QUEUE_COMPUTE_BIT = 0x2
MEMORY_HEAP_DEVICE_LOCAL_BIT = 0x1
MEMORY_PROPERTY_DEVICE_LOCAL_BIT = 0x1
MEMORY_PROPERTY_HOST_VISIBLE_BIT = 0x2
MEMORY_PROPERTY_HOST_COHERENT_BIT = 0x4
INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT = 0x1

SUCCESS = 0
INCOMPLETE = 5
ERROR_OUT_OF_HOST_MEMORY = -1
ERROR_OUT_OF_DEVICE_MEMORY = -2
ERROR_INITIALIZATION_FAILED = -3
ERROR_DEVICE_LOST = -4
ERROR_EXTENSION_NOT_PRESENT = -7
ERROR_INCOMPATIBLE_DRIVER = -9
ERROR_TOO_MANY_OBJECTS = -10

RESULT_NAMES = {
    SUCCESS: "VK_SUCCESS",
    1: "VK_NOT_READY",
    2: "VK_TIMEOUT",
    INCOMPLETE: "VK_INCOMPLETE",
    ERROR_OUT_OF_HOST_MEMORY: "VK_ERROR_OUT_OF_HOST_MEMORY",
    ERROR_OUT_OF_DEVICE_MEMORY: "VK_ERROR_OUT_OF_DEVICE_MEMORY",
    ERROR_INITIALIZATION_FAILED: "VK_ERROR_INITIALIZATION_FAILED",
    ERROR_DEVICE_LOST: "VK_ERROR_DEVICE_LOST",
    -5: "VK_ERROR_MEMORY_MAP_FAILED",
    -6: "VK_ERROR_LAYER_NOT_PRESENT",
    ERROR_EXTENSION_NOT_PRESENT: "VK_ERROR_EXTENSION_NOT_PRESENT",
    -8: "VK_ERROR_FEATURE_NOT_PRESENT",
    ERROR_INCOMPATIBLE_DRIVER: "VK_ERROR_INCOMPATIBLE_DRIVER",
    ERROR_TOO_MANY_OBJECTS: "VK_ERROR_TOO_MANY_OBJECTS",
    -13: "VK_ERROR_UNKNOWN",
    -1000011001: "VK_ERROR_VALIDATION_FAILED_EXT",
    -1000174001: "VK_ERROR_NOT_PERMITTED_KHR",
}


def _members(ctype: Any, names: str) -> Any:
    """Several members of one type, in order."""
    return [(name, ctype) for name in names.split()]


class Extensible(ctypes.Structure):
    """The head of every structure that has a ``pNext``; a new one carries its own ``sType``."""

    structure_type: ClassVar[int]
    _fields_ = [("sType", c_int32), ("pNext", c_void_p)]

    def __init__(self) -> None:
        super().__init__(self.structure_type)


class ApplicationInfo(Extensible):
    structure_type = 0
    _fields_ = [
        ("pApplicationName", c_char_p),
        ("applicationVersion", c_uint32),
        ("pEngineName", c_char_p),
        ("engineVersion", c_uint32),
        ("apiVersion", c_uint32),
    ]


class InstanceCreateInfo(Extensible):
    structure_type = 1
    _fields_ = [
        ("flags", c_uint32),
        ("pApplicationInfo", ctypes.POINTER(ApplicationInfo)),
        ("enabledLayerCount", c_uint32),
        ("ppEnabledLayerNames", ctypes.POINTER(c_char_p)),
        ("enabledExtensionCount", c_uint32),
        ("ppEnabledExtensionNames", ctypes.POINTER(c_char_p)),
    ]


class DeviceQueueCreateInfo(Extensible):
    structure_type = 2
    _fields_ = [
        ("flags", c_uint32),
        ("queueFamilyIndex", c_uint32),
        ("queueCount", c_uint32),
        ("pQueuePriorities", ctypes.POINTER(c_float)),
    ]


class DeviceCreateInfo(Extensible):
    structure_type = 3
    _fields_ = [
        ("flags", c_uint32),
        ("queueCreateInfoCount", c_uint32),
        ("pQueueCreateInfos", ctypes.POINTER(DeviceQueueCreateInfo)),
        ("enabledLayerCount", c_uint32),
        ("ppEnabledLayerNames", ctypes.POINTER(c_char_p)),
        ("enabledExtensionCount", c_uint32),
        ("ppEnabledExtensionNames", ctypes.POINTER(c_char_p)),
        ("pEnabledFeatures", c_void_p),
    ]


class BufferCreateInfo(Extensible):
    structure_type = 12
    _fields_ = [
        ("flags", c_uint32), ("size", c_uint64), ("usage", c_uint32), ("sharingMode", c_int32),
        ("queueFamilyIndexCount", c_uint32), ("pQueueFamilyIndices", c_void_p),
    ]  # fmt: skip


class MemoryAllocateInfo(Extensible):
    structure_type = 5
    _fields_ = [("allocationSize", c_uint64), ("memoryTypeIndex", c_uint32)]


class MemoryRequirements(ctypes.Structure):
    _fields_ = [("size", c_uint64), ("alignment", c_uint64), ("memoryTypeBits", c_uint32)]


class LayerProperties(ctypes.Structure):
    _fields_ = [
        ("layerName", c_char * 256),
        ("specVersion", c_uint32),
        ("implementationVersion", c_uint32),
        ("description", c_char * 256),
    ]


class ExtensionProperties(ctypes.Structure):
    _fields_ = [("extensionName", c_char * 256), ("specVersion", c_uint32)]


class QueueFamilyProperties(ctypes.Structure):
    _fields_ = [
        ("queueFlags", c_uint32),
        ("queueCount", c_uint32),
        ("timestampValidBits", c_uint32),
        ("minImageTransferGranularity", c_uint32 * 3),
    ]


class VkMemoryType(ctypes.Structure):
    _fields_ = [("propertyFlags", c_uint32), ("heapIndex", c_uint32)]


class MemoryHeapProperties(ctypes.Structure):
    _fields_ = [("size", c_uint64), ("flags", c_uint32)]


class PhysicalDeviceMemoryProperties(ctypes.Structure):
    _fields_ = [
        ("memoryTypeCount", c_uint32),
        ("memoryTypes", VkMemoryType * MAX_MEMORY_TYPES),
        ("memoryHeapCount", c_uint32),
        ("memoryHeaps", MemoryHeapProperties * MAX_MEMORY_HEAPS),
    ]


class PhysicalDeviceLimits(ctypes.Structure):
    _fields_ = [
        *_members(c_uint32, "maxImageDimension1D maxImageDimension2D maxImageDimension3D maxImageDimensionCube"),
        *_members(c_uint32, "maxImageArrayLayers maxTexelBufferElements maxUniformBufferRange maxStorageBufferRange"),
        *_members(c_uint32, "maxPushConstantsSize maxMemoryAllocationCount maxSamplerAllocationCount"),
        *_members(c_uint64, "bufferImageGranularity sparseAddressSpaceSize"),
        *_members(c_uint32, "maxBoundDescriptorSets maxPerStageDescriptorSamplers maxPerStageDescriptorUniformBuffers"),
        *_members(c_uint32, "maxPerStageDescriptorStorageBuffers maxPerStageDescriptorSampledImages"),
        *_members(c_uint32, "maxPerStageDescriptorStorageImages maxPerStageDescriptorInputAttachments"),
        *_members(c_uint32, "maxPerStageResources maxDescriptorSetSamplers maxDescriptorSetUniformBuffers"),
        *_members(c_uint32, "maxDescriptorSetUniformBuffersDynamic maxDescriptorSetStorageBuffers"),
        *_members(c_uint32, "maxDescriptorSetStorageBuffersDynamic maxDescriptorSetSampledImages"),
        *_members(c_uint32, "maxDescriptorSetStorageImages maxDescriptorSetInputAttachments"),
        *_members(c_uint32, "maxVertexInputAttributes maxVertexInputBindings maxVertexInputAttributeOffset"),
        *_members(c_uint32, "maxVertexInputBindingStride maxVertexOutputComponents maxTessellationGenerationLevel"),
        *_members(c_uint32, "maxTessellationPatchSize maxTessellationControlPerVertexInputComponents"),
        *_members(c_uint32, "maxTessellationControlPerVertexOutputComponents"),
        *_members(c_uint32, "maxTessellationControlPerPatchOutputComponents"),
        *_members(c_uint32, "maxTessellationControlTotalOutputComponents maxTessellationEvaluationInputComponents"),
        *_members(c_uint32, "maxTessellationEvaluationOutputComponents maxGeometryShaderInvocations"),
        *_members(c_uint32, "maxGeometryInputComponents maxGeometryOutputComponents maxGeometryOutputVertices"),
        *_members(c_uint32, "maxGeometryTotalOutputComponents maxFragmentInputComponents"),
        *_members(c_uint32, "maxFragmentOutputAttachments maxFragmentDualSrcAttachments"),
        *_members(c_uint32, "maxFragmentCombinedOutputResources maxComputeSharedMemorySize"),
        ("maxComputeWorkGroupCount", c_uint32 * 3),
        ("maxComputeWorkGroupInvocations", c_uint32),
        ("maxComputeWorkGroupSize", c_uint32 * 3),
        *_members(c_uint32, "subPixelPrecisionBits subTexelPrecisionBits mipmapPrecisionBits"),
        *_members(c_uint32, "maxDrawIndexedIndexValue maxDrawIndirectCount"),
        *_members(c_float, "maxSamplerLodBias maxSamplerAnisotropy"),
        ("maxViewports", c_uint32),
        ("maxViewportDimensions", c_uint32 * 2),
        ("viewportBoundsRange", c_float * 2),
        ("viewportSubPixelBits", c_uint32),
        ("minMemoryMapAlignment", c_size_t),
        *_members(c_uint64, "minTexelBufferOffsetAlignment minUniformBufferOffsetAlignment"),
        *_members(c_uint64, "minStorageBufferOffsetAlignment"),
        ("minTexelOffset", c_int32),
        ("maxTexelOffset", c_uint32),
        ("minTexelGatherOffset", c_int32),
        ("maxTexelGatherOffset", c_uint32),
        *_members(c_float, "minInterpolationOffset maxInterpolationOffset"),
        *_members(c_uint32, "subPixelInterpolationOffsetBits maxFramebufferWidth maxFramebufferHeight"),
        *_members(c_uint32, "maxFramebufferLayers framebufferColorSampleCounts framebufferDepthSampleCounts"),
        *_members(c_uint32, "framebufferStencilSampleCounts framebufferNoAttachmentsSampleCounts maxColorAttachments"),
        *_members(c_uint32, "sampledImageColorSampleCounts sampledImageIntegerSampleCounts"),
        *_members(c_uint32, "sampledImageDepthSampleCounts sampledImageStencilSampleCounts storageImageSampleCounts"),
        *_members(c_uint32, "maxSampleMaskWords timestampComputeAndGraphics"),
        ("timestampPeriod", c_float),
        *_members(c_uint32, "maxClipDistances maxCullDistances maxCombinedClipAndCullDistances"),
        ("discreteQueuePriorities", c_uint32),
        ("pointSizeRange", c_float * 2),
        ("lineWidthRange", c_float * 2),
        *_members(c_float, "pointSizeGranularity lineWidthGranularity"),
        *_members(c_uint32, "strictLines standardSampleLocations"),
        *_members(c_uint64, "optimalBufferCopyOffsetAlignment optimalBufferCopyRowPitchAlignment nonCoherentAtomSize"),
    ]


class PhysicalDeviceProperties(ctypes.Structure):
    """VkPhysicalDeviceProperties, its sparse properties spelled out at the end."""

    _fields_ = [
        *_members(c_uint32, "apiVersion driverVersion vendorID deviceID"),
        ("deviceType", c_int32),
        ("deviceName", c_char * 256),
        ("pipelineCacheUUID", c_uint8 * 16),
        ("limits", PhysicalDeviceLimits),
        ("sparseProperties", c_uint32 * 5),
    ]


class PhysicalDeviceFeatures(ctypes.Structure):
    """VkPhysicalDeviceFeatures: 55 booleans, of which the arithmetic ones are of interest here."""

    _fields_ = [
        *_members(c_uint32, "robustBufferAccess fullDrawIndexUint32 imageCubeArray independentBlend geometryShader"),
        *_members(c_uint32, "tessellationShader sampleRateShading dualSrcBlend logicOp multiDrawIndirect"),
        *_members(c_uint32, "drawIndirectFirstInstance depthClamp depthBiasClamp fillModeNonSolid depthBounds"),
        *_members(c_uint32, "wideLines largePoints alphaToOne multiViewport samplerAnisotropy textureCompressionETC2"),
        *_members(c_uint32, "textureCompressionASTC_LDR textureCompressionBC occlusionQueryPrecise"),
        *_members(c_uint32, "pipelineStatisticsQuery vertexPipelineStoresAndAtomics fragmentStoresAndAtomics"),
        *_members(c_uint32, "shaderTessellationAndGeometryPointSize shaderImageGatherExtended"),
        *_members(c_uint32, "shaderStorageImageExtendedFormats shaderStorageImageMultisample"),
        *_members(c_uint32, "shaderStorageImageReadWithoutFormat shaderStorageImageWriteWithoutFormat"),
        *_members(c_uint32, "shaderUniformBufferArrayDynamicIndexing shaderSampledImageArrayDynamicIndexing"),
        *_members(c_uint32, "shaderStorageBufferArrayDynamicIndexing shaderStorageImageArrayDynamicIndexing"),
        *_members(c_uint32, "shaderClipDistance shaderCullDistance shaderFloat64 shaderInt64 shaderInt16"),
        *_members(c_uint32, "shaderResourceResidency shaderResourceMinLod sparseBinding sparseResidencyBuffer"),
        *_members(c_uint32, "sparseResidencyImage2D sparseResidencyImage3D sparseResidency2Samples"),
        *_members(c_uint32, "sparseResidency4Samples sparseResidency8Samples sparseResidency16Samples"),
        *_members(c_uint32, "sparseResidencyAliased variableMultisampleRate inheritedQueries"),
    ]


class PhysicalDeviceProperties2(Extensible):
    """VkPhysicalDeviceProperties2."""

    structure_type = 1000059001
    _fields_ = [("properties", PhysicalDeviceProperties)]


class PhysicalDeviceFeatures2(Extensible):
    """VkPhysicalDeviceFeatures2."""

    structure_type = 1000059000
    _fields_ = [("features", PhysicalDeviceFeatures)]


class PhysicalDeviceMemoryProperties2(Extensible):
    """VkPhysicalDeviceMemoryProperties2."""

    structure_type = 1000059006
    _fields_ = [("memoryProperties", PhysicalDeviceMemoryProperties)]


class PhysicalDeviceMemoryBudgetProperties(Extensible):
    structure_type = 1000237000
    _fields_ = [("heapBudget", c_uint64 * MAX_MEMORY_HEAPS), ("heapUsage", c_uint64 * MAX_MEMORY_HEAPS)]


class PhysicalDeviceSubgroupProperties(Extensible):
    """VkPhysicalDeviceSubgroupProperties (Vulkan 1.1)."""

    structure_type = 1000094000
    _fields_ = _members(c_uint32, "subgroupSize supportedStages supportedOperations quadOperationsInAllStages")


class PhysicalDeviceSubgroupSizeControlProperties(Extensible):
    """VkPhysicalDeviceSubgroupSizeControlProperties (Vulkan 1.3, VK_EXT_subgroup_size_control)."""

    structure_type = 1000225000
    _fields_ = _members(
        c_uint32, "minSubgroupSize maxSubgroupSize maxComputeWorkgroupSubgroups requiredSubgroupSizeStages"
    )


class PhysicalDeviceIDProperties(Extensible):
    """VkPhysicalDeviceIDProperties (Vulkan 1.1)."""

    structure_type = 1000071004
    _fields_ = [
        ("deviceUUID", c_uint8 * 16),
        ("driverUUID", c_uint8 * 16),
        ("deviceLUID", c_uint8 * 8),
        *_members(c_uint32, "deviceNodeMask deviceLUIDValid"),
    ]


class PhysicalDevicePCIBusInfoProperties(Extensible):
    """VkPhysicalDevicePCIBusInfoPropertiesEXT (VK_EXT_pci_bus_info)."""

    structure_type = 1000212000
    _fields_ = _members(c_uint32, "pciDomain pciBus pciDevice pciFunction")


class PhysicalDeviceMaintenance3Properties(Extensible):
    """VkPhysicalDeviceMaintenance3Properties (Vulkan 1.1)."""

    structure_type = 1000168000
    _fields_ = [("maxPerSetDescriptors", c_uint32), ("maxMemoryAllocationSize", c_uint64)]


class PhysicalDeviceMaintenance4Properties(Extensible):
    """VkPhysicalDeviceMaintenance4Properties (Vulkan 1.3 or VK_KHR_maintenance4)."""

    structure_type = 1000413001
    _fields_ = [("maxBufferSize", c_uint64)]


class PhysicalDeviceDriverProperties(Extensible):
    """VkPhysicalDeviceDriverProperties (Vulkan 1.2 or VK_KHR_driver_properties)."""

    structure_type = 1000196000
    _fields_ = [
        ("driverID", c_int32),
        ("driverName", c_char * 256),
        ("driverInfo", c_char * 256),
        ("conformanceVersion", c_uint8 * 4),
    ]


class PhysicalDeviceFloatControlsProperties(Extensible):
    """VkPhysicalDeviceFloatControlsProperties (Vulkan 1.2 or VK_KHR_shader_float_controls)."""

    structure_type = 1000197000
    _fields_ = [
        *_members(c_int32, "denormBehaviorIndependence roundingModeIndependence"),
        *_members(c_uint32, "shaderSignedZeroInfNanPreserveFloat16 shaderSignedZeroInfNanPreserveFloat32"),
        *_members(c_uint32, "shaderSignedZeroInfNanPreserveFloat64 shaderDenormPreserveFloat16"),
        *_members(c_uint32, "shaderDenormPreserveFloat32 shaderDenormPreserveFloat64 shaderDenormFlushToZeroFloat16"),
        *_members(c_uint32, "shaderDenormFlushToZeroFloat32 shaderDenormFlushToZeroFloat64"),
        *_members(c_uint32, "shaderRoundingModeRTEFloat16 shaderRoundingModeRTEFloat32 shaderRoundingModeRTEFloat64"),
        *_members(c_uint32, "shaderRoundingModeRTZFloat16 shaderRoundingModeRTZFloat32 shaderRoundingModeRTZFloat64"),
    ]


def _features(structure_type: int, names: str) -> type[Extensible]:
    """A structure of features of an extension: a boolean each."""
    return type("Features", (Extensible,), {"structure_type": structure_type, "_fields_": _members(c_uint32, names)})


FEATURES: dict[str, tuple[int | None, type[Extensible]]] = {
    "VK_KHR_16bit_storage": (
        1 << 22 | 1 << 12,
        _features(
            1000083000,
            "storageBuffer16BitAccess uniformAndStorageBuffer16BitAccess storagePushConstant16 storageInputOutput16",
        ),
    ),
    "VK_KHR_8bit_storage": (
        1 << 22 | 2 << 12,
        _features(1000177000, "storageBuffer8BitAccess uniformAndStorageBuffer8BitAccess storagePushConstant8"),
    ),
    "VK_KHR_shader_float16_int8": (1 << 22 | 2 << 12, _features(1000082000, "shaderFloat16 shaderInt8")),
    # Vulkan 1.3's shaders need not name these, but Kompute's.
    "VK_KHR_shader_integer_dot_product": (None, _features(1000280000, "shaderIntegerDotProduct")),
    "VK_KHR_vulkan_memory_model": (
        None,
        _features(
            1000211000,
            "vulkanMemoryModel vulkanMemoryModelDeviceScope vulkanMemoryModelAvailabilityVisibilityChains",
        ),
    ),
    "VK_KHR_cooperative_matrix": (
        None,
        _features(1000506000, "cooperativeMatrix cooperativeMatrixRobustBufferAccess"),
    ),
    "VK_KHR_shader_bfloat16": (
        None,
        _features(1000141000, "shaderBFloat16Type shaderBFloat16DotProduct shaderBFloat16CooperativeMatrix"),
    ),
}
"""By extension: the version of Vulkan from which on it need not be named, and its structure."""


class CooperativeMatrixProperties(Extensible):
    """VkCooperativeMatrixPropertiesKHR: a kind of matrices that a device multiplies."""

    structure_type = 1000506001
    _fields_ = [
        *_members(c_uint32, "MSize NSize KSize"),
        *_members(c_int32, "AType BType CType ResultType"),
        ("saturatingAccumulation", c_uint32),
        ("scope", c_int32),
    ]


def chain(*structures: Extensible) -> Extensible:
    """Link structures through ``pNext`` in the order given; the first is what a Vulkan call takes."""
    for before, after in pairwise(structures):
        before.pNext = ctypes.addressof(after)
    return structures[0]
