"""Dimension folding: from the tensors of an operator to the simplest memory walk that visits the same elements.

Pure Python, without a GPU: dimensions of size 1 are dropped, the rest is ordered by the output's strides, and
neighbours that lie behind one another in every operand are merged. Most real calls become one contiguous dimension.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class FoldedLayout:
    """The dimensions that are left, innermost first.

    Attributes:
        sizes: elements along each axis; empty for a single element.
        strides: for each operand, its strides in elements along these axes.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

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
    folded: list[tuple[int, tuple[int, ...]]] = []
    for size, steps in axes:
        if folded:
            inner_size, inner_steps = folded[-1]
            if all(step == inner * inner_size for step, inner in zip(steps, inner_steps, strict=True)):
                folded[-1] = (inner_size * size, inner_steps)
                continue
        folded.append((size, steps))
    return FoldedLayout(
        sizes=tuple(size for size, _ in folded),
        strides=tuple(tuple(steps[operand] for _, steps in folded) for operand in range(len(strides))),
    )
