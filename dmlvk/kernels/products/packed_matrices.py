"""Products of many rows of FLOAT16 with packed weights, in tiles, by the definition of packed integers.

Rows are made parts first, whose sums with a chunk's weights are exact in FLOAT32, in any order: so subgroups may
multiply them as matrices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.dynamic.sizes import is_multiple, typical
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products import chunk_tiles, packed_dots, packed_integers
from dmlvk.kernels.products.block_parts import add_in_parts, product_parameters, totals_variant
from dmlvk.kernels.products.block_weights import BlockWeights
from dmlvk.kernels.products.many_rows import ManyRows, ManyRowsTile
from dmlvk.kernels.products.matrix import Product, gemm_product
from dmlvk.kernels.products.matrix_tiles import CORES
from dmlvk.kernels.products.packed_integers import CHUNKS, SEGMENT, chunk_terms
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm
from dmlvk.operators.type_groups import FLOATS
from dmlvk.spirv.cooperative_types import PACKED_SOURCE

_SIDE, _SUBGROUP, _EIGHT, _WORD = 16, 32, 8, 4
_GROUPS_OF_CORE = 4
"""Work groups of a GPU's core that keep it busy."""

_PARTS_CHUNKS, _PARTS_INVOCATIONS = 4, 256
"""Of a work group of ``shaders/patterns/products/packed_parts.glsl``, which has 16 rows."""

_BUFFERS = 10
"""Of a kernel with a gate."""

_LINE_BYTES = 193  # 192 of ``shaders/patterns/products/packed_layout.glsl``, and a word of eight lines
_EXACT_MEMORY = 49152

_FEW_REGISTERS = 64

_FEW_ROWS_OF_MATRICES, _FEW_ROWS, _FEW_ROWS_OF_PROCESSORS = 2, 4, 8
"""Rows up to which kernels of few rows are faster."""

_LARGEST_HALF = 65504.0
_LARGEST = {2: _LARGEST_HALF, 4: 32511.0, 8: 2031.0}
"""Magnitudes, by the bits of weights, up to which the parts of a chunk have exact sums: there 32 (2^bits - 1) p 2^-24
is at most 1."""


