"""Products of many rows of FLOAT16 with packed weights, in tiles, by the definition of packed integers.

Rows are made parts first, whose sums with a chunk's weights are exact in FLOAT32, in any order: so subgroups may
multiply them as matrices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from dmlvk.datatypes import float32_bits
from dmlvk.dynamic.sizes import is_multiple, typical
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products import packed_dots, packed_integers
from dmlvk.kernels.products.block_parts import add_in_parts, product_parameters, totals_variant
from dmlvk.kernels.products.block_weights import BlockWeights
from dmlvk.kernels.products.matrix import Product, gemm_product
from dmlvk.kernels.products.matrix_tiles import CORES
from dmlvk.kernels.products.packed_integers import CHUNKS, SEGMENT, chunk_terms
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm
from dmlvk.spirv.cooperative_types import PACKED_SOURCE

_SIDE, _SUBGROUP, _EIGHT, _WORD = 16, 32, 8, 4
_GROUPS_OF_CORE = 4
"""Work groups of a GPU's core that keep it busy."""

_PARTS_CHUNKS, _PARTS_INVOCATIONS = 4, 256
"""Of a work group of ``shaders/patterns/products/packed_parts.glsl``, which has 16 rows."""

_BUFFERS = 10
"""Of a kernel with a gate."""

_FEW_ROWS, _FEW_ROWS_OF_PROCESSORS = 4, 8
"""Rows up to which kernels of few rows are faster."""

_LARGEST_HALF = 65504.0
_LARGEST = {2: _LARGEST_HALF, 4: 32511.0, 8: 2031.0}
"""Magnitudes, by the bits of weights, up to which the parts of a chunk have exact sums: there 32 (2^bits - 1) p 2^-24
is at most 1."""


@dataclasses.dataclass(frozen=True)
class Tile:
    """What a work group of ``shaders/patterns/products/packed_matrices.glsl`` computes at once.

    Attributes:
        down: subgroups downwards.
        across: subgroups across.
        rows: matrices of rows of each.
        columns: matrices of columns of each; with a gate every other one is of its columns.
        stage: chunks in shared memory at one time.
    """

    down: int
    across: int
    rows: int
    columns: int
    stage: int

    line_bytes = 192
    """Of a row's chunk: ``shaders/patterns/products/packed_layout.glsl``."""

    shared_memory = 48128
    """Bytes of a work group, at most."""

    @property
    def tile_rows(self) -> int:
        return self.down * self.rows * _SIDE

    @property
    def invocations(self) -> int:
        return _SUBGROUP * self.down * self.across

    def tile_columns(self, *, is_gated: bool) -> int:
        return self.across * self.columns * _SIDE // (2 if is_gated else 1)

    def variant(self, bits: int, chunk: int, *, is_gated: bool) -> ShaderVariant:
        given = {
            "SUBGROUPS_DOWN": f"{self.down}u",
            "SUBGROUPS_ACROSS": f"{self.across}u",
            "ROW_MATRICES": f"{self.rows}u",
            "COLUMN_MATRICES": f"{self.columns}u",
            "STAGE": f"{self.stage}u",
        }
        way = f"{self.down}x{self.across}x{self.rows}x{self.columns}x{self.stage}"
        return _variant(way, PACKED_SOURCE, bits, chunk, given, is_gated=is_gated)

    def constants(self, *, has_vectors: bool, writes_sums: bool) -> dict[str, int]:
        """The specialization constants that it has besides those of all kernels of packed weights."""
        return {"PACKED_HAS_VECTORS": int(has_vectors), "WRITES_SUMS": int(writes_sums)}

    def add_rows(
        self,
        builder: ProgramBuilder,
        desc: Gemm,
        product: Product,
        chunk: int,
        bits: int,
        tiles: tuple[int, int],
        operands: Sequence[Region],
        given: Mapping[str, int],
    ) -> Region:
        """Adds the kernel that makes parts of rows, and returns where they lie."""
        return _add_parts(builder, product, chunk, bits, tiles[0] * self.tile_rows, operands[0])


FEW = Tile(1, 4, 1, 2, 2)
"""For up to 16 rows."""

MANY = Tile(1, 4, 2, 2, 2)
"""For more."""

TILES = (FEW, MANY)
PARTS = ShaderVariant("blocks.float16.parts", "matrix/packed_parts.comp", ())
_BLOCK_ROWS, _BLOCK_COLUMNS, _BLOCK_INVOCATIONS = 2, 8, 8
"""Of ``shaders/patterns/products/packed_blocks.glsl``."""


