#!/usr/bin/env python3
"""Makes the rows of coefficients that shaders read (dmlvk/kernels/library/coefficients.bin).

    python scripts/make_coefficients.py           write them
    python scripts/make_coefficients.py --check   say whether they are what this makes; for tests

A function that would take a hundred instructions is a short polynomial in each of a few thousand intervals. Its row
holds, for a point of the interval, the function and what is needed of its derivatives. Where the rows of each function
begin, shaders/include/coefficients.glsl says. Most rows are those of S. Gal and B. Bachelis, «An accurate elementary
mathematical library for the IEEE floating point standard» (1991): their point is one at which the function is a
float32, as good as, so that one word holds it. All numbers come from the decimal module, whose results do not depend
on the machine.

Exit status: 0 done, 1 --check found other numbers, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import dataclasses
import decimal
import functools
import itertools
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

TARGET = Path(__file__).resolve().parent.parent / "dmlvk" / "kernels" / "library" / "coefficients.bin"

DIGITS = 50  # Of the decimal numbers: derivatives are differences of functions, which takes most of them

INTERVALS = 128  # In an interval of length 1, or from a power of two to the next

CLOSENESS = 2.0**-8  # How far from a float32 a function may be at an interval's point, in units in the last place

Row = tuple[Decimal, Decimal, Decimal, Decimal]
Pair = tuple[Decimal, Decimal]
Float64Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Smooth:
    exact: Callable[[Decimal], Decimal]  # it, to about as many digits as decimal numbers have
    approximate: Callable[[Float64Array], Float64Array]  # it to 2^-40 of itself or better, for arrays


def float32(value: Decimal) -> float:
    """The nearest float32, by way of float64."""
    return float(np.float32(float(value)))


def series(first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """A sum of terms that become small, each the one before times the ratio for its number."""
    total = term = first
    number = 0
    while term != 0 and abs(term) > abs(total).scaleb(-DIGITS - 5):
        number += 1
        term *= ratio(number)
        total += term
    return total


@functools.cache
def pi() -> Decimal:
    """By J. Machin's formula: 16 arctan(1/5) - 4 arctan(1/239)."""

    def arc_tangent_of_inverse(n: int) -> Decimal:
        square = n * n
        return sum((Decimal((-1) ** k) / ((2 * k + 1) * n * Decimal(square) ** k) for k in range(60)), Decimal(0))

    return 16 * arc_tangent_of_inverse(5) - 4 * arc_tangent_of_inverse(239)


def density(x: Decimal) -> Decimal:
    return (-x * x / 2).exp() / (2 * pi()).sqrt()


def probability_below(x: Decimal) -> Decimal:
    """Of the normal distribution: 1/2 + density * (x + x^3 / 3 + x^5 / (3 * 5) + ...).

    Source: M. Abramowitz, I. Stegun, «Handbook of Mathematical Functions», 26.2.11.
    """
    return Decimal("0.5") + density(x) * series(x, lambda number: x * x / (2 * number + 1))


def inverse_hyperbolic_cosine(z: Decimal) -> Decimal:
    """Of 1 + z."""
    x = 1 + z
    return (x + (x * x - 1).sqrt()).ln()


def inverse_hyperbolic_sine(x: Decimal) -> Decimal:
    """ln(x + sqrt(x^2 + 1))."""
    return (x + (x * x + 1).sqrt()).ln()


def inverse_tangent(x: Decimal) -> Decimal:
    """8 times an eighth of the angle, whose tangent is found by halving three times, by the series of arctan.

    The tangent of half an angle is t / (1 + sqrt(1 + t^2)).
    """
    for _ in range(3):
        x /= 1 + (1 + x * x).sqrt()
    square = x * x
    return 8 * series(x, lambda number: -square * (2 * number - 1) / (2 * number + 1))


def inverse_hyperbolic_tangent(x: Decimal) -> Decimal:
    """(ln(1 + x) - ln(1 - x)) / 2."""
    return ((1 + x) / (1 - x)).ln() / 2


def tangent(x: Decimal) -> Decimal:
    """The sine over the cosine."""
    square = x * x
    sine = series(x, lambda number: -square / (2 * number * (2 * number + 1)))
    return sine / series(Decimal(1), lambda number: -square / (2 * number * (2 * number - 1)))


ACOSH = Smooth(inverse_hyperbolic_cosine, lambda z: np.log1p(z + np.sqrt(z * (z + 2))))
ASINH = Smooth(inverse_hyperbolic_sine, np.arcsinh)
ATAN = Smooth(inverse_tangent, np.arctan)
ATANH = Smooth(inverse_hyperbolic_tangent, np.arctanh)
ATANH_BELOW_ONE = Smooth(
    lambda gap: inverse_hyperbolic_tangent(1 - gap), lambda gap: 0.5 * (np.log(2 - gap) - np.log(gap))
)
SOFTPLUS_OF_NEGATIVE = Smooth(lambda a: (1 + (-a).exp()).ln(), lambda a: np.log1p(np.exp(-a)))
TAN = Smooth(tangent, np.tan)
TANH = Smooth(lambda x: 1 - 2 / ((2 * x).exp() + 1), np.tanh)
COMPLEMENT = Smooth(lambda x: 1 - (-x).exp(), lambda x: -np.expm1(-x))
COTANGENT = Smooth(lambda x: 1 / tangent(x), lambda x: 1 / np.tan(x))


