"""The standard's functions of shapes, and conversions of types."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from dmlvk import functions as F
from dmlvk.array_api import forms
from dmlvk.array_api.array import (
    along,
    broadcast,
    checked,
    checked_axes,
    checked_axis,
    checked_shape,
    integers,
    one_or_more,
    operands,
)
from dmlvk.array_api.calls import applied, computed_now, converted, copied, seen
from dmlvk.array_api.dtypes import checked_dtype, promoted
from dmlvk.arrays.array import Array
from dmlvk.arrays.values import Shape
from dmlvk.device import Device
from dmlvk.errors import DataTypeError, IndexRangeError, InvalidArgumentError
from dmlvk.graphs.expression import Expression
from dmlvk.support.integers import checked_integer

_FARTHEST = 2**63  # Places by which elements are moved


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Device | None = None) -> Array:
    """The elements in another type: floats lose their fractions, integers that are too large wrap around.

    Raises:
        DataTypeError: the device does not compute with the type.
    """
    array = checked(x, "astype")
    made = converted(array, checked_dtype(dtype, "astype"))
    made = made.to_device(device) if device is not None else made
    return copied(made) if made is array and copy else made


def resized(x: Array, shape: Shape) -> Array:
    """The same elements in another shape of as many."""
    checked_shape(shape, "reshape")
    if shape == x.shape:
        return x.same()
    return seen(x, x.memory().reshape(shape or (1,)) if x.size else None, shape)


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Array:
    """The same elements in another shape, in which one size may be -1.

    Raises:
        InvalidArgumentError: it has another number of elements.
    """
    array = checked(x, "reshape")
    wanted = list(integers(one_or_more(shape), "reshape: shape", -1))
    if wanted.count(-1) == 1:
        known = math.prod(one for one in wanted if one != -1)
        if known and array.size % known == 0:
            wanted[wanted.index(-1)] = array.size // known
    if math.prod(wanted) != array.size or any(one < 0 for one in wanted):
        raise InvalidArgumentError(f"reshape: {list(array.shape)} has {array.size} elements; got {list(wanted)}")
    return resized(array, tuple(wanted))


def permute_dims(x: Any, /, axes: Any) -> Array:
    """The axes in another order.

    Raises:
        InvalidArgumentError: it is no order of them.
    """
    array = checked(x, "permute_dims")
    order = integers(axes, "permute_dims: axes", -array.ndim, array.ndim - 1)
    order = tuple(axis % array.ndim for axis in order)
    if sorted(order) != list(range(array.ndim)):
        raise InvalidArgumentError(f"permute_dims: axes must name each of {array.ndim} axes once; got {axes!r}")
    shape = tuple(array.shape[axis] for axis in order)
    if not order or order == tuple(range(array.ndim)):
        return array.same()
    return seen(array, array.memory().transpose(order) if array.size else None, shape)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Array:
    """Some axes at other places, the others in their order.

    Raises:
        InvalidArgumentError: there are no such axes, or not as many places.
    """
    array = checked(x, "moveaxis")
    given = [one if isinstance(one, (tuple, list)) else (one,) for one in (source, destination)]
    taken, indices = ([checked_axis(axis, array.ndim, "moveaxis") for axis in axes] for axes in given)
    if len(set(taken)) != len(taken) or len(set(indices)) != len(indices) or len(taken) != len(indices):
        raise InvalidArgumentError(
            f"moveaxis: needs as many places as axes, each once; got {source!r}, {destination!r}"
        )
    order = [axis for axis in range(array.ndim) if axis not in taken]
    for index, axis in sorted(zip(indices, taken, strict=True)):
        order.insert(index, axis)
    return permute_dims(array, tuple(order))


def expand_dims(x: Any, /, axis: int | tuple[int, ...] = 0) -> Array:
    """New axes of size 1, at these places of the result.

    Raises:
        IndexRangeError: there is no such place.
        InvalidArgumentError: one is named twice.
    """
    array = checked(x, "expand_dims")
    axes = integers(one_or_more(axis), "expand_dims: axis", -(2**63))
    rank = array.ndim + len(axes)
    if not all(-rank <= one < rank for one in axes):
        raise IndexRangeError(f"expand_dims: axis must be from {-rank} to {rank - 1}; got {axis}")
    new = checked_axes(axes, rank, "expand_dims")
    rest = iter(array.shape)
    return resized(array, tuple(1 if place in new else next(rest) for place in range(rank)))


def squeeze(x: Any, /, axis: Any) -> Array:
    """Without some axes of size 1.

    Raises:
        InvalidArgumentError: one has another size, or is not there.
    """
    array = checked(x, "squeeze")
    axes = checked_axes(axis, array.ndim, "squeeze")
    if any(array.shape[one] != 1 for one in axes):
        raise InvalidArgumentError(f"squeeze: axes of size 1 can go; got {axis!r} of {list(array.shape)}")
    return resized(array, tuple(size for index, size in enumerate(array.shape) if index not in axes))


def broadcast_to(x: Any, /, shape: Any) -> Array:
    """The elements repeated along axes of size 1, and along new ones in front.

    Raises:
        InvalidArgumentError: the shape does not follow from it.
    """
    array, wanted = checked(x, "broadcast_to"), integers(shape, "broadcast_to: shape", 0)
    if broadcast("broadcast_to", [array.shape, wanted]) != wanted:
        raise InvalidArgumentError(f"broadcast_to: {list(array.shape)} does not broadcast to {list(wanted)}")
    if wanted == array.shape:
        return array.same()
    return applied("broadcast_to", forms.broadcast, [array], array.dtype, (wanted,), wanted)


def broadcast_arrays(*arrays: Any) -> list[Array]:
    """All in the shape to which they broadcast.

    Raises:
        InvalidArgumentError: they do not.
    """
    given = operands("broadcast_arrays", *arrays)
    shape = broadcast("broadcast_arrays", [one.shape for one in given])
    return [broadcast_to(one, shape) for one in given]


def _joined(*arguments: Any) -> Expression:
    *tensors, axis = arguments
    return F.concatenate(tensors, axis) if len(tensors) > 1 else F.identity(tensors[0])


def _listed(arrays: Any, where: str) -> Sequence[Any]:
    """Several arrays.

    Raises:
        InvalidArgumentError: they are no sequence.
    """
    if not isinstance(arrays, (tuple, list)):
        raise InvalidArgumentError(f"{where}: takes a sequence of arrays; got {type(arrays).__name__}")
    return arrays


def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """Arrays behind one another along an axis; ``None``: all their elements in a row.

    Raises:
        InvalidArgumentError: other sizes differ.
        DataTypeError: they have no common type.
    """
    given = operands("concat", *_listed(arrays, "concat"))
    if axis is None:
        given, axis = [reshape(one, (-1,) if one.size else (0,)) for one in given], 0
    first = given[0]
    dimension = checked_axis(axis, first.ndim, "concat")
    for one in given:
        if one.ndim != first.ndim or any(
            a != b for number, (a, b) in enumerate(zip(one.shape, first.shape, strict=True)) if number != dimension
        ):
            raise InvalidArgumentError(
                f"concat: sizes must be equal but along axis {dimension}; got {[list(one.shape) for one in given]}"
            )
    dtype = functools.reduce(lambda a, b: promoted(a, b, "concat"), [one.dtype for one in given])
    shape = list(first.shape)
    shape[dimension] = sum(one.shape[dimension] for one in given)
    full = [converted(one, dtype) for one in given if one.size]
    if not full:
        return Array(first.device, dtype, tuple(shape), None)
    (made,) = computed_now("concat", _joined, full, [(dtype, tuple(shape))], (dimension,))
    return made


def stack(arrays: Any, /, *, axis: int = 0) -> Array:
    """Arrays of one shape behind one another along a new axis.

    Raises:
        InvalidArgumentError: their shapes differ.
    """
    given = operands("stack", *_listed(arrays, "stack"))
    if any(one.shape != given[0].shape for one in given):
        raise InvalidArgumentError(f"stack: shapes must be equal; got {[list(one.shape) for one in given]}")
    dimension = checked_axis(axis, given[0].ndim + 1, "stack")
    return concat([expand_dims(one, axis=dimension) for one in given], axis=dimension)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts along an axis, without it."""
    array = checked(x, "unstack")
    dimension = checked_axis(axis, array.ndim, "unstack")
    return tuple(array[along(dimension, number)] for number in range(array.shape[dimension]))


