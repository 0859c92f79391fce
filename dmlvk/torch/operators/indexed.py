"""Elements by index: taken, put, added up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.expression import Expression
from dmlvk.operators.members import AxisDirection
from dmlvk.torch.lowering import Context, NotLowered, lowers

Join = Callable[[Expression, Expression], Expression]


def _with_nan(function: Join) -> Join:
    """NaN where an operand is one, as PyTorch has it."""

    def joined(a: Expression, b: Expression) -> Expression:
        if a.data_type is not DataType.FLOAT32:
            return function(a, b)
        return F.if_(F.is_nan(a), a, F.if_(F.is_nan(b), b, function(a, b)))

    return joined


JOINS: dict[str, Join] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "amax": _with_nan(F.max),
    "amin": _with_nan(F.min),
}
"""How two elements become one, by PyTorch's names; a mean is a sum that is divided."""


def combined(
    context: Context,
    base: Expression,  # [rows, places, width]
    positions: Expression,  # [rows, values], from 0 on
    values: Expression,  # [rows, values, width]
    *,
    how: str = "sum",  # of :data:`JOINS`, or ``"mean"``
    with_base: bool = True,  # whether what there was at a place that is named takes part
) -> Expression:
    """What there was, with values that meet at their places.

    Returns:
        as ``base``; places that are not named have its very bits. FLOAT16 is computed in FLOAT32.
    """
    result = base.data_type
    if result is DataType.FLOAT16:
        base, values = context.cast(base, DataType.FLOAT32), context.cast(values, DataType.FLOAT32)
    rows, count, width = values.sizes
    ordered, order = F.top_k1(
        context.cast(positions, DataType.INT32), axis=1, k=count, axis_direction=AxisDirection.INCREASING
    )
    every = (rows, count, width)
    chosen = context.cast(order, DataType.INT32)
    own = F.gather_elements(values, chosen.reshape(rows, count, 1).broadcast_to(every), axis=1)
    marks = ordered.reshape(rows, count, 1)
    made = _scanned(marks, own, JOINS["sum" if how == "mean" else how])
    targets = marks.broadcast_to(every)
    if with_base:
        before = F.gather_elements(base, targets, axis=1)
        made = JOINS["sum" if how == "mean" else how](before, made)
    if how == "mean":
        made = made / (_counts(context, marks) + float(with_base))
    return context.cast(F.scatter(base, targets, made, axis=1), result)


def _counts(context: Context, ordered: Expression) -> Expression:
    """How many equal places there are up to each of [rows, places, 1], which are in order, as FLOAT32."""
    ones = context.graph.constant(1.0, DataType.FLOAT32).broadcast_to(ordered.sizes)
    return _scanned(ordered, F.identity(ones), JOINS["sum"])


def _scanned(marks: Expression, values: Expression, join: Join) -> Expression:
    """Along the second axis, all up to each element that have its mark; equal marks lie together."""
    count, step = values.sizes[1], 1
    while step < count:
        is_same = F.logical_equals(marks[:, step:], marks[:, :-step]).broadcast_to(values[:, step:].sizes)
        later = values[:, step:]
        joined = F.if_(is_same, join(values[:, :-step], later), later)
        values = F.concatenate([values[:, :step], joined], axis=1)
        step *= 2
    return values


@lowers("embedding.default", chooses=True)
def embedding(context: Context, weight: Expression, indices: Expression, *_: Any, **__: Any) -> Expression:
    return _rows_of(context, weight, 0, indices)


@lowers("index_select.default", chooses=True)
def index_select(context: Context, x: Expression, dim: int, index: Expression) -> Expression:
    return _rows_of(context, x, dim, index)


def _rows_of(context: Context, x: Expression, dim: int, index: Expression) -> Expression:
    """What lies at the indices along an axis: [before, indices, after]."""
    axis = dim % x.ndim
    before, after = x.sizes[:axis], x.sizes[axis + 1 :]
    flat = context.reshaped(index, (math.prod(index.sizes),))
    folded = context.reshaped(x, (math.prod(before), x.sizes[axis], math.prod(after)))
    made = F.gather(folded, flat.reshape(1, 1, -1), axis=1, index_dimensions=1)
    return context.reshaped(made, (*before, *index.sizes, *after))


