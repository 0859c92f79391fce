"""What operators must give that make one element of each row: exact sums of fractions, rounded by Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import arithmetic_values

Array = npt.NDArray[Any]

_SUM_ERROR = 2.0**-40  # What a sum may be off, as a share of the sum of its terms' magnitudes


def rows_of(x: Array, axes: Sequence[int]) -> Array:
    """The rows, one behind the other: those axes that are reduced are the last one, in their own order."""
    others = [axis for axis in range(x.ndim) if axis not in axes]
    return x.transpose([*others, *sorted(axes)]).reshape(math.prod(x.shape[axis] for axis in others), -1)


def spacing(values: npt.NDArray[np.float64], dtype: np.dtype[Any]) -> npt.NDArray[np.float64]:
    """The distance of neighbouring numbers of a type around values."""
    bits, least = (10, -14) if dtype == np.float16 else (23, -126)
    with np.errstate(all="ignore"):
        exponents = np.floor(np.log2(np.where(np.isfinite(values) & (values != 0), np.abs(values), 2.0**least)))
    return np.asarray(np.exp2(np.maximum(exponents, least) - bits), np.float64)


def _extreme_indices(x: Array, is_smallest: bool, takes_last: bool) -> npt.NDArray[np.int64]:
    """The index of each row's extreme: numbers before NaN, -0 before +0."""
    keys = x.astype(object) if x.dtype.kind != "f" else x.astype(np.float64)
    found = []
    for row in keys:
        best = None
        for index, value in enumerate(row):
            is_number = not (isinstance(value, float) and math.isnan(value))
            number = value if is_number else 0
            sign = math.copysign(1.0, value) if isinstance(value, float) and value == 0 else 0.0
            rank = (is_number, -number if is_smallest else number, -sign if is_smallest else sign)
            if best is None or rank > best[0] or (rank == best[0] and takes_last):
                best = (rank, index)
        assert best is not None  # rows have elements
        found.append(best[1])
    return np.array(found, np.int64)


def _of_integers(x: Array, function: dml.ReduceFunction) -> Array:
    """Python's integers, modulo the type's range."""
    terms: dict[dml.ReduceFunction, Callable[[int], int]] = {
        dml.ReduceFunction.L1: abs,
        dml.ReduceFunction.SUM_SQUARE: lambda value: value * value,
    }
    term = terms.get(function, int)
    bits = 8 * x.dtype.itemsize
    results = []
    for row in x.astype(object):
        numbers = [term(value) for value in row]
        results.append((math.prod(numbers) if function is dml.ReduceFunction.MULTIPLY else sum(numbers)) % 2**bits)
    return np.array(results, f"u{x.dtype.itemsize}").view(x.dtype)


def _special(numbers: list[float]) -> float | None:
    """A sum of infinities and NaN; ``None``: it is of numbers."""
    if all(map(math.isfinite, numbers)):
        return None
    return float(sum(number for number in numbers if not math.isfinite(number)))


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _sum(numbers: list[float], function: dml.ReduceFunction) -> tuple[float, float]:
    """The true value of a function that is made of a sum, and its error but for the last rounding."""
    is_of_squares = function in (dml.ReduceFunction.L2, dml.ReduceFunction.SUM_SQUARE)
    if function is dml.ReduceFunction.L1 or is_of_squares:
        numbers = [abs(number) for number in numbers]
    special = _special(numbers)
    if special is not None:
        is_negative = function is dml.ReduceFunction.LOG_SUM and special < 0
        return (math.nan if is_negative else special), 0.0
    terms = [Fraction(number) ** 2 if is_of_squares else Fraction(number) for number in numbers]
    total = sum(terms, Fraction(0))
    error = _SUM_ERROR * _float(sum(map(abs, terms), Fraction(0)))
    if function is dml.ReduceFunction.AVERAGE:
        return _float(total / len(terms)), error / len(terms)
    if function is dml.ReduceFunction.L2:
        root = _float(Fraction(math.isqrt(int(total * 2**400)), 2**200))
        return root, _SUM_ERROR * root
    if function is dml.ReduceFunction.LOG_SUM:
        if total <= 0:
            return (math.nan if total < 0 else -math.inf), 0.0
        logarithm = math.log(total.numerator) - math.log(total.denominator)
        logarithm = math.log(_float(total)) if 2.0**-1000 < _float(total) < 2.0**1000 else logarithm
        return logarithm, error / _float(total)
    return _float(total), error


