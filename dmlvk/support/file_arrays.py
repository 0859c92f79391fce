"""Arrays whose elements stay in files, in an order of the file's, or are computed of them, when somebody reads them."""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from dmlvk.support.mapped_files import Array, Bytes, MappedFile, address_of, file_of, files_of
from dmlvk.support.shared_work import Helpers

Order = Callable[[Bytes], Array]
"""From rows of a file's blocks, [rows, blocks, bytes], to rows of numbers, of any shape."""

_AT_ONCE = 2**20  # Bytes of a file that are read at once: what is between stays in a core's cache

_helpers = Helpers("dmlvk-unpack")
_WORKERS = os.cpu_count() or 1

_addresses = itertools.count(2**62, 2**44)  # Which no memory has: of each array, and the elements behind it


class _Lines:
    """Rows that a function gives, in the place of a file's blocks."""

    def __init__(
        self, read: Callable[[int, int], Array], start: int, count: int, width: int, files: Sequence[MappedFile]
    ) -> None:
        self.read, self.start, self.shape, self.files = read, start, (count, width), files

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> _Lines:
        start, stop, _ = rows.indices(len(self))
        return _Lines(self.read, self.start + start, max(stop - start, 0), self.shape[1], self.files)

    @property
    def contents(self) -> Array:
        return self.read(self.start, self.start + len(self))


class _Rows(NamedTuple):
    """Some rows of a file."""

    blocks: Any  # [rows, blocks, bytes], which lie in the file, or _Lines
    orders: tuple[Order, ...]  # whose results lie one behind the other in each row


class FileArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Rows of numbers of one length, in C order. Whoever takes it for an array reads it.

    It says that it is a ``numpy.ndarray`` (``isinstance``), and has all that one has; but what its elements decide is
    read of the files each time. Parts of it are not read, and neither is its shape.

    Attributes:
        shape: as an array's, and so are others.
        address: a number for its first element; parts of it have those behind it, and no memory has any.
    """

    def __init__(
        self, parts: Sequence[_Rows], shape: tuple[int, ...], dtype: npt.DTypeLike, address: int | None = None
    ) -> None:
        self._parts, self.shape, self.dtype = parts, shape, np.dtype(dtype)
        self.ndim, self.size, self.itemsize = len(shape), math.prod(shape), self.dtype.itemsize
        self.nbytes = self.size * self.itemsize
        self.address = next(_addresses) if address is None else address
        self.base: None = None

    @classmethod
    def of(cls, blocks: Bytes, order: Order, shape: tuple[int, ...], dtype: npt.DTypeLike) -> FileArray:
        """What is made of a file's blocks."""
        return cls([_Rows(blocks, (order,))], shape, dtype)

    @classmethod
    def computed(
        cls,
        read: Callable[[int, int], Array],  # rows from one to another, as often as somebody wants them
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        files: Sequence[MappedFile] = (),  # those that it reads
        width: int = 0,  # bytes that are read for a row: the more, the fewer rows are wanted at once; 0: its own
    ) -> FileArray:
        """Rows that a function gives."""
        own = math.prod(shape[1:]) * np.dtype(dtype).itemsize
        return cls([_Rows(_Lines(read, 0, shape[0], width or own, files), (np.asarray,))], shape, dtype)

    @classmethod
    def joined(cls, several: Sequence[FileArray]) -> FileArray:
        """The rows of several, one behind the other."""
        rows = sum(each.shape[0] for each in several)
        return cls([part for each in several for part in each._parts], (rows, *several[0].shape[1:]), several[0].dtype)

    def beside(self, other: FileArray) -> FileArray:
        """In each row what another one made of the same blocks has behind these: [rows, elements]."""
        both = zip(self._parts, other._parts, strict=True)
        parts = [_Rows(first.blocks, (*first.orders, *second.orders)) for first, second in both]
        return FileArray(parts, (self.shape[0], self._length + other._length), self.dtype)

    def in_pairs(self, other: FileArray, change: Callable[[Array, Array], Array]) -> FileArray:
        """What a function makes of some rows of this and of another one made of the same blocks: [rows, 2 x elements].

        Args:
            change: from two arrays [rows, elements].
        """
        both = zip(self._parts, other._parts, strict=True)
        parts = [
            _Rows(first.blocks, (functools.partial(_of_both, change, first.orders[0], second.orders[0]),))
            for first, second in both
        ]
        return FileArray(parts, (self.shape[0], 2 * self._length), self.dtype)

    def chosen(self, rows: Array) -> FileArray:
        """The rows of these numbers, in turn."""
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        return FileArray.joined([self[int(run[0]) : int(run[-1]) + 1] for run in runs])

    def across(self, start: int, stop: int) -> FileArray:
        """Of each row those along the second axis, of blocks that come of whole ones."""
        if any(isinstance(part.blocks, _Lines) for part in self._parts):
            shape = self.shape[0], stop - start, *self.shape[2:]
            return self.then(lambda rows: rows.reshape(-1, *self.shape[1:])[:, start:stop], shape)
        count = self._parts[0].blocks.shape[1]
        first, last = (place * count // self.shape[1] for place in (start, stop))
        parts = [part._replace(blocks=part.blocks[:, first:last]) for part in self._parts]
        return FileArray(parts, (self.shape[0], stop - start, *self.shape[2:]), self.dtype)

    def then(
        self,
        change: Callable[[Array], Array],  # of some rows, of any shape
        shape: tuple[int, ...] | None = None,  # of all that it gives; ``None``: as before, and so is the type
        dtype: npt.DTypeLike = None,
    ) -> FileArray:
        """What a function makes of the rows, some at a time."""
        parts = [
            _Rows(part.blocks, tuple(functools.partial(_changed, order, change) for order in part.orders))
            for part in self._parts
        ]
        return FileArray(parts, shape or self.shape, self.dtype if dtype is None else dtype)

    def astype(self, dtype: npt.DTypeLike) -> FileArray:
        """The same as numbers of another type."""
        return self.then(lambda numbers: numbers.astype(dtype), self.shape, dtype)

    @property
    def files(self) -> list[MappedFile]:
        """Those that it is read of."""
        made = [file for part in self._parts if isinstance(part.blocks, _Lines) for file in part.blocks.files]
        return list(dict.fromkeys([*made, *files_of(part.blocks for part in self._parts)]))

    # What arrays have.

    @property  # type: ignore[misc]  # as proxies do it, so that whoever asks for an array takes this for one
    def __class__(self) -> type:
        return np.ndarray

    @property
    def flags(self) -> Any:
        return np.empty(0).flags

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shape[axis + 1 :]) * self.itemsize for axis in range(self.ndim))

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, *shape: Any) -> Any:
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if sizes[:1] != self.shape[:1] or -1 in sizes or math.prod(sizes) != self.size:
            return np.asarray(self).reshape(sizes)
        return FileArray(self._parts, sizes, self.dtype, self.address)

    def __getitem__(self, key: Any) -> Any:
        key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        if not isinstance(key, slice) or key.step is not None:
            return np.asarray(self)[key]
        start, stop, _ = key.indices(self.shape[0])
        parts, shape = self._pieces(start, stop, self.shape[0]), (max(stop - start, 0), *self.shape[1:])
        return FileArray(parts, shape, self.dtype, self.address + start * self._width)

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> Array:
        array = np.empty(self.shape, self.dtype)
        fill([(self, 0, array.reshape(-1).view(np.uint8))])
        return array if dtype is None else array.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **members: Any) -> Any:
        if any(is_of_files(each) for each in members.get("out") or ()):
            raise ValueError("output array is read-only: its elements stay in files")
        read = {name: np.asarray(each) if is_of_files(each) else each for name, each in members.items()}
        return getattr(ufunc, method)(*(np.asarray(each) for each in inputs), **read)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy looks for other protocols before ``__array__``
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()

    # How it is read.

    @property
    def _length(self) -> int:
        """Elements of a row."""
        return math.prod(self.shape[1:])

    @property
    def _width(self) -> int:
        """Bytes of a row."""
        return self._length * self.itemsize

    def _pieces(self, start: int, stop: int, most: int) -> list[_Rows]:
        """Rows from one to another, in pieces of so many at most."""
        pieces, first = [], 0
        for part in self._parts:
            begin, end = max(start - first, 0), min(stop - first, len(part.blocks))
            pieces += [part._replace(blocks=part.blocks[at : min(at + most, end)]) for at in range(begin, end, most)]
            first += len(part.blocks)
        return pieces

    def _written(self, begin: int, destination: Bytes) -> Iterator[tuple[_Rows, Bytes]]:
        """Pieces with the bytes that each writes, from one of the array's bytes on."""
        start, before = divmod(begin, self._width)
        count = destination.size // self._width
        if before or not count:  # a part of a row, and those behind it
            row, part = np.empty(self._width, np.uint8), min(self._width - before, destination.size)
            fill([(self, start * self._width, row)])
            destination[:part], rest = row[before : before + part], destination[part:]
        else:
            of_row = math.prod(self._parts[0].blocks.shape[1:])  # a line of a cache is read for a few bytes of it, too
            first, part = 0, count * self._width
            lines, rest = destination[:part].reshape(count, -1), destination[part:]
            for piece in self._pieces(start, start + count, max(1, _AT_ONCE // of_row)):
                yield piece, lines[first : first + len(piece.blocks)]
                first += len(piece.blocks)
        if rest.size:
            yield from self._written(begin + part, rest)


def is_of_files(array: Any) -> TypeGuard[Any]:
    """Whether it is an array whose elements stay in files."""
    return type(array) is FileArray


def fill(several: Sequence[tuple[Any, int, Bytes]]) -> None:
    """Writes bytes of arrays, from one of each on, with all cores. What is made of the same blocks is read once.

    Args:
        several: :class:`FileArray`, or contiguous arrays.

    Raises:
        ChangedFileError: a file ends before them.
    """
    wanted: dict[tuple[object, ...], list[tuple[_Rows, Bytes]]] = {}
    parts: list[Callable[[], object]] = []
    for array, begin, destination in several:
        if is_of_files(array) and destination.size:
            for piece, lines in array._written(begin, destination):
                key = _place_of(piece.blocks)
                wanted.setdefault(key, []).append((piece, lines))
            continue
        for at in range(0, destination.size, _AT_ONCE):
            parts.append(functools.partial(_copy, array, begin + at, destination[at : at + _AT_ONCE]))
    _helpers.share([*parts, *(functools.partial(_write, each) for each in wanted.values())], _WORKERS)


def _copy(array: Array, begin: int, destination: Bytes) -> None:
    file = file_of(array)
    if file is None:
        destination[...] = array.reshape(-1).view(np.uint8)[begin : begin + destination.size]
    else:
        file.read_into(array, destination, begin)


def _write(wanted: Sequence[tuple[_Rows, Bytes]]) -> None:
    """Writes what is made of the same blocks."""
    contents = contents_of(wanted[0][0].blocks)
    for piece, lines in wanted:
        first = 0
        for order in piece.orders:
            numbers = np.ascontiguousarray(order(contents)).reshape(len(lines), -1).view(np.uint8)
            lines[:, first : first + numbers.shape[1]] = numbers
            first += numbers.shape[1]


def _place_of(blocks: Any) -> tuple[object, ...]:
    """What blocks of the same contents have in common."""
    if isinstance(blocks, _Lines):
        return blocks.read, blocks.start, len(blocks)
    return address_of(blocks), blocks.shape, blocks.strides


def contents_of(blocks: Any) -> Array:
    """What a view of a file shows, in memory of its own; other arrays as they are."""
    if isinstance(blocks, _Lines):
        return blocks.contents
    file = file_of(blocks)
    return blocks if file is None else file.copy(blocks)


def _of_both(change: Callable[[Array, Array], Array], first: Order, second: Order, blocks: Bytes) -> Array:
    return change(*(order(blocks).reshape(len(blocks), -1) for order in (first, second)))


def _changed(order: Order, change: Callable[[Array], Array], blocks: Bytes) -> Array:
    return change(order(blocks))
