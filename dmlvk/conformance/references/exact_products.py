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
Doubles: TypeAlias = npt.NDArray[np.float64]

BLOCK = 256
"""Terms that share an exponent."""

_LEAST, _LARGEST = -40, 40
"""Of the exponents of blocks: those below count as the least; beyond the largest nothing is certified."""

_SLACK = 32
"""Of what is stated, what roundings of sums and of the certificate itself may take, beside one for each block."""


@dataclasses.dataclass(frozen=True)
class Lines:
    """An operand as integers.

    Attributes:
        bytes_: of each line, block and term three signed ones, the first the largest; along the first axis.
        powers: of each line and block: a power of two above its magnitudes, of which an integer is the 2^23rd part; 0:
            there is nothing in it.
        sums: of each line and block the sum of magnitudes, rounded up.
        counts: of each line and block the terms that are no zeros.
        units: of each line.
        magnitudes: of each line, block and term, in units, rounded down.
        is_out: of each line, whether it has what is out of range.
    """

    bytes_: npt.NDArray[np.int64]
    powers: Doubles
    sums: Doubles
    counts: npt.NDArray[np.int64]
    units: Doubles
    magnitudes: npt.NDArray[np.int64]
    is_out: npt.NDArray[np.bool_]


def lines_of(matrix: Array) -> Lines:
    """Rows of FLOAT32 as integers."""
    rows, terms = matrix.shape
    blocks = -(-terms // BLOCK)
    padded = np.zeros((rows, blocks * BLOCK))
    with np.errstate(invalid="ignore"):
        padded[:, :terms] = operand(matrix)
        values = padded.reshape(rows, blocks, BLOCK)
        peaks = np.abs(values).max(axis=2)
        # 127 / 64 of half of a power of two is the most that its integers hold.
        significands, exponents = np.frexp(np.where(np.isfinite(peaks), peaks, 0))
        exponents = exponents + (significands >= 127 / 128)
        is_out = ~np.isfinite(peaks) | (exponents > _LARGEST)
        powers = np.where((peaks == 0) | is_out, 0.0, np.exp2(np.maximum(exponents, _LEAST)))
        shown = np.where(is_out[..., None], 0.0, values)
        step = np.where(powers > 0, powers, 1.0)[..., None] * 2.0**-23
        integers = np.rint(shown / step).astype(np.int64)
    third = (integers + 128) % 256 - 128
    above = (integers - third) // 256
    second = (above + 128) % 256 - 128
    first = (above - second) // 256
    sums = -(-(np.abs(integers).sum(axis=2) + 128) // 256) * 256 * powers * 2.0**-23
    counts = np.count_nonzero(shown, axis=2)
    whole, count = _added(sums.astype(np.float32)), counts.sum(axis=1)
    with np.errstate(divide="ignore"):
        ratio = np.floor(np.log2(np.maximum(whole, 1e-300))) - np.floor(np.log2(np.maximum(count, 1))) - 4
    units = np.where(count > 0, np.exp2(ratio), 0.0)
    least = np.maximum(2 * np.abs(integers) - 1, 0) * (powers * 2.0**-24)[..., None]
    scale = np.where(units > 0, units, 1.0)[:, None, None]
    magnitudes = np.minimum(np.floor(least / scale), 127).astype(np.int64)
    return Lines(np.stack([first, second, third]), powers, sums, counts, units, magnitudes, is_out.any(axis=1))


def _added(blocks: Array) -> Doubles:
    """Sums over blocks as 64 invocations add them: each every 64th, then halves of them."""
    with np.errstate(over="ignore"):
        own = np.zeros((blocks.shape[0], 64), np.float32)
        for block in range(blocks.shape[1]):
            own[:, block % 64] += blocks[:, block].astype(np.float32)
        while own.shape[1] > 1:
            own = own[:, : own.shape[1] // 2] + own[:, own.shape[1] // 2 :]
    return own[:, 0].astype(np.float64)


def product(a: Array, b: Array) -> tuple[Array, npt.NDArray[np.uint8]]:
    """The products of rows of a and rows of b.

    Returns:
        FLOAT32 results, and by how many products of bytes each is certified: 6, 9, or 0 where it is not.
    """
    left, right = lines_of(a), lines_of(b)
    shape = (a.shape[0], b.shape[0])
    six, others = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    low, sampled = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for block in range(left.powers.shape[1]):
        joined = [np.zeros(shape, np.int64) for _ in range(5)]
        for p in range(3):
            for q in range(3):
                joined[p + q] += left.bytes_[p, :, block] @ right.bytes_[q, :, block].T
        scale = np.outer(left.powers[:, block], right.powers[:, block]) * 2.0**-14
        six = six + (_joined(joined[2::-1]) * scale.astype(np.float32))
        others = others + (_joined(joined[:2:-1]) * np.float32(2.0**-24)) * scale.astype(np.float32)
        of_left, of_right = left.magnitudes[:, block], right.magnitudes[:, block]
        low += of_left @ of_right.T
        some = _sample(block)
        sampled += of_left[:, some] @ of_right[:, some].T
    rounding, left_out = _errors(left, right)
    both = ~(left.is_out[:, None] | right.is_out)
    terms, blocks = a.shape[1], left.powers.shape[1]
    allowed = np.float32(min(terms, SEGMENT) + -(-terms // SEGMENT) - blocks - _SLACK)
    units = np.outer(left.units, right.units).astype(np.float32)
    by_six = both & (rounding + left_out <= _magnitudes(sampled, units) * allowed)
    by_nine = both & (rounding <= _magnitudes(low, units) * allowed)
    results = np.where(by_six, six, six + others)
    return results, np.where(by_six, 6, np.where(by_nine, 9, 0)).astype(np.uint8)


def _sample(block: int) -> Array:
    """The terms of a block whose magnitudes six products are certified by: of each 64 neighbouring ones 16."""
    numbers = np.arange(4 * block, 4 * block + 4, dtype=np.uint32)
    firsts = 64 * np.arange(4) + 16 * (numbers * np.uint32(2654435769) >> np.uint32(30)).astype(np.int64)
    terms: Array = (firsts[:, None] + np.arange(16)).ravel()
    return terms


def _joined(integers: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.float32]:
    """Sums of products of bytes, the smallest first, each 256 times what the one before it is."""
    total = integers[0].astype(np.float32)
    for further in integers[1:]:
        total = total * np.float32(1 / 256) + further.astype(np.float32)
    return total


def _magnitudes(low: npt.NDArray[np.int64], units: Array) -> npt.NDArray[np.float32]:
    return (low // 128).astype(np.float32) * np.float32(128) * units


def _errors(left: Lines, right: Lines) -> tuple[Array, Array]:
    """What rounding of operands and the products that are left out may make, in units of 2^-24."""

    def known(lines: Lines) -> dict[str, Array]:
        weighted = (lines.powers * lines.counts).astype(np.float32)
        return {
            "largest": lines.powers.max(axis=1).astype(np.float32),
            "powers": _added(lines.powers.astype(np.float32)).astype(np.float32),
            "largest_sum": lines.sums.max(axis=1).astype(np.float32),
            "sums": _added(lines.sums.astype(np.float32)).astype(np.float32),
            "weighted": _added(weighted).astype(np.float32),
        }

    def rounding(a: dict[str, Array], b: dict[str, Array]) -> Array:
        ways = (("largest", "sums"), ("powers", "largest_sum"), ("weighted", "largest"))
        least: Array = np.minimum.reduce([np.multiply.outer(a[mine], b[other]) for mine, other in ways])
        return least

    a, b = known(left), known(right)
    both = rounding(a, b) + rounding(b, a).T
    left_out = np.minimum(
        np.multiply.outer(a["weighted"], b["largest"]), np.multiply.outer(a["largest"], b["weighted"])
    )
    return both, left_out * np.float32(2.015625)
