"""Weights of few bits that models bring along, as numbers: an operator of dmlvk's own, which DirectML does not have.

DEQUANTIZE has no integers of 2 bits, no floats that stand for zero, and no blocks in an order of their own; MatMulNBits
of ONNX Runtime has them all. Graphs compute products with these weights without making numbers of them in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dmlvk.datatypes import DataType
from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import tensor_input, tensor_output, unsigned_attribute
from dmlvk.operators.shapes import Draft, check_sizes, refuse
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_BITS = (2, 4, 8)
_LEAST_BLOCK = 8
_BITS_OF_BYTE = 8


def row_bytes(terms: int, bits: int) -> int:
    """Bytes of so many integers of few bits, the last one filled up."""
    return -(-terms * bits // _BITS_OF_BYTE)


def _sizes(desc: DequantizeBlocks | Draft) -> Mapping[str, Sequence[int]]:
    """Checks all sizes against those of the output, columns x terms.

    Raises:
        InvalidArgumentError: when they do not fit.
    """
    if desc.bits not in _BITS:
        refuse(desc, "bits", f"must be 2, 4 or 8; got {desc.bits}")
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
    check_sizes(desc, "scale_tensor", (columns, blocks), "columns and blocks")
    zero = desc.zero_point_tensor
    if zero is not None:
        is_packed = zero.data_type is DataType.UINT8
        if not is_packed and zero.data_type is not desc.scale_tensor.data_type:
            refuse(
                desc,
                "zero_point_tensor.data_type",
                f"must be UINT8 or {desc.scale_tensor.data_type.name}, as ScaleTensor has; got {zero.data_type.name}",
            )
        wanted = (columns, row_bytes(blocks, desc.bits)) if is_packed else (columns, blocks)
        words = f"columns, and bytes of {blocks} integers of {desc.bits} bits" if is_packed else "columns and blocks"
        check_sizes(desc, "zero_point_tensor", wanted, words)
    if desc.group_index_tensor is not None:
        check_sizes(desc, "group_index_tensor", (1, terms), "one for each term")
    for member in ("packed_tensor", "zero_point_tensor"):
        tensor = getattr(desc, member)
        if tensor is not None and tensor.data_type is DataType.UINT8 and tensor.strides is not None:
            refuse(desc, f"{member}.strides", f"must be absent: packed integers lie in order; got {tensor.strides}")
    if isinstance(desc, DequantizeBlocks) and desc.output_tensor.element_strides[1] != 1 and terms > 1:
        refuse(desc, "output_tensor.strides", f"must be 1 along the terms; got {desc.output_tensor.element_strides}")
    return {}


class DequantizeBlocks(OperatorDesc, is_listed=False):
    """The numbers that packed integers of few bits stand for, by a scale for each block of a column's terms.

    It is no operator of DirectML, and not among those that are found by DirectML's names.
    """

    packed_tensor: TensorDesc = tensor_input("columns x bytes: integers, the lowest bits of each byte first")
    scale_tensor: TensorDesc = tensor_input("columns x blocks")
    zero_point_tensor: TensorDesc | None = tensor_input(
        "what stands for zero: columns x bytes of packed integers, or columns x blocks of numbers; without it half of "
        "what the integers can be",
        default=None,
    )
    group_index_tensor: TensorDesc | None = tensor_input(
        "1 x terms: the block that each term belongs to; without it neighbours belong together", default=None
    )
    output_tensor: TensorDesc = tensor_output("columns x terms: the numbers")
    bits: int = unsigned_attribute("of an integer: 2, 4 or 8")
    block_size: int = unsigned_attribute("terms of a block, a multiple of 8")
    declaration: ClassVar = Declaration(
        "quantization",
        "(x - ZeroPoint) * Scale",
        name="DMLVK_DEQUANTIZE_BLOCKS",
        shapes=_sizes,
        decisions=(
            "With integers that stand for zero, what DEQUANTIZE gives. With numbers the difference is rounded to "
            "FLOAT32, then the product, which is rounded to FLOAT16 where that is the type.",
        ),
        same_data_type=(("scale_tensor", "output_tensor"),),
        accuracy=Accuracy("correctly rounded", 0.5),
        support=(
            Support(
                "1_0",
                (2, 2),
                FLOATS,
                packed_tensor=(DataType.UINT8,),
                zero_point_tensor=(DataType.UINT8, *FLOATS),
                group_index_tensor=(DataType.UINT32, DataType.INT32),
            ),
        ),
    )
