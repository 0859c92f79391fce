"""Launches keep the limits of every device, of twelve GPUs too; sizes of work groups and volumes."""

from __future__ import annotations

import dataclasses
import itertools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.samples.products import convolution_desc
from dmlvk.datatypes import DataType
from dmlvk.kernels import library
from dmlvk.kernels.composed import matrix_attention
from dmlvk.kernels.kernel import Kernel
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products import integer_products, matrix_tile, matrix_tiles, packed_integers, packed_products
from dmlvk.kernels.target import CPU, GPU, Target
from dmlvk.operators import OperatorDesc
from dmlvk.operators.type_groups import FLOATS
from dmlvk.runtime.vulkan import CooperativeMatrix, DeviceInfo, list_devices
from dmlvk.spirv import opcodes
from dmlvk.spirv.constant_names import constants_of
from dmlvk.spirv.flattening import flattened
from dmlvk.spirv.specialization import specialized
from dmlvk.spirv.volume import called_words
from scripts.shader_tools.spirv import Module, UnknownSizeError
from tests.operators.test_indexed import Caches
from tests.targets import kernel_of

_LEAST_SHARED_MEMORY, _LEAST_INVOCATIONS, _LEAST_WORK_GROUPS = 16384, 128, 65535
"""What Vulkan asks of every device: maxComputeSharedMemorySize, …WorkGroupInvocations and …WorkGroupCount."""

LEAST = [
    dataclasses.replace(device, shared_memory=_LEAST_SHARED_MEMORY, work_group_size=_LEAST_INVOCATIONS)
    for device in (GPU, CPU, Target(is_cpu=True, is_naive=True), Target(device_arithmetic=True))
]

_IDS = ["GPU", "processor", "naive processor", "device arithmetic"]

_SHAPES = [
    (batches, rows, terms, columns)
    for batches, (rows, columns), terms in itertools.product(
        (1, 3000), ((1, 1), (1, 20000), (20000, 1), (17, 33), (4096, 4096), (64, 100000)), (1, 70, 1025, 2**20)
    )
    if batches * max(rows * columns, rows * terms, terms * columns) < 2**32
]


def _gemm(a: dml.TensorDesc, b: dml.TensorDesc, out: dml.TensorDesc) -> dml.Gemm:
    members: dict[str, Any] = {**dict.fromkeys(("trans_a", "trans_b"), dml.MatrixTransform.NONE), "alpha": 1, "beta": 0}
    return dml.Gemm(a_tensor=a, b_tensor=b, output_tensor=out, **members)


def products(data_type: DataType) -> Iterator[OperatorDesc]:
    """GEMMs of all shapes, and convolutions; integer ones for integers."""
    for batches, rows, terms, columns in _SHAPES:
        a, b = (dml.TensorDesc(data_type, (1, batches, *sizes)) for sizes in ((rows, terms), (terms, columns)))
        if data_type.is_float:
            out = dml.TensorDesc(data_type, (1, batches, rows, columns))
            yield _gemm(a, b, out)
        else:
            out = dml.TensorDesc(dml.INT32, (1, batches, rows, columns))
            yield dml.MatrixMultiplyInteger(a_tensor=a, b_tensor=b, output_tensor=out)
    options: list[tuple[Any, Any, dict[str, Any]]] = [
        ((32, 64, 56, 56), (64, 64, 3, 3), {}),
        ((32, 128, 56, 56), (128, 1, 3, 3), {"groups": 128}),
        ((1, 512, 7, 7), (512, 512, 3, 3), {}),
        ((1, 3, 224, 224), (64, 3, 7, 7), {"strides": (2, 2)}),
        ((1, 3000, 9, 9), (2, 3000, 9, 9), {}),
    ]
    if data_type.is_float:
        for sizes, window, more in options:
            yield convolution_desc(data_type, sizes, window, **more)


def kernels(desc: OperatorDesc, target: Target) -> list[Kernel]:
    return [step.kernel for step in lower(desc, target).steps]


@pytest.mark.parametrize("target", LEAST, ids=_IDS)
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16, dml.INT8], ids=lambda t: t.name)
def test_products_fit_the_least_device_that_vulkan_has(data_type: DataType, target: Target) -> None:
    count = 0
    larger = [tile.name for tile in matrix_tiles.TILES if tile.shared_memory > _LEAST_SHARED_MEMORY]
    for desc in products(data_type):
        for kernel in kernels(desc, target):
            count += 1
            assert not any(f".{name}" in kernel.variant for name in larger), f"{kernel.variant}, of more shared memory"
            assert kernel.work_group_size <= _LEAST_INVOCATIONS, kernel.variant
            assert max(kernel.work_groups) <= _LEAST_WORK_GROUPS, kernel.variant
    assert count > 40


