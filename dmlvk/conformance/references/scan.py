"""What running sums and products must be: exact ones of fractions and integers, prefix by prefix."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.reduction import spacing
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import arithmetic_values

Array = npt.NDArray[Any]


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def sums_of(numbers: Sequence[float]) -> list[tuple[float, float]]:
    """The sums before each number and that of all, with what they may be off but for the last rounding."""
    total, magnitudes, special = Fraction(0), Fraction(0), 0.0
    found = [(0.0, 0.0)]
    for number in numbers:
        if math.isfinite(number):
            total += Fraction(number)
            magnitudes += abs(Fraction(number))
        else:
            special += number
        is_special = special != 0 or math.isnan(special)
        found.append((special, 0.0) if is_special else (_nearest(total), 2.0**-39 * _nearest(magnitudes)))
    return found


def products_of(numbers: Sequence[float]) -> list[tuple[float, float]]:
    """The products before each number and that of all, likewise."""
    significand, exponent, special = Fraction(1), 0, 1.0
    found = [(1.0, 0.0)]
    for count, number in enumerate(numbers, 1):
        special *= number if not math.isfinite(number) else math.copysign(0.0 if number == 0 else 1.0, number)
        if math.isfinite(number) and number != 0:
            # Only 200 bits are kept, of which no result has a share.
            fraction, own = math.frexp(abs(number))
            significand *= Fraction(fraction)
            exponent += own
            top = significand.numerator.bit_length() - significand.denominator.bit_length()
            kept = math.floor(significand * Fraction(2) ** (200 - top))
            significand, exponent = Fraction(kept, 2**200), exponent + top
        if not math.isfinite(special) or special == 0:
            found.append((special, 0.0))
            continue
        size = _nearest(significand * Fraction(2) ** exponent) if -400 < exponent < 400 else math.inf * (exponent > 0)
        size = 0.0 if math.isnan(size) else size
        found.append((math.copysign(size, special), size * count * 2.0**-45))
    return found


def _of_integers(row: Sequence[int], bits: int, is_product: bool) -> list[int]:
    if is_product:
        return list(itertools.accumulate(row, lambda total, number: total * number % 2**bits, initial=1))
    return list(itertools.accumulate(row, lambda total, number: (total + number) % 2**bits, initial=0))


def _scanned(
    desc: dml.CumulativeProduct | dml.CumulativeSummation, x: Array, is_product: bool, is_exclusive: bool
) -> Expected:
    is_reversed = desc.axis_direction is dml.AxisDirection.DECREASING
    moved = np.moveaxis(x, desc.axis, -1)
    moved = moved[..., ::-1] if is_reversed else moved
    rows = moved.reshape(-1, moved.shape[-1])
    part = slice(0, -1) if is_exclusive else slice(1, None)

    def placed(values: Array) -> Array:
        shaped = values.reshape(moved.shape)
        return np.ascontiguousarray(np.moveaxis(shaped[..., ::-1] if is_reversed else shaped, -1, desc.axis))

    if x.dtype.kind != "f":
        bits = 8 * x.dtype.itemsize
        found = [_of_integers(row.tolist(), bits, is_product)[part] for row in rows]
        return placed(np.array(found, f"u{x.dtype.itemsize}").view(x.dtype))
    prefixes = products_of if is_product else sums_of
    pairs = np.array([prefixes([float(number) for number in row])[part] for row in arithmetic_values(rows)], np.float64)
    values, errors = pairs[..., 0], pairs[..., 1]
    ulps = 0.5 + (2.0**-12 if x.dtype == np.float16 else 0.0)
    smallest = 2.0**-126 if x.dtype == np.float32 else 0.0
    flushed = np.where(np.abs(values) < smallest, np.abs(values), 0.0)
    return Bounded(placed(values), placed(errors + ulps * spacing(values, x.dtype) + flushed))


@reference("CUMULATIVE_SUMMATION")
def summation(desc: dml.CumulativeSummation, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Exact sums."""
    return {"OutputTensor": _scanned(desc, inputs["InputTensor"], False, desc.has_exclusive_sum)}


@reference("CUMULATIVE_PRODUCT")
def product(desc: dml.CumulativeProduct, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Products of 200 bits, with exponents of any size."""
    return {"OutputTensor": _scanned(desc, inputs["InputTensor"], True, desc.has_exclusive_product)}
