"""Elements that meet at places: added up, multiplied, the largest of them, by a segmented scan.

The places are brought into order, equal ones in theirs. Then each element takes what lies 1, 2, 4 and so on before it
into itself where the place is the same (Hillis, Steele: Data Parallel Algorithms, 1986; with flags for the segments,
Blelloch, 1990): the last one of a place has them all, and of several that are scattered to a place the last one wins.
So only rows that are named are touched, work grows as n log n, and the order of sums is the same on every device.
"""

from __future__ import annotations

from collections.abc import Callable

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.expression import Expression
from dmlvk.operators.members import AxisDirection
from dmlvk.torch.lowering import Context

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
