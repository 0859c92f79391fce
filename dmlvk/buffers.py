"""Buffers: memory on the device, in bytes."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError
from dmlvk.runtime.kompute import Allocation, Engine


class Buffer:
    """Memory on the device (a buffer resource). Made by ``Device.create_buffer``; zero at first.

    It is freed by :meth:`close`, at the end of a ``with`` block, with its device, or when nobody refers to it.

    Attributes:
        size_in_bytes: as asked for.
    """

    def __init__(self, engine: Engine, size_in_bytes: int) -> None:
        self.size_in_bytes = checked_integer(size_in_bytes, "Buffer: size_in_bytes", 1)
        self._engine = engine
        self._allocation = engine.allocate((self.size_in_bytes + 3) & ~3)
        self._release = weakref.finalize(self, engine.release, self._allocation)

    def __repr__(self) -> str:
        return f"<dmlvk.Buffer of {self.size_in_bytes} bytes on {self._engine.info.name}>"

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the memory. Closing twice is allowed; any other use afterwards raises."""
        self._release()

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
        self._engine.check_open()
        if self.is_closed:
            raise InvalidArgumentError("Buffer: was closed")
        return self._allocation

    def upload(self, array: npt.ArrayLike, offset: int = 0) -> None:
        """Writes an array's bytes, in C order, as they are.

        Args:
            array: any array; its data type is not converted.
            offset: where to write, in bytes.

        Raises:
            InvalidArgumentError: when the bytes do not fit or the array holds Python objects.
        """
        values = np.asarray(array)
        if values.dtype.hasobject:
            raise InvalidArgumentError(f"Buffer.upload: an array of dtype {values.dtype} has no bytes to upload")
        start = self._checked_range("upload", offset, values.nbytes)
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        whole = data.size == self.size_in_bytes
        with self._engine.writing(self.allocation, keeps_contents=not whole) as host_bytes:
            host_bytes[start : start + data.size] = data

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
        data_type = np.dtype(dtype)
        if data_type.hasobject or data_type.itemsize == 0:
            raise InvalidArgumentError(f"Buffer.download: bytes cannot become an array of dtype {data_type}")
        start = self._checked_range("download", offset, 0)
        if shape is None:
            lengths = [(self.size_in_bytes - start) // data_type.itemsize]
        else:
            items = [shape] if isinstance(shape, SupportsIndex) else list(shape)
            lengths = [checked_integer(item, "Buffer.download: shape", 0) for item in items]
        size = math.prod(lengths) * data_type.itemsize
        self._checked_range("download", start, size)
        with self._engine.reading(self.allocation) as host_bytes:
            return host_bytes[start : start + size].copy().view(data_type).reshape(lengths)

    def _checked_range(self, call: str, offset: int, size: int) -> int:
        start = checked_integer(offset, f"Buffer.{call}: offset", 0)
        if start + size > self.size_in_bytes:
            raise InvalidArgumentError(
                f"Buffer.{call}: bytes {start} to {start + size} lie beyond the buffer's {self.size_in_bytes} bytes"
            )
        return start


def checked_integer(value: object, where: str, lowest: int) -> int:
    """``value`` as a Python int of at least ``lowest``.

    Raises:
        InvalidArgumentError: when it is no integer or too small.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InvalidArgumentError(f"{where} must be an integer; got {value!r}")
    number = operator.index(value)
    if number < lowest:
        raise InvalidArgumentError(f"{where} must be at least {lowest}; got {number}")
    return number
