"""How far a float result lies from the true value, in units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.references.rounding import FLOAT32, float_format, widened
from dmlvk.datatypes import DataType
from dmlvk.operators import Accuracy

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]


def ulp_errors(got: Array, true: Float64Array) -> Float64Array:
    """The distance of each result from the true value, in units in the last place of the true value.

    A NaN is right where the true value is one and the bits are the canonical ones. Zeros must have the sign of the true
    value, infinities must be where the true value rounds to one. FLOAT32 results below 2**-126 are zeros by the numeric
    contract: a zero is right there, and a denormal is not. What is wrong altogether is infinitely far away.

    Args:
        got: float32 or float16 results.
        true: the values of the function, of the same shape.
    """
    target = float_format(got.dtype)
    flushes = target is FLOAT32
    smallest_normal = 2.0**target.lowest_exponent
    limit = 2.0 ** (target.highest_exponent + 1)
    numbers = widened(got)
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = np.abs(true)
        bounded = np.clip(magnitude, smallest_normal, limit / 2)
        exponents = np.frexp(np.where(np.isnan(true), 1.0, bounded))[1] - 1
        units = np.ldexp(1.0, exponents - (target.precision - 1))
        # An infinity stands for the number that would come after the largest one.
        near = np.clip(true, -limit, limit)
        errors = np.abs(np.clip(numbers, -limit, limit) - near) / units
        if flushes:
            is_zero = numbers == 0
            errors = np.where(is_zero, np.maximum(magnitude - smallest_normal, 0.0) / units, errors)
            errors = np.where(~is_zero & (np.abs(numbers) < smallest_normal), np.inf, errors)
        wrong = np.isnan(numbers) | np.isnan(true)
        wrong |= np.signbit(numbers) != np.signbit(true)
        errors = np.where(wrong, np.inf, errors)
    is_nan = np.isnan(true) & (got.view(target.bits_dtype) == target.canonical_nan)
    return np.where(is_nan, 0.0, errors)


def promised_ulp(accuracy: Accuracy, data_type: DataType) -> float:
    """The largest error that an operator of class «accurate» may have for a data type.

    FLOAT16 results are FLOAT32 results, which are within ``maximum_ulp``, rounded once more: a unit of FLOAT16 is 2**13
    units of FLOAT32.
    """
    if data_type is DataType.FLOAT16:
        return 0.5 + accuracy.maximum_ulp / 2**13
    return accuracy.maximum_ulp
