"""References of operators that resize regions: places in float32 steps, as is promised; samples in float64."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import arithmetic_values, half_ulp
from dmlvk.operators.members import ReduceFunction
from dmlvk.operators.resampling import InterpolationMode

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]

Alignment: TypeAlias = dml.RoiAlign | dml.RoiAlign1 | dml.RoiAlignGrad

_LEAST_FRACTION = 2.0**-24
_MOST_SAMPLES = 2**24


def flushed(values: Any) -> Any:
    """As float32, denormals as zeros."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        singles = np.asarray(values).astype(np.float32)
    flat: Any = np.where(np.abs(singles) < np.finfo(np.float32).tiny, np.float32(0), singles)
    return flat[()]


@dataclasses.dataclass(frozen=True)
class AxisSamples:
    """The samples of one output along an axis."""

    count: int  # how many there are
    steps: Float64Array  # of those that lie inside of the input, k - OutputPixelOffset
    positions: Float64Array  # where they lie, in whole steps of the input, after the edges have drawn them in
    span: int  # by what a step is divided: OutputSize * samples, or one less. 0: the only sample, in the middle

    @property
    def low(self) -> npt.NDArray[np.int64]:
        return np.floor(self.positions).astype(np.int64)

    @property
    def fraction(self) -> Float64Array:
        """How far behind these the places lie."""
        fraction = self.positions - np.floor(self.positions)
        return np.where(fraction < _LEAST_FRACTION, 0.0, fraction)

    @property
    def nearest(self) -> npt.NDArray[np.int64]:
        numbers: npt.NDArray[np.int64] = np.maximum(np.ceil(self.positions - 0.5), 0).astype(np.int64)
        return numbers

    def weights(self, mode: InterpolationMode, extent: int) -> Float64Array:
        """A row for each sample, a column for each element."""
        rows, matrix = np.arange(self.positions.size), np.zeros((self.positions.size, extent))
        if mode == InterpolationMode.NEAREST_NEIGHBOR:
            matrix[rows, self.nearest] = 1.0
            return matrix
        matrix[rows, self.low] = 1.0 - self.fraction
        behind = np.minimum(self.low + 1, extent - 1)
        np.add.at(matrix, (rows, behind), self.fraction)
        return matrix


