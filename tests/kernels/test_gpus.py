"""What is chosen for GPUs that are not here, by properties that drivers tell: it fits, whatever a subgroup has."""

from __future__ import annotations

import dataclasses

import pytest

import dmlvk as dml
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import Target
from dmlvk.operators import OperatorDesc
from dmlvk.runtime.vulkan import CooperativeMatrix, DeviceInfo, list_devices
from dmlvk.spirv import opcodes
from dmlvk.spirv.specialization import specialized
from scripts.shader_tools.spirv import Module, UnknownSizeError
from tests.kernels.test_limits import products

_HALVES = CooperativeMatrix(16, 16, 16, "FLOAT16", "FLOAT16", "FLOAT32")
_BYTES = CooperativeMatrix(16, 16, 32, "INT8", "INT8", "INT32")
_XMX = CooperativeMatrix(8, 8, 16, "FLOAT16", "FLOAT16", "FLOAT32")
_XMX_OF_XE2 = CooperativeMatrix(8, 16, 16, "FLOAT16", "FLOAT16", "FLOAT32")
_FEATURES = {
    "cooperativeMatrix", "vulkanMemoryModel", "vulkanMemoryModelDeviceScope", "shaderInt8", "shaderFloat16",
    "shaderIntegerDotProduct",
}  # fmt: skip

_FEWEST = {"RX 7900, RADV": 32, "Arc A770": 8, "Arc B580": 16, "UHD 620": 8}
"""Invocations of a subgroup that a driver may make, where these are fewer than it tells of all."""

_GPUS: dict[str, tuple[int, int, int, int, tuple[CooperativeMatrix, ...]]] = {
    "RX 7900, RADV": (64, 65536, 1024, 2**23 - 2, (_HALVES,)),
    "AMD proprietary driver": (64, 65536, 1024, 200, (_HALVES,)),
    "RTX 4090": (32, 49152, 1024, 2**20, (_HALVES, _BYTES)),
    "Arc A770": (32, 65536, 1024, 200, (_XMX,)),
    "Arc A770, eights": (8, 65536, 1024, 200, (_XMX,)),
    "Arc B580": (32, 131072, 1024, 2**25, (_XMX_OF_XE2,)),
    "UHD 620": (32, 32768, 896, 64, ()),
    "Adreno 740": (64, 32768, 1024, 24, ()),
    "Adreno 740, turnip": (128, 32768, 1024, 200, ()),
    "Mali G715": (16, 32768, 512, 64, ()),
    "Apple M2, MoltenVK": (32, 32768, 1024, 31, ()),
    "Raspberry Pi 5, v3dv": (16, 16384, 256, 8, ()),
    "llvmpipe, 128 bits": (4, 32768, 1024, 32, ()),
    "SwiftShader": (4, 16384, 256, 16, ()),
}
"""Invocations of a subgroup, bytes of shared memory, invocations of a work group, storage buffers of a shader, matrices
that a subgroup multiplies; as vulkan.gpuinfo.org and drivers' sources have them."""


def _target(name: str) -> Target:
    subgroup_size, shared_memory, invocations, buffers, matrices = _GPUS[name]
    info: DeviceInfo = list_devices()[0]
    limits = dataclasses.replace(
        info.limits,
        subgroup_size=subgroup_size,
        min_subgroup_size=_FEWEST.get(name, subgroup_size),
        max_compute_shared_memory_size=shared_memory,
        max_compute_work_group_invocations=invocations,
        max_compute_work_group_size=(invocations, invocations, 64),
        max_per_stage_descriptor_storage_buffers=buffers,
        max_storage_buffer_range=2**27,
    )
    described = dataclasses.replace(
        info, kind="discrete GPU", driver=name, limits=limits, cooperative_matrices=matrices
    )
    return dataclasses.replace(Target.of(described, _FEATURES), device_arithmetic=True)


def _descriptions() -> list[OperatorDesc]:
    """A product of each kind and size; what is summed, compared or normalized along short, usual and long axes."""
    found = [desc for data_type in (dml.FLOAT32, dml.FLOAT16, dml.INT8) for desc in list(products(data_type))[::3]]
    for data_type in (dml.FLOAT32, dml.FLOAT16):
        for sizes in ((1, 1, 4096, 17), (1, 8, 512, 512), (1, 1, 1, 2**20)):
            tensor, row = dml.TensorDesc(data_type, sizes), dml.TensorDesc(data_type, (*sizes[:3], 1))
            along = {"InputTensor": tensor, "AxisCount": 1, "Axes": [3]}
            found += [
                dml.operator_desc("ACTIVATION_SOFTMAX1", **along, OutputTensor=tensor),
                dml.operator_desc("REDUCE", **along, OutputTensor=row, Function=dml.ReduceFunction.SUM),
                dml.operator_desc(
                    "CUMULATIVE_SUMMATION",
                    InputTensor=tensor,
                    OutputTensor=tensor,
                    Axis=3,
                    AxisDirection=dml.AxisDirection.INCREASING,
                    HasExclusiveSum=False,
                ),
            ]
    return found


