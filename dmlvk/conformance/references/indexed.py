"""What operators must give that move elements by indices: NumPy's own indexing, with indices as Python integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference

Array = npt.NDArray[Any]


def nearest_indices(indices: Array, choices: int) -> npt.NDArray[np.int64]:
    """Indices as places below ``choices``: negative ones count from the end, those outside mean the nearest one."""

    def resolved(index: int) -> int:
        return min(max(index + choices if index < 0 else index, 0), choices - 1)

    flat = [resolved(int(index)) for index in indices.reshape(-1)]
    return np.array(flat, np.int64).reshape(indices.shape)


def exact_indices(indices: Array, choices: int) -> npt.NDArray[np.int64]:
    """The same; those outside are -1."""

    def resolved(index: int) -> int:
        counted = index + choices if index < 0 else index
        return counted if 0 <= counted < choices else -1

    flat = [resolved(int(index)) for index in indices.reshape(-1)]
    return np.array(flat, np.int64).reshape(indices.shape)


def as_bits(values: Array) -> Array:
    """Elements as opaque bits: NumPy might make other NaN of NaN."""
    return np.ascontiguousarray(values).view(np.dtype(f"u{values.dtype.itemsize}"))


@reference("GATHER")
def gather(desc: dml.Gather, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    source = inputs["InputTensor"]
    indices = inputs["IndicesTensor"]
    indices = indices.reshape(indices.shape[indices.ndim - desc.index_dimensions :])
    positions = nearest_indices(indices, source.shape[desc.axis])
    taken = np.take(as_bits(source), positions, axis=desc.axis)
    return {"OutputTensor": taken.reshape(tuple(desc.output_tensor.sizes)).view(source.dtype)}


@reference("GATHER_ELEMENTS")
def gather_elements(desc: dml.GatherElements, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """numpy.take_along_axis."""
    source = inputs["InputTensor"]
    positions = nearest_indices(inputs["IndicesTensor"], source.shape[desc.axis])
    return {"OutputTensor": np.take_along_axis(as_bits(source), positions, desc.axis).view(source.dtype)}


@reference("ONE_HOT")
def one_hot(desc: dml.OneHot, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Off everywhere, then on in the places that are inside."""
    values = inputs["ValuesTensor"]
    last = max(axis for axis, size in enumerate(values.shape) if size > 1)
    positions = [0] * values.ndim
    bits = as_bits(values)
    off = bits[tuple(positions)]
    positions[last] = 1
    on = bits[tuple(positions)]
    sizes = tuple(desc.output_tensor.sizes)
    hot = exact_indices(inputs["IndicesTensor"], sizes[desc.axis])
    shape = [1] * len(sizes)
    shape[desc.axis] = sizes[desc.axis]
    position = np.arange(sizes[desc.axis]).reshape(shape)
    return {"OutputTensor": np.where(position == hot, on, off).astype(bits.dtype).view(values.dtype)}


def _last(values: Array, count: int) -> Array:
    return values.reshape(values.shape[values.ndim - count :])


@reference("GATHER_ND1", "GATHER_ND")
def gather_nd(desc: dml.GatherNd | dml.GatherNd1, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Tuple after tuple."""
    source = _last(as_bits(inputs["InputTensor"]), desc.input_dimension_count)
    indices = _last(inputs["IndicesTensor"], desc.indices_dimension_count)
    batches = desc.batch_dimension_count if isinstance(desc, dml.GatherNd1) else 0
    parts = [nearest_indices(indices[..., n], source.shape[batches + n]) for n in range(indices.shape[-1])]
    blocks = []
    for at in np.ndindex(parts[0].shape):
        position = (*at[:batches], *(int(part[at]) for part in parts))
        blocks.append(source[position].reshape(-1))
    sizes = tuple(desc.output_tensor.sizes)
    return {"OutputTensor": np.concatenate(blocks).reshape(sizes).view(inputs["InputTensor"].dtype)}


@reference("SCATTER_ND")
def scatter_nd(desc: dml.ScatterNd, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Tuple after tuple, in row-major order; a later one overwrites."""
    result = as_bits(inputs["InputTensor"]).copy()
    kept = _last(result, desc.input_dimension_count)
    indices = _last(inputs["IndicesTensor"], desc.indices_dimension_count)
    parts = [exact_indices(indices[..., n], kept.shape[n]) for n in range(indices.shape[-1])]
    blocks = as_bits(inputs["UpdatesTensor"]).reshape((*indices.shape[:-1], *kept.shape[indices.shape[-1] :]))
    for at in np.ndindex(parts[0].shape):
        position = tuple(int(part[at]) for part in parts)
        if min(position) >= 0:
            kept[position] = blocks[at]
    return {"OutputTensor": result.view(inputs["InputTensor"].dtype)}


@reference("SCATTER")
def scatter(desc: dml.Scatter, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Update after update, in row-major order; a later one overwrites."""
    result = as_bits(inputs["InputTensor"]).copy()
    updates = as_bits(inputs["UpdatesTensor"])
    positions = exact_indices(inputs["IndicesTensor"], result.shape[desc.axis])
    for at in np.ndindex(positions.shape):
        if positions[at] >= 0:
            position = (*at[: desc.axis], int(positions[at]), *at[desc.axis + 1 :])
            result[position] = updates[at]
    return {"OutputTensor": result.view(inputs["InputTensor"].dtype)}


@reference("REVERSE_SUBSEQUENCES")
def reverse_subsequences(desc: dml.ReverseSubsequences, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Sequence after sequence."""
    result = as_bits(inputs["InputTensor"]).copy()
    sequences = np.moveaxis(result, desc.axis, -1)
    lengths = np.moveaxis(inputs["SequenceLengthsTensor"], desc.axis, -1)[..., 0]
    for at in np.ndindex(lengths.shape):
        length = min(int(lengths[at]), sequences.shape[-1])
        sequences[at][:length] = sequences[at][:length][::-1].copy()
    return {"OutputTensor": result.view(inputs["InputTensor"].dtype)}
