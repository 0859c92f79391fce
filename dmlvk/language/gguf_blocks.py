"""Types of tensors in GGUF files: from ggml's blocks to packed numbers that stand for the same weights, bit by bit.

The layouts are those of ggml's ggml-common.h and ggml-quants.c. Types with blocks of 256 have scales and minima of few
bits for each 16 or 32 elements, times two of FLOAT16: exact products in FLOAT32, which kernels make.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dmlvk.language.weights import Matrix, Numbers, packed

BLOCKS: Mapping[str, tuple[int, int]] = {
    **{"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2)},
    **{"Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34)},
    **{"Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210)},
    **{"IQ4_NL": (32, 18), "IQ4_XS": (256, 136), "MXFP4": (32, 17)},
}
"""Elements of a block, and its bytes, by the type's name."""

_AT_ONCE = 2**22  # Bytes that are unpacked at once: so what is between takes little memory

_ZERO_OF_TABLES = 128


def plain(kind: str, data: Numbers) -> Numbers:
    """The FLOAT32 numbers of the types F32, F16 and BF16, [rows, columns], of bytes [rows, bytes of a row]."""
    if kind == "BF16":
        halves: Numbers = np.ascontiguousarray(data).view("<u2")
        return np.left_shift(halves, 16, dtype=np.uint32).view(np.float32)
    numbers: Numbers = np.ascontiguousarray(data).view("<f4" if kind == "F32" else "<f2")
    return numbers.astype(np.float32)


