"""Samples of operators that move elements by indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sampler
from dmlvk.datatypes import DataType
from dmlvk.tensors import TensorDesc

Array = npt.NDArray[Any]


def any_bits(random: np.random.Generator, data_type: DataType, sizes: Sequence[int]) -> Array:
    """Elements of any bits, NaN and denormals among them: what is moved must come out as it is."""
    dtype = np.dtype(data_type.numpy_dtype)
    count = int(np.prod(sizes))
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(sizes).copy()


def indices_of(
    random: np.random.Generator, data_type: DataType, sizes: Sequence[int], choices: int, *, outside: bool = True
) -> Array:
    """Indices below ``choices``; of signed types half of them count from the end; some lie outside, some very far."""
    dtype = np.dtype(data_type.numpy_dtype)
    is_signed = dtype.kind == "i"
    values = random.integers(-choices if is_signed else 0, choices, sizes).astype(dtype)
    if outside and values.size > 12:
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


@sampler("GATHER")
def gather(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Rows of whole vectors, odd rows, single elements, a middle axis, scalars, and indices outside."""
    yield from of_interest(_gather_samples(types, random), types)


def _gather_samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    cases = (
        ("whole rows", (7, 3, 16), (1, 2, 9), 0, 2, (2, 9, 3, 16)[-4:], True),
        ("odd rows", (5, 7), (1, 23), 0, 1, (23, 7), False),
        ("middle axis", (3, 8, 5), (1, 1, 19), 1, 1, (3, 19, 5), False),
        ("one index", (3, 4, 2), (1, 1, 1), 1, 0, (1, 3, 2), False),
    )
    for name, sizes, index_sizes, axis, counted, output, overflows in cases:
        if overflows:
            sizes, index_sizes = (1, *sizes), (1, *index_sizes)
            axis += 1
        yield _gather_sample(types, random, name, sizes, index_sizes, axis, counted, output)


def _gather_sample(
    types: Types,
    random: np.random.Generator,
    name: str,
    sizes: Sequence[int],
    index_sizes: Sequence[int],
    axis: int,
    counted: int,
    output: Sequence[int],
) -> Sample:
    desc = dml.Gather(
        input_tensor=TensorDesc(types["input_tensor"], sizes),
        indices_tensor=TensorDesc(types["indices_tensor"], index_sizes),
        output_tensor=TensorDesc(types["output_tensor"], output),
        axis=axis,
        index_dimensions=counted,
    )
    inputs = {
        "InputTensor": any_bits(random, types["input_tensor"], sizes),
        "IndicesTensor": indices_of(random, types["indices_tensor"], index_sizes, sizes[axis]),
    }
    return Sample(name, desc, inputs)


