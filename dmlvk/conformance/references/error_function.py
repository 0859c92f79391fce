"""The true values of the error function and of what is made from it, in float64.

Near zero the error function is a series of positive terms. Elsewhere its complement is the trapezoidal sum of
    erfc(y) = 2 y / pi * (integral of e^(-y^2 - t^2) / (y^2 + t^2) from 0 to infinity),
whose error is known: what the pole at t = i y adds is a function of its own, and the rest is below 2**-56 for steps of
a half. No term cancels another, so that the relative error stays at a few units of float64's last place.

Sources: C. Chiarella, A. Reichel, «On the evaluation of integrals related to the error function» (1968); F. Matta,
A. Reichel, «Uniform computation of the error function and other related functions» (1971).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import Float64Array, arithmetic_values
from dmlvk.conformance.references.scaling import prescaled

Array = npt.NDArray[Any]

_BLOCK = 2**15  # Elements that are computed together: their intermediate arrays stay in the processor's cache

_STEP = 0.5
_NEAR_ZERO = 0.5  # Where the series ends and the sum begins


@reference("ELEMENT_WISE_ERF")
def error_function(desc: dml.ElementWiseErf, x: Array) -> Float64Array:
    """The series, or 1 less the complement."""
    return _by_block(erf, arithmetic_values(prescaled(x, desc.scale_bias)))


@reference("ACTIVATION_GELU")
def gelu(desc: dml.ActivationGelu, x: Array) -> Float64Array:
    """X times the normal distribution's probability of values below x."""
    return _by_block(_gelu, arithmetic_values(x))


def erf(x: Float64Array) -> Float64Array:
    """The error function of float32 numbers."""
    result = np.copysign(1.0, x)
    result[np.isnan(x)] = np.nan
    magnitude = np.abs(x)
    near = np.flatnonzero(magnitude < _NEAR_ZERO)
    result[near] = _series(x[near])
    far = np.flatnonzero((magnitude >= _NEAR_ZERO) & (magnitude < 6.0))
    result[far] = np.copysign(1.0 - _complement(magnitude[far], magnitude[far] * magnitude[far]), x[far])
    return result


def probability_below(x: Float64Array) -> Float64Array:
    """The normal distribution's probability of values below x, for float32 numbers x.

    That is erfc(-x / sqrt(2)) / 2; squares of float32 numbers, which its exponent has, are exact.
    """
    result = (x > 0).astype(np.float64)
    result[np.isnan(x)] = np.nan
    scaled = x * math.sqrt(0.5)
    near = np.flatnonzero(np.abs(scaled) < _NEAR_ZERO)
    result[near] = 0.5 + 0.5 * _series(scaled[near])
    far = np.flatnonzero((np.abs(scaled) >= _NEAR_ZERO) & (np.abs(scaled) < 26.0))
    tail = 0.5 * _complement(np.abs(scaled[far]), 0.5 * x[far] * x[far])
    result[far] = np.where(x[far] > 0, 1.0 - tail, tail)
    return result


def _gelu(x: Float64Array) -> Float64Array:
    probability = probability_below(x)
    return np.where(probability == 0, np.copysign(0.0, x), x * probability)


def _series(x: Float64Array) -> Float64Array:
    """The error function where the magnitude is below 1/2: e^(-x^2) times a series without negative terms."""
    double_square = 2.0 * x * x
    total = np.ones_like(x)
    for n in range(14, 0, -1):
        total = 1.0 + double_square / (2 * n + 1) * total
    error: Float64Array = 2.0 / math.sqrt(math.pi) * x * np.exp(-x * x) * total
    return error


def _complement(y: Float64Array, square: Float64Array) -> Float64Array:
    """erfc(y) for y from 1/2 on, given the square of y as exactly as may be."""
    total = 0.5 / square
    for n in range(1, 14):
        point = (n * _STEP) ** 2
        total += math.exp(-point) / (square + point)
    pole = 2.0 / np.expm1(2.0 * math.pi / _STEP * np.minimum(y, 6.0))
    trapezoids = 2.0 * _STEP / math.pi * y * np.exp(-square) * total
    complement: Float64Array = trapezoids - np.where(y < 6.0, pole, 0.0)
    return complement


def _by_block(function: Callable[[Float64Array], Float64Array], numbers: Float64Array) -> Float64Array:
    flat, result = numbers.reshape(-1), np.empty(numbers.size)
    with np.errstate(invalid="ignore"):  # signalling NaN, and -infinity times 0
        for start in range(0, flat.size, _BLOCK):
            result[start : start + _BLOCK] = function(flat[start : start + _BLOCK])
    return result.reshape(numbers.shape)
