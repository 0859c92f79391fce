"""Nothing is launched that a device has no room for: its limits are asked before a kernel is chosen."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.samples.products import convolution_desc
from dmlvk.datatypes import DataType
from dmlvk.kernels import library
from dmlvk.kernels.composed import matrix_attention
from dmlvk.kernels.kernel import Kernel
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products import integer_products, matrix_tiles, packed_products
from dmlvk.kernels.target import CPU, GPU, Target
from dmlvk.operators import OperatorDesc
from dmlvk.spirv import opcodes
from scripts.shader_tools.spirv import Module

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


def products(data_type: DataType) -> Iterator[OperatorDesc]:
    """GEMMs of all shapes, and convolutions; integer ones for integers."""
    for batches, rows, terms, columns in _SHAPES:
        a, b = (dml.TensorDesc(data_type, (1, batches, *sizes)) for sizes in ((rows, terms), (terms, columns)))
        if data_type.is_float:
            out = dml.TensorDesc(data_type, (1, batches, rows, columns))
            none = dml.MatrixTransform.NONE
            yield dml.Gemm(
                a_tensor=a,
                b_tensor=b,
                output_tensor=out,
                trans_a=none,
                trans_b=none,
                alpha=1,
                beta=0,
                fused_activation=None,
            )
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
        matrix_tiles.sums_variant(family, data_type, has_epilogue=has_epilogue).name: (matrix_tiles.SUMS_INVOCATIONS, 0)
        for family in matrix_tiles.FAMILIES
        for data_type in matrix_tiles.TYPES
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
        for family in matrix_tiles.FAMILIES
        for has_dot_product in (False, True)
    }
    for_more_memory = {  # devices with cooperative matrices have more, which is asked for first, as for tiles of 8x8
        tile.variant(family, has_dot_product=False).name: (tile.invocations, tile.shared_memory)
        for tile in packed_products.COOPERATIVE_TILES
        for family in matrix_tiles.FAMILIES
    }
    plans |= for_more_memory
    for_more_memory |= {name: plan for name, plan in plans.items() if ".cooperative." in name or ".8x8" in name}
    plans |= {f"{family}_integer.packed_operand": (128, 0) for family in matrix_tiles.FAMILIES}
    plans["packed_sums"] = (64, 256)
    assert set(plans) >= {variant.name for variant in matrix_tiles.matrix_variants()}
    for name, (invocations, memory) in plans.items():
        module = Module(library.load(name))
        (mode,) = (m for m in module.named("OpExecutionMode") if m.operands[1] == opcodes.EXECUTION_MODE_LOCAL_SIZE)
        assert tuple(mode.operands[2:]) == (invocations, 1, 1), name
        shared = module.global_variables(opcodes.WORKGROUP)
        assert sum(module.natural_layout(module.pointee(each))[0] for each in shared) <= memory, name
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
    none = dml.MatrixTransform.NONE
    desc = dml.Gemm(
        a_tensor=tensor,
        b_tensor=tensor,
        output_tensor=out,
        trans_a=none,
        trans_b=none,
        alpha=1,
        beta=0,
        fused_activation=None,
    )
    with pytest.raises(dml.DeviceLimitError, match=r"^GEMM: .* invocations; at most 4294901760 can be launched"):
        lower(desc, GPU)
