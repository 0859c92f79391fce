"""Weights of few bits that models bring along, as numbers: an operator of dmlvk's own, which DirectML does not have.

DEQUANTIZE has no integers of 2 bits, no floats that stand for zero, and no blocks in an order of their own; MatMulNBits
of ONNX Runtime has them all. Graphs compute products with these weights without making numbers of them in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dmlvk.datatypes import DataType
from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import member as _member
from dmlvk.operators.members import tensor_input, tensor_output, unsigned_attribute
from dmlvk.operators.shapes import Draft, check_dimension_count, check_sizes, refuse
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

LOW_BITS = {2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 8: 8}
"""Of an integer of so many bits, in the first plane of a column."""

_LEAST_BLOCK, _LEAST_WITH_MINIMA = 8, 16
_PLANE_TERMS = 32  # Planes of so many terms are whole words
_BITS_OF_BYTE, _BITS_OF_TABLE = 8, 4
_EXPONENTS = {DataType.FLOAT32: (DataType.UINT8,)}
TABLES = (1, 2)
"""What integers of 4 bits may stand for: twice a number of E2M1, or one of ggml's IQ4_NL."""

FACTOR_BITS = {DataType.UINT8: 4, DataType.INT8: 8}
"""Of a factor, by the data type of the bytes that hold factors."""