@pytest.mark.sweep  # which compiles all of them; scripts/check_shaders.py knows Vulkan's limits, too
def test_modules_have_the_work_groups_and_the_shared_memory_that_the_plan_counts_on() -> None:
    """Of every product's kernel: what is compiled is what the plan asks the limits for."""
    plans = {
        tile.variant(family, data_type, target, has_epilogue=has_epilogue).name: (tile.invocations, tile.shared_memory)
        for tile in (*matrix_tiles.TILES, *matrix_tiles.COOPERATIVE, *matrix_tiles.OF_CHANNELS)
        for family in tile.families
        for data_type in tile.types
        for target in (GPU, Target(device_arithmetic=True))
        for has_epilogue in {
            False,
            tile.may_have_epilogue and family == "convolution",
            tile.may_have_product_epilogue and family == "gemm",
        }
    }
    plans |= {
        matrix_tile.sums_variant(family, data_type, has_epilogue=has_epilogue).name: (matrix_tile.SUMS_INVOCATIONS, 0)
        for family in matrix_tile.FAMILIES
        for data_type in matrix_tile.TYPES
        for has_epilogue in {False, family == "convolution" or data_type is dml.FLOAT16}
    }
    for flat in matrix_tiles.FLAT_COOPERATIVE_BY_SUBGROUP.values():
        packed = flat.variant("gemm", dml.FLOAT16, GPU, is_packed=True)
        plans[packed.name] = (flat.invocations, flat.shared_memory)
    plans |= {tile.variant.name: (tile.invocations, tile.shared_memory) for tile in matrix_attention.TILES}
    plans |= {variant.name: (64, 0) for variant in integer_products.variants()}
    plans |= {
        tile.variant(family, has_dot_product).name: (tile.invocations, tile.shared_memory)
        for tile in packed_products.TILES
        for family in matrix_tile.FAMILIES
        for has_dot_product in (False, True)
    }
    for_more_memory = {  # devices with cooperative matrices have more, which is asked for first, as for tiles of 8x8
        tile.variant(family, has_dot_product=False).name: (tile.invocations, tile.shared_memory)
        for tile in packed_products.COOPERATIVE_TILES
        for family in matrix_tile.FAMILIES
    }
    plans |= for_more_memory
    for_more_memory |= {name: plan for name, plan in plans.items() if ".cooperative." in name or ".8x8" in name}
    plans |= {f"{family}_integer.packed_operand": (128, 0) for family in matrix_tile.FAMILIES}
    plans["packed_sums"] = (64, 256)
    assert set(plans) >= {variant.name for variant in matrix_tiles.matrix_variants()}
    for name, (invocations, memory) in plans.items():
        module = Module(library.load(name))
        (mode,) = (m for m in module.named("OpExecutionMode") if m.operands[1] == opcodes.EXECUTION_MODE_LOCAL_SIZE)
        assert tuple(mode.operands[2:]) == (invocations, 1, 1), name
        assert shared_memory(library.load(name)) <= memory, name
        assert memory <= _LEAST_SHARED_MEMORY or name in for_more_memory, name


@pytest.mark.parametrize("target", [*LEAST[:2], GPU, CPU], ids=[*_IDS[:2], "any GPU", "any processor"])
def test_every_operator_fits_or_is_refused_by_name(target: Target) -> None:
    """Devices with work groups of fewer than 256 are not opened; a plan for one refuses what does not fit."""
    refused = 0
    for case in sample_cases():
        desc = next(iter(case.samples())).desc
        try:
            made = kernels(desc, target)
        except dml.DeviceLimitError as error:
            refused += 1
            assert "needs work groups of" in str(error) and str(error).endswith(f"has {target.work_group_size}")
            continue
        assert all(kernel.work_group_size <= target.work_group_size for kernel in made)
        assert all(max(kernel.work_groups) <= _LEAST_WORK_GROUPS for kernel in made)
    assert (refused > 0) == (target.work_group_size < 256)


def test_no_program_begins_with_a_step_that_waits_for_nobody() -> None:
    """What its first step follows is another operator's, which may have written the same memory."""
    for case in sample_cases():
        first = lower(next(iter(case.samples())).desc, GPU).steps[:1]
        assert not any(step.is_independent for step in first), case.name


def test_more_work_groups_than_vulkan_guarantees_are_refused() -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (2**16, 2**14, 1, 1), (0, 0, 0, 0))
    out = dml.TensorDesc(dml.FLOAT32, (2**16, 2**14, 1, 1))
    with pytest.raises(dml.DeviceLimitError, match=r"^GEMM: .* invocations; at most 4294901760 can be launched"):
        lower(_gemm(tensor, tensor, out), GPU)


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


