"""Lowers operators that take regions of interest out of images: shaders/regions/."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dmlvk.datatypes import float32_bits
from dmlvk.kernels.constants import numbered
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.regions import RoiPooling, pooling_scale
from dmlvk.operators.type_groups import FLOATS

TAPS = 32768  # Elements of a bin that a launch goes through: fewer than the turns that every driver lets a loop have


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for data_type in FLOATS:
        name = data_type.name.lower()
        defines = (("INPUT", name), ("INPUT_BITS", str(data_type.size_in_bits)))
        yield ShaderVariant(f"roi_pooling.{name}", "patterns/windows/roi_pooling.comp", defines)


@lowering(RoiPooling)
def lower(desc: RoiPooling, target: Target) -> Program:
    """The program that computes a checked description."""
    source, regions, result = desc.input_tensor, desc.roi_tensor, desc.output_tensor
    elements = math.prod(result.sizes)
    groups = launch_size(desc.operator_name, elements)
    batches, channels, height, width = source.sizes
    geometry = {
        "SCALE": float32_bits(pooling_scale(desc)),
        "BATCHES": batches,
        "CHANNELS": channels,
        "HEIGHT": height,
        "WIDTH": width,
        "POOLED_HEIGHT": desc.pooled_size.height,
        "POOLED_WIDTH": desc.pooled_size.width,
        **numbered("INPUT_STRIDE", source.element_strides),
        **numbered("REGION_STRIDE", regions.element_strides),
        **numbered("OUTPUT_STRIDE", result.element_strides),
    }
    builder = ProgramBuilder(desc, target)
    reads = [builder.reads["input_tensor"], builder.reads["roi_tensor"]]
    for first in range(0, source.sizes[2] * source.sizes[3], TAPS):
        kernel = PlainKernel(
            variant=f"roi_pooling.{result.data_type.name.lower()}",
            work_groups=groups,
            constants=geometry,
            parameters=(elements, first),
        )
        builder.launch(kernel, reads, [builder.writes["output_tensor"]])
    return builder.program()
