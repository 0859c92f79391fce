"""The standard's functions that give elements several times."""

from __future__ import annotations

from typing import Any

from dmlvk.array_api import searching, statistics
from dmlvk.array_api.array import Array, along, checked, checked_axis
from dmlvk.array_api.calls import converted
from dmlvk.array_api.creation import arange, asarray
from dmlvk.array_api.dtypes import INTEGERS, check_is, checked_dtype
from dmlvk.array_api.indexing import take
from dmlvk.array_api.manipulation import broadcast_to, concat, reshape, resized
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.integers import checked_integers


def tile(x: Any, repetitions: Any, /) -> Array:
    """The array, repeated along each axis.

    Raises:
        InvalidArgumentError: a number of repetitions is below 0.
    """
    array, counts = checked(x, "tile"), tuple(checked_integers(repetitions, "tile: repetitions", 0))
    rank = max(array.ndim, len(counts))
    shape, counts = (1,) * (rank - array.ndim) + array.shape, (1,) * (rank - len(counts)) + counts
    made = resized(array, shape)
    for axis, count in enumerate(counts):
        if count != 1:
            made = concat([made] * count, axis=axis) if count else made[along(axis, slice(0, 0))]
    return made


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
    counts = repeats if isinstance(repeats, Array) else asarray(repeats, device=array.device)
    check_is(counts.dtype, INTEGERS, "repeat")
    if counts.ndim > 1 or (counts.ndim == 1 and counts.shape[0] not in (1, size)):
        raise InvalidArgumentError(f"repeat: repeats must be one number or {size}; got {list(counts.shape)}")
    if size == 0:
        return array.__copy__()
    counts = broadcast_to(counts, (size,))
    if int(statistics.min(counts)) < 0:
        raise InvalidArgumentError("repeat: repeats must not be below 0")
    ends = statistics.cumulative_sum(converted(counts, checked_dtype("int64", "repeat")))
    total = int(ends[-1])
    if total == 0:
        return array[along(dimension, slice(0, 0))]
    sources = searching.searchsorted(ends, arange(total, device=array.device), side="right")
    return take(array, sources, axis=dimension)
