"""Samples of operators that put rows in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.indexed import any_bits
from dmlvk.datatypes import DataType
from dmlvk.operators.members import AxisDirection

Array = npt.NDArray[Any]

_CASES = (
    ("few of short rows", (5, 3, 40), 2, 4, AxisDirection.DECREASING),
    ("few of long rows", (3, 700), 1, 10, AxisDirection.INCREASING),
    ("all of columns", (130, 3), 0, 130, AxisDirection.INCREASING),
    ("many of a middle axis", (2, 97, 3), 1, 60, AxisDirection.DECREASING),
    ("of several pieces", (2, 2500), 1, 3, AxisDirection.DECREASING),
)


def _values(random: np.random.Generator, data_type: DataType, sizes: Sequence[int], number: int) -> Array:
    """Elements of any bits; or few different ones, both zeros and NaN among floats, so that many are equal."""
    if number % 2 == 0:
        return any_bits(random, data_type, sizes)
    chosen = random.integers(-3, 4, sizes) if data_type.is_float else random.integers(0, 7, sizes)
    values: Array = chosen.astype(data_type.numpy_dtype)
    if data_type.is_float:
        values[values == 3] = np.nan
        values *= np.where(random.integers(0, 2, sizes) == 0, -1, 1).astype(values.dtype)
    return values


def _samples(types: Types, random: np.random.Generator, operator: str) -> Iterator[Sample]:
    # Of the indices' data types one is tried with all shapes; what differs is two words instead of one.
    has_pairs = types["output_index_tensor"] is DataType.UINT64
    for number, (name, sizes, axis, count, direction) in enumerate(_CASES[:1] if has_pairs else _CASES):
        more = {"axis_direction": direction} if operator == "TOP_K1" else {}
        inputs = {"input_tensor": _values(random, types["input_tensor"], sizes, number)}
        yield sample(name, operator, types, inputs, axis=axis, k=count, **more)


@sampler("TOP_K")
def top_k(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Few and many of rows of many lengths, along any axis; many equal elements, NaN, both zeros."""
    yield from _samples(types, random, "TOP_K")


@sampler("TOP_K1")
def top_k1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The same in both directions."""
    yield from _samples(types, random, "TOP_K1")
