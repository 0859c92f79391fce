"""Reference of ROI_ALIGN_GRAD: outputs scatter their gradients, sample by sample, in NumPy's longest float."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.region_alignment import (
    AxisSamples,
    flushed,
    region_axes,
    sampled,
)
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import arithmetic_values, half_ulp
from dmlvk.operators.members import ReduceFunction
from dmlvk.operators.resampling import InterpolationMode

Array = npt.NDArray[Any]

_PART_OF_MAGNITUDES = 2.0**-20


class _Total:
    """A sum, and that of the terms' magnitudes."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.values = np.zeros(sizes, np.longdouble)
        self.magnitudes = np.zeros(sizes, np.longdouble)

    def add(self, at: Any, terms: Array) -> None:
        """Adds terms at an index; in places where they are 0 nothing is added."""
        with np.errstate(invalid="ignore"):
            self.values[at] += terms
            self.magnitudes[at] += np.where(np.isfinite(terms), np.abs(terms), 0.0)

    def expected(self, dtype: np.dtype[Any]) -> Bounded:
        values = self.values.astype(np.float64)
        magnitudes = np.where(np.isfinite(values), self.magnitudes, 0.0).astype(np.float64)
        return Bounded(values, 1.02 * half_ulp(values, dtype) + magnitudes * _PART_OF_MAGNITUDES)


def _winner(samples: Array, has_outside: bool) -> int:
    """The number of the largest sample, the first of several; -1: one outside, which counts as 0."""
    ranks = np.where(np.isnan(samples), -np.inf, samples)
    # +0 is above -0.
    signs = np.where(samples == 0, np.where(np.signbit(samples), -1, 0), 0)
    if not ranks.size:
        return -1
    best = int(np.lexsort((np.arange(ranks.size)[::-1], signs, ranks))[-1])
    if has_outside and (np.isnan(samples[best]) or (ranks[best], signs[best]) < (0.0, 0)):
        return -1
    return best


def _chosen(
    desc: dml.RoiAlignGrad, image: Array, rows: AxisSamples, columns: AxisSamples
) -> Iterator[tuple[int, Array]]:
    """For each channel the share of the gradient that each sample, {rows, columns}, takes."""
    count, inside = rows.count * columns.count, (rows.positions.size, columns.positions.size)
    if desc.reduction_function == ReduceFunction.AVERAGE:
        for channel in range(desc.input_gradient_tensor.sizes[1]):
            yield channel, np.full(inside, np.longdouble(1) / count)
        return
    samples = sampled(desc.interpolation_mode, image, rows, columns)
    for channel, own in enumerate(samples.reshape(samples.shape[0], -1)):
        shares = np.zeros(own.size, np.longdouble)
        winner = _winner(own, count > own.size)
        if winner >= 0:
            shares[winner] = 1.0
        yield channel, shares.reshape(inside)


def _scattered(total: _Total, at: tuple[int, int], gradient: Any, shares: Array, weights: tuple[Array, Array]) -> None:
    along_y, along_x = weights
    spread = along_y.T @ shares @ along_x
    positions = np.nonzero(spread)
    total.add((*at, *positions), spread[positions] * gradient)


def _differences(image: Array, rows: AxisSamples, columns: AxisSamples) -> tuple[Array, Array]:
    """How samples, {rows, columns}, change with their places along x and along y."""

    def change(of: Array, along: AxisSamples, across: AxisSamples) -> Array:
        behind = np.minimum(along.low + 1, of.shape[1] - 1)
        with np.errstate(invalid="ignore"):
            steps = of[:, behind] - of[:, along.low]
        below = np.minimum(across.low + 1, of.shape[0] - 1)
        fraction = across.fraction[:, None]
        with np.errstate(invalid="ignore"):
            mixed = steps[across.low] * (1.0 - fraction) + steps[below] * fraction
        averaged = np.where(fraction == 0.0, steps[across.low], mixed)
        return np.where(along.fraction == 0.0, 0.0, averaged)

    return change(image, columns, rows), change(image.T, rows, columns).T


def _add_slopes(
    desc: dml.RoiAlignGrad,
    total: _Total,
    region: int,
    axes: tuple[AxisSamples, AxisSamples],
    image: Array,
    shares: Array,
    gradient: Any,
) -> None:
    """Adds what one output of one channel has; ``shares`` are those that its samples have of its gradient."""
    rows, columns = axes
    scales = (float(flushed(desc.spatial_scale_x)), float(flushed(desc.spatial_scale_y)))
    slopes = _differences(image, rows, columns)
    for axis, (along, scale, slope) in enumerate(zip((columns, rows), scales, slopes, strict=True)):
        ends = along.steps / along.span if along.span else np.full(along.steps.shape, 0.5)
        ends = ends if axis == 0 else ends[:, None]
        used = (along.fraction != 0.0) if axis == 0 else (along.fraction != 0.0)[:, None]
        used = used & (shares != 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            for member, part in ((axis, 1.0 - ends), (axis + 2, ends)):
                terms = np.where(used, slope.astype(np.longdouble) * gradient * shares * part * scale, 0.0)
                total.values[region, member] += terms.sum()
                # Differences of neighbours lose what these have in common.
                known = np.abs(slope).max(initial=0.0) + np.abs(np.where(np.isfinite(image), image, 0.0)).max()
                known = known * np.abs(shares * gradient) * (np.abs(part) + 1.0) * abs(scale)
                total.magnitudes[region, member] += np.where(np.isfinite(known), known, 0.0).sum()


@reference("ROI_ALIGN_GRAD")
def roi_align_grad(desc: dml.RoiAlignGrad, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    gradients = arithmetic_values(inputs["InputGradientTensor"])
    regions, batches = inputs["ROITensor"].reshape(-1, 4), inputs["BatchIndicesTensor"].reshape(-1).tolist()
    source = inputs.get("InputTensor")
    (image_tensor, *_) = (tensor for tensor in (desc.input_tensor, desc.output_gradient_tensor) if tensor is not None)
    image_sizes = tuple(image_tensor.sizes)
    images = np.zeros(image_sizes) if source is None else arithmetic_values(source)
    of_images, of_regions = _Total(image_sizes), _Total((len(regions), 4))
    is_linear = desc.interpolation_mode == InterpolationMode.LINEAR
    for number, (region, batch) in enumerate(zip(regions, batches, strict=True)):
        if batch >= image_sizes[0]:
            continue
        rows, columns = region_axes(desc, region, image_sizes, gradients.shape)
        for y, x in np.ndindex(*gradients.shape[2:]):
            axes = rows[y], columns[x]
            weights = (
                axes[0].weights(desc.interpolation_mode, image_sizes[2]),
                axes[1].weights(desc.interpolation_mode, image_sizes[3]),
            )
            for channel, shares in _chosen(desc, images[batch], *axes):
                gradient = gradients[number, channel, y, x]
                _scattered(of_images, (batch, channel), gradient, shares, weights)
                if desc.output_roi_gradient_tensor is not None and is_linear:
                    _add_slopes(desc, of_regions, number, axes, images[batch, channel], shares, gradient)
    dtype = inputs["InputGradientTensor"].dtype
    outputs: dict[str, Expected] = {}
    if desc.output_gradient_tensor is not None:
        outputs["OutputGradientTensor"] = of_images.expected(dtype)
    if desc.output_roi_gradient_tensor is not None:
        found = of_regions.expected(dtype)
        sizes = desc.output_roi_gradient_tensor.sizes
        outputs["OutputROIGradientTensor"] = Bounded(found.values.reshape(sizes), found.bound.reshape(sizes))
    return outputs
