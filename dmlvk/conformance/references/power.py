"""What powers must be: true values in float64 for floats, the integers themselves for integers."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import Float64Array, arithmetic_values
from dmlvk.conformance.references.scaling import prescaled

Array = npt.NDArray[Any]
Int64Array = npt.NDArray[np.int64]

_NEAR = 2.0**-45  # Float64's powers are right to within much less than this (relative)

_BEYOND = 2.0**33  # Above all integers of 32 bits


@reference("ELEMENT_WISE_CONSTANT_POW")
def constant_power(desc: dml.ElementWiseConstantPow, x: Array) -> Float64Array:
    """C's pow of float64, whose special values NumPy hands on."""
    exponent = arithmetic_values(np.array([desc.exponent], np.float32))[0]
    return _float_power(arithmetic_values(prescaled(x, desc.scale_bias)), exponent)


@reference("ELEMENT_WISE_POW")
def power(desc: dml.ElementWisePow, x: Array, exponent: Array) -> Array:
    """True values for floats, integers for integers."""
    x = prescaled(x, desc.scale_bias)
    if x.dtype.kind == "f":
        numbers = arithmetic_values(exponent) if exponent.dtype.kind == "f" else exponent.astype(np.float64)
        return _float_power(arithmetic_values(x), numbers)
    if exponent.dtype.kind == "f":
        return _integer_to_float(x, arithmetic_values(exponent))
    return _integer_to_integer(x, exponent)


def _float_power(x: Float64Array, exponent: Any) -> Float64Array:
    # One for every element: for a single 0.5 NumPy 2.4 takes the square root, which differs for -0 and -infinity.
    exponents = np.broadcast_to(exponent, x.shape).copy()
    with np.errstate(all="ignore"):
        true: Float64Array = np.power(x, exponents)
    return true


def _integer_to_integer(x: Array, exponent: Array) -> Array:
    """From the exponent's highest bit down, in words of 64 bits that wrap."""
    base, count = x.astype(np.int64).view(np.uint64), exponent.astype(np.int64)
    result = np.ones(x.shape, np.uint64)
    for bit in reversed(range(32)):
        result = result * result * np.where((count >> bit) & 1 == 1, base, np.uint64(1))
    inverse = np.where(np.abs(x.astype(np.int64)) == 1, result.view(np.int64), 0)  # 1 / x is x there
    wrapped: Array = np.where(count < 0, inverse, result.view(np.int64)).astype(x.dtype)
    return wrapped


def _integer_to_float(x: Array, exponent: Float64Array) -> Array:
    """Float64's power, truncated and saturated; looked at more closely where it is an integer or almost one."""
    limits = np.iinfo(x.dtype)
    true = _float_power(x.astype(np.float64), exponent)
    bounded = np.clip(np.where(np.isnan(true), 0.0, true), -_BEYOND, _BEYOND)
    nearest = np.rint(bounded)
    truncated = np.trunc(bounded)
    uncertain = (nearest != 0) & (np.abs(bounded - nearest) <= _NEAR * np.abs(nearest)) & (np.abs(bounded) < _BEYOND)
    # Integral powers of integers are integers; so are those of 1, and what is close to 1 is not below it.
    with np.errstate(invalid="ignore"):
        is_integer = (exponent == np.rint(exponent)) | (np.abs(nearest) == 1)
    below_one = (exponent < 0) & (np.abs(x.astype(np.int64)) != 1)
    truncated = np.where(uncertain & is_integer, np.where(below_one, 0.0, nearest), truncated)
    for index in zip(*np.nonzero(uncertain & ~is_integer), strict=True):
        truncated[index] = _truncated_root(int(x[index]), float(exponent[index]), int(nearest[index]))
    saturated: Array = np.clip(truncated, limits.min, limits.max).astype(np.int64).astype(x.dtype)
    return saturated


def _truncated_root(x: int, exponent: float, nearest: int) -> int:
    """x**exponent truncated, where it is close to the integer ``nearest`` above 1 and the exponent is not integral."""
    numerator, denominator = exponent.as_integer_ratio()
    # Equal only if x is the denominator's power of an integer; beyond 2**5 no x above 1 is.
    if denominator <= 32 and x**numerator == nearest**denominator:
        return nearest
    with decimal.localcontext() as context:
        context.prec = 60
        is_below = decimal.Decimal(x).ln() * decimal.Decimal(exponent) < decimal.Decimal(nearest).ln()
    return nearest - int(is_below)