def _variant(
    way: str, source: str, bits: int, chunk: int, given: Mapping[str, str], *, is_gated: bool = False
) -> ShaderVariant:
    defines = {**packed_integers.defines(bits, chunk, Target()), **given}
    name = f"blocks.float16.{bits}.exact.{way}.{chunk}"
    if is_gated:
        defines["IS_GATED"] = "1"
        name += ".gated"
    return ShaderVariant(name, source, tuple(sorted(defines.items())))


def _totals_variant(bits: int, chunk: int, *, is_gated: bool) -> ShaderVariant:
    given = {"CHUNK": f"{chunk}u", "HAS_DOT_PRODUCT": "0"}
    return totals_variant(bits, given, f"exact.totals.{chunk}", is_gated=is_gated)


def _block_variant(bits: int, chunk: int) -> ShaderVariant:
    given = {
        "BLOCK_ROWS": f"{_BLOCK_ROWS}u",
        "BLOCK_COLUMNS": f"{_BLOCK_COLUMNS}u",
        "INVOCATIONS": f"{_BLOCK_INVOCATIONS}u",
    }
    return _variant("blocks", "matrix/packed_blocks.comp", bits, chunk, given)


def variants() -> Iterator[ShaderVariant]:
    yield PARTS
    yield from packed_dots.variants()
    for bits in packed_integers.BITS:
        for chunk in CHUNKS:
            yield _block_variant(bits, chunk)
            for is_gated in (False, True):
                yield _totals_variant(bits, chunk, is_gated=is_gated)
                yield from (tile.variant(bits, chunk, is_gated=is_gated) for tile in TILES)


