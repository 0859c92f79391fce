"""Lowers WEIGHED_TAPS to one kernel: shaders/patterns/windows/weighed_taps.comp."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.resampling import WeighedTaps
from dmlvk.operators.type_groups import FLOATS


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for source, result in itertools.product(FLOATS, repeat=2):
        types = {"INPUT": source, "OUTPUT": result}
        defines = {name: data_type.name.lower() for name, data_type in types.items()}
        defines |= {f"{name}_BITS": str(data_type.size_in_bits) for name, data_type in types.items()}
        yield ShaderVariant(_name(source, result), "patterns/windows/weighed_taps.comp", tuple(sorted(defines.items())))


def _name(source: DataType, result: DataType) -> str:
    return f"weighed_taps.{source.name.lower()}.{result.name.lower()}"


@lowering(WeighedTaps)
def lower(desc: WeighedTaps, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    _, length, inner = desc.input_tensor.sizes
    places, taps = desc.index_tensor.sizes
    elements = math.prod(desc.output_tensor.sizes)
    items = -(-elements * desc.output_tensor.data_type.size_in_bits // 32)
    kernel = PlainKernel(
        _name(desc.input_tensor.data_type, desc.output_tensor.data_type),
        launch_size(desc.operator_name, items),
        {"TAPS": taps, "GROUP": min(desc.group, taps)},
        (items, elements, length, places, inner),
    )
    reads = [builder.reads[name] for name in ("input_tensor", "index_tensor", "weight_tensor")]
    builder.launch(kernel, reads, [builder.writes["output_tensor"]])
    return builder.program()
