"""Products of rows with matrices that each row chooses: an operator of dmlvk's own, which DirectML does not have.

A mixture of experts multiplies each token by few of many matrices. DirectML's operators would bring the chosen ones
together in memory first, for each token anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dmlvk.datatypes import DataType
from dmlvk.operators.block_weights import FACTOR_BITS, LOW_BITS, check_parameters, row_bytes
from dmlvk.operators.declaration import Declaration, OperatorDesc, Support
from dmlvk.operators.matrix import SUMS_OF_PRODUCTS
from dmlvk.operators.members import tensor_input, tensor_output, unsigned_attribute
from dmlvk.operators.shapes import Draft, check_sizes, refuse
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_LEAST_BLOCKS = {**dict.fromkeys(LOW_BITS, 16), 8: 8}


def _sizes(desc: ExpertProducts | Draft) -> Mapping[str, Sequence[int]]:
    """Checks all sizes against those of the operand and of the output.

    Raises:
        InvalidArgumentError: when they do not fit.
    """
    if desc.output_tensor is None:
        return {}  # its sizes must be given
    (rows, terms), columns = desc.a_tensor.sizes, desc.output_tensor.sizes[-1]
    check_sizes(desc, "output_tensor", (rows, columns), "rows and columns")
    check_sizes(desc, "expert_tensor", (1, rows), "the number of a matrix for each row")
    for member in ("weight_tensor", "scale_tensor", "zero_point_tensor", "factor_tensor", "expert_tensor"):
        tensor = getattr(desc, member)
        if tensor is not None and not tensor.is_packed:
            refuse(desc, f"{member}.strides", f"must be those of packed elements; got {list(tensor.element_strides)}")
    lines, scale = desc.weight_tensor.sizes[0], desc.scale_tensor
    if lines % columns:
        refuse(desc, "weight_tensor.sizes", f"must be lines of matrices with {columns} columns; got {lines} lines")
    if scale is None:
        check_sizes(desc, "weight_tensor", (lines, terms), "lines and terms")
        wanted = desc.a_tensor.data_type
        parameters = {desc.zero_point_tensor, desc.factor_tensor, desc.zero_point, desc.table}
        if desc.weight_tensor.data_type is not wanted or parameters != {None}:
            refuse(
                desc,
                "weight_tensor.data_type",
                f"must be {wanted.name}, without zero points and factors, where no scales are",
            )
        return {}
    if desc.bits not in _LEAST_BLOCKS or not desc.block_size or desc.block_size % _LEAST_BLOCKS[desc.bits]:
        refuse(
            desc,
            "bits",
            f"must be 2 to 6 or 8, and BlockSize a multiple of 16, or of 8 with 8 bits; got {desc.bits} and "
            f"{desc.block_size}",
        )
    blocks = -(-terms // desc.block_size)
    width = row_bytes(blocks * desc.block_size, desc.bits)
    check_sizes(desc, "weight_tensor", (lines, width), f"lines, and bytes of {blocks} blocks")
    if desc.weight_tensor.data_type is not DataType.UINT8:
        refuse(desc, "weight_tensor.data_type", "must be UINT8 beside scales")
    check_parameters(desc, desc.a_tensor.data_type, lines, blocks)
    return {}


class ExpertProducts(OperatorDesc, is_listed=False):
    """Products of rows, each with a matrix of its own choice.

    It is no operator of DirectML, and not among those that are found by DirectML's names.
    """

    a_tensor: TensorDesc = tensor_input("rows x terms")
    weight_tensor: TensorDesc = tensor_input(
        "all matrices, one behind the other, columns x terms each: numbers, or bytes of integers, the lowest bits first"
    )
    scale_tensor: TensorDesc | None = tensor_input("a scale for each block of a line", default=None)
    zero_point_tensor: TensorDesc | None = tensor_input(
        "what stands for zero in each block: packed integers, or numbers; without it half of what integers can be",
        default=None,
    )
    factor_tensor: TensorDesc | None = tensor_input(
        "integers by which scales are multiplied, as of DMLVK_DEQUANTIZE_BLOCKS", default=None
    )
    expert_tensor: TensorDesc = tensor_input("1 x rows: the matrix of each row; one that there is not is the last one")
    output_tensor: TensorDesc = tensor_output("rows x columns")
    bits: int = unsigned_attribute("of an integer: 2 to 6 or 8; 0 where weights are numbers")
    block_size: int = unsigned_attribute(
        "terms of a block, a multiple of 16, or of 8 with 8 bits; 0 where weights are numbers"
    )
    zero_point: int | None = unsigned_attribute(
        "what stands for zero where no tensor says it; without it half of what the integers can be", default=None
    )
    table: int | None = unsigned_attribute(
        "what integers of 4 bits stand for, as of DMLVK_DEQUANTIZE_BLOCKS", default=None
    )
    declaration: ClassVar = Declaration(
        "matrix",
        "Output[i, j] = sum over k of A[i, k] * Weight[Expert[i], j, k]",
        name="DMLVK_EXPERT_PRODUCTS",
        shapes=_sizes,
        decisions=("A result has the bits that GEMM gives for the same row and the numbers of its matrix.",),
        same_data_type=(("a_tensor", "output_tensor"),),
        accuracy=SUMS_OF_PRODUCTS,
        support=(
            Support(
                "1_0",
                (2, 2),
                FLOATS,
                weight_tensor=(DataType.UINT8, *FLOATS),
                scale_tensor=(DataType.UINT8, *FLOATS),
                zero_point_tensor=(DataType.UINT8, *FLOATS),
                factor_tensor=tuple(FACTOR_BITS),
                expert_tensor=(DataType.UINT32,),
            ),
        ),
    )
