"""Products of many rows with packed weights, in tiles, on GPUs whose matrices have no exact sums.

Rows are made planes of bytes first. What is multiplied are bytes, four at once where a device has integer dot products,
else as floats.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.kernels.products import packed_format, packed_planes
from dmlvk.kernels.products.many_rows import ManyRows, ManyRowsTile
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant

_MOST_TERMS = 32  # Of a chunk
_VECTOR = 16  # Bytes of four words


@dataclasses.dataclass(frozen=True)
class DotsTile(ManyRowsTile):
    """A tile of ``shaders/patterns/products/packed_dots.glsl``."""

    registers: int  # of an invocation that it wants of a driver
    has_dot_product: bool = False  # whether four bytes are multiplied at once
    wide: DataType | None = None

    side = lanes = 1
    source = "matrix/packed_dots.comp"

    @property
    def shared_memory(self) -> int:
        """Bytes of a work group, at most: of chunks of 32 terms."""
        of_lines = self.tile_rows * (self.line_bytes(_MOST_TERMS) + _VECTOR)
        of_columns = self.across * self.columns * (_MOST_TERMS + (_VECTOR if self.wide else _VECTOR // 2))
        return 2 * (of_lines + of_columns)

    def line_bytes(self, chunk: int) -> int:
        return packed_planes.line_bytes(self.wide)

    def _compiled(self) -> tuple[str, dict[str, str]]:
        way = "dots" if self.has_dot_product else "floats"
        return way, {"DOWN": f"{self.down}u", "HAS_DOT_PRODUCT": str(int(self.has_dot_product))}

    def constants(self, of: ManyRows, *, writes_sums: bool) -> dict[str, int]:
        return {"WRITES_SUMS": int(writes_sums)}

    def add_rows(self, builder: ProgramBuilder, of: ManyRows) -> Region:
        """Adds the kernel that makes planes of rows."""
        return packed_planes.add(builder, of.desc, of.weights, of.operands[0], of.tiles[0] * self.tile_rows)


_SHAPES = ((8, 16, 1, 4, 64), (8, 16, 2, 4, 128), (8, 16, 4, 4, 256))


def tile_for(product: Product, wide: DataType | None, target: Target) -> DotsTile:
    """The tile in which a GPU computes a product: the largest that it has room for, and rows fill."""
    tiles = [DotsTile(*shape, target.has_integer_dot_product, wide) for shape in _SHAPES]
    fitting = [
        tile for tile in tiles if tile.registers <= target.registers and tile.shared_memory <= target.shared_memory
    ]
    return next((tile for tile in fitting if product.rows <= tile.tile_rows), fitting[-1])


def variants() -> Iterator[ShaderVariant]:
    for wide in packed_format.WIDTHS:
        for bits, chunk in packed_format.formats(wide):
            for shape, has_dot_product, is_gated in itertools.product(_SHAPES, (False, True), (False, True)):
                if not is_gated or wide is not DataType.FLOAT16:
                    yield DotsTile(*shape, has_dot_product, wide).variant(bits, chunk, is_gated=is_gated)
