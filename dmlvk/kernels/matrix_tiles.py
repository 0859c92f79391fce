"""The shapes in which products and convolutions are computed, and which of them suits how much work.

None of this changes a bit of a result: the order of a sum follows from its number of terms alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant

SEGMENT = 1024
"""Terms that are added up in a row, as in ``shaders/patterns/matrix.glsl``: part of the bits of every sum."""

TYPES = (DataType.FLOAT32, DataType.FLOAT16)
FAMILIES = ("gemm", "convolution")

ONE_SEGMENT, IN_TURN, SIDE_BY_SIDE = range(3)
"""How the segments of a sum come together: see ``shaders/patterns/matrix.glsl``."""

_GROUPS_FOR_ALL_CORES = 132
"""Work groups that keep a large GPU busy."""

_GROUPS_FOR_PROCESSORS = 8
"""The same for a processor."""

_MOST_TURNS = 65535
"""How often llvmpipe lets an invocation go through loops in all, before it ends them unasked."""

_TERMS_IN_TURN = 8
"""Terms of each turn where a segment's sums are computed with care, as in ``shaders/patterns/matrix.glsl``."""

_MOST_SCRATCH = 2**28
"""Bytes of totals up to which segments are computed side by side."""


@dataclasses.dataclass(frozen=True)
class Tile:
    """A block of results that a work group computes.

    Attributes:
        name: of the variant.
        rows: results downwards.
        columns: results across.
        invocations: of a work group.
        shared_memory: bytes that a work group needs.
        source: below ``shaders/``.
        defines: preprocessor definitions.
        families: what it is made for.
    """

    name: str
    rows: int
    columns: int
    invocations: int
    shared_memory: int
    source: str
    defines: tuple[tuple[str, str], ...]
    families: tuple[str, ...] = FAMILIES

    def groups(self, rows: int, columns: int) -> int:
        """Tiles that cover so many results."""
        return -(-rows // self.rows) * -(-columns // self.columns)

    def segments_at_once(self, target: Target) -> int:
        """How many segments an invocation may compute in one launch."""
        if not target.is_cpu:
            return 2**32
        results = self.rows * self.columns // self.invocations
        return max(1, _MOST_TURNS // (results * (SEGMENT // _TERMS_IN_TURN + 1) + SEGMENT + results))

    def variant(self, family: str, data_type: DataType) -> ShaderVariant:
        """The shader of a family for a data type."""
        return _variant(family, data_type, self.name, self.source, dict(self.defines))


def _shared(name: str, rows: int, columns: int, terms: int, results: tuple[int, int]) -> Tile:
    """A tile of ``shaders/patterns/matrix_tiles.glsl``."""
    invocations = rows * columns // (results[0] * results[1])
    memory = 2 * terms * (rows // 4 + 1 + columns // 4) * 16 + 8
    sizes = {"ROWS": rows, "COLUMNS": columns, "TERMS": terms}
    defines = {f"TILE_{key}": str(value) for key, value in sizes.items()}
    defines |= {"RESULT_ROWS": str(results[0]), "RESULT_COLUMNS": str(results[1]), "INVOCATIONS": str(invocations)}
    families = FAMILIES if invocations % columns == 0 else ("gemm",)
    return Tile(name, rows, columns, invocations, memory, "matrix/tiles.comp", tuple(defines.items()), families)


def _windows(name: str, columns: int, invocations: int) -> Tile:
    """A tile of ``shaders/patterns/matrix_windows.glsl``: a row of results, so many for each invocation."""
    defines = (("BLOCK_COLUMNS", str(columns)), ("INVOCATIONS", str(invocations)))
    return Tile(name, 1, columns * invocations, invocations, 0, "matrix/windows.comp", defines, ("convolution",))


def _block(name: str, rows: int, columns: int, invocations: int) -> Tile:
    """A tile of ``shaders/patterns/matrix_blocks.glsl``: a block for each invocation."""
    defines = {"BLOCK_ROWS": rows, "BLOCK_COLUMNS": columns, "INVOCATIONS": invocations}
    named = tuple((key, str(value)) for key, value in defines.items())
    return Tile(name, rows, columns * invocations, invocations, 0, "matrix/blocks.comp", named)


LARGE = (
    _shared("large16", 128, 128, 16, (8, 8)),
    _shared("large8", 128, 128, 8, (8, 8)),
    _shared("tall16", 128, 64, 16, (8, 8)),
    _shared("tall8", 128, 64, 8, (8, 4)),
    _shared("medium16", 64, 64, 16, (4, 4)),
    _shared("eight16", 64, 64, 16, (8, 8)),
    _shared("wide16", 32, 64, 16, (4, 4)),
    _shared("flat16", 16, 64, 16, (4, 4)),
    _shared("two32", 32, 32, 16, (2, 2)),
    _shared("two16", 16, 32, 16, (2, 2)),
    _shared("two4", 32, 32, 16, (2, 4)),
    _shared("flat32", 16, 32, 32, (2, 2)),
)
SKINNY = (
    _shared("thin8", 4, 128, 8, (4, 4)),
    _shared("thin16", 4, 128, 16, (4, 4)),
    _shared("thin64", 4, 64, 16, (4, 4)),
    _shared("thin256", 4, 256, 8, (4, 4)),
    _shared("eight128", 8, 128, 8, (8, 4)),
    _shared("eight64", 8, 128, 16, (4, 4)),
    _shared("slim16", 16, 128, 8, (4, 4)),
    _shared("slim32", 32, 128, 8, (8, 4)),
)
WINDOWS = (
    _windows("windows1", 2, 128),
    _windows("windows2", 2, 64),
    _windows("windows4", 4, 64),
    _windows("windows8", 8, 32),
)

ON_GPUS = (
    _shared("medium", 64, 64, 8, (4, 4)),
    _shared("small", 32, 32, 16, (4, 4)),
)
"""From the largest to the smallest: on an NVIDIA H200 17 and 9 TFLOP/s for FLOAT32. (128 x 128 with 8 x 8 results
for each invocation gave 15.)"""

ON_PROCESSORS = (
    _block("wide", 16, 16, 8),
    _block("blocks", 8, 8, 8),
    _block("few", 4, 4, 4),
)
"""Likewise."""

ON_NAIVE_PROCESSORS = (_block("few", 4, 4, 4),)
"""Likewise, where a driver keeps in memory what others keep in registers."""

TILES = (*LARGE, *SKINNY, *WINDOWS, *ON_GPUS, *ON_PROCESSORS)


def tiles_for(target: Target) -> list[Tile]:
    """The tiles among which a device chooses, from the largest to the smallest."""
    tiles = ON_NAIVE_PROCESSORS if target.is_naive else ON_PROCESSORS if target.is_cpu else ON_GPUS
    return [
        tile
        for tile in tiles
        if tile.shared_memory <= target.shared_memory and tile.invocations <= target.work_group_size
    ]


@dataclasses.dataclass(frozen=True)
class Choice:
    """How a product is computed.

    Attributes:
        tile: the tile.
        segments_come: ``ONE_SEGMENT``, ``IN_TURN`` or ``SIDE_BY_SIDE``.
        segments_at_once: how many a launch computes of those that come in turn.
    """

    tile: Tile
    segments_come: int
    segments_at_once: int = 2**32


def choose(rows: int, columns: int, terms: int, batches: int, target: Target) -> Choice:
    """Chooses for so many results, of so many terms each.

    Args:
        rows: of each product.
        columns: of each product.
        terms: of each result.
        batches: products, or groups of a convolution.
        target: the device.
    """
    segments = -(-terms // SEGMENT)
    fits = segments * rows * columns * batches * 4 <= _MOST_SCRATCH
    enough = _GROUPS_FOR_PROCESSORS if target.is_cpu else _GROUPS_FOR_ALL_CORES
    tiles = tiles_for(target)
    for tile in tiles:
        groups = tile.groups(rows, columns) * batches
        is_enough = groups >= enough
        if is_enough or tile is tiles[-1] or (fits and groups * segments >= enough):
            if segments == 1:
                return Choice(tile, ONE_SEGMENT)
            come = IN_TURN if is_enough or not fits else SIDE_BY_SIDE
            return Choice(tile, come, tile.segments_at_once(target))
    raise AssertionError("a device without tiles")


def sums_variant(family: str, data_type: DataType) -> ShaderVariant:
    """The shader that adds segments' sums and finishes results."""
    return _variant(family, data_type, "sums", "matrix/sums.comp", {})


def _variant(family: str, data_type: DataType, name: str, source: str, defines: dict[str, str]) -> ShaderVariant:
    type_name = data_type.name.lower()
    all_defines = {
        **defines,
        "CONVOLUTION": str(int(family == "convolution")),
        "OPERAND": type_name,
        "OPERAND_BITS": str(data_type.size_in_bits),
    }
    return ShaderVariant(f"{family}.{type_name}.{name}", source, tuple(sorted(all_defines.items())))


def matrix_variants() -> Iterator[ShaderVariant]:
    """Every variant of products and convolutions."""
    for family in FAMILIES:
        for data_type in TYPES:
            yield sums_variant(family, data_type)
            for tile in TILES:
                if family in tile.families:
                    yield tile.variant(family, data_type)
