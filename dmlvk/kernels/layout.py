"""Dimension folding: from the tensors of an operator to the simplest access order that visits the same elements.

Pure Python, without a GPU: dimensions of size 1 are dropped, the rest is ordered by the output's strides, and
neighbours that lie behind one another in every operand are merged. Most real calls become one contiguous dimension.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

ANY_SIZE = 2**32 - 1
"""The outermost axis's size, as shaders see it: they end where the work does, so that one shader serves all sizes."""


def open_ended(sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes that shaders find coordinates with, of which the last one makes no difference unless it is 1.

    So what is compiled for one size of a batch serves all others.

    Args:
        sizes: of the axes that are counted through together, innermost first.
    """
    if not sizes or sizes[-1] == 1:
        return tuple(sizes)
    return (*sizes[:-1], ANY_SIZE)


@dataclasses.dataclass(frozen=True)
class FoldedLayout:
    """The dimensions that are left, innermost first."""

    sizes: tuple[int, ...]  # elements along each axis; empty for a single element
    strides: tuple[tuple[int, ...], ...]  # for each operand, its strides in elements along these axes

    @property
    def is_contiguous(self) -> bool:
        """Whether every operand is one run of neighbouring elements in the same order."""
        return len(self.sizes) <= 1 and all(strides in ((), (1,)) for strides in self.strides)


def fold(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> FoldedLayout:
    """Folds the common dimensions of several operands.

    Args:
        sizes: the sizes that all operands share, outermost first.
        strides: for each operand its strides in elements; the last operand is the one that is written, whose elements
            do not overlap.
    """
    axes = [(size, tuple(operand[axis] for operand in strides)) for axis, size in enumerate(sizes) if size > 1]
    axes.sort(key=lambda axis: axis[1][-1])  # stable: equal strides cannot occur in an output without overlaps
    folded: list[_FoldedAxis] = []
    for size, steps in axes:
        _append(folded, size, steps)
    return _layout(folded, len(strides))


_FoldedAxis = tuple[int, tuple[int, ...]]  # A size, and every operand's stride


def _append(folded: list[_FoldedAxis], size: int, steps: tuple[int, ...]) -> None:
    """Adds the next axis outwards, as an axis of its own or as a part of the one inside it."""
    if folded:
        inner_size, inner_steps = folded[-1]
        if all(step == inner * inner_size for step, inner in zip(steps, inner_steps, strict=True)):
            folded[-1] = (inner_size * size, inner_steps)
            return
    folded.append((size, steps))


def _layout(folded: Sequence[_FoldedAxis], operands: int) -> FoldedLayout:
    return FoldedLayout(
        sizes=tuple(size for size, _ in folded),
        strides=tuple(tuple(steps[operand] for _, steps in folded) for operand in range(operands)),
    )


def fold_in_order(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> FoldedLayout:
    """Folds dimensions as :func:`fold` does, but keeps their order: the last one is the innermost."""
    folded: list[_FoldedAxis] = []
    for axis in reversed(range(len(sizes))):
        size, steps = sizes[axis], tuple(operand[axis] for operand in strides)
        if size > 1:
            _append(folded, size, steps)
    return _layout(folded, len(strides))
