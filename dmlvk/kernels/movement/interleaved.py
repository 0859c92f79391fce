"""Copies in which elements of two or four lines alternate in one line: shaders/patterns/movement/interleaved.comp."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dmlvk.kernels import constants
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.layout import open_ended
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.variants import ShaderVariant

if TYPE_CHECKING:
    from dmlvk.kernels.movement.copies import FoldedCopy

_PLANES = (2, 4)
_WIDTHS = (8, 16, 32)


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for planes in _PLANES:
        for bits in _WIDTHS:
            for is_apart in (False, True):
                defines = [("BITS", str(bits)), ("PLANES", str(planes))] + [("APART", "1")] * is_apart
                name = _variant_name(bits, planes, is_apart)
                yield ShaderVariant(name, "patterns/movement/interleaved.comp", tuple(sorted(defines)))


def _variant_name(bits: int, planes: int, is_apart: bool) -> str:
    return f"interleaved.bits{bits}.{'apart' if is_apart else 'together'}{planes}"


def interleaved(folded: FoldedCopy, operator_name: str) -> PlainKernel | None:
    """The kernel of such a copy; ``None``: it is none, or its lines are not made of whole vectors.

    Args:
        folded: the copy, of 8 axes at most.
    """
    if folded.bits not in _WIDTHS or len(folded.sizes) < 2 or folded.target[0] != 1 or 1 not in folded.source[1:]:
        return None
    other = folded.source.index(1)
    together = _Lines(folded.source, folded.first_source, folded.target, folded.first_target, 0, other, False)
    apart = _Lines(folded.target, folded.first_target, folded.source, folded.first_source, other, 0, True)
    for lines in (together, apart):
        if lines.alternate(folded.sizes) and lines.are_vectors(folded.sizes, 128 // folded.bits):
            return _kernel(lines, folded, operator_name)
    return None


@dataclasses.dataclass(frozen=True)
class _Lines:
    """Lines, and the one in which their elements alternate."""

    strides: tuple[int, ...]  # of the lines, along every axis of the copy
    first: int  # the lines' element whose coordinates are all 0
    joint: tuple[int, ...]  # the strides of the other operand
    first_joint: int  # its first element
    across: int  # the axis that leads from line to line
    along: int  # the one along each line
    are_made: bool  # whether the lines are the target

    def others(self, axes: int) -> list[int]:
        return [axis for axis in range(axes) if axis not in (self.across, self.along)]

    def alternate(self, sizes: Sequence[int]) -> bool:
        """Whether each line has its neighbours as the other operand has every second one, or every fourth."""
        count = sizes[self.across]
        neighbours = (self.strides[self.along], self.joint[self.across]) == (1, 1)
        return count in _PLANES and neighbours and self.joint[self.along] == count

    def are_vectors(self, sizes: Sequence[int], length: int) -> bool:
        """Whether everything lies at multiples of so many elements."""
        strides = [operand[axis] for axis in self.others(len(sizes)) for operand in (self.joint, self.strides)]
        numbers = (sizes[self.along], self.strides[self.across], self.first, self.first_joint, *strides)
        return all(number >= 0 and number % length == 0 for number in numbers)


def _kernel(lines: _Lines, folded: FoldedCopy, operator_name: str) -> PlainKernel:
    length = 128 // folded.bits
    others = lines.others(len(folded.sizes))
    count = folded.sizes[lines.across]
    chunk = length if lines.are_made else length // count  # elements of each line that an invocation takes
    sizes = [folded.sizes[lines.along] // chunk, *(folded.sizes[axis] for axis in others)]

    def steps(along: int, strides: Sequence[int], unit: int) -> list[int]:
        return [along, *(strides[axis] // unit for axis in others)]

    items = math.prod(sizes)
    groups = launch_size(operator_name, items)
    vectors = count * chunk // length
    strides = {"lines": steps(1, lines.strides, chunk), "joint": steps(vectors, lines.joint, length)}
    return PlainKernel(
        variant=_variant_name(folded.bits, count, lines.are_made),
        work_groups=groups,
        constants={**constants.axes(open_ended(sizes), strides), "LINE_STEP": lines.strides[lines.across] // chunk},
        parameters=(items, lines.first // chunk, lines.first_joint // length),
    )
