"""The standard's functions of order: places of elements, sorting, and sets."""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

from dmlvk import functions as F
from dmlvk.array_api.array import checked, checked_axis, operands
from dmlvk.array_api.calls import computed_now, converted, one_now, seen
from dmlvk.array_api.creation import zeros
from dmlvk.array_api.dtypes import NUMERIC, SUPPORTED, check_is, int64, promoted, uint8, uint32
from dmlvk.array_api.dtypes import bool as bool_dtype
from dmlvk.array_api.elementwise import by_float32, not_equal, subtract
from dmlvk.array_api.indexing import nonzero_indices, take
from dmlvk.array_api.manipulation import concat, reshape
from dmlvk.array_api.statistics import cumulative_sum, without_axes
from dmlvk.arrays.array import Array
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.expression import Expression
from dmlvk.graphs.numpy_words import with_equal_zeros
from dmlvk.operators.members import AxisDirection


def _arg_extreme(x: Expression, axes: tuple[int, ...], is_max: builtins.bool) -> Expression:
    function = F.argmax if is_max else F.argmin
    made: Expression = function(
        with_equal_zeros(x), axes=list(axes), axis_direction=AxisDirection.INCREASING, output_data_type="INT64"
    )
    return made


def _checked_arg_extreme(name: str, x: Any, axis: int | None, keepdims: builtins.bool, is_max: builtins.bool) -> Array:
    array = checked(x, name)
    check_is(array.dtype, NUMERIC, name)
    if axis is None:
        made = _checked_arg_extreme(name, reshape(array, (array.size,)), 0, False, is_max)
        return reshape(made, (1,) * array.ndim) if keepdims else made
    axes = (checked_axis(axis, array.ndim, name),)
    shape = without_axes(array.shape, axes, keepdims)
    if array.size == 0:
        if 0 in shape:
            return seen(zeros((0,), dtype=int64, device=array.device), None, shape)
        raise InvalidArgumentError(f"{name}: there are no elements along axis {axes[0]} of {list(array.shape)}")
    return one_now(name, _arg_extreme, array, int64, shape, (axes, is_max))


