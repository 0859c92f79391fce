"""What the operators of arithmetic must give: exact numbers, rounded once.

Floats become float64, where products of two are exact and sums are rounded to odd; integers are NumPy's, which wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.rounding import (
    Float64Array,
    float_format,
    round_to_format,
    sum_to_odd,
    widened,
)

Array = npt.NDArray[Any]


def operand(x: Array) -> Float64Array:
    """Floats as arithmetic sees them: float64 numbers, FLOAT32 denormals as zeros of their sign."""
    numbers = widened(x)
    if x.dtype == np.float32:
        numbers = np.where(np.abs(numbers) < 2.0**-126, np.copysign(0.0, numbers), numbers)
    return numbers


def rounded_as(x: Array, numbers: Float64Array) -> Array:
    """Numbers rounded to the float type of ``x``; FLOAT32 denormals become zeros of their sign."""
    return round_to_format(numbers, float_format(x.dtype), denormals_are_zero=x.dtype == np.float32)


def add(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """Rounded to odd, then to the type."""
    return rounded_as(a, sum_to_odd(operand(a), operand(b))) if a.dtype.kind == "f" else a + b


def subtract(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """The sum with the negated operand."""
    return rounded_as(a, sum_to_odd(operand(a), -operand(b))) if a.dtype.kind == "f" else a - b


def multiply(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """Exact in float64."""
    if a.dtype.kind != "f":
        wrapped: Array = a * b
        return wrapped
    with np.errstate(invalid="ignore"):
        return rounded_as(a, operand(a) * operand(b))