def shared_memory(spirv: bytes, constants: tuple[int, ...] = ()) -> int:
    module = Module(spirv)
    shared = module.global_variables(opcodes.WORKGROUP)
    try:
        return sum(module.natural_layout(module.pointee(each))[0] for each in shared)
    except UnknownSizeError:  # decided by the constants
        return shared_memory(specialized(spirv, constants))


def test_attention_and_rows_of_packed_weights_have_the_shared_memory_that_is_asked_for() -> None:
    for data_type, size, memory, registers in itertools.product(FLOATS, (64, 128), (2**14, 2**15), (64, 128, 256)):
        target = Target(shared_memory=memory, buffers=16, registers=registers)
        launched = [step.kernel for step in lower(Caches(40, 300, size, {}).desc(data_type), target).steps]
        tiles = [kernel for kernel in launched if ".tiles." in kernel.variant]
        assert len(tiles) == (memory == 2**15)
        assert all(shared_memory(kernel.spirv(), kernel.specialization(())) <= memory for kernel in tiles)
    kernels = itertools.chain(*map(packed_integers.rows_kernels, (None, *FLOATS)))
    for kernel in itertools.islice(kernels, 0, None, 13):
        spirv = library.load(kernel.variant(GPU).name)
        known = constants_of(spirv)
        names = {number: name for name, number in known.ids.items()}
        constants = tuple(kernel.constants().get(names.get(number, ""), 1) for number in range(known.count))
        assert shared_memory(spirv, constants) == kernel.shared_memory, kernel


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
                assert shared_memory(kernel.spirv(), constants) <= target.shared_memory, kernel.variant
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


def _exp(elements: int) -> OperatorDesc:
    tensor = dml.TensorDesc(dml.FLOAT32, (elements,))
    return dml.ElementWiseExp(input_tensor=tensor, output_tensor=tensor)


def _softmax(length: int) -> OperatorDesc:
    tensor = dml.TensorDesc(dml.FLOAT32, (64, length))
    return dml.ActivationSoftmax(input_tensor=tensor, output_tensor=tensor)


def _sizes(spirv: bytes, directory: Path) -> tuple[int, int]:
    """The execution mode's size and the built-in one's, as SPIRV-Tools show them."""
    (directory / "shader.spv").write_bytes(spirv)
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", directory / "shader.spv"], check=True)
    command = ["spirv-dis", "--raw-id", str(directory / "shader.spv")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    mode = re.search(r"OpExecutionMode %\d+ LocalSize (\d+) 1 1", text)
    name = re.search(r"OpDecorate (%\d+) BuiltIn WorkgroupSize", text)
    assert mode and name
    composite = re.search(rf"{name[1]} = OpConstantComposite %\d+ (%\d+) ", text)
    assert composite
    constant = re.search(rf" {composite[1]} = OpConstant %\d+ (\d+)", text)
    assert constant
    return int(mode[1]), int(constant[1])


@pytest.mark.parametrize(
    ("desc", "size"),
    [(_exp(1000), 256), (_exp(2**24), 128), (_softmax(1000), 128), (_softmax(3000), 256), (_softmax(10000), 256)],
    ids=["one vector", "two vectors", "64 lanes", "256 lanes", "long rows"],
)
def test_both_sizes_in_a_module_are_the_kernels(desc: OperatorDesc, size: int, tmp_path: Path) -> None:
    kernel = kernel_of(desc)
    assert kernel.work_group_size == size
    assert _sizes(kernel.spirv(), tmp_path) == (size, size)
    assert _sizes(flattened(specialized(kernel.spirv(), kernel.specialization((0, 0)))), tmp_path) == (size, size)


_FMA, _CLAMP = 50, 43


def instruction(opcode: int, *operands: int) -> list[int]:
    return [(1 + len(operands)) << 16 | opcode, *operands]


@pytest.mark.parametrize(("called", "words"), [(_FMA, 5 + 2 * 7), (_CLAMP, 5 + 2 * (7 + 5 + 8))])
def test_multiplying_and_adding_at_once_is_one_instruction(called: int, words: int) -> None:
    """Two calls of a function that does nothing else count as two instructions; other functions count in full."""
    inner, outer, main, buffer = 10, 11, 12, 2
    module = [0x07230203, 0x00010300, 0, 100, 0]
    module += instruction(59, 1, buffer, 12)  # a variable in a storage buffer
    module += instruction(54, 1, inner, 0, 1) + instruction(12, 1, 20, 3, called, 4, 5, 6) + instruction(56)
    module += instruction(54, 1, outer, 0, 1)
    module += 2 * instruction(57, 1, 21, inner, 4, 5, 6)
    module += instruction(56)
    module += instruction(54, 1, main, 0, 1) + instruction(65, 1, 22, buffer, 7)
    module += instruction(57, 1, 23, outer) + instruction(56)
    assert called_words(np.array(module, np.uint32).tobytes()) == words
