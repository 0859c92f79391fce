"""Exact arithmetic that is rounded once: the ground that the reference functions stand on.

Nothing here works on bits as the shaders do. Floats are Python's and NumPy's float64 (IEEE 754 on every machine that
runs these tests), used only where an operation is exact or its error is known exactly; scalars are Fractions.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format."""

    precision: int  # bits of the significand, the hidden one included
    lowest_exponent: int  # of the smallest normal number, which is 2 to its power
    highest_exponent: int  # of the largest finite numbers, which are below 2 to the power of one more
    canonical_nan: int  # bits of the quiet NaN that arithmetic produces
    dtype: np.dtype[Any]  # NumPy's

    @property
    def bits_dtype(self) -> np.dtype[Any]:
        """Unsigned integers of the same width."""
        return np.dtype(f"u{self.dtype.itemsize}")


FLOAT32 = FloatFormat(24, -126, 127, 0x7FC00000, np.dtype(np.float32))
FLOAT16 = FloatFormat(11, -14, 15, 0x7E00, np.dtype(np.float16))


def float_format(dtype: npt.DTypeLike) -> FloatFormat:
    """The format of float32 or float16."""
    return {FLOAT32.dtype: FLOAT32, FLOAT16.dtype: FLOAT16}[np.dtype(dtype)]


def widened(values: npt.NDArray[Any]) -> Float64Array:
    """Floats as float64, which holds every float32 and float16 exactly, as a normal number; every NaN as a quiet one.

    The conversion may leave a NaN signalling, and what a function makes of that depends on the processor and on
    NumPy's version: 1 to the power of a signalling NaN is 1 here and NaN there.
    """
    with np.errstate(invalid="ignore"):  # signalling NaN
        numbers = values.astype(np.float64)
        numbers[np.isnan(numbers)] = np.nan
    return numbers


def arithmetic_values(values: npt.NDArray[Any]) -> Float64Array:
    """Floats as float64 as arithmetic takes them: float32 denormals count as zeros of their sign."""
    numbers = widened(values)
    if values.dtype != np.float32:
        return numbers
    return np.where(np.abs(numbers) < 2.0**-126, np.copysign(0.0, numbers), numbers)


def half_ulp(values: Float64Array, dtype: np.dtype[Any]) -> Float64Array:
    """Half a unit in the last place of each value; FLOAT32 results below the smallest normal number are zeros."""
    with np.errstate(over="ignore", invalid="ignore"):
        clipped = np.minimum(np.abs(np.nan_to_num(values)), float(np.finfo(dtype).max))
        # Rounded down, so that the place of a value just below a power of two is not taken for the next one's.
        spacing = np.spacing(clipped.astype(dtype)).astype(np.float64)
    lost = 2.0**-126 if dtype == np.float32 else 0.0
    return np.where(clipped < 2.0**-126, np.maximum(lost, spacing / 2), spacing / 2)


def arithmetic_value(value: Any) -> float:
    """A float32 as arithmetic takes it: a denormal is a zero of its sign."""
    number = float(value)
    return math.copysign(0.0, number) if abs(number) < 2.0**-126 else number


def round_fraction(value: Fraction, target: FloatFormat) -> Fraction | None:
    """The number of a format nearest to ``value``, ties to even, denormals included; ``None`` where that overflows."""
    if value == 0:
        return value
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, target.lowest_exponent) - target.precision + 1)
    rounded = round(value / unit) * unit  # Python rounds a Fraction's halves to even
    return None if abs(rounded) >= Fraction(2) ** (target.highest_exponent + 1) else rounded


def nearest_number(exact: Fraction, target: FloatFormat) -> float:
    """The number of a format nearest to a fraction, ties to even; below FLOAT32's normal numbers a zero of its sign."""
    is_float32 = target is FLOAT32
    rounded = round_fraction(exact, dataclasses.replace(target, lowest_exponent=-(2**16)) if is_float32 else target)
    number = math.copysign(math.inf if rounded is None else abs(float(rounded)), -1 if exact < 0 else 1)
    return arithmetic_value(number) if is_float32 else number


