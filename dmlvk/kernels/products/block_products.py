"""Lowers products with packed weights: kernels read them as they are, or parts are made numbers first.

Weights that lie along the terms, as models have them, are read as they are, and products have an order of their own
(:mod:`dmlvk.kernels.products.packed_integers`). Of others, and of many rows by device arithmetic, parts go through
scratch memory as numbers, and the bits are those of DEQUANTIZE and GEMM.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import DataType
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.products import block_matrices, packed_integers, packed_matrices
from dmlvk.kernels.products.block_weights import LEAST_BLOCK, BlockWeights, ZeroKind, weights_of_blocks
from dmlvk.kernels.products.matrix import PackedRight, Product, gemm_product
from dmlvk.kernels.products.matrix import lower_product as lower_dense
from dmlvk.kernels.products.packed_right import packed_right
from dmlvk.kernels.program import BindingKind, Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm, MatrixTransform
from dmlvk.operators.block_weights import DequantizeBlocks
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_BITS = (2, 4, 8)
_EIGHT = 8
"""Neighbours that an invocation of ``shaders/patterns/products/block_numbers.glsl`` makes."""

_RELU = "ACTIVATION_RELU"
_NOTHING = "ACTIVATION_IDENTITY"

_MOST_ROWS = 32
"""Rows up to which a GPU multiplies packed weights; each needs its own sum of every weight that was made a float."""

_MOST_ROWS_OF_PROCESSORS = 3
"""Each is computed by itself: with several rows of a column llvmpipe keeps in memory what others keep in registers."""

_WHOLE_BYTES = 128 * 2**20
"""Up to so many of a GPU's weights become numbers at once: small parts leave most of its cores without a tile."""

_PART_BYTES = 32 * 2**20
"""Of larger weights, and on processors, become numbers at once, but for two parts that take turns."""

_BUFFERS = 6
"""That a kernel here binds, at most."""

_BUFFERS_OF_GATED = 9

_PART_COLUMNS = 64
"""Parts begin at multiples of so many columns: then results of theirs begin at multiples of 16 bytes."""


def _numbers_variant(data_type: DataType, bits: int) -> ShaderVariant:
    name = data_type.name.lower()
    given = {"OPERAND": name, "OPERAND_BITS": str(data_type.size_in_bits), "WEIGHT_BITS": str(bits)}
    return ShaderVariant(f"blocks.{name}.{bits}.numbers", "matrix/block_numbers.comp", tuple(sorted(given.items())))


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for data_type, bits in itertools.product(FLOATS, _BITS):
        yield _numbers_variant(data_type, bits)
    yield from packed_integers.variants()
    yield from packed_matrices.variants()
    yield from block_matrices.variants()


def can_multiply(product: Gemm, weights: BlockWeights, target: Target) -> bool:
    """Whether a product with packed weights can be computed so on a device, and gains by it."""
    fused = product.fused_activation
    is_plain = fused is None or fused.operator_name in (_NOTHING, _RELU)
    is_single = all(size == 1 for size in product.output_tensor.sizes[:-2])
    has_blocks = weights.has_groups or any(
        (blocks.term_step == 0 or blocks.term_block > 1) or (blocks.column_step == 0 or blocks.column_block > 1)
        for blocks in (weights.scale,)
    )
    is_bound = target.buffers >= _BUFFERS
    return is_bound and is_plain and is_single and has_blocks and product.a_tensor.data_type is weights.data_type


@lowering(DequantizeBlocks)
def lower_blocks(desc: DequantizeBlocks, target: Target) -> Program:
    """The program of DMLVK_DEQUANTIZE_BLOCKS.

    Raises:
        DeviceLimitError: when there is more work than the device can address.
    """
    if target.buffers < _BUFFERS:
        raise DeviceLimitError(f"{desc.operator_name}: needs {_BUFFERS} buffers in a kernel; got {target.buffers}")
    builder, weights = ProgramBuilder(desc, target), weights_of_blocks(desc)
    packed, scale, zero, groups, factor = (builder.reads.get(member) for member in _MEMBERS)
    regions = [packed, scale, zero or factor, groups]
    _add_numbers(builder, weights, regions, desc.output_tensor, builder.writes["output_tensor"], (0, weights.columns))
    return builder.program()


_MEMBERS = ("packed_tensor", "scale_tensor", "zero_point_tensor", "group_index_tensor", "factor_tensor")