class _Positions:
    """What tensors of integers choose: places along axes, which are brought next to one another and counted as one.

    Args:
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
        position: Expression | None = None
        for axis, index in given.items():
            own = context.cast(index, DataType.INT64)
            size = context.tensor(x.sizes[axis], DataType.INT64)
            own = F.if_(own < 0, own + size, own)
            position = own if position is None else position * size + own
        assert position is not None  # ATen names one axis at least
        self.position = position.broadcast_to(shape)

    def folded(self, context: Context, x: Expression) -> Expression:
        """[before, places, after]."""
        shape = (math.prod(self.before), self.count, math.prod(self.after))
        return context.reshaped(x.transpose(self.order), shape)

    def unfolded(self, context: Context, x: Expression) -> Expression:
        back = [self.order.index(axis) for axis in range(len(self.order))]
        return context.reshaped(x, self.sizes).transpose(back)


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    return tuple(next((size for size in column if size != 1), 1) for column in columns)


@lowers("index.Tensor", "_unsafe_index.Tensor", chooses=True)
def index_tensor(context: Context, x: Expression, indices: Sequence[Expression | None]) -> Expression:
    """Elements at the places that integers name along some axes."""
    positions = _Positions(context, x, indices)
    return context.reshaped(_rows_of(context, positions.folded(context, x), 1, positions.position), context.shape)


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
    positions = _Positions(context, x, indices)
    count, rows, width = math.prod(positions.position.sizes), math.prod(positions.before), math.prod(positions.after)
    shape = (*positions.before, *positions.position.sizes, *positions.after)
    given = context.reshaped(values.broadcast_to(shape), (rows, count, width))
    at, base = (
        context.reshaped(positions.position, (1, count)).broadcast_to((rows, count)),
        positions.folded(context, x),
    )
    if accumulate:
        if context.dtype is torch.bool:
            raise NotLowered("truths that meet at their places")
        made = combined(context, base, at, given)
    else:
        made = F.scatter(base, context.reshaped(at, (rows, count, 1)).broadcast_to(given.sizes), given, axis=1)
    return positions.unfolded(context, made)


@lowers("embedding_dense_backward.default")
def embedding_backward(
    context: Context, gradient: Expression, indices: Expression, count: int, padding: int, by_frequency: bool
) -> Expression:
    """Rows of the gradient added up by index, or, by frequency, their mean."""
    gradient = context.tensor(gradient)
    if padding >= 0:
        is_padding = context.reshaped(indices, (*indices.sizes, 1)).broadcast_to(gradient.sizes)
        chosen = F.logical_equals(is_padding, context.tensor(padding, indices.data_type))
        gradient = F.if_(chosen, context.tensor(0).broadcast_to(gradient.sizes), gradient)
    number, width = math.prod(indices.sizes), gradient.sizes[-1]
    rows, positions = context.reshaped(gradient, (1, number, width)), context.reshaped(indices, (1, number))
    base = context.tensor(0).broadcast_to((1, count, width))
    made = combined(context, base, positions, rows, how="mean" if by_frequency else "sum", with_base=False)
    return context.reshaped(made, (count, width))


@lowers("gather.default", chooses=True)
def gather(context: Context, x: Expression, dim: int, index: Expression, *_: Any, **__: Any) -> Expression:
    """Of each row the elements at its indices."""
    axis = dim % x.ndim
    key = tuple(slice(0, size) if position != axis else slice(None) for position, size in enumerate(index.sizes))
    return F.gather_elements(x[key], index, axis=axis)


@lowers("scatter.src", "scatter.value")
def scatter(context: Context, x: Expression, dim: int, index: Expression, source: Any) -> Expression:
    """Elements at their row's indices; of several for one place the last one."""
    whole, axis = context.tensor(x), dim % x.ndim
    if isinstance(source, Expression):
        updates = context.tensor(source)[tuple(slice(0, size) for size in index.sizes)]
    else:
        updates = context.tensor(context.stored(source)).broadcast_to(index.sizes)
    rows = whole[
        tuple(slice(0, size) if position != axis else slice(None) for position, size in enumerate(index.sizes))
    ]
    return _in_corner(whole, F.scatter(rows, index, updates, axis=axis))


@lowers("scatter_add.default")
def scatter_add(context: Context, x: Expression, dim: int, index: Expression, source: Expression) -> Expression:
    return scatter_reduce(context, x, dim, index, source, "sum")


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
    """Elements that meet at their row's indices: their sum, product or mean, or the largest or least of them."""
    if reduce == "mean" and not context.dtype.is_floating_point:
        raise NotLowered("means of integers")
    whole, axis = context.tensor(x), dim % x.ndim
    own = whole[tuple(slice(0, size) if position != axis else slice(None) for position, size in enumerate(index.sizes))]
    order = [*(position for position in range(x.ndim) if position != axis), axis]

    def in_rows(value: Expression) -> Expression:
        turned = value.transpose(order)
        return context.reshaped(turned, (math.prod(turned.sizes[:-1]), turned.sizes[-1], 1))

    given = context.tensor(source)[tuple(slice(0, size) for size in index.sizes)]
    positions = in_rows(index)
    made = combined(
        context,
        in_rows(own),
        positions.reshape(*positions.sizes[:2]),
        in_rows(given),
        how=reduce,
        with_base=include_self,
    )
    back = context.reshaped(made, tuple(own.sizes[position] for position in order))
    return _in_corner(whole, back.transpose([order.index(position) for position in range(x.ndim)]))


def _in_corner(x: Expression, corner: Expression) -> Expression:
    """A tensor with another one where its axes begin."""
    for axis, (own, size) in enumerate(zip(x.sizes, corner.sizes, strict=True)):
        if size < own:
            behind = [slice(0, other) for other in corner.sizes[axis + 1 :]]
            key = [*[slice(None)] * axis, slice(size, None), *behind]
            corner = F.concatenate([corner, x[tuple(key)]], axis=axis)
    return corner
