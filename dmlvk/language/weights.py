"""Weights as files have them: packed numbers with their blocks' scales and minima, or plain numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.operators.block_weights import LOW_BITS
from dmlvk.support.file_arrays import FileArray, is_of_files

Numbers = npt.NDArray[Any]

TABLES: Mapping[int, Numbers] = {
    0: np.arange(256, dtype=np.uint8),
    1: np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]).astype(np.uint8) ^ np.uint8(128),
    2: np.array([1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241], np.uint8),
}
"""What numbers stand for: themselves; with 128 added, twice those of E2M1 (OCP Microscaling, 5.3.3), or ggml's."""


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A matrix of numbers of 2 to 6 or 8 bits, or of FLOAT32.

    A weight is ``(number - zero) x scale``, less the block's minimum where there are any. With factors, a block's scale
    is its factor times the scale of a larger block.
    """

    bits: int  # of a number; 32: they are the weights
    # UINT8 [rows, blocks of a row, bytes of a block], the first number in the lowest bits; or FLOAT32 [rows, columns].
    # Of 3, 5 and 6 bits the lowest 2 or 4
    numbers: Numbers | FileArray
    # FLOAT32 or FLOAT16 [rows, blocks of a row], or fewer with factors, or UINT8, 128 more than exponents of powers of
    # two; ``None`` beside FLOAT32 numbers
    scales: Numbers | FileArray | None = None
    minima: Matrix | None = None  # [rows, blocks of a row]; ``None``: nothing is subtracted
    block: int = 32  # elements that share a scale, or a factor
    # which of an operand's elements each of a row's belongs to, in turn; ``None``: the one in its place
    order: Numbers | None = None
    # INT8 [rows, blocks of a row], or UINT8 of two numbers of four bits, the first one lowest; ``None``: there are none
    factors: Numbers | FileArray | None = None
    zero: int = 0  # the number that stands for zero
    zeros: Numbers | FileArray | None = None  # UINT8 [rows, blocks of a row], those of each block instead
    high: Numbers | FileArray | None = None  # the other bits of numbers of 3, 5 and 6, likewise
    table: int = 0  # of TABLES

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return int(self.numbers.shape[0])

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return int(self.numbers.shape[1]) * (1 if self.scales is None else self.block)

    @property
    def read(self) -> Numbers:
        """The numbers, wherever they lie."""
        return np.asarray(self.numbers)

    @property
    def kind(self) -> tuple[object, ...]:
        """Matrices of one kind can be one."""
        order = b"" if self.order is None else self.order.tobytes()
        minima = None if self.minima is None else self.minima.kind
        arrays = tuple(None if each is None else each.dtype for each in (self.scales, self.factors, self.zeros))
        return self.bits, self.block, self.zero, self.table, order, arrays, minima

    @staticmethod
    def of_numbers(bits: int, numbers: Numbers, scales: Numbers, **more: Any) -> Matrix:
        """A matrix of numbers that are not packed yet, UINT8 [rows, blocks of a row, elements of a block]."""
        low = LOW_BITS[bits]
        high = packed(numbers >> np.uint8(low), bits - low) if bits != low else None
        first = packed(numbers & np.uint8(2**low - 1), low)
        return Matrix(bits, first, scales, block=numbers.shape[2], high=high, **more)

    @property
    def planes(self) -> Numbers | FileArray:
        """The numbers as operators have them: UINT8 [rows, bytes], all lowest bits of a row before the others."""
        if self.high is None:
            return self.numbers
        if is_of_files(self.numbers) and is_of_files(self.high):
            both: FileArray = self.numbers.beside(self.high)
            return both
        parts = [np.asarray(each).reshape(self.rows, -1) for each in (self.numbers, self.high)]
        together: Numbers = np.concatenate(parts, axis=1)
        return together

    @property
    def has_pairs(self) -> bool:
        """Whether blocks have minima, which lie beside scales as operators have them."""
        return self.minima is not None and self.scales is not None and self.scales.dtype == np.float16

    @property
    def zero_points(self) -> Numbers | FileArray | None:
        """What stands for zero in each block, as operators have it: UINT8 [rows, bytes]; ``None``: one for all."""
        if self.zeros is None:
            return None
        bits, short = self.bits, -self.zeros.shape[1] % (8 // self.bits)

        def points(zeros: Numbers) -> Numbers:
            return packed(np.pad(zeros.reshape(len(zeros), -1), ((0, 0), (0, short))), bits)

        if not is_of_files(self.zeros):
            return points(np.asarray(self.zeros))
        of_files: FileArray = self.zeros.then(points, (self.rows, (self.zeros.shape[1] + short) * bits // 8))
        return of_files

    def pairs(self) -> tuple[Numbers | FileArray, Numbers | FileArray | None]:
        """Scales and factors as operators have them where blocks have minima: that of the minimum behind each.

        Returns:
            FLOAT16 [rows, 2 x scales], and of factors, if there are any, a byte with both, or two INT8.
        """
        assert self.minima is not None  # callers ask
        assert self.scales is not None
        less, factors = self.minima, self.factors
        if less.scales is None:
            return _in_pairs(self.scales, less.numbers.astype(np.float16), _in_turn), None
        assert factors is not None  # of large blocks both have them
        scales = _in_pairs(self.scales, less.scales, _in_turn)
        if factors.dtype == np.int8:
            return scales, _in_pairs(factors, less.numbers.astype(np.int8), _in_turn)
        return scales, _in_pairs(factors, less.numbers, _of_halves)

    def part(self, start: int, stop: int) -> Matrix:
        """Some of its rows."""
        return self._with(lambda array: array[start:stop])

    def chosen(self, rows: Numbers) -> Matrix:
        """The rows of these numbers, in turn."""
        return self._with(lambda array: array.chosen(rows) if is_of_files(array) else array[rows])

    def checked(self, check: Callable[[Numbers], Numbers]) -> Matrix:
        """The same, whose scales and plain numbers a function looks at when they are read; it returns them."""
        part, minima = "numbers" if self.scales is None else "scales", self.minima
        array: Any = getattr(self, part)
        looked: dict[str, Any] = {part: array.then(check) if is_of_files(array) else check(array)}
        return dataclasses.replace(self, minima=None if minima is None else minima.checked(check), **looked)

    def _with(self, change: Callable[[Numbers | FileArray], Numbers | FileArray]) -> Matrix:
        """The same with all arrays changed."""
        minima = None if self.minima is None else self.minima._with(change)
        arrays: dict[str, Any] = {name: change(array) for name, array in self._arrays().items()}
        return dataclasses.replace(self, minima=minima, **arrays)

    def _arrays(self) -> dict[str, Numbers | FileArray]:
        """What it has a line of for each row, by name."""
        arrays = {"numbers": self.numbers, "scales": self.scales, "factors": self.factors, "high": self.high}
        arrays["zeros"] = self.zeros
        return {name: array for name, array in arrays.items() if array is not None}

    def between(self, start: int, stop: int) -> Matrix:
        """Some of its columns, which are multiplied out where they are no whole blocks."""
        if self.scales is None:
            return dataclasses.replace(self, numbers=_across(self.numbers, start, stop))
        whole = self.columns // self.scales.shape[1]
        if start % whole or stop % whole or self.order is not None:
            return Matrix(32, self.multiplied_out()).between(start, stop)
        minima = None if self.minima is None else self.minima.between(start // self.block, stop // self.block)
        shares = {name: self.columns // array.shape[1] for name, array in self._arrays().items()}
        arrays: dict[str, Any] = {
            name: _across(array, start // shares[name], stop // shares[name]) for name, array in self._arrays().items()
        }
        return dataclasses.replace(self, minima=minima, **arrays)

    @staticmethod
    def joined(parts: Sequence[Matrix]) -> Matrix:
        """The rows of matrices of one kind, one behind the other."""
        arrays: dict[str, Any] = {
            name: _one_behind_another([part._arrays()[name] for part in parts]) for name in parts[0]._arrays()
        }
        minima = [part.minima for part in parts if part.minima is not None]
        return dataclasses.replace(parts[0], minima=Matrix.joined(minima) if minima else None, **arrays)

    @staticmethod
    def beside(parts: Sequence[Matrix], count: int) -> Matrix:
        """The rows of several stacks of so many matrices, of one kind: those of one matrix behind those of another."""
        sizes = [(part, part.rows // count) for part in parts]
        return Matrix.joined([part.part(i * rows, (i + 1) * rows) for i in range(count) for part, rows in sizes])

    def in_order(self) -> Matrix:
        """The same; what has an order or zeros of its own is multiplied out."""
        return self if self.order is None and self.zeros is None else Matrix(32, self.multiplied_out())

    def _whole(self) -> tuple[Numbers, Numbers]:
        """The numbers, UINT8 [rows, blocks, elements], and the scales of all blocks, FLOAT32, of packed weights."""
        assert self.scales is not None
        stored, low = np.asarray(self.scales), LOW_BITS[self.bits]
        scales = stored.astype(np.float32)
        if stored.dtype == np.uint8:
            scales = np.ldexp(np.float32(1), stored.astype(np.int32) - 128)
        if self.factors is not None:
            factors = np.asarray(self.factors)
            factors = factors if factors.dtype == np.int8 else unpacked(factors, 4)
            scales = scales.repeat(factors.shape[1] // scales.shape[1], 1) * factors.astype(np.float32)
        numbers = unpacked(self.read, low)
        if self.high is not None:
            numbers |= unpacked(np.asarray(self.high), self.bits - low) << np.uint8(low)
        return TABLES[self.table][numbers], scales

    def common(self) -> Matrix:
        """The same as other programs have it: 4 or 8 bits, FLOAT32 scales of each block, and minima that are plain.

        Half of what the numbers can be stands for zero, or 0 where they have all 4 bits.
        """
        if self.scales is None:
            return self
        numbers, scales = self._whole()
        bits = 4 if self.bits <= 4 and not self.table else 8
        shift = 2 ** (bits - 1) - self.zero
        if 2**self.bits - 1 + shift >= 2**bits:
            shift = 0
        minima = None if self.minima is None else Matrix(32, self.minima.multiplied_out())
        more = {"minima": minima, "order": self.order, "zero": self.zero + shift}
        return Matrix.of_numbers(bits, numbers + np.uint8(shift), scales, **more)

    def quantized(self, bits: int) -> Matrix:
        """Plain numbers in blocks of 32 integers, as Q8_0 and Q4_0 of ggml have them (ggml-quants.c).

        Args:
            bits: 8, 4; with 0, or where rows are no whole blocks, or it is packed already, the same matrix.
        """
        if not bits or self.scales is not None or self.columns % self.block:
            return self
        shape, middle = (self.rows, self.columns // self.block), 2 ** (bits - 1)

        def scales(rows: Numbers) -> Numbers:
            blocks = rows.reshape(len(rows), -1, self.block)
            highest: Numbers = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)
            return np.abs(highest) / np.float32(127) if bits == 8 else highest / np.float32(-8)

        def integers(rows: Numbers) -> Numbers:
            blocks, units = rows.reshape(len(rows), -1, self.block), scales(rows)
            shares = np.divide(blocks, units, out=np.zeros_like(blocks), where=units != 0)
            return packed(np.clip(np.rint(shares) + middle, 0, 2 * middle - 1).astype(np.uint8), bits)

        if not is_of_files(self.numbers):
            return Matrix(bits, integers(self.read), scales(self.read).reshape(shape), zero=middle)
        numbers = self.numbers.then(integers, (*shape, self.block * bits // 8), np.uint8)
        return Matrix(bits, numbers, self.numbers.then(scales, shape), zero=middle)

    def multiplied_out(self) -> Numbers | FileArray:
        """The weights themselves, FLOAT32 [rows, columns]; of files they are not read yet."""
        if self.scales is None:
            return self.numbers
        minima = [] if self.minima is None else self.minima._arrays().values()
        of_files = [each for each in (*self._arrays().values(), *minima) if is_of_files(each)]
        if not of_files:
            return self._multiplied_out()
        files = list(dict.fromkeys(file for each in of_files for file in each.files))

        def read(start: int, stop: int) -> Numbers:
            return self.part(start, stop)._with(np.asarray)._multiplied_out()

        return FileArray.computed(read, (self.rows, self.columns), np.float32, files)

    def _multiplied_out(self) -> Numbers:
        """The same of packed numbers in memory."""
        numbers, scales = self._whole()
        zeros = np.float32(self.zero) if self.zeros is None else np.asarray(self.zeros, np.float32)[..., None]
        weights: Numbers = (numbers.astype(np.float32) - zeros) * scales[..., None]
        if self.minima is not None:
            weights -= np.asarray(self.minima.multiplied_out())[..., None]
        weights = weights.reshape(self.rows, self.columns)
        return weights if self.order is None else weights[:, np.argsort(self.order)]


def _one_behind_another(arrays: Sequence[Numbers | FileArray]) -> Numbers | FileArray:
    of_files = [array for array in arrays if is_of_files(array)]
    if len(of_files) == len(arrays):
        return FileArray.joined(of_files)
    together: Numbers = np.concatenate([np.asarray(array) for array in arrays])
    return together


def _across(array: Numbers | FileArray, start: int, stop: int) -> Numbers | FileArray:
    """Some columns."""
    return array.across(start, stop) if is_of_files(array) else array[:, start:stop]


def _in_pairs(
    first: Numbers | FileArray, second: Numbers | FileArray, change: Callable[[Numbers, Numbers], Numbers]
) -> Numbers | FileArray:
    """What a function makes of the rows of both, [rows, count] each: [rows, 2 x count]."""
    if is_of_files(first) and is_of_files(second):
        of_files: FileArray = first.in_pairs(second, change)
        return of_files
    ones = np.asarray(first)
    return change(ones, np.asarray(second).reshape(ones.shape)).reshape(len(ones), -1)


def _in_turn(first: Numbers, second: Numbers) -> Numbers:
    """Behind each element that of another one."""
    pairs = np.empty((*first.shape, 2), first.dtype)
    pairs[..., 0], pairs[..., 1] = first, second
    return pairs


def _of_halves(first: Numbers, second: Numbers) -> Numbers:
    """The same of numbers of four bits, two in a byte: one of each shares a byte then, the first one lowest."""
    return _in_turn(first & 15 | second << np.uint8(4), first >> np.uint8(4) | second & 0xF0)


def packed(numbers: Numbers, bits: int) -> Numbers:
    """Numbers of few bits along the last axis, in bytes."""
    count = 8 // bits
    made = numbers[..., 0::count].astype(np.uint8)
    for index in range(1, count):
        made |= numbers[..., index::count].astype(np.uint8) << np.uint8(index * bits)
    return made


def unpacked(data: Numbers, bits: int) -> Numbers:
    """The numbers of few bits in bytes, along the last axis."""
    numbers = data[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & np.uint8(2**bits - 1)
    made: Numbers = numbers.reshape(*data.shape[:-1], -1)
    return made