def multiplies(product: Product, weights: BlockWeights, target: Target) -> bool:
    """Whether a product is computed in tiles.

    Args:
        product: what is computed.
        weights: what its second matrix is made of.
        target: the device.
    """
    if not packed_integers.is_exact(weights):
        return False
    if target.is_cpu:
        return _ends_on_processors(product, weights) and typical(product.rows) > _FEW_ROWS_OF_PROCESSORS
    tile, chunks = tile_for(product, target), -(-product.terms // chunk_terms(weights))
    has_room = target.shared_memory >= tile.shared_memory and target.buffers >= _BUFFERS
    lines = -(-product.rows // tile.tile_rows) * tile.tile_rows
    fits = bool(lines * chunks * tile.line_bytes <= target.buffer_size)
    return has_room and fits and typical(product.rows) > _FEW_ROWS


def _ends_on_processors(product: Product, weights: BlockWeights) -> bool:
    """Whether an invocation's loops have few enough turns, with third parts everywhere and no total that is finite."""
    chunk = chunk_terms(weights)
    of_chunk = 2 + 2 * (chunk // weights.word_terms + 2)
    of_result = product.terms // CHUNKS[-1] + 3
    turns = -(-product.terms // chunk) * of_chunk + _BLOCK_ROWS * _BLOCK_COLUMNS * of_result
    return turns + 2 * -(-product.terms // SEGMENT) + 2 <= MAX_LOOP_ITERATIONS


def tile_for(product: Product, target: Target) -> Tile | packed_dots.Tile:
    """The tile in which a GPU computes a product."""
    if not target.has_exact_halves or target.shared_memory < Tile.shared_memory:
        return packed_dots.tile_for(product, target)
    return FEW if product.rows <= FEW.tile_rows else MANY


def _part_terms(product: Product, tile: Tile | packed_dots.Tile, target: Target, *, is_gated: bool) -> int:
    """Terms of a part: all, or a segment where a GPU wants more work groups. Sums of more than one would be others."""
    groups = -(-product.rows // tile.tile_rows) * -(-product.columns // tile.tile_columns(is_gated=is_gated))
    segments = -(-product.terms // SEGMENT)
    sums = segments * product.rows * product.columns * (2 if is_gated else 1) * _WORD
    is_apart = groups < CORES * _GROUPS_OF_CORE and sums <= target.buffer_size
    return SEGMENT if is_apart else segments * SEGMENT


def _add_parts(builder: ProgramBuilder, product: Product, chunk: int, bits: int, lines: int, left: Region) -> Region:
    """The kernel that makes parts of rows, and where they lie."""
    chunks, are_peaks = -(-product.terms // chunk), builder.target.is_cpu
    region = builder.scratch(lines * chunks * (_WORD if are_peaks else Tile.line_bytes))
    groups = lines // _SIDE * -(-chunks // _PARTS_CHUNKS)
    has_eights = product.left_along_terms and product.left_has_eights and is_multiple(product.terms, _EIGHT)
    constants = {
        "CHUNK": chunk,
        "LEFT_HAS_EIGHTS": int(has_eights),
        "IS_FOR_BYTES": int(bits == _EIGHT),
        "ARE_PEAKS": int(are_peaks),
        "LARGEST": float32_bits(_LARGEST_HALF if are_peaks else _LARGEST[bits]),
    }
    kernel = PlainKernel(
        PARTS.name,
        launch_size(builder.operator_name, groups * _PARTS_INVOCATIONS),
        constants,
        (groups, product.rows, product.terms, lines, chunks, *product.left[:2]),
    )
    builder.launch(kernel, [left], [region], label="parts of rows")
    return region


def add_product(
    builder: ProgramBuilder,
    desc: Gemm,
    weights: BlockWeights,
    operands: Sequence[Region],
    given: Mapping[str, int],
    *,
    is_gated: bool,
) -> None:
    """Adds the kernels of a product.

    Args:
        builder: to which they are added.
        desc: the product, as of numbers.
        weights: what its second matrix is made of.
        operands: as all kernels of these products bind them.
        given: the specialization constants that these have in common.
        is_gated: whether there are weights of a gate; never on processors.
    """
    product = gemm_product(desc, with_eights=True)
    chunk = chunk_terms(weights)
    constants = {**given, "BLOCK": chunk}
    if builder.target.is_cpu:
        _add_on_processor(builder, desc, product, weights, operands, constants)
        return
    tile = tile_for(product, builder.target)
    tiles = -(-product.rows // tile.tile_rows), -(-product.columns // tile.tile_columns(is_gated=is_gated))
    parts = tile.add_rows(builder, desc, product, chunk, weights.bits, tiles, operands, constants)
    length = _part_terms(product, tile, builder.target, is_gated=is_gated)
    count = -(-product.terms // length)
    constants["OUTPUT_HAS_PAIRS"] = int(given["OUTPUT_HAS_PAIRS"] and is_multiple(product.columns, 2))
    constants["PART_TERMS"] = length
    groups = tiles[0] * tiles[1] * count
    kernel = PlainKernel(
        tile.variant(weights.bits, chunk, is_gated=is_gated).name,
        launch_size(builder.operator_name, groups * tile.invocations, tile.invocations),
        {
            **constants,
            **tile.constants(has_vectors=weights.chunks_have_vectors(chunk), writes_sums=count > 1),
        },
        (groups, *product_parameters(desc, product, tiles)),
        work_group_size=tile.invocations,
    )
    output = builder.writes["output_tensor"]
    if count == 1:
        builder.launch(kernel, [*operands, parts], [output], label="packed weights")
        return
    add_in_parts(
        builder,
        product,
        operands,
        kernel,
        _totals_variant(weights.bits, chunk, is_gated=is_gated),
        constants,
        parts=count,
        part_terms=length,
        is_gated=is_gated,
        further=[parts],
    )


def _add_on_processor(
    builder: ProgramBuilder,
    desc: Gemm,
    product: Product,
    weights: BlockWeights,
    operands: Sequence[Region],
    given: Mapping[str, int],
) -> None:
    chunk = chunk_terms(weights)
    parts = _add_parts(builder, product, chunk, weights.bits, -(-product.rows // _SIDE) * _SIDE, operands[0])
    tiles = -(-product.rows // _BLOCK_ROWS), -(-product.columns // (_BLOCK_COLUMNS * _BLOCK_INVOCATIONS))
    groups = tiles[0] * tiles[1]
    kernel = PlainKernel(
        _block_variant(weights.bits, chunk).name,
        launch_size(builder.operator_name, groups * _BLOCK_INVOCATIONS, _BLOCK_INVOCATIONS),
        {**given, "OUTPUT_HAS_PAIRS": 0, "PART_TERMS": SEGMENT},
        (groups, *product_parameters(desc, product, tiles)),
        work_group_size=_BLOCK_INVOCATIONS,
    )
    builder.launch(kernel, [*operands, parts], [builder.writes["output_tensor"]], label="packed weights")