def sum_to_odd(first: Float64Array, second: Float64Array | float) -> Float64Array:
    """``first + second`` in float64, rounded to odd where it is not exact.

    An inexact sum becomes that one of its two float64 neighbours whose last bit is 1. From it, rounding to a format of
    at most 51 bits gives what rounding the exact sum would give (S. Boldo, G. Melquiond, «Emulation of a FMA and
    correctly rounded sums», 2008): no tie and no number of that format is ever met or crossed by the first rounding.
    The sum's error is known exactly (D. Knuth's two-sum). Infinities, NaN and signs of zero are those of IEEE 754.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        total = first + second
        second_part = total - first
        error = (first - (total - second_part)) + (second - second_part)
        is_even = (total.view(np.int64) & 1) == 0
        towards = np.where(error > 0, np.inf, -np.inf)
        inexact = np.isfinite(total) & (error != 0) & is_even
        return np.where(inexact, np.nextafter(total, towards), total)


def round_to_format(values: Float64Array, target: FloatFormat, *, denormals_are_zero: bool) -> npt.NDArray[Any]:
    """Float64 rounded to a narrower format, to nearest even; NaN becomes the canonical one.

    Args:
        denormals_are_zero: whether a result whose magnitude, rounded to the format's precision, is below its smallest
            normal number becomes a zero of its sign.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.where(np.isfinite(values), values, 0.0)
        exponents = np.frexp(finite)[1] - 1
        lowest = target.lowest_exponent - int(denormals_are_zero)
        units = np.maximum(exponents, lowest) - (target.precision - 1)
        rounded = np.ldexp(np.rint(np.ldexp(finite, -units)), units)
        rounded = np.where(
            np.abs(rounded) >= 2.0 ** (target.highest_exponent + 1), np.copysign(np.inf, rounded), rounded
        )
        if denormals_are_zero:
            rounded = np.where(np.abs(rounded) < 2.0**target.lowest_exponent, np.copysign(0.0, rounded), rounded)
        rounded = np.where(np.isfinite(values), rounded, values)
        narrow = rounded.astype(target.dtype)  # exact
    bits = narrow.view(target.bits_dtype)
    bits[np.isnan(rounded)] = target.canonical_nan
    return narrow


def truncated_affine(values: Int64Array, scale: float, bias: float, lowest: int, highest: int) -> Int64Array:
    """``values * scale + bias``, exactly, truncated toward zero and saturated; NaN gives 0.

    Args:
        values: integers of at most 33 bits.
        scale: any float32.
        bias: any float32.
        lowest: lower bound of the result, at least -2**32.
        highest: upper bound of the result, at most 2**32.
    """
    if not (math.isfinite(scale) and math.isfinite(bias)):
        return _special_affine(values, scale, bias, lowest, highest)
    slope, offset = Fraction(scale), Fraction(bias)
    if slope == 0:
        return np.full(values.shape, min(max(math.trunc(offset), lowest), highest), np.int64)
    # Where |slope * x + offset| <= 2**33, the integer part is right modulo 2**64; elsewhere the bounds decide.
    result = _truncated_modulo(values, slope, offset)
    for bound, beyond in ((lowest, -1), (highest, 1)):
        crossing = (bound - offset) / slope  # x at which the line meets the bound
        above = (slope > 0) == (beyond > 0)
        limit = math.ceil(crossing) if above else math.floor(crossing)
        limit = min(max(limit, -(2**62)), 2**62)
        result = np.where(values >= limit if above else values <= limit, bound, result)
    return result


def _truncated_modulo(values: Int64Array, slope: Fraction, offset: Fraction) -> Int64Array:
    """``trunc(values * slope + offset)`` modulo 2**64."""
    whole_offset = math.floor(offset)
    rest = offset - whole_offset  # 0 <= rest < 1
    shift = slope.denominator.bit_length() - 1  # slope = numerator / 2**shift
    if shift == 0:
        whole = (values.view(np.uint64) * _modulo(slope.numerator)).view(np.int64)
        carries, exact = np.zeros(values.shape, np.bool_), np.full(values.shape, rest == 0)
    else:
        products = values * np.int64(slope.numerator)  # below 2**57: the numerator has 24 bits
        whole = products >> min(shift, 63)  # the floor of values * slope; what is left is products - whole * 2**shift
        carries = _is_left(products, whole, shift, (1 - rest) * 2**shift, at_least=True)
        exact = _is_left(products, whole, shift, (1 - rest) * 2**shift if rest else Fraction(0), at_least=False)
    total = (whole.view(np.uint64) + _modulo(whole_offset)).view(np.int64) + carries
    return total + ((total < 0) & ~exact)  # from the floor toward zero


def _modulo(number: int) -> npt.NDArray[np.uint64]:
    return np.array(number % 2**64, np.uint64)


def _is_left(
    products: Int64Array, whole: Int64Array, shift: int, number: Fraction, *, at_least: bool
) -> npt.NDArray[np.bool_]:
    """Whether ``products - whole * 2**shift`` is equal to ``number``, or at least that.

    From a shift of 63 on, ``whole`` is -1 or 0 and the shifted number would not fit.
    """
    if shift < 63:
        return _compare(products - (whole << shift), number, at_least)
    return np.where(whole < 0, _compare(products, number - 2**shift, at_least), _compare(products, number, at_least))


def _compare(values: Int64Array, number: Fraction, at_least: bool) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_]
    if at_least:
        result = values >= min(max(math.ceil(number), -(2**62)), 2**62 + 1)
    elif number.denominator != 1 or abs(number) > 2**62:
        result = np.zeros(values.shape, np.bool_)
    else:
        result = values == number.numerator
    return result


def _special_affine(values: Int64Array, scale: float, bias: float, lowest: int, highest: int) -> Int64Array:
    """The same where scale or bias is infinite or NaN: a handful of cases, by the sign of x."""
    result = np.zeros(values.shape, np.int64)
    for sign in (-1, 0, 1):
        total = sign * scale + bias
        if math.isnan(scale) or math.isnan(bias) or math.isnan(total):
            value = 0
        elif math.isinf(total):
            value = highest if total > 0 else lowest
        else:
            raise AssertionError(f"{scale} and {bias} are finite")
        result[np.sign(values) == sign] = value
    return result