@sampler("GATHER_ELEMENTS")
def gather_elements(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Along the last axis and along another one, with more and with fewer indices than there are places."""
    yield from of_interest(_gather_elements_samples(types, random), types)


def _gather_elements_samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    for name, sizes, count, axis in (
        ("rows", (5, 13), 17, 1),
        ("columns", (2, 9, 3, 7), 4, 1),
        ("line", (300,), 1030, 0),
    ):
        index_sizes = (*sizes[:axis], count, *sizes[axis + 1 :])
        desc = dml.GatherElements(
            input_tensor=TensorDesc(types["input_tensor"], sizes),
            indices_tensor=TensorDesc(types["indices_tensor"], index_sizes),
            output_tensor=TensorDesc(types["output_tensor"], index_sizes),
            axis=axis,
        )
        inputs = {
            "InputTensor": any_bits(random, types["input_tensor"], sizes),
            "IndicesTensor": indices_of(random, types["indices_tensor"], index_sizes, sizes[axis]),
        }
        yield Sample(name, desc, inputs)


@sampler("ONE_HOT")
def one_hot(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Sequences along the last axis, along another one, and more values than two along a middle axis."""
    yield from of_interest(_one_hot_samples(types, random), types)


def _one_hot_samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    for name, sizes, axis, values in (
        ("rows", (21, 7), 1, (1, 2)),
        ("columns", (3, 5, 11), 1, (1, 3, 1)),
        ("one sequence", (40,), 0, (5,)),
    ):
        index_sizes = (*sizes[:axis], 1, *sizes[axis + 1 :])
        desc = dml.OneHot(
            indices_tensor=TensorDesc(types["indices_tensor"], index_sizes),
            values_tensor=TensorDesc(types["values_tensor"], values),
            output_tensor=TensorDesc(types["output_tensor"], sizes),
            axis=axis,
        )
        inputs = {
            "IndicesTensor": indices_of(random, types["indices_tensor"], index_sizes, sizes[axis]),
            "ValuesTensor": any_bits(random, types["values_tensor"], values),
        }
        yield Sample(name, desc, inputs)


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


@sampler("GATHER_ND")
def gather_nd(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Blocks of whole vectors, single elements, odd blocks."""
    yield from of_interest(_gather_nd_samples(types, random, dml.GatherNd), types)


@sampler("GATHER_ND1")
def gather_nd1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The same, and batches."""
    yield from of_interest(_gather_nd_samples(types, random, dml.GatherNd1), types)


def _gather_nd_samples(
    types: Types, random: np.random.Generator, kind: type[dml.GatherNd] | type[dml.GatherNd1]
) -> Iterator[Sample]:
    for name, sizes, index_sizes, counted, indices_counted, batches, blocks in _TUPLES:
        members: dict[str, Any] = {
            "input_tensor": TensorDesc(types["input_tensor"], sizes),
            "indices_tensor": TensorDesc(types["indices_tensor"], index_sizes),
            "output_tensor": TensorDesc(types["output_tensor"], blocks),
            "input_dimension_count": counted,
            "indices_dimension_count": indices_counted,
        }
        if kind is dml.GatherNd1:
            members["batch_dimension_count"] = batches
        elif batches:
            continue
        chosen = (1, *sizes[1 + batches :]) if batches else sizes
        inputs = {
            "InputTensor": any_bits(random, types["input_tensor"], sizes),
            "IndicesTensor": _tuples(types, random, chosen, index_sizes)
            if not batches
            else indices_of(random, types["indices_tensor"], index_sizes, sizes[2]),
        }
        yield Sample(name, kind(**members), inputs)


@sampler("SCATTER_ND")
def scatter_nd(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The same tuples; many mean the same place."""
    yield from of_interest(_scatter_nd_samples(types, random), types)


def _scatter_nd_samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    for name, sizes, index_sizes, counted, indices_counted, _, blocks in _TUPLES[:-1]:
        desc = dml.ScatterNd(
            input_tensor=TensorDesc(types["input_tensor"], sizes),
            indices_tensor=TensorDesc(types["indices_tensor"], index_sizes),
            updates_tensor=TensorDesc(types["updates_tensor"], blocks),
            output_tensor=TensorDesc(types["output_tensor"], sizes),
            input_dimension_count=counted,
            indices_dimension_count=indices_counted,
        )
        inputs = {
            "InputTensor": any_bits(random, types["input_tensor"], sizes),
            "IndicesTensor": _tuples(types, random, sizes, index_sizes),
            "UpdatesTensor": any_bits(random, types["updates_tensor"], blocks),
        }
        yield Sample(name, desc, inputs)


@sampler("SCATTER")
def scatter(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Along the last axis and along another one; many updates mean the same place."""
    yield from of_interest(_scatter_samples(types, random), types)


def _scatter_samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    for name, sizes, count, axis in (
        ("rows", (5, 13), 17, 1),
        ("columns", (2, 9, 3, 7), 4, 1),
        ("line", (1030,), 300, 0),
    ):
        index_sizes = (*sizes[:axis], count, *sizes[axis + 1 :])
        desc = dml.Scatter(
            input_tensor=TensorDesc(types["input_tensor"], sizes),
            indices_tensor=TensorDesc(types["indices_tensor"], index_sizes),
            updates_tensor=TensorDesc(types["updates_tensor"], index_sizes),
            output_tensor=TensorDesc(types["output_tensor"], sizes),
            axis=axis,
        )
        inputs = {
            "InputTensor": any_bits(random, types["input_tensor"], sizes),
            "IndicesTensor": indices_of(random, types["indices_tensor"], index_sizes, sizes[axis]),
            "UpdatesTensor": any_bits(random, types["updates_tensor"], index_sizes),
        }
        yield Sample(name, desc, inputs)


@sampler("REVERSE_SUBSEQUENCES")
def reverse_subsequences(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Sequences along the last axis, and along the first one, of whole vectors; lengths from 0 to far above."""
    for name, sizes, axis in (("rows", (29, 11), 1), ("columns of vectors", (7, 15, 16), 0)):
        lengths = (*sizes[:axis], 1, *sizes[axis + 1 :])
        if name == "columns of vectors":
            lengths = (1, 15, 16)
        desc = dml.ReverseSubsequences(
            input_tensor=TensorDesc(types["input_tensor"], sizes),
            sequence_lengths_tensor=TensorDesc(types["sequence_lengths_tensor"], lengths),
            output_tensor=TensorDesc(types["output_tensor"], sizes),
            axis=axis,
        )
        inputs = {
            "InputTensor": any_bits(random, types["input_tensor"], sizes),
            "SequenceLengthsTensor": indices_of(random, types["sequence_lengths_tensor"], lengths, sizes[axis] + 1),
        }
        yield Sample(name, desc, inputs)
