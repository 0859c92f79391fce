"""Between NumPy arrays and the bytes of a tensor's buffer."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.arrays import result_memory
from dmlvk.arrays.conversion import Casting, converted
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError, OutOfMemoryError
from dmlvk.support.shared_work import Helpers
from dmlvk.tensors import TensorDesc, elements_overlap

MOST_COPIERS = 4
"""Threads that work at a copy, the one that wants it included. More are in each other's way where several threads copy
at once, and no faster where one does."""

_helpers = Helpers("dmlvk-copy")


def share(parts: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]]) -> None:
    """Copies arrays, with as many threads as there are parts.

    Args:
        parts: where to, and from where; of one shape.
    """
    _helpers.share([functools.partial(_copy, *part) for part in parts], len(parts))


def _copy(destination: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    destination[...] = source


_INTEGERS_ARE_LONG = np.asarray(1).dtype == np.int64

_PARALLEL_BYTES = 8 * 2**20
"""Copies of at least this size are shared among threads: one core does not fill a memory bus, nor touch pages fast."""


def copy_elements(destination: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """``destination[...] = source`` for arrays of one shape, with several cores where the arrays are large."""
    if destination.nbytes < _PARALLEL_BYTES:
        destination[...] = source
        return
    copiers = min(MOST_COPIERS, os.cpu_count() or 1)
    rows = destination.shape[0] if destination.ndim else 0
    flat = destination.flags.c_contiguous and source.flags.c_contiguous
    if copiers == 1 or not (flat or rows >= copiers):
        destination[...] = source
        return
    if flat:
        destination, source = destination.reshape(-1), source.reshape(-1)
        rows = destination.size
    bounds = [rows * i // copiers for i in range(copiers + 1)]

    share([(destination[start:end], source[start:end]) for start, end in itertools.pairwise(bounds)])


def copied(source: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy in C order."""
    if source.nbytes < _PARALLEL_BYTES:
        return source.copy(order="C")
    copy = result_memory.empty(source.shape, source.dtype)
    copy_elements(copy, source)
    return copy


