"""Samples of the operators that move elements by sizes and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.datatypes import DataType
from dmlvk.operators.movement import Join, Split
from dmlvk.tensors import TensorDesc

Array = npt.NDArray[Any]


def any_bits(random: np.random.Generator, data_type: DataType, sizes: Sequence[int]) -> Array:
    """Elements of every bit pattern: denormals, infinities and NaN of all kinds among them."""
    dtype = data_type.numpy_dtype
    count = int(np.prod(sizes))
    return random.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype).reshape(sizes)


@sampler("JOIN")
def join(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Parts of odd lengths along the last, the first and a middle axis; one part alone; parts of whole words."""
    data_type = types["output_tensor"]
    for name, sizes, axis, lengths in (
        ("along the last axis", (2, 3, 4, 0), 3, (1, 5, 2)),
        ("along the first axis", (0, 2, 3, 5), 0, (2, 1)),
        ("along a middle axis", (3, 0, 2, 8), 1, (4, 3)),
        ("one part", (2, 1, 0, 7), 2, (3,)),
    ):
        parts = [(*sizes[:axis], length, *sizes[axis + 1 :]) for length in lengths]
        desc = Join(
            input_count=len(parts),
            input_tensors=[TensorDesc(data_type, part) for part in parts],
            output_tensor=TensorDesc(data_type, (*sizes[:axis], sum(lengths), *sizes[axis + 1 :])),
            axis=axis,
        )
        inputs = {f"InputTensors[{i}]": any_bits(random, data_type, part) for i, part in enumerate(parts)}
        yield Sample(name, desc, inputs)


@sampler("SPLIT")
def split(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The same parts as of :func:`join`."""
    data_type = types["input_tensor"]
    for name, sizes, axis, lengths in (
        ("along the last axis", (2, 3, 4, 0), 3, (1, 5, 2)),
        ("along the first axis", (0, 6, 5), 0, (2, 1)),
        ("along a middle axis", (3, 0, 2, 8), 1, (4, 3)),
        ("one part", (2, 0), 1, (3,)),
    ):
        whole = (*sizes[:axis], sum(lengths), *sizes[axis + 1 :])
        parts = [TensorDesc(data_type, (*sizes[:axis], length, *sizes[axis + 1 :])) for length in lengths]
        desc = Split(
            input_tensor=TensorDesc(data_type, whole), output_count=len(parts), output_tensors=parts, axis=axis
        )
        yield Sample(name, desc, {"InputTensor": any_bits(random, data_type, whole)})


@sampler("SLICE")
def slice_(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Steps along all axes, neighbours from an odd place on, and one element."""
    data_type = types["input_tensor"]
    for name, whole, offsets, sizes, strides in (
        ("steps", (3, 4, 7, 9), (1, 0, 1, 2), (1, 2, 3, 3), (1, 3, 2, 3)),
        ("neighbours", (2, 2, 6, 23), (0, 1, 2, 5), (2, 1, 3, 14), (1, 1, 1, 1)),
        ("one element", (1, 2, 3, 5), (0, 1, 2, 3), (1, 1, 1, 1), (7, 8, 9, 2**32 - 1)),
        ("steps of six dimensions", (2, 3, 2, 4, 3, 5), (0, 1, 0, 0, 1, 1), (2, 1, 2, 2, 2, 2), (1, 1, 1, 3, 1, 3)),
    ):
        inputs = {"input_tensor": any_bits(random, data_type, whole)}
        yield sample(name, "SLICE", types, inputs, offsets=offsets, sizes=sizes, strides=strides)


WINDOWS = (
    ("both directions", (3, 4, 7, 9), (1, 0, 1, 2), (2, 4, 5, 7), (1, -3, 2, -2), (2, 2, 3, 4)),
    ("backwards", (2, 2, 6, 23), (0, 1, 2, 5), (2, 1, 3, 14), (-1, -1, -1, -1), (2, 1, 3, 14)),
    ("fewer than the window has", (1, 5, 6), (0, 1, 0), (1, 4, 6), (1, -2, 2), (1, 1, 2)),
    ("strides beyond the window", (4, 9), (1, 2), (3, 6), (2**31 - 1, -(2**31)), (1, 1)),
)
"""Name, sizes of the tensor, offsets, sizes and strides of the window, and sizes of what is taken."""


@sampler("SLICE1")
def slice1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Windows in both directions."""
    data_type = types["input_tensor"]
    for name, whole, offsets, sizes, strides, taken in WINDOWS:
        window = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}
        inputs = {"input_tensor": any_bits(random, data_type, whole)}
        yield sample(name, "SLICE1", types, inputs, output_tensor=taken, **window)
