"""References of operators that resample: places in float32 steps, as is promised, and averages in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import arithmetic_values
from dmlvk.operators.members import AxisDirection
from dmlvk.operators.resampling import InterpolationMode, Resampled, ResampledGradient, Resampling, resamplings

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]

_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
_LEAST_FRACTION = 2.0**-24


def _positions(how: Resampling, size: int, extent: int) -> Float64Array:
    """Where the elements of an output axis lie along the input's."""
    with np.errstate(over="ignore"):
        offset = np.arange(size, dtype=np.float32) - np.float32(how.output_offset)
        positions = offset / np.float32(how.scale) - np.float32(how.input_offset)
    clipped: Float64Array = np.clip(positions.astype(np.float64), 0.0, extent - 1)
    return clipped


def _matrix(how: Resampling, size: int, extent: int) -> Float64Array:
    """The weights of an axis: a row for each element of the output, a column for each of the input."""
    positions = _positions(how, size, extent)
    matrix = np.zeros((size, extent))
    for row, position in enumerate(positions):
        if how.is_antialiased:
            reach = int(1 / how.scale) + 2
            for element in range(int(position) - reach, int(position) + reach + 1):
                weight = max(0.0, 1.0 - abs(element - position) * how.scale)
                matrix[row, min(max(element, 0), extent - 1)] += weight
            matrix[row] /= matrix[row].sum()
        else:
            low = int(np.floor(position))
            fraction = position - low
            fraction = 0.0 if fraction < _LEAST_FRACTION else fraction
            matrix[row, low] = 1.0 - fraction
            if fraction:
                matrix[row, low + 1] = fraction
    return matrix


def _along(matrix: Float64Array, values: Float64Array, axis: int) -> Float64Array:
    """The weighted averages along an axis; elements of weight 0 are left out."""
    moved = np.moveaxis(values, axis, 0)
    rows = []
    for weights in matrix:
        used = np.flatnonzero(weights)
        with np.errstate(invalid="ignore", over="ignore"):
            rows.append(np.tensordot(weights[used], moved[used], 1))
    return np.moveaxis(np.stack(rows), 0, axis)


def _numbers_of_nearest(desc: dml.OperatorDesc, how: Resampling, size: int, extent: int) -> npt.NDArray[np.int64]:
    direction = getattr(desc, "rounding_direction", None)
    positions = _positions(how, size, extent)
    if direction is None:
        numbers = np.ceil(positions - 0.5)
    else:
        numbers = np.ceil(positions) if direction == AxisDirection.INCREASING else np.floor(positions)
    first: npt.NDArray[np.int64] = np.maximum(numbers, 0).astype(np.int64)
    return first


def _nearest(desc: Resampled | dml.Upsample2d, source: Array) -> Array:
    for axis, how in enumerate(resamplings(desc)):
        numbers = _numbers_of_nearest(desc, how, desc.output_tensor.sizes[axis], source.shape[axis])
        source = np.take(source, numbers, axis)
    return source


def _resampled(desc: Resampled | dml.Upsample2d, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    source = inputs["InputTensor"]
    if desc.interpolation_mode == InterpolationMode.NEAREST_NEIGHBOR:
        return {"OutputTensor": _nearest(desc, source)}
    values = arithmetic_values(source)
    magnitudes = np.where(np.isfinite(values), np.abs(values), 0.0)
    steps = 4
    for axis in reversed(range(source.ndim)):
        how = resamplings(desc)[axis]
        matrix = _matrix(how, desc.output_tensor.sizes[axis], source.shape[axis])
        values, magnitudes = _along(matrix, values, axis), _along(matrix, magnitudes, axis)
        steps += 2 * int(2 / how.scale + 3) if how.is_antialiased else 4
    bound = magnitudes * steps * 2.0**-24 + (_SMALLEST_NORMAL if source.dtype == np.float32 else 0.0)
    if source.dtype.kind != "f":
        return {"OutputTensor": Bounded(values, bound + 0.5)}
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.where(np.isfinite(values), values, 0.0)
        bound = bound + np.spacing(np.abs(finite).astype(source.dtype)).astype(np.float64) / 2
    return {"OutputTensor": Bounded(values, bound)}


def _choices(desc: dml.OperatorDesc, how: Resampling, size: int, extent: int) -> Float64Array:
    """The weights of nearest elements along an axis: 1 for the one that is taken."""
    matrix = np.zeros((size, extent))
    matrix[np.arange(size), _numbers_of_nearest(desc, how, size, extent)] = 1.0
    return matrix


def _resampled_gradient(desc: ResampledGradient, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The weights' matrices, transposed."""
    source = inputs["InputGradientTensor"]
    values = arithmetic_values(source)
    magnitudes = np.where(np.isfinite(values), np.abs(values), 0.0)
    is_linear = desc.interpolation_mode == InterpolationMode.LINEAR
    count, axes = 1.0, 0
    for axis, how in enumerate(resamplings(desc)):
        size, extent = source.shape[axis], desc.output_gradient_tensor.sizes[axis]
        matrix = _matrix(how, size, extent) if is_linear else _choices(desc, how, size, extent)
        axes += not np.array_equal(matrix, np.eye(size, extent))
        count *= float(np.count_nonzero(matrix, axis=0).max())
        values, magnitudes = _along(matrix.T, values, axis), _along(matrix.T, magnitudes, axis)
    relative = axes * 2.0**-22 if is_linear else 2.0**-40
    # Spacings beside the largest number overflow; those of its neighbourhood are the same.
    most = 0.75 * float(np.finfo(source.dtype).max)
    finite = np.minimum(np.abs(np.where(np.isfinite(values), values, 0.0)), most)
    half = np.spacing(finite.astype(source.dtype)).astype(np.float64) / 2
    bound = magnitudes * max(relative, count * 2.0**-47) + 1.02 * half
    return {"OutputGradientTensor": Bounded(values, bound + (_SMALLEST_NORMAL if source.dtype == np.float32 else 0.0))}


for _name in ("RESAMPLE_GRAD", "RESAMPLE_GRAD1"):
    reference(_name)(_resampled_gradient)
for _name in ("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3", "UPSAMPLE_2D"):
    reference(_name)(_resampled)
