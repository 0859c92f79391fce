"""Products of many rows with packed weights, chunk by chunk, in tiles, on GPUs.

Each weight is unpacked once for all rows of a tile. Tiles leave sums, which another kernel adds and finishes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import typical
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products import packed_integers
from dmlvk.kernels.products.block_parts import product_parameters
from dmlvk.kernels.products.block_weights import BlockWeights
from dmlvk.kernels.products.many_rows import ManyRows, ManyRowsTile
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.products.matrix_tiles import CORES
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.type_groups import FLOATS

_MOST_TERMS = 32  # Of a chunk

_ROWS_INVOCATIONS = 64
_ROWS_BITS = 4  # Whatever weights have: kernels of rows do not read them

_UNPACKING, _UNPACKING_BY_FEW_ROWS = 3.0, 1.5
"""What unpacking a weight takes, in rows that it could be multiplied by: into shared memory, and in registers."""

_GROUPS_OF_CORE = 2
"""Work groups of a GPU's core, at least, where tiles are used: kernels of few rows have more of them."""


@dataclasses.dataclass(frozen=True)
class ChunkTile(ManyRowsTile):
    """A tile of ``shaders/patterns/products/chunk_tiles.glsl``."""

    registers: int  # of an invocation that it wants of a driver
    data_type: DataType = DataType.FLOAT32  # of rows

    side = lanes = 1
    source = "matrix/chunk_tiles.comp"
    leaves_sums = True

    @property
    def chunks_of(self) -> DataType:
        return self.data_type

    @property
    def shared_memory(self) -> int:
        """Bytes of a work group, at most: of chunks of 32 terms."""
        lines = self.across * self.columns
        return 4 * ((_MOST_TERMS + 2) * self.tile_rows + (_MOST_TERMS + 3) * lines)

    def line_bytes(self, chunk: int) -> int:
        return 4 * (chunk + 2)

    def _compiled(self) -> tuple[str, dict[str, str]]:
        return "chunk_tiles", {"DOWN": f"{self.down}u"}

    def constants(self, of: ManyRows, *, writes_sums: bool) -> dict[str, int]:
        return {}

    def add_rows(self, builder: ProgramBuilder, of: ManyRows) -> Region:
        """Adds the kernel that makes planes of terms of rows."""
        items = of.tiles[0] * self.tile_rows * of.chunks
        region = builder.scratch(items * self.line_bytes(of.chunk))
        groups = -(-items // _ROWS_INVOCATIONS)
        kernel = PlainKernel(
            _rows_variant(self.data_type, of.chunk).name,
            launch_size(builder.operator_name, groups * _ROWS_INVOCATIONS, _ROWS_INVOCATIONS),
            {"TABLE": 0, **of.constants, "TILE_ROWS": self.tile_rows},
            (groups, *product_parameters(of.desc, of.product, of.tiles)),
            work_group_size=_ROWS_INVOCATIONS,
        )
        builder.launch(kernel, of.operands[:5], [region], label="rows chunk by chunk")
        return region


SHAPES = ((4, 32, 4, 4, 64), (8, 16, 4, 4, 64), (8, 16, 8, 4, 256))
"""Tiles of 16, 32 and 64 rows: invocations downwards and across, rows and columns of each, registers."""


def tile_for(product: Product, weights: BlockWeights, target: Target) -> ChunkTile | None:
    """The tile in which a GPU computes a product; ``None`` where a kernel of few rows is to be expected as fast."""
    rows, columns, terms = typical(product.rows), typical(product.columns), typical(product.terms)
    few = packed_integers.rows_kernel(rows, terms, weights, target, is_gated=False).rows

    def time(at_once: int, unpacking: float) -> float:
        return -(-rows // at_once) * (at_once + unpacking)

    def suits(tile: ChunkTile) -> bool:
        has_room = tile.registers <= target.registers and tile.shared_memory <= target.shared_memory
        groups = -(-rows // tile.tile_rows) * -(-columns // tile.tile_columns(is_gated=False))
        groups *= -(-terms // packed_integers.SEGMENT)
        return has_room and tile.invocations <= target.work_group_size and groups >= CORES * _GROUPS_OF_CORE

    tiles = [tile for tile in (ChunkTile(*shape, weights.data_type) for shape in SHAPES) if suits(tile)]
    best = min(tiles, key=lambda tile: time(tile.tile_rows, _UNPACKING), default=None)
    is_faster = best is not None and time(best.tile_rows, _UNPACKING) < time(few, _UNPACKING_BY_FEW_ROWS)
    return best if is_faster else None


def _rows_variant(chunks_of: DataType, chunk: int) -> ShaderVariant:
    defines = packed_integers.defines_of(chunks_of, _ROWS_BITS, chunk, Target())
    name = f"blocks.{chunks_of.name.lower()}.chunk_rows_of_tiles.{chunk}"
    return ShaderVariant(name, "matrix/chunk_rows.comp", tuple(sorted(defines.items())))


def formats(chunks_of: DataType) -> set[tuple[int, int, bool]]:
    """Of all weights: their bits, terms of a chunk, and whether there are those of a gate."""
    kernels = packed_integers.rows_kernels(chunks_of)
    return {(kernel.bits, kernel.chunk, kernel.is_gated) for kernel in kernels}


def variants() -> Iterator[ShaderVariant]:
    for chunks_of in FLOATS:
        found = sorted(formats(chunks_of))
        yield from (_rows_variant(chunks_of, chunk) for chunk in sorted({chunk for _, chunk, _ in found}))
        for (bits, chunk, is_gated), shape in itertools.product(found, SHAPES):
            yield ChunkTile(*shape, chunks_of).variant(bits, chunk, is_gated=is_gated)