def axis_samples(
    desc: Alignment, corners: tuple[Any, Any], scale: float, outputs: int, extent: int
) -> list[AxisSamples]:
    """The samples of each output along an axis; none lie inside where the corners are not finite."""
    input_offset = flushed(getattr(desc, "input_pixel_offset", 0.5))
    output_offset = flushed(getattr(desc, "output_pixel_offset", -0.5))
    reaches = bool(getattr(desc, "align_regions_to_corners", False))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        start, end = (flushed(flushed(corner) * flushed(scale)) for corner in corners)
        size = flushed(end - start)
        nothing = np.zeros(0)
        if not (np.isfinite(start) and np.isfinite(end) and np.isfinite(size)):
            return [AxisSamples(1, nothing, nothing, 1)] * outputs
        fewest, most = max(desc.minimum_samples_per_output, 1), desc.maximum_samples_per_output
        share = math.ceil(np.abs(size) / np.float32(outputs))
        count = int(min(max(share, fewest), most, _MOST_SAMPLES // outputs))
        span = outputs * count - int(reaches)
        step = flushed(size / np.float32(span)) if span else np.float32(0)
        if not span:
            start = flushed(start + flushed(size / 2))
        found = []
        for output in range(outputs):
            offset = np.arange(output * count, (output + 1) * count, dtype=np.float32) - output_offset
            positions = (offset * step + start) - input_offset
            inside = (positions >= -1) & (positions <= extent)
            steps, inner = offset[inside].astype(np.float64), positions[inside].astype(np.float64)
            found.append(AxisSamples(count, steps, np.clip(inner, 0, extent - 1), span))
    return found


def region_axes(
    desc: Alignment, region: Array, image: tuple[int, ...], pooled: tuple[int, ...]
) -> list[list[AxisSamples]]:
    """The samples along y and along x of each row and each column of the output."""
    left, top, right, bottom = region
    return [
        axis_samples(desc, (top, bottom), desc.spatial_scale_y, pooled[2], image[2]),
        axis_samples(desc, (left, right), desc.spatial_scale_x, pooled[3], image[3]),
    ]


def _between(low: Array, behind: Array, fraction: Float64Array) -> Array:
    """The weighted average; what has no weight is left out."""
    with np.errstate(invalid="ignore"):
        return np.where(fraction == 0.0, low, low * (1.0 - fraction) + behind * fraction)


def sampled(mode: InterpolationMode, image: Array, rows: AxisSamples, columns: AxisSamples) -> Array:
    """The samples of an output, {C, rows, columns}, of an image {C, H, W}."""
    if mode == InterpolationMode.NEAREST_NEIGHBOR:
        return image[:, rows.nearest][:, :, columns.nearest]
    right = np.minimum(columns.low + 1, image.shape[2] - 1)
    below = np.minimum(rows.low + 1, image.shape[1] - 1)
    upper, lower = image[:, rows.low], image[:, below]
    upper, lower = (
        _between(part[:, :, columns.low], part[:, :, right], columns.fraction[None, None]) for part in (upper, lower)
    )
    return _between(upper, lower, rows.fraction[None, :, None])


def _largest(samples: Array) -> Array:
    """Along the last axis: of a number and NaN the number, +0 above -0."""
    lowered = np.where(np.isnan(samples), -np.inf, samples)
    largest = lowered.max(axis=-1)
    has_positive_zero = ((samples == 0) & ~np.signbit(samples)).any(axis=-1)
    largest = np.where((largest == 0) & has_positive_zero, np.zeros((), samples.dtype), largest)
    return np.where(np.isnan(samples).all(axis=-1), np.array(np.nan, samples.dtype), largest)


class _Output:
    def __init__(self, desc: dml.RoiAlign | dml.RoiAlign1, dtype: np.dtype[Any]) -> None:
        self.desc, self.dtype = desc, dtype
        self.is_exact = desc.reduction_function == ReduceFunction.MAX
        self.is_exact &= desc.interpolation_mode == InterpolationMode.NEAREST_NEIGHBOR
        sizes = tuple(desc.output_tensor.sizes)
        self.values: Array = np.zeros(sizes, np.float32 if self.is_exact else np.float64)
        self.magnitudes = np.zeros(sizes)
        self.outside = np.float32(desc.out_of_bounds_input_value)

    def set(self, index: tuple[int, ...], samples: Array, magnitudes: Array, outside: int) -> None:
        """Sets the outputs {C} at an index (region, y, x).

        Args:
            samples: those inside, {C, samples}.
            outside: how many samples lie outside.
        """
        at = (index[0], slice(None), *index[1:])
        known = np.where(np.isfinite(magnitudes), magnitudes, 0.0)
        if self.desc.reduction_function == ReduceFunction.MAX:
            beyond = np.full((samples.shape[0], min(outside, 1)), self.outside, samples.dtype)
            self.values[at] = _largest(np.concatenate([samples, beyond], axis=1))
            self.magnitudes[at] = known.max(axis=1, initial=0.0)
            return
        value = float(flushed(self.outside)) if outside else 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            count = samples.shape[1] + outside
            self.values[at] = (samples.astype(np.longdouble).sum(axis=1) + np.longdouble(value) * outside) / count
            self.magnitudes[at] = (known.sum(axis=1) + abs(value) * outside) / count

    def expected(self) -> Expected:
        if self.is_exact:
            with np.errstate(over="ignore"):
                return self.values.astype(self.dtype)
        is_linear = self.desc.interpolation_mode == InterpolationMode.LINEAR
        magnitudes = np.where(np.isfinite(self.magnitudes), self.magnitudes, 0.0)
        values = self.values.astype(np.float64)
        bound = magnitudes * (2.0**-22 if is_linear else 2.0**-39)
        return Bounded(values, bound + 1.02 * half_ulp(values, self.dtype))


def _roi_align(desc: dml.RoiAlign | dml.RoiAlign1, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    source = inputs["InputTensor"]
    regions = inputs["ROITensor"].reshape(-1, 4)
    batches = inputs["BatchIndicesTensor"].reshape(-1)
    output = _Output(desc, source.dtype)
    images = source.astype(np.float32) if output.is_exact else arithmetic_values(source)
    for number, (region, batch) in enumerate(zip(regions, batches.tolist(), strict=True)):
        rows, columns = region_axes(desc, region, source.shape, output.values.shape)
        for y, x in np.ndindex(*output.values.shape[2:]):
            count = rows[y].count * columns[x].count
            samples = magnitudes = np.zeros((source.shape[1], 0), images.dtype)
            if batch < source.shape[0]:
                samples, magnitudes = (
                    sampled(desc.interpolation_mode, image, rows[y], columns[x]).reshape(source.shape[1], -1)
                    for image in (images[batch], np.abs(images[batch]))
                )
            output.set((number, y, x), samples, magnitudes, count - samples.shape[1])
    return {"OutputTensor": output.expected()}


for _name in ("ROI_ALIGN", "ROI_ALIGN1"):
    reference(_name)(_roi_align)
