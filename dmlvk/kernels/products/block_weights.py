"""Where packed weights lie: what kernels that read them are told (``shaders/patterns/products/block_weights.glsl``)."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.errors import DeviceLimitError
from dmlvk.operators import ElementWiseDequantizeLinear, Gemm, MatrixTransform, OperatorDesc
from dmlvk.operators.block_weights import FACTOR_BITS, LOW_BITS, DequantizeBlocks, row_bytes
from dmlvk.operators.quantization import Dequantize
from dmlvk.tensors import TensorDesc

WORD_BITS = 32
LEAST_BLOCK = 16  # Terms that share a scale, at least, where kernels multiply packed weights of fewer than 8 bits

_VECTOR_BITS = 128
_FOUR = 4
_MOST_INTEGERS = 2**32  # Of a matrix's first plane

_BITS_OF_BYTE = 8
_ZERO_OF_TABLES = 128  # What is added to the numbers of tables, so that none is negative


class ZeroKind(enum.IntEnum):
    """What stands for zero, as the shaders number it."""

    NUMBER = 0
    PACKED = 1
    FLOAT = 2
    FACTOR = 3


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Where the scales or zeros of blocks lie; steps are in elements, 0 where one counts for the whole axis."""

    term_block: int = 1  # terms of a block
    term_step: int = 0  # from block to block along the terms
    column_block: int = 1  # columns of a block
    column_step: int = 0  # from block to block along the columns

    def constants(self, name: str) -> dict[str, int]:
        """The specialization constants, by what the shader calls the numbers."""
        return {
            f"{name}_TERM_BLOCK": self.term_block,
            f"{name}_TERM": self.term_step,
            f"{name}_COLUMN_BLOCK": self.column_block,
            f"{name}_COLUMN": self.column_step,
        }


@dataclasses.dataclass(frozen=True)
class BlockWeights:
    """A matrix of packed weights, columns x terms."""

    data_type: DataType  # of the numbers
    bits: int  # of an integer, in the first plane
    is_signed: bool  # whether integers are signed
    columns: int  # of the product
    terms: int  # of each of its sums
    term_step: int  # from term to term, in elements
    column_step: int  # from column to column
    scale: Blocks  # where scales lie
    zero: Blocks = Blocks()  # where zeros lie
    zero_kind: ZeroKind = ZeroKind.NUMBER  # what these are
    zero_number: int = 0  # what stands for zero everywhere, of ``ZeroKind.NUMBER`` and ``ZeroKind.FACTOR``
    has_groups: bool = False  # whether the block of a term is looked up
    factor_bits: int = 8  # of what scales are multiplied by, of ``ZeroKind.FACTOR``
    has_half_scales: bool = False  # whether scales are FLOAT16 and the numbers are not
    high_bits: int = 0  # of an integer, in the second plane
    high_plane: int = 0  # words from a column's first one to its second plane
    table: int = 0  # what integers of 4 bits stand for: 0 themselves, others as of DMLVK_DEQUANTIZE_BLOCKS
    has_exponents: bool = False  # whether scales are the exponents of powers of two
    has_minima: bool = False  # whether each scale and each factor is a pair, the second one of the block's minimum

    @property
    def word_terms(self) -> int:
        """Integers of a 32-bit word."""
        return WORD_BITS // self.bits

    def constants(self) -> dict[str, int]:
        """The specialization constants of ``shaders/patterns/products/block_weights.glsl``."""
        return {
            "ZERO_KIND": int(self.zero_kind),
            "ZERO_NUMBER": int(self.zero_number),
            "FACTOR_BITS": int(self.factor_bits),
            "HIGH_BITS": int(self.high_bits),
            "HIGH_PLANE": int(self.high_plane),
            **(self._forms_of_scales() if self.data_type is DataType.FLOAT32 else {}),
            **({"TABLE": int(self.table)} if self.bits == _FOUR else {}),
            "WEIGHTS_ARE_SIGNED": int(self.is_signed),
            "PACKED_TERM": int(self.term_step),
            "PACKED_COLUMN": int(self.column_step),
            **self.scale.constants("SCALE"),
            **self.zero.constants("ZERO"),
        }

    def _forms_of_scales(self) -> dict[str, int]:
        return {
            "SCALES_ARE_HALVES": int(self.has_half_scales),
            "SCALES_ARE_EXPONENTS": int(self.has_exponents),
            "HAS_MINIMA": int(self.has_minima),
        }

    @property
    def is_of_integers(self) -> bool:
        """Whether weights are integers of one plane, less an integer, times the scale."""
        has_more = self.high_bits or self.table or self.has_minima
        return self.zero_kind in (ZeroKind.NUMBER, ZeroKind.PACKED) and not has_more

    def common_block(self, most: int) -> int:
        """Terms that share a scale and a zero, at most so many, of which it is a part."""
        blocks = [blocks.term_block for blocks in (self.scale, self.zero) if blocks.term_step]
        return math.gcd(most, *blocks)

    @property
    def lies_along_terms(self) -> bool:
        """Whether columns are whole words of neighbouring terms, and blocks too: what kernels of few rows ask for."""
        whole = self.column_step % self.word_terms == 0 or self.columns == 1
        least = LEAST_BLOCK // 2 if self.bits == _BITS_OF_BYTE else LEAST_BLOCK
        return self.term_step == 1 and whole and self.common_block(_VECTOR_BITS) >= least and not self.has_groups

    @property
    def has_vectors(self) -> bool:
        """Whether 16 bytes of a column can be loaded at once."""
        step = self.terms if self.columns == 1 else self.column_step  # no load goes beyond the last column
        return step * self.bits % _VECTOR_BITS == 0

    def chunks_have_vectors(self, terms: int) -> bool:
        """Whether 16 bytes of parts of so many terms can be loaded at once: none ends behind its column."""
        return self.has_vectors and self.terms % terms == 0 and terms * self.bits % _VECTOR_BITS == 0


