"""Products of few rows by matrices that subgroups hold together, with packed weights of 4 bits as right operand.

For those who permit a device its own arithmetic. The value of a weight is that of DEQUANTIZE; it is made where tiles
are put into shared memory, so that weights are read as they are, and never written as numbers. (For a prompt of 512 it
is faster to write them: each tile of rows makes them anew.)
"""

from __future__ import annotations

import dataclasses

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_multiple
from dmlvk.kernels.products.block_weights import BlockWeights, ZeroKind
from dmlvk.kernels.products.matrix import Product, gemm_product
from dmlvk.kernels.products.matrix_tiles import FLAT_COOPERATIVE_BY_SUBGROUP
from dmlvk.kernels.target import Target
from dmlvk.operators import Gemm

BUFFERS = 6  # Of its kernels

_BITS, _EIGHT, _LEAST = 4, 8, 16

_FEWEST_ROWS = 9  # Up to eight are as fast in the order of sums


def packed_right(desc: Gemm, weights: BlockWeights, target: Target) -> tuple[dict[str, int], Product] | None:
    """What kernels are told of the weights, and the product as they compute it; ``None`` where there are none for it.

    Args:
        desc: the product, as of numbers.
        weights: what the second matrix is made of.
    """
    scale, zero = weights.scale, weights.zero
    is_of_four = weights.is_of_integers and weights.bits == _BITS and weights.data_type is DataType.FLOAT16
    is_of_four = is_of_four and target.has_half_arithmetic
    lies_well = weights.lies_along_terms and is_multiple(weights.terms, _EIGHT)
    has_lines = (scale.term_step, scale.column_block) == (1, 1) and is_multiple(scale.term_block, _EIGHT)
    has_zeros = weights.zero_kind is ZeroKind.PACKED
    fits_zeros = weights.zero_kind is ZeroKind.NUMBER or (
        has_zeros and (zero.term_step, zero.column_block, zero.term_block) == (1, 1, scale.term_block)
    )
    if not (is_of_four and lies_well and has_lines and fits_zeros and target.buffers >= BUFFERS):
        return None
    product = gemm_product(desc, with_eights=True)
    tile = FLAT_COOPERATIVE_BY_SUBGROUP[target.subgroup_size]
    is_few = _FEWEST_ROWS <= product.rows <= tile.rows and product.left_has_eights
    is_able = target.device_arithmetic and target.multiplies_matrices_of(DataType.FLOAT16)
    has_room = tile.shared_memory <= target.shared_memory and tile.invocations <= target.work_group_size
    if not (
        is_few and is_able and has_room and product.left_along_terms and min(product.columns, product.terms) >= _LEAST
    ):
        return None
    others = (weights.column_step, 1, *product.others[2:])
    product = dataclasses.replace(product, others=others, right_along_terms=True, right_has_eights=True, is_packed=True)
    constants = {
        "WEIGHT_BLOCK": scale.term_block,
        "SCALE_COLUMN": scale.column_step,
        "ZERO_COLUMN": zero.column_step,
        "HAS_ZEROS": int(has_zeros),
        "ZERO_NUMBER": weights.zero_number,
        "WEIGHTS_ARE_SIGNED": int(weights.is_signed),
    }
    return constants, product
