"""Samples of operators that move elements by indices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.samples import Sample, Sampler, Types, sample, sampler
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]


def any_bits(random: np.random.Generator, data_type: DataType, sizes: Sequence[int]) -> Array:
    """Elements of any bits, NaN and denormals among them: what is moved must come out as it is."""
    dtype = np.dtype(data_type.numpy_dtype)
    count = int(np.prod(sizes))
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(sizes).copy()


def indices_of(random: np.random.Generator, data_type: DataType, sizes: Sequence[int], choices: int) -> Array:
    """Indices below ``choices``; of signed types half of them count from the end; some lie outside, some very far."""
    dtype = np.dtype(data_type.numpy_dtype)
    is_signed = dtype.kind == "i"
    values = random.integers(-choices if is_signed else 0, choices, sizes).astype(dtype)
    if values.size > 12:
        limits = np.iinfo(dtype)
        far = [choices, choices + 3, int(limits.max), int(limits.min), 2**31]
        far += [-choices - 1, -(2**31)] if is_signed else [2**32 - 1]
        far += [2**32, 2**32 + 1] if dtype.itemsize == 8 else []
        far += [-(2**32), -(2**32) - 1] if dtype.itemsize == 8 and is_signed else []
        kept = [value for value in far if limits.min <= value <= limits.max]
        values.reshape(-1)[:: max(1, values.size // len(kept))][: len(kept)] = kept
    return values


def of_interest(samples: Iterable[Sample], types: Types) -> Iterator[Sample]:
    """All samples for the index types that differ most, INT64 and UINT32; for the others the first one."""
    everything = types.get("indices_tensor") in (DataType.INT64, DataType.UINT32)
    yield from samples if everything else itertools.islice(samples, 1)


def _index_sampler(operator_name: str) -> Callable[[Sampler], Sampler]:
    """Declares a function to be an operator's sampler, with :func:`of_interest` of its samples."""

    def declared(function: Sampler) -> Sampler:
        sampler(operator_name)(lambda types, random: of_interest(function(types, random), types))
        return function

    return declared