def weights_of(source: OperatorDesc, product: Gemm) -> BlockWeights | None:
    """The weights by which a GEMM multiplies that reads what another operator makes of packed integers.

    Args:
        source: the operator that makes numbers of them, whose output is the product's second matrix.

    Returns:
        ``None`` where they are no such weights, or lie in more dimensions than two.
    """
    right = product.b_tensor
    if any(size > 1 for size in right.sizes[:-2]):
        return None
    axes = list(zip(right.sizes[-2:], right.element_strides[-2:], strict=True))
    columns, terms = axes if product.trans_b is MatrixTransform.TRANSPOSE else (axes[1], axes[0])
    if isinstance(source, DequantizeBlocks):
        own = weights_of_blocks(source)
        line = source.output_tensor.element_strides
        fits = (columns[0] == 1 or columns[1] == line[0]) and (terms[0] == 1 or terms[1] == line[1])
        fits = fits and columns[0] <= own.columns and terms[0] <= own.terms
        return dataclasses.replace(own, columns=columns[0], terms=terms[0]) if fits else None
    if isinstance(source, Dequantize):
        scale, *zeros = source.quantization_tensors
        return _weights(source.input_tensor, scale, zeros[0] if zeros else None, source.output_tensor, columns, terms)
    if isinstance(source, ElementWiseDequantizeLinear):
        if source.input_tensor.data_type.size_in_bits != _BITS_OF_BYTE:
            return None
        scale, zero = source.scale_tensor, source.zero_point_tensor
        return _weights(source.input_tensor, scale, zero, source.output_tensor, columns, terms)
    return None


