"""Types of tensors in GGUF files: from ggml's blocks to packed numbers that stand for the same weights, bit by bit.

The layouts are those of ggml's ggml-common.h and ggml-quants.c. Types with blocks of 256 have scales and minima of few
bits for each 16 or 32 elements, times two of FLOAT16: exact products in FLOAT32, which kernels make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dmlvk.language.weights import Matrix, Numbers, packed
from dmlvk.operators.block_weights import LOW_BITS
from dmlvk.support.file_arrays import FileArray, Order

BLOCKS: Mapping[str, tuple[int, int]] = {
    **{"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2)},
    **{"Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34)},
    **{"Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210)},
    **{"IQ4_NL": (32, 18), "IQ4_XS": (256, 136), "MXFP4": (32, 17)},
}
"""Elements of a block, and its bytes, by the type's name."""

_ZERO_OF_TABLES = 128


def plain(kind: str, data: Numbers) -> FileArray:
    """The FLOAT32 numbers of the types F32, F16 and BF16, [rows, columns], of bytes [rows, bytes of a row].

    Args:
        data: or [rows, columns, bytes of a number].
    """
    width = BLOCKS[kind][1]
    blocks = data.reshape(len(data), -1, width)
    return FileArray.of(blocks, _WIDENED[kind], blocks.shape[:2], np.float32)


def matrix(kind: str, data: Numbers) -> Matrix:
    """The weights of a type of :data:`BLOCKS`, of bytes [rows, bytes of a row]; packed ones are not read yet."""
    if kind in _WIDENED:
        return Matrix(32, plain(kind, data))
    elements, width = BLOCKS[kind]
    return _PACKINGS[kind].matrix(data.reshape(len(data), -1, width), elements)


