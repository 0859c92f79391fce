"""Structures of Vulkan lie in memory as its headers have them."""

from __future__ import annotations

import ctypes

import pytest

from dmlvk.runtime.vulkan import structures as vk

# sizeof and offsetof that GCC 12 gives to vulkan_core.h 1.3.239 on x86-64; every 64-bit platform has the same.
SIZES = {
    "ApplicationInfo": 48,
    "InstanceCreateInfo": 64,
    "DeviceQueueCreateInfo": 40,
    "DeviceCreateInfo": 72,
    "BufferCreateInfo": 56,
    "MemoryAllocateInfo": 32,
    "MemoryRequirements": 24,
    "LayerProperties": 520,
    "ExtensionProperties": 260,
    "QueueFamilyProperties": 24,
    "PhysicalDeviceMemoryProperties": 520,
    "PhysicalDeviceLimits": 504,
    "PhysicalDeviceProperties": 824,
    "PhysicalDeviceFeatures": 220,
    "PhysicalDeviceProperties2": 840,
    "PhysicalDeviceFeatures2": 240,
    "PhysicalDeviceMemoryProperties2": 536,
    "PhysicalDeviceMemoryBudgetProperties": 272,
    "PhysicalDeviceSubgroupProperties": 32,
    "PhysicalDeviceIDProperties": 64,
    "PhysicalDevicePCIBusInfoProperties": 32,
    "PhysicalDeviceMaintenance3Properties": 32,
    "PhysicalDeviceMaintenance4Properties": 24,
    "PhysicalDeviceDriverProperties": 536,
    "PhysicalDevice16BitStorageFeatures": 32,
    "PhysicalDevice8BitStorageFeatures": 32,
    "PhysicalDeviceShaderFloat16Int8Features": 24,
    "PhysicalDeviceVulkanMemoryModelFeatures": 32,
    # Of a later header, 1.3.255.
    "PhysicalDeviceCooperativeMatrixFeatures": 24,
    "CooperativeMatrixProperties": 56,
}
OFFSETS = {
    ("PhysicalDeviceLimits", "maxComputeSharedMemorySize"): 216,
    ("PhysicalDeviceLimits", "minMemoryMapAlignment"): 304,
    ("PhysicalDeviceLimits", "timestampPeriod"): 424,
    ("PhysicalDeviceLimits", "nonCoherentAtomSize"): 496,
    ("PhysicalDeviceFeatures", "shaderInt16"): 164,
    ("PhysicalDeviceProperties", "limits"): 296,
}


@pytest.mark.parametrize("name", SIZES)
def test_structures_are_as_large_as_the_headers(name: str) -> None:
    assert ctypes.sizeof(getattr(vk, name)) == SIZES[name]


@pytest.mark.parametrize(("structure", "member"), OFFSETS)
def test_members_are_where_the_header_puts_them(structure: str, member: str) -> None:
    assert getattr(getattr(vk, structure), member).offset == OFFSETS[structure, member]