def _shared_memory(spirv: bytes, constants: tuple[int, ...]) -> int:
    module = Module(spirv)
    shared = module.global_variables(opcodes.WORKGROUP)
    try:
        return sum(module.natural_layout(module.pointee(each))[0] for each in shared)
    except UnknownSizeError:  # decided by the constants
        return _shared_memory(specialized(spirv, constants), ())


@pytest.mark.parametrize("name", _GPUS)
def test_what_is_chosen_fits(name: str) -> None:
    target = _target(name)
    seen: set[tuple[str, tuple[int, ...]]] = set()
    buffers = _GPUS[name][3]
    for desc in _descriptions():
        for step in lower(desc, target).steps:
            kernel = step.kernel
            assert kernel.work_group_size <= target.work_group_size, kernel.variant
            assert len(step.reads) + len(step.writes) <= buffers, kernel.variant
            constants = kernel.specialization((0,) * (len(step.reads) + len(step.writes)))
            if (kernel.variant, constants) not in seen:
                seen.add((kernel.variant, constants))
                assert _shared_memory(kernel.spirv(), constants) <= target.shared_memory, kernel.variant
    assert len(seen) >= 10


def test_matrices_of_subgroups_are_multiplied_where_there_are_kernels_for_such() -> None:
    found = {name for name in _GPUS if _target(name).has_cooperative_halves or _target(name).has_cooperative_bytes}
    assert found == {"RTX 4090", "RX 7900, RADV"}
    for name in found:
        steps = (step for desc in products(dml.FLOAT16) for step in lower(desc, _target(name)).steps)
        variants = {step.kernel.variant for step in steps if ".cooperative." in step.kernel.variant}
        assert {".of64" in variant for variant in variants} == {name == "RX 7900, RADV"}


def test_an_invocation_has_at_most_sixteen_sums_where_registers_are_few() -> None:
    wide = dict.fromkeys(_GPUS, False)
    for name in _GPUS:
        for desc in products(dml.FLOAT32):
            for step in lower(desc, dataclasses.replace(_target(name), device_arithmetic=False)).steps:
                wide[name] |= any(size in step.kernel.variant for size in ("64x128", "128x64"))
    few = {"Arc A770", "Arc A770, eights", "Arc B580", "UHD 620", "Mali G715", "Raspberry Pi 5, v3dv"}
    assert {name for name, is_wide in wide.items() if not is_wide} == few | {"llvmpipe, 128 bits", "SwiftShader"}


@pytest.mark.parametrize(
    ("name", "version", "fewest", "registers"),
    [
        ("AMD Radeon RX 7900 XTX (RADV GFX1100)", "Mesa 22.3.6", 32, 128),  # as Debian 12 has it
        ("AMD Radeon RX 7900 XTX (RADV NAVI31)", "Mesa 25.0.7-2", 32, 256),
        ("AMD Radeon 890M Graphics (RADV GFX1150)", "Mesa 25.0.7-2", 32, 256),
        ("AMD Radeon RX 6800 (RADV NAVI21)", "Mesa 22.3.6", 32, 256),
        ("Intel(R) Arc(tm) A770 Graphics (DG2)", "Mesa 22.3.6", 8, 64),
        ("an unknown GPU", "1.0", 0, 256),
    ],
)
def test_registers_follow_from_what_a_driver_tells(name: str, version: str, fewest: int, registers: int) -> None:
    info: DeviceInfo = list_devices()[0]
    limits = dataclasses.replace(info.limits, min_subgroup_size=fewest)
    driver = "radv" if "RADV" in name else "another"
    described = dataclasses.replace(info, name=name, driver=driver, driver_version=version, limits=limits)
    assert Target.of(described).registers == registers


def test_sums_of_columns_have_larger_work_groups_unless_subgroups_are_wide() -> None:
    """GCN's registers do not suffice for 1024 invocations of a work group."""
    source, total = (dml.TensorDesc(dml.FLOAT32, (1, 1, rows, 2**16)) for rows in (4096, 1))
    desc = dml.Reduce(function=dml.ReduceFunction.SUM, input_tensor=source, output_tensor=total, axis_count=1, axes=[2])
    largest = {
        name: max(step.kernel.work_group_size for step in lower(desc, _target(name)).steps)
        for name in ("RTX 4090", "RX 7900, RADV")
    }
    assert largest == {"RTX 4090": 1024, "RX 7900, RADV": 512}
