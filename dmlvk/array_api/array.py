"""Arrays as operands of the standard's functions: which are taken, of which shapes, along which axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from typing import Any

import numpy as np

from dmlvk.array_api.dtypes import SUPPORTED, DType, check_number, checked_dtype, device_type, is_number
from dmlvk.array_api.dtypes import bool as bool_dtype
from dmlvk.array_api.lazy import number as number_value
from dmlvk.arrays.array import Array
from dmlvk.arrays.values import Shape
from dmlvk.device import Device
from dmlvk.errors import DataTypeError, DeviceLimitError, InvalidArgumentError
from dmlvk.objects.portable import default_device
from dmlvk.support.integers import UINT64_MAX, checked_integer, checked_integers
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, broadcast_sizes

_LARGEST_EMPTY = 2**56  # Elements that the other axes of an empty array have at most: NumPy multiplies them, too

_MOST_ELEMENTS = 2**32 - 1  # Of one of DirectML's tensors

_ALWAYS_THERE = 2**27  # Bytes of a buffer that every Vulkan device has (maxStorageBufferRange)

_MOST_ITEMS = 64  # Sizes and axes that are looked at; an array has fewer


def check_computable(arrays: Sequence[Array], where: str) -> None:
    """Checks that the standard has the arrays' types, and the device computes with them.

    Raises:
        DataTypeError: when it does not: float64, and the 4-bit types.
    """
    for one in arrays:
        if one.dtype not in SUPPORTED:
            checked_dtype(one.dtype, where)  # which says why
        if one.data_type.size_in_bits < 8:
            raise DataTypeError(f"{where}: {one.data_type.name} is no type of the standard's")


def checked_device(device: Any, where: str) -> Device:
    """The device that is meant: ``None`` is the process's (``dmlvk.default_device``).

    Raises:
        InvalidArgumentError: it is none.
    """
    if device is None:
        return default_device()
    if not isinstance(device, Device):
        raise InvalidArgumentError(f"{where}: device must be a dmlvk.Device; got {device!r}")
    return device


def checked(x: Any, where: str) -> Array:
    """An operand that is an array.

    Raises:
        DataTypeError: it is something else.
    """
    if isinstance(x, Array):
        return x
    raise DataTypeError(f"{where}: takes arrays of dmlvk.array_api; got {type(x).__name__}: use asarray")


def operands(where: str, *given: Any) -> list[Array]:
    """Arrays of one device, and numbers as arrays of their type.

    Raises:
        DataTypeError: one is something else, or a number does not fit beside the arrays.
        InvalidArgumentError: there is no array, or they are on several devices.
    """
    arrays = [checked(one, where) for one in given if not is_number(one)]
    if not arrays:
        raise DataTypeError(f"{where}: needs an array; got numbers only")
    check_computable(arrays, where)
    first = arrays[0]
    if any(one.device is not first.device for one in arrays):
        raise InvalidArgumentError(f"{where}: the arrays are on several devices: use to_device")
    rest = iter(arrays)
    return [number_beside(one, first, where) if is_number(one) else next(rest) for one in given]


def number_beside(number: Any, array: Array, where: str) -> Array:
    """A number as an array without axes, of another one's type and device.

    Raises:
        DataTypeError: the type does not hold it.
    """
    plain = number.item() if isinstance(number, np.generic) else number
    check_number(plain, array.dtype, where)
    data_type = device_type(array.dtype)
    return Array(array.device, array.dtype, (), number_value(array.device, plain, data_type))


def broadcast(where: str, shapes: list[Shape]) -> Shape:
    """The shape to which others broadcast.

    Raises:
        InvalidArgumentError: they do not, or it has more than 8 axes.
    """
    made = broadcast_sizes(*shapes)
    if made is None:
        raise InvalidArgumentError(
            f"{where}: the shapes do not broadcast: {' and '.join(str(list(shape)) for shape in shapes)}"
        )
    return checked_shape(made, where)


def checked_shape(shape: Shape, where: str) -> Shape:
    """A shape that arrays can have.

    Raises:
        InvalidArgumentError: when it has more than 8 axes, or is empty and larger than NumPy's arrays can be.
    """
    if len(shape) > MAXIMUM_DIMENSION_COUNT:
        raise InvalidArgumentError(f"{where}: arrays have at most {MAXIMUM_DIMENSION_COUNT} axes; got {list(shape)}")
    if 0 in shape and math.prod(size or 1 for size in shape) > _LARGEST_EMPTY:
        raise InvalidArgumentError(f"{where}: the sizes are too large; got {list(shape)}")
    return shape


def check_room(device: Device, dtype: DType, shape: Shape, where: str) -> None:
    """Checks that a device can have an array, before anything is computed for it.

    Raises:
        DeviceLimitError: it has more elements than a tensor, or more bytes than a buffer of the device.
    """
    count = math.prod(shape)
    if count * dtype.itemsize <= _ALWAYS_THERE:
        return
    most = min(device.info.limits.largest_buffer, device.info.memory)
    if count > _MOST_ELEMENTS or count * dtype.itemsize > most:
        raise DeviceLimitError(
            f"{where}: {dtype.name} {list(shape)} has {count} elements, {count * dtype.itemsize} bytes; an array on "
            f"device {device.info.index}, {device.info.name}, has at most {_MOST_ELEMENTS} elements, {most} bytes"
        )


def integers(values: Any, where: str, lowest: int, highest: int = UINT64_MAX) -> tuple[int, ...]:
    """A sequence of integers: sizes or axes.

    Raises:
        InvalidArgumentError: there are more than axes can be, or one is no integer or outside.
    """
    if isinstance(values, Sized) and len(values) > _MOST_ITEMS:
        raise InvalidArgumentError(f"{where}: at most {_MOST_ITEMS} integers are taken; got {len(values)}")
    return tuple(checked_integers(values, where, lowest, highest))


def one_or_more(value: Any) -> Any:
    """What may be one item or a sequence of them, as a sequence."""
    return value if isinstance(value, Iterable) else (value,)


def checked_axis(axis: Any, rank: int, where: str) -> int:
    """An axis from 0 on.

    Raises:
        InvalidArgumentError: there is no such axis.
    """
    number = checked_integer(axis, f"{where}: axis", -(2**63))
    if not -rank <= number < rank:
        raise InvalidArgumentError(f"{where}: axis must be from {-rank} to {rank - 1}; got {number}")
    return number % rank


def checked_real(number: Any, where: str) -> float:
    """A number of Python or NumPy as a float.

    Raises:
        InvalidArgumentError: it is none.
    """
    if isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool):
        try:
            return float(number)
        except OverflowError:
            pass
    raise InvalidArgumentError(f"{where} must be a number; got {number!r}")


def checked_axes(axis: Any, rank: int, where: str) -> tuple[int, ...]:
    """One or several axes from 0 on, in order; all of them for ``None``.

    Raises:
        InvalidArgumentError: there is no such axis, or one is named twice.
    """
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, (tuple, list)):
        axes = [checked_axis(one, rank, where) for one in integers(axis, f"{where}: axis", -(2**63))]
    else:
        axes = [checked_axis(axis, rank, where)]
    if len(set(axes)) < len(axes):
        raise InvalidArgumentError(f"{where}: each axis must be named once; got {axis!r}")
    return tuple(sorted(axes))


def is_bool(x: Array) -> bool:
    return x.dtype == bool_dtype


def along(axis: int, item: Any) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, item)
