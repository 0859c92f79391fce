"""What the operators along axes must give: in float64, row after row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import widened

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]

_SMALLEST = 5e-324
"""The smallest number of float64, for what is smaller still: so that results know on which side of zero they are."""


def _rows(desc: dml.OperatorDesc, x: Array) -> tuple[Array, tuple[int, ...], list[int]]:
    """A row in each line of a matrix; the shape from which that was made, and the order of its axes."""
    axes = list(desc.row_axes)
    order = [axis for axis in range(x.ndim) if axis not in axes] + axes
    turned = np.transpose(x, order)
    length = int(np.prod([x.shape[axis] for axis in axes]))
    return turned.reshape(-1, length), turned.shape, order


def _back(rows: Array, shape: tuple[int, ...], order: list[int]) -> Array:
    return np.ascontiguousarray(np.transpose(rows.reshape(shape), np.argsort(order)))


@reference("ACTIVATION_HARDMAX", "ACTIVATION_HARDMAX1")
def hardmax(desc: dml.OperatorDesc, x: Array) -> Array:
    """NumPy's argmax of float64, where a number is above NaN; it finds the first of equals."""
    rows, shape, order = _rows(desc, widened(x))
    # Twice: -infinity is above NaN too.
    numbers = np.where(np.isnan(rows), -np.inf, rows)
    first = np.where(np.isneginf(numbers.max(axis=1)), np.argmax(~np.isnan(rows), axis=1), np.argmax(numbers, axis=1))
    marks = np.zeros(rows.shape, x.dtype)
    marks[np.arange(len(rows)), first] = 1
    return _back(marks, shape, order)


def _relative(x: Array) -> tuple[Float64Array, Float64Array]:
    """Rows less their largest element; and for each row the sum of e to that, without the largest element's own 1.

    Rows that have no result are NaN.
    """
    flushed = np.where(np.abs(x) < 2.0**-126, 0.0, x)
    peak = flushed.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        differences = np.where(np.isfinite(peak), flushed - peak, np.nan)
        powers = np.where(np.isfinite(differences), np.maximum(np.exp(differences), _SMALLEST), np.exp(differences))
    powers[np.arange(len(x)), np.argmax(flushed, axis=1)] = 0
    return differences, powers.sum(axis=1, keepdims=True)


@reference("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1")
def softmax(desc: dml.OperatorDesc, x: Array) -> Float64Array:
    """The quotient, in float64."""
    rows, shape, order = _rows(desc, widened(x))
    differences, others = _relative(rows)
    with np.errstate(invalid="ignore", under="ignore"):
        return _back(np.exp(differences) / (1 + others), shape, order)


@reference("ACTIVATION_LOG_SOFTMAX", "ACTIVATION_LOG_SOFTMAX1")
def log_softmax(desc: dml.OperatorDesc, x: Array) -> Float64Array:
    """The difference, in float64: of two numbers that are not above zero."""
    rows, shape, order = _rows(desc, widened(x))
    differences, others = _relative(rows)
    with np.errstate(invalid="ignore"):
        return _back(differences - np.log1p(others), shape, order)
