"""Arrays that stay on the device: ``dmlvk.Array``."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.array_operators import ArrayOperators
from dmlvk.arrays.indexing import AxisPart, TensorSlice, axis_order, part_of, reshaped_sizes
from dmlvk.arrays.memory_pool import Storage
from dmlvk.arrays.tensor_bytes import elements_of
from dmlvk.datatypes import DataType, DataTypeLike, checked_data_type
from dmlvk.errors import CopyError, InvalidArgumentError
from dmlvk.objects.portable import refuse_pickling
from dmlvk.support.integers import checked_integers
from dmlvk.tensors import TensorDesc, packed_strides, reshaped_strides

if TYPE_CHECKING:
    from dmlvk.device import Device


class Array(ArrayOperators):
    """An array in the device's memory. Made by ``Device.array``, ``Device.empty`` and ``Device.run(…, keep=True)``.

    ``Device.run`` reads it where it is. ``numpy.asarray(array)`` and :meth:`numpy` copy it to the host. Slices,
    ``reshape``, ``transpose`` and ``T`` are views of the same memory where strides of 0 and more can say them, else
    copies on the device. Python's operators compute on the device what they mean for expressions of a graph; the other
    operand may be a number or a NumPy array, too. The memory is freed, or kept for the next array, when nobody refers
    to the array and its views any more; :meth:`close` and the end of a ``with`` block free it at once, and so does
    closing the device.

    Attributes:
        device: whose memory it is in.
        tensor: data type, sizes and strides (in elements).
        offset: of its first element in its memory, in bytes.
        is_whole: whether nothing else is in its memory.
        is_truth: whether the elements are 0 and 1 of a comparison, which ``~ & | ^`` combine as such.
        namespace: the array API's module of a version: told by the package, for that module stands above arrays.
    """

    __array_priority__ = 1000  # NumPy's arrays and numbers on the left leave the operator to this class
    __hash__ = object.__hash__

    namespace: ClassVar[Callable[[str | None], types.ModuleType]]

    def __init__(
        self, device: Device, storage: Storage, tensor: TensorDesc, offset: int = 0, *, is_whole: bool = True
    ) -> None:
        self.device = device
        self.is_whole = is_whole
        self.is_truth = False
        self.tensor = tensor
        self.offset = offset
        self._storage = storage

    def __reduce__(self) -> NoReturn:
        refuse_pickling("Array", "pickle its values: array.numpy()")

    @property
    def data_type(self) -> DataType:
        """DirectML's type of the elements."""
        return self.tensor.data_type

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]  # only read here
        """NumPy's type of the elements."""
        return self.tensor.data_type.numpy_dtype

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]  # only read here
        """The sizes along each of 1 to 8 axes."""
        return tuple(self.tensor.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, of which two of a 4-bit type share one."""
        return self.data_type.bytes_of(self.size)

    @property
    def T(self) -> Array:
        """The axes in the opposite order, as a view."""
        return self.transpose()

    @property
    def storage(self) -> Storage:
        """The memory, which views share."""
        return self._storage

    @property
    def is_closed(self) -> bool:
        """Whether the memory was freed, by :meth:`close` or with the device."""
        return self._storage.is_closed

    def close(self) -> None:
        """Frees the memory, also that of views. Closing twice is allowed; any other use afterwards raises."""
        self._storage.close()

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<dmlvk.Array {self.data_type.name} {list(self.shape)} on {self.device.info.name}>"

    def _operated(self, name: str, *other: Any, swapped: bool = False) -> Array:
        return self.device.arrays.operated(name, self, (*other, self) if swapped else (self, *other))

    def _text(self) -> str:
        return repr(self)

    def __dlpack__(self, **asked: Any) -> Any:
        """For other libraries, as the array API standard has it: a copy in main memory.

        Raises:
            CopyError: without a copy, by a stream, for another device, or of elements that DLPack does not have.
        """
        if self.data_type.size_in_bits < 8:
            raise CopyError(f"{self!r}: DLPack has no elements of {self.data_type.name}")
        return super().__dlpack__(**asked)

    def __pos__(self) -> Array:
        return self.device.array(self)  # a copy, as of NumPy's arrays

    def wait(self) -> None:
        """Waits until the elements are computed; :meth:`numpy` does so itself.

        Raises:
            InvalidArgumentError: when the array was closed.
            DeviceRemovedError: when the device is lost or closed.
        """
        self.device.engine.wait_for(self._storage.allocation)

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements, in C order; waits for what computes them.

        Raises:
            InvalidArgumentError: when the array was closed.
            DeviceRemovedError: when the device is lost or closed.
        """

        def take(host_bytes: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
            return elements_of(host_bytes[self.offset :], self.tensor)

        return self.device.engine.read(self._storage.allocation, take)

    def __array_namespace__(self, *, api_version: str | None = None) -> types.ModuleType:
        """:mod:`dmlvk.array_api`, whose functions take this array where it lies.

        Raises:
            InvalidArgumentError: another version than 2024.12 or one before it is asked for.
        """
        return type(self).namespace(api_version)

    def __getitem__(self, key: Any) -> Array:
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

    def reshape(self, *sizes: int | Sequence[int]) -> Array:
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

    def transpose(self, *axes: int | Sequence[int]) -> Array:
        """The axes in another order, given as integers or as one sequence of them; without any in the opposite one.

        Raises:
            InvalidArgumentError: when ``axes`` is no permutation.
        """
        order = axis_order(self.ndim, axes, repr(self))
        strides = self.tensor.element_strides
        return self._view([self.shape[axis] for axis in order], [strides[axis] for axis in order], self.offset)

    def _view(self, sizes: Sequence[int], strides: Sequence[int], offset: int) -> Array:
        if len(sizes) > 8:
            raise InvalidArgumentError(f"{self!r}: an array has at most 8 axes; got {list(sizes)}")
        given = None if tuple(strides) == packed_strides(sizes) else strides
        tensor = TensorDesc(self.data_type, sizes, given)
        is_whole = self.is_whole and tensor.element_count == self.size
        view = Array(self.device, self._storage, tensor, offset, is_whole=is_whole)
        view.is_truth = self.is_truth
        return view

    def fits(self, tensor: TensorDesc) -> bool:
        """Whether a kernel that expects a tensor can read it where it is.

        Along axes that the tensor repeats by strides of 0 the array may have one element.
        """
        axes = zip(self.shape, self.tensor.element_strides, tensor.sizes, tensor.element_strides, strict=True)
        return (
            self.offset % tensor.binding_alignment == 0
            and self.offset + tensor.size_in_bytes <= self._storage.allocation.size_in_bytes
            and all(
                size == 1 or (length == size and own == stride) or (length == 1 and stride == 0)
                for length, own, size, stride in axes
            )
        )


def _all_of(part: TensorSlice) -> TensorSlice:
    """What is left to be done when a part's elements were taken: its axes."""
    return TensorSlice(tuple(AxisPart(0, axis.count, 1) for axis in part.axes), part.shown)


def array_tensor(dtype: DataTypeLike, shape: int | Sequence[int], where: str) -> TensorDesc:
    """The description of a new array.

    Args:
        dtype: NumPy's or DirectML's type of the elements.
        shape: its sizes; of no dimension: (1,).
        where: the call, for messages.

    Raises:
        InvalidArgumentError: when no tensor is like that.
    """
    given = shape if isinstance(shape, (Sequence, np.ndarray)) else [shape]
    sizes = checked_integers(given, f"{where}: shape", 1, 2**32 - 1) or [1]
    return TensorDesc(checked_data_type(dtype, f"{where}: dtype"), sizes)
