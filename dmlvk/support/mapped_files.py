"""Contents of files that stay there until they are needed."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dmlvk.errors import ModelFileError
from dmlvk.support.files import open_regular

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_SPARSE = 4  # Bytes from the first to the last, by those that are wanted, from which lines are read one by one

_DROP = getattr(mmap, "MADV_DONTNEED", None)
"""Drops pages of a mapping; those of a file are read again where they are needed. Windows has no such advice."""


class ChangedFileError(ModelFileError):
    """A file that a model was loaded from has other contents now, and they are needed."""


class MappedFile(mmap.mmap):
    """A regular file in memory, read only.

    Attributes:
        path: where it lay.
        length: its bytes when it was mapped.
    """

    path: Path
    length: int
    _file: BinaryIO
    _address: int
    _written: int

    @classmethod
    def opened(cls, path: Path) -> MappedFile:
        """Maps a file that is not empty.

        Raises:
            OSError, ValueError: when it cannot be opened, is empty or no regular file.
        """
        file = open_regular(path)
        status = os.fstat(file.fileno())
        made = cls(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
        made.path, made._file, made.length, made._written = path, file, status.st_size, status.st_mtime_ns
        made._address = address_of(np.frombuffer(made, np.uint8))
        return made

    def array(self, data_type: npt.DTypeLike, offset: int, shape: tuple[int, ...]) -> Array:
        """What lies at a byte of the file, which need not be aligned: a view."""
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self, data_type, count, offset).reshape(shape)

    def read_into(self, array: Array, destination: Bytes, begin: int = 0) -> None:
        """Copies what lies in this file where an array of it begins, or some bytes behind; touches no page in memory.

        Whoever touches one behind the end of a file that was cut ends the process (SIGBUS).

        Raises:
            ChangedFileError: the file ends before them.
        """
        self._read_at(address_of(array) - self._address + begin, destination)

    def _read_at(self, place: int, destination: Bytes) -> None:
        done = 0
        if not hasattr(os, "preadv"):  # Windows, which cuts no file that is mapped
            np.copyto(destination, self.array(np.uint8, place, destination.shape))
            return
        while done < destination.size:
            count = os.preadv(self._file.fileno(), [destination[done:].data], place + done)
            if count == 0:
                raise _changed(self)
            done += count

    def copy(self, array: Array) -> Array:
        """The same elements as a view of this file has, in memory of their own, in the order of their addresses."""
        steps = list(array.strides)
        last = sum((size - 1) * step for size, step in zip(array.shape, steps, strict=True)) + array.itemsize
        count, axis = 1, int(np.argmax(steps)) if steps else 0
        if last > _SPARSE * array.nbytes:  # columns of a matrix, say: what is between is not read
            count, length = array.shape[axis], last - (array.shape[axis] - 1) * steps[axis]
            step, steps[axis], last = steps[axis], length, length
        else:
            step = last
        contents, place = np.empty((count, last), np.uint8), address_of(array) - self._address
        for number, line in enumerate(contents):
            self._read_at(place + number * step, line)
        return np.ndarray(array.shape, array.dtype, contents.data, 0, steps)

    @property
    def is_as_it_was(self) -> bool:
        """Whether nobody has written to the file since. A file in its place, as renaming puts it, is another one."""
        status = os.fstat(self._file.fileno())
        return (status.st_size, status.st_mtime_ns) == (self.length, self._written)

    def release(self) -> None:
        """Gives back the memory of all pages that were read. They can be read again."""
        if _DROP is not None:
            self.madvise(_DROP)


class MemoryContents:
    """A file's contents that a program holds as bytes, read as a mapped file is: arrays are views of them.

    Args:
        contents: the bytes, which live as long as a view does.
    """

    path = Path("the bytes that were given")

    def __init__(self, contents: bytes) -> None:
        self._contents = contents
        self.length = len(contents)

    def __getitem__(self, part: slice) -> bytes:
        return self._contents[part]

    def array(self, data_type: npt.DTypeLike, offset: int, shape: tuple[int, ...]) -> Array:
        """What lies at a byte, which need not be aligned: a view that cannot be written to."""
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._contents, data_type, count, offset).reshape(shape)


def file_of(array: Array) -> MappedFile | None:
    """The file whose contents an array shows; ``None``: it lies in memory of its own."""
    base: Any = array
    while base is not None and not isinstance(base, MappedFile):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base


def files_of(arrays: Iterable[Any]) -> list[MappedFile]:
    """The files that arrays show, or are read from, each once; other values than arrays have none."""
    shown = [array for array in arrays if isinstance(array, np.ndarray)]
    several = [file for array in shown for file in getattr(array, "files", [file_of(array)])]
    return list({id(file): file for file in several if file is not None}.values())


def check_unchanged(arrays: Iterable[Any]) -> None:
    """Refuses to read arrays whose file was written to since it was mapped: they are others now.

    Raises:
        ChangedFileError: naming the file.
    """
    for file in files_of(arrays):
        if not file.is_as_it_was:
            raise _changed(file)


def _changed(file: MappedFile) -> ChangedFileError:
    return ChangedFileError(
        f"{file.path}: was written to after the model was loaded, and weights that are needed now lay in it; "
        "load the model anew, and put new files in an old one's place by renaming them"
    )


def address_of(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
