"""Elements by index: taken, put, added up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.expression import Expression
from dmlvk.operators.members import ReduceFunction
from dmlvk.torch.lowering import Context, NotLowered, lowers, reduced

_MOST_COMPARED = 2**26
"""Pairs of a place and an index that are compared to add up what is put there: as many as a product has weights."""


@lowers("embedding.default")
def embedding(context: Context, weight: Expression, indices: Expression, *_: Any, **__: Any) -> Expression:
    """Rows of a matrix."""
    return _rows_of(context, weight, 0, indices)


@lowers("index_select.default")
def index_select(context: Context, x: Expression, dim: int, index: Expression) -> Expression:
    """Places of an axis."""
    return _rows_of(context, x, dim, index)


def _rows_of(context: Context, x: Expression, dim: int, index: Expression) -> Expression:
    """What lies at the indices along an axis: [before, indices, after]."""
    axis = dim % x.ndim
    before, after = x.sizes[:axis], x.sizes[axis + 1 :]
    flat = context.reshaped(index, (math.prod(index.sizes),))
    folded = context.reshaped(x, (math.prod(before), x.sizes[axis], math.prod(after)))
    made = F.gather(folded, flat.reshape(1, 1, -1), axis=1, index_dimensions=1)
    return context.reshaped(made, (*before, *index.sizes, *after))


class _Places:
    """What tensors of integers choose: places along axes, which are brought next to one another and counted as one.

    Args:
        context: of the node.
        x: what they choose from.
        indices: one for each of its first axes; ``None``: all along that axis.
    """

    def __init__(self, context: Context, x: Expression, indices: Sequence[Expression | None]) -> None:
        given = {axis: index for axis, index in enumerate(indices) if index is not None}
        if any(index.is_truth or index.data_type is DataType.UINT8 for index in given.values()):
            raise NotLowered("how many elements masks choose depends on the data")
        axes = list(given)
        is_together = axes == list(range(axes[0], axes[0] + len(axes)))
        self.first = axes[0] if is_together else 0
        others = [axis for axis in range(x.ndim) if axis not in given]
        self.order = [*others[: self.first], *axes, *others[self.first :]]
        self.sizes = tuple(x.sizes[axis] for axis in self.order)
        self.count = math.prod(x.sizes[axis] for axis in axes)
        self.before, self.after = self.sizes[: self.first], self.sizes[self.first + len(axes) :]
        self._axis_count = len(axes)
        shape = _broadcast([index.sizes for index in given.values()])
        place: Expression | None = None
        for axis, index in given.items():
            own = context.cast(index, DataType.INT64)
            own = F.if_(own < 0, own + x.sizes[axis], own)
            place = own if place is None else place * x.sizes[axis] + own
        assert place is not None  # ATen names one axis at least
        self.place = place.broadcast_to(shape)

    def folded(self, context: Context, x: Expression) -> Expression:
        """[before, places, after]."""
        shape = (math.prod(self.before), self.count, math.prod(self.after))
        return context.reshaped(x.transpose(self.order), shape)

    def unfolded(self, context: Context, x: Expression) -> Expression:
        """The opposite."""
        back = [self.order.index(axis) for axis in range(len(self.order))]
        return context.reshaped(x, self.sizes).transpose(back)


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all of them broadcast to."""
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    return tuple(next((size for size in column if size != 1), 1) for column in columns)


@lowers("index.Tensor", "_unsafe_index.Tensor")
def index_tensor(context: Context, x: Expression, indices: Sequence[Expression | None]) -> Expression:
    """Elements at the places that integers name along some axes."""
    places = _Places(context, x, indices)
    return context.reshaped(_rows_of(context, places.folded(context, x), 1, places.place), context.shape)


@lowers("index_put.default", "_unsafe_index_put.default")
def index_put(
    context: Context, x: Expression, indices: Sequence[Expression | None], values: Expression, accumulate: bool = False
) -> Expression:
    """A tensor with other elements at places that integers name; one value where a mask says so."""
    x, values = context.tensor(x), context.tensor(values)
    mask = indices[0] if len(indices) == 1 else None
    if mask is not None and (mask.is_truth or mask.data_type is DataType.UINT8):
        if math.prod(values.sizes) != 1 or accumulate:
            raise NotLowered("how many elements masks choose depends on the data")
        shown = context.reshaped(mask, (*mask.sizes, *(1,) * (x.ndim - mask.ndim)))
        value = context.reshaped(values, (1,)).broadcast_to(x.sizes)
        return F.if_(context.truth(shown).broadcast_to(x.sizes), value, x)
    places = _Places(context, x, indices)
    if places.before:
        raise NotLowered("places that are not along the first axes")
    count = math.prod(places.place.sizes)
    shape = (*places.place.sizes, *places.after)
    rows = context.reshaped(values.broadcast_to(shape), (count, math.prod(places.after)))
    flat, folded = context.reshaped(places.place, (count,)), places.folded(context, x)
    folded = context.reshaped(folded, folded.sizes[1:])
    if accumulate:
        made = folded + _added_up(context, flat, rows, places.count)
    else:
        made = F.scatter_nd(folded, context.reshaped(flat, (count, 1)), rows, 2, 2)
    return places.unfolded(context, made)


