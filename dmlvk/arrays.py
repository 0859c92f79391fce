"""Between NumPy arrays and the bytes of a tensor's buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError
from dmlvk.tensors import TensorDesc, elements_overlap


def logical_view(buffer: npt.NDArray[np.uint8], tensor: TensorDesc) -> npt.NDArray[Any]:
    """The tensor's elements inside a buffer's bytes, shape = sizes; a view, which strides may make overlap itself."""
    data_type = tensor.data_type.numpy_dtype
    elements = buffer[: tensor.span_in_elements * data_type.itemsize].view(data_type)
    return np.lib.stride_tricks.as_strided(
        elements, tuple(tensor.sizes), tuple(stride * data_type.itemsize for stride in tensor.element_strides)
    )


def checked_array(array: npt.ArrayLike, tensor: TensorDesc, where: str) -> npt.NDArray[Any]:
    """``array`` as an array of the tensor's data type and sizes.

    A ``bool`` array is taken for UINT8, and an axis of length 1 for an axis that the tensor broadcasts by stride 0.
    Nothing else is converted, and no bytes are reinterpreted.

    Args:
        array: any array that NumPy can describe, of any memory layout and byte order.
        tensor: the description it must fit.
        where: operator and member, for the message.

    Raises:
        InvalidArgumentError: when data type or shape differ.
    """
    try:
        values = np.asarray(array)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"{where}: not an array: {error}") from error
    wanted = tensor.data_type.numpy_dtype
    if values.dtype == np.bool_ and wanted == np.uint8:
        values = values.view(np.uint8)
    if values.dtype.newbyteorder("=") != wanted:
        raise InvalidArgumentError(f"{where}: the array's dtype must be {wanted}; got {values.dtype}")
    sizes = tuple(tensor.sizes)
    fits = values.ndim == len(sizes) and all(
        length == size or (length == 1 and stride == 0)
        for length, size, stride in zip(values.shape, sizes, tensor.element_strides, strict=True)
    )
    if not fits:
        raise InvalidArgumentError(f"{where}: the array's shape must be {list(sizes)}; got {list(values.shape)}")
    return np.broadcast_to(values.astype(wanted, copy=False), sizes)


def lay_out(array: npt.NDArray[Any], tensor: TensorDesc, buffer: npt.NDArray[np.uint8], where: str) -> None:
    """Writes a logical array into a buffer's bytes, where the tensor's strides put its elements.

    Args:
        array: as :func:`checked_array` gives it.
        tensor: its description.
        buffer: at least the tensor's size in bytes.
        where: operator and member, for the message.

    Raises:
        InvalidArgumentError: when the strides put different values on one element.
    """
    view = logical_view(buffer, tensor)
    if not _may_overlap(tensor):
        view[...] = array
        return
    # Where only strides of 0 make elements coincide, the values are written once; then all is compared, bit by bit.
    first = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.element_strides)
    view[first] = array[first]
    bits = np.dtype(f"u{array.dtype.itemsize}")
    if not np.array_equal(np.ascontiguousarray(view).view(bits), np.ascontiguousarray(array).view(bits)):
        raise InvalidArgumentError(
            f"{where}: the array has different values where Strides {list(tensor.element_strides)} read one element"
        )


def _may_overlap(tensor: TensorDesc) -> bool:
    try:
        return elements_overlap(tensor.sizes, tensor.element_strides)
    except InvalidArgumentError:
        return True  # strides too contrived to tell; an input may overlap itself as long as its values agree
