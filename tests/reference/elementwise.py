"""What each element-wise operator's result must be, bit for bit: one function per operator.

They follow the declarations' formulas and decisions, but not the shaders' ways: numbers are decoded into float64, which
holds every float32 and float16 exactly, or into int64, and compared and computed as numbers there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from tests.reference.rounding import (
    FloatFormat,
    float_format,
    round_fraction,
    round_to_format,
    sum_to_odd,
    truncated_affine,
    widened,
)

_BLOCK = 2**15
"""Elements that are computed together: their intermediate arrays stay in the processor's cache."""

Array = npt.NDArray[Any]
Reference = Callable[..., Array]
"""Called with the description and its input arrays in the order of the members; returns the output."""


def element_wise_if(desc: dml.ElementWiseIf, condition: Array, a: Array, b: Array) -> Array:
    """Whole elements are copied, as opaque bytes."""
    opaque = np.dtype((np.void, a.dtype.itemsize))
    selected = np.ascontiguousarray(b).view(opaque).copy()
    np.copyto(selected, np.ascontiguousarray(a).view(opaque), where=condition.astype(np.bool_))
    return selected.view(a.dtype)


def element_wise_logical_greater_than(desc: dml.ElementWiseLogicalGreaterThan, a: Array, b: Array) -> Array:
    """Compared in float64 or as integers; NumPy's comparison with NaN is false."""
    if a.dtype.kind == "f":
        a, b = widened(a), widened(b)
    greater: Array = a > b
    return greater.astype(desc.output_tensor.data_type.numpy_dtype)


def element_wise_sign(desc: dml.ElementWiseSign, x: Array) -> Array:
    """One where above zero, minus one where below; a comparison with NaN is false twice, and so gives 0."""
    numbers = widened(x) if x.dtype.kind == "f" else x
    sign: Array = (numbers > 0).astype(x.dtype) - (numbers < 0).astype(x.dtype)
    return sign


def element_wise_threshold(desc: dml.ElementWiseThreshold, x: Array) -> Array:
    """The larger of x (scaled and biased) and Min; chosen as a whole element."""
    if x.dtype.kind != "f":
        limits = np.iinfo(x.dtype)
        if desc.scale_bias is not None:
            scale, bias = (_without_denormals(value) for value in (desc.scale_bias.scale, desc.scale_bias.bias))
            exact = truncated_affine(x.astype(np.int64), scale, bias, int(limits.min), int(limits.max))
            x = exact.astype(x.dtype)
        return np.maximum(x, np.array(integer_minimum(desc.min, int(limits.min), int(limits.max)), x.dtype))
    target = float_format(x.dtype)
    if desc.scale_bias is not None:
        x = _scaled_and_biased(x, desc.scale_bias, target)
    minimum = np.array(_float_minimum(desc.min, target), target.bits_dtype).view(target.dtype)
    return _larger(x, minimum, target)


def _scaled_and_biased(x: Array, scale_bias: dml.ScaleBias, target: FloatFormat) -> Array:
    scale, bias = _without_denormals(scale_bias.scale), _without_denormals(scale_bias.bias)
    is_float32 = target.dtype == np.float32
    flat, result = x.reshape(-1), np.empty(x.size, x.dtype)
    for start in range(0, flat.size, _BLOCK):
        numbers = widened(flat[start : start + _BLOCK])
        if is_float32:
            numbers = np.where(np.abs(numbers) < 2.0**-126, np.copysign(0.0, numbers), numbers)
        with np.errstate(invalid="ignore"):
            product = numbers * scale  # exact: at most 48 bits, far inside float64's range
        rounded = round_to_format(sum_to_odd(product, bias), target, denormals_are_zero=is_float32)
        result[start : start + _BLOCK] = rounded
    return result.reshape(x.shape)


def _without_denormals(value: float) -> float:
    return math.copysign(0.0, value) if abs(value) < 2.0**-126 else value


def integer_minimum(value: float, lowest: int, highest: int) -> int:
    """Min as an integer type has it: truncated toward zero, saturated, 0 for NaN."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return highest if value > 0 else lowest
    return min(max(math.trunc(Fraction(value)), lowest), highest)


def _float_minimum(value: float, target: FloatFormat) -> int:
    """The bits of Min as a float type has it: rounded to nearest even. A NaN is a NaN; which one does not matter."""
    if math.isnan(value):
        return target.canonical_nan
    rounded = None if math.isinf(value) else round_fraction(Fraction(value), target)
    number = math.inf if rounded is None else float(abs(rounded))
    return int(np.array(math.copysign(number, value)).astype(target.dtype).view(target.bits_dtype))


def _larger(x: Array, minimum: Array, target: FloatFormat) -> Array:
    numbers, bound = widened(x), float(widened(minimum))
    both_zero = (numbers == 0) & (bound == 0)
    takes_bound = np.isnan(numbers) | (bound > numbers) | (both_zero & np.signbit(numbers))
    bits = np.where(takes_bound, minimum.view(target.bits_dtype), np.ascontiguousarray(x).view(target.bits_dtype))
    bits[np.isnan(numbers) & math.isnan(bound)] = target.canonical_nan
    return bits.view(target.dtype)


REFERENCES: dict[str, Reference] = {
    "ELEMENT_WISE_IF": element_wise_if,
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": element_wise_logical_greater_than,
    "ELEMENT_WISE_SIGN": element_wise_sign,
    "ELEMENT_WISE_THRESHOLD": element_wise_threshold,
}
"""The reference of every operator, by DirectML's name."""


def expected_output(desc: dml.OperatorDesc, inputs: list[Array]) -> Array:
    """What the operator must give for logical input arrays, in the order of its input members."""
    output: Array = REFERENCES[desc.operator_name](desc, *inputs)
    return output
