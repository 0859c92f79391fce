"""What the standard's element-wise functions are in DirectML's operators.

Each function is given the operands' expressions, whose shapes broadcast, and computes the standard's special values
where the operator of that name has others. FLOAT32 denormals count as zero, as everywhere in dmlvk.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.expression import Expression

_UNSIGNED = {
    DataType.INT8: DataType.UINT8,
    DataType.INT16: DataType.UINT16,
    DataType.INT32: DataType.UINT32,
    DataType.INT64: DataType.UINT64,
}
_LARGEST = float(np.finfo(np.float32).max)
_SIGN_BIT = -(2**31)
_LN_2 = math.log(2)


def constant(value: float, like: Expression) -> Expression:
    return like.graph.constant(value, like.data_type)


def seen_as(x: Expression, data_type: DataType) -> Expression:
    """The same bits in another type of the same size."""
    return x.reinterpret(x.sizes, x.tensor.element_strides, data_type)


def cast(x: Expression, data_type: DataType) -> Expression:
    """The elements in another type: floats lose their fractions, integers too large wrap around."""
    return x if x.data_type is data_type else F.cast(x, output_data_type=data_type)


def truth(x: Expression) -> Expression:
    """1 where an element is not 0, as UINT8."""
    return x != 0


def truncated(x: Expression) -> Expression:
    """The integer part, with the sign."""
    return (x < 0.0).where(F.ceil(x), F.floor(x))


def zero_minus(x: Expression) -> Expression:
    """The negative of an unsigned integer, modulo its range."""
    return 0 - x


def reciprocal(x: Expression) -> Expression:
    """1 / x, correctly rounded."""
    return 1.0 / x


def square(x: Expression) -> Expression:
    return x * x


def is_finite(x: Expression) -> Expression:
    """1 for numbers, 0 for infinities and NaN."""
    return abs(x) <= _LARGEST


def positive_sign(x: Expression) -> Expression:
    """The sign of unsigned integers: 0 or 1."""
    return cast(truth(x), x.data_type)


def sign_of_float(x: Expression) -> Expression:
    """-1, 0 or 1, and NaN of NaN."""
    return F.isnan(x).where(x, F.sign(x))


def left_shift(x: Expression, distance: Expression) -> Expression:
    """An integer times a power of two modulo its range; 0 where nothing of it is left."""
    plain, steps = _as_unsigned(x), _as_unsigned(distance)
    shifted = F.bit_shift_left(plain, _within(steps))
    return seen_as(_is_far(steps).where(0, shifted), x.data_type)


def right_shift(x: Expression, distance: Expression) -> Expression:
    """An integer divided by a power of two, rounded down."""
    plain, steps = _as_unsigned(x), _as_unsigned(distance)

    def shifted(of: Expression) -> Expression:
        made = F.bit_shift_right(of, _within(steps))
        return _is_far(steps).where(0, made)

    if plain.data_type is x.data_type:
        return shifted(x)
    is_negative = x < 0
    return seen_as(is_negative.where(F.bit_not(shifted(F.bit_not(plain))), shifted(plain)), x.data_type)


def _as_unsigned(x: Expression) -> Expression:
    return seen_as(x, _UNSIGNED[x.data_type]) if x.data_type in _UNSIGNED else x


def _within(steps: Expression) -> Expression:
    return steps & steps.data_type.size_in_bits - 1


def _is_far(steps: Expression) -> Expression:
    return steps >= steps.data_type.size_in_bits


def floor_divided(a: Expression, b: Expression) -> Expression:
    """The quotient rounded down; of and by infinities what division gives, where Python has NaN and -1."""
    if not a.data_type.is_float:
        return a // b
    return (F.isinf(a) | F.isinf(b)).where(a / b, a // b)


def sign_bit(x: Expression) -> Expression:
    """1 where the sign is minus, of zeros and NaN, too."""
    bits = seen_as(x, DataType.INT32)
    return bits < 0


def copied_sign(x: Expression, sign: Expression) -> Expression:
    """The magnitude of one with the sign of another one."""
    magnitude, bits = seen_as(x, DataType.INT32), seen_as(sign, DataType.INT32)
    kept = magnitude & 2**31 - 1
    return seen_as(kept | bits & _SIGN_BIT, DataType.FLOAT32)


def next_after(a: Expression, b: Expression) -> Expression:
    """The next float from one toward another one, denormals among them."""
    first, second = _ordered(a), _ordered(b)
    step = (first < second).where(1, constant(-1, first))
    moved = first + step
    back = (moved < 0).where(_SIGN_BIT - moved, moved)
    near = (first == second).where(seen_as(b, DataType.INT32), back)
    is_nan = F.isnan(a) | F.isnan(b)
    return seen_as(is_nan.where(seen_as(a + b, DataType.INT32), near), DataType.FLOAT32)


def _ordered(x: Expression) -> Expression:
    """A float's place in the order of all floats: its bits as an integer, those below zero counted downwards."""
    bits = seen_as(x, DataType.INT32)
    return (bits < 0).where(_SIGN_BIT - bits, bits)