class _Packing(NamedTuple):
    """How weights of a type are packed."""

    bits: int  # of a number
    block: int  # elements that share a scale, or a factor
    low: Order  # the numbers, or their lowest bits
    # what else a matrix has of ggml's blocks [rows, blocks, bytes]
    rest: Callable[[Numbers], Mapping[str, Any]]
    high: Order | None = None  # the other bits of numbers

    def matrix(self, data: Numbers, elements: int) -> Matrix:
        """The matrix of ggml's blocks of so many elements."""
        rows, count, low = len(data), data.shape[1] * elements // self.block, LOW_BITS[self.bits]
        numbers = FileArray.of(data, self.low, (rows, count, self.block * low // 8), np.uint8)
        high = None
        if self.high is not None:
            shape = rows, count, self.block * (self.bits - low) // 8
            high = FileArray.of(data, self.high, shape, np.uint8)
        return Matrix(self.bits, numbers, block=self.block, high=high, **self.rest(data))


def _planes(start: int, stop: int, bits: int, group: int) -> Order:
    """Numbers of few bits that lie in some bytes of a block: all lowest bits of a group before the next ones."""
    return lambda data: _arranged(data[..., start:stop], bits, group)


def _widened(data: Numbers) -> Numbers:
    """BF16 as FLOAT32."""
    return np.left_shift(np.ascontiguousarray(data).view("<u2"), 16, dtype=np.uint32).view(np.float32)


_WIDENED: Mapping[str, Order] = {
    "F32": lambda data: np.ascontiguousarray(data).view("<f4"),
    "F16": lambda data: np.ascontiguousarray(data).view("<f2").astype(np.float32),
    "BF16": _widened,
}


def _arranged(data: Numbers, bits: int, group: int) -> Numbers:
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
        shifted = np.right_shift(words, word.type(bits * place), out=each) if place else words
        np.bitwise_and(shifted, mask, out=each)
        np.multiply(each, factor, out=each)
        np.right_shift(each, word.type(top), out=each)
        np.copyto(joined, each, casting="unsafe")
        out.view(unit)[:, place, 0] = joined.view(unit)
    return out.reshape(len(data), -1)


def _as_it_is(start: int, stop: int) -> Order:
    return lambda data: data[..., start:stop].reshape(len(data), -1)


def _half(data: Numbers, first: int) -> Numbers:
    """The FLOAT16 number that begins at a byte of each block, [rows, blocks]."""
    halves: Numbers = np.ascontiguousarray(data[..., first : first + 2]).view("<f2")
    return halves[..., 0]


def _bits(data: Numbers, bits: int, group: int) -> Numbers:
    """Numbers of few bits that lie as ggml has them, a byte for each."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    parts: Numbers = data.reshape(*data.shape[:2], -1, 1, group) >> shifts & np.uint8(2**bits - 1)
    return parts.reshape(*data.shape[:2], -1)


def _signed(numbers: Numbers, middle: int) -> Numbers:
    """Numbers of bytes less what stands for zero."""
    return (numbers - np.uint8(middle)).view(np.int8)


def _halves(data: Numbers, first: int) -> FileArray:
    return FileArray.of(data, lambda blocks: _half(blocks, first), data.shape[:2], np.float16)


def _factors(data: Numbers, order: Order, count: int, dtype: npt.DTypeLike = np.int8) -> FileArray:
    """So many bytes of each block."""
    return FileArray.of(data, order, (len(data), data.shape[1] * count), dtype)


def _with_zero(zero: int) -> Callable[[Numbers], Mapping[str, Any]]:
    return lambda data: {"scales": _halves(data, 0), "zero": zero}


def _with_minima(data: Numbers) -> Mapping[str, Any]:
    """Of blocks that have one, which is added."""
    minima = FileArray.of(data, lambda blocks: -_half(blocks, 2).astype(np.float32), data.shape[:2], np.float32)
    return {"scales": _halves(data, 0), "minima": Matrix(32, minima)}


def _of_eight(data: Numbers) -> Mapping[str, Any]:
    """Of blocks of 256 whose eight scales and minima have 6 bits, in twelve bytes."""
    minima = FileArray.of(data, lambda blocks: _six_bits(blocks, 4), (*data.shape[:2], 8), np.uint8)
    factors = _factors(data, lambda blocks: _six_bits(blocks, 0).view(np.int8), 8)
    return {"scales": _halves(data, 0), "factors": factors, "minima": Matrix(8, minima, _halves(data, 2), block=8)}


def _six_bits(data: Numbers, place: int) -> Numbers:
    """The scales, at 0, or the minima, at 4: four, and four whose highest bits stand above those of the first."""
    first, second = (np.ascontiguousarray(data[..., at : at + 4]).view("<u4") for at in (4 + place, 12))
    low = second >> np.uint32(place) & np.uint32(0x0F0F0F0F)
    words: Numbers = np.concatenate([first & np.uint32(0x3F3F3F3F), low | first >> 2 & np.uint32(0x30303030)], axis=-1)
    return words.view(np.uint8)


def _of_q2_k(data: Numbers) -> Mapping[str, Any]:
    def minima(blocks: Numbers) -> Numbers:
        return packed(blocks[..., :16] >> np.uint8(4), 4)

    below = Matrix(4, FileArray.of(data, minima, (*data.shape[:2], 8), np.uint8), _halves(data, 82), block=16)
    factors = _factors(data, lambda blocks: packed(blocks[..., :16] & np.uint8(15), 4), 8, np.uint8)
    return {"scales": _halves(data, 80), "factors": factors, "minima": below}


def _of_q3_k(data: Numbers) -> Mapping[str, Any]:
    def factors(blocks: Numbers) -> Numbers:
        return _signed(_bits(blocks[..., 96:104], 4, 8) | _bits(blocks[..., 104:108], 2, 4) << np.uint8(4), 32)

    return {"scales": _halves(data, 108), "factors": _factors(data, factors, 16), "zero": 4}


def _of_q6_k(data: Numbers) -> Mapping[str, Any]:
    factors = _factors(data, lambda blocks: np.ascontiguousarray(blocks[..., 192:208]).view(np.int8), 16)
    return {"scales": _halves(data, 208), "factors": factors, "zero": 32}


def _of_iq4_xs(data: Numbers) -> Mapping[str, Any]:
    def factors(blocks: Numbers) -> Numbers:
        low = np.stack([blocks[..., 4:8] & 15, blocks[..., 4:8] >> 4], axis=-1).reshape(*blocks.shape[:2], 8)
        words = np.ascontiguousarray(blocks[..., 2:4]).view("<u2")
        high = words >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)
        return _signed(low | high.astype(np.uint8) << np.uint8(4), 32)

    return {"scales": _halves(data, 0), "factors": _factors(data, factors, 8), "zero": _ZERO_OF_TABLES, "table": 2}


def _of_mxfp4(data: Numbers) -> Mapping[str, Any]:
    scales = FileArray.of(data, lambda blocks: blocks[..., 0], data.shape[:2], np.uint8)
    return {"scales": scales, "zero": _ZERO_OF_TABLES, "table": 1}


def mxfp4_matrix(numbers: Numbers, exponents: Numbers) -> Matrix:
    """Weights of MXFP4, whose numbers and scales lie apart in a file.

    Args:
        numbers: of four bits, the first one in a byte's lowest bits: UINT8 [rows, blocks, 16].
        exponents: of the blocks' scales (E8M0): UINT8 [rows, blocks]. A scale is half of a power of two.
    """
    scales = FileArray.of(exponents, np.asarray, exponents.shape, np.uint8)
    planes = FileArray.of(numbers, np.asarray, numbers.shape, np.uint8)
    return Matrix(4, planes, scales, zero=_ZERO_OF_TABLES, table=1)


_PACKINGS: Mapping[str, _Packing] = {
    "Q4_0": _Packing(4, 32, _planes(2, 18, 4, 16), _with_zero(8)),
    "Q4_1": _Packing(4, 32, _planes(4, 20, 4, 16), _with_minima),
    "Q5_0": _Packing(5, 32, _planes(6, 22, 4, 16), _with_zero(16), _as_it_is(2, 6)),
    "Q5_1": _Packing(5, 32, _planes(8, 24, 4, 16), _with_minima, _as_it_is(4, 8)),
    "Q8_0": _Packing(8, 32, lambda data: _as_it_is(2, 34)(data) ^ np.uint8(128), _with_zero(128)),
    "Q2_K": _Packing(2, 16, _planes(16, 80, 2, 32), _of_q2_k),
    "Q3_K": _Packing(3, 16, _planes(32, 96, 2, 32), _of_q3_k, _planes(0, 32, 1, 32)),
    "Q4_K": _Packing(4, 32, _planes(16, 144, 4, 32), _of_eight),
    "Q5_K": _Packing(5, 32, _planes(48, 176, 4, 32), _of_eight, _planes(16, 48, 1, 32)),
    "Q6_K": _Packing(6, 16, _planes(0, 128, 4, 64), _of_q6_k, _planes(128, 192, 2, 32)),
    "IQ4_NL": _Packing(4, 32, _planes(2, 18, 4, 16), lambda data: {**_with_zero(_ZERO_OF_TABLES)(data), "table": 2}),
    "IQ4_XS": _Packing(4, 32, _planes(8, 136, 4, 16), _of_iq4_xs),
    "MXFP4": _Packing(4, 32, _planes(1, 17, 4, 16), _of_mxfp4),
}
