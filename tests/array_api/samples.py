"""What the functions of the standard are tried with, and how their results are compared with array-api-strict's."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dmlvk.array_api as xp

strict = pytest.importorskip("array_api_strict")  # of the command in docs/how-to/array-programs.md

EXAMPLES = int(os.environ.get("DMLVK_ARRAY_API_EXAMPLES", "4"))  # Examples of each function; hundreds by hand

tried = settings(max_examples=EXAMPLES, derandomize=EXAMPLES < 100)

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float32",)
NUMERIC = INTEGERS + FLOATS
ALL = ("bool", *NUMERIC)
SMALLEST = float(np.finfo(np.float32).smallest_normal)


def shapes(least: int = 0, most: int = 3, side: int = 4, smallest: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of few elements, some of them empty."""
    return (
        hnp.array_shapes(min_dims=least, max_dims=most, min_side=smallest, max_side=side)
        if least
        else st.one_of(st.just(()), hnp.array_shapes(min_dims=1, max_dims=most, min_side=smallest, max_side=side))
    )


def floats(low: float | None = None, high: float | None = None) -> st.SearchStrategy[float]:
    """float32 numbers without denormals, which dmlvk takes for zero; without bounds also infinities and NaN."""
    return st.floats(low, high, width=32, allow_subnormal=False)


def arrays(
    dtype: str, shape: Any, low: float | None = None, high: float | None = None
) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """NumPy's arrays of a type and a shape."""
    if dtype == "bool":
        return hnp.arrays(np.bool_, shape)
    if dtype == "float32":
        return hnp.arrays(np.float32, shape, elements=floats(low, high))
    limits = np.iinfo(dtype)
    least = limits.min if low is None else max(limits.min, int(low))
    most = limits.max if high is None else min(limits.max, int(high))
    return hnp.arrays(np.dtype(dtype), shape, elements=st.integers(int(least), int(most)))


@st.composite
def pairs(
    draw: Callable[..., Any], dtypes: tuple[str, ...], low: float | None = None, high: float | None = None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two arrays whose types promote and whose shapes broadcast."""
    first = draw(st.sampled_from(dtypes))
    second = draw(st.sampled_from([one for one in dtypes if _promote(first, one)]))
    found = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4, min_side=0))
    a, b = found.input_shapes
    return draw(arrays(first, a, low, high)), draw(arrays(second, b, low, high))


def _promote(first: str, second: str) -> bool:
    try:
        strict.result_type(getattr(strict, first), getattr(strict, second))
    except TypeError:
        return False
    return True


def ours(x: Any) -> Any:
    """An array of NumPy's as one of dmlvk's."""
    return xp.asarray(x)


def theirs(x: Any, *, is_wide: bool = False) -> Any:
    """An array of NumPy's as one of array-api-strict's; floats in 64 bits if wanted."""
    wide = is_wide and x.dtype == np.float32
    return strict.asarray(x.astype(np.float64) if wide else x)


def without_denormals(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers too small for arithmetic as zeros of their sign."""
    return np.where(np.abs(x) < SMALLEST, np.copysign(np.float32(0), x), x) if x.dtype == np.float32 else x


def check(made: Any, wanted: Any, *, ulps: float = 0, absolute: float = 0, signs: bool = True) -> None:
    """Compares type, shape and elements.

    Args:
        wanted: array-api-strict's; floats of 64 bits are rounded to 32.
        ulps: how many roundings of float32 floats may differ by.
        absolute: what they may differ by in any case.
    """
    reference = np.asarray(wanted._array if hasattr(wanted, "_array") else wanted)
    assert made.shape == reference.shape, (made.shape, reference.shape)
    if reference.dtype != np.float64:
        assert made.dtype == reference.dtype, (made.dtype, reference.dtype)
        exact = reference
    else:
        assert made.dtype == np.float32, made.dtype
        with np.errstate(over="ignore"):
            exact = reference.astype(np.float32)
    got = without_denormals(np.asarray(made))
    exact = without_denormals(np.asarray(exact))
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, exact)
        return
    if ulps == 0 and absolute == 0:
        np.testing.assert_array_equal(got, exact)
        if signs:
            numbers = ~np.isnan(exact)
            np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(exact)[numbers])
        return
    plain = np.isfinite(exact) & np.isfinite(got)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    beyond = ~plain & ~np.isnan(exact)
    largest = float(np.finfo(np.float32).max)
    for a, b in zip(got[beyond].ravel(), exact[beyond].ravel(), strict=True):  # a rounding may pass the largest number
        assert a == b or math.isclose(
            min(max(float(a), -largest), largest), min(max(float(b), -largest), largest), rel_tol=1e-6
        )
    allowed = ulps * np.maximum(np.spacing(np.abs(exact[plain])), SMALLEST * 2.0**-23) + absolute
    differences = np.abs(got[plain].astype(np.float64) - reference[plain].astype(np.float64))
    assert np.all(differences <= np.maximum(allowed, SMALLEST if ulps else 0)), (got, exact, differences, allowed)


def same(name: str, *given: Any, is_wide: bool = False, ulps: float = 0, absolute: float = 0, **named: Any) -> None:
    """Holds what a function gives of NumPy's arrays, or sequences of them, against array-api-strict's.

    Args:
        is_wide: whether the reference computes floats in 64 bits.
        named: ``signs`` for :func:`check`, the others for the function.
    """
    signs, function = named.pop("signs", True), operator.attrgetter(name)
    made = function(xp)(*(_each(ours, one) for one in given), **named)
    wanted = function(strict)(*(_each(lambda x: theirs(x, is_wide=is_wide), one) for one in given), **named)
    several = (made, wanted) if isinstance(wanted, tuple | list) else ([made], [wanted])
    for one, other in zip(*several, strict=True):
        check(one, other, ulps=ulps, absolute=absolute, signs=signs)


def _each(convert: Callable[[Any], Any], given: Any) -> Any:
    if isinstance(given, list):
        return [_each(convert, one) for one in given]
    return convert(given) if isinstance(given, np.ndarray) else given
