"""Indexing: parts by integers, slices, integer arrays and masks; take, and elements put into an array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlvk import functions as F
from dmlvk.array_api.array import broadcast, checked, checked_axis, is_bool, number_beside, operands
from dmlvk.array_api.calls import computed_now, converted, seen
from dmlvk.array_api.creation import arange, asarray, zeros
from dmlvk.array_api.dtypes import INTEGERS, check_is, int32, int64, is_number, promoted, uint32
from dmlvk.array_api.dtypes import bool as bool_dtype
from dmlvk.array_api.elementwise import add, floor_divide, less, multiply, remainder, where
from dmlvk.array_api.manipulation import broadcast_arrays, broadcast_to, moveaxis, reshape
from dmlvk.arrays.array import Array
from dmlvk.arrays.values import Shape
from dmlvk.errors import DataTypeError, IndexRangeError, InvalidArgumentError
from dmlvk.graphs.expression import Expression
from dmlvk.support.integers import checked_integer


def item_of(x: Array, key: Any) -> Array:
    """What ``x[key]`` is.

    Raises:
        InvalidArgumentError: it is no index.
        IndexRangeError: it lies outside.
    """
    items = _items(x, key)
    masks = [one for one in items if isinstance(one, Array) and is_bool(one)]
    if masks:
        if len(items) > 1:
            raise InvalidArgumentError("an index of truth values must be the only one")
        return _masked(x, masks[0])
    if any(isinstance(one, Array) for one in items):
        return _at(x, _completed(x, items))
    return _part(x, _completed(x, items))


def _items(x: Array, key: Any) -> tuple[Any, ...]:
    """The parts of an index: arrays as arrays, those of one integer as integers."""
    items = []
    for one in key if isinstance(key, tuple) else (key,):
        if isinstance(one, (list, np.ndarray)):
            one = asarray(one, device=x.device)
        elif isinstance(one, (bool, np.bool_)):
            raise InvalidArgumentError(f"an index must not be {one!r}: use an array of truth values")
        if isinstance(one, Array):
            one = checked(one, "an index")
            check_is(one.dtype, (*INTEGERS, np.dtype(bool)), "an index")
            if one.ndim == 0 and not is_bool(one):
                one = int(one)
        elif not (one is None or one is Ellipsis or isinstance(one, slice)):
            if isinstance(one, type) or not hasattr(one, "__index__"):
                raise InvalidArgumentError(f"an index is made of integers, slices, '...', None and arrays; got {one!r}")
            one = checked_integer(one, "an index", -(2**64))
        items.append(one)
    return tuple(items)


def _completed(x: Array, items: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index without ``...`` that names all axes."""
    used = sum(one is not None and one is not Ellipsis for one in items)
    if used > x.ndim or sum(one is Ellipsis for one in items) > 1:
        raise IndexRangeError(f"an index of at most {x.ndim} axes, with one '...', is for {list(x.shape)}; got {used}")
    rest = (slice(None),) * (x.ndim - used)
    for index, one in enumerate(items):
        if one is Ellipsis:
            return (*items[:index], *rest, *items[index + 1 :])
    return (*items, *rest)


def _bounds(item: slice, size: int, axis: int) -> tuple[int, int, int]:
    try:
        return item.indices(size)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"axis {axis}: {error}; got {item!r}") from error


def _part(x: Array, items: tuple[Any, ...]) -> Array:
    """A part by integers, slices and new axes."""
    shape: list[int] = []
    plain: list[Any] = []
    axis = 0
    for one in items:
        if one is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(one, slice):
            taken = range(*_bounds(one, size, axis))
            shape.append(len(taken))
            end = taken.start + len(taken) * taken.step
            plain.append(slice(taken.start, end if end >= 0 else None, taken.step))
        else:
            if not -size <= one < size:
                raise IndexRangeError(f"index {one} is outside of axis {axis}, which has {size} elements")
            plain.append(int(one) % size)
        axis += 1
    made = tuple(shape)
    if 0 in made:
        return seen(x, None, made)
    if made == x.shape and all(one == slice(0, size, 1) for one, size in zip(plain, x.shape, strict=True)):
        return x.same()
    memory = x.memory()
    part = memory[tuple(plain)] if plain else memory
    return seen(x, part.reshape(made or (1,)), made)