def lower_product(desc: Gemm, weights: BlockWeights, sizes: Sequence[int], target: Target) -> Program:
    """The program of a GEMM with packed weights.

    Args:
        desc: the product, as of numbers.
        weights: what they are made of.
        sizes: bytes of the weights' operands: integers, scales, and zeros (or factors) and groups where there are. The
            program's inputs are the first matrix, these, and the addend where there is one.
        target: the device.

    Raises:
        DeviceLimitError: when there is more work than the device can address.
    """
    builder = ProgramBuilder(desc, target)
    left = builder.reads["a_tensor"]
    given = iter(Region(BindingKind.INPUT, 1 + number, 0, size) for number, size in enumerate(sizes))
    packed, scale = next(given), next(given)
    zero = next(given) if weights.zero_kind is not ZeroKind.NUMBER else None
    groups = next(given) if weights.has_groups else None
    addend = None
    if desc.c_tensor is not None:
        addend = Region(BindingKind.INPUT, 1 + len(sizes), 0, desc.c_tensor.size_in_bytes)
    regions = [packed, scale, zero, groups]
    product = gemm_product(desc)
    most_rows = _most_rows(weights, target)
    is_of_matrices = block_matrices.multiplies(desc, weights, target)
    of_matrices = None if is_of_matrices else packed_right(desc, weights, target)
    if of_matrices is not None:
        constants, of_device = of_matrices
        lower_dense(builder, desc, of_device, target, left, packed, addend, None, PackedRight(scale, zero, constants))
    elif weights.lies_along_terms and product.rows <= most_rows:
        _add_rows(builder, desc, product, weights, _RowOperands(left, packed, scale, zero, addend))
    else:
        _add_parts(builder, desc, weights, left, regions, addend)
    return builder.program()


def _most_rows(weights: BlockWeights, target: Target) -> int:
    """Rows up to which kernels read packed weights: any number of those that have an order of their own."""
    if packed_integers.has_own_order(weights) and not target.device_arithmetic:
        return sys.maxsize
    return _MOST_ROWS_OF_PROCESSORS if target.is_cpu else _MOST_ROWS


def can_gate(product: Gemm, weights: BlockWeights, target: Target) -> bool:
    """Whether one kernel computes a product and another one that is its gate, with weights that lie alike."""
    plain = product.fused_activation is None and product.c_tensor is None and product.alpha == 1.0
    plain = plain and (weights.data_type is DataType.FLOAT32 or packed_integers.is_exact(weights))
    has_room = not target.is_cpu and target.buffers >= _BUFFERS_OF_GATED
    if plain and has_room and block_matrices.multiplies(product, weights, target, is_gated=True):
        return True
    is_few = gemm_product(product).rows <= _most_rows(weights, target)
    is_few = is_few and packed_right(product, weights, target) is None
    return plain and has_room and weights.lies_along_terms and is_few


def lower_gated(desc: Gemm, weights: BlockWeights, sizes: Sequence[int], target: Target) -> Program:
    """The program of swish(gate) * product, where both are products of the same matrix, and weights lie alike.

    Args:
        desc: the product, as of numbers; its output is the result.
        weights: what its own are made of.
        sizes: bytes of the weights' operands, as of :func:`lower_product`. The program's inputs are the first matrix,
            those of the gate, and those of the product.
        target: the device.

    Raises:
        DeviceLimitError: when there is more work than the device can address.
    """
    builder = ProgramBuilder(desc, target)
    regions = [Region(BindingKind.INPUT, 1 + number, 0, size) for number, size in enumerate([*sizes, *sizes])]
    (packed, scale, *zero), up = regions[: len(sizes)], regions[len(sizes) :]
    operands = _RowOperands(builder.reads["a_tensor"], packed, scale, zero[0] if zero else None, None, tuple(up))
    _add_rows(builder, desc, gemm_product(desc), weights, operands)
    return builder.program()


@dataclasses.dataclass(frozen=True)
class _RowOperands:
    """What a kernel of few rows reads; of a product with a gate, ``up`` has what the gate has before."""

    left: Region
    packed: Region
    scale: Region
    zero: Region | None
    addend: Region | None
    up: tuple[Region, ...] = ()

    def bound(self) -> list[Region]:
        found = [self.left, self.packed, self.scale, self.zero or self.scale, self.addend or self.left]
        return found if not self.up else [*found, self.up[0], self.up[1], self.up[-1]]


def _add_rows(
    builder: ProgramBuilder, desc: Gemm, product: Product, weights: BlockWeights, operands: _RowOperands
) -> None:
    target = builder.target
    relu = desc.fused_activation is not None and desc.fused_activation.operator_name == _RELU
    constants = {
        **weights.constants(),
        "HAS_ADDEND": int(operands.addend is not None),
        "APPLIES_RELU": int(relu),
        "LEFT_HAS_VECTORS": int(product.left_along_terms and product.left_has_vectors),
        "OUTPUT_HAS_PAIRS": int(product.output_has_pairs and product.data_type is DataType.FLOAT16),
    }
    is_gated = bool(operands.up)
    if block_matrices.multiplies(desc, weights, target, is_gated=is_gated):
        block_matrices.add_product(builder, desc, product, operands.bound(), constants, is_gated=is_gated)
        return
    if packed_matrices.multiplies(product, weights, target):
        packed_matrices.add_product(builder, desc, weights, operands.bound(), constants, is_gated=is_gated)
        return
    packed_integers.add_rows(builder, desc, product, weights, operands.bound(), constants, is_gated=is_gated)


