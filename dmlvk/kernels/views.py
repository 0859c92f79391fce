"""Views: some elements of a tensor's memory, in an order that need not be the tensor's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dmlvk.tensors import TensorDesc, packed_strides


@dataclasses.dataclass(frozen=True)
class View:
    """Elements at ``first + sum(coordinates[i] * strides[i])``."""

    sizes: tuple[int, ...]  # elements along each axis, outermost first
    strides: tuple[int, ...]  # distance between neighbours along each axis, in elements; of either sign, 0 repeats
    first: int = 0  # where the element lies whose coordinates are all 0, in elements from the tensor's start

    @classmethod
    def of(cls, tensor: TensorDesc) -> View:
        return cls(tuple(tensor.sizes), tensor.element_strides)

    @classmethod
    def packed(cls, sizes: Sequence[int]) -> View:
        return cls(tuple(sizes), packed_strides(sizes))

    def part(self, axis: int, start: int, size: int, step: int = 1) -> View:
        """``size`` places along an axis, from ``start`` on, ``step`` (of either sign) apart; 0 repeats one of them."""
        sizes, strides = list(self.sizes), list(self.strides)
        first = self.first + start * strides[axis]
        sizes[axis], strides[axis] = size, step * strides[axis]
        return View(tuple(sizes), tuple(strides), first)

    def window(self, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> View:
        """:meth:`part` along every axis."""
        made = self
        for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
            made = made.part(axis, start, size, step)
        return made

    def split(self, axis: int, sizes: Sequence[int]) -> View:
        """An axis as several, the last of which runs fastest; the product of their sizes is the axis's."""
        inner = [self.strides[axis] * stride for stride in packed_strides(sizes)]
        return View(
            (*self.sizes[:axis], *sizes, *self.sizes[axis + 1 :]),
            (*self.strides[:axis], *inner, *self.strides[axis + 1 :]),
            self.first,
        )

    def permuted(self, order: Sequence[int]) -> View:
        """The axes in another order: axis ``order[i]`` becomes axis ``i``."""
        return View(tuple(self.sizes[i] for i in order), tuple(self.strides[i] for i in order), self.first)

    def repeated(self, axis: int, times: int) -> View:
        """A new axis before ``axis``, along which nothing changes."""
        sizes = (*self.sizes[:axis], times, *self.sizes[axis:])
        return View(sizes, (*self.strides[:axis], 0, *self.strides[axis:]), self.first)
