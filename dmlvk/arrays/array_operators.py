"""Python's operators and conversions of arrays on a device, as calls of functions by the array API standard's names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import CopyError, DataTypeError

if TYPE_CHECKING:  # nothing of it is imported when running
    from typing_extensions import Self

_DLPACK_CPU = 1
"""DLPack's number of main memory (kDLCPU)."""


class ArrayOperators:
    """What Python, NumPy and DLPack ask of an array, by a few methods of the class that inherits it.

    Attributes:
        dtype: NumPy's type of the elements.
        shape: the sizes along the axes.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def _operated(self, name: str, *other: Any, swapped: bool = False) -> Self:
        """A function of the standard of the array, and of the other operand, which comes first if they are swapped."""
        raise NotImplementedError

    def _text(self) -> str:
        """The array in messages."""
        raise NotImplementedError

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements in main memory."""
        raise NotImplementedError

    def __getitem__(self, key: Any, /) -> Self:
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """For NumPy: :meth:`numpy`, converted where another type is asked for."""
        if copy is False:
            raise CopyError(f"{self._text()} cannot become a NumPy array without a copy: it is in the device's memory")
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Main memory: other libraries cannot reach what a Vulkan device has, and get a copy."""
        return (_DLPACK_CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """For other libraries, as the array API standard has it: a copy in main memory.

        Raises:
            CopyError: without a copy, by a stream, or for another device it is not to be had.
        """
        if copy is False:
            raise CopyError(f"{self._text()} is in the device's memory: other libraries get a copy")
        if stream is not None:
            raise CopyError(f"{self._text()}: main memory has no streams; got stream={stream!r}")
        if dl_device not in (None, self.__dlpack_device__(), [*self.__dlpack_device__()]):
            raise CopyError(f"{self._text()} can be copied to main memory (1, 0); got dl_device={dl_device!r}")
        array: Any = self.numpy()
        try:
            return array.__dlpack__(max_version=max_version)
        except TypeError:  # a NumPy before 2.1
            return array.__dlpack__()

    def item(self) -> Any:
        """The only element as a number of Python; waits for what computes it.

        Raises:
            DataTypeError: there are more, or none.
        """
        return self._number("is no number")

    def tolist(self) -> Any:
        """The elements in nested lists."""
        return self.numpy().tolist()

    def _number(self, what: str) -> Any:
        if self.size != 1:
            raise DataTypeError(f"{self._text()} {what}: it has {self.size} elements; numpy() gives them")
        return self.numpy().item()

    def __bool__(self) -> bool:
        return bool(self._number("has no truth value"))

    def __float__(self) -> float:
        return float(self._number("is no number"))

    def __int__(self) -> int:
        return int(self._number("is no number"))

    def __complex__(self) -> complex:
        return complex(self._number("is no number"))

    def __len__(self) -> int:
        if not self.shape:
            raise DataTypeError(f"{self._text()} has no length: it has no axis")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise DataTypeError(f"{self._text()} cannot be iterated over: it has no axis")
        return (self[number] for number in range(self.shape[0]))

    def __divmod__(self, other: Any, /) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: Any, /) -> tuple[Self, Self]:
        return other // self, other % self

    def __neg__(self) -> Self:
        return self._operated("negative")

    def __abs__(self) -> Self:
        return self._operated("abs")

    def __invert__(self) -> Self:
        return self._operated("bitwise_invert")

    def __lt__(self, other: Any, /) -> Self:
        return self._operated("less", other)

    def __le__(self, other: Any, /) -> Self:
        return self._operated("less_equal", other)

    def __gt__(self, other: Any, /) -> Self:
        return self._operated("greater", other)

    def __ge__(self, other: Any, /) -> Self:
        return self._operated("greater_equal", other)

    def __eq__(self, other: Any, /) -> Self:  # type: ignore[override]  # an array, as in NumPy
        return self._operated("equal", other)

    def __ne__(self, other: Any, /) -> Self:  # type: ignore[override]  # an array, as in NumPy
        return self._operated("not_equal", other)

    def __add__(self, other: Any, /) -> Self:
        return self._operated("add", other)

    def __radd__(self, other: Any, /) -> Self:
        return self._operated("add", other, swapped=True)

    def __sub__(self, other: Any, /) -> Self:
        return self._operated("subtract", other)

    def __rsub__(self, other: Any, /) -> Self:
        return self._operated("subtract", other, swapped=True)

    def __mul__(self, other: Any, /) -> Self:
        return self._operated("multiply", other)

    def __rmul__(self, other: Any, /) -> Self:
        return self._operated("multiply", other, swapped=True)

    def __truediv__(self, other: Any, /) -> Self:
        return self._operated("divide", other)

    def __rtruediv__(self, other: Any, /) -> Self:
        return self._operated("divide", other, swapped=True)

    def __floordiv__(self, other: Any, /) -> Self:
        return self._operated("floor_divide", other)

    def __rfloordiv__(self, other: Any, /) -> Self:
        return self._operated("floor_divide", other, swapped=True)

    def __mod__(self, other: Any, /) -> Self:
        return self._operated("remainder", other)

    def __rmod__(self, other: Any, /) -> Self:
        return self._operated("remainder", other, swapped=True)

    def __pow__(self, other: Any, /) -> Self:
        return self._operated("pow", other)

    def __rpow__(self, other: Any, /) -> Self:
        return self._operated("pow", other, swapped=True)

    def __matmul__(self, other: Any, /) -> Self:
        return self._operated("matmul", other)

    def __rmatmul__(self, other: Any, /) -> Self:
        return self._operated("matmul", other, swapped=True)

    def __and__(self, other: Any, /) -> Self:
        return self._operated("bitwise_and", other)

    def __rand__(self, other: Any, /) -> Self:
        return self._operated("bitwise_and", other, swapped=True)

    def __or__(self, other: Any, /) -> Self:
        return self._operated("bitwise_or", other)

    def __ror__(self, other: Any, /) -> Self:
        return self._operated("bitwise_or", other, swapped=True)

    def __xor__(self, other: Any, /) -> Self:
        return self._operated("bitwise_xor", other)

    def __rxor__(self, other: Any, /) -> Self:
        return self._operated("bitwise_xor", other, swapped=True)

    def __lshift__(self, other: Any, /) -> Self:
        return self._operated("bitwise_left_shift", other)

    def __rlshift__(self, other: Any, /) -> Self:
        return self._operated("bitwise_left_shift", other, swapped=True)

    def __rshift__(self, other: Any, /) -> Self:
        return self._operated("bitwise_right_shift", other)

    def __rrshift__(self, other: Any, /) -> Self:
        return self._operated("bitwise_right_shift", other, swapped=True)
