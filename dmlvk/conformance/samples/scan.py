"""Samples of running sums and products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.normalization import special_values

Array = npt.NDArray[Any]
_UP, _DOWN = dml.AxisDirection.INCREASING, dml.AxisDirection.DECREASING


def _numbers(dtype: np.dtype[Any], random: np.random.Generator, sizes: Sequence[int]) -> Array:
    """Integers of the whole range, odd ones mostly; floats of several magnitudes and both signs."""
    if dtype.kind == "f":
        values = random.normal(0, 1, sizes) * np.exp2(random.integers(-3, 4, sizes))
        return np.asarray(values, dtype)
    limits = np.iinfo(dtype)
    integers: Array = random.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
    odd: Array = integers | (random.random(sizes) < 0.99).astype(dtype)
    return odd


def _with_special_values(values: Array, random: np.random.Generator) -> Array:
    """In each row but the first a special value comes late."""
    if values.dtype.kind == "f":
        for row, special in zip(values[1:], special_values(values.dtype), strict=False):
            row[random.integers(len(row) // 2, len(row))] = special
    return values


def _samples(types: Types, random: np.random.Generator, exclusive: str, name: str) -> Iterator[Sample]:
    dtype = types["input_tensor"].numpy_dtype

    def scanned(label: str, values: Array, axis: int, direction: dml.AxisDirection, is_exclusive: bool) -> Sample:
        members = {"axis": axis, "axis_direction": direction, exclusive: is_exclusive}
        return sample(label, name, types, {"input_tensor": values}, **members)

    yield scanned("rows", _with_special_values(_numbers(dtype, random, (21, 37)), random), 1, _UP, False)
    yield scanned("rows of fours, backward", _numbers(dtype, random, (3, 5, 44)), 2, _DOWN, False)
    yield scanned("columns, exclusive", _numbers(dtype, random, (300, 3)), 0, _UP, True)
    yield scanned("channels, backward, exclusive", _numbers(dtype, random, (2, 19, 7)), 1, _DOWN, True)
    yield scanned("several chunks", _numbers(dtype, random, (4500,)), 0, _UP, False)


@sampler("CUMULATIVE_SUMMATION")
def summation(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Rows, columns, both directions, exclusive sums, special values, and rows of more than one chunk."""
    return _samples(types, random, "has_exclusive_sum", "CUMULATIVE_SUMMATION")


@sampler("CUMULATIVE_PRODUCT")
def product(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    return _samples(types, random, "has_exclusive_product", "CUMULATIVE_PRODUCT")