def unpacked(contents: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The halves of bytes, the low one first, a byte for each: where the elements of 4-bit types lie."""
    halves = np.empty((contents.size, 2), np.uint8)
    np.bitwise_and(contents, 15, out=halves[:, 0])
    np.right_shift(contents, 4, out=halves[:, 1])
    return halves.reshape(-1)


def packed(halves: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """What :func:`unpacked` makes halves of; an even number of them."""
    return np.bitwise_or(halves[::2], np.left_shift(halves[1::2], 4), dtype=np.uint8)


def has_views(tensor: TensorDesc) -> bool:
    """Whether NumPy can see the tensor's elements in a buffer: those of 4-bit types it cannot."""
    return tensor.data_type.size_in_bits >= 8


def elements_of(buffer: npt.NDArray[np.uint8], tensor: TensorDesc) -> npt.NDArray[Any]:
    """A copy of the tensor's elements inside a buffer's bytes, in C order, shape = sizes."""
    if has_views(tensor):
        return copied(logical_view(buffer, tensor))
    halves = unpacked(buffer[: tensor.data_type.bytes_of(tensor.span_in_elements)])
    values = np.ascontiguousarray(_strided(halves, tensor))
    return values if tensor.data_type is DataType.UINT4 else (values ^ 8).view(np.int8) - np.int8(8)


def logical_view(buffer: npt.NDArray[np.uint8], tensor: TensorDesc) -> npt.NDArray[Any]:
    """The tensor's elements inside a buffer's bytes, shape = sizes; a view, which strides may make overlap itself.

    There is none of 4-bit types: :func:`elements_of` and :func:`lay_out`.
    """
    data_type = tensor.data_type.numpy_dtype
    elements = buffer[: tensor.span_in_elements * data_type.itemsize].view(data_type)
    return _strided(elements, tensor)


def _strided(elements: npt.NDArray[Any], tensor: TensorDesc) -> npt.NDArray[Any]:
    steps = tuple(stride * elements.itemsize for stride in tensor.element_strides)
    return np.lib.stride_tricks.as_strided(elements, tuple(tensor.sizes), steps)


def plain_array(array: npt.ArrayLike, where: str) -> npt.NDArray[Any]:
    """Whatever NumPy can describe, as an array.

    Raises:
        InvalidArgumentError: when it cannot, or elements are masked: no tensor has a mask.
        OutOfMemoryError: when the array would not fit in main memory.
    """
    # NumPy's masked arrays have no types of their own.
    if isinstance(array, np.ma.MaskedArray) and np.any(np.ma.getmaskarray(array)):  # type: ignore[no-untyped-call]
        raise InvalidArgumentError(
            f"{where}: the array has masked elements, and a tensor has no mask: choose values for them (array.filled)"
        )
    try:
        values = np.asarray(array)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(f"{where}: not an array: {error}") from error
    except MemoryError as error:
        raise OutOfMemoryError(f"{where}: too large for an array: {error or 'no memory is left'}") from error
    return values if _INTEGERS_ARE_LONG else with_long_integers(values, array)


def with_long_integers(values: npt.NDArray[Any], given: npt.ArrayLike) -> npt.NDArray[Any]:
    """What NumPy makes of Python's integers where it takes 64 bits for them: everywhere but NumPy 1 on Windows.

    Args:
        values: the array that it has made, with 32 bits.
        given: what of: integers, or lists of them. Whatever has a data type of its own keeps it.
    """
    return values.astype(np.int64) if values.dtype == np.int32 and _is_of_python(given) else values


def _is_of_python(given: Any) -> bool:
    if isinstance(given, (list, tuple)):
        return all(_is_of_python(item) for item in given)
    return isinstance(given, (int, range))


def checked_array(
    array: npt.ArrayLike, tensor: TensorDesc, where: str, casting: Casting | None = None
) -> npt.NDArray[Any]:
    """``array`` as an array of the tensor's data type and sizes.

    An axis of length 1 is taken for an axis that the tensor broadcasts by stride 0. No bytes are reinterpreted.

    Args:
        array: any array that NumPy can describe, of any memory layout and byte order; lists, too.
        tensor: the description it must fit.
        where: operator and member, for the message.
        casting: what of another data type may be converted, as in NumPy; ``None``: whatever keeps every value.

    Raises:
        InvalidArgumentError: when the shape differs, or values would change that must not.
    """
    wanted = tensor.data_type.numpy_dtype
    if type(array) is np.ndarray and array.dtype == wanted and array.shape == tensor.sizes:
        check_range(array, tensor.data_type, where)
        return array
    values = plain_array(array, where)
    if values.dtype == np.bool_ and wanted == np.uint8:
        values = values.view(np.uint8)
    if values.dtype.kind not in "biuf" and casting is None:
        raise InvalidArgumentError(f"{where}: the array's dtype must be {wanted}; got {values.dtype}")
    sizes = tuple(tensor.sizes)
    fits = values.ndim == len(sizes) and all(
        length == size or (length == 1 and stride == 0)
        for length, size, stride in zip(values.shape, sizes, tensor.element_strides, strict=True)
    )
    if not fits:
        raise InvalidArgumentError(f"{where}: the array's shape must be {list(sizes)}; got {list(values.shape)}")
    if values.dtype.newbyteorder("=") != wanted:
        values = converted(values, wanted, where, casting)
    check_range(values, tensor.data_type, where)
    return np.broadcast_to(values.astype(wanted, copy=False), sizes)


def check_range(values: npt.NDArray[Any], data_type: DataType, where: str) -> None:
    """Checks that integers that stand for elements of a 4-bit type are such.

    Raises:
        InvalidArgumentError: when one is below or above what the type has.
    """
    if data_type.size_in_bits >= 8 or values.size == 0:
        return
    least, greatest = data_type.integer_limits
    got = int(values.min()), int(values.max())
    if got[0] < least or got[1] > greatest:
        raise InvalidArgumentError(
            f"{where}: the array's values must be from {least} to {greatest}, as {data_type.name} is; got "
            f"{got[0] if got[0] < least else got[1]}"
        )


def lay_out(array: npt.NDArray[Any], tensor: TensorDesc, buffer: npt.NDArray[np.uint8], where: str) -> None:
    """Writes a logical array into a buffer's bytes, where the tensor's strides put its elements.

    Args:
        buffer: at least the tensor's size in bytes.
        where: operator and member, for the message.

    Raises:
        InvalidArgumentError: when the strides put different values on one element.
    """
    if not has_views(tensor):
        _lay_out_halves(array, tensor, buffer, where)
        return
    _lay_out(array, tensor, logical_view(buffer, tensor), where)


def _lay_out_halves(array: npt.NDArray[Any], tensor: TensorDesc, buffer: npt.NDArray[np.uint8], where: str) -> None:
    """The same of a 4-bit type; what lies between the elements stays."""
    contents = buffer[: tensor.data_type.bytes_of(tensor.span_in_elements)]
    halves = unpacked(contents)
    _lay_out(array.view(np.uint8) & 15, tensor, _strided(halves, tensor), where)
    contents[...] = packed(halves)


def _lay_out(array: npt.NDArray[Any], tensor: TensorDesc, view: npt.NDArray[Any], where: str) -> None:
    if not may_overlap(tensor):
        copy_elements(view, array)
        return
    # Where only strides of 0 make elements coincide, the values are written once; then all is compared, bit by bit.
    first = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.element_strides)
    view[first] = array[first]
    bits = np.dtype(f"u{array.dtype.itemsize}")
    if not np.array_equal(np.ascontiguousarray(view).view(bits), np.ascontiguousarray(array).view(bits)):
        raise InvalidArgumentError(
            f"{where}: the array has different values where Strides {list(tensor.element_strides)} read one element"
        )


def may_overlap(tensor: TensorDesc) -> bool:
    """Whether two coordinates of a tensor may lie on one element."""
    try:
        return elements_overlap(tensor.sizes, tensor.element_strides)
    except InvalidArgumentError:
        return True  # strides too contrived to tell; an input may overlap itself as long as its values agree
