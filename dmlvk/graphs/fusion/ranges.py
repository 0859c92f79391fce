"""What is known of the FLOAT32 numbers that flow through a fused kernel, before it runs.

Operators treat denormals as zeros and give one NaN, whatever a device does; that costs most of the instructions of a
sum or a product. Between the operators of one kernel it can often be left out, and nobody sees it: because a value
cannot be denormal or NaN at all, or because only operators read it to which all NaN, or a denormal and the zero of its
sign, are the same. This module follows magnitudes through operators as interval arithmetic does (R. E. Moore, «Interval
Analysis», 1966), on exponents; what may be left out is decided in :mod:`dmlvk.graphs.fusion.forms`.
"""

from __future__ import annotations

import dataclasses
import enum
from fractions import Fraction

_SIGN = 0x80000000
_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
SMALLEST_NORMAL = 0x00800000
SMALLEST_EXPONENT = -126
_LARGEST_EXPONENT = 127
_FRACTION_BITS = 23  # A number's last place is 2^-23 of its leading bit

_HIGHEST_BOUNDED = 30  # Numbers below 2^31 become less than 2^127 when they are multiplied by 2^96

_OUTWEIGHS_DENORMALS = -100
"""A sum with a number of 2^-100 or more is rounded to that number, whether a denormal operand is kept or flushed."""


class SpecialBits(enum.Enum):
    """What a value's bits are where they are those of a denormal, or of a NaN."""

    NOTHING = "there are none"
    ITSELF = "the operator's result, to the bit"
    STAND_IN = "a denormal stands for the zero of its sign, a NaN for the canonical one"


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers that a FLOAT32 value may be."""

    lowest: int = SMALLEST_EXPONENT  # no normal number's magnitude is below 2^lowest
    highest: int | None = None  # every magnitude is below 2^(highest + 1); ``None``: it may be infinite
    may_be_zero: bool = True  # whether a zero may be among them (a denormal counts)
    denormals: SpecialBits = SpecialBits.ITSELF  # what denormal bits are
    nans: SpecialBits = SpecialBits.ITSELF  # what the bits of NaN are
    constant: int | None = None  # the bits of the only number that it can be

    @property
    def outweighs_denormals(self) -> bool:
        """Whether a denormal makes no difference in a sum with it."""
        return not self.may_be_zero and self.lowest >= _OUTWEIGHS_DENORMALS

    def as_stored(self) -> Range:
        """When zeros and the canonical NaN have been put into the places of their stand-ins."""
        denormals = SpecialBits.NOTHING if self.denormals is SpecialBits.STAND_IN else self.denormals
        nans = SpecialBits.ITSELF if self.nans is SpecialBits.STAND_IN else self.nans
        return dataclasses.replace(self, denormals=denormals, nans=nans)

    def flushed(self) -> Range:
        """When denormals have become zeros."""
        return dataclasses.replace(self, denormals=SpecialBits.NOTHING)


ANYTHING = Range()
RESULT_OF_ARITHMETIC = Range(denormals=SpecialBits.NOTHING)
"""What an operator gives that is not merely exact: no denormals, the canonical NaN."""


def of_constant(bits: int) -> Range:
    magnitude = bits & _MAGNITUDE
    exponent = (magnitude >> _FRACTION_BITS) - 127
    is_normal = SMALLEST_NORMAL <= magnitude < _INFINITY
    return Range(
        lowest=exponent if is_normal else SMALLEST_EXPONENT,
        highest=max(exponent, SMALLEST_EXPONENT) if magnitude < _INFINITY else None,
        may_be_zero=magnitude < SMALLEST_NORMAL,
        denormals=SpecialBits.ITSELF if 0 < magnitude < SMALLEST_NORMAL else SpecialBits.NOTHING,
        nans=SpecialBits.ITSELF if magnitude > _INFINITY else SpecialBits.NOTHING,
        constant=bits,
    )


def is_number(value: Range) -> bool:
    """Whether it is a constant, and neither NaN nor infinite nor denormal."""
    return value.constant is not None and value.highest is not None and value.denormals is SpecialBits.NOTHING


def is_negative(constant: Range) -> bool:
    """Whether a constant's sign bit is set."""
    assert constant.constant is not None
    return bool(constant.constant & _SIGN)


def reciprocal_of_power(value: Range) -> int | None:
    """The bits of a constant's reciprocal, where both are normal powers of two; else ``None``."""
    if not is_number(value) or value.constant is None:
        return None
    field, fraction = value.constant >> _FRACTION_BITS & 0xFF, value.constant & (2**_FRACTION_BITS - 1)
    if fraction or not 0 < field < 254:  # 254 is that of 2^127, whose reciprocal is denormal
        return None
    return value.constant & _SIGN | (254 - field) << _FRACTION_BITS


def of_sum(a: Range, b: Range) -> Range:
    """What the device's sum or difference is, of operands without denormals, or of which one outweighs denormals.

    Numbers of at least 2^n are multiples of 2^(n-23), and so are their sums, also when they are rounded. Beside a
    number of at least 2^n that is not zero, what is less than half of it leaves at least 2^(n-1); the rest is at least
    2^(n-1), and both are multiples of 2^(n-24).
    """
    lowest = min(a.lowest, b.lowest) - _FRACTION_BITS
    lowest = max([lowest] + [one.lowest - _FRACTION_BITS - 1 for one in (a, b) if not one.may_be_zero])
    return Range(
        lowest=max(lowest, SMALLEST_EXPONENT),
        highest=_below_infinity(max(a.highest, b.highest) + 1)
        if a.highest is not None and b.highest is not None
        else None,
        denormals=SpecialBits.NOTHING if lowest >= SMALLEST_EXPONENT else SpecialBits.STAND_IN,
        nans=_nans(a, b, appear=a.highest is None and b.highest is None),
    )