def _rows(x: Expression, index: Expression) -> Expression:
    """Rows (n, rest) at a vector of places."""
    folded = x.reshape(1, *x.sizes) if x.tensor.is_packed else F.identity(x).reshape(1, *x.sizes)
    made: Expression = F.gather(folded, index.reshape(1, 1, -1), axis=1, index_dimensions=1)
    return made


def _taken(rows: Array, index: Array) -> Array:
    """Rows of (n, rest) at a vector of integers, which are within."""
    shape = (index.shape[0], rows.shape[1])
    if 0 in shape:
        return seen(rows, None, shape)
    if rows.shape[0] == 0:
        raise IndexRangeError("an index is outside of an axis that has no elements")
    (made,) = computed_now("take", _rows, [rows, index], [(rows.dtype, shape)])
    return made


def _folded(x: Array, axes: int) -> Array:
    """The first axes as one, the others as another one."""
    return reshape(x, (math.prod(x.shape[:axes]), math.prod(x.shape[axes:])))


def wrapped(index: Array, size: int) -> Array:
    """Integers from 0 on, of which those below 0 count from the end, as int64."""
    plain = converted(index, int64)
    return where(less(plain, 0), add(plain, size), plain)


def _at(x: Array, items: tuple[Any, ...]) -> Array:
    """Elements at integer arrays, which broadcast, and integers; along other axes by slices."""
    basic = tuple(one if one is None or isinstance(one, slice) else slice(None) for one in items)
    part = _part(x, basic)
    indices = [index for index, one in enumerate(items) if not (one is None or isinstance(one, slice))]
    sizes = [part.shape[index] for index in indices]
    given = [
        one if isinstance(one, Array) else _checked_number(x, one, size)
        for one, size in zip((items[index] for index in indices), sizes, strict=True)
    ]
    arrays = broadcast_arrays(*operands("an index", *given))
    shape = arrays[0].shape
    front = moveaxis(part, indices, list(range(len(indices))))
    rest = front.shape[len(indices) :]
    if 0 in shape:
        made = seen(x, None, (*shape, *rest))
    else:
        linear = wrapped(arrays[0], sizes[0])
        for one, size in zip(arrays[1:], sizes[1:], strict=True):
            linear = add(multiply(linear, size), wrapped(one, size))
        made = reshape(_taken(_folded(front, len(indices)), reshape(linear, (linear.size,))), (*shape, *rest))
    if indices == list(range(indices[0], indices[0] + len(indices))):  # NumPy's rule: where they stood, if in a row
        made = moveaxis(made, list(range(len(shape))), list(range(indices[0], indices[0] + len(shape))))
    return made


def _checked_number(x: Array, number: int, size: int) -> Array:
    if not -size <= number < size:
        raise IndexRangeError(f"index {number} is outside of an axis that has {size} elements")
    return asarray(number, device=x.device)


def _masked(x: Array, mask: Array) -> Array:
    """The elements, or rows of the axes behind, where a mask is true."""
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexRangeError(f"a mask of {list(mask.shape)} does not fit the first axes of {list(x.shape)}")
    rest = x.shape[mask.ndim :]
    (indices,) = nonzero(reshape(mask, (mask.size,)))
    return reshape(_taken(_folded(x, mask.ndim), indices), (indices.shape[0], *rest))


def _scattered(x: Expression, index: Expression, updates: Expression) -> Expression:
    made: Expression = F.scatter(x, index, updates, axis=0)
    return made


def with_item(x: Array, key: Any, value: Any) -> Array:
    """What ``x`` is after ``x[key] = value``.

    Raises:
        InvalidArgumentError: it is no index, or the value does not broadcast to it.
        IndexRangeError: it lies outside.
        DataTypeError: the value's type does not promote to the array's.
    """
    new = number_beside(value, x, "x[key] = value") if is_number(value) else checked(value, "x[key] = value")
    if promoted(new.dtype, x.dtype, "x[key] = value") != x.dtype:
        raise DataTypeError(f"x[key] = value: {new.dtype.name} does not fit {x.dtype.name}: use astype")
    new = converted(new, x.dtype)
    items = _items(x, key)
    if len(items) == 1 and isinstance(items[0], Array) and is_bool(items[0]):
        mask = items[0]
        if mask.shape == x.shape and new.ndim == 0:
            return where(mask, new, x)
    if x.size == 0:
        item_of(x, key)  # whether it is an index
        return x.same()
    indices = item_of(reshape(arange(x.size, dtype=int32, device=x.device), x.shape), key)
    updates = broadcast_to(_squeezed(new, indices.ndim), indices.shape)
    if indices.size == 0:
        return x.same()
    flat = [reshape(one, (one.size,)) for one in (x, indices, updates)]
    (made,) = computed_now("x[key] = value", _scattered, flat, [(x.dtype, (x.size,))])
    return reshape(made, x.shape)


