"""How far a float result lies from the true value, in units in the last place.

Exhaustive runs judge four thousand million results of each function, so this is written for speed: units come from the
exponent bits of the true values, arrays are taken in blocks that stay in the processor's cache, and the rare cases
(denormals, zeros, whatever is very wrong) are picked out and judged by themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.references.rounding import FLOAT32, FloatFormat, float_format, widened
from dmlvk.datatypes import DataType
from dmlvk.operators import Accuracy

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]

BLOCK = 2**15  # Elements that are judged together

_FRACTION_BITS, _BIAS = 52, 1023  # of float64
_EXPONENT_FIELD = np.uint64(0x7FF << _FRACTION_BITS)


def ulp_errors(got: Array, true: Float64Array) -> Float64Array:
    """The distance of each result from the true value, in units in the last place of the true value.

    A NaN is right where the true value is one and the bits are the canonical ones. Zeros must have the sign of the true
    value, infinities must be where the true value rounds to one. FLOAT32 results below 2**-126 are zeros by the numeric
    contract: a zero is right there, and a denormal is not. What is wrong altogether is infinitely far away.

    Args:
        got: float32 or float16 results.
        true: the values of the function, of the same shape.
    """
    errors = np.empty(true.shape, np.float64)
    results, values, flat = np.ascontiguousarray(got).reshape(-1), true.reshape(-1), errors.reshape(-1)
    for start in range(0, values.size, BLOCK):
        block = slice(start, start + BLOCK)
        _judge(results[block], values[block], flat[block])
    return errors


def _judge(got: Array, true: Float64Array, errors: Float64Array) -> None:
    """Fills in the errors of a block."""
    target = float_format(got.dtype)
    exponents = true.view(np.uint64) & _EXPONENT_FIELD
    # 1 / unit, a power of two, by its exponent bits.
    per_unit = np.minimum(exponents, _exponent_bits(target.highest_exponent))
    np.maximum(per_unit, _exponent_bits(target.lowest_exponent), out=per_unit)
    np.subtract(_reciprocal_of_unit(target), per_unit, out=per_unit)
    with np.errstate(invalid="ignore", over="ignore"):
        np.subtract(got, true, out=errors, dtype=np.float64)
        np.abs(errors, out=errors)
        np.multiply(errors, per_unit.view(np.float64), out=errors)
        # Zeros, denormals and numbers of the wrong sign are further than this away from all of these binades.
        settled = errors < 2.0 ** (target.precision - 2)
    settled &= exponents >= _exponent_bits(target.lowest_exponent + 1)
    settled &= exponents <= _exponent_bits(target.highest_exponent)
    if settled.all():
        return
    expected = _expected_special(got, true, exponents, target)
    np.copyto(errors, 0.0, where=expected)
    settled |= expected
    if not settled.all():
        others = np.flatnonzero(~settled)
        errors[others] = _special_errors(got[others], true[others], target)


def _expected_special(
    got: Array, true: Float64Array, exponents: npt.NDArray[np.uint64], target: FloatFormat
) -> npt.NDArray[np.bool_]:
    """Where a canonical NaN, an infinity or a FLOAT32 zero is just what it has to be.

    :func:`_special_errors` would find the same; but this is how whole ranges of inputs end.
    """
    bits = got.view(target.bits_dtype)
    nan = np.isnan(true)
    special: npt.NDArray[np.bool_] = (exponents > _exponent_bits(target.highest_exponent)) & np.isinf(got) & ~nan
    if target is FLOAT32:
        special |= (exponents < _exponent_bits(target.lowest_exponent)) & (got == 0)
    special &= np.signbit(got) == np.signbit(true)
    nan &= bits == target.canonical_nan
    special |= nan
    return special


def _exponent_bits(exponent: int) -> np.uint64:
    """The bits of 2**exponent as a float64."""
    return np.uint64((exponent + _BIAS) << _FRACTION_BITS)


def _reciprocal_of_unit(target: FloatFormat) -> np.uint64:
    """What the exponent bits of a number are subtracted from to give those of 1 / its unit in the last place."""
    return np.uint64((2 * _BIAS + target.precision - 1) << _FRACTION_BITS)


def _special_errors(got: Array, true: Float64Array, target: FloatFormat) -> Float64Array:
    """The same for any values, rule by rule."""
    smallest_normal = 2.0**target.lowest_exponent
    limit = 2.0 ** (target.highest_exponent + 1)  # infinity stands for the number that would come after the largest
    numbers = widened(got)
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = np.abs(true)
        bounded = np.minimum(np.maximum(magnitude, smallest_normal), limit / 2)
        exponents = bounded.view(np.uint64) & _EXPONENT_FIELD
        per_unit = (_reciprocal_of_unit(target) - exponents).view(np.float64)
        np.minimum(magnitude, limit, out=magnitude)
        distances = np.minimum(np.abs(numbers), limit)
        if target is FLOAT32:
            is_denormal = (distances < smallest_normal) & (distances != 0)
            near_zero = np.maximum(magnitude - smallest_normal, 0.0)
            distances = np.where(distances == 0, near_zero, np.abs(distances - magnitude))
            distances[is_denormal] = np.inf
        else:
            np.abs(distances - magnitude, out=distances)
        errors = distances * per_unit
    errors[np.isnan(numbers) | np.isnan(true) | (np.signbit(numbers) != np.signbit(true))] = np.inf
    errors[np.isnan(true) & (got.view(target.bits_dtype) == target.canonical_nan)] = 0.0
    return errors


def promised_ulp(accuracy: Accuracy, data_type: DataType) -> float:
    """The largest error that an operator of class «accurate» may have for a data type.

    FLOAT16 results are FLOAT32 results, which are within ``maximum_ulp``, rounded once more: a unit of FLOAT16 is 2**13
    units of FLOAT32. Operators with another function for FLOAT16 state its bound.
    """
    if data_type is DataType.FLOAT16:
        own = accuracy.maximum_ulp_of_half
        return own if own is not None else 0.5 + accuracy.maximum_ulp / 2**13
    return accuracy.maximum_ulp