def gelu_rows() -> Iterator[Row]:
    """At multiples c of 2^-7 from -13.5 to 8: what the normal distribution is made of.

    The probability of values below c is in two words, the first one of 12 bits; its density and (c^2 - 1) / 6 follow.
    Below -8, where it may be a denormal, the probability is multiplied by 2^64, and so is the density.
    """
    for number in range(round(-13.5 * INTERVALS), 8 * INTERVALS + 1):
        c = Decimal(number) / INTERVALS
        scale = 2**64 if c < -8 else 1
        probability = probability_below(c) * scale
        mantissa, exponent = np.frexp(float(probability))
        head = Decimal(float(np.ldexp(np.round(mantissa * 2**12), int(exponent) - 12)))
        yield head, probability - head, density(c) * scale, (c * c - 1) / 6


def power_pairs(exponent: int, range_of_powers: int) -> Iterator[Pair]:
    """At multiples -c of 2^-5 from 0 on: the number of 9 bits that is nearest to e^-c * 2^exponent, and how far its
    logarithm lies beyond the multiple. Then zeros.
    """
    for number in range(range_of_powers * 32 + 4):
        power = (Decimal(-number) / 32).exp() * 2**exponent
        mantissa, power_of_two = np.frexp(float(power))
        head = Decimal(float(np.ldexp(np.round(mantissa * 2**9), int(power_of_two) - 9)))
        yield head, (head / power).ln()
    yield from [(Decimal(0), Decimal(0))] * 40


def rows_by_powers(function: Smooth, first_power: int, end_power: int, intervals: int = INTERVALS) -> Iterator[Row]:
    """From each power of two to the next equal intervals."""
    for power in range(first_power, end_power):
        yield from rows_between(function, 2.0**power, 2.0 ** (power + 1), intervals)


def rows_between(function: Smooth, first: float, end: float, count: int) -> Iterator[Row]:
    """The rows of equal intervals."""
    width = (end - first) / count
    for number in range(count):
        yield row(function, first + (number + 0.5) * width, width)


def row(function: Smooth, middle: float, width: float) -> Row:
    """A point, the function there, and the line and the square that are nearest to the difference around it.

    Raises:
        ValueError: there is no float32 in the middle of the interval at which the function is nearly a float32.
    """
    for steps in np.split(_STEPS, _SPLITS):
        points = middle + steps * float(np.spacing(np.float32(middle)))
        points = points[np.abs(points - middle) < 0.45 * width]
        values = function.approximate(points)
        rounded = values.astype(np.float32)
        likely = np.abs(values - rounded) < 1.01 * CLOSENESS * np.spacing(rounded)
        for point, nearest in zip(points[likely].tolist(), rounded[likely].tolist(), strict=True):
            c, value = Decimal(point), Decimal(nearest)
            if abs(function.exact(c) - value) < Decimal(CLOSENESS * float(np.spacing(np.float32(nearest)))):
                return c, value, *line_and_square(function.exact, c, Decimal(width) / 2)
    raise ValueError(f"no point near {middle} at which the function is nearly a float32")


_STEPS = np.array(sorted(range(-30000, 30001), key=abs), dtype=np.float64)
_SPLITS = [500, 4000]


def line_and_square(exact: Callable[[Decimal], Decimal], c: Decimal, half: Decimal) -> tuple[Decimal, Decimal]:
    """What the function adds to its value at a point: the first terms of its Taylor series.

    The line has of the cubic term what a line can have: 3/4 of that term at the interval's ends.
    """
    step = half.scaleb(-10)  # the differences are wrong by 10^-20 of themselves
    below_2, below, value, above, above_2 = (exact(c + step * number) for number in range(-2, 3))
    slope = (8 * (above - below) - (above_2 - below_2)) / (12 * step)
    second = (16 * (above + below) - (above_2 + below_2) - 30 * value) / (12 * step * step)
    third = (above_2 - below_2 - 2 * (above - below)) / (2 * step**3)
    return slope + Decimal("0.75") * half * half * third / 6, second / 2


ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "GELU": gelu_rows,
    "ACOSH": lambda: rows_by_powers(ACOSH, -8, 13),
    "ATANH": lambda: rows_by_powers(ATANH, -7, -1),
    "ATANH_BELOW_ONE": lambda: rows_by_powers(ATANH_BELOW_ONE, -24, -1),
    "SOFTPLUS": lambda: rows_between(SOFTPLUS_OF_NEGATIVE, 0.0, 20.0, 20 * INTERVALS),
    "TAN": lambda: rows_by_powers(TAN, -7, 0, 2 * INTERVALS),
    "COTANGENT": lambda: rows_by_powers(COTANGENT, -7, 0, 2 * INTERVALS),
    "TANH": lambda: itertools.chain(rows_by_powers(TANH, -8, 2), rows_between(TANH, 4.0, 4.5, INTERVALS // 8)),
    "COMPLEMENT": lambda: rows_by_powers(COMPLEMENT, -13, 3),
    "ASINH": lambda: rows_by_powers(ASINH, -7, 13),
    "ATAN": lambda: rows_by_powers(ATAN, -7, 13),
}
"""What the file holds, in order."""

PAIRS: dict[str, Callable[[], Iterator[Pair]]] = {"LOGARITHM_TERM": lambda: power_pairs(90, 130)}
"""What follows: of 8 bytes each, not 16, for functions whose other coefficients are the same in all intervals."""


def contents() -> bytes:
    """The file: all rows and then all pairs, in float32 with the least significant byte first."""
    made = bytearray()
    with decimal.localcontext() as context:
        context.prec = DIGITS + 20
        for make in ROWS.values():
            for values in make():
                made += struct.pack("<4f", *map(float32, values))
        for make_pairs in PAIRS.values():
            for pair in make_pairs():
                made += struct.pack("<2f", *map(float32, pair))
    return bytes(made)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing: compare")
    arguments: Any = parser.parse_args(argv)
    made = contents()
    if not arguments.check:
        TARGET.write_bytes(made)
    elif TARGET.read_bytes() != made:
        print(f"{TARGET.name} is not what scripts/make_coefficients.py makes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
