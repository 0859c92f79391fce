"""Samples of operators that make one element of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.normalization import special_values

Array = npt.NDArray[Any]

_ARG_FUNCTIONS = (dml.ReduceFunction.ARGMAX, dml.ReduceFunction.ARGMIN)


def _numbers(dtype: np.dtype[Any], random: np.random.Generator, sizes: Sequence[int]) -> Array:
    """Integers of the whole range with equals among them; floats of several magnitudes and both signs."""
    if dtype.kind == "f":
        values = random.normal(0, 1, sizes) * np.exp2(random.integers(-6, 7, sizes))
        return np.asarray(values, dtype)
    limits = np.iinfo(dtype)
    few = random.integers(limits.min, limits.max, 9, dtype, endpoint=True)
    return np.where(random.random(sizes) < 0.3, random.choice(few, sizes), _any(dtype, random, sizes)).astype(dtype)


def _any(dtype: np.dtype[Any], random: np.random.Generator, sizes: Sequence[int]) -> Array:
    limits = np.iinfo(dtype)
    values: Array = random.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
    return values


def reduced(sizes: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of what is made of rows along some axes."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(sizes))


def _with_special_values(values: Array, random: np.random.Generator) -> Array:
    """Of each row of the last two axes two elements become special values; some rows are zeros or NaN beside these."""
    if values.dtype.kind != "f":
        return values
    special = special_values(values.dtype)
    rows = values.reshape(len(values), -1).copy()
    for row in rows[2:]:
        row[random.integers(0, len(row), 2)] = random.choice(special, 2)
    rows[2::7, ::2] = -0.0
    rows[3::7, 1:] = rows[3::7, :1]
    rows[4::7, 3:] = np.nan
    rows[5::7] = np.where(np.isfinite(rows[5::7]), rows[5::7], 0.0) * 0.25
    return rows.reshape(values.shape)


@sampler("REDUCE")
def reduce(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Every function of the data types, of rows along two axes with special values among them; columns."""
    data_type, result = types["input_tensor"], types["output_tensor"]
    _, choices = dml.Reduce.declaration.support[-1].choices or ("", {})
    given = {"input_tensor": data_type, "output_tensor": result}
    functions = [function for function, choice in choices.items() if choice.accepts(given)]
    dtype = data_type.numpy_dtype

    def of_rows(name: str, function: dml.ReduceFunction, values: Array, axes: Sequence[int]) -> Sample:
        members = {"function": function, "axes": axes}
        return sample(f"{function.name}, {name}", "REDUCE", types, {"input_tensor": values}, **members)

    for function in functions:
        yield of_rows("rows", function, _with_special_values(_numbers(dtype, random, (40, 4, 19)), random), (1, 2))
    if functions[0] not in _ARG_FUNCTIONS:
        yield of_rows("columns", functions[0], _numbers(dtype, random, (21, 3, 5)), (1, 0))


def _arg_samples(operator: str, types: Types, random: np.random.Generator) -> Iterator[Sample]:
    dtype = types["input_tensor"].numpy_dtype

    def of_rows(name: str, values: Array, axes: Sequence[int], direction: dml.AxisDirection) -> Sample:
        members = {"axes": axes, "axis_direction": direction}
        return sample(f"{name}, {direction.name.lower()}", operator, types, {"input_tensor": values}, **members)

    if types["output_tensor"] is dml.DataType.UINT32:
        values = _numbers(dtype, random, (5, 3, 18))
        values[..., 9:] = values[..., :9]
        yield of_rows("equals", values, (2,), dml.AxisDirection.INCREASING)
        yield of_rows("equals", values, (0, 2), dml.AxisDirection.DECREASING)
        if dtype.kind == "f":
            special = _with_special_values(_numbers(dtype, random, (40, 4, 19)), random)
            yield of_rows("special values", special, (1, 2), dml.AxisDirection.DECREASING)
    else:
        yield of_rows("columns", _numbers(dtype, random, (7, 5)), (0,), dml.AxisDirection.INCREASING)


@sampler("ARGMAX")
def argmax(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Rows with equals, in both directions; columns; special values."""
    return _arg_samples("ARGMAX", types, random)


@sampler("ARGMIN")
def argmin(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Rows with equals, in both directions; columns; special values."""
    return _arg_samples("ARGMIN", types, random)
