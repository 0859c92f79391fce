"""Views by PyTorch's strides: what of a tensor in row-major order they show, and how it is written through them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.expression import Expression
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, packed_strides

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Where a tensor's elements lie in its memory.

    Attributes:
        shape: its sizes.
        strides: in elements.
        offset: of the first element, in elements.
    """

    shape: Shape
    strides: Shape
    offset: int

    @property
    def overlaps(self) -> bool:
        """Whether an axis has several elements in one place."""
        return any(step == 0 and size > 1 for size, step in zip(self.shape, self.strides, strict=True))


@dataclasses.dataclass(frozen=True)
class _Window:
    """A view as a part of the memory, seen with other axes.

    Attributes:
        sizes: the memory's axes.
        starts: where the part begins along each of them.
        counts: how many places it has there.
        axes: which of them each of the view's axes is; ``None``: it has one element, or repeats it.
    """

    sizes: Shape
    starts: Shape
    counts: Shape
    axes: tuple[int | None, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the memory."""
        return self.counts == self.sizes


@functools.lru_cache(4096)
def _window(count: int, view: Geometry) -> _Window | None:
    """A view of so many elements as a window; ``None``: it is none."""
    real = {step: size for size, step in zip(view.shape, view.strides, strict=True) if size > 1 and step > 0}
    if len(real) != sum(size > 1 and step > 0 for size, step in zip(view.shape, view.strides, strict=True)):
        return None
    cuts = sorted({1, count, *real})
    if any(later % earlier for earlier, later in itertools.pairwise(cuts)) or cuts[-1] != count:
        return None
    steps = cuts[:-1][::-1] or [1]  # of the memory's axes, the largest first
    above = [count, *steps[:-1]]
    sizes = tuple(outer // step for outer, step in zip(above, steps, strict=True))
    starts = tuple(view.offset // step % size for step, size in zip(steps, sizes, strict=True))
    counts = tuple(real.get(step, 1) for step in steps)
    inside = zip(starts, counts, sizes, strict=True)
    if len(sizes) > MAXIMUM_DIMENSION_COUNT or any(start + some > size for start, some, size in inside):
        return None
    axes = tuple(
        steps.index(step) if size > 1 and step > 0 else None
        for size, step in zip(view.shape, view.strides, strict=True)
    )
    return _Window(sizes, starts, counts, axes)


def _reshaped(x: Expression, sizes: Sequence[int]) -> Expression:
    try:
        return x.reshape(tuple(sizes) or (1,))
    except InvalidArgumentError:  # strides cannot say it
        return F.identity(x).reshape(tuple(sizes) or (1,))


def seen(x: Expression, view: Geometry) -> Expression:
    """What a view shows.

    Args:
        x: the memory, in row-major order.
        view: of it.
    """
    count = math.prod(x.sizes)
    window = _window(count, view)
    if window is None:
        flat = F.identity(_reshaped(x, [count]))
        if view.offset:
            flat = flat[view.offset :]
        return flat.reinterpret(view.shape or (1,), view.strides or (1,))
    part = _reshaped(x, window.sizes)
    part = part[tuple(slice(start, start + some) for start, some in zip(window.starts, window.counts, strict=True))]
    steps = part.tensor.element_strides
    strides = [
        steps[axis] if axis is not None else int(size == 1) for axis, size in zip(window.axes, view.shape, strict=True)
    ]
    return part.reinterpret(view.shape or (1,), strides or [1])


def written(x: Expression, part: Expression, view: Geometry) -> Expression:
    """The memory with other elements where a view shows them.

    Args:
        x: the memory, in row-major order.
        part: the elements, of the view's shape.
        view: no place of which is there twice.
    """
    count = math.prod(x.sizes)
    window = _window(count, view)
    if window is None:
        made = F.scatter(_reshaped(x, [count]), _reshaped(_places(x.graph, view), [-1]), _reshaped(part, [-1]), axis=0)
        return _reshaped(made, x.sizes)
    order = sorted((axis, place) for place, axis in enumerate(window.axes) if axis is not None)
    others = [place for place, axis in enumerate(window.axes) if axis is None]
    moved = part.transpose([place for _, place in order] + others) if window.axes else part
    moved = _reshaped(moved, window.counts)
    return _reshaped(_put(_reshaped(x, window.sizes), moved, window, 0), x.sizes)


def written_at(x: Expression, part: Expression, offset: Expression, view: Geometry) -> Expression:
    """As :func:`written`, where a number says by how many elements further behind."""
    count = math.prod(view.shape)
    places = offset.reshape(1).broadcast_to((count,))
    if view.shape:
        places = places + _reshaped(_places(x.graph, view), [-1])
    made = F.scatter(_reshaped(x, [-1]), F.identity(places), _reshaped(part, [-1]), axis=0)
    return _reshaped(made, x.sizes)


def _put(x: Expression, part: Expression, window: _Window, axis: int) -> Expression:
    """What lies before, the part, and what lies behind, along one axis after the other."""
    while axis < len(window.sizes) and window.counts[axis] == window.sizes[axis]:
        axis += 1
    if axis == len(window.sizes):
        return part
    first, last = window.starts[axis], window.starts[axis] + window.counts[axis]

    def along(some: slice) -> Expression:
        key = (*(slice(None),) * axis, some)
        return x[key]

    parts = [_put(along(slice(first, last)), part, window, axis + 1)]
    if first:
        parts.insert(0, along(slice(0, first)))
    if last < window.sizes[axis]:
        parts.append(along(slice(last, None)))
    return F.concatenate(parts, axis=axis)


def _places(graph: Graph, view: Geometry) -> Expression:
    """Of each of a view's elements, its number in the memory."""
    made: Expression | None = None
    rank = len(view.shape)
    for axis, (size, step) in enumerate(zip(view.shape, view.strides, strict=True)):
        sizes = [size if place == axis else 1 for place in range(rank)]
        start = view.offset if made is None else 0
        one = F.fill_value_sequence(
            start, step, output_data_type=DataType.INT32, output_sizes=sizes, graph=graph
        ).broadcast_to(view.shape)
        made = one if made is None else made + one
    assert made is not None  # a view without axes is a window
    return F.identity(made)


def flattened(shape: Sequence[int], strides: Sequence[int]) -> Geometry | None:
    """How elements of a shape lie that fill their memory by strides in some order; ``None``: they do not fill it."""
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    sizes = [shape[axis] for axis in order]
    packed = packed_strides(sizes) if sizes else ()
    fills = all(shape[axis] == 1 or strides[axis] == step for axis, step in zip(order, packed, strict=True))
    return Geometry(tuple(shape), tuple(strides), 0) if fills else None


def ordered(x: Expression, axes: Sequence[int]) -> Expression:
    """The axes in another order."""
    return x.transpose(list(axes)) if axes else x


def filled(graph: Graph, data_type: DataType, shape: Sequence[int], value: Any) -> Expression:
    """One value everywhere."""
    return graph.constant(value, data_type).broadcast_to(tuple(shape) or (1,))
