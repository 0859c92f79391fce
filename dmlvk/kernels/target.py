"""What the plan of a kernel may know of the device that runs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING

from dmlvk.datatypes import DataType
from dmlvk.spirv.specialization import NAIVE_DRIVERS

if TYPE_CHECKING:
    from dmlvk.runtime.vulkan import DeviceInfo

MAX_LOOP_ITERATIONS = 65535
"""llvmpipe ends loops, unasked, when an invocation has been through so many turns in all: who needs more takes several
launches."""


MOST_REGISTERS = 256
"""Of an invocation, as NVIDIA and AMD have them."""

_USUAL_SUBGROUP = 32
"""Invocations, for NVIDIA, Apple and most kernels of cooperative matrices."""

_WIDE_SUBGROUP = 64
"""The same for AMD, for which there are other kernels of cooperative matrices of FLOAT16."""

_TELL_OF_MATRICES_EVERYWHERE = frozenset(("AMD proprietary driver", "AMD open-source driver"))
"""AMD's own drivers, which tell of cooperative matrices for GPUs, too, that have no units for them (llama.cpp's
Vulkan backend knows such GPUs by name); Mesa's tells of them where there are."""

LANES = 8
"""Invocations of a processor's work group: of a subgroup by llvmpipe, where vectors have 256 bits."""

_COOPERATIVE_FEATURES = frozenset(("cooperativeMatrix", "vulkanMemoryModel", "vulkanMemoryModelDeviceScope"))
_BRAIN_FLOAT_FEATURES = frozenset(("shaderBFloat16Type", "shaderBFloat16CooperativeMatrix"))


@dataclasses.dataclass(frozen=True)
class Target:
    """A device, as far as the choice of kernels depends on it.

    No choice changes a bit of a result, but for the one that ``device_arithmetic`` permits.

    The defaults are what every Vulkan device that dmlvk runs on has.
    """

    # whether its shaders run on a processor: loads are dear there, barriers very much so, and both sides of a branch
    # are executed
    is_cpu: bool = False
    is_naive: bool = False  # whether its driver takes specialization constants for unknown when it optimizes
    shared_memory: int = 16384  # bytes of shared memory that a work group may have
    work_group_size: int = 256  # invocations that a work group may have
    buffers: int = 4  # storage buffers that a kernel may have
    buffer_size: int = 2**27  # bytes of a buffer that a kernel can reach
    # whether sums of products may be rounded as the device likes (ExecutionFlags.ALLOW_DEVICE_ARITHMETIC)
    device_arithmetic: bool = False
    # of 32 bits that its driver gives an invocation before some are kept in memory, or fewer: 64 where subgroups may
    # have fewer than 32 invocations (GPUs of Intel, Arm and Broadcom), 128 or 256 elsewhere
    registers: int = MOST_REGISTERS
    has_integer_dot_product: bool = False  # whether shaders may use SPIR-V's integer dot products
    has_half_arithmetic: bool = False  # whether shaders may compute with FLOAT16; those that do see whether it is exact
    # whether its subgroups of 32 invocations multiply matrices of 16 x 32 and 32 x 16 signed bytes together
    # (VK_KHR_cooperative_matrix)
    has_cooperative_bytes: bool = False
    # whether its subgroups of 32 or 64 invocations do so with matrices of 16 x 16 FLOAT16, whose sums are FLOAT32
    has_cooperative_halves: bool = False
    # whether those of 32 do so by right matrices of 16 x 8, too
    has_narrow_halves: bool = False
    # whether sums of such narrow ones, which lie as shaders/include/cooperative_quads.glsl has it, are exact up to 24
    # bits; it is tried
    has_exact_halves: bool = False
    # whether those of 32 do so with matrices of bfloat16 (VK_KHR_shader_bfloat16)
    has_cooperative_brain_floats: bool = False
    subgroup_size: int = _USUAL_SUBGROUP  # how many invocations multiply such matrices of FLOAT16 together

    # of a processor, whether its work groups of ``LANES`` invocations are subgroups that read one another's numbers
    has_shuffles: bool = False

    def multiplies_matrices_of(self, data_type: DataType) -> bool:
        """Whether its subgroups multiply matrices of a data type, or of the parts of its numbers."""
        return {
            DataType.FLOAT16: self.has_cooperative_halves,
            DataType.FLOAT32: self.has_cooperative_brain_floats,
        }.get(data_type, False)

    def without_matrices_of_floats(self) -> Target:
        """The same device, if it had no such matrices."""
        lacking = dict.fromkeys(("has_cooperative_halves", "has_exact_halves", "has_cooperative_brain_floats"), False)
        return dataclasses.replace(self, **lacking)

    @classmethod
    def of(cls, info: DeviceInfo, enabled_features: Collection[str] = ()) -> Target:
        """What the plan may know of a device.

        Args:
            enabled_features: Vulkan's names of the optional features with which it was opened.
        """
        limits = info.limits
        is_wide = limits.subgroup_size == _WIDE_SUBGROUP
        may_have_matrices = is_wide or limits.subgroup_size == _USUAL_SUBGROUP
        may_have_matrices = may_have_matrices and info.driver not in _TELL_OF_MATRICES_EVERYWHERE
        kinds = set(map(dataclasses.astuple, info.cooperative_matrices)) if may_have_matrices else set()
        halves = kinds if set(enabled_features) >= _COOPERATIVE_FEATURES else set()
        cooperative = set() if is_wide else halves
        return cls(
            is_cpu=info.kind == "CPU",
            is_naive=info.driver in NAIVE_DRIVERS,
            shared_memory=limits.max_compute_shared_memory_size,
            work_group_size=min(limits.max_compute_work_group_size[0], limits.max_compute_work_group_invocations),
            buffers=limits.max_per_stage_descriptor_storage_buffers,
            buffer_size=limits.max_storage_buffer_range,
            registers=_registers(info),
            has_integer_dot_product="shaderIntegerDotProduct" in enabled_features,
            has_half_arithmetic="shaderFloat16" in enabled_features,
            has_cooperative_bytes="shaderInt8" in enabled_features
            and (16, 16, 32, "INT8", "INT8", "INT32") in cooperative,
            has_cooperative_halves="shaderFloat16" in enabled_features
            and (16, 16, 16, "FLOAT16", "FLOAT16", "FLOAT32") in halves,
            has_narrow_halves="shaderFloat16" in enabled_features
            and (16, 8, 16, "FLOAT16", "FLOAT16", "FLOAT32") in cooperative,
            has_cooperative_brain_floats=set(enabled_features) >= _BRAIN_FLOAT_FEATURES
            and (16, 16, 16, "BFLOAT16", "BFLOAT16", "FLOAT32") in cooperative,
            subgroup_size=_WIDE_SUBGROUP if is_wide else _USUAL_SUBGROUP,
            has_shuffles=info.subgroups_shuffle and limits.subgroup_size == limits.min_subgroup_size == LANES,
        )


def _registers(info: DeviceInfo) -> int:
    """How many registers of 32 bits a device's driver gives an invocation."""
    if 0 < info.limits.min_subgroup_size < _USUAL_SUBGROUP:
        return 64
    # Mesa 22.3, which Debian 12 has, gives RDNA 3 half of what there is; Mesa 25.0 gives all, and calls it NAVI31.
    if info.driver == "radv" and info.driver_version.startswith("Mesa 22.") and "GFX11" in info.name:
        return MOST_REGISTERS // 2
    return MOST_REGISTERS


GPU = Target()
"""Any GPU, of which nothing else is known."""

CPU = Target(is_cpu=True)
"""A processor, of which nothing else is known."""
