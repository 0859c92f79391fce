"""Products and convolutions of 8-bit integers, in 64-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Expected
from dmlvk.conformance.references.products import terms_of
from dmlvk.conformance.references.registry import reference
from dmlvk.operators.integer_products import as_convolution

Array = npt.NDArray[Any]


def _wrapped(sums: Array) -> Array:
    return sums.astype(np.uint32).view(np.int32)


def _zero(inputs: Mapping[str, Array], name: str, *shape: int) -> Array:
    return inputs[name].astype(np.int64).reshape(shape) if name in inputs else np.zeros((), np.int64)


@reference("MATRIX_MULTIPLY_INTEGER")
def matrix_multiply_integer(
    desc: dml.MatrixMultiplyInteger | dml.QuantizedLinearMatrixMultiply, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    a = inputs["ATensor"].astype(np.int64) - _zero(inputs, "AZeroPointTensor", -1, 1)
    b = inputs["BTensor"].astype(np.int64) - _zero(inputs, "BZeroPointTensor", 1, -1)
    return {"OutputTensor": _wrapped(a @ b)}


@reference("CONVOLUTION_INTEGER")
def convolution_integer(
    desc: dml.ConvolutionInteger | dml.QuantizedLinearConvolution, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    """The cross-correlation of differences."""
    source = inputs["InputTensor"].astype(np.int64) - _zero(inputs, "InputZeroPointTensor")
    spatial = source.ndim - 2
    window = inputs["FilterTensor"].astype(np.int64)
    window = window - _zero(inputs, "FilterZeroPointTensor", -1, *(1,) * (1 + spatial))
    alike = as_convolution(desc)
    groups = desc.group_count
    found = []
    for channels, weights in zip(np.split(source, groups, 1), np.split(window, groups), strict=True):
        total: Any = 0
        for weight, met, counts in terms_of(alike, channels, weights.swapaxes(0, 1), spatial):
            total = total + np.where(np.asarray(counts), weight * met, 0)
        found.append(total)
    return {"OutputTensor": _wrapped(np.concatenate(found, axis=1))}