def matrix(kind: str, data: Numbers) -> Matrix:
    """The weights of a type of :data:`BLOCKS`, of bytes [rows, bytes of a row]."""
    if kind in ("F32", "F16", "BF16"):
        return Matrix(32, plain(kind, data))
    blocks = data.reshape(len(data), -1, BLOCKS[kind][1])
    count = max(1, _AT_ONCE // data.shape[1])
    parts = [blocks[start : start + count] for start in range(0, len(data), count)]
    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as workers:  # NumPy works outside of Python's lock
        return Matrix.joined(list(workers.map(_UNPACK[kind], parts)))


def _half(data: Numbers, first: int) -> Numbers:
    """The FLOAT16 number that begins at a byte of each block, [rows, blocks]."""
    halves: Numbers = np.ascontiguousarray(data[..., first : first + 2]).view("<f2")
    return halves[..., 0]


def _bits(data: Numbers, bits: int, group: int) -> Numbers:
    """Numbers of few bits that lie as ggml has them: all lowest bits of so many bytes stand before the next ones."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    parts: Numbers = data.reshape(*data.shape[:2], -1, 1, group) >> shifts & np.uint8(2**bits - 1)
    return parts.reshape(*data.shape[:2], -1)


def _made(
    bits: int,
    numbers: Numbers,
    scales: Numbers,
    zero: int = 0,
    *,
    factors: Numbers | None = None,
    minima: Matrix | None = None,
    table: int = 0,
) -> Matrix:
    """A matrix of what single elements, and blocks of 16 or 32, have: all [rows, ggml's blocks, …].

    Args:
        scales: one for each of ggml's blocks.
        factors: of blocks of 16 or 32, INT8; or UINT8 of two such of four bits.
    """
    rows, size = len(scales), numbers.shape[2]
    if factors is not None:
        size //= factors.shape[2] * (1 if factors.dtype == np.int8 else 2)
        factors = factors.reshape(rows, -1)
    numbers, zero = numbers.reshape(rows, -1, size), _ZERO_OF_TABLES if table else zero
    return Matrix.of_numbers(bits, numbers, scales, minima=minima, factors=factors, zero=zero, table=table)


def _plain_minima(data: Numbers, first: int) -> Matrix:
    """Of blocks that have one, which is added."""
    return Matrix(32, -_half(data, first).astype(np.float32))


def _signed(numbers: Numbers, middle: int) -> Numbers:
    made: Numbers = (numbers.astype(np.int16) - np.int16(middle)).astype(np.int8)
    return made


def _five(data: Numbers, at: int) -> Numbers:
    """Numbers of five bits: the highest bits of 32 stand before the others."""
    high: Numbers = np.unpackbits(np.ascontiguousarray(data[..., at : at + 4]), axis=-1, bitorder="little")
    made: Numbers = _bits(data[..., at + 4 :], 4, 16) | high << np.uint8(4)
    return made


def _with_minima(bits: int, numbers: Numbers, data: Numbers) -> Matrix:
    """Of blocks of 256 whose eight scales and minima have 6 bits, in twelve bytes."""
    first, second, third = (data[..., start : start + 4] for start in (4, 8, 12))
    scales = np.concatenate([first & 63, third & 15 | first >> 2 & 48], axis=-1)
    minima = np.concatenate([second & 63, third >> 4 | second >> 2 & 48], axis=-1)
    return _made(
        bits, numbers, _half(data, 0), factors=scales.view(np.int8), minima=Matrix(8, minima, _half(data, 2), block=8)
    )


def _from_q5_k(data: Numbers) -> Matrix:
    return _with_minima(5, _bits(data[..., 48:], 4, 32) | _bits(data[..., 16:48], 1, 32) << np.uint8(4), data)


def _from_q2_k(data: Numbers) -> Matrix:
    scales, minima = (packed(each, 4) for each in (data[..., :16] & 15, data[..., :16] >> 4))
    below = Matrix(4, minima, _half(data, 82), block=16)
    return _made(2, _bits(data[..., 16:80], 2, 32), _half(data, 80), factors=scales, minima=below)


def _from_q3_k(data: Numbers) -> Matrix:
    numbers = _bits(data[..., 32:96], 2, 32) | _bits(data[..., :32], 1, 32) << np.uint8(2)
    scales = _bits(data[..., 96:104], 4, 8) | _bits(data[..., 104:108], 2, 4) << np.uint8(4)
    return _made(3, numbers, _half(data, 108), 4, factors=_signed(scales, 32))


def _from_q6_k(data: Numbers) -> Matrix:
    numbers = _bits(data[..., :128], 4, 64) | _bits(data[..., 128:192], 2, 32) << np.uint8(4)
    scales = np.ascontiguousarray(data[..., 192:208]).view(np.int8)
    return _made(6, numbers, _half(data, 208), 32, factors=scales)


def _from_iq4_xs(data: Numbers) -> Matrix:
    low = np.stack([data[..., 4:8] & 15, data[..., 4:8] >> 4], axis=-1).reshape(*data.shape[:2], 8)
    high = np.ascontiguousarray(data[..., 2:4]).view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)
    scales = _signed(low | high.astype(np.uint8) << np.uint8(4), 32)
    return _made(4, _bits(data[..., 8:], 4, 16), _half(data, 0), factors=scales, table=2)


def mxfp4_matrix(numbers: Numbers, exponents: Numbers) -> Matrix:
    """Weights of MXFP4.

    Args:
        numbers: of four bits, UINT8 [rows, blocks, 32].
        exponents: of the blocks' scales (E8M0): UINT8 [rows, blocks]. A scale is half of a power of two.
    """
    return _made(4, numbers, exponents, table=1)


def _from_mxfp4(data: Numbers) -> Matrix:
    return mxfp4_matrix(_bits(data[..., 1:], 4, 16), data[..., 0])


_UNPACK: Mapping[str, Callable[[Numbers], Matrix]] = {
    "Q4_0": lambda data: _made(4, _bits(data[..., 2:], 4, 16), _half(data, 0), 8),
    "Q4_1": lambda data: _made(4, _bits(data[..., 4:], 4, 16), _half(data, 0), minima=_plain_minima(data, 2)),
    "Q5_0": lambda data: _made(5, _five(data, 2), _half(data, 0), 16),
    "Q5_1": lambda data: _made(5, _five(data, 4), _half(data, 0), minima=_plain_minima(data, 2)),
    "Q8_0": lambda data: _made(8, data[..., 2:] ^ np.uint8(128), _half(data, 0), 128),
    "Q2_K": _from_q2_k,
    "Q3_K": _from_q3_k,
    "Q4_K": lambda data: _with_minima(4, _bits(data[..., 16:], 4, 32), data),
    "Q5_K": _from_q5_k,
    "Q6_K": _from_q6_k,
    "IQ4_NL": lambda data: _made(4, _bits(data[..., 2:], 4, 16), _half(data, 0), table=2),
    "IQ4_XS": _from_iq4_xs,
    "MXFP4": _from_mxfp4,
}
