"""Products of 8-bit integers on GPUs: operands are packed first, then multiplied in tiles.

Packing takes time that grows with the operands, and the product with the number of terms: all that makes operands
differ (strides, signs, windows and their padding) is the business of one small kernel, and tiles know one layout. What
lies so already is not packed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.spirv import cooperative_types

_FAMILIES = ("gemm", "convolution")

_VECTOR_TERMS = 16  # Terms of a vector: ``shaders/patterns/products/packed_product.glsl``

_SUBGROUP_INVOCATIONS = 32  # As in ``shaders/patterns/products/cooperative_tiles.glsl``

_PACKING_INVOCATIONS, _SUMS_INVOCATIONS = 128, 64
"""As in ``shaders/patterns/products/packed_operand.glsl`` and ``packed_sums.glsl``."""

_INNER_BATCHES = 12
"""Where the number of inner batches stands among a GEMM's ``others``: ``gemm_product`` in ``matrix.py``."""

_FEWEST_LINES = 32  # Rows, columns and terms from which on tiles are not empty for the most part

_FEWEST_PRODUCTS = 2**21  # Products of elements for which several launches pay

_MOST_PACKED = 2**28  # Bytes of a packed operand


@dataclasses.dataclass(frozen=True)
class PackedTile:
    """A block of results that a work group computes.

    By ``shaders/patterns/products/packed_tiles.glsl`` or, of cooperative matrices, ``cooperative_tiles.glsl``.
    """

    rows: int  # results downwards
    columns: int  # results across
    # of each invocation, or of each subgroup where matrices are cooperative, downwards and across
    results: tuple[int, int]
    step_terms: int  # terms that it takes at once
    fewest_groups: int  # work groups from which on it keeps a device busy
    is_cooperative: bool = False  # whether subgroups multiply matrices that they hold together

    @property
    def invocations(self) -> int:
        parts = self.rows * self.columns // (self.results[0] * self.results[1])
        return parts * (_SUBGROUP_INVOCATIONS if self.is_cooperative else 1)

    @property
    def shared_memory(self) -> int:
        """Bytes that a work group needs."""
        if self.is_cooperative:
            results = self.invocations // _SUBGROUP_INVOCATIONS * 16 * self.results[1] * 4
            return max((self.rows + self.columns) * (self.step_terms + _VECTOR_TERMS), results)
        return self.step_terms * (self.rows + self.columns + 8)

    def line_vectors(self, product: Product) -> int:
        """Of a packed line, with the zeros that fill up the last step."""
        return -(-product.terms // self.step_terms) * (self.step_terms // _VECTOR_TERMS)

    def groups(self, product: Product) -> int:
        return -(-product.rows // self.rows) * -(-product.columns // self.columns) * product.batches

    def variant(self, family: str, has_dot_product: bool) -> ShaderVariant:
        defines = {
            "CONVOLUTION": str(int(family == "convolution")),
            "TILE_ROWS": f"{self.rows}u",
            "TILE_COLUMNS": f"{self.columns}u",
            "INVOCATIONS": f"{self.invocations}u",
            "RESULT_ROWS": f"{self.results[0]}u",
            "RESULT_COLUMNS": f"{self.results[1]}u",
            "VECTORS": f"{self.step_terms // _VECTOR_TERMS}u",
        }
        if not self.is_cooperative:
            defines["HAS_DOT_PRODUCT"] = str(int(has_dot_product))
        way = "cooperative" if self.is_cooperative else "dot" if has_dot_product else "plain"
        name = f"{family}_integer.packed.{self.rows}x{self.columns}.{way}"
        source = cooperative_types.SOURCE if self.is_cooperative else "matrix/packed_tiles.comp"
        return ShaderVariant(name, source, tuple(sorted(defines.items())))


COOPERATIVE_TILES = (
    PackedTile(128, 128, (32, 64), 128, 132, is_cooperative=True),
    PackedTile(64, 64, (16, 32), 128, 66, is_cooperative=True),
    PackedTile(32, 64, (16, 32), 128, 0, is_cooperative=True),
)
"""For devices with such matrices, from the largest to the smallest."""

TILES = (PackedTile(128, 64, (8, 8), 32, 264), PackedTile(64, 64, (8, 4), 32, 132), PackedTile(32, 32, (4, 4), 32, 0))
"""For all devices, from the largest to the smallest."""


def tile_for(product: Product, target: Target) -> PackedTile | None:
    """The tile in which a product is computed; ``None`` where it is too small, or the device not made for tiles."""
    shape = (product.rows, product.columns, product.terms)
    work = product.rows * product.columns * product.terms * product.batches
    if target.is_cpu or min(shape) < _FEWEST_LINES or work < _FEWEST_PRODUCTS:
        return None
    most = min(_MOST_PACKED, target.buffer_size)
    for tile in (*COOPERATIVE_TILES, *TILES) if target.has_cooperative_bytes else TILES:
        fits = tile.shared_memory <= target.shared_memory and tile.invocations <= target.work_group_size
        if fits and tile.groups(product) >= tile.fewest_groups:
            sides = _sides(product, tile)
            return tile if all(side.size_in_bytes(product) <= most for side in sides) else None
    return None


@dataclasses.dataclass(frozen=True)
class _Side:
    is_right: bool  # which one it is
    lines: int  # rows or columns of each batch
    packed_lines: int  # the same with those that fill up tiles
    line_vectors: int  # vectors of each

    def vectors(self, product: Product) -> int:
        return product.batches * self.packed_lines * self.line_vectors

    def size_in_bytes(self, product: Product) -> int:
        return self.vectors(product) * _VECTOR_TERMS


def _sides(product: Product, tile: PackedTile) -> tuple[_Side, _Side]:
    rows, columns, vectors = product.rows, product.columns, tile.line_vectors(product)
    return (
        _Side(False, rows, -(-rows // tile.rows) * tile.rows, vectors),
        _Side(True, columns, -(-columns // tile.columns) * tile.columns, vectors),
    )


@dataclasses.dataclass(frozen=True)
class PackedOperand:
    """An operand of a product of integers."""

    region: Region  # where it lies
    data_type: DataType  # INT8 or UINT8
    zero: Region | None  # where its zero points lie; ``None``: it has none
    zero_stride: int  # from one row's or column's zero point to the next one's; 0: there is one for all
    zero_batch_stride: int  # from the first of a batch to that of the next one

    @property
    def flipped(self) -> int:
        """What makes its elements signed: the bit that an exclusive or turns."""
        return 0x80 if self.data_type is DataType.UINT8 else 0


def add_product(builder: ProgramBuilder, product: Product, tile: PackedTile, operands: Sequence[PackedOperand]) -> None:
    """Adds the launches that compute a product."""
    sides = _sides(product, tile)
    packed = [
        operand.region if _lies_packed(product, side, operand) else _pack(builder, product, side, operand)
        for side, operand in zip(sides, operands, strict=True)
    ]
    # Where elements are unsigned, 128 is taken from them and from their zero point.
    has_zeros = any(operand.zero is not None or operand.flipped for operand in operands)
    sums = packed
    if has_zeros:
        sums = [_sum(builder, product, *each) for each in zip(sides, operands, packed, strict=True)]
    groups = tile.groups(product)
    work_groups = launch_size(builder.operator_name, groups * tile.invocations, tile.invocations)
    tiles = (-(-product.rows // tile.rows), -(-product.columns // tile.columns))
    sizes = (groups, product.rows, product.columns, product.terms, *tiles, 0, 0)
    kernel = PlainKernel(
        tile.variant(product.family, builder.target.has_integer_dot_product).name,
        work_groups,
        {"HAS_ZEROS": int(has_zeros), **_layout_of_results(product, tile, has_zeros), **product.geometry},
        (*sizes, *product.left, *product.others),
        work_group_size=tile.invocations,
    )
    builder.launch(kernel, [*packed, *sums], [builder.writes["output_tensor"]])


def _lies_packed(product: Product, side: _Side, operand: PackedOperand) -> bool:
    """Whether an operand lies in memory as it would be packed: signed, in lines that fill all tiles."""
    fills = side.packed_lines == side.lines and side.line_vectors * _VECTOR_TERMS == product.terms
    if operand.flipped or not fills:
        return False
    if product.family == "convolution" and (side.is_right or product.batches > 1 or not product.left_has_vectors):
        return False  # channels of a filter may lie elsewhere than behind one another
    line, term, outer, inner = product.others[:4] if side.is_right else product.left
    if (line, term) != (product.terms, 1):
        return False
    size = side.lines * product.terms
    inner_count = product.others[_INNER_BATCHES] if product.batches > 1 else 1
    return (inner_count == 1 or inner == size) and (inner_count == product.batches or outer == inner_count * size)


def _layout_of_results(product: Product, tile: PackedTile, has_zeros: bool) -> dict[str, int]:
    """What tiles of cooperative matrices are told of the output: ``patterns/products/cooperative_tiles.glsl``."""
    if not tile.is_cooperative:
        return {}
    are_sums = product.output_has_rows and not has_zeros
    return {"OUTPUT_HAS_FOURS": int(product.output_has_fours), "RESULTS_ARE_SUMS": int(are_sums)}


def _pack(builder: ProgramBuilder, product: Product, side: _Side, operand: PackedOperand) -> Region:
    vectors = side.vectors(product)
    region = builder.scratch(side.size_in_bytes(product))
    along = product.right_along_terms if side.is_right else product.left_along_terms
    has_vectors = product.right_has_vectors if side.is_right else product.left_has_vectors
    work_groups = launch_size(builder.operator_name, vectors, _PACKING_INVOCATIONS)
    constants = {
        "IS_RIGHT": int(side.is_right),
        "HAS_ZERO": int(operand.zero is not None),
        "FLIPPED": int(operand.flipped),
        "ALONG_TERMS": int(along),
        "HAS_WORDS": int(along and has_vectors),
        **product.geometry,
    }
    kernel = PlainKernel(
        _operand_variant(product.family).name,
        work_groups,
        constants,
        (
            vectors,
            *(product.rows, product.columns, product.terms),
            *(side.packed_lines, side.line_vectors, 0, 0),
            *product.left,
            *product.others,
        ),
        work_group_size=_PACKING_INVOCATIONS,
    )
    reads = [operand.region, operand.zero or operand.region]
    label = f"the {'right' if side.is_right else 'left'} operand, packed"
    builder.launch(kernel, reads, [region], label=label, is_independent=side.is_right)
    return region


def _sum(builder: ProgramBuilder, product: Product, side: _Side, operand: PackedOperand, packed: Region) -> Region:
    lines = product.batches * side.packed_lines
    region = builder.scratch(8 * lines)
    work_groups = launch_size(builder.operator_name, lines * _SUMS_INVOCATIONS, _SUMS_INVOCATIONS)
    kernel = PlainKernel(
        _SUMS.name,
        work_groups,
        {"HAS_ZERO": int(operand.zero is not None), "FLIPPED": operand.flipped},
        (lines, side.packed_lines, side.lines, side.line_vectors, operand.zero_stride, operand.zero_batch_stride),
        work_group_size=_SUMS_INVOCATIONS,
    )
    label = f"sums of the {'right' if side.is_right else 'left'} operand"
    builder.launch(kernel, [packed, operand.zero or packed], [region], label=label, is_independent=side.is_right)
    return region


_SUMS = ShaderVariant("packed_sums", "matrix/packed_sums.comp", ())


def _operand_variant(family: str) -> ShaderVariant:
    defines = (("CONVOLUTION", str(int(family == "convolution"))),)
    return ShaderVariant(f"{family}_integer.packed_operand", "matrix/packed_operand.comp", defines)


def variants() -> Iterator[ShaderVariant]:
    yield _SUMS
    for family in _FAMILIES:
        yield _operand_variant(family)
        for tile in TILES:
            for has_dot_product in (False, True):
                yield tile.variant(family, has_dot_product)
        for tile in COOPERATIVE_TILES:
            yield tile.variant(family, has_dot_product=False)
