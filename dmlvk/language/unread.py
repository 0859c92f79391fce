"""Numbers that stay in a file until they are wanted, in the order in which operators have them."""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dmlvk.support.mapped_files import DerivedContents, MappedFile, files_of
from dmlvk.support.shared_work import Helpers

Bytes = npt.NDArray[np.uint8]
Order = Callable[[Bytes], npt.NDArray[Any]]
"""From rows of a file's blocks, [rows, blocks, bytes], to rows of numbers, of any shape."""

_AT_ONCE = 2**20  # Bytes of a file that are read at once: what is between stays in a core's cache

_helpers = Helpers("dmlvk-unpack")
_WORKERS = os.cpu_count() or 1


class _Rows(NamedTuple):
    """Some rows of a file."""

    blocks: Bytes  # [rows, blocks, bytes], which lie in the file
    orders: tuple[Order, ...]  # whose results lie one behind the other in each row


class UnreadNumbers:
    """Rows of numbers, of one length. NumPy's functions take it for an array, which they then read.

    Attributes:
        shape: as an array's.
        dtype: likewise.
    """

    def __init__(self, parts: Sequence[_Rows], shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._parts, self.shape, self.dtype = parts, shape, np.dtype(dtype)

    @classmethod
    def of(cls, blocks: Bytes, order: Order, shape: tuple[int, ...], dtype: npt.DTypeLike) -> UnreadNumbers:
        """What is made of a file's blocks."""
        return cls([_Rows(blocks, (order,))], shape, dtype)

    @classmethod
    def joined(cls, several: Sequence[UnreadNumbers]) -> UnreadNumbers:
        """The rows of several, one behind the other."""
        rows = sum(each.shape[0] for each in several)
        return cls([part for each in several for part in each._parts], (rows, *several[0].shape[1:]), several[0].dtype)

    def beside(self, other: UnreadNumbers) -> UnreadNumbers:
        """In each row what another one made of the same blocks has behind these: [rows, elements]."""
        both = zip(self._parts, other._parts, strict=True)
        parts = [_Rows(first.blocks, (*first.orders, *second.orders)) for first, second in both]
        return UnreadNumbers(parts, (self.shape[0], self._length + other._length), self.dtype)

    def in_turn(self, other: UnreadNumbers) -> UnreadNumbers:
        """Behind each element that of another one made of the same blocks: [rows, elements]."""
        both = zip(self._parts, other._parts, strict=True)
        parts = [
            _Rows(first.blocks, (functools.partial(_in_turn, first.orders[0], second.orders[0]),))
            for first, second in both
        ]
        return UnreadNumbers(parts, (self.shape[0], 2 * self._length), self.dtype)

    def between(self, start: int, stop: int) -> UnreadNumbers:
        """Some rows."""
        pieces = self._pieces(start, stop, self.shape[0])
        return UnreadNumbers(pieces, (stop - start, *self.shape[1:]), self.dtype)

    def across(self, start: int, stop: int) -> UnreadNumbers:
        """Of each row those along the second axis that come of whole blocks."""
        each = self.shape[1] // self._parts[0].blocks.shape[1]
        parts = [part._replace(blocks=part.blocks[:, start // each : stop // each]) for part in self._parts]
        return UnreadNumbers(parts, (self.shape[0], stop - start, *self.shape[2:]), self.dtype)

    def astype(self, dtype: npt.DTypeLike) -> UnreadNumbers:
        """The same as numbers of another type."""
        parts = [
            _Rows(part.blocks, tuple(functools.partial(_converted, order, dtype) for order in part.orders))
            for part in self._parts
        ]
        return UnreadNumbers(parts, self.shape, dtype)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice) and key.step is None:
            return self.between(*key.indices(self.shape[0])[:2])
        return np.asarray(self)[key]

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = np.empty(self.shape, self.dtype)
        self._fill(0, array.reshape(-1).view(np.uint8))
        return array if dtype is None else array.astype(dtype)

    def addresses(self) -> npt.NDArray[Any]:
        """An array whose contents are read when they are wanted (:class:`DerivedContents`)."""
        files = [file for file in files_of(part.blocks for part in self._parts) if isinstance(file, MappedFile)]
        array = DerivedContents.array(files, self._fill, (self.nbytes,))
        return array.view(self.dtype).reshape(self.shape)

    @property
    def nbytes(self) -> int:
        """As an array's."""
        return self.shape[0] * self._width

    @property
    def _length(self) -> int:
        """Elements of a row."""
        return math.prod(self.shape[1:])

    @property
    def _width(self) -> int:
        """Bytes of a row."""
        return self._length * self.dtype.itemsize

    def _pieces(self, start: int, stop: int, most: int) -> Sequence[_Rows]:
        """Rows from one to another, in pieces of so many at most."""
        pieces, first = [], 0
        for part in self._parts:
            begin, end = max(start - first, 0), min(stop - first, len(part.blocks))
            pieces += [part._replace(blocks=part.blocks[at : min(at + most, end)]) for at in range(begin, end, most)]
            first += len(part.blocks)
        return pieces

    def _fill(self, begin: int, destination: Bytes) -> None:
        """Writes bytes from one on, with all cores."""
        start, before = divmod(begin, self._width)
        stop = -(-(begin + destination.size) // self._width)
        if before or stop * self._width - begin > destination.size:  # no whole rows
            rows = np.empty((stop - start) * self._width, np.uint8)
            self._fill(start * self._width, rows)
            destination[...] = rows[before : before + destination.size]
            return
        of_row = math.prod(self._parts[0].blocks.shape[1:])  # a line of a cache is read for a few bytes of it, too
        pieces = self._pieces(start, stop, max(1, _AT_ONCE // of_row))
        bounds = itertools.accumulate((len(piece.blocks) for piece in pieces), initial=0)
        lines = destination.reshape(-1, self._width)
        parts = [
            functools.partial(_write, piece, lines[first : first + len(piece.blocks)])
            for piece, first in zip(pieces, bounds, strict=False)
        ]
        _helpers.share(parts, _WORKERS)


def _write(piece: _Rows, rows: Bytes) -> None:
    first = 0
    for order in piece.orders:
        numbers = np.ascontiguousarray(order(piece.blocks)).reshape(len(rows), -1).view(np.uint8)
        rows[:, first : first + numbers.shape[1]] = numbers
        first += numbers.shape[1]


def _in_turn(first: Order, second: Order, blocks: Bytes) -> npt.NDArray[Any]:
    ones, others = (order(blocks).reshape(len(blocks), -1) for order in (first, second))
    pairs = np.empty((*ones.shape, 2), ones.dtype)
    pairs[..., 0], pairs[..., 1] = ones, others
    return pairs


def _converted(order: Order, dtype: npt.DTypeLike, blocks: Bytes) -> npt.NDArray[Any]:
    return order(blocks).astype(dtype)


def planes(data: Bytes, bits: int, group: int) -> Bytes:
    """Numbers of few bits in bytes, each behind the one before it.

    Args:
        data: [rows, blocks, bytes]: of so many bytes all lowest bits stand before the next ones, as ggml has them.
        group: how many bytes.

    Returns:
        [rows, bytes]: the first number in the lowest bits of a byte.
    """
    count = 8 // bits
    word, top = np.dtype(f"<u{count}"), 8 * count - 8
    words = np.ascontiguousarray(data).reshape(-1).view(word)
    mask = word.type(sum((2**bits - 1) << 8 * place for place in range(count)))
    # each byte's bits times a power of two of its own meet in the highest byte, where no two overlap
    factor = word.type(sum(1 << (top + (bits - 8) * place) for place in range(count)))
    out = np.empty((words.size * count // group, count, group // count), np.uint8)
    unit = np.dtype(f"V{group // count}")  # so that NumPy copies that many bytes at a time
    each, joined = np.empty_like(words), np.empty(words.size, np.uint8)
    for place in range(count):
        np.right_shift(words, word.type(bits * place), out=each)
        np.bitwise_and(each, mask, out=each)
        np.multiply(each, factor, out=each)
        np.right_shift(each, word.type(top), out=each)
        np.copyto(joined, each, casting="unsafe")
        out.view(unit)[:, place, 0] = joined.view(unit)
    return out.reshape(len(data), -1)
