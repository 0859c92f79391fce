"""What products with packed weights have in common: how rows become integers, by the weights' format alone."""

from __future__ import annotations

import itertools

from dmlvk.datatypes import DataType
from dmlvk.kernels.products.block_weights import BlockWeights
from dmlvk.kernels.target import Target
from dmlvk.operators.type_groups import FLOATS

SEGMENT = 1024
"""As in ``shaders/patterns/products/block_products.glsl``."""

BITS = (2, 4, 8)
CHUNK = 32
CHUNKS = (16, CHUNK)
BYTES_CHUNK = 8
"""Terms of the shortest chunk, by wide integers: of weights of 8 bits alone."""


def wide_rows(weights: BlockWeights) -> DataType | None:
    """The data type of rows that are multiplied by wide integers; ``None``: by those of 24 bits.

    It follows from the weights' format alone, for any number of rows.
    """
    are_integers = weights.is_of_integers and weights.bits in BITS
    has_chunks = weights.lies_along_terms and chunk_terms(weights) in CHUNKS
    is_narrow = weights.data_type is DataType.FLOAT16 and are_integers and has_chunks
    return None if is_narrow else weights.data_type


def has_own_order(weights: BlockWeights) -> bool:
    """Whether products are computed by exact integers, and have other bits than DEQUANTIZE and GEMM give."""
    return weights.lies_along_terms


def chunk_terms(weights: BlockWeights) -> int:
    """Terms that a row has integers of in common: they share a scale."""
    return weights.common_block(CHUNK)


def defines(wide: DataType | None, bits: int, chunk: int, target: Target) -> dict[str, str]:
    """Preprocessor definitions that all such kernels are compiled with."""
    operand = wide or DataType.FLOAT16
    return {
        "OPERAND": operand.name.lower(),
        "OPERAND_BITS": str(operand.size_in_bits),
        "WEIGHT_BITS": str(bits),
        "CHUNK": f"{chunk}u",
        "HAS_DOT_PRODUCT": str(int(target.has_integer_dot_product)),
        **({"IS_WIDE": "1"} if wide else {}),
    }


def formats(wide: DataType | None) -> list[tuple[int, int]]:
    """Bits of weights, of their first plane, and terms of chunks."""
    found = list(itertools.product(BITS, CHUNKS))
    return found if wide is None else [(BYTES_CHUNK, BYTES_CHUNK), *found]


WIDTHS = (None, *FLOATS)
"""Integers of 24 bits, and wide ones of rows of each data type."""