def flip(x: Any, /, *, axis: Any = None) -> Array:
    """The elements in the opposite order along some axes, or all of them."""
    array = checked(x, "flip")
    axes = checked_axes(axis, array.ndim, "flip")
    return array[tuple(slice(None, None, -1 if index in axes else 1) for index in range(array.ndim))]


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Array:
    """The elements moved along axes; those beyond the end come again at the beginning.

    Raises:
        InvalidArgumentError: there are not as many shifts as axes.
    """
    array = checked(x, "roll")
    if axis is None:
        flat = reshape(array, (array.size,))
        return reshape(roll(flat, shift, axis=0), array.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise InvalidArgumentError(f"roll: needs as many shifts as axes; got {shift!r} and {axis!r}")
    for distance, one in zip(shifts, axes, strict=True):
        dimension = checked_axis(one, array.ndim, "roll")
        cut = checked_integer(distance, "roll: shift", -_FARTHEST) % (array.shape[dimension] or 1)
        if cut and array.size:
            parts = [array[along(dimension, slice(-cut, None))], array[along(dimension, slice(None, -cut))]]
            array = concat(parts, axis=dimension)
    return copied(array)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Array]:
    """Each vector along an axis of its own, repeated along those of the others.

    Raises:
        InvalidArgumentError: one is no vector, or there is no such indexing.
    """
    vectors = [checked(one, "meshgrid") for one in arrays]
    if not isinstance(indexing, str) or indexing not in ("xy", "ij") or any(one.ndim != 1 for one in vectors):
        raise InvalidArgumentError("meshgrid: takes vectors, and indexing 'xy' or 'ij'")
    if len({one.dtype for one in vectors}) > 1:
        raise DataTypeError("meshgrid: the vectors must have one type")
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(axes) > 1:
        axes[0], axes[1] = 1, 0
    seen = [
        reshape(one, tuple(-1 if index == axis else 1 for index in range(len(vectors))) if one.size else
                tuple(0 if index == axis else 1 for index in range(len(vectors))))
        for one, axis in zip(vectors, axes, strict=True)
    ]  # fmt: skip
    return broadcast_arrays(*seen) if seen else []
