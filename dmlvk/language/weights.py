"""Weights as files have them: packed numbers with their blocks' scales and minima, or plain numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A matrix of numbers of 2, 4 or 8 bits, or of FLOAT32.

    A weight is ``(number - zero) x scale``, less the block's minimum where there are any.
    """

    bits: int  # of a number; 32: they are the weights
    # UINT8 [rows, blocks of a row, bytes of a block], the first number in the lowest bits; or FLOAT32 [rows, columns]
    numbers: Numbers
    scales: Numbers | None = None  # FLOAT32 [rows, blocks of a row]; ``None`` beside FLOAT32 numbers
    minima: Numbers | None = None  # likewise; ``None``: nothing is subtracted
    block: int = 32  # elements that share a scale
    # which of an operand's elements each of a row's belongs to, in turn; ``None``: the one in its place
    order: Numbers | None = None

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return int(self.numbers.shape[0])

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return int(self.numbers.shape[1]) * (1 if self.scales is None else self.block)

    @property
    def zero(self) -> int:
        """The number that stands for zero."""
        return 0 if self.minima is not None and self.bits < 8 else 2 ** (self.bits - 1)

    @property
    def kind(self) -> tuple[int, int, bool, bytes]:
        """Matrices of one kind can be one."""
        return self.bits, self.block, self.minima is None, b"" if self.order is None else self.order.tobytes()

    def part(self, start: int, stop: int) -> Matrix:
        """Some of its rows."""
        scales, minima = (None if each is None else each[start:stop] for each in (self.scales, self.minima))
        return dataclasses.replace(self, numbers=self.numbers[start:stop], scales=scales, minima=minima)

    def between(self, start: int, stop: int) -> Matrix:
        """Some of its columns, which are multiplied out where they are no whole blocks."""
        if self.scales is None:
            return dataclasses.replace(self, numbers=self.numbers[:, start:stop])
        if start % self.block or stop % self.block or self.order is not None:
            return Matrix(32, self.multiplied_out()[:, start:stop])
        blocks = slice(start // self.block, stop // self.block)
        minima = None if self.minima is None else self.minima[:, blocks]
        return dataclasses.replace(self, numbers=self.numbers[:, blocks], scales=self.scales[:, blocks], minima=minima)

    def chosen(self, rows: Numbers) -> Matrix:
        """The rows of these numbers, in turn."""
        scales, minima = (None if each is None else each[rows] for each in (self.scales, self.minima))
        return dataclasses.replace(self, numbers=self.numbers[rows], scales=scales, minima=minima)

    @staticmethod
    def joined(parts: Sequence[Matrix]) -> Matrix:
        """The rows of matrices of one kind, one behind the other."""
        scales, minima = (
            np.concatenate([each for each in arrays if each is not None]) if arrays[0] is not None else None
            for arrays in zip(*((part.scales, part.minima) for part in parts), strict=True)
        )
        numbers = np.concatenate([part.numbers for part in parts])
        return dataclasses.replace(parts[0], numbers=numbers, scales=scales, minima=minima)

    @staticmethod
    def beside(parts: Sequence[Matrix], count: int) -> Matrix:
        """The rows of several stacks of so many matrices, of one kind: those of one matrix behind those of another."""

        def together(arrays: Sequence[Numbers | None]) -> Numbers | None:
            present = [each.reshape(count, -1, *each.shape[1:]) for each in arrays if each is not None]
            if not present:
                return None
            made: Numbers = np.concatenate(present, axis=1)
            lines: Numbers = made.reshape(-1, *made.shape[2:])
            return lines

        numbers = together([part.numbers for part in parts])
        assert numbers is not None  # which all have
        scales, minima = together([part.scales for part in parts]), together([part.minima for part in parts])
        return dataclasses.replace(parts[0], numbers=numbers, scales=scales, minima=minima)

    def unpacked(self) -> Matrix:
        """The same with numbers of four bits in the place of two; what has an order of its own is multiplied out."""
        if self.order is not None:
            return Matrix(32, self.multiplied_out())
        if self.bits != 2:
            return self
        numbers = np.stack([self.numbers >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1)
        numbers = numbers.reshape(*self.numbers.shape[:2], self.block)
        return dataclasses.replace(self, bits=4, numbers=packed(numbers, 4))

    def quantized(self, bits: int) -> Matrix:
        """Plain numbers in blocks of 32 integers, as Q8_0 and Q4_0 of ggml have them (ggml-quants.c).

        Args:
            bits: 8, 4; with 0, or where rows are no whole blocks, or it is packed already, the same matrix.
        """
        if not bits or self.scales is not None or self.columns % self.block:
            return self
        blocks = self.numbers.reshape(self.rows, -1, self.block)
        highest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)
        scales = np.abs(highest) / np.float32(127) if bits == 8 else highest / np.float32(-8)
        shares = np.divide(blocks, scales, out=np.zeros_like(blocks), where=scales != 0)
        middle = 2 ** (bits - 1)
        numbers = np.clip(np.rint(shares) + middle, 0, 2 * middle - 1).astype(np.uint8)
        return Matrix(bits, packed(numbers, bits), scales[..., 0].astype(np.float32))

    def multiplied_out(self) -> Numbers:
        """The weights themselves, FLOAT32 [rows, columns]."""
        if self.scales is None:
            return self.numbers
        each = np.arange(0, 8, self.bits, dtype=np.uint8)
        numbers = (self.numbers[..., None] >> each & np.uint8(2**self.bits - 1)).reshape(*self.scales.shape, self.block)
        weights: Numbers = (numbers.astype(np.float32) - np.float32(self.zero)) * self.scales[..., None]
        if self.minima is not None:
            weights -= self.minima[..., None]
        weights = weights.reshape(self.rows, self.columns)
        return weights if self.order is None else weights[:, np.argsort(self.order)]


def packed(numbers: Numbers, bits: int) -> Numbers:
    """Numbers of few bits along the last axis, in bytes."""
    count = 8 // bits
    made = numbers[..., 0::count].astype(np.uint8)
    for index in range(1, count):
        made |= numbers[..., index::count].astype(np.uint8) << np.uint8(index * bits)
    return made