def _add_parts(
    builder: ProgramBuilder,
    desc: Gemm,
    weights: BlockWeights,
    left: Region,
    regions: Sequence[Region | None],
    addend: Region | None,
) -> None:
    """Parts of the weights become numbers, and are multiplied, one after the other."""
    along_terms = weights.term_step <= weights.column_step
    width = weights.data_type.size_in_bits // 8
    line = -(-weights.terms // _EIGHT) * _EIGHT  # of a column's numbers
    at_once = max(_PART_BYTES // (line * width) // _PART_COLUMNS * _PART_COLUMNS, _PART_COLUMNS)
    columns = weights.columns
    if not builder.target.is_cpu and line * width * columns <= _WHOLE_BYTES:
        at_once = columns
    parts = [(first, min(first + at_once, columns)) for first in range(0, columns, at_once)]
    widest = min(at_once, columns)
    if not along_terms:
        line = -(-widest // _EIGHT) * _EIGHT
    size = (widest if along_terms else weights.terms) * line * width
    scratch = [builder.scratch(size) for _ in parts[:2]]
    output = builder.writes["output_tensor"]
    for number, (first, end) in enumerate(parts):
        count = end - first
        sizes, steps = ((count, weights.terms) if along_terms else (weights.terms, count)), (line, 1)
        leading = (1,) * (desc.output_tensor.dimension_count - 2)
        numbers = TensorDesc(weights.data_type, sizes, steps)
        region = scratch[number % 2].part(0, size)
        _add_numbers(builder, weights, regions, numbers, region, (first, end), along_terms=along_terms, is_padded=True)
        of_part = dataclasses.replace(
            desc,
            b_tensor=TensorDesc(weights.data_type, (*leading, *sizes), (*(0 for _ in leading), *steps)),
            trans_b=MatrixTransform.TRANSPOSE if along_terms else MatrixTransform.NONE,
            c_tensor=None if desc.c_tensor is None else _columns(desc.c_tensor, count),
            output_tensor=_columns(desc.output_tensor, count),
        )
        reads = [left, region]
        if addend is not None:
            assert desc.c_tensor is not None  # which it is
            reads.append(_from(addend, first * desc.c_tensor.element_strides[-1] * width))
        result = _from(output, first * desc.output_tensor.element_strides[-1] * width)
        builder.operator(of_part, reads, [result], "numbers of packed weights")


def _columns(tensor: TensorDesc, count: int) -> TensorDesc:
    return TensorDesc(tensor.data_type, (*tensor.sizes[:-1], count), tensor.element_strides)


def _from(region: Region, offset: int) -> Region:
    return region.part(offset, region.size_in_bytes - offset)


def _add_numbers(
    builder: ProgramBuilder,
    weights: BlockWeights,
    regions: Sequence[Region | None],
    numbers: TensorDesc,
    output: Region,
    part: tuple[int, int],
    *,
    along_terms: bool = True,
    is_padded: bool = False,
) -> None:
    """The kernel that makes numbers of some columns, in lines along the terms or across the columns."""
    first, end = part
    lines, inner = (end - first, weights.terms) if along_terms else (weights.terms, end - first)
    line, step = numbers.element_strides
    eights = -(-inner // _EIGHT)
    inner_step, outer_step = weights.term_step, weights.column_step
    scales = (weights.scale, weights.zero)
    shared = weights.common_block(_EIGHT) == _EIGHT and weights.terms % _EIGHT == 0
    if not along_terms:
        inner_step, outer_step = outer_step, inner_step
        shared = all(blocks.column_step == 0 or blocks.column_block % _EIGHT == 0 for blocks in scales)
        shared = shared and weights.columns % _EIGHT == 0
    are_words = inner_step == 1 and outer_step % max(_EIGHT, weights.word_terms) == 0
    stores_eights = step == 1 and line % _EIGHT == 0 and (is_padded or inner % _EIGHT == 0)
    assert step == 1 or lines * inner == 0 or inner == 1  # outputs whose lines are not runs are made elsewhere
    work_groups = launch_size(builder.operator_name, lines * eights)
    constants = {
        **weights.constants(),
        "LINES_ARE_TERMS": int(along_terms),
        "HAS_GROUPS": int(weights.has_groups),
        "EIGHTS_SHARE_A_BLOCK": int(shared and not weights.has_groups),
        "EIGHTS_ARE_WORDS": int(are_words),
        "STORES_EIGHTS": int(stores_eights),
    }
    kernel = PlainKernel(
        _numbers_variant(weights.data_type, weights.bits).name,
        work_groups,
        constants,
        (lines * eights, eights, inner, first, weights.columns, weights.terms, line),
    )
    packed, scale, zero, groups = regions
    assert packed is not None  # weights have both
    assert scale is not None
    builder.launch(kernel, [packed, scale, zero or scale, groups or scale], [output], label="packed weights as numbers")


__all__ = ["LEAST_BLOCK", "can_gate", "can_multiply", "lower_blocks", "lower_gated", "lower_product", "variants"]