@by_float32
def argmax(x: Any, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Array:
    """Where the first largest element lies along an axis, or among all, as int64; NaN is passed over.

    Raises:
        InvalidArgumentError: there are no elements, or no such axis.
    """
    return _checked_arg_extreme("argmax", x, axis, keepdims, True)


@by_float32
def argmin(x: Any, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Array:
    """Where the first smallest element lies along an axis, or among all, as int64; NaN is passed over.

    Raises:
        InvalidArgumentError: there are no elements, or no such axis.
    """
    return _checked_arg_extreme("argmin", x, axis, keepdims, False)


def _in_order(x: Expression, axis: int, is_descending: builtins.bool) -> tuple[Expression, ...]:
    direction = AxisDirection.DECREASING if is_descending else AxisDirection.INCREASING
    values, places = F.top_k1(with_equal_zeros(x), axis=axis, k=x.sizes[axis], axis_direction=direction)
    return F.gather_elements(x, places, axis=axis) if x.data_type.is_float else values, places


def _sorted(name: str, x: Any, axis: int, descending: builtins.bool) -> tuple[Array, Array]:
    array = checked(x, name)
    check_is(array.dtype, NUMERIC, name)
    dimension = checked_axis(axis, array.ndim, name)
    if array.size == 0:
        return array, seen(zeros((0,), dtype=int64, device=array.device), None, array.shape)
    values, indices = computed_now(
        name,
        _in_order,
        [array],
        [(array.dtype, array.shape), (uint32, array.shape)],
        (dimension, builtins.bool(descending)),
    )
    return values, converted(indices, int64)


@by_float32
def sort(x: Any, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Array:
    """The elements in order along an axis; NaN last, equal ones as they were.

    Raises:
        InvalidArgumentError: there is no such axis.
    """
    return _sorted("sort", x, axis, descending)[0]


@by_float32
def argsort(x: Any, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Array:
    """Where the elements lie in order along an axis, as int64; NaN last, equal ones as they were.

    Raises:
        InvalidArgumentError: there is no such axis.
    """
    return _sorted("argsort", x, axis, descending)[1]


def _searched(ordered: Expression, wanted: Expression, is_left: builtins.bool) -> Expression:
    """How many come before each of the wanted: halves of what is left, all at once."""
    (count,), (number,) = ordered.sizes, wanted.sizes
    last = ordered.graph.constant(count - 1, DataType.INT64)
    position = ordered.graph.constant(0, DataType.INT64).broadcast_to((number,))
    for bit in reversed(range(count.bit_length())):
        next_position = F.add(position, ordered.graph.constant(1 << bit, DataType.INT64))
        within = F.min(F.subtract(next_position, ordered.graph.constant(1, DataType.INT64)), last)
        element = F.gather(ordered.reshape(1, 1, -1), within.reshape(1, 1, -1), axis=2, index_dimensions=1).reshape(
            number
        )
        # NaN comes behind all numbers.
        is_nan = F.isnan(element) if element.data_type.is_float else ordered.graph.constant(0, DataType.UINT8)
        wants_nan = F.isnan(wanted) if wanted.data_type.is_float else ordered.graph.constant(0, DataType.UINT8)
        if is_left:
            comes_before = F.logical_or(F.less(element, wanted), F.logical_and(wants_nan, F.logical_not(is_nan)))
        else:
            comes_before = F.logical_or(F.less_equal(element, wanted), wants_nan)
        fits = F.less_equal(next_position, ordered.graph.constant(count, DataType.INT64))
        position = F.where(F.logical_and(comes_before, fits), next_position, position)
    return position


@by_float32
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Array:
    """How many elements of a sorted vector come before each of x2, as int64; ``"right"``: or equal it.

    Raises:
        InvalidArgumentError: x1 is no vector, or there is no such side.
    """
    ordered, wanted = operands("searchsorted", x1, x2)
    check_is(ordered.dtype, NUMERIC, "searchsorted")
    check_is(wanted.dtype, NUMERIC, "searchsorted")
    if not isinstance(side, str) or side not in ("left", "right") or ordered.ndim != 1:
        raise InvalidArgumentError(f"searchsorted: needs a vector, and side 'left' or 'right'; got {side!r}")
    if sorter is not None:
        ordered = take(ordered, sorter, axis=0)
    dtype = promoted(ordered.dtype, wanted.dtype, "searchsorted")
    if wanted.size == 0 or ordered.size == 0:
        return zeros(wanted.shape, dtype=int64, device=ordered.device)
    both = [converted(ordered, dtype), reshape(converted(wanted, dtype), (wanted.size,))]
    (made,) = computed_now("searchsorted", _searched, both, [(int64, (wanted.size,))], (side == "left",))
    return reshape(made, wanted.shape)


class UniqueAll(NamedTuple):
    """What ``unique_all`` gives."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` gives."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` gives."""

    values: Array
    inverse_indices: Array


def _put(order: Expression, numbers: Expression) -> Expression:
    made: Expression = F.scatter(numbers, order, numbers, axis=0)
    return made


@by_float32
def unique_all(x: Any, /) -> UniqueAll:
    """Each value once, in order, where it comes first, which each element is, and how often it comes.

    Every NaN is a value of its own. How many values there are is read from the device.
    """
    array = checked(x, "unique_all")
    check_is(array.dtype, SUPPORTED, "unique_all")
    size = array.size
    none = zeros((0,), dtype=int64, device=array.device)
    if size == 0:
        return UniqueAll(reshape(array, (0,)), none, reshape_empty(none, array), none)
    flat = reshape(array, (size,))
    plain = converted(flat, uint8) if array.dtype == bool_dtype else flat
    ordered, order = _sorted("unique_all", plain, 0, False)
    first = zeros((1,), dtype=bool_dtype, device=array.device) == False  # noqa: E712  # an array of truth values
    is_new = concat([first, not_equal(ordered[1:], ordered[:-1])])
    indices = nonzero_indices(is_new)
    ends = concat([indices[1:], zeros((1,), dtype=int64, device=array.device) + size])
    numbers = subtract(cumulative_sum(converted(is_new, int64)), 1)
    (inverse,) = computed_now("unique_all", _put, [order, numbers], [(int64, (size,))])
    return UniqueAll(
        converted(take(ordered, indices, axis=0), array.dtype),
        take(order, indices, axis=0),
        reshape(inverse, array.shape),
        subtract(ends, indices),
    )


def reshape_empty(none: Array, like: Array) -> Array:
    """An empty array of another one's shape."""
    return seen(none, None, like.shape)


@by_float32
def unique_counts(x: Any, /) -> UniqueCounts:
    """Each value once, in order, and how often it comes."""
    made = unique_all(x)
    return UniqueCounts(made.values, made.counts)


@by_float32
def unique_inverse(x: Any, /) -> UniqueInverse:
    """Each value once, in order, and which of them each element is."""
    made = unique_all(x)
    return UniqueInverse(made.values, made.inverse_indices)


@by_float32
def unique_values(x: Any, /) -> Array:
    """Each value once, in order; every NaN is a value of its own."""
    return unique_all(x).values
