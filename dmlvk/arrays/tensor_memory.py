"""A tensor in a device's memory: what runs read and write, and what ``dmlvk.Array`` has its elements in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.indexing import AxisPart, TensorSlice, axis_order, part_of, reshaped_sizes
from dmlvk.arrays.memory_pool import Storage
from dmlvk.arrays.tensor_bytes import elements_of
from dmlvk.datatypes import DataType, DataTypeLike, checked_data_type
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.integers import checked_integers
from dmlvk.tensors import MINIMUM_BUFFER_TENSOR_ALIGNMENT, TensorDesc, packed_strides, reshaped_strides

if TYPE_CHECKING:
    from dmlvk.device import Device


class TensorMemory:
    """A tensor in the device's memory, which views share."""

    def __init__(
        self, device: Device, storage: Storage, tensor: TensorDesc, offset: int = 0, *, is_whole: bool = True
    ) -> None:
        self.device = device  # whose memory it is in
        self.storage = storage  # the memory; freed, or kept for others, when nobody refers to it any more
        self.tensor = tensor  # data type, sizes and strides (in elements)
        self.offset = offset  # of its first element in its memory, in bytes
        self.is_whole = is_whole  # whether nothing else is in its memory

    @property
    def data_type(self) -> DataType:
        """DirectML's type of the elements."""
        return self.tensor.data_type

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        return self.tensor.data_type.numpy_dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes along each of 1 to 8 axes."""
        return tuple(self.tensor.sizes)

    @property
    def ndim(self) -> int:
        return len(self.tensor.sizes)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, of which two of a 4-bit type share one."""
        return self.data_type.bytes_of(self.size)

    @property
    def is_closed(self) -> bool:
        """Whether the memory was freed, by itself or with the device."""
        return self.storage.is_closed

    def __repr__(self) -> str:
        return f"<dmlvk.Array {self.data_type.name} {list(self.shape)} on {self.device.info.name}>"

    def wait(self) -> None:
        """Waits until the elements are computed; :meth:`numpy` does so itself.

        Raises:
            InvalidArgumentError: when the array was closed.
            DeviceRemovedError: when the device is lost or closed.
        """
        self.device.engine.wait_for(self.storage.allocation)

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements, in C order; waits for what computes them.

        Raises:
            InvalidArgumentError: when the array was closed.
            DeviceRemovedError: when the device is lost or closed.
        """

        def take(host_bytes: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
            return elements_of(host_bytes[self.offset :], self.tensor)

        return self.device.engine.read(self.storage.allocation, take)

    def __getitem__(self, key: Any) -> TensorMemory:
        """A part, by integers, slices, ``...`` and ``None``, as in NumPy; a copy where a slice goes backwards.

        Raises:
            InvalidArgumentError: when the part lies outside or is empty, or the index is of another kind.
        """
        part = part_of(self.shape, key, repr(self))
        whole = self
        if any(axis.step < 0 for axis in part.axes):
            whole, part = self.device.arrays.moved(self, part), _all_of(part)
        strides = [stride * axis.step for stride, axis in zip(whole.tensor.element_strides, part.axes, strict=True)]
        first = sum(axis.start * stride for axis, stride in zip(part.axes, whole.tensor.element_strides, strict=True))
        seen = [(1, 1) if axis is None else (part.axes[axis].count, strides[axis]) for axis in part.shown] or [(1, 1)]
        if first * self.data_type.size_in_bits % 8:
            raise InvalidArgumentError(
                f"{self!r}: a part must begin with a whole byte, which element {first} of the memory does not "
                f"where two of {self.data_type.name} share one"
            )
        offset = whole.offset + self.data_type.bytes_of(first)
        return whole._view([size for size, _ in seen], [stride for _, stride in seen], offset)

    def reshape(self, *sizes: int | Sequence[int]) -> TensorMemory:
        """The same elements in another shape, given as integers or as one sequence of them; one size may be -1.

        A view where strides can say it, else a copy.

        Raises:
            InvalidArgumentError: when the number of elements differs.
        """
        wanted = reshaped_sizes(self.shape, sizes, repr(self))
        strides = reshaped_strides(self.shape, self.tensor.element_strides, wanted)
        if strides is None:
            return self.device.arrays.moved(self)._view(wanted, packed_strides(wanted), 0)
        return self._view(wanted, strides, self.offset)

    def transpose(self, *axes: int | Sequence[int]) -> TensorMemory:
        """The axes in another order, given as integers or as one sequence of them; without any in the opposite one.

        Raises:
            InvalidArgumentError: when ``axes`` is no permutation.
        """
        order = axis_order(self.ndim, axes, repr(self))
        strides = self.tensor.element_strides
        return self._view([self.shape[axis] for axis in order], [strides[axis] for axis in order], self.offset)

    def _view(self, sizes: Sequence[int], strides: Sequence[int], offset: int) -> TensorMemory:
        if len(sizes) > 8:
            raise InvalidArgumentError(f"{self!r}: an array has at most 8 axes; got {list(sizes)}")
        given = None if tuple(strides) == packed_strides(sizes) else strides
        tensor = TensorDesc(self.data_type, sizes, given)
        is_whole = self.is_whole and tensor.element_count == self.size
        return TensorMemory(self.device, self.storage, tensor, offset, is_whole=is_whole)

    @property
    def is_packed(self) -> bool:
        """Whether a kernel can read it as packed where it is."""
        if self.tensor.strides is None and self.offset % MINIMUM_BUFFER_TENSOR_ALIGNMENT == 0:
            return True  # runs ask at each input
        return self.fits(TensorDesc(self.data_type, self.shape))

    def fits(self, tensor: TensorDesc) -> bool:
        """Whether a kernel that expects a tensor can read it where it is.

        Along axes that the tensor repeats by strides of 0 the array may have one element.
        """
        is_inside = (
            self.offset % tensor.binding_alignment == 0
            and self.offset + tensor.size_in_bytes <= self.storage.size_in_bytes
        )
        own = self.tensor
        if own.sizes == tensor.sizes and own.element_strides == tensor.element_strides:
            return is_inside
        axes = zip(own.sizes, own.element_strides, tensor.sizes, tensor.element_strides, strict=True)
        return is_inside and all(
            size == 1 or (length == size and step == stride) or (length == 1 and stride == 0)
            for length, step, size, stride in axes
        )


def _all_of(part: TensorSlice) -> TensorSlice:
    """What is left to be done when a part's elements were taken: its axes."""
    return TensorSlice(tuple(AxisPart(0, axis.count, 1) for axis in part.axes), part.shown)


def array_tensor(dtype: DataTypeLike, shape: int | Sequence[int], where: str) -> TensorDesc:
    """The description of a new array.

    Args:
        dtype: NumPy's or DirectML's type of the elements.
        shape: its sizes; of no dimension: (1,).

    Raises:
        InvalidArgumentError: when no tensor is like that.
    """
    given = shape if isinstance(shape, (Sequence, np.ndarray)) else [shape]
    sizes = checked_integers(given, f"{where}: shape", 1, 2**32 - 1) or [1]
    return TensorDesc(checked_data_type(dtype, f"{where}: dtype"), sizes)