def row_bytes(terms: int, bits: int) -> int:
    """Bytes of so many integers of few bits, the last one filled up."""
    return -(-terms * bits // _BITS_OF_BYTE)


def _sizes(desc: DequantizeBlocks | Draft) -> Mapping[str, Sequence[int]]:
    """Checks all sizes against those of the output, columns x terms.

    Raises:
        InvalidArgumentError: when they do not fit.
    """
    if desc.output_tensor is None:
        return {}  # its sizes must be given
    check_dimension_count(desc, "output_tensor", 2)
    if desc.bits not in LOW_BITS:
        refuse(desc, "bits", f"must be 2, 3, 4, 5, 6 or 8; got {desc.bits}")
    if desc.block_size % _LEAST_BLOCK or not desc.block_size:
        refuse(
            desc, "block_size", f"must be a multiple of {_LEAST_BLOCK} from {_LEAST_BLOCK} on; got {desc.block_size}"
        )
    columns, terms = desc.output_tensor.sizes
    blocks = -(-terms // desc.block_size)
    check_sizes(
        desc,
        "packed_tensor",
        (columns, row_bytes(blocks * desc.block_size, desc.bits)),
        f"columns, and bytes of {blocks} blocks of {desc.block_size} integers of {desc.bits} bits",
    )
    number = desc.output_tensor.data_type if isinstance(desc, DequantizeBlocks) else None
    check_parameters(desc, number, columns, blocks)
    if desc.group_index_tensor is not None and desc.bits != LOW_BITS[desc.bits]:
        refuse(desc, "group_index_tensor", f"must be absent beside integers of {desc.bits} bits")
    if desc.group_index_tensor is not None:
        check_sizes(desc, "group_index_tensor", (1, terms), "one for each term")
        if desc.factor_tensor is not None:
            refuse(desc, "group_index_tensor", "must be absent beside FactorTensor")
    for member in ("packed_tensor", "zero_point_tensor", "factor_tensor"):
        tensor = getattr(desc, member)
        if tensor is not None and tensor.data_type.size_in_bits == _BITS_OF_BYTE and tensor.strides is not None:
            refuse(desc, f"{member}.strides", f"must be absent: packed integers lie in order; got {tensor.strides}")
    if isinstance(desc, DequantizeBlocks) and desc.output_tensor.element_strides[1] != 1 and terms > 1:
        refuse(desc, "output_tensor.strides", f"must be 1 along the terms; got {desc.output_tensor.element_strides}")
    return {}


def check_parameters(desc: Any, number: DataType | None, lines: int, blocks: int) -> None:
    """Checks scales, zeros and factors, which have a line for each of so many lines of so many blocks.

    Args:
        number: the data type of the numbers; ``None``: it is not known yet.

    Raises:
        InvalidArgumentError: when they do not fit.
    """
    scale, zero, factor = desc.scale_tensor, desc.zero_point_tensor, desc.factor_tensor
    if desc.bits != LOW_BITS[desc.bits] and blocks * desc.block_size % _PLANE_TERMS:
        refuse(
            desc,
            "block_size",
            f"must make lines of {desc.bits} bits multiples of {_PLANE_TERMS} terms; got {blocks} blocks of "
            f"{desc.block_size}",
        )
    if number is not None and scale.data_type not in (number, DataType.FLOAT16, *_EXPONENTS.get(number, ())):
        more = ", or UINT8" if number in _EXPONENTS else ""
        refuse(desc, "scale_tensor.data_type", f"must be {number.name} or FLOAT16{more}; got {scale.data_type.name}")
    each = 2 if _has_minima(desc, number) else 1
    count = blocks if factor is None else scale.sizes[1] // each
    if not count or blocks % count:
        refuse(desc, "scale_tensor.sizes", f"must be {lines} x a part of {blocks} blocks; got {list(scale.sizes)}")
    check_sizes(desc, "scale_tensor", (lines, each * count), "lines and blocks" + (", two for each" * (each - 1)))
    if zero is not None:
        is_packed = zero.data_type is DataType.UINT8
        if is_packed and desc.bits != LOW_BITS[desc.bits]:
            refuse(desc, "zero_point_tensor", f"must be absent beside integers of {desc.bits} bits, or no integers")
        if number is not None and not is_packed and zero.data_type is not number:
            refuse(desc, "zero_point_tensor.data_type", f"must be UINT8 or {number.name}; got {zero.data_type.name}")
        wanted = (lines, row_bytes(blocks, desc.bits)) if is_packed else (lines, blocks)
        words = f"lines, and bytes of {blocks} integers of {desc.bits} bits" if is_packed else "lines and blocks"
        check_sizes(desc, "zero_point_tensor", wanted, words)
    if factor is not None:
        bits = FACTOR_BITS.get(factor.data_type)
        if bits is None:
            refuse(desc, "factor_tensor.data_type", f"must be UINT8 or INT8; got {factor.data_type.name}")
        length = row_bytes(each * blocks, bits)
        check_sizes(desc, "factor_tensor", (lines, length), f"lines, and {each * blocks} of {bits} bits")
    if desc.zero_point is not None and desc.zero_point >= 1 << desc.bits:
        refuse(desc, "zero_point", f"must be an integer of {desc.bits} bits; got {desc.zero_point}")
    if zero is not None and (factor is not None or desc.zero_point is not None):
        refuse(desc, "zero_point_tensor", "must be absent beside FactorTensor or ZeroPoint")
    if desc.table is not None and (desc.bits != _BITS_OF_TABLE or zero is not None or desc.zero_point is not None):
        refuse(desc, "table", f"must be absent beside what stands for zero, and integers of {desc.bits} bits")
    if desc.table is not None and desc.table not in TABLES:
        refuse(desc, "table", f"must be 1 or 2; got {desc.table}")


def _has_minima(desc: Any, number: DataType | None) -> bool:
    """Whether blocks have minima.

    Raises:
        InvalidArgumentError: something else stands beside them that must not.
    """
    if not getattr(desc, "has_minima", False):
        return False
    if number not in (None, DataType.FLOAT32) or desc.scale_tensor.data_type is not DataType.FLOAT16:
        refuse(desc, "has_minima", "must be false but for scales of FLOAT16 and numbers of FLOAT32")
    for name in ("zero_point_tensor", "group_index_tensor", "table"):
        if getattr(desc, name) is not None:
            refuse(desc, name, "must be absent beside minima")
    if desc.block_size % _LEAST_WITH_MINIMA or desc.scale_tensor.strides is not None:
        wanted = f"scales in order, and blocks of multiples of {_LEAST_WITH_MINIMA} terms"
        refuse(desc, "has_minima", f"must be false but for {wanted}; got blocks of {desc.block_size}")
    return True


class DequantizeBlocks(OperatorDesc, is_listed=False):
    """The numbers that packed integers of few bits stand for, by a scale for each block of a column's terms.

    It is no operator of DirectML, and not among those that are found by DirectML's names.
    """

    packed_tensor: TensorDesc = tensor_input(
        "columns x bytes: integers, the lowest bits of each byte first; of 3, 5 and 6 bits the lowest 2 or 4 of all of "
        "a column, then the others"
    )
    scale_tensor: TensorDesc = tensor_input(
        "columns x blocks, FLOAT16 or as the output, or beside FLOAT32 UINT8: exponents of 2 with 128 added; with "
        "factors blocks of as many times more terms as there are fewer"
    )
    zero_point_tensor: TensorDesc | None = tensor_input(
        "what stands for zero: columns x bytes of packed integers, or columns x blocks of numbers; without it half of "
        "what the integers can be",
        default=None,
    )
    group_index_tensor: TensorDesc | None = tensor_input(
        "1 x terms: the block that each term belongs to; without it neighbours belong together", default=None
    )
    factor_tensor: TensorDesc | None = tensor_input(
        "integers by which the scales of blocks are multiplied, columns x bytes: INT8, or UINT8 of two integers of 4 "
        "bits, the lowest first",
        default=None,
    )
    output_tensor: TensorDesc = tensor_output("columns x terms: the numbers")
    bits: int = unsigned_attribute("of an integer: 2, 3, 4, 5, 6 or 8")
    block_size: int = unsigned_attribute("terms of a block, a multiple of 8")
    zero_point: int | None = unsigned_attribute(
        "what stands for zero where no tensor says it; without it half of what the integers can be", default=None
    )
    table: int | None = unsigned_attribute(
        "what integers of 4 bits stand for: 1 twice a number of E2M1 (OCP Microscaling Formats), 2 one of ggml's "
        "IQ4_NL; without it themselves, less what stands for zero",
        default=None,
    )
    has_minima: bool | None = _member(
        "attribute",
        "bool",
        "whether blocks have minima, which are taken from their weights: behind each scale lies that of the minimum, "
        "and behind each factor its factor; the output is FLOAT32",
        None,
    )
    declaration: ClassVar = Declaration(
        "quantization",
        "(x - ZeroPoint) * Scale",
        name="DMLVK_DEQUANTIZE_BLOCKS",
        shapes=_sizes,
        decisions=(
            "With integers that stand for zero, what DEQUANTIZE gives. With numbers the difference is rounded to "
            "FLOAT32, then the product, which is rounded to FLOAT16 where that is the type.",
            "With factors a scale is ScaleTensor's times the block's factor, rounded to FLOAT32; so is its product "
            "with the difference, which is rounded to FLOAT16 where that is the type.",
            "With minima what is so made, less the block's minimum, is rounded to FLOAT32.",
        ),
        same_data_type=(),
        accuracy=Accuracy("correctly rounded", 0.5),
        support=(
            Support(
                "1_0",
                (2, 2),
                FLOATS,
                packed_tensor=(DataType.UINT8,),
                scale_tensor=(DataType.UINT8, *FLOATS),
                zero_point_tensor=(DataType.UINT8, *FLOATS),
                group_index_tensor=(DataType.UINT32, DataType.INT32),
                factor_tensor=tuple(FACTOR_BITS),
            ),
        ),
    )
