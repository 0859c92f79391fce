"""Inputs for powers: pairs whose results are numbers, near the edges of their type, near 1, and all special ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance import patterns
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]


def special_pairs(base_type: DataType, exponent_type: DataType) -> tuple[Array, Array]:
    """Every special base, and those next to powers of two, with every special exponent and with small ones."""
    exponents = np.unique(np.concatenate([patterns.special_patterns(exponent_type), _small_exponents(exponent_type)]))
    bases = patterns.special_patterns(base_type)
    if not base_type.is_float:
        bases = np.unique(np.concatenate([bases, _patterns(np.arange(-20.0, 21.0), base_type)]))
    return _values(patterns.all_pairs(bases, exponents), base_type, exponent_type)


def all_pairs(base_type: DataType, exponent_type: DataType) -> tuple[Array, Array]:
    """Every pair, of types of 8 bits."""
    pairs = patterns.all_pairs(patterns.every_pattern(base_type), patterns.every_pattern(exponent_type))
    return _values(pairs, base_type, exponent_type)


def random_pairs(
    base_type: DataType, exponent_type: DataType, total: int, random: np.random.Generator
) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """``total`` pairs, in several batches."""
    count = max(total // 4, 1)
    for name, make in (
        ("any bits", _any_bits),
        ("results of all sizes", _spread),
        ("results near the edges", _near_edges),
        ("bases near 1, few bits", _plain),
    ):
        yield name, _values(make(base_type, exponent_type, count, random), base_type, exponent_type)


def _small_exponents(data_type: DataType) -> Array:
    step = 0.25 if data_type.is_float else 1.0
    return _patterns(np.arange(-8.0, 40.0, step), data_type)


def _patterns(values: Float64Array, data_type: DataType) -> Array:
    """Numbers in a data type: rounded, or truncated and saturated; none is NaN."""
    if not data_type.is_float:
        limits = np.iinfo(data_type.numpy_dtype)
        values = np.clip(np.trunc(values), limits.min, limits.max).astype(np.int64)
    with np.errstate(over="ignore"):
        made: Array = values.astype(data_type.numpy_dtype)
    return made.view(patterns.bits_dtype(data_type))


def _values(pair: tuple[Array, Array], base_type: DataType, exponent_type: DataType) -> tuple[Array, Array]:
    return pair[0].view(base_type.numpy_dtype), pair[1].view(exponent_type.numpy_dtype)


def _random_bits(data_type: DataType, count: int, random: np.random.Generator) -> Array:
    return random.integers(0, 2**data_type.size_in_bits, count, patterns.bits_dtype(data_type))


def _any_bits(base_type: DataType, exponent_type: DataType, count: int, random: np.random.Generator) -> Any:
    return _random_bits(base_type, count, random), _random_bits(exponent_type, count, random)


def _bases(data_type: DataType, count: int, random: np.random.Generator) -> Array:
    """Numbers of all sizes, a quarter of those below zero that there are."""
    if data_type.is_float:
        lowest = 2.0 ** (-14 if data_type.size_in_bits == 16 else -126)
        bits = _random_bits(data_type, count, random)
        with np.errstate(invalid="ignore"):
            numbers = np.abs(bits.view(data_type.numpy_dtype).astype(np.float64))
        numbers = np.where((numbers >= lowest) & np.isfinite(numbers), numbers, 1.5)
        signs = np.where(random.integers(0, 4, count) == 0, -1.0, 1.0)
        return _patterns(numbers * signs, data_type)
    # Integers of all lengths: shifted by a random number of places, signs included.
    dtype = data_type.numpy_dtype
    numbers = _random_bits(data_type, count, random).view(dtype)
    shifted: Array = numbers >> random.integers(0, data_type.size_in_bits, count).astype(dtype)
    return shifted.view(patterns.bits_dtype(data_type))


def _exponents_for(bases: Array, base_type: DataType, exponent_type: DataType, logarithms: Float64Array) -> Array:
    """Exponents with which bases give results of these natural logarithms, as nearly as their type allows."""
    numbers = np.abs(bases.view(base_type.numpy_dtype).astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = logarithms / np.log(numbers)
    exponents = np.where(np.isfinite(exponents), exponents, 1.0)
    return _patterns(exponents, exponent_type)


def _range_of(data_type: DataType) -> tuple[float, float]:
    """Logarithms of the least and the greatest results."""
    if data_type.is_float:
        bits = {16: (-24, 16), 32: (-126, 128)}[data_type.size_in_bits]
        return bits[0] * float(np.log(2)), bits[1] * float(np.log(2))
    return -0.7, float(np.log(np.iinfo(data_type.numpy_dtype).max))


def _spread(base_type: DataType, exponent_type: DataType, count: int, random: np.random.Generator) -> Any:
    bases = _bases(base_type, count, random)
    low, high = _range_of(base_type)
    return bases, _exponents_for(bases, base_type, exponent_type, random.uniform(low * 1.02, high * 1.02, count))


def _near_edges(base_type: DataType, exponent_type: DataType, count: int, random: np.random.Generator) -> Any:
    bases = _bases(base_type, count, random)
    edges = random.choice(_range_of(base_type), count) + random.uniform(-0.03, 0.03, count)
    return bases, _exponents_for(bases, base_type, exponent_type, edges)


def _plain(base_type: DataType, exponent_type: DataType, count: int, random: np.random.Generator) -> Any:
    """Bases next to 1 (or to squares) with exponents that make much of them; numbers of few bits, with exact powers."""
    low, high = _range_of(base_type)
    half = count // 2
    if base_type.is_float:
        near = _patterns(1.0 + random.choice((-1, 1), half) * 2.0 ** random.uniform(-23, -3, half), base_type)
    else:
        roots = random.integers(0, 2 ** (base_type.size_in_bits // 2), half)
        near = _patterns((roots * roots + random.integers(-1, 2, half)).astype(np.float64), base_type)
    far = _exponents_for(near, base_type, exponent_type, random.uniform(low, high, half))
    short = patterns.short_patterns(base_type, count - half, random)
    small = random.choice(_small_exponents(exponent_type), count - half)
    roots_too = np.where(random.integers(0, 2, half) == 0, far, random.choice(_small_exponents(exponent_type), half))
    return np.concatenate([near, short]), np.concatenate([roots_too, small])
