"""Transpositions of narrow elements whose lines begin anywhere in a word: shaders/patterns/movement/turned.comp."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dmlvk.kernels import constants
from dmlvk.kernels.kernel import WORK_GROUP_SIZE, PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.variants import ShaderVariant

if TYPE_CHECKING:
    from dmlvk.kernels.movement.copies import FoldedCopy

_WIDTHS = (8, 16)
_TILES = ((64, 32), (32, 64), (128, 16), (16, 128))  # Elements along the target's neighbours, and along the source's

_SHORTEST = 3  # Elements along either axis: two of them are as fast one by one


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for bits in _WIDTHS:
        yield ShaderVariant(_variant_name(bits), "patterns/movement/turned.comp", (("BITS", str(bits)),))


def _variant_name(bits: int) -> str:
    return f"turned.bits{bits}"


def turned(folded: FoldedCopy, operator_name: str) -> PlainKernel | None:
    """The kernel of such a copy; ``None``: it is none.

    Args:
        folded: the copy, of 8 axes at most, of sizes that are known.
    """
    if folded.bits not in _WIDTHS or len(folded.sizes) < 2 or folded.target[0] != 1 or 1 not in folded.source[1:]:
        return None
    lines = folded.source.index(1, 1)
    if min(folded.sizes[0], folded.sizes[lines]) < _SHORTEST or min(folded.source) < 0:
        return None
    order = [0, lines, *(axis for axis in range(1, len(folded.sizes)) if axis != lines)]
    sizes, source, target = ([each[axis] for axis in order] for each in (folded.sizes, folded.source, folded.target))

    def tiles(tile: tuple[int, int]) -> int:
        return -(-sizes[0] // tile[0]) * -(-sizes[1] // tile[1])

    tile = min(_TILES, key=tiles)  # the first of the fewest
    items = tiles(tile) * math.prod(sizes[2:])
    return PlainKernel(
        variant=_variant_name(folded.bits),
        work_groups=launch_size(operator_name, items * WORK_GROUP_SIZE),
        constants={
            **constants.axes(sizes, {"source": source, "target": target}),
            "TILE_ALONG": tile[0],
            "TILE_LINES": tile[1],
        },
        parameters=(items, folded.first_source, folded.first_target),
    )
