"""Lowers a GEMM with what a graph has behind it: a bias, GELU, a factor for each column, a sum, RELU.

The kernels are those that multiply cooperative matrices: results are finished where they are, and not written and read
again. Other tiles have no such kernels, so that default arithmetic is as it was.
"""

from __future__ import annotations

import dataclasses

from dmlvk.datatypes import DataType
from dmlvk.kernels.products.matrix import GemmEpilogue, gemm_product, lower_product
from dmlvk.kernels.products.matrix_choice import choose
from dmlvk.kernels.program import BindingKind, Program, ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.operators import Gemm
from dmlvk.tensors import TensorDesc

_BUFFERS = 7  # Storage buffers of its kernels: both operands, bias, what is added, factors, output and coefficients

_FOUR = 4  # Elements that are stored at once


@dataclasses.dataclass(frozen=True)
class EpilogueOfGemm:
    has_bias: bool = False  # whether a number for each column is added to results first
    gelu: bool = False  # whether ACTIVATION_GELU is applied then
    scales: bool = False  # whether results are multiplied by a number for each column then
    adds: bool = False  # whether another tensor of the same layout is added then
    relu: bool = False  # whether RELU comes last


def may_have_epilogue(desc: Gemm, target: Target) -> bool:
    """Whether a GEMM without an activation has kernels that compute what a graph has behind it.

    Of FLOAT32 that is a bias, which is C then, and RELU: a GEMM's result is rounded no more before C is added.
    """
    output = desc.output_tensor
    if output.data_type is DataType.FLOAT32:
        is_plain = desc.alpha == 1.0 and desc.c_tensor is None and not desc.has_dynamic_sizes
        return is_plain and not target.is_cpu and output.element_strides == _packed(output).element_strides
    if output.data_type is not DataType.FLOAT16 or not target.device_arithmetic or target.buffers < _BUFFERS:
        return False
    if (
        desc.has_dynamic_sizes
        or desc.alpha != 1.0
        or output.sizes[-1] % _FOUR
        or output.element_strides != _packed(output).element_strides
    ):
        return False
    return choose(gemm_product(desc, with_eights=True).work(), target).tile.may_have_product_epilogue


def with_bias(desc: Gemm) -> Gemm:
    """The same GEMM with a number for each column as its C, of which it has none."""
    output = desc.output_tensor
    bias = TensorDesc(output.data_type, output.sizes, (*(0 for _ in output.sizes[:-1]), 1))
    return dataclasses.replace(desc, c_tensor=bias, beta=1.0)


def _packed(tensor: TensorDesc) -> TensorDesc:
    return TensorDesc(tensor.data_type, tensor.sizes)


def lower_gemm_with_epilogue(desc: Gemm, epilogue: EpilogueOfGemm, target: Target, *, beside: int = 1) -> Program:
    """The program of a GEMM without an activation that :func:`may_have_epilogue`, and of what a graph has behind it.

    It reads the GEMM's inputs; the bias, packed, of which the GEMM has no C then; the columns' factors, packed; and
    what is added. It writes what comes out behind the epilogue.

    Args:
        beside: such products that a graph has beside one another, this one among them.
    """
    if epilogue.has_bias:
        desc = with_bias(desc)
    sizes = desc.output_tensor.sizes
    builder = ProgramBuilder(desc, target)
    given, columns = len(builder.reads), TensorDesc(DataType.FLOAT16, sizes[-1:])
    scale = Region(BindingKind.INPUT, given, 0, columns.size_in_bytes) if epilogue.scales else None
    number = given + int(epilogue.scales)
    residual = Region(BindingKind.INPUT, number, 0, desc.output_tensor.size_in_bytes) if epilogue.adds else None
    behind = GemmEpilogue(epilogue.has_bias, epilogue.gelu, scale, residual, epilogue.relu)
    operands = builder.reads["a_tensor"], builder.reads["b_tensor"], builder.reads.get("c_tensor")
    product = dataclasses.replace(gemm_product(desc, with_eights=True), beside=beside)
    lower_product(builder, desc, product, target, *operands, behind)
    return builder.program()