def _log_sum_exp(numbers: list[float]) -> tuple[float, float]:
    if any(map(math.isnan, numbers)):
        return math.nan, 0.0
    peak = max(numbers)
    if math.isinf(peak):
        return peak, 0.0
    return peak + math.log(math.fsum(math.exp(number - peak) for number in numbers)), 2.0**-27


def _product(numbers: list[float]) -> tuple[float, float]:
    if all(map(math.isfinite, numbers)):
        sign = math.prod(math.copysign(1.0, number) for number in numbers)
        exact = Fraction(1)
        for number in numbers:
            exact *= Fraction(number)
        product = math.copysign(_float(abs(exact)), sign)
        return product, abs(product) * len(numbers) * 2.0**-45
    return float(math.prod(numbers)), 0.0


def _of_floats(x: Array, function: dml.ReduceFunction, dtype: np.dtype[Any]) -> Bounded:
    by_function = {dml.ReduceFunction.LOG_SUM_EXP: _log_sum_exp, dml.ReduceFunction.MULTIPLY: _product}

    def compute(numbers: list[float]) -> tuple[float, float]:
        return by_function[function](numbers) if function in by_function else _sum(numbers, function)

    found = [compute([float(number) for number in row]) for row in arithmetic_values(x)]
    values, errors = (np.array(column, np.float64) for column in zip(*found, strict=True))
    accurate = function in (dml.ReduceFunction.LOG_SUM, dml.ReduceFunction.LOG_SUM_EXP)
    ulps = (0.6 if accurate else 0.5) + (2.0**-12 if dtype == np.float16 else 0.0)
    # Results are rounded, and then flushed where they are denormal.
    smallest = 2.0**-126 if dtype == np.float32 else 0.0
    flushed = np.where(np.abs(values) < smallest, np.abs(values), 0.0)
    return Bounded(values, errors + ulps * spacing(values, dtype) + flushed)


def _reduced(
    desc: dml.Argmax | dml.Argmin | dml.Reduce, x: Array, function: dml.ReduceFunction, takes_last: bool
) -> Expected:
    rows, sizes = rows_of(x, desc.axes), desc.output_tensor.sizes
    is_smallest = function in (dml.ReduceFunction.MIN, dml.ReduceFunction.ARGMIN)
    dtype = desc.output_tensor.data_type.numpy_dtype
    if function in (dml.ReduceFunction.ARGMAX, dml.ReduceFunction.ARGMIN):
        return _extreme_indices(rows, is_smallest, takes_last).astype(dtype).reshape(sizes)
    if function in (dml.ReduceFunction.MAX, dml.ReduceFunction.MIN):
        chosen = rows[np.arange(len(rows)), _extreme_indices(rows, is_smallest, False)]
        quiet = chosen if dtype.kind != "f" else np.where(np.isnan(chosen), np.array(np.nan, dtype), chosen)
        return quiet.reshape(sizes)
    if dtype.kind != "f":
        return _of_integers(rows, function).reshape(sizes)
    bounded = _of_floats(rows, function, dtype)
    return Bounded(bounded.values.reshape(sizes), bounded.bound.reshape(sizes))


@reference("REDUCE")
def reduce(desc: dml.Reduce, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    return {"OutputTensor": _reduced(desc, inputs["InputTensor"], desc.function, False)}


@reference("ARGMAX")
def argmax(desc: dml.Argmax, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The first, or last, of the largest elements."""
    takes_last = desc.axis_direction is dml.AxisDirection.DECREASING
    return {"OutputTensor": _reduced(desc, inputs["InputTensor"], dml.ReduceFunction.ARGMAX, takes_last)}


@reference("ARGMIN")
def argmin(desc: dml.Argmin, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The first, or last, of the smallest elements."""
    takes_last = desc.axis_direction is dml.AxisDirection.DECREASING
    return {"OutputTensor": _reduced(desc, inputs["InputTensor"], dml.ReduceFunction.ARGMIN, takes_last)}