def product_vanishes(a: Range, b: Range) -> bool:
    """Whether a product of numbers that are not zero may be below 2^-126."""
    return a.lowest + b.lowest < SMALLEST_EXPONENT


def is_bounded(value: Range) -> bool:
    """Whether it stays finite when it becomes 2^96 times as large."""
    return value.highest is not None and value.highest <= _HIGHEST_BOUNDED


def has_bounded_product(a: Range, b: Range) -> bool:
    """Whether a product does, and its first factor."""
    return is_bounded(a) and b.highest is not None and is_bounded(of_product(a, b))


def of_product(a: Range, b: Range) -> Range:
    """What a product is, in which denormals count as zeros, also in the result."""
    vanishes = product_vanishes(a, b)
    infinite = (a.highest is None and b.may_be_zero) or (b.highest is None and a.may_be_zero)
    return Range(
        lowest=max(a.lowest + b.lowest, SMALLEST_EXPONENT),
        highest=None if a.highest is None or b.highest is None else _below_infinity(a.highest + b.highest + 1),
        may_be_zero=a.may_be_zero or b.may_be_zero or vanishes,
        denormals=SpecialBits.NOTHING,
        nans=_nans(a, b, appear=infinite),
    )


def largest_vanishing(number: int) -> int | None:
    """The bits of the largest magnitude whose product with a number is below 2^-126 when it is rounded to 24 bits.

    Returns:
        ``None`` where the next larger magnitude's product is at least 2^-126 only because it is rounded: devices do not
        agree on that one.
    """
    factor = value_of(number & _MAGNITUDE)
    smallest_normal = value_of(SMALLEST_NORMAL)
    first_kept = SMALLEST_NORMAL  # denormals count as zeros
    above = _INFINITY
    if factor == 0:
        return first_kept - 1
    limit = smallest_normal * (1 - Fraction(1, 2**25))
    while first_kept < above:  # the first magnitude whose product does not vanish
        middle = (first_kept + above) // 2
        if value_of(middle) * factor < limit:
            first_kept = middle + 1
        else:
            above = middle
    if first_kept < _INFINITY and value_of(first_kept) * factor < smallest_normal:
        return None
    return first_kept - 1


def value_of(magnitude: int) -> Fraction:
    """The value of a magnitude's bits, a denormal's too."""
    field, fraction = magnitude >> _FRACTION_BITS, magnitude & (2**_FRACTION_BITS - 1)
    significand = fraction + 2**_FRACTION_BITS if field else fraction
    return Fraction(significand) * Fraction(2) ** (max(field, 1) - 127 - _FRACTION_BITS)


def of_larger(a: Range, bound: Range, *, larger: bool) -> Range:
    """The larger (or smaller) of a value and a constant number; of NaN and a number the number.

    What lies on the far side of the bound is left as it is, stand-ins of denormals too: they lie beside their zeros.
    """
    # Numbers on the bound's side of zero that do not reach it are replaced by it; so are all of the other side.
    keeps_away_from_zero = not bound.may_be_zero and is_negative(bound) != larger
    if keeps_away_from_zero:
        return Range(
            lowest=bound.lowest,
            highest=None if a.highest is None or bound.highest is None else max(a.highest, bound.highest),
            may_be_zero=False,
            denormals=SpecialBits.NOTHING,
            nans=SpecialBits.NOTHING,
        )
    return Range(
        lowest=min(a.lowest, bound.lowest) if not bound.may_be_zero else a.lowest,
        highest=None if a.highest is None or bound.highest is None else max(a.highest, bound.highest),
        may_be_zero=a.may_be_zero or bound.may_be_zero,
        denormals=a.denormals,
        nans=SpecialBits.NOTHING,
    )


def of_clip(a: Range, smallest: Range, largest: Range) -> Range:
    made = of_larger(of_larger(a, largest, larger=False), smallest, larger=True)
    assert smallest.highest is not None and largest.highest is not None  # they are numbers
    return dataclasses.replace(made, highest=max(smallest.highest, largest.highest))


def of_choice(a: Range, b: Range) -> Range | None:
    """One of two values; ``None`` when the bits of denormals, or of NaN, would mean one thing here, another there."""
    denormals, nans = {a.denormals, b.denormals} - {SpecialBits.NOTHING}, {a.nans, b.nans} - {SpecialBits.NOTHING}
    if len(denormals) > 1 or len(nans) > 1:
        return None
    return Range(
        lowest=min(a.lowest, b.lowest),
        highest=None if a.highest is None or b.highest is None else max(a.highest, b.highest),
        may_be_zero=a.may_be_zero or b.may_be_zero,
        denormals=denormals.pop() if denormals else SpecialBits.NOTHING,
        nans=nans.pop() if nans else SpecialBits.NOTHING,
    )


def _below_infinity(highest: int) -> int | None:
    return highest if highest <= _LARGEST_EXPONENT else None


def _nans(a: Range, b: Range, *, appear: bool) -> SpecialBits:
    return (
        SpecialBits.STAND_IN
        if appear or a.nans is not SpecialBits.NOTHING or b.nans is not SpecialBits.NOTHING
        else SpecialBits.NOTHING
    )
