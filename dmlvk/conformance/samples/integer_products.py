"""Samples of products and convolutions of 8-bit integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.products import steps_of
from dmlvk.conformance.samples.quantized_products import any_integers

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
    for name, (leading, (rows, terms, columns), a_zero, b_zero) in _PRODUCTS.items():
        sizes = {"a": (*leading, rows, terms), "b": (*leading, terms, columns)}
        yield _sample(
            name, "MATRIX_MULTIPLY_INTEGER", types, random, {**sizes, "a_zero_point": a_zero, "b_zero_point": b_zero}
        )


def _sample(
    name: str, operator: str, types: Types, random: np.random.Generator, sizes: Mapping[str, Any], **members: Any
) -> Sample:
    """Of any integers; where there are no sizes, there is no tensor."""
    given = {f"{key}_tensor": size for key, size in sizes.items() if size is not None}
    inputs = {member: any_integers(types[member], size, random) for member, size in given.items()}
    return sample(name, operator, types, inputs, **members)


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
    for name, (sizes, window, options, input_zero, filter_zero) in _CONVOLUTIONS.items():
        given = {"input": sizes, "input_zero_point": input_zero, "filter": window, "filter_zero_point": filter_zero}
        yield _sample(name, "CONVOLUTION_INTEGER", types, random, given, **steps_of(len(sizes) - 2, **options))
