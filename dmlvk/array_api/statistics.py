"""The standard's sums, extremes and other statistics, and what is true of all elements or some."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from dmlvk import functions as F
from dmlvk.array_api.array import along, checked, checked_axes, checked_axis, checked_real
from dmlvk.array_api.calls import converted, copied, one_now, seen
from dmlvk.array_api.creation import full
from dmlvk.array_api.dtypes import (
    FLOATS,
    NUMERIC,
    SIGNED,
    SUPPORTED,
    UNSIGNED,
    DType,
    check_is,
    checked_dtype,
    int64,
    uint64,
)
from dmlvk.array_api.dtypes import bool as bool_dtype
from dmlvk.array_api.elementwise import by_float32, divide, multiply, not_equal, sqrt, subtract
from dmlvk.array_api.manipulation import concat
from dmlvk.arrays.array import Array
from dmlvk.arrays.values import Shape
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.expression import Expression
from dmlvk.operators.members import AxisDirection, ReduceFunction
from dmlvk.support.integers import checked_integer


def reduced(x: Expression, function: ReduceFunction, axes: tuple[int, ...]) -> Expression:
    """REDUCE to the same type; the axes stay with a size of 1."""
    made: Expression = F.reduce(x, function=function, axes=list(axes), output_data_type=x.data_type)
    return made


def _extreme(x: Expression, function: ReduceFunction, axes: tuple[int, ...]) -> Expression:
    """An extreme of floats; NaN where one of them is, which REDUCE passes over."""
    made = reduced(x, function, axes)
    has_nan = reduced(F.isnan(x), ReduceFunction.MAX, axes)
    return F.where(has_nan, x.graph.constant(math.nan, x.data_type), made)


def without_axes(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape that is left of another one."""
    if keepdims:
        return tuple(1 if index in axes else size for index, size in enumerate(shape))
    return tuple(size for index, size in enumerate(shape) if index not in axes)


def _reduction(
    x: Array, form: Callable[..., Any], function: ReduceFunction, axis: Any, keepdims: bool, empty: Any, where: str
) -> Array:
    """A reduction; ``empty`` is what no elements give, ``None``: an error."""
    axes = checked_axes(axis, x.ndim, where)
    shape = without_axes(x.shape, axes, keepdims)
    if x.size == 0:
        if 0 in shape:
            return seen(x, None, shape)
        if empty is None:
            raise InvalidArgumentError(f"{where}: there are no elements along axes {list(axes)} of {list(x.shape)}")
        return full(shape, empty, dtype=x.dtype, device=x.device)
    if not axes:
        return copied(x)
    return one_now(where, form, x, x.dtype, shape, (function, axes))


def _accumulated(x: Array, dtype: Any, where: str) -> Array:
    check_is(x.dtype, NUMERIC, where)
    wanted = _sum_type(x.dtype) if dtype is None else checked_dtype(dtype, where)
    return converted(x, wanted)


def _sum_type(dtype: DType) -> DType:
    if dtype in SIGNED:
        return int64
    return uint64 if dtype in UNSIGNED else dtype


def _wide(x: Array) -> tuple[Array, DType]:
    """In a type that REDUCE adds and multiplies, and the one that is wanted."""
    if x.dtype.itemsize < 4:
        return converted(x, _sum_type(x.dtype)), x.dtype
    return x, x.dtype


@by_float32
def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: builtins.bool = False) -> Array:
    """The sum along axes, or of all elements; of integers in 64 bits if no type is asked for.

    Raises:
        InvalidArgumentError: there is no such axis.
    """
    source, wanted = _wide(_accumulated(checked(x, "sum"), dtype, "sum"))
    return converted(_reduction(source, reduced, ReduceFunction.SUM, axis, keepdims, 0, "sum"), wanted)


@by_float32
def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: builtins.bool = False) -> Array:
    """The product along axes, or of all elements; of integers in 64 bits if no type is asked for.

    Raises:
        InvalidArgumentError: there is no such axis.
    """
    source, wanted = _wide(_accumulated(checked(x, "prod"), dtype, "prod"))
    return converted(_reduction(source, reduced, ReduceFunction.MULTIPLY, axis, keepdims, 1, "prod"), wanted)


def _extremes(name: str, function: ReduceFunction, x: Any, axis: Any, keepdims: builtins.bool) -> Array:
    array = checked(x, name)
    check_is(array.dtype, NUMERIC, name)
    form = _extreme if array.dtype in FLOATS else reduced
    return _reduction(array, form, function, axis, keepdims, None, name)


