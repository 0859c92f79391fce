"""Lowers CAST: an access order through elements, by the widths of the two data types."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.kernels.elementwise.elementwise import lower_elementwise_shader
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement.copies import copy
from dmlvk.kernels.program import Program, ProgramBuilder, of_kernel
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ACCESS_ORDERS, ShaderVariant, elementwise_variant
from dmlvk.kernels.views import View
from dmlvk.operators.cast import Cast
from dmlvk.tensors import TensorDesc

_BY_WIDTH = {8: DataType.UINT8, 16: DataType.UINT16, 32: DataType.UINT32, 64: DataType.UINT64}

_TOLD = 16  # A bit that makes the number of two kinds of data type no 0, which would say nothing


@lowering(Cast)
def lower(desc: Cast, target: Target) -> Program:
    """The program that computes a checked description on a device."""
    source, result = desc.input_tensor, desc.output_tensor
    if source.data_type is result.data_type:
        builder = ProgramBuilder(desc, target)
        read = (builder.reads["input_tensor"], View.of(source))
        copy(builder, read, (builder.writes["output_tensor"], View.of(result)), source.data_type.size_in_bits)
        return builder.program()
    kernel = lower_elementwise_shader(desc.operator_name, "CAST", (_by_width(source), _by_width(result)), target)
    kinds = _kind(source.data_type) | _kind(result.data_type) << 2 | _TOLD
    return of_kernel(desc, dataclasses.replace(kernel, special_attribute=kinds))


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for source, result, access_order in itertools.product(_BY_WIDTH.values(), _BY_WIDTH.values(), ACCESS_ORDERS):
        yield elementwise_variant("CAST", "conversion/cast.comp", (source, result), access_order, {})


def _by_width(tensor: TensorDesc) -> TensorDesc:
    return dataclasses.replace(tensor, data_type=_BY_WIDTH[tensor.data_type.size_in_bits])


def _kind(data_type: DataType) -> int:
    """As ``cast.comp`` counts: without a sign, with one, float."""
    return 2 if data_type.is_float else int(data_type.name.startswith("INT"))
