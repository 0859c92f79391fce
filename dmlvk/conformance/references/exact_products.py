"""Products by exact integers: the bits of what is certified, and which results are.

Written from the definition in docs/notes/exact-products.md, and not from the kernels.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.references.products import SEGMENT, operand

Array: TypeAlias = npt.NDArray[Any]
Singles: TypeAlias = npt.NDArray[np.float32]

BLOCK = 256  # Terms that share an exponent

_LEAST, _LARGEST = -40, 40
"""Of the exponents of blocks: those below count as the least; beyond the largest nothing is certified."""

_SLACK = 32
"""Of what is stated, what roundings of sums and of the certificate itself may take, beside two for each block."""


_LEAST_UNIT = 2.0**-60  # Of magnitudes


@dataclasses.dataclass(frozen=True)
class Lines:
    """An operand as integers."""

    # of each line, block and term three signed ones, the first the largest; along the first axis
    bytes_: npt.NDArray[np.int64]
    # of each line and block: a power of two that none of its magnitudes is above, of which an integer is the 2^22nd
    # part; 0: there is nothing in it
    powers: Singles
    sums: Singles  # of each line and block the sum of magnitudes, rounded up
    rounded: Singles  # of each line and block the same power where a term of it is rounded, else an eighth of it
    left_out: Singles  # of each line and block that sum, and half of what six products leave out for its part
    units: Singles  # of each line and block
    magnitudes: npt.NDArray[np.int64]  # of each line, block and term, in units, rounded down
    is_out: npt.NDArray[np.bool_]  # of each line, whether it has what is out of range


def lines_of(matrix: Array) -> Lines:
    """Rows of FLOAT32 as integers."""
    rows, terms = matrix.shape
    blocks = -(-terms // BLOCK)
    padded = np.zeros((rows, blocks * BLOCK))
    with np.errstate(invalid="ignore"):
        padded[:, :terms] = operand(matrix)
        values = padded.reshape(rows, blocks, BLOCK)
        peaks = np.abs(values).max(axis=2)
        significands, exponents = np.frexp(np.where(np.isfinite(peaks), peaks, 0))
        exponents = exponents - (significands == 0.5)
        is_out = ~np.isfinite(peaks) | (exponents > _LARGEST)
        powers = np.where((peaks == 0) | is_out, 0.0, np.exp2(np.maximum(exponents, _LEAST)))
        shown = np.where(is_out[..., None], 0.0, values)
        step = np.where(powers > 0, powers, 1.0)[..., None] * 2.0**-22
        integers = np.rint(shown / step).astype(np.int64)
    third = (integers + 128) % 256 - 128
    above = (integers - third) // 256
    second = (above + 128) % 256 - 128
    first = (above - second) // 256
    sums = -(-(np.abs(integers).sum(axis=2) + 128) // 256) * 256 * powers * 2.0**-22
    counts = np.count_nonzero(shown, axis=2)
    is_rounded = (integers * step != shown).any(axis=2)
    squares = (second**2 + third**2).sum(axis=2)
    left_out = sums + (squares + -(-squares // 256)) * powers * 2.0**-14
    ratio = np.floor(np.log2(np.where(sums > 0, sums, 1))) - np.floor(np.log2(np.maximum(counts, 1))) - 4
    units = np.where(counts > 0, np.maximum(np.exp2(ratio), _LEAST_UNIT), 0.0)
    least = np.maximum(2 * np.abs(integers) - 1, 0) * (powers * 2.0**-23)[..., None]
    magnitudes = np.minimum(np.floor(least / np.where(units > 0, units, 1.0)[..., None]), 127).astype(np.int64)
    p, size, r, h, u = (
        _single(numbers) for numbers in (powers, sums, np.where(is_rounded, powers, powers / 8), left_out, units)
    )
    return Lines(np.stack([first, second, third]), p, size, r, h, u, magnitudes, is_out.any(axis=1))


def _single(numbers: Array) -> Singles:
    return numbers.astype(np.float32)


def product(a: Array, b: Array) -> tuple[Array, npt.NDArray[np.uint8]]:
    """The products of rows of a and rows of b.

    Returns:
        FLOAT32 results, and by how many products of bytes each is certified: 6, 9, or 0 where it is not.
    """
    left, right = lines_of(a), lines_of(b)
    shape, terms, blocks = (a.shape[0], b.shape[0]), a.shape[1], left.powers.shape[1]
    six, others, beyond_six, beyond_nine = (np.zeros(shape, np.float32) for _ in range(4))
    allowed = np.float32((min(terms, SEGMENT) + -(-terms // SEGMENT) - 2 * blocks - _SLACK) / 2)
    for block in range(blocks):
        joined = [np.zeros(shape, np.int64) for _ in range(5)]
        for p in range(3):
            for q in range(3):
                joined[p + q] += left.bytes_[p, :, block] @ right.bytes_[q, :, block].T
        scale = _outer(left.powers, right.powers, block) * np.float32(2.0**-12)
        six = six + (_joined(joined[2::-1]) * scale)
        others = others + (_joined(joined[:2:-1]) * np.float32(2.0**-24)) * scale
        of_left, of_right = left.magnitudes[:, block], right.magnitudes[:, block]
        some = _sample(block)
        units = _outer(left.units, right.units, block)
        if block % 3 == 0:
            beyond_six = beyond_six + _errors(left, right, block)
        beyond_six = beyond_six - (of_left[:, some] @ of_right[:, some].T).astype(np.float32) * allowed * units
        errors = _outer(left.rounded, right.sums, block) + _outer(left.sums, right.rounded, block)
        beyond_nine = (beyond_nine + errors) - (of_left @ of_right.T).astype(np.float32) * allowed * units
    both = ~(left.is_out[:, None] | right.is_out)
    by_six, by_nine = both & (beyond_six <= 0), both & (beyond_nine <= 0)
    results = np.where(by_six, six, six + others)
    return results, np.where(by_six, 6, np.where(by_nine, 9, 0)).astype(np.uint8)


def _outer(of_left: Singles, of_right: Singles, block: int) -> Singles:
    """Products of what each row and each column has of a block."""
    products: Singles = np.multiply.outer(of_left[:, block], of_right[:, block])
    return products


def _errors(left: Lines, right: Lines, block: int) -> Singles:
    """What rounding of operands may make, and the products that six leave out, of a block and the two behind it."""
    (p, h), (q, k) = (
        (
            lines.powers[:, block : block + 3].max(axis=1),
            np.cumsum(lines.left_out[:, block : block + 3], axis=1, dtype=np.float32)[:, -1],
        )
        for lines in (left, right)
    )
    errors: Singles = np.multiply.outer(p, k) + np.multiply.outer(h, q)
    return errors


def _sample(block: int) -> Array:
    """The terms of a block whose magnitudes six products are certified by: of each 64 neighbouring ones 32."""
    numbers = np.arange(4 * block, 4 * block + 4, dtype=np.uint32)
    hashes = (numbers * np.uint32(2654435769) >> np.uint32(30)).astype(np.int64)
    sixteens = 4 * np.arange(4) + np.stack([hashes, (hashes + 1) % 4])
    terms: Array = (16 * sixteens.reshape(-1, 1) + np.arange(16)).ravel()
    return terms


def _joined(integers: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.float32]:
    """Sums of products of bytes, the smallest first, each 256 times what the one before it is."""
    total = integers[0].astype(np.float32)
    for further in integers[1:]:
        total = total * np.float32(1 / 256) + further.astype(np.float32)
    return total
