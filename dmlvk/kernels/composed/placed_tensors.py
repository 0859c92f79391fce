"""Tensors and where they lie: what composed operators divide, fold and broadcast."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dmlvk.kernels.program import Region
from dmlvk.tensors import TensorDesc


@dataclasses.dataclass(frozen=True)
class PlacedTensor:
    tensor: TensorDesc
    region: Region

    def shaped(self, sizes: Sequence[int], strides: Sequence[int]) -> PlacedTensor:
        return PlacedTensor(TensorDesc(self.tensor.data_type, tuple(sizes), tuple(strides)), self.region)

    def part(self, starts: Sequence[int], counts: Sequence[int]) -> PlacedTensor:
        """Elements of each of the first axes from one on, where that is a multiple of 16 bytes; axes of size 1 stay."""
        sizes, strides = list(self.tensor.sizes), self.tensor.element_strides
        first = 0
        for axis, (start, count) in enumerate(zip(starts, counts, strict=True)):
            if sizes[axis] != 1:
                sizes[axis] = count
                first += start * strides[axis]
        part = TensorDesc(self.tensor.data_type, tuple(sizes), tuple(strides))
        return PlacedTensor(part, self.region.part(first * self.tensor.data_type.size_in_bytes, part.size_in_bytes))

    def folded(self, group: int) -> PlacedTensor | None:
        """The heads of each group behind one another as rows, where strides can say it."""
        batch, heads, rows, size = self.tensor.sizes
        strides = self.tensor.element_strides
        if group == 1:
            return self
        if rows == 1:
            step = strides[1]
        elif strides[1] == rows * strides[2]:
            step = strides[2]
        else:
            return None
        sizes = (batch, heads // group, group * rows, size)
        return self.shaped(sizes, (strides[0], group * strides[1], step, strides[3]))


def last_four(view: PlacedTensor) -> PlacedTensor:
    return view.shaped(view.tensor.sizes[-4:], view.tensor.element_strides[-4:])


def broadcast(view: PlacedTensor, sizes: Sequence[int]) -> PlacedTensor:
    """The same elements with these sizes; those of size 1 repeat by stride 0."""
    pairs = zip(view.tensor.sizes, view.tensor.element_strides, strict=True)
    return view.shaped(sizes, [0 if size == 1 else stride for size, stride in pairs])
