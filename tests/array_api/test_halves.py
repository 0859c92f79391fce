"""float16, which the standard does not have, beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
import dmlvk.array_api as xp

X = np.array([[1.5, -2.25, 0.1, 3.0], [60000.0, 6e-8, -0.0, 7.0], [0.3, np.inf, -np.inf, 2048.0]], np.float16)
Y = np.array([2.0, 0.7, 3.0, 1.0], np.float16)

FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "arithmetic": lambda np, x, y: (x + y) * y - x / y,
    "roots": lambda np, x, y: np.sqrt(np.abs(x)),
    "comparisons": lambda np, x, y: np.where(x > y, x, -x),
    "rounding": lambda np, x, y: np.floor(x[:2]) + np.ceil(y),
    "sums": lambda np, x, y: np.sum(x[:1, :], axis=1) + np.sum(np.abs(y)),
    "extremes": lambda np, x, y: np.max(x, axis=0) + np.min(y),
    "means of what overflows as a sum": lambda np, x, y: np.mean(np.broadcast_to(x[1:2, :1], (3, 1))),
    "places": lambda np, x, y: np.argmax(x[:2], axis=1),
    "order": lambda np, x, y: np.sort(x[:2, :], axis=1),
    "products": lambda np, x, y: np.matmul(x[:1, :], y),
    "shapes": lambda np, x, y: np.concat([x.T, np.flip(x.T, axis=0)], axis=0)[1:, :],
    "kinds": lambda np, x, y: np.isinf(x) | np.isnan(x),
    "numbers": lambda np, x, y: 2 * x[:1, :] ** 2 + 0.5,
    "other types": lambda np, x, y: np.astype(x[:1, :], np.int32) + np.astype(np.astype(y, np.float32) * 3, np.int32),
    "wider": lambda np, x, y: x[:1, :] + np.astype(y, np.float32),
    "made": lambda np, x, y: np.full((4,), 0.1, dtype=np.float16) + np.linspace(0.0, 1.0, 4, dtype=np.float16),
}


@pytest.mark.skipif(not hasattr(np, "concat"), reason="NumPy has the standard's names from 2.0 on")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_numpys(device: dml.Device, name: str) -> None:
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        wanted = function(np, X, Y)
    made = function(xp, xp.asarray(X, device=device), xp.asarray(Y, device=device))
    found = np.asarray(made)
    assert found.dtype == wanted.dtype
    if found.dtype == np.float16:
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-3, equal_nan=True)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_arithmetic_is_correctly_rounded(any_device: dml.Device) -> None:
    generator = np.random.default_rng(0)
    x, y = (generator.integers(0, 2**16, 20_000, dtype=np.uint16).view(np.float16) for _ in range(2))
    mine = [xp.asarray(values, device=any_device) for values in (x, y)]
    with np.errstate(all="ignore"):
        wanted = [x + y, x - y, x * y, x / y, np.sqrt(np.abs(x))]
    found = [mine[0] + mine[1], mine[0] - mine[1], mine[0] * mine[1], mine[0] / mine[1], xp.sqrt(xp.abs(mine[0]))]
    for made, numpy_made in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(made), numpy_made)