def weights_of_blocks(desc: DequantizeBlocks) -> BlockWeights:
    """All weights that DMLVK_DEQUANTIZE_BLOCKS makes numbers of.

    Raises:
        DeviceLimitError: they are more than kernels can count.
    """
    columns, terms = desc.output_tensor.sizes
    blocks = -(-terms // desc.block_size)
    steps, low = desc.scale_tensor.element_strides, LOW_BITS[desc.bits]
    scales = desc.scale_tensor.sizes[1]
    if desc.has_minima:  # what is counted are pairs
        scales //= 2
        steps = scales, 1
    line = row_bytes(blocks * desc.block_size, desc.bits) * _BITS_OF_BYTE // low
    if columns * line >= _MOST_INTEGERS:
        raise DeviceLimitError(
            f"{desc.operator_name}: {columns} x {line} integers of {low} bits; kernels count up to {_MOST_INTEGERS - 1}"
        )
    weights = BlockWeights(
        data_type=desc.output_tensor.data_type,
        bits=low,
        is_signed=False,
        columns=columns,
        terms=terms,
        term_step=1,
        column_step=line,
        scale=Blocks(desc.block_size, steps[1], 1, steps[0]),
        zero_number=_zero_number(desc),
        has_groups=desc.group_index_tensor is not None,
        has_half_scales=desc.scale_tensor.data_type is DataType.FLOAT16 is not desc.output_tensor.data_type,
        table=desc.table or 0,
        has_exponents=desc.scale_tensor.data_type is DataType.UINT8,
        high_bits=desc.bits - low,
        high_plane=blocks * desc.block_size * low // WORD_BITS if desc.bits != low else 0,
        has_minima=bool(desc.has_minima),
    )
    zero, factor = desc.zero_point_tensor, desc.factor_tensor
    if factor is not None:
        bits, size = FACTOR_BITS[factor.data_type], blocks // scales * desc.block_size
        line = blocks if desc.has_minima else row_bytes(blocks, bits) * _BITS_OF_BYTE // bits
        return dataclasses.replace(
            weights,
            scale=Blocks(size, steps[1], 1, steps[0]),
            zero=Blocks(desc.block_size, 1, 1, line),
            zero_kind=ZeroKind.FACTOR,
            factor_bits=bits,
        )
    if zero is None:
        return weights
    if zero.data_type is DataType.UINT8:
        line = row_bytes(blocks, desc.bits) * _BITS_OF_BYTE // desc.bits
        found, kind = Blocks(desc.block_size, 1, 1, line), ZeroKind.PACKED
    else:
        steps = zero.element_strides
        found, kind = Blocks(desc.block_size, steps[1], 1, steps[0]), ZeroKind.FLOAT
    return dataclasses.replace(weights, zero=found, zero_kind=kind, zero_number=0)


def _zero_number(desc: DequantizeBlocks) -> int:
    if desc.table is not None:
        return _ZERO_OF_TABLES
    return 1 << (desc.bits - 1) if desc.zero_point is None else desc.zero_point


def _weights(
    source: TensorDesc,
    scale: TensorDesc,
    zero: TensorDesc | None,
    output: TensorDesc,
    columns: tuple[int, int],
    terms: tuple[int, int],
) -> BlockWeights | None:
    """Of tensors whose axes agree, with blocks where those of parameters are shorter."""
    column_axis, term_axis = _axis_of(output, columns), _axis_of(output, terms)
    large = [axis for axis, size in enumerate(output.sizes) if size > 1]
    if any(axis not in (column_axis, term_axis) for axis in large) or None in (column_axis, term_axis):
        return None
    if column_axis == term_axis and large:
        return None

    def blocks(tensor: TensorDesc) -> Blocks:
        return Blocks(*_blocks(output, tensor, term_axis), *_blocks(output, tensor, column_axis))

    def step(axis: int | None) -> int:
        return source.element_strides[axis] if axis is not None and axis >= 0 else 0

    return BlockWeights(
        data_type=scale.data_type,
        bits=source.data_type.size_in_bits,
        is_signed=source.data_type in (DataType.INT4, DataType.INT8),
        columns=columns[0],
        terms=terms[0],
        term_step=step(term_axis),
        column_step=step(column_axis),
        scale=blocks(scale),
        zero=Blocks() if zero is None else blocks(zero),
        zero_kind=ZeroKind.NUMBER if zero is None else ZeroKind.PACKED,
    )


_NO_AXIS = -1  # Where a matrix has one row or column, whichever axis that is


def _axis_of(output: TensorDesc, wanted: tuple[int, int]) -> int | None:
    """The axis that a matrix sees with a size and a stride; ``None`` where it sees none, or a part of several."""
    size, stride = wanted
    if size == 1:
        return _NO_AXIS
    axes = zip(output.sizes, output.element_strides, strict=True)
    found = [axis for axis, (own, step) in enumerate(axes) if own >= size and own > 1 and step == stride]
    return found[0] if len(found) == 1 else None


def _blocks(output: TensorDesc, tensor: TensorDesc, axis: int | None) -> tuple[int, int]:
    """The length of a block along an axis, and the step between blocks."""
    if axis is None or axis == _NO_AXIS or tensor.sizes[axis] == 1 or tensor.element_strides[axis] == 0:
        return 1, 0
    return output.sizes[axis] // tensor.sizes[axis], tensor.element_strides[axis]


def operands(desc: OperatorDesc) -> Iterator[str]:
    """The members of an operator that makes numbers of packed integers, as kernels bind them: integers, scale, zero."""
    if isinstance(desc, DequantizeBlocks):
        yield from ("packed_tensor", "scale_tensor", "zero_point_tensor", "group_index_tensor", "factor_tensor")
    elif isinstance(desc, Dequantize):
        yield from ("input_tensor", "quantization_tensors[0]", "quantization_tensors[1]")
    else:
        yield from ("input_tensor", "scale_tensor", "zero_point_tensor")
