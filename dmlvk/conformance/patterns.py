"""Bit patterns to feed to operators: all of them where there are few, else the special ones and a wide sweep.

Everything is deterministic. Patterns are unsigned integers of the data type's width.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.datatypes import DataType

Patterns = npt.NDArray[Any]

SIGNIFICAND_BITS = {16: 10, 32: 23, 64: 52}  # Stored bits of a float type's significand, by its width

# Odd, so that multiplying by it modulo a power of two is a permutation: counting becomes a sweep without repetitions
# over all exponents, signs and fractions. (2**bits divided by the golden ratio.)
_SWEEP_FACTOR = {32: 0x9E3779B1, 64: 0x9E3779B97F4A7C15}


def bits_dtype(data_type: DataType) -> np.dtype[Any]:
    """Unsigned integers of the data type's width."""
    return np.dtype(f"u{data_type.size_in_bytes}")


def every_pattern(data_type: DataType) -> Patterns:
    """All 256 or 65,536 patterns of an 8- or 16-bit type."""
    return np.arange(2**data_type.size_in_bits, dtype=np.uint32).astype(bits_dtype(data_type))


def special_patterns(data_type: DataType) -> Patterns:
    """The values at which operators go wrong: some 50 to 100 patterns."""
    bits = data_type.size_in_bits
    mask, sign = 2**bits - 1, 2 ** (bits - 1)
    if data_type.is_float:
        patterns = _special_floats(bits)
    else:
        powers = [2**k for k in range(bits)]
        near_powers = {power + step for power in powers for step in (-1, 0, 1)}
        stripes = [mask // 3, mask // 3 * 2, mask // 255 * 0x55, mask // 257 if bits > 8 else 0, 100, 1000, 3, 5, 7]
        patterns = [*near_powers, *stripes]
        patterns = [*patterns, *(-pattern for pattern in patterns), sign - 2, sign + 2]
    unique = sorted({pattern & mask for pattern in patterns})
    return np.array(unique, np.uint64).astype(bits_dtype(data_type))


def _special_floats(bits: int) -> list[int]:
    fraction_bits = SIGNIFICAND_BITS[bits]
    hidden, sign = 2**fraction_bits, 2 ** (bits - 1)
    infinity = sign - hidden
    one = (infinity // hidden // 2) * hidden
    positive = [0, 1, 2, 3, hidden // 2 - 1, hidden // 2, hidden - 2, hidden - 1]  # zero, denormals
    positive += [hidden, hidden + 1, 2 * hidden - 1, 2 * hidden]  # the smallest normal numbers
    positive += [one - hidden, one - 1, one, one + 1, one + hidden // 2, one + hidden, one + hidden + hidden // 2]
    positive += [infinity - hidden, infinity - 2, infinity - 1, infinity]  # the largest numbers, infinity
    positive += [infinity + hidden // 2, infinity + hidden // 2 + 1, infinity + hidden - 1]  # quiet NaN with payloads
    positive += [infinity + 1, infinity + 2, infinity + hidden // 2 - 1, infinity + hidden // 4]  # signalling NaN
    return [*positive, *(sign + pattern for pattern in positive)]


def landmark_patterns(data_type: DataType) -> Patterns:
    """The special patterns, and every power of two of a float type with its neighbours, of both signs."""
    special = special_patterns(data_type)
    if not data_type.is_float:
        return special
    hidden = 2 ** SIGNIFICAND_BITS[data_type.size_in_bits]
    sign = 2 ** (data_type.size_in_bits - 1)
    exponents = sign // hidden
    steps = 1 if exponents <= 256 else 16
    powers = [
        sign_bit + k * hidden + step for sign_bit in (0, sign) for k in range(0, exponents, steps) for step in (0, 1)
    ]
    powers += [pattern - 1 for pattern in powers if pattern > 0]
    landmarks: Patterns = np.unique(np.concatenate([special, np.array(powers, np.uint64).astype(special.dtype)]))
    return landmarks


def sweep(data_type: DataType, start: int, count: int) -> Patterns:
    """``count`` different patterns of a 32- or 64-bit type; those from ``start + count`` on are others again."""
    dtype = bits_dtype(data_type)
    numbers: Patterns = np.arange(start, start + count, dtype=dtype)
    numbers *= dtype.type(_SWEEP_FACTOR[data_type.size_in_bits])
    return numbers


def short_patterns(data_type: DataType, count: int, random: np.random.Generator) -> Patterns:
    """Numbers with few significant bits and moderate exponents, whose sums and products lie on or near ties."""
    dtype, bits = bits_dtype(data_type), data_type.size_in_bits
    if not data_type.is_float:
        widths = random.integers(1, bits + 1, count).astype(dtype)
        numbers = random.integers(0, 2**bits, count, dtype=dtype, endpoint=False) >> (dtype.type(bits) - widths)
        return np.where(random.integers(0, 2, count) == 1, dtype.type(0) - numbers, numbers)
    fraction_bits = SIGNIFICAND_BITS[bits]
    middle = 2 ** (bits - 2 - fraction_bits) - 1  # the exponent field of 1
    span = min(30, middle)
    exponents = random.integers(middle - span, middle + span, count, dtype=dtype) << dtype.type(fraction_bits)
    dropped = random.integers(0, fraction_bits + 1, count, dtype=dtype)
    fractions = (random.integers(0, 2**fraction_bits, count, dtype=dtype) >> dropped) << dropped
    signs = random.integers(0, 2, count, dtype=dtype) << dtype.type(bits - 1)
    patterns: Patterns = signs | exponents | fractions
    return patterns


def tie_patterns(data_type: DataType, random: np.random.Generator) -> Patterns:
    """Floats of [1, 4) whose last k fraction bits are 10…0 or next to it, for each k.

    Times 1 + 2**-k they lie halfway between two floats, or beside that place by just as much as a bias can make up for.
    Nothing for integers.
    """
    if not data_type.is_float:
        return np.empty(0, bits_dtype(data_type))
    fraction_bits = SIGNIFICAND_BITS[data_type.size_in_bits]
    hidden = 2**fraction_bits
    one = (2 ** (data_type.size_in_bits - 1) // hidden - 1) // 2 * hidden
    made = []
    for k in range(1, fraction_bits):
        upper = (one + random.integers(0, 2 * hidden, 8)) >> k << k
        made += [upper + 2 ** (k - 1) + step for step in (-1, 0, 1)]
    ties: Patterns = np.concatenate(made).astype(bits_dtype(data_type))
    return ties


def related_patterns(patterns: Patterns, data_type: DataType, random: np.random.Generator) -> Patterns:
    """For each pattern another operand with which arithmetic comes to its edges, and often to ties.

    Floats: of an exponent as far away as sums can feel, or one with which the product or the quotient lies near the
    smallest normal or the largest number; with few significant bits, or many. Integers: of any number of bits.
    """
    partners = short_patterns(data_type, patterns.size, random)
    if not data_type.is_float:
        return partners
    dtype, fraction_bits = patterns.dtype, SIGNIFICAND_BITS[data_type.size_in_bits]
    highest = 2 ** (data_type.size_in_bits - 1 - fraction_bits) - 1
    exponents = (patterns >> dtype.type(fraction_bits)).astype(np.int64) & highest
    step = random.integers(-2, 3, patterns.size)
    edge = random.choice([0, highest], patterns.size) + step
    near = exponents + random.integers(-fraction_bits - 3, fraction_bits + 4, patterns.size)
    middle = highest // 2
    chosen = np.choose(
        random.integers(0, 3, patterns.size), [near, edge + middle - exponents, exponents + middle - edge]
    )
    fields = np.clip(chosen, 0, highest - 1).astype(dtype) << dtype.type(fraction_bits)
    related: Patterns = (partners & ~dtype.type(highest << fraction_bits)) | fields
    return related


def partners(patterns: Patterns, data_type: DataType, random: np.random.Generator) -> Patterns:
    """For each pattern another operand.

    Equal, next to it, with one bit or the sign flipped, special, unrelated, or as :func:`related_patterns` has it.
    """
    dtype, bits = patterns.dtype, data_type.size_in_bits
    one = dtype.type(1)
    kind = random.integers(0, 12, patterns.size, dtype=np.uint8)
    result = random.integers(0, 2**bits - 1, patterns.size, dtype=dtype, endpoint=True)
    choices: dict[int, Callable[[Patterns], Patterns]] = {
        0: lambda chosen: chosen,
        1: lambda chosen: chosen + one,
        2: lambda chosen: chosen - one,
        3: lambda chosen: chosen ^ (one << random.integers(0, bits, chosen.size, dtype=dtype)),
        4: lambda chosen: chosen ^ dtype.type(2 ** (bits - 1)),
        5: lambda chosen: random.choice(special_patterns(data_type), chosen.size),
        **dict.fromkeys(range(6, 10), lambda chosen: related_patterns(chosen, data_type, random)),
    }
    for number, choice in choices.items():
        where = np.flatnonzero(kind == number)
        result[where] = choice(patterns[where])
    return result


def selector_patterns(data_type: DataType, count: int, random: np.random.Generator) -> Patterns:
    """Operands that only matter by being zero or not: half of them zero, the others every pattern of the type."""
    patterns = random.integers(1, 2**data_type.size_in_bits, count, dtype=bits_dtype(data_type), endpoint=False)
    patterns[random.integers(0, 2, count) == 1] = 0
    patterns[: 2**data_type.size_in_bits] = every_pattern(data_type)[:count]
    return patterns


def all_pairs(first: Patterns, second: Patterns) -> tuple[Patterns, Patterns]:
    a, b = np.meshgrid(first, second, indexing="ij")
    return a.reshape(-1), b.reshape(-1)


def blocks(total: int, size: int) -> list[tuple[int, int]]:
    """(start, count) of consecutive blocks of at most ``size``."""
    edges = [*range(0, total, size), total]
    return [(start, end - start) for start, end in itertools.pairwise(edges)]