def exp_minus_1(x: Expression) -> Expression:
    """e^x - 1, exact near 0: Kahan's quotient of differences (Higham, Accuracy and Stability, 2002, section 1.14.1)."""
    one = constant(1.0, x)
    u = F.exp(x)
    less = u - one
    near = less * x / F.log(u)
    is_plain = ~is_finite(u) | (less == -one)
    return (u == one).where(x, is_plain.where(less, near))


def log_of_1_plus(x: Expression) -> Expression:
    """ln(1 + x), exact near 0: Kahan's correction of the logarithm of the rounded sum."""
    one = constant(1.0, x)
    u = x + one
    made = F.log(u)
    near = made * (x / (u - one))
    is_plain = ~is_finite(u) | (u <= 0.0)
    return (u == one).where(x, is_plain.where(made, near))


def log_base_2(x: Expression) -> Expression:
    """The exponent, and the logarithm of the significand around 1: exact for powers of two."""
    bits = seen_as(x, DataType.INT32)
    exponent = (bits & 0x7FFFFF >= 0x3504F3).where(1, constant(0, bits))
    biased = seen_as(
        F.bit_shift_right(seen_as(bits, DataType.UINT32), x.graph.constant(23, DataType.UINT32)), DataType.INT32
    )
    power = biased - 127 + exponent
    scaled = bits - power * 2**23
    significand = seen_as(scaled, DataType.FLOAT32)
    made = cast(power, DataType.FLOAT32) + F.log(significand) * (1 / _LN_2)
    is_normal = (x > 0.0) & (x <= _LARGEST)
    return is_normal.where(made, F.log(x))


def log_base_10(x: Expression) -> Expression:
    """ln(x) / ln(10)."""
    return F.log(x) / math.log(10)


def log_of_sum_of_exp(a: Expression, b: Expression) -> Expression:
    """ln(e^a + e^b) without overflow: the larger one, and what the other one adds to it."""
    most = F.maximum(a, b)
    added = log_of_1_plus(F.exp(-abs(a - b)))
    return ((a == b) & F.isinf(a)).where(most, most + added)


def hypotenuse(a: Expression, b: Expression) -> Expression:
    """The length of (a, b) without overflow: the larger one times the root of 1 + the square of the quotient."""
    first, second = abs(a), abs(b)
    most, least = (first < second).where(second, first), (first < second).where(first, second)
    quotient = least / most
    made = most * F.sqrt(quotient * quotient + 1.0)
    zero = constant(0.0, a)
    are_zero = (first == zero) & (second == zero)
    made = are_zero.where(zero, made)
    is_infinite = F.isinf(a) | F.isinf(b)
    return is_infinite.where(math.inf, made)


def power_of_integers(base: Expression, exponent: Expression, bits: int) -> Expression:
    """base^exponent modulo the type's range, by squaring, for exponents of so many bits that are not below 0."""
    made = constant(1, base).broadcast_to(base.sizes)
    factor, zero = base, constant(0, exponent)
    for bit in range(bits):
        has_bit = exponent & 1 << bit != zero
        made = has_bit.where(made * factor, made)
        if bit + 1 < bits:
            factor = factor * factor
    return made


def power_of_floats(base: Expression, exponent: Expression) -> Expression:
    made: Expression = F.pow(base, exponent)
    return made


def power_by_number(base: Expression, exponent: float) -> Expression:
    made: Expression = base**exponent
    return made


def chosen(condition: Expression, a: Expression, b: Expression) -> Any:
    """One of two where a condition is not 0, else the other one."""
    return condition.where(a, b)


def broadcast(x: Expression, shape: tuple[int, ...]) -> Expression:
    """The elements repeated along axes."""
    return x.broadcast_to(shape or (1,))
