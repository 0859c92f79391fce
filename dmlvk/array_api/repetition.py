"""The standard's functions that give elements several times."""

from __future__ import annotations

import math
from typing import Any

from dmlvk.array_api import searching, statistics
from dmlvk.array_api.array import along, check_room, checked, checked_axis, checked_shape, integers
from dmlvk.array_api.calls import converted, copied
from dmlvk.array_api.creation import arange, asarray, zeros
from dmlvk.array_api.dtypes import INTEGERS, check_is, checked_dtype, is_number
from dmlvk.array_api.indexing import take
from dmlvk.array_api.manipulation import broadcast_to, reshape, resized
from dmlvk.arrays.array import Array
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.integers import checked_integer


def tile(x: Any, repetitions: Any, /) -> Array:
    """The array, repeated along each axis.

    Raises:
        InvalidArgumentError: a number of repetitions is below 0.
    """
    array, counts = checked(x, "tile"), integers(repetitions, "tile: repetitions", 0)
    rank = max(array.ndim, len(counts))
    shape, counts = (1,) * (rank - array.ndim) + array.shape, (1,) * (rank - len(counts)) + counts
    whole = checked_shape(tuple(size * count for size, count in zip(shape, counts, strict=True)), "tile")
    if 0 in whole:
        return zeros(whole, dtype=array.dtype, device=array.device)
    check_room(array.device, array.dtype, whole, "tile")
    made = resized(array, shape)
    for axis, count in enumerate(counts):
        made = _repeated(made, axis, count, axis)
    return made


def _repeated(x: Array, axis: int, count: int, place: int) -> Array:
    """All that is behind a place of the shape several times in a row, which makes an axis longer."""
    if count == 1:
        return x
    first, rest = math.prod(x.shape[:place]), math.prod(x.shape[place:])
    several = broadcast_to(reshape(x, (first, 1, rest)), (first, count, rest))
    return reshape(several, (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]))


def _evenly(x: Array, axis: int, count: int) -> Array:
    """Each element along an axis equally often."""
    whole = checked_shape((*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]), "repeat")
    if 0 in whole:
        return zeros(whole, dtype=x.dtype, device=x.device)
    check_room(x.device, x.dtype, whole, "repeat")
    return _repeated(x, axis, count, axis + 1)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Each element several times in a row: as often for all, or as an array of integers says.

    Raises:
        InvalidArgumentError: a number is below 0, or there are not as many as elements.
    """
    array = checked(x, "repeat")
    if axis is None:
        array, axis = reshape(array, (array.size,)), 0
    dimension = checked_axis(axis, array.ndim, "repeat")
    size = array.shape[dimension]
    if not isinstance(repeats, Array) and is_number(repeats):
        return _evenly(array, dimension, checked_integer(repeats, "repeat: repeats", 0))
    counts = repeats if isinstance(repeats, Array) else asarray(repeats, device=array.device)
    check_is(counts.dtype, INTEGERS, "repeat")
    if counts.ndim > 1 or (counts.ndim == 1 and counts.shape[0] not in (1, size)):
        raise InvalidArgumentError(f"repeat: repeats must be one number or {size}; got {list(counts.shape)}")
    if size == 0:
        return copied(array)
    if counts.ndim == 0:
        return _evenly(array, dimension, checked_integer(int(counts), "repeat: repeats", 0))
    counts = broadcast_to(counts, (size,))
    if int(statistics.min(counts)) < 0:
        raise InvalidArgumentError("repeat: repeats must not be below 0")
    most = int(statistics.max(counts))
    check_room(array.device, array.dtype, (most,), "repeat")
    ends = statistics.cumulative_sum(converted(counts, checked_dtype("int64", "repeat")))
    total = int(ends[-1])
    if total == 0:
        return array[along(dimension, slice(0, 0))]
    check_room(array.device, array.dtype, (*array.shape[:dimension], total, *array.shape[dimension + 1 :]), "repeat")
    sources = searching.searchsorted(ends, arange(total, device=array.device), side="right")
    return take(array, sources, axis=dimension)
