"""Contents of files that stay there until they are needed, and whose pages are given back afterwards."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dmlvk.errors import ModelFileError
from dmlvk.support.files import open_regular

Array = npt.NDArray[Any]

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
        made._address = _address(np.frombuffer(made, np.uint8))
        return made

    def array(self, data_type: npt.DTypeLike, offset: int, shape: tuple[int, ...]) -> Array:
        """What lies at a byte of the file, which need not be aligned: a view."""
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self, data_type, count, offset).reshape(shape)

    @property
    def is_as_it_was(self) -> bool:
        """Whether nobody has written to the file since. A file in its place, as renaming puts it, is another one."""
        status = os.fstat(self._file.fileno())
        return (status.st_size, status.st_mtime_ns) == (self.length, self._written)

    def release(self, array: Array | None = None) -> None:
        """Gives back the memory of the pages that a contiguous array of this file lies in, or of all its pages.

        They can be read again.
        """
        if _DROP is None:
            return
        begin, size = (0, self.length) if array is None else (_address(array) - self._address, array.nbytes)
        first = begin // mmap.PAGESIZE * mmap.PAGESIZE
        self.madvise(_DROP, first, begin + size - first)


Fill = Callable[[int, npt.NDArray[np.uint8]], None]
"""Writes contents, from one of their bytes on, to memory that they are wanted in."""


class DerivedContents(mmap.mmap):
    """Addresses of an array whose contents follow from files', and are computed where and when they are needed.

    Nothing lies there: :func:`contents_of` makes an array with contents.
    """

    _files: Sequence[MappedFile]
    _fill: Fill
    _address: int

    @classmethod
    def array(cls, files: Sequence[MappedFile], fill: Fill, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """An array of bytes whose contents are computed of files."""
        size = int(np.prod(shape, dtype=np.int64))
        if os.name == "nt":
            mapping = cls(-1, size, access=mmap.ACCESS_READ)
        else:
            mapping = cls(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
        mapping._files, mapping._fill = files, fill
        flat = np.frombuffer(mapping, np.uint8)
        mapping._address = _address(flat)
        return flat.reshape(shape)

    @property
    def path(self) -> Path:
        """The file that was written to, or else the first one."""
        return next((file.path for file in self._files if not file.is_as_it_was), self._files[0].path)

    @property
    def is_as_it_was(self) -> bool:
        """Whether nobody has written to the files since."""
        return all(file.is_as_it_was for file in self._files)

    def release(self, array: Array | None = None) -> None:
        """Gives back the memory of the files' pages."""
        for file in self._files:
            file.release()

    def fill(self, array: Array, destination: npt.NDArray[np.uint8]) -> None:
        """Writes what a contiguous array of these addresses has."""
        self._fill(_address(array) - self._address, destination)

    def contents(self, array: Array) -> Array:
        """What any view of these addresses has, in memory of its own."""
        if array.flags.c_contiguous:
            flat = np.empty(array.nbytes, np.uint8)
            self.fill(array, flat)
            return flat.view(array.dtype).reshape(array.shape)
        whole = self.contents(np.frombuffer(self, np.uint8))
        return np.ndarray(array.shape, array.dtype, whole.data, _address(array) - self._address, array.strides)


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


def file_of(array: Array) -> MappedFile | DerivedContents | None:
    """The file whose contents an array shows, or that they follow from; ``None``: it lies in memory of its own."""
    base: Any = array
    while base is not None and not isinstance(base, (MappedFile, DerivedContents)):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base


def contents_of(array: Array) -> Array:
    """An array that can be read: the same, but for one whose contents are computed when they are needed."""
    file = file_of(array)
    return file.contents(array) if isinstance(file, DerivedContents) else array


def files_of(arrays: Iterable[Any]) -> list[MappedFile | DerivedContents]:
    """The files that arrays show, each once; other values than arrays have none."""
    found = {id(file): file for array in arrays if isinstance(array, np.ndarray) and (file := file_of(array))}
    return list(found.values())


def check_unchanged(arrays: Iterable[Any]) -> None:
    """Refuses to read arrays whose file was written to since it was mapped: they are others now.

    Raises:
        ChangedFileError: naming the file.
    """
    for file in files_of(arrays):
        if not file.is_as_it_was:
            raise ChangedFileError(
                f"{file.path}: was written to after the model was loaded, and weights that are needed now lay in it; "
                "load the model anew, and put new files in an old one's place by renaming them"
            )


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
