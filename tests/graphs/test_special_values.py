"""NumPy's functions and Python's operators give NumPy's special values for all pairs of such values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from tests.graphs.support import Array, result

ONE = ["sign", "absolute", "negative", "floor", "ceil", "rint", "sqrt", "reciprocal", "isnan", "isinf", "exp", "log"]
TWO = [
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "maximum", "minimum", "power"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "arctan2"),
]
OPERATORS: list[Callable[..., Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
]
NUMBERS = (0.0, -0.0, 2.5, -2.5, np.inf, -np.inf, np.nan)


def _values(dtype: str) -> Array:
    largest = float(np.finfo(dtype).max)
    plain: list[float] = [0.0, 1, 0.5, 2.5, 3, 7, np.inf, largest, 1e-3]
    return np.array([*plain, *(-value for value in plain), np.nan], dtype)


def _pairs(dtype: str) -> tuple[Array, Array]:
    first, second = np.meshgrid(_values(dtype), _values(dtype))
    return first.ravel().copy(), second.ravel().copy()


def _check(result: Array, expected: Array, *operands: Array, zeros_have_signs: bool = True) -> None:
    """Equal places of NaN and signs of zeros, and numbers within a few units of the last place."""
    assert result.shape == expected.shape
    a, b = result.astype(np.float64), expected.astype(np.float64)
    if expected.dtype == np.float32:  # whose denormals count as zeros of their sign
        b = np.where(np.abs(b) < np.finfo(np.float32).tiny, np.copysign(0, b), b)
    epsilon = float(np.finfo(expected.dtype).eps) if expected.dtype.kind == "f" else 0.0
    with np.errstate(invalid="ignore"):
        right = (np.isnan(a) & np.isnan(b)) | (a == b) | (np.abs(a - b) <= 8 * epsilon * np.abs(b)) & np.isfinite(b)
    if zeros_have_signs:
        right &= (b != 0) | (np.signbit(a) == np.signbit(b))
    wrong = [[*(each[i] for each in operands), result[i], expected[i]] for i in np.flatnonzero(~right)]
    assert not wrong, f"operands, result, NumPy's: {wrong[:8]}"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", [*ONE, *TWO])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_expressions(device: dml.Device, name: str, dtype: str) -> None:
    operands = (_values(dtype),) if name in ONE else _pairs(dtype)
    expected = getattr(np, name)(*operands)
    signed = name not in ("maximum", "minimum")  # of which zero is the larger one NumPy itself gives now so, now so
    _check(result(device, getattr(np, name), *operands), expected, *operands, zeros_have_signs=signed)
    if hasattr(F, name) and name != "sign":  # that one is the operator
        _check(result(device, getattr(F, name), *operands), expected, *operands, zeros_have_signs=signed)


def _standard(function: Callable[..., Any], first: Array, second: Array) -> Array:
    """NumPy's results, where the standard of arrays has no others: of and by infinities ``//`` is ``/``."""
    expected: Array = function(first, second)
    is_other = (np.isinf(first) | np.isinf(second)) & (function is operator.floordiv)
    return np.where(is_other, first / second, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators_of_arrays_and_numbers(device: dml.Device, function: Callable[..., Any], dtype: str) -> None:
    first, second = _pairs(dtype)
    _check(
        function(device.array(first), device.array(second)).numpy(), _standard(function, first, second), first, second
    )
    values = _values(dtype)
    for number in NUMBERS:
        alike = np.full_like(values, number)
        _check(function(device.array(values), number).numpy(), _standard(function, values, alike), values, alike)
        _check(function(number, device.array(values)).numpy(), _standard(function, alike, values), alike, values)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_bounds(device: dml.Device, dtype: str) -> None:
    values = _values(dtype)
    bounds = [None, *NUMBERS]
    for low in bounds:
        for high in bounds:
            if low is None and high is None:
                continue
            expected = np.clip(values, *(None if each is None else np.dtype(dtype).type(each) for each in (low, high)))
            got = result(device, lambda x, low=low, high=high: np.clip(x, low, high), values)
            _check(got, expected, values, zeros_have_signs=False)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("word", ["argmax", "argmin"])
def test_places_of_extremes_among_zeros_of_both_signs(device: dml.Device, word: str, dtype: str) -> None:
    draw = np.random.default_rng(3)
    tiny = np.finfo(dtype).smallest_subnormal
    values = draw.choice(np.array([0.0, -0.0, 0.0, -0.0, -1, 1, tiny, -tiny], dtype), (200, 5))
    got = result(device, lambda x: getattr(np, word)(x, axis=1), values)
    assert got.tolist() == getattr(np, word)(values, axis=1).tolist()
