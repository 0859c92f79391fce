"""Products of many rows of FLOAT16 with packed weights, in tiles, on GPUs whose matrices have no exact sums.

Rows are made planes of bytes first. What is multiplied are bytes, four at once where a device has integer dot products,
else as floats.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products import packed_integers
from dmlvk.kernels.products.block_parts import product_parameters
from dmlvk.kernels.products.many_rows import ManyRows, ManyRowsTile
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant

_PLANES_INVOCATIONS = 64


@dataclasses.dataclass(frozen=True)
class DotsTile(ManyRowsTile):
    """A tile of ``shaders/patterns/products/packed_dots.glsl``."""

    registers: int  # of an invocation that it wants of a driver
    has_dot_product: bool = False  # whether four bytes are multiplied at once

    side = lanes = 1
    source = "matrix/packed_dots.comp"
    shared_memory = 16384

    def line_bytes(self, chunk: int) -> int:
        return 128  # ``shaders/patterns/products/packed_planes.glsl``

    def _compiled(self) -> tuple[str, dict[str, str]]:
        way = "dots" if self.has_dot_product else "floats"
        return way, {"DOWN": f"{self.down}u", "HAS_DOT_PRODUCT": str(int(self.has_dot_product))}

    def constants(self, of: ManyRows, *, writes_sums: bool) -> dict[str, int]:
        return {"WRITES_SUMS": int(writes_sums)}

    def add_rows(self, builder: ProgramBuilder, of: ManyRows) -> Region:
        """Adds the kernel that makes planes of rows."""
        items = of.tiles[0] * self.tile_rows * of.chunks
        region = builder.scratch(items * self.line_bytes(of.chunk))
        groups = -(-items // _PLANES_INVOCATIONS)
        kernel = PlainKernel(
            _planes_variant(of.weights.bits, of.chunk).name,
            launch_size(builder.operator_name, groups * _PLANES_INVOCATIONS, _PLANES_INVOCATIONS),
            {**of.constants, "TILE_ROWS": self.tile_rows},
            (groups, *product_parameters(of.desc, of.product, of.tiles)),
            work_group_size=_PLANES_INVOCATIONS,
        )
        builder.launch(kernel, of.operands[:5], [region], label="planes of rows")
        return region


_SHAPES = ((8, 16, 1, 4, 64), (8, 16, 2, 4, 128), (8, 16, 4, 4, 256))


def tile_for(product: Product, target: Target) -> DotsTile:
    """The tile in which a GPU computes a product: the largest that its registers suffice for, and rows fill."""
    tiles = [DotsTile(*shape, has_dot_product=target.has_integer_dot_product) for shape in _SHAPES]
    fitting = [tile for tile in tiles if tile.registers <= target.registers]
    return next((tile for tile in fitting if product.rows <= tile.tile_rows), fitting[-1])


def _planes_variant(bits: int, chunk: int) -> ShaderVariant:
    defines = packed_integers.defines(bits, chunk, Target())
    return ShaderVariant(
        f"blocks.float16.{bits}.planes.{chunk}", "matrix/packed_planes.comp", tuple(sorted(defines.items()))
    )


def variants() -> Iterator[ShaderVariant]:
    for bits, chunk in itertools.product(packed_integers.BITS, packed_integers.CHUNKS):
        yield _planes_variant(bits, chunk)
        for shape, has_dot_product, is_gated in itertools.product(_SHAPES, (False, True), (False, True)):
            yield DotsTile(*shape, has_dot_product=has_dot_product).variant(bits, chunk, is_gated=is_gated)
