"""What the operators of arithmetic must give: exact numbers, rounded once.

Floats become float64, where products of two are exact and sums are rounded to odd; quotients and square roots may be
rounded twice, because 53 bits are more than twice 24 (S. Figueroa, «When is double rounding innocuous?», 1995).
Integers are NumPy's, which wrap, and give 0 where they are divided by zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import REFERENCES, fused_operator, reference
from dmlvk.conformance.references.rounding import (
    Float64Array,
    arithmetic_values,
    float_format,
    round_to_format,
    sum_to_odd,
)
from dmlvk.conformance.references.scaling import prescaled

Array = npt.NDArray[Any]


def rounded_as(x: Array, numbers: Float64Array) -> Array:
    """Numbers rounded to the float type of ``x``; FLOAT32 denormals become zeros of their sign."""
    return round_to_format(numbers, float_format(x.dtype), denormals_are_zero=x.dtype == np.float32)


@reference("ELEMENT_WISE_ADD")
def add(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """Rounded to odd, then to the type."""
    return rounded_as(a, sum_to_odd(arithmetic_values(a), arithmetic_values(b))) if a.dtype.kind == "f" else a + b


@reference("ELEMENT_WISE_SUBTRACT")
def subtract(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """The sum with the negated operand."""
    return rounded_as(a, sum_to_odd(arithmetic_values(a), -arithmetic_values(b))) if a.dtype.kind == "f" else a - b


@reference("ELEMENT_WISE_MULTIPLY")
def multiply(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """Exact in float64."""
    if a.dtype.kind != "f":
        wrapped: Array = a * b
        return wrapped
    with np.errstate(invalid="ignore"):
        return rounded_as(a, arithmetic_values(a) * arithmetic_values(b))


@reference("ELEMENT_WISE_DIVIDE")
def divide(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """Floats in float64. Integers: NumPy's floored quotient, and one more where it was not exact and is negative."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if a.dtype.kind == "f":
            return rounded_as(a, arithmetic_values(a) / arithmetic_values(b))
        quotient, remainder = np.divmod(a, b)
    is_negative = (a < 0) != (b < 0)
    truncated: Array = quotient + (is_negative & (remainder != 0)).astype(a.dtype)
    return truncated


@reference("ELEMENT_WISE_MEAN")
def mean(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """Half of the sum in wider types; NumPy's fmod is the remainder that truncation leaves."""
    if a.dtype.kind == "f":
        return rounded_as(a, sum_to_odd(arithmetic_values(a), arithmetic_values(b)) * 0.5)
    total = a.astype(np.int64) + b
    whole: Array = (total - np.fmod(total, 2)) // 2
    return whole.astype(a.dtype)


@reference("ELEMENT_WISE_DIFFERENCE_SQUARE")
def difference_square(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """FLOAT32 in two steps. FLOAT16 at once: see :func:`_exact_difference_square`."""
    if a.dtype.kind != "f":
        square: Array = (a - b) ** 2
        return square
    with np.errstate(invalid="ignore", over="ignore"):
        if a.dtype == np.float16:
            return rounded_as(a, _exact_difference_square(arithmetic_values(a), arithmetic_values(b)))
        difference = arithmetic_values(subtract(desc, a, b))
        return rounded_as(a, difference * difference)


def _exact_difference_square(a: Float64Array, b: Float64Array) -> Float64Array:
    """The square of a difference of FLOAT16 values, rounded to odd at 2**-24 or below.

    The difference is an integer of 41 bits in units of 2**-24; from 2**9 on every square overflows. The integer is
    squared in two parts of 20 bits.
    """
    difference = np.abs(a - b)  # exact
    bounded = np.where(np.isfinite(difference), np.minimum(difference, 2.0**9), 0.0)
    high, low = np.divmod((bounded * 2.0**24).astype(np.int64), 2**20)
    ending = low * low
    square = ((high * high) << 20) + 2 * high * low + (ending >> 20)  # below 2**47, in units of 2**-28
    square |= ((ending & (2**20 - 1)) != 0).astype(np.int64)
    return np.where(np.isfinite(difference), square * 2.0**-28, difference)


@reference("ELEMENT_WISE_MODULUS_TRUNCATE")
def modulus_truncate(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """NumPy's fmod, which is exact in float64."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if a.dtype.kind != "f":
            return np.fmod(a, b)
        return rounded_as(a, np.fmod(arithmetic_values(a), arithmetic_values(b)))


@reference("ELEMENT_WISE_MODULUS_FLOOR")
def modulus_floor(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """Integers: NumPy's remainder. Floats: fmod, and once the divisor where that is of the other sign."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if a.dtype.kind != "f":
            return np.remainder(a, b)
        remainder, divisor = np.fmod(arithmetic_values(a), arithmetic_values(b)), arithmetic_values(b)
        differs = (remainder != 0) & (np.signbit(remainder) != np.signbit(divisor))
        total = np.where(differs, sum_to_odd(remainder, divisor), np.copysign(remainder, divisor))
    return rounded_as(a, total)


@reference("ELEMENT_WISE_RECIP")
def recip(desc: dml.ElementWiseRecip, x: Array) -> Array:
    """In float64."""
    x = prescaled(x, desc.scale_bias)
    with np.errstate(divide="ignore", invalid="ignore"):
        return rounded_as(x, 1.0 / arithmetic_values(x))


@reference("ELEMENT_WISE_SQRT")
def sqrt(desc: dml.ElementWiseSqrt, x: Array) -> Array:
    """In float64."""
    x = prescaled(x, desc.scale_bias)
    with np.errstate(invalid="ignore"):
        return rounded_as(x, np.sqrt(arithmetic_values(x)))


@reference("ELEMENT_WISE_ADD1")
def fused_add(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """The sum as ELEMENT_WISE_ADD gives it; then what the activation's own reference makes of a tensor of such sums."""
    total: Array = add(desc, a, b)
    alone = fused_operator(desc, total)
    if alone is None:
        return total
    result: Array = REFERENCES[alone.operator_name](alone, total)
    return result