@by_float32
def max(x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """The largest element along axes, or of all; NaN where one is NaN.

    Raises:
        InvalidArgumentError: there are no elements, or no such axis.
    """
    return _extremes("max", ReduceFunction.MAX, x, axis, keepdims)


@by_float32
def min(x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """The smallest element along axes, or of all; NaN where one is NaN.

    Raises:
        InvalidArgumentError: there are no elements, or no such axis.
    """
    return _extremes("min", ReduceFunction.MIN, x, axis, keepdims)


def _truths(name: str, function: ReduceFunction, x: Any, axis: Any, keepdims: builtins.bool, empty: Any) -> Array:
    array = checked(x, name)
    check_is(array.dtype, SUPPORTED, name)
    return _reduction(converted(array, bool_dtype), reduced, function, axis, keepdims, empty, name)


def all(x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """Whether no element along axes is 0 or false."""
    return _truths("all", ReduceFunction.MIN, x, axis, keepdims, True)


def any(x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """Whether some element along axes is not 0 or false."""
    return _truths("any", ReduceFunction.MAX, x, axis, keepdims, False)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """How many elements along axes are not 0, as int64."""
    array = converted(checked(x, "count_nonzero"), bool_dtype)
    return sum(converted(array, int64), axis=axis, keepdims=keepdims)


def _count(x: Array, axis: Any, where: str) -> int:
    return math.prod(x.shape[one] for one in checked_axes(axis, x.ndim, where))


@by_float32
def mean(x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """The mean along axes, or of all elements; NaN of none."""
    array = checked(x, "mean")
    check_is(array.dtype, FLOATS, "mean")
    return divide(sum(array, axis=axis, keepdims=keepdims), float(_count(array, axis, "mean")))


@by_float32
def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """The mean square of what differs from the mean, divided by the number of elements less a correction."""
    array = checked(x, "var")
    check_is(array.dtype, FLOATS, "var")
    centred = subtract(array, mean(array, axis=axis, keepdims=True))
    total = sum(multiply(centred, centred), axis=axis, keepdims=keepdims)
    return divide(total, builtins.max(0.0, _count(array, axis, "var") - checked_real(correction, "var: correction")))


@by_float32
def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """The square root of the variance."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _running(x: Expression, axis: int, is_sum: builtins.bool) -> Expression:
    direction = AxisDirection.INCREASING
    if is_sum:
        return F.cumulative_summation(x, axis=axis, axis_direction=direction, has_exclusive_sum=False)
    return F.cumulative_product(x, axis=axis, axis_direction=direction, has_exclusive_product=False)


def _cumulative(
    name: str, x: Any, axis: int | None, dtype: Any, include_initial: builtins.bool, is_sum: builtins.bool
) -> Array:
    array = checked(x, name)
    if axis is None and array.ndim != 1:
        raise InvalidArgumentError(f"{name}: needs an axis of {list(array.shape)}")
    source, wanted = _wide(_accumulated(array, dtype, name))
    dimension = checked_axis(0 if axis is None else axis, array.ndim, name)
    made = one_now(name, _running, source, source.dtype, source.shape, (dimension, is_sum)) if source.size else source
    made = converted(made, wanted)
    if not include_initial:
        return made
    shape = (*array.shape[:dimension], 1, *array.shape[dimension + 1 :])
    return concat([full(shape, 0 if is_sum else 1, dtype=wanted, device=array.device), made], axis=dimension)


@by_float32
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: builtins.bool = False
) -> Array:
    """The running sum along an axis; with 0 in front, if asked for.

    Raises:
        InvalidArgumentError: there is no such axis, or several and none is named.
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial, True)


@by_float32
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: builtins.bool = False
) -> Array:
    """The running product along an axis; with 1 in front, if asked for.

    Raises:
        InvalidArgumentError: there is no such axis, or several and none is named.
    """
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial, False)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Array:
    """What each element has more than the one before it along an axis, n times; truth values: whether they differ.

    Raises:
        InvalidArgumentError: there is no such axis, or n is below 0.
    """
    array = checked(x, "diff")
    dimension = checked_axis(axis, array.ndim, "diff")
    n = checked_integer(n, "diff: n", 0)
    if n == 0:
        return copied(array)
    parts = [checked(one, "diff") for one in (prepend, array, append) if one is not None]
    array = concat(parts, axis=dimension) if len(parts) > 1 else array
    function = not_equal if array.dtype == bool_dtype else subtract
    if n >= array.shape[dimension]:
        return array[along(dimension, slice(0, 0))]
    for _ in range(n):
        array = function(array[along(dimension, slice(1, None))], array[along(dimension, slice(None, -1))])
    return array


def norm_of_squares(x: Expression, axes: tuple[int, ...]) -> Expression:
    """The root of the sum of squares (REDUCE L2)."""
    return reduced(x, ReduceFunction.L2, axes)
