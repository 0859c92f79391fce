"""The standard's array: elements on a device, of any shape, that no function changes behind another's back."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Sized
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dmlvk.array_api.dtypes import (
    INTEGERS,
    SUPPORTED,
    DType,
    check_number,
    checked_dtype,
    device_type,
    is_number,
)
from dmlvk.array_api.dtypes import bool as bool_dtype
from dmlvk.array_api.lazy import Shape, Value
from dmlvk.array_api.lazy import number as number_value
from dmlvk.array_api.operators import Operators
from dmlvk.arrays.device_array import Array as DeviceArray
from dmlvk.device import Device
from dmlvk.errors import DataTypeError, DeviceLimitError, InvalidArgumentError
from dmlvk.objects.portable import default_device, refuse_pickling
from dmlvk.support.integers import UINT64_MAX, checked_integer, checked_integers
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT

VERSION = "2024.12"

_LARGEST_EMPTY = 2**56
"""Elements that the other axes of an empty array have at most: NumPy multiplies them, too."""

_MOST_ELEMENTS = 2**32 - 1
"""Of one of DirectML's tensors."""

_ALWAYS_THERE = 2**27
"""Bytes of a buffer that every Vulkan device has (maxStorageBufferRange)."""

_MOST_ITEMS = 64
"""Sizes and axes that are looked at; an array has fewer."""


class Array(Operators):
    """An array of the standard. Made by the functions of :mod:`dmlvk.array_api`; ``asarray`` takes a ``dmlvk.Array``.

    Elements are computed when they are needed (``numpy.asarray``, ``float``, a sum, …), several element-wise operations
    at once. ``x[key] = value`` and ``x += y`` give this array new elements: other arrays that were made from it, by
    slices too, keep theirs.

    Attributes:
        device: where the elements are, a ``dmlvk.Device``.
        dtype: their type, one of :mod:`dmlvk.array_api`'s.
        shape: sizes along 0 to 8 axes, any of which may be 0.
    """

    __array_ufunc__ = None  # NumPy's arrays on the left leave an operator to this class, which refuses them

    __hash__ = None  # type: ignore[assignment]  # == gives an array

    def __init__(self, device: Device, dtype: DType, shape: Shape, value: Value | None) -> None:
        self.device = device
        self.dtype = dtype
        self.shape = shape
        self._value = value
        if value is not None:
            value.handles += 1

    def __del__(self) -> None:
        value = getattr(self, "_value", None)
        if value is not None:
            value.handles -= 1

    def __reduce__(self) -> NoReturn:
        refuse_pickling("array_api.Array", "pickle its values: numpy.asarray(array)")

    def __copy__(self) -> Array:
        return Array(self.device, self.dtype, self.shape, self._value)

    def __deepcopy__(self, _memory: object) -> Array:
        return self.__copy__()  # elements are never changed

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Array:
        """The transposed matrix.

        Raises:
            InvalidArgumentError: when there are not two axes.
        """
        if self.ndim != 2:
            raise InvalidArgumentError(f"{self._text()}.T: needs 2 axes; use mT or permute_dims")
        return self.mT

    @property
    def mT(self) -> Array:
        """The last two axes exchanged.

        Raises:
            InvalidArgumentError: when there are fewer.
        """
        made: Array = self.functions.matrix_transpose(self)
        return made

    @property
    def value(self) -> Value:
        """The elements, of which there must be some, perhaps not computed yet."""
        assert self._value is not None, self.shape  # callers have looked for empty axes
        return self._value

    @property
    def is_pending(self) -> bool:
        """Whether the elements still have to be computed."""
        return self._value is not None and self._value.is_pending

    def device_array(self) -> DeviceArray:
        """The elements as a ``dmlvk.Array``, not copied; (1,) where there is no axis; ``bool`` as UINT8.

        Raises:
            InvalidArgumentError: when there are no elements.
        """
        if self._value is None:
            raise InvalidArgumentError(f"{self._text()}: a dmlvk.Array has elements")
        return self._value.array()

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements in main memory; waits for what computes them."""
        if self._value is None:
            return np.empty(self.shape, self.dtype)
        return self._value.array().numpy().reshape(self.shape).view(self.dtype)

    def _text(self) -> str:
        return f"array_api.Array {self.dtype.name} {list(self.shape)}"

    def __repr__(self) -> str:
        return f"Array({np.array2string(self.numpy(), separator=', ', threshold=20)}, dtype={self.dtype.name})"

    def __array_namespace__(self, *, api_version: str | None = None) -> types.ModuleType:
        """:mod:`dmlvk.array_api`.

        Raises:
            InvalidArgumentError: another version than 2024.12 or one before it is asked for.
        """
        return namespace(api_version)

    def to_device(self, device: Device, /, *, stream: None = None) -> Array:
        """The array on a device; the same one where it is there already, else a copy through main memory.

        Raises:
            InvalidArgumentError: streams are asked for, of which dmlvk has none.
        """
        if stream is not None:
            raise InvalidArgumentError(f"{self._text()}.to_device: there are no streams; got {stream!r}")
        if checked_device(device, "to_device") is self.device:
            return self
        made: Array = self.functions.asarray(self.numpy(), device=device)
        return made

    def __index__(self) -> int:
        if self.dtype not in INTEGERS or self.ndim:
            raise DataTypeError(f"{self._text()} is no index: it must be an integer without axes")
        return int(self._number("is no index"))

    def __getitem__(self, key: Any, /) -> Array:
        """Elements by integers, slices, ``...``, ``None``, integer arrays, or one boolean array.

        Raises:
            InvalidArgumentError: it is another index.
            IndexError: it lies outside.
        """
        made: Array = self.functions.indexing.item_of(self, key)
        return made

    def __setitem__(self, key: Any, value: Any, /) -> None:
        """New elements where an index says; other arrays keep theirs.

        Raises:
            InvalidArgumentError: it is another index, or the value does not broadcast to what it names.
            IndexError: it lies outside.
        """
        self._become(self.functions.indexing.with_item(self, key, value))

    def _become(self, other: Array) -> Array:
        old, self._value = self._value, other._value
        if self._value is not None:
            self._value.handles += 1
        if old is not None:
            old.handles -= 1
        return self


def namespace(api_version: str | None) -> types.ModuleType:
    """The module for a version of the standard.

    Raises:
        InvalidArgumentError: it is not that of the version.
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", VERSION):
        raise InvalidArgumentError(f"__array_namespace__: has version {VERSION}; got {api_version!r}")
    made: types.ModuleType = Array.functions
    return made