@_index_sampler("GATHER")
def _gather(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Rows of whole vectors, odd rows, single elements, a middle axis, scalars, and indices outside."""
    for name, sizes, index_sizes, axis, counted, output in (
        ("whole rows", (1, 7, 3, 16), (1, 1, 2, 9), 1, 2, (2, 9, 3, 16)),
        ("odd rows", (5, 7), (1, 23), 0, 1, (23, 7)),
        ("middle axis", (3, 8, 5), (1, 1, 19), 1, 1, (3, 19, 5)),
        ("one index", (3, 4, 2), (1, 1, 1), 1, 0, (1, 3, 2)),
    ):
        inputs = {
            "input_tensor": any_bits(random, types["input_tensor"], sizes),
            "indices_tensor": indices_of(random, types["indices_tensor"], index_sizes, sizes[axis]),
        }
        yield sample(name, "GATHER", types, inputs, output_tensor=output, axis=axis, index_dimensions=counted)


@_index_sampler("GATHER_ELEMENTS")
def _gather_elements(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Along the last axis and along another one, with more and with fewer indices than there are places."""
    for name, sizes, count, axis in (
        ("rows", (5, 13), 17, 1),
        ("columns", (2, 9, 3, 7), 4, 1),
        ("line", (300,), 1030, 0),
    ):
        index_sizes = (*sizes[:axis], count, *sizes[axis + 1 :])
        inputs = {
            "input_tensor": any_bits(random, types["input_tensor"], sizes),
            "indices_tensor": indices_of(random, types["indices_tensor"], index_sizes, sizes[axis]),
        }
        yield sample(name, "GATHER_ELEMENTS", types, inputs, axis=axis)


@_index_sampler("ONE_HOT")
def _one_hot(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Sequences along the last axis, along another one, and more values than two along a middle axis."""
    for name, sizes, axis, values in (
        ("rows", (21, 7), 1, (1, 2)),
        ("columns", (3, 5, 11), 1, (1, 3, 1)),
        ("one sequence", (40,), 0, (5,)),
    ):
        index_sizes = (*sizes[:axis], 1, *sizes[axis + 1 :])
        inputs = {
            "indices_tensor": indices_of(random, types["indices_tensor"], index_sizes, sizes[axis]),
            "values_tensor": any_bits(random, types["values_tensor"], values),
        }
        yield sample(name, "ONE_HOT", types, inputs, output_tensor=sizes, axis=axis)


_TUPLES = (
    # name, input, indices, how many of their last dimensions count, batches, blocks
    ("whole rows", (1, 5, 3, 16), (1, 2, 9, 2), 3, 3, 0, (1, 2, 9, 16)),
    ("single elements", (3, 4, 7), (1, 41, 3), 3, 2, 0, (1, 1, 41)),
    ("odd rows", (1, 6, 5), (1, 17, 1), 2, 2, 0, (1, 17, 5)),
    ("batches", (1, 3, 5, 7), (1, 3, 8, 1), 3, 3, 1, (1, 3, 8, 7)),
)
"""Tuples of indices: the last case is for operators with batches only."""


def _tuples(types: Types, random: np.random.Generator, sizes: Sequence[int], index_sizes: Sequence[int]) -> Array:
    """Tuples of indices into a tensor; some with one outside."""
    first = len(sizes) - index_sizes[-1] if len(sizes) == 3 else 1
    parts = [
        indices_of(random, types["indices_tensor"], index_sizes[:-1], sizes[first + number])
        for number in range(index_sizes[-1])
    ]
    return np.stack(parts, -1)


def _gather_nd_sampler(operator: str) -> None:
    @_index_sampler(operator)
    def samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
        """Blocks of whole vectors, single elements, odd blocks; and batches."""
        for name, sizes, index_sizes, counted, indices_counted, batches, blocks in _TUPLES:
            members = {"input_dimension_count": counted, "indices_dimension_count": indices_counted}
            if operator == "GATHER_ND1":
                members["batch_dimension_count"] = batches
            elif batches:
                continue
            values, index_type = any_bits(random, types["input_tensor"], sizes), types["indices_tensor"]
            if batches:
                indices = indices_of(random, index_type, index_sizes, sizes[2])
            else:
                indices = _tuples(types, random, sizes, index_sizes)
            inputs = {"input_tensor": values, "indices_tensor": indices}
            yield sample(name, operator, types, inputs, output_tensor=blocks, **members)


_gather_nd_sampler("GATHER_ND")
_gather_nd_sampler("GATHER_ND1")


@_index_sampler("SCATTER_ND")
def _scatter_nd(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The same tuples; many mean the same place."""
    for name, sizes, index_sizes, counted, indices_counted, _, blocks in _TUPLES[:-1]:
        inputs = {
            "input_tensor": any_bits(random, types["input_tensor"], sizes),
            "indices_tensor": _tuples(types, random, sizes, index_sizes),
            "updates_tensor": any_bits(random, types["updates_tensor"], blocks),
        }
        members = {"input_dimension_count": counted, "indices_dimension_count": indices_counted}
        yield sample(name, "SCATTER_ND", types, inputs, **members)


@_index_sampler("SCATTER")
def _scatter(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Along the last axis and along another one; many updates mean the same place."""
    for name, sizes, count, axis in (
        ("rows", (5, 13), 17, 1),
        ("columns", (2, 9, 3, 7), 4, 1),
        ("line", (1030,), 300, 0),
    ):
        index_sizes = (*sizes[:axis], count, *sizes[axis + 1 :])
        inputs = {
            "input_tensor": any_bits(random, types["input_tensor"], sizes),
            "indices_tensor": indices_of(random, types["indices_tensor"], index_sizes, sizes[axis]),
            "updates_tensor": any_bits(random, types["updates_tensor"], index_sizes),
        }
        yield sample(name, "SCATTER", types, inputs, axis=axis)


@sampler("REVERSE_SUBSEQUENCES")
def reverse_subsequences(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Sequences along the last axis, and along the first one, of whole vectors; lengths from 0 to far above."""
    for name, sizes, axis in (("rows", (29, 11), 1), ("columns of vectors", (7, 15, 16), 0)):
        lengths, length_type = (*sizes[:axis], 1, *sizes[axis + 1 :]), types["sequence_lengths_tensor"]
        inputs = {
            "input_tensor": any_bits(random, types["input_tensor"], sizes),
            "sequence_lengths_tensor": indices_of(random, length_type, lengths, sizes[axis] + 1),
        }
        yield sample(name, "REVERSE_SUBSEQUENCES", types, inputs, axis=axis)