def _squeezed(x: Array, rank: int) -> Array:
    """Without leading axes of size 1 beyond a rank, as NumPy takes them."""
    extra = x.ndim - rank
    return reshape(x, x.shape[extra:]) if extra > 0 and all(size == 1 for size in x.shape[:extra]) else x


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Array:
    """The elements, or parts, at integers along an axis. Integers beyond it are not looked for, and give the last one.

    Raises:
        InvalidArgumentError: there is no such axis, or indices have more than one.
    """
    array, index = operands("take", x, indices)
    check_is(index.dtype, INTEGERS, "take")
    if axis is None and array.ndim != 1:
        raise InvalidArgumentError(f"take: needs an axis of {list(array.shape)}")
    dimension = checked_axis(0 if axis is None else axis, array.ndim, "take")
    front = moveaxis(array, dimension, 0)
    rows = _taken(_folded(front, 1), reshape(wrapped(index, array.shape[dimension]), (index.size,)))
    made = reshape(rows, (*index.shape, *front.shape[1:]))
    return moveaxis(made, list(range(index.ndim)), list(range(dimension, dimension + index.ndim)))


def _along(x: Expression, index: Expression, axis: int) -> Expression:
    made: Expression = F.gather_elements(x, index, axis=axis)
    return made


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Array:
    """Of each row along an axis the elements at its own integers; the other axes broadcast.

    Raises:
        InvalidArgumentError: the ranks differ, or shapes do not broadcast.
    """
    array, index = operands("take_along_axis", x, indices)
    check_is(index.dtype, INTEGERS, "take_along_axis")
    if array.ndim != index.ndim:
        raise InvalidArgumentError(f"take_along_axis: ranks must be equal; got {array.ndim} and {index.ndim}")
    dimension = checked_axis(axis, array.ndim, "take_along_axis")

    def without(shape: Shape) -> Shape:
        return (*shape[:dimension], 1, *shape[dimension + 1 :])

    common = broadcast("take_along_axis", [without(array.shape), without(index.shape)])

    def full(shape: Shape) -> Shape:
        return (*common[:dimension], shape[dimension], *common[dimension + 1 :])

    shape = full(index.shape)
    if 0 in shape:
        return seen(array, None, shape)
    whole, positions = (
        broadcast_to(array, full(array.shape)),
        broadcast_to(wrapped(index, array.shape[dimension]), shape),
    )
    (made,) = computed_now("take_along_axis", _along, [whole, positions], [(array.dtype, shape)], (dimension,))
    return made


def _counted(x: Expression) -> tuple[Expression, ...]:
    return tuple(F.nonzero_coordinates(x))


def nonzero_indices(x: Array) -> Array:
    """Where a vector of truth values is true, as int64; how many are read from the device."""
    count, indices = computed_now("nonzero", _counted, [x], [(uint32, (1,)), (uint32, (x.size, 1))])
    found = int(count)
    if not found:
        return seen(converted(indices, int64), None, (0,))
    return converted(_part(indices, (slice(0, found), 0)), int64)


def nonzero(x: Any, /) -> tuple[Array, ...]:
    """Where elements are not 0: an array of int64 for each axis. How many there are is read from the device.

    Raises:
        InvalidArgumentError: there is no axis.
    """
    array = checked(x, "nonzero")
    if array.ndim == 0:
        raise InvalidArgumentError("nonzero: needs an axis")
    if array.size == 0:
        return tuple(zeros((0,), dtype=int64, device=array.device) for _ in array.shape)
    rest = nonzero_indices(reshape(converted(array, bool_dtype), (array.size,)))
    found = []
    for size in array.shape[:0:-1]:
        found.append(remainder(rest, size))
        rest = floor_divide(rest, size)
    return (rest, *reversed(found))