@dataclasses.dataclass(frozen=True)
class ExactTile(ManyRowsTile):
    """A tile of ``shaders/patterns/products/packed_matrices.glsl``, of subgroups and their matrices."""

    stage: int  # chunks that are multiplied while those that follow are on their way
    shares_rows: bool = False  # whether rows go through shared memory

    side, lanes = _SIDE, _SUBGROUP
    source = PACKED_SOURCE
    shared_memory = _EXACT_MEMORY

    def line_bytes(self, chunk: int) -> int:
        return _LINE_BYTES

    @property
    def tile_rows(self) -> int:
        return self.rows * _EIGHT

    def _compiled(self) -> tuple[str, dict[str, str]]:
        counts = {"ROW": self.rows, "COLUMN": self.columns, "STAGE": self.stage, "SUM": self.rows * self.columns}
        counts["LOAD"] = self.stage * self.rows // self.across  # of each invocation, of each part
        given = {f"{name}_COUNT": str(count) for name, count in counts.items()}
        given |= {"STAGE": f"{self.stage}u", "MATRIX_ROWS": str(_SIDE), "MATRIX_COLUMNS": str(_EIGHT)}
        if self.shares_rows:
            given["ROWS_ARE_SHARED"] = "1"
        return f"exact.{self.stage}{'.shared' * self.shares_rows}", given

    def constants(self, of: ManyRows, *, writes_sums: bool) -> dict[str, int]:
        are_whole = is_multiple(of.product.terms, self.stage * of.chunk)
        return {"STAGES_ARE_WHOLE": int(are_whole), "WRITES_SUMS": int(writes_sums)}

    def add_rows(self, builder: ProgramBuilder, of: ManyRows) -> Region:
        """Adds the kernel that makes parts of rows."""
        return _add_parts(builder, of, -(-of.tiles[0] * self.tile_rows // _SIDE) * _SIDE)


TILES = (ExactTile(1, 4, 1, 2, 4), ExactTile(1, 4, 2, 2, 2, True), ExactTile(1, 4, 8, 2, 1, True))
"""For up to 8 rows, up to 32, and more."""

PARTS = ShaderVariant("blocks.float16.parts", "matrix/packed_parts.comp", ())
_BLOCK_ROWS, _BLOCK_COLUMNS, _BLOCK_INVOCATIONS = 2, 8, 8
"""Of ``shaders/patterns/products/packed_blocks.glsl``."""


def _totals_variant(chunks_of: DataType | None, bits: int, chunk: int, *, is_gated: bool) -> ShaderVariant:
    given = packed_integers.defines_of(chunks_of, bits, chunk, Target())
    way = "exact.totals" if chunks_of is None else "chunk_totals"
    return totals_variant(bits, given, f"{way}.{chunk}", is_gated=is_gated)


def _block_variant(bits: int, chunk: int) -> ShaderVariant:
    sizes = {"BLOCK_ROWS": _BLOCK_ROWS, "BLOCK_COLUMNS": _BLOCK_COLUMNS, "INVOCATIONS": _BLOCK_INVOCATIONS}
    defines = packed_integers.defines(bits, chunk, Target()) | {name: f"{size}u" for name, size in sizes.items()}
    name = f"blocks.float16.{bits}.exact.blocks.{chunk}"
    return ShaderVariant(name, "matrix/packed_blocks.comp", tuple(sorted(defines.items())))


def variants() -> Iterator[ShaderVariant]:
    yield PARTS
    yield from packed_dots.variants()
    yield from chunk_tiles.variants()
    for chunks_of in FLOATS:
        for bits, chunk, is_gated in sorted(chunk_tiles.formats(chunks_of)):
            yield _totals_variant(chunks_of, bits, chunk, is_gated=is_gated)
    for bits in packed_integers.BITS:
        for chunk in CHUNKS:
            yield _block_variant(bits, chunk)
            for is_gated in (False, True):
                yield _totals_variant(None, bits, chunk, is_gated=is_gated)
                yield from (tile.variant(bits, chunk, is_gated=is_gated) for tile in TILES)


def multiplies(product: Product, weights: BlockWeights, target: Target) -> bool:
    """Whether a product is computed in tiles.

    Args:
        product: what is computed.
        weights: what its second matrix is made of.
        target: the device.
    """
    is_exact = packed_integers.is_exact(weights)
    if target.is_cpu:
        return is_exact and _ends_on_processors(product, weights) and typical(product.rows) > _FEW_ROWS_OF_PROCESSORS
    tile, chunk = tile_for(product, weights, target), chunk_terms(weights)
    if tile is None or target.shared_memory < tile.shared_memory or target.buffers < _BUFFERS:
        return False
    few = 0 if not is_exact else _FEW_ROWS_OF_MATRICES if isinstance(tile, ExactTile) else _FEW_ROWS
    whole = max(tile.tile_rows, _SIDE)
    of_rows = -(-product.rows // whole) * whole * -(-product.terms // chunk) * tile.line_bytes(chunk)
    parts = -(-product.terms // SEGMENT) if _leaves_segments(tile, target) else 1
    of_sums = 2 * _WORD * parts * product.rows * product.columns if tile.leaves_sums else 0
    return bool(of_rows <= target.buffer_size and of_sums <= target.buffer_size) and typical(product.rows) > few


def _ends_on_processors(product: Product, weights: BlockWeights) -> bool:
    """Whether an invocation's loops have few enough turns, with third parts everywhere and no total that is finite."""
    chunk = chunk_terms(weights)
    of_chunk = 2 + 2 * (chunk // weights.word_terms + 2)
    of_result = product.terms // CHUNKS[-1] + 3
    turns = -(-product.terms // chunk) * of_chunk + _BLOCK_ROWS * _BLOCK_COLUMNS * of_result
    return turns + 2 * -(-product.terms // SEGMENT) + 2 <= MAX_LOOP_ITERATIONS


def tile_for(product: Product, weights: BlockWeights, target: Target) -> ManyRowsTile | None:
    """The tile in which a GPU computes a product; ``None`` where it has none."""
    if not packed_integers.is_exact(weights):
        return chunk_tiles.tile_for(product, weights, target) if packed_integers.has_own_order(weights) else None
    if not target.has_exact_halves or target.shared_memory < _EXACT_MEMORY:
        return packed_dots.tile_for(product, target)
    return TILES[0 if product.rows <= _EIGHT else 1 if product.rows <= _SUBGROUP else 2]


def _leaves_segments(tile: ManyRowsTile, target: Target) -> bool:
    """Whether sums of segments always go to memory, and never to totals in registers, of which there are too few."""
    return tile.leaves_sums and target.registers <= _FEW_REGISTERS


def _part_terms(product: Product, tile: ManyRowsTile, target: Target, *, is_gated: bool) -> int:
    """Terms of a part: all, or a segment where a GPU wants more work groups. Sums of more than one would be others."""
    groups = -(-product.rows // tile.tile_rows) * -(-product.columns // tile.tile_columns(is_gated=is_gated))
    segments = -(-product.terms // SEGMENT)
    sums = segments * product.rows * product.columns * (2 if is_gated else 1) * _WORD
    is_apart = (groups < CORES * _GROUPS_OF_CORE and sums <= target.buffer_size) or _leaves_segments(tile, target)
    return SEGMENT if is_apart else segments * SEGMENT


def _add_parts(builder: ProgramBuilder, of: ManyRows, lines: int) -> Region:
    """The kernel that makes parts of rows, and where they lie."""
    product, bits, chunks, are_peaks = of.product, of.weights.bits, of.chunks, builder.target.is_cpu
    groups = lines // _SIDE * -(-chunks // _PARTS_CHUNKS)
    region = builder.scratch(lines * chunks * (_WORD if are_peaks else _LINE_BYTES))
    has_eights = product.left_along_terms and product.left_has_eights and is_multiple(product.terms, _EIGHT)
    constants = {
        "CHUNK": of.chunk,
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
    builder.launch(kernel, of.operands[:1], [region], label="parts of rows")
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
    product, chunk, target = gemm_product(desc, with_eights=True), chunk_terms(weights), builder.target
    tile = None if target.is_cpu else tile_for(product, weights, target)
    down, across = _BLOCK_ROWS, _BLOCK_COLUMNS * _BLOCK_INVOCATIONS
    if tile is not None:
        down, across = tile.tile_rows, tile.tile_columns(is_gated=is_gated)
    constants = {**given, "BLOCK": chunk}
    tiles = -(-product.rows // down), -(-product.columns // across)
    of = ManyRows(desc, product, weights, operands, constants, tiles)
    if tile is None:
        _add_on_processor(builder, of)
        return
    parts = tile.add_rows(builder, of)
    length = _part_terms(product, tile, builder.target, is_gated=is_gated)
    count = -(-product.terms // length)
    writes_sums = count > 1 or tile.leaves_sums
    constants["OUTPUT_HAS_PAIRS"] = int(given["OUTPUT_HAS_PAIRS"] and is_multiple(product.columns, 2))
    constants["PART_TERMS"] = length
    groups = tiles[0] * tiles[1] * count
    kernel = PlainKernel(
        tile.variant(weights.bits, chunk, is_gated=is_gated).name,
        launch_size(builder.operator_name, groups * tile.invocations, tile.invocations),
        {
            **constants,
            **tile.constants(of, writes_sums=writes_sums),
        },
        (groups, *product_parameters(desc, product, tiles)),
        work_group_size=tile.invocations,
    )
    output = builder.writes["output_tensor"]
    if not writes_sums:
        builder.launch(kernel, [*operands, parts], [output], label="packed weights")
        return
    add_in_parts(
        builder,
        product,
        operands,
        kernel,
        _totals_variant(tile.chunks_of, weights.bits, chunk, is_gated=is_gated),
        constants,
        parts=count,
        part_terms=length,
        is_gated=is_gated,
        further=[parts],
    )


def _add_on_processor(builder: ProgramBuilder, of: ManyRows) -> None:
    parts = _add_parts(builder, of, -(-of.product.rows // _SIDE) * _SIDE)
    groups = of.tiles[0] * of.tiles[1]
    kernel = PlainKernel(
        _block_variant(of.weights.bits, of.chunk).name,
        launch_size(builder.operator_name, groups * _BLOCK_INVOCATIONS, _BLOCK_INVOCATIONS),
        {**of.constants, "OUTPUT_HAS_PAIRS": 0, "PART_TERMS": SEGMENT},
        (groups, *product_parameters(of.desc, of.product, of.tiles)),
        work_group_size=_BLOCK_INVOCATIONS,
    )
    builder.launch(kernel, [*of.operands, parts], [builder.writes["output_tensor"]], label="packed weights")