def _added_up(context: Context, places: Expression, rows: Expression, count: int) -> Expression:
    """Rows added up by their places, as a product with a matrix of ones: in the order of the places."""
    if math.prod(places.sizes) * count > _MOST_COMPARED or not context.dtype.is_floating_point:
        raise NotLowered("sums of very many rows, or of integers, by their places")
    flat = context.reshaped(context.cast(places, DataType.INT32), (1, math.prod(places.sizes)))
    return F.matmul(context.cast(F.logical_equals(_numbers(context, count), flat), context.data_type), rows)


def _numbers(context: Context, count: int) -> Expression:
    """0 and so on, below one another."""
    return F.fill_value_sequence(0, 1, output_data_type=DataType.INT32, output_sizes=(count, 1), graph=context.graph)


@lowers("embedding_dense_backward.default")
def embedding_backward(
    context: Context, gradient: Expression, indices: Expression, count: int, padding: int, by_frequency: bool
) -> Expression:
    """Rows of the gradient added up by index."""
    if by_frequency:
        raise NotLowered("gradients of embeddings that are scaled by frequency")
    gradient = context.tensor(gradient)
    if padding >= 0:
        is_padding = context.reshaped(indices, (*indices.sizes, 1)).broadcast_to(gradient.sizes)
        chosen = F.logical_equals(is_padding, context.graph.constant(padding, indices.data_type))
        gradient = F.if_(chosen, context.tensor(0).broadcast_to(gradient.sizes), gradient)
    rows = context.reshaped(gradient, (math.prod(indices.sizes), gradient.sizes[-1]))
    return _added_up(context, indices, rows, count)


@lowers("gather.default")
def gather(context: Context, x: Expression, dim: int, index: Expression, *_: Any, **__: Any) -> Expression:
    """Of each row the elements at its indices."""
    axis = dim % x.ndim
    key = tuple(slice(0, size) if place != axis else slice(None) for place, size in enumerate(index.sizes))
    return F.gather_elements(x[key], index, axis=axis)


@lowers("scatter.src", "scatter.value")
def scatter(context: Context, x: Expression, dim: int, index: Expression, source: Any) -> Expression:
    """Elements at their row's indices; of several for one place the last one."""
    axis = dim % x.ndim
    if isinstance(source, Expression):
        updates = context.tensor(source)[tuple(slice(0, size) for size in index.sizes)]
    else:
        updates = context.tensor(source).broadcast_to(index.sizes)
    if any(size != own for place, (size, own) in enumerate(zip(index.sizes, x.sizes, strict=True)) if place != axis):
        raise NotLowered("indices of fewer rows than there are")
    return F.scatter(context.tensor(x), index, updates, axis=axis)


@lowers("scatter_add.default")
def scatter_add(context: Context, x: Expression, dim: int, index: Expression, source: Expression) -> Expression:
    """Elements added at their row's indices, in the order of these."""
    return context.tensor(x) + _gathered(context, x, dim, index, source, ReduceFunction.SUM, 0)


@lowers("scatter_reduce.two")
def scatter_reduce(
    context: Context,
    x: Expression,
    dim: int,
    index: Expression,
    source: Expression,
    reduce: str,
    *,
    include_self: bool = True,
) -> Expression:
    """Elements that meet at their row's indices: their sum, or the largest or least of them."""
    if not include_self or reduce not in _REDUCTIONS:
        raise NotLowered(f"{reduce} of what meets, {'with' if include_self else 'without'} what was there")
    function, neutral, joined = _REDUCTIONS[reduce]
    return joined(context.tensor(x), _gathered(context, x, dim, index, source, function, neutral))


_REDUCTIONS: dict[str, tuple[ReduceFunction, float, Callable[[Expression, Expression], Expression]]] = {
    "sum": (ReduceFunction.SUM, 0.0, lambda a, b: a + b),
    "amax": (ReduceFunction.MAX, -math.inf, F.maximum),
    "amin": (ReduceFunction.MIN, math.inf, F.minimum),
}


def _gathered(
    context: Context,
    x: Expression,
    dim: int,
    index: Expression,
    source: Expression,
    function: ReduceFunction,
    neutral: float,
) -> Expression:
    """What meets at each place of x's rows, reduced."""
    axis, size = dim % x.ndim, x.sizes[dim % x.ndim]
    if math.prod(index.sizes) * size > _MOST_COMPARED or not context.dtype.is_floating_point:
        raise NotLowered("very many elements, or integers, that meet at their places")
    if any(a != b for place, (a, b) in enumerate(zip(index.sizes, x.sizes, strict=True)) if place != axis):
        raise NotLowered("indices of fewer rows than there are")
    order = [*(place for place in range(x.ndim) if place != axis), axis]
    given = context.tensor(source)[tuple(slice(0, count) for count in index.sizes)].transpose(order)
    rows, count = math.prod(given.sizes[:-1]), given.sizes[-1]
    places = context.reshaped(context.cast(index, DataType.INT32).transpose(order), (rows, 1, count))
    is_there = F.logical_equals(context.reshaped(_numbers(context, size), (1, size, 1)), places)
    every = (rows, size, count)
    chosen = context.reshaped(given, (rows, 1, count)).broadcast_to(every)
    parts = F.if_(is_there, chosen, context.tensor(neutral).broadcast_to(every))
    made = context.reshaped(reduced(parts, function=function, axes=[2]), (*given.sizes[:-1], size))
    return made.transpose([order.index(place) for place in range(x.ndim)])
