"""The standard's element-wise functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from dmlvk import functions as F
from dmlvk.array_api import forms
from dmlvk.array_api.array import checked, operands
from dmlvk.array_api.calls import applied, converted, copied
from dmlvk.array_api.creation import asarray, full_like
from dmlvk.array_api.dtypes import (
    FLOATS,
    INTEGERS,
    NUMERIC,
    SUPPORTED,
    UNSIGNED,
    DType,
    check_is,
    checked_dtype,
    float16,
    float32,
    is_number,
    promoted,
)
from dmlvk.array_api.dtypes import bool as bool_dtype
from dmlvk.arrays.array import Array
from dmlvk.errors import DataTypeError

_Function = TypeVar("_Function", bound=Callable[..., Any])

_BOOL = (bool_dtype,)
_BITS = (bool_dtype, *INTEGERS)


def by_float32(function: _Function) -> _Function:
    """A function whose operands and results of float16, which the standard does not have, are float32 inside.

    Arithmetic and square roots so stay correctly rounded, since float32 has more than twice the digits (S. Figueroa:
    When is double rounding innocuous?, 1995), and sums do not overflow on the way.
    """

    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        arrays = [one for one in (*given, *named.values()) if isinstance(one, Array)]
        asked = named.get("dtype")
        is_half = asked is not None and checked_dtype(asked, function.__name__) == float16
        if not is_half and not any(one.dtype == float16 for one in arrays):
            return function(*given, **named)
        if is_half:
            named["dtype"] = float32
        elif asked is None:
            is_half = all(one.dtype == float16 for one in arrays if one.dtype in FLOATS)
        wide = [_widened(one) for one in given]
        made = function(*wide, **{name: _widened(one) for name, one in named.items()})
        return _narrowed(made) if is_half else made

    return cast(_Function, called)


def _widened(value: Any) -> Any:
    return converted(value, float32) if isinstance(value, Array) and value.dtype == float16 else value


def _narrowed(value: Any) -> Any:
    if isinstance(value, Array):
        return converted(value, float16) if value.dtype == float32 else value
    if isinstance(value, tuple):  # a named one
        made = [_narrowed(one) for one in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    return value


def _one(
    name: str, accepted: tuple[DType, ...], form: Callable[[DType], Any], result: DType | None = None, doc: str = ""
) -> Callable[[Any], Array]:
    def function(x: Any, /) -> Array:
        array = checked(x, name)
        check_is(array.dtype, accepted, name)
        return applied(name, form(array.dtype) or F.identity, [array], result or array.dtype)

    named: Callable[..., Array] = _named(function, name, doc)
    return named


def _two(
    name: str, accepted: tuple[DType, ...], form: Callable[[DType], Any], result: DType | None = None, doc: str = ""
) -> Callable[[Any, Any], Array]:
    def function(x1: Any, x2: Any, /) -> Array:
        first, second, dtype = pair(name, x1, x2, accepted)
        return applied(name, form(dtype), [first, second], result or dtype)

    named: Callable[..., Array] = _named(function, name, doc)
    return named


def pair(name: str, x1: Any, x2: Any, accepted: tuple[DType, ...]) -> tuple[Array, Array, DType]:
    """Two operands in the type to which they promote.

    Raises:
        DataTypeError: there is none, or it is not one of these.
    """
    first, second = operands(name, x1, x2)
    check_is(first.dtype, accepted, name)
    check_is(second.dtype, accepted, name)
    dtype = promoted(first.dtype, second.dtype, name)
    return converted(first, dtype), converted(second, dtype), dtype


def _named(function: Any, name: str, doc: str) -> Any:
    function = by_float32(function)
    function.__name__ = function.__qualname__ = name
    function.__module__ = "dmlvk.array_api"
    function.__doc__ = doc
    return function


def _of(form: Any) -> Callable[[DType], Any]:
    return lambda dtype: form


def _for_floats(form: Any) -> Callable[[DType], Any]:
    """Integers stay as they are."""
    return lambda dtype: form if dtype in FLOATS else None


def _by_kind(floats: Any, others: Any) -> Callable[[DType], Any]:
    return lambda dtype: floats if dtype in FLOATS else others


abs = _one(
    "abs",
    NUMERIC,
    lambda dtype: None if dtype in UNSIGNED else F.abs,
    doc="The absolute value of each element; that of a least integer is itself.",
)
acos = _one("acos", FLOATS, _of(F.acos), doc="The inverse cosine.")
acosh = _one("acosh", FLOATS, _of(F.acosh), doc="The inverse hyperbolic cosine.")
add = _two("add", NUMERIC, _of(F.add), doc="The sum of two elements; integers wrap around.")
asin = _one("asin", FLOATS, _of(F.asin), doc="The inverse sine.")
asinh = _one("asinh", FLOATS, _of(F.asinh), doc="The inverse hyperbolic sine.")
atan = _one("atan", FLOATS, _of(F.atan), doc="The inverse tangent.")
atan2 = _two("atan2", FLOATS, _of(F.atan_yx), doc="The angle of the point (x2, x1).")
atanh = _one("atanh", FLOATS, _of(F.atanh), doc="The inverse hyperbolic tangent.")
bitwise_and = _two("bitwise_and", _BITS, _of(F.bit_and), doc="The bits that both have.")
bitwise_invert = _one(
    "bitwise_invert",
    _BITS,
    lambda dtype: F.logical_not if dtype == bool_dtype else F.bit_not,
    doc="Every bit inverted; of truth values the negation.",
)
bitwise_left_shift = _two(
    "bitwise_left_shift",
    INTEGERS,
    _of(forms.left_shift),
    doc="x1 shifted to the left by x2 bits; 0 where none is left.",
)
bitwise_or = _two("bitwise_or", _BITS, _of(F.bit_or), doc="The bits that one of both has.")
bitwise_right_shift = _two(
    "bitwise_right_shift", INTEGERS, _of(forms.right_shift), doc="x1 shifted to the right by x2 bits, with its sign."
)
bitwise_xor = _two("bitwise_xor", _BITS, _of(F.bit_xor), doc="The bits that only one of both has.")
ceil = _one("ceil", NUMERIC, _for_floats(F.ceil), doc="Rounded up.")
conj = _one("conj", NUMERIC, _of(None), doc="The same: there are no complex numbers.")
copysign = _two("copysign", FLOATS, _of(forms.copied_sign), doc="The magnitude of x1 with the sign of x2.")
cos = _one("cos", FLOATS, _of(F.cos), doc="The cosine.")
cosh = _one("cosh", FLOATS, _of(F.cosh), doc="The hyperbolic cosine.")
divide = _two("divide", FLOATS, _of(F.divide), doc="The quotient, correctly rounded.")
equal = _two("equal", SUPPORTED, _of(F.equal), bool_dtype, "Whether both are equal.")
exp = _one("exp", FLOATS, _of(F.exp), doc="e to the power of each element.")
expm1 = _one("expm1", FLOATS, _of(forms.exp_minus_1), doc="e^x - 1, exact near 0.")
floor = _one("floor", NUMERIC, _for_floats(F.floor), doc="Rounded down.")
floor_divide = _two(
    "floor_divide", NUMERIC, _of(forms.floor_divided), doc="The quotient rounded down; of integers by 0 undefined."
)
greater = _two("greater", NUMERIC, _of(F.greater), bool_dtype, "Whether x1 is greater.")
greater_equal = _two("greater_equal", NUMERIC, _of(F.greater_equal), bool_dtype, "Whether x1 is not less.")
hypot = _two("hypot", FLOATS, _of(forms.hypotenuse), doc="The length of (x1, x2), without overflow.")
less = _two("less", NUMERIC, _of(F.less), bool_dtype, "Whether x1 is less.")
less_equal = _two("less_equal", NUMERIC, _of(F.less_equal), bool_dtype, "Whether x1 is not greater.")
log = _one("log", FLOATS, _of(F.log), doc="The natural logarithm.")
log1p = _one("log1p", FLOATS, _of(forms.log_of_1_plus), doc="ln(1 + x), exact near 0.")
log2 = _one("log2", FLOATS, _of(forms.log_base_2), doc="The logarithm to base 2, exact for powers of two.")
log10 = _one("log10", FLOATS, _of(forms.log_base_10), doc="The logarithm to base 10.")
logaddexp = _two("logaddexp", FLOATS, _of(forms.log_of_sum_of_exp), doc="ln(e^x1 + e^x2), without overflow.")
logical_and = _two("logical_and", _BOOL, _of(F.logical_and), doc="Whether both are true.")
logical_not = _one("logical_not", _BOOL, _of(F.logical_not), doc="Whether it is false.")
logical_or = _two("logical_or", _BOOL, _of(F.logical_or), doc="Whether one is true.")
logical_xor = _two("logical_xor", _BOOL, _of(F.logical_xor), doc="Whether only one is true.")
maximum = _two(
    "maximum",
    NUMERIC,
    _by_kind(F.maximum, F.max),
    doc="The larger one; NaN where one is NaN.",
)
minimum = _two(
    "minimum",
    NUMERIC,
    _by_kind(F.minimum, F.min),
    doc="The smaller one; NaN where one is NaN.",
)
multiply = _two("multiply", NUMERIC, _of(F.multiply), doc="The product; integers wrap around.")
negative = _one(
    "negative",
    NUMERIC,
    lambda dtype: forms.zero_minus if dtype in UNSIGNED else F.negate,
    doc="The element with the other sign; integers wrap around.",
)
nextafter = _two("nextafter", FLOATS, _of(forms.next_after), doc="The next float from x1 toward x2.")
not_equal = _two("not_equal", SUPPORTED, _of(F.not_equal), bool_dtype, "Whether both differ.")
positive = _one("positive", NUMERIC, _of(None), doc="The same.")
real = _one("real", NUMERIC, _of(None), doc="The same: there are no complex numbers.")
reciprocal = _one("reciprocal", FLOATS, _of(forms.reciprocal), doc="1 / x, correctly rounded.")
remainder = _two(
    "remainder",
    NUMERIC,
    _of(F.remainder),
    doc="What floor_divide leaves, of x2's sign; of integers by 0 undefined.",
)
round = _one("round", NUMERIC, _for_floats(F.round), doc="To the nearest integer, halves to the even one.")
sign = _one(
    "sign",
    NUMERIC,
    lambda dtype: forms.sign_of_float if dtype in FLOATS else forms.positive_sign if dtype in UNSIGNED else F.sign,
    doc="-1, 0 or 1; NaN of NaN.",
)
signbit = _one("signbit", FLOATS, _of(forms.sign_bit), bool_dtype, "Whether the sign is minus, also of zeros and NaN.")
sin = _one("sin", FLOATS, _of(F.sin), doc="The sine.")
sinh = _one("sinh", FLOATS, _of(F.sinh), doc="The hyperbolic sine.")
sqrt = _one("sqrt", FLOATS, _of(F.sqrt), doc="The square root, correctly rounded.")
square = _one("square", NUMERIC, _of(forms.square), doc="The square; integers wrap around.")
subtract = _two("subtract", NUMERIC, _of(F.subtract), doc="The difference; integers wrap around.")
tan = _one("tan", FLOATS, _of(F.tan), doc="The tangent.")
tanh = _one("tanh", FLOATS, _of(F.tanh), doc="The hyperbolic tangent.")
trunc = _one("trunc", NUMERIC, _for_floats(forms.truncated), doc="Without the fraction.")


@by_float32
def isfinite(x: Any, /) -> Array:
    """Whether each element is a number: neither infinite nor NaN."""
    return _of_kind("isfinite", forms.is_finite, x, True)


@by_float32
def isinf(x: Any, /) -> Array:
    """Whether each element is infinite."""
    return _of_kind("isinf", F.isinf, x, False)


@by_float32
def isnan(x: Any, /) -> Array:
    """Whether each element is NaN."""
    return _of_kind("isnan", F.isnan, x, False)


def _of_kind(name: str, form: Any, x: Any, of_integers: Any) -> Array:
    array = checked(x, name)
    check_is(array.dtype, NUMERIC, name)
    if array.dtype in FLOATS:
        return applied(name, form, [array], bool_dtype)
    return full_like(array, of_integers, dtype=bool_dtype)


def imag(x: Any, /) -> Array:
    """Refused: there are no complex numbers.

    Raises:
        DataTypeError: always.
    """
    raise DataTypeError(f"imag: takes complex numbers, which Vulkan does not have; got {checked(x, 'imag').dtype.name}")


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """Each element, but none below ``min`` and none above ``max``, which broadcast with it; NaN stays.

    Raises:
        DataTypeError: a bound is of another kind, or of a type that x does not hold.
    """
    made = checked(x, "clip")
    check_is(made.dtype, NUMERIC, "clip")
    dtype = made.dtype
    for bound, function in ((min, maximum), (max, minimum)):
        if bound is None:
            continue
        if is_number(bound) and dtype in INTEGERS and not np.iinfo(dtype).min <= bound <= np.iinfo(dtype).max:
            bound = int(np.clip(bound, np.iinfo(dtype).min, np.iinfo(dtype).max))
        made = function(made, bound)
        if made.dtype != dtype:
            raise DataTypeError(f"clip: bounds of {checked(bound, 'clip').dtype.name} do not fit {dtype.name}")
    return made if made is not x else copied(made)


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """x1 where the condition is true, else x2.

    Raises:
        DataTypeError: the condition is no array of truth values, or x1 and x2 have no common type.
    """
    chooser = checked(condition, "where")
    check_is(chooser.dtype, _BOOL, "where")
    if is_number(x1) and is_number(x2):
        x1 = asarray(x1, device=chooser.device)
        x2 = asarray(x2, device=chooser.device)
    first, second = operands("where", x1, x2)
    dtype = promoted(first.dtype, second.dtype, "where")
    operands("where", chooser, first)  # whether they are on one device
    return applied("where", forms.chosen, [chooser, converted(first, dtype), converted(second, dtype)], dtype)
