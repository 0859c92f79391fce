"""Samples of products and convolutions of 8-bit integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sampler
from dmlvk.conformance.samples.products import convolution_desc
from dmlvk.datatypes import DataType


def _any(data_type: DataType, shape: Sequence[int], random: np.random.Generator) -> npt.NDArray[Any]:
    limits = np.iinfo(data_type.numpy_dtype)
    return random.integers(limits.min, limits.max, tuple(shape), data_type.numpy_dtype, endpoint=True)


# leading sizes; rows, terms and columns; sizes of the zero points
_PRODUCTS: dict[str, Any] = {
    "without zero points": ((), (5, 7, 9), None, None),
    "zero points": ((2, 1), (6, 33, 260), (1, 1, 1, 1), (1, 1, 1, 1)),
    "a zero point for each row": ((), (9, 40, 12), (9, 1), (1, 1)),
    "a zero point for each column": ((3,), (4, 3, 13), None, (1, 1, 13)),
    "many terms": ((), (2, 40000, 3), (2, 1), (1, 3)),
}


@sampler("MATRIX_MULTIPLY_INTEGER")
def matrix_multiply_integer(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Zero points of every kind, and more terms than a launch adds."""
    tensor = dml.TensorDesc
    for name, (leading, (rows, terms, columns), a_zero, b_zero) in _PRODUCTS.items():
        sizes = {"a": (*leading, rows, terms), "b": (*leading, terms, columns)}
        inputs = {f"{key.upper()}Tensor": _any(types[f"{key}_tensor"], size, random) for key, size in sizes.items()}
        zeros: dict[str, dml.TensorDesc | None] = {}
        for key, size in (("a", a_zero), ("b", b_zero)):
            member = f"{key}_zero_point_tensor"
            zeros[member] = None if size is None else tensor(types[member], size)
            if size is not None:
                inputs[f"{key.upper()}ZeroPointTensor"] = _any(types[member], size, random)
        desc = dml.MatrixMultiplyInteger(
            a_tensor=tensor(types["a_tensor"], sizes["a"]),
            b_tensor=tensor(types["b_tensor"], sizes["b"]),
            output_tensor=tensor(types["output_tensor"], (*leading, rows, columns)),
            **zeros,
        )
        yield Sample(name, desc, inputs)


# input, filter, steps, sizes of the zero points
_CONVOLUTIONS: dict[str, Any] = {
    "without zero points": ((2, 3, 7, 6), (4, 3, 3, 2), {}, None, None),
    "padded": ((1, 4, 6, 5), (3, 4, 3, 3), {"start": (1, 2), "end": (2, 1)}, (1, 1, 1, 1), (1, 1, 1, 1)),
    "groups": (
        (1, 6, 8, 7),
        (4, 3, 3, 2),
        {"groups": 2, "strides": (2, 1), "dilations": (1, 2), "start": (1, 0)},
        (1, 1, 1, 1),
        (1, 4, 1, 1),
    ),
    "a line": ((2, 2, 9), (3, 2, 4), {"start": (1,), "end": (2,)}, (1,), (1, 3, 1)),
}


@sampler("CONVOLUTION_INTEGER")
def convolution_integer(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Zero points of every kind, with padding, steps and groups."""
    tensor = dml.TensorDesc
    for name, (sizes, window, options, input_zero, filter_zero) in _CONVOLUTIONS.items():
        alike = convolution_desc(dml.FLOAT32, sizes, window, **options)
        given = {"input": sizes, "input_zero_point": input_zero, "filter": window, "filter_zero_point": filter_zero}
        names = {"input_zero_point": "InputZeroPointTensor", "filter_zero_point": "FilterZeroPointTensor"}
        tensors: dict[str, Any] = {}
        inputs = {}
        for key, size in given.items():
            data_type = types[f"{key}_tensor"]
            tensors[f"{key}_tensor"] = None if size is None else tensor(data_type, size)
            if size is not None:
                inputs[names.get(key, f"{key.capitalize()}Tensor")] = _any(data_type, size, random)
        members = ("dimension_count", "strides", "dilations", "start_padding", "end_padding", "group_count")
        desc = dml.ConvolutionInteger(
            output_tensor=tensor(types["output_tensor"], alike.output_tensor.sizes),
            **tensors,
            **{member: getattr(alike, member) for member in members},
        )
        yield Sample(name, desc, inputs)
