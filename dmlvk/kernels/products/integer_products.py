"""Lowers products and convolutions of 8-bit integers: in tiles of packed operands, or by one kernel.

That one has several launches where there are many terms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.products import packed_products
from dmlvk.kernels.products.convolution import convolution_product, tap_stride
from dmlvk.kernels.products.matrix import Product, gemm_product
from dmlvk.kernels.products.packed_products import PackedOperand
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Convolution, ElementWiseIdentity, Gemm, MatrixTransform
from dmlvk.operators.convolution import ConvolutionDirection, ConvolutionMode
from dmlvk.operators.integer_products import ConvolutionInteger, MatrixMultiplyInteger
from dmlvk.tensors import TensorDesc

_BLOCK, _INVOCATIONS = 4, 64
"""As in ``shaders/patterns/products/integer_products.glsl``."""

_SEGMENTS_AT_ONCE = 32
"""Segments of 1024 terms that a launch adds: llvmpipe ends loops, unasked, after 65535 iterations."""

_TYPES = (DataType.INT8, DataType.UINT8)


@lowering(MatrixMultiplyInteger)
def lower_matrix(desc: MatrixMultiplyInteger, target: Target) -> Program:
    alike = Gemm(
        a_tensor=desc.a_tensor,
        b_tensor=desc.b_tensor,
        output_tensor=desc.output_tensor,
        trans_a=MatrixTransform.NONE,
        trans_b=MatrixTransform.NONE,
        alpha=1.0,
        beta=0.0,
        fused_activation=None,
    )
    product = gemm_product(alike)
    others = list(product.others)
    others[4] = stride_of(desc.a_zero_point_tensor)  # addend_row
    builder = ProgramBuilder(desc, target)
    left, right = builder.reads["a_tensor"], builder.reads["b_tensor"]
    zeros = builder.reads.get("a_zero_point_tensor"), builder.reads.get("b_zero_point_tensor")
    others[-2] = stride_of(desc.b_zero_point_tensor)  # in the place of Alpha
    types = desc.a_tensor.data_type, desc.b_tensor.data_type
    _add(builder, dataclasses.replace(product, others=tuple(others)), types, (left, right), zeros)
    return builder.program()


@lowering(ConvolutionInteger)
def lower_convolution(desc: ConvolutionInteger, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    window, region = desc.filter_tensor, builder.reads["filter_tensor"]
    if tap_stride(window) is None:
        packed = TensorDesc(window.data_type, window.sizes)
        copied = builder.scratch(packed.size_in_bytes)
        copy = ElementWiseIdentity(input_tensor=window, output_tensor=packed)
        builder.operator(copy, [region], [copied], "the filter, packed")
        window, region = packed, copied
    alike = Convolution(
        input_tensor=desc.input_tensor,
        filter_tensor=window,
        output_tensor=desc.output_tensor,
        mode=ConvolutionMode.CROSS_CORRELATION,
        direction=ConvolutionDirection.FORWARD,
        dimension_count=desc.dimension_count,
        strides=desc.strides,
        dilations=desc.dilations,
        start_padding=desc.start_padding,
        end_padding=desc.end_padding,
        output_padding=(0,) * desc.dimension_count,
        group_count=desc.group_count,
        fused_activation=None,
    )
    product = convolution_product(alike, window)
    words = (stride_of(desc.filter_zero_point_tensor), *product.others[1:])
    zeros = builder.reads.get("filter_zero_point_tensor"), builder.reads.get("input_zero_point_tensor")
    types = desc.filter_tensor.data_type, desc.input_tensor.data_type
    # What is packed goes along the terms, where neighbours of a convolution's input never lie.
    product = dataclasses.replace(product, others=words, right_has_vectors=False)
    _add(builder, product, types, (region, builder.reads["input_tensor"]), zeros)
    return builder.program()


def stride_of(tensor: TensorDesc | None) -> int:
    """From one element to the next of a tensor that has no more than one axis of several; 0 where there is one only."""
    if tensor is None:
        return 0
    return max((s for n, s in zip(tensor.sizes, tensor.element_strides, strict=True) if n > 1), default=0)


def _add(
    builder: ProgramBuilder,
    product: Product,
    types: tuple[DataType, DataType],
    operands: tuple[Region, Region],
    zeros: tuple[Region | None, Region | None],
) -> None:
    tile = packed_products.tile_for(product, builder.target)
    if tile is not None:
        # As the parameters of kernels have them: in the place of an addend's rows, and in that of Alpha.
        if product.family == "gemm":
            strides = ((product.others[4], 0), (product.others[-2], 0))
        else:
            strides = ((product.others[0], product.rows * product.others[0]), (0, 0))
        each = zip(operands, types, zeros, strides, strict=True)
        packed = [PackedOperand(region, data_type, zero, *steps) for region, data_type, zero, steps in each]
        packed_products.add_product(builder, product, tile, packed)
        return
    row_tiles, column_tiles = -(-product.rows // _BLOCK), -(-product.columns // (_BLOCK * _INVOCATIONS))
    groups = row_tiles * column_tiles * product.batches
    work_groups = launch_size(product.family.upper(), groups * _INVOCATIONS, _INVOCATIONS)
    left_zero, right_zero = zeros
    constants = {
        "HAS_LEFT_ZERO": int(left_zero is not None),
        "HAS_RIGHT_ZERO": int(right_zero is not None),
        **product.geometry,
    }
    sizes = (groups, product.rows, product.columns, product.terms, row_tiles, column_tiles)
    bound = [*operands, *(zero or operands[0] for zero in zeros)]
    for first in range(0, product.segments, _SEGMENTS_AT_ONCE):
        end = min(first + _SEGMENTS_AT_ONCE, product.segments)
        kernel = PlainKernel(
            _variant(product.family, *types).name,
            work_groups,
            constants,
            (*sizes, first, end, *product.left, *product.others),
            work_group_size=_INVOCATIONS,
        )
        builder.launch(kernel, bound, [builder.writes["output_tensor"]])


def _variant(family: str, left: DataType, right: DataType) -> ShaderVariant:
    names = left.name.lower(), right.name.lower()
    defines = {"CONVOLUTION": str(int(family == "convolution")), "LEFT": names[0], "OPERAND": names[1]}
    name = f"{family}_integer.{'_'.join(names)}"
    return ShaderVariant(name, "matrix/integer.comp", tuple(sorted(defines.items())))


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for family in ("gemm", "convolution"):
        for left in _TYPES:
            for right in _TYPES:
                yield _variant(family, left, right)
    yield from packed_products.variants()
