"""Products of many rows of FLOAT16 with packed weights, in tiles, on GPUs whose matrices have no exact sums.

Rows are made planes of bytes first. What is multiplied are bytes, four at once where a device has integer dot products,
else as floats.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products import packed_integers
from dmlvk.kernels.products.block_parts import product_parameters
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm

_PLANES_INVOCATIONS = 64


@dataclasses.dataclass(frozen=True)
class Tile:
    """What a work group of ``shaders/patterns/products/packed_dots.glsl`` computes at once.

    Attributes:
        rows: of an invocation.
        columns: of an invocation; with a gate every other one is of its weights.
        down: invocations downwards.
        across: invocations across.
        registers: of an invocation that it wants of a driver.
        has_dot_product: whether four bytes are multiplied at once.
    """

    rows: int
    columns: int
    down: int
    across: int
    registers: int
    has_dot_product: bool = False

    line_bytes = 128
    """Of a row's chunk: ``shaders/patterns/products/packed_planes.glsl``."""

    shared_memory = 16384
    """Bytes of a work group, at most."""

    @property
    def tile_rows(self) -> int:
        return self.rows * self.down

    @property
    def invocations(self) -> int:
        return self.down * self.across

    def tile_columns(self, *, is_gated: bool) -> int:
        return self.columns * self.across // (2 if is_gated else 1)

    def variant(self, bits: int, chunk: int, *, is_gated: bool) -> ShaderVariant:
        defines = {
            **packed_integers.defines(bits, chunk, Target(has_integer_dot_product=self.has_dot_product)),
            "ROWS": f"{self.rows}u",
            "COLUMNS": f"{self.columns}u",
            "DOWN": f"{self.down}u",
            "ACROSS": f"{self.across}u",
        }
        name = (
            f"blocks.float16.{bits}.{'dots' if self.has_dot_product else 'floats'}.{self.rows}x{self.columns}.{chunk}"
        )
        if is_gated:
            defines["IS_GATED"] = "1"
            name += ".gated"
        return ShaderVariant(name, "matrix/packed_dots.comp", tuple(sorted(defines.items())))

    def constants(self, *, has_vectors: bool, writes_sums: bool) -> dict[str, int]:
        """The specialization constants that it has besides those of all kernels of packed weights."""
        return {"WRITES_SUMS": int(writes_sums)}

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
        """Adds the kernel that makes planes of rows, and returns where they lie."""
        items = tiles[0] * self.tile_rows * -(-product.terms // chunk)
        region = builder.scratch(items * self.line_bytes)
        groups = -(-items // _PLANES_INVOCATIONS)
        kernel = PlainKernel(
            _planes_variant(bits, chunk).name,
            launch_size(builder.operator_name, groups * _PLANES_INVOCATIONS, _PLANES_INVOCATIONS),
            {**given, "TILE_ROWS": self.tile_rows},
            (groups, *product_parameters(desc, product, tiles)),
            work_group_size=_PLANES_INVOCATIONS,
        )
        builder.launch(kernel, operands[:5], [region], label="planes of rows")
        return region


_SHAPES = ((1, 4, 8, 16, 64), (2, 4, 8, 16, 128), (4, 4, 8, 16, 256))


def tile_for(product: Product, target: Target) -> Tile:
    """The tile in which a GPU computes a product: the largest that its registers suffice for, and rows fill."""
    tiles = [Tile(*shape, has_dot_product=target.has_integer_dot_product) for shape in _SHAPES]
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
            yield Tile(*shape, has_dot_product=has_dot_product).variant(bits, chunk, is_gated=is_gated)