def of_device_array(array: DeviceArray, copy: bool | None = None) -> Array:
    """The standard's array of a ``dmlvk.Array``, which is taken as it lies, or copied.

    Raises:
        DataTypeError: the standard has no such type.
    """
    dtype = bool_dtype if array.is_truth else checked_dtype(array.dtype, "asarray")
    if dtype not in SUPPORTED or array.data_type.size_in_bits < 8:
        raise DataTypeError(f"asarray: {array.data_type.name} is no type of the standard's")
    own = array.device.array(array) if copy else array
    value = Value(array.device, array.data_type, array.shape, array=own, is_shared=own is array)
    return Array(array.device, dtype, array.shape, value)


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
    """An operand as the standard's array: a ``dmlvk.Array`` is taken as it lies.

    Raises:
        DataTypeError: it is something else.
    """
    if isinstance(x, Array):
        return x
    if isinstance(x, DeviceArray):
        return of_device_array(x)
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
    rank = max(len(shape) for shape in shapes)
    made: list[int] = []
    for column in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        others = {size for size in column if size != 1}
        if len(others) > 1:
            raise InvalidArgumentError(
                f"{where}: the shapes do not broadcast: {' and '.join(str(list(shape)) for shape in shapes)}"
            )
        made.append(others.pop() if others else 1)
    return checked_shape(tuple(made), where)


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
    """Whether the elements are truth values."""
    return x.dtype == bool_dtype


def along(axis: int, item: Any) -> tuple[Any, ...]:
    """The index of a part along one axis."""
    return (*(slice(None),) * axis, item)
