"""Products of few rows with packed weights of 4 bits, by matrices that subgroups hold together.

For those who permit a device its own arithmetic. Either a work group computes what a part of the terms gives, and a
second kernel adds the parts, so that all cores have work however few columns there are; or, of up to eight rows, its
subgroups share the terms of few columns. The value of a weight is that of DEQUANTIZE; it is made in registers, as an
element of a matrix.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_multiple
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products.block_parts import add_in_parts, product_parameters, totals_variant
from dmlvk.kernels.products.block_weights import BlockWeights
from dmlvk.kernels.products.matrix import Product, gemm_product
from dmlvk.kernels.products.matrix_tiles import CORES
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm
from dmlvk.spirv.cooperative_types import BLOCKS_SOURCE

_SIDE = 16  # Rows and columns of a matrix

_STAGE = 128  # Terms at once: ``shaders/patterns/products/block_matrices.glsl``

_BLOCK = 32  # Terms that an invocation loads at once, with one scale

_SUBGROUP = 32
_SPLIT_ROWS = 8  # Rows that work groups have whose subgroups share terms

_MOST_SPLIT_COLUMNS = 32768  # Of these: each work group loads all rows

_FEWEST_ROWS = 3
_FEWEST_GROUPS = {1: 2 * CORES, 2: CORES * 5 // 3}
"""Work groups that keep a GPU busy, by the matrices of rows of each: with two of them more would wait for a second
turn."""

_LEAST_PART = 512  # Terms, below which a work group would wait longer for its first weights than compute with them

_BITS = 4
_TYPE = DataType.FLOAT16
_BUFFERS = 7
_BUFFERS_OF_GATED = 10
_EIGHT = 8


@dataclasses.dataclass(frozen=True)
class MatricesTile:
    """What a work group computes at once."""

    rows: int  # matrices of rows
    columns: int  # matrices of columns of each subgroup
    subgroups: int  # of a work group
    splits_terms: bool = False  # whether subgroups share the terms of the same columns

    @property
    def invocations(self) -> int:
        return _SUBGROUP * self.subgroups

    @property
    def shared_memory(self) -> int:
        """Bytes that a work group needs, on devices whose weights go through shared memory."""
        line, sums = _STAGE // _EIGHT + 1, self.subgroups * _SIDE * 5
        rows = (self.subgroups + 1) * _SPLIT_ROWS * line if self.splits_terms else 2 * _SIDE * self.rows * line
        return 16 * max(rows, sums * (self.columns if self.splits_terms else 1)) + 16 * self.subgroups * _SIDE * 3

    def across(self, *, is_gated: bool) -> int:
        subgroups = 1 if self.splits_terms else self.subgroups
        return subgroups * self.columns * _SIDE // (2 if is_gated else 1)

    def variant(self, *, is_gated: bool) -> ShaderVariant:
        given = {
            "OPERAND": "float16",
            "OPERAND_BITS": "16",
            "WEIGHT_BITS": str(_BITS),
            "HALF_ARITHMETIC": "1",
            "ROW_MATRICES": f"{self.rows}u",
            "COLUMN_MATRICES": f"{self.columns}u",
            "SUBGROUPS": f"{self.subgroups}u",
        }
        name = f"blocks.float16.{_BITS}.matrices.{self.rows}x{self.columns}x{self.subgroups}"
        if self.splits_terms:
            given["SPLITS_TERMS"] = "1"
            name += ".split"
        if is_gated:
            given["IS_GATED"] = "1"
            name += ".gated"
        return ShaderVariant(name, BLOCKS_SOURCE, tuple(sorted(given.items())))


SPLIT = MatricesTile(1, 1, 8, splits_terms=True)
"""For up to eight rows without a gate. Two matrices of columns for a subgroup take twice as long, and longer."""

GATED = (MatricesTile(1, 2, 8), MatricesTile(2, 2, 8))
"""For products with a gate, which is every other matrix, by their rows."""

PLAIN = (MatricesTile(1, 1, 8), GATED[1])  # The same for others


def variants() -> Iterator[ShaderVariant]:
    yield from (tile.variant(is_gated=False) for tile in (SPLIT, *PLAIN))
    yield from (tile.variant(is_gated=True) for tile in GATED)
    yield from (totals_variant(_BITS, {}, is_gated=is_gated) for is_gated in (False, True))


def tile_for(product: Product, *, is_gated: bool) -> MatricesTile | None:
    """The tile in which a product is computed; ``None`` where there are too many rows for any."""
    is_even = is_multiple(product.terms, SPLIT.subgroups * _STAGE)
    if not is_gated and product.rows <= _SPLIT_ROWS and is_even and product.columns <= _MOST_SPLIT_COLUMNS:
        return SPLIT
    return next((tile for tile in (GATED if is_gated else PLAIN) if product.rows <= tile.rows * _SIDE), None)


def part_terms(product: Product, tile: MatricesTile, *, is_gated: bool) -> int:
    """Terms of a part: as many as leave a GPU with enough work groups."""
    tiles = -(-product.columns // tile.across(is_gated=is_gated))
    wanted = -(-_FEWEST_GROUPS[tile.rows] // tiles)
    parts = max(1, min(wanted, product.terms // _LEAST_PART))
    return -(-product.terms // parts // _STAGE) * _STAGE


def multiplies(desc: Gemm, weights: BlockWeights, target: Target, *, is_gated: bool = False) -> bool:
    """Whether a device computes a product so.

    Args:
        desc: the product, as of numbers.
        weights: what its second matrix is made of.
        is_gated: whether there are weights of a gate.
    """
    product = gemm_product(desc, with_eights=True)
    are_such = weights.data_type is _TYPE and weights.bits == _BITS and weights.common_block(_BLOCK) == _BLOCK
    are_such = are_such and weights.is_of_integers and weights.lies_along_terms and weights.has_vectors
    has_left = product.left_along_terms and product.left_has_eights
    is_able = target.device_arithmetic and target.multiplies_matrices_of(_TYPE) and target.has_half_arithmetic
    is_able = is_able and target.subgroup_size == _SUBGROUP
    is_bound = target.buffers >= (_BUFFERS_OF_GATED if is_gated else _BUFFERS)
    if not (are_such and has_left and is_able and is_bound and is_multiple(product.terms, _STAGE)):
        return False
    tile = tile_for(product, is_gated=is_gated) if product.rows >= _FEWEST_ROWS else None
    return tile is not None and (
        tile.shared_memory <= target.shared_memory and tile.invocations <= target.work_group_size
    )


def add_product(
    builder: ProgramBuilder,  # to which they are added
    desc: Gemm,  # the product, as of numbers
    product: Product,
    operands: Sequence[Region],  # as all kernels of these products bind them
    given: Mapping[str, int],  # the specialization constants that these have in common
    *,
    is_gated: bool,  # whether there are weights of a gate
) -> None:
    tile = tile_for(product, is_gated=is_gated)
    assert tile is not None  # what such products have
    columns = -(-product.columns // tile.across(is_gated=is_gated))
    pairs = given["OUTPUT_HAS_PAIRS"] and product.columns % 2 == 0
    constants = {**given, "OUTPUT_HAS_PAIRS": int(pairs), "BLOCK": _BLOCK}
    length = product.terms if tile.splits_terms else part_terms(product, tile, is_gated=is_gated)
    parts = -(-product.terms // length)
    if not tile.splits_terms:
        constants["PART_TERMS"] = length
    kernel = PlainKernel(
        tile.variant(is_gated=is_gated).name,
        launch_size(builder.operator_name, columns * parts * tile.invocations, tile.invocations),
        constants,
        (columns * parts, *product_parameters(desc, product, (1, columns))),
        work_group_size=tile.invocations,
    )
    if tile.splits_terms:
        builder.launch(kernel, operands, [builder.writes["output_tensor"]], label="packed weights")
        return
    totals = totals_variant(_BITS, {}, is_gated=is_gated)
    add_in_parts(
        builder, product, operands, kernel, totals, constants, parts=parts, part_terms=length, is_gated=is_gated
    )
