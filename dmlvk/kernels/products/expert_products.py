"""Lowers products of rows with matrices that each row chooses.

The kernels are those of packed weights with few rows (:mod:`dmlvk.kernels.products.packed_integers`), one row for each
work group, and read where the row's matrix lies. Work groups that run at one time have neighbouring rows and the same
columns, so rows of one matrix find its weights in the caches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.compiler import DEVICE_ARITHMETIC
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.products import packed_integers
from dmlvk.kernels.products.block_parts import product_parameters
from dmlvk.kernels.products.block_weights import Blocks, BlockWeights, weights_of_blocks
from dmlvk.kernels.products.matrix import gemm_product
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import ExpertProducts, Gemm, MatrixTransform
from dmlvk.operators.block_weights import DequantizeBlocks
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_BUFFERS = 7
_WORD = 4
_VECTOR_WORDS = 4
_SEGMENT = 1024
_PROCESSOR_INVOCATIONS = 8
_INVOCATIONS = 64


def _floats_variant(data_type: DataType, target: Target) -> ShaderVariant:
    """That of matrices of floats."""
    name = f"experts.{data_type.name.lower()}.0.floats"
    given = {"BLOCK_ROWS": "1", "OPERAND": data_type.name.lower(), "OPERAND_BITS": str(data_type.size_in_bits)}
    given |= {"WEIGHT_BITS": "8", "INVOCATIONS": str(_PROCESSOR_INVOCATIONS if target.is_cpu else _INVOCATIONS)}
    if target.device_arithmetic and data_type is DataType.FLOAT32:
        given[DEVICE_ARITHMETIC] = "1"
        name += ".device"
    name += ".few" if target.is_cpu else ".many"
    return ShaderVariant(name, "matrix/expert_floats.comp", tuple(sorted(given.items())))


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    yield from packed_integers.variants(is_of_experts=True)
    for data_type in FLOATS:
        for target in [Target()] + [Target(device_arithmetic=True)] * (data_type is DataType.FLOAT32):
            for is_cpu in (False, True):
                yield _floats_variant(data_type, dataclasses.replace(target, is_cpu=is_cpu))


@lowering(ExpertProducts)
def lower_experts(desc: ExpertProducts, target: Target) -> Program:
    """The program of DMLVK_EXPERT_PRODUCTS.

    Raises:
        DeviceLimitError: the device cannot bind or address it, or matrices do not begin at whole words.
    """
    if target.buffers < _BUFFERS:
        raise DeviceLimitError(f"{desc.operator_name}: needs {_BUFFERS} buffers in a kernel; got {target.buffers}")
    builder, data_type = ProgramBuilder(desc, target), desc.a_tensor.data_type
    (rows, columns), terms = desc.output_tensor.sizes, desc.a_tensor.sizes[1]
    matrices = desc.weight_tensor.sizes[0] // columns
    steps = _steps(desc, matrices)
    product_desc = _one_matrix(desc)
    product = gemm_product(product_desc)
    weights = _weights(desc, columns, terms)
    constants: dict[str, int] = {
        "EXPERTS": int(matrices),
        **steps,
        "LEFT_HAS_VECTORS": int(product.left_along_terms and product.left_has_vectors),
        **dict.fromkeys(("HAS_ADDEND", "APPLIES_RELU", "OUTPUT_HAS_PAIRS"), 0),
        **weights.constants(),
        "PART_TERMS": _SEGMENT,
        "BLOCK": weights.common_block(_SEGMENT),
    }
    if desc.scale_tensor is None:
        variant = _floats_variant(data_type, target)
        invocations = _PROCESSOR_INVOCATIONS if target.is_cpu else _INVOCATIONS
        tiles = rows, -(-columns // invocations)
    else:
        launch = packed_integers.rows_launch(product, weights, target, is_of_experts=True)
        variant, invocations, tiles = launch.variant, launch.invocations, launch.tiles
        constants |= launch.constants
        if not target.is_cpu:
            begins = steps["PACKED_EXPERT"] % _VECTOR_WORDS == 0
            constants["PACKED_HAS_VECTORS"] = int(constants["PACKED_HAS_VECTORS"] and begins)
            constants["OUTPUT_HAS_PAIRS"] = int(product.output_has_pairs and data_type is DataType.FLOAT16)
    groups = tiles[0] * tiles[1]
    kernel = PlainKernel(
        variant.name,
        launch_size(builder.operator_name, groups * invocations, invocations),
        constants,
        (groups, *product_parameters(product_desc, product, tiles)),
        work_group_size=invocations,
    )
    left, packed, experts = (builder.reads[name] for name in ("a_tensor", "weight_tensor", "expert_tensor"))
    scale = builder.reads.get("scale_tensor", left)
    zero = builder.reads.get("zero_point_tensor") or builder.reads.get("factor_tensor", scale)
    builder.launch(kernel, [left, packed, scale, zero, left, experts], [builder.writes["output_tensor"]])
    return builder.program()


def _one_matrix(desc: ExpertProducts) -> Gemm:
    """The product by the matrix of a single expert."""
    columns, terms = desc.output_tensor.sizes[1], desc.a_tensor.sizes[1]
    return Gemm(
        a_tensor=_of_four(desc.a_tensor),
        b_tensor=TensorDesc(desc.a_tensor.data_type, (1, 1, columns, terms)),
        output_tensor=_of_four(desc.output_tensor),
        trans_a=MatrixTransform.NONE,
        trans_b=MatrixTransform.TRANSPOSE,
        alpha=1.0,
        beta=0.0,
        fused_activation=None,
    )


def _of_four(tensor: TensorDesc) -> TensorDesc:
    return TensorDesc(tensor.data_type, (1, 1, *tensor.sizes), (0, 0, *tensor.element_strides))


def _steps(desc: ExpertProducts, matrices: int) -> dict[str, int]:
    """Words from one matrix to the next."""
    made = {}
    for name, tensor in (
        ("PACKED", desc.weight_tensor),
        ("SCALE", desc.scale_tensor),
        ("ZERO", desc.zero_point_tensor or desc.factor_tensor),
    ):
        count = 0 if tensor is None else tensor.sizes[0] * tensor.sizes[1] * tensor.data_type.size_in_bits // 8
        if count % (matrices * _WORD):
            raise DeviceLimitError(
                f"{desc.operator_name}: {matrices} matrices must begin at whole words; they have {count} bytes"
            )
        made[f"{name}_EXPERT"] = int(count // (matrices * _WORD))
    return made


def _weights(desc: ExpertProducts, columns: int, terms: int) -> BlockWeights:
    """Where the weights of the first matrix lie; of numbers nothing is read of it."""
    if desc.scale_tensor is None:
        return BlockWeights(desc.a_tensor.data_type, 8, False, columns, terms, 1, terms, Blocks())

    def first(tensor: TensorDesc | None) -> TensorDesc | None:
        return None if tensor is None else TensorDesc(tensor.data_type, (columns, tensor.sizes[1]))

    scale = first(desc.scale_tensor)
    assert scale is not None  # of packed weights
    return weights_of_blocks(
        DequantizeBlocks(
            packed_tensor=TensorDesc(DataType.UINT8, (columns, desc.weight_tensor.sizes[1])),
            scale_tensor=scale,
            zero_point_tensor=first(desc.zero_point_tensor),
            factor_tensor=first(desc.factor_tensor),
            output_tensor=TensorDesc(desc.a_tensor.data_type, (columns, terms)),
            bits=desc.bits,
            block_size=desc.block_size,
            zero_point=desc.zero_point,
            table=desc.table,
        )
    )
