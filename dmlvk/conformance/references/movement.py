"""What the operators give that move elements by sizes and attributes: by NumPy's own functions and indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Expected
from dmlvk.conformance.references.registry import reference

Array = npt.NDArray[Any]


@reference("JOIN")
def join(desc: dml.Join, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """NumPy's concatenate, of whole elements as opaque bits."""
    parts = [inputs[f"InputTensors[{i}]"] for i in range(desc.input_count)]
    return {"OutputTensor": np.concatenate(parts, axis=desc.axis)}


@reference("SPLIT")
def split(desc: dml.Split, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """NumPy's split."""
    lengths = [tensor.sizes[desc.axis] for tensor in desc.output_tensors]
    parts = np.split(inputs["InputTensor"], np.cumsum(lengths)[:-1], axis=desc.axis)
    return {f"OutputTensors[{i}]": np.ascontiguousarray(part) for i, part in enumerate(parts)}


@reference("SLICE")
def slice_(desc: dml.Slice, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    windows = zip(desc.offsets, desc.sizes, desc.strides, strict=True)
    indices = [[offset + i * stride for i in range(size)] for offset, size, stride in windows]
    return {"OutputTensor": inputs["InputTensor"][np.ix_(*indices)]}


def window_indices(desc: dml.Slice1 | dml.SliceGrad, sizes: tuple[int, ...]) -> list[list[int]]:
    """The places along each axis that a window of SLICE1 has, in order, as many as there are sizes."""
    windows = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
    along = []
    for (offset, length, stride), size in zip(windows, sizes, strict=True):
        positions = list(range(offset, offset + length))
        taken = positions[::stride] if stride > 0 else positions[::-1][::-stride]
        along.append(taken[:size])
    return along


@reference("SLICE1")
def slice1(desc: dml.Slice1, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    indices = window_indices(desc, tuple(desc.output_tensor.sizes))
    return {"OutputTensor": inputs["InputTensor"][np.ix_(*indices)]}
