"""Buffers: memory on the device, in bytes."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.tensor_bytes import copied, copy_elements, plain_array
from dmlvk.errors import InvalidArgumentError
from dmlvk.objects.portable import refuse_pickling
from dmlvk.runtime.kompute import Allocation, Engine
from dmlvk.support.integers import checked_integer


class Buffer:
    """Memory on the device (a buffer resource). Made by ``Device.create_buffer``; as a rule zero at first.

    It is freed by :meth:`close`, at the end of a ``with`` block, with its device, or when nobody refers to it.

    Attributes:
        size_in_bytes: as asked for.
    """

    def __init__(self, engine: Engine, size_in_bytes: int, *, zeroed: bool = True) -> None:
        self.size_in_bytes = checked_integer(size_in_bytes, "Buffer: size_in_bytes", 1)
        self._engine = engine
        self._allocation = engine.allocate((self.size_in_bytes + 3) & ~3, zeroed=zeroed, owner=self)
        self._release = weakref.finalize(self, engine.release_later, self._allocation)

    def __repr__(self) -> str:
        return f"<dmlvk.Buffer of {self.size_in_bytes} bytes on {self._engine.info.name}>"

    def __reduce__(self) -> NoReturn:
        refuse_pickling("Buffer", "pickle its contents: buffer.download()")

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the memory. Closing twice is allowed; any other use afterwards raises."""
        if self._release.detach() is not None:
            self._engine.release(self._allocation)

    @property
    def is_closed(self) -> bool:
        """Whether the memory was freed, by :meth:`close` or with the device."""
        return not self._release.alive or self._engine.is_closed

    @property
    def engine(self) -> Engine:
        """The engine that it belongs to."""
        return self._engine

    @property
    def allocation(self) -> Allocation:
        """Its memory.

        Raises:
            InvalidArgumentError: when the buffer was closed.
            DeviceRemovedError: when its device was closed.
        """
        self.check_usable("Buffer: was closed")
        return self._allocation

    def check_usable(self, message: str) -> None:
        """Raises DeviceRemovedError when the device was closed, InvalidArgumentError(message) when the buffer was."""
        is_released = not self._release.alive  # before the device is asked, which another thread may be closing
        self._engine.check_open()
        if is_released:
            raise InvalidArgumentError(message)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise InvalidArgumentError(f"{self!r} is no array: its bytes have no data type; download(dtype) gives them one")

    def upload(self, array: npt.ArrayLike, offset: int = 0) -> None:
        """Writes an array's bytes, in C order, as they are.

        Args:
            array: any array of numbers, or ``bytes``; its data type is not converted. Python's own numbers have none,
                and neither have lists of them.
            offset: where to write, in bytes.

        Raises:
            InvalidArgumentError: when the bytes do not fit, or the array holds text or Python objects.
        """
        # NumPy takes bytes for a text, which ends before its last zeros.
        given = np.frombuffer(array, np.uint8) if isinstance(array, bytes) else array
        values = plain_array(given, "Buffer.upload")
        if values.dtype.hasobject or values.dtype.kind == "U" or values.dtype.itemsize == 0:
            raise InvalidArgumentError(f"Buffer.upload: an array of dtype {values.dtype} has no bytes to upload")
        if isinstance(array, (list, tuple, int, float, complex)) and not isinstance(array, np.generic):
            raise InvalidArgumentError(
                "Buffer.upload: Python's numbers have no data type to be written as: give an array, such as "
                f"numpy.array(values, numpy.float32); got a {type(array).__name__}"
            )
        self._checked_range("upload", offset, values.nbytes)
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self.write(lambda destination: copy_elements(destination, data), data.size, offset)

    def write(self, fill: Callable[[npt.NDArray[np.uint8]], None], size: int, offset: int) -> None:
        """Has bytes written by a function that is called with the memory for them. dmlvk's own."""
        start = self._checked_range("write", offset, size)

        def fill_part(host_bytes: npt.NDArray[np.uint8]) -> None:
            fill(host_bytes[start : start + size])

        self._engine.write(self.allocation, fill_part, keeps_contents=size < self.size_in_bytes)

    def stream(self, fill: Callable[[int, npt.NDArray[np.uint8]], None]) -> None:
        """Has all bytes written part by part; the function is told from which one on. dmlvk's own."""
        self._engine.stream(self.allocation, fill, self.size_in_bytes)

    def download(
        self, dtype: npt.DTypeLike = np.uint8, shape: int | Sequence[int] | None = None, offset: int = 0
    ) -> npt.NDArray[Any]:
        """A copy of the contents as an array.

        Args:
            dtype: data type of the array; the bytes are taken as they are.
            shape: shape of the array; ``None``: one dimension, with all whole elements from ``offset`` on.
            offset: where to begin, in bytes.

        Raises:
            InvalidArgumentError: when the array would reach beyond the buffer.
        """
        data_type = _element_type(dtype)
        start = self._checked_range("download", offset, 0)
        lengths = [(self.size_in_bytes - start) // data_type.itemsize] if shape is None else _lengths(shape)
        size = math.prod(lengths) * data_type.itemsize
        self._checked_range("download", start, size)
        contents = self._engine.read(self.allocation, lambda host_bytes: copied(host_bytes[start : start + size]))
        elements = contents.view(data_type)
        try:
            return elements.reshape(lengths)
        except (ValueError, OverflowError) as error:  # too many dimensions, or a huge one beside one of 0
            raise InvalidArgumentError(f"Buffer.download: no array has the shape {lengths}: {error}") from error

    def _checked_range(self, call: str, offset: int, size: int) -> int:
        start = checked_integer(offset, f"Buffer.{call}: offset", 0)
        if start + size > self.size_in_bytes:
            raise InvalidArgumentError(
                f"Buffer.{call}: bytes {start} to {start + size} lie beyond the buffer's {self.size_in_bytes} bytes"
            )
        return start


def _element_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    if dtype is None:
        raise InvalidArgumentError("Buffer.download: dtype must be a NumPy data type; got None")
    try:
        data_type = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise InvalidArgumentError(f"Buffer.download: unknown dtype {dtype!r}: {error}") from error
    if data_type.hasobject or data_type.kind == "U" or data_type.subdtype or data_type.itemsize == 0:
        raise InvalidArgumentError(f"Buffer.download: bytes cannot become an array of dtype {data_type}")
    return data_type


def _lengths(shape: object) -> list[int]:
    values = shape.tolist() if isinstance(shape, np.ndarray) else shape
    items = values if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    return [checked_integer(item, "Buffer.download: shape", 0) for item in items]
