"""References of operators with windows: tap by tap, over whole arrays at once, in float64."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import arithmetic_values, half_ulp
from dmlvk.operators.pooling import Pooling, dilations_of, pooled_sizes

Array = npt.NDArray[Any]

_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
_FLOAT16_EXACT = 256


@dataclasses.dataclass(frozen=True)
class _WindowTap:
    values: Array  # as the output has them; those of padding are any
    numbers: npt.NDArray[np.int64]  # of the elements in logical order
    is_inside: npt.NDArray[np.bool_]  # whether they lie inside the input


def _taps(desc: Pooling, source: Array) -> Iterator[_WindowTap]:
    sizes = pooled_sizes(desc)["output_tensor"]
    numbers = np.arange(source.size, dtype=np.int64).reshape(source.shape)
    dilations = dilations_of(desc)
    for tap in itertools.product(*map(range, desc.window_size)):
        index: list[Array] = [np.arange(sizes[0]), np.arange(sizes[1])]
        inside: list[Array] = [np.ones(sizes[0], bool), np.ones(sizes[1], bool)]
        for axis, offset in enumerate(tap):
            at = np.arange(sizes[axis + 2]) * desc.strides[axis] + offset * dilations[axis] - desc.start_padding[axis]
            extent = source.shape[axis + 2]
            inside.append((at >= 0) & (at < extent))
            index.append(np.clip(at, 0, extent - 1))
        grid = np.ix_(*index)
        mask = np.ones(sizes, bool)
        for part in np.ix_(*(np.where(is_inside, 1, 2) for is_inside in inside)):
            mask &= part == 1
        yield _WindowTap(source[grid], numbers[grid], mask)


def _maxima(
    desc: dml.MaxPooling | dml.MaxPooling1 | dml.MaxPooling2, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    source = inputs["InputTensor"]
    sizes = pooled_sizes(desc)["output_tensor"]
    is_float = source.dtype.kind == "f"
    best = np.full(sizes, -np.inf if is_float else np.iinfo(source.dtype).min, source.dtype)
    index = np.full(sizes, -1, np.int64)
    for tap in _taps(desc, source):
        with np.errstate(invalid="ignore"):
            is_larger = tap.values > best
            if is_float:
                is_larger |= np.isnan(best) & ~np.isnan(tap.values)
                is_larger |= (tap.values == best) & np.signbit(best) & ~np.signbit(tap.values)
        chosen = tap.is_inside & (is_larger | (index < 0))
        best = np.where(chosen, tap.values, best)
        index = np.where(chosen, tap.numbers, index)
    if is_float:
        best = np.where(np.isnan(best), np.array(np.nan, source.dtype), best)
    outputs: dict[str, Expected] = {"OutputTensor": best.astype(source.dtype)}
    indices = getattr(desc, "output_indices_tensor", None)
    if indices is not None:
        outputs["OutputIndicesTensor"] = index.astype(indices.data_type.numpy_dtype)
    return outputs


def _averages(desc: dml.AveragePooling | dml.AveragePooling1, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    source = inputs["InputTensor"]
    sizes = pooled_sizes(desc)["output_tensor"]
    total, magnitudes = np.zeros(sizes), np.zeros(sizes)
    count = np.zeros(sizes)
    with np.errstate(invalid="ignore"):
        for tap in _taps(desc, source):
            numbers = np.where(tap.is_inside, arithmetic_values(tap.values), 0.0)
            total += numbers
            magnitudes += np.abs(numbers)
            count += tap.is_inside
        taps = int(np.prod(desc.window_size))
        count = np.full(sizes, float(taps)) if desc.include_padding else np.maximum(count, 1.0)
        values = total / count
    if source.dtype == np.float16 and taps <= _FLOAT16_EXACT:
        values = np.where(total == 0.0, 0.0, values)
        return {"OutputTensor": np.where(np.isnan(values), np.nan, values).astype(np.float16)}
    means = np.where(np.isfinite(magnitudes), magnitudes, 0.0) / count
    bound = means * max(2.0**-40, taps * 2.0**-47)
    return {"OutputTensor": Bounded(values, half_ulp(values, source.dtype) + bound)}


def _norms(desc: dml.LpPooling | dml.LpPooling1, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    source = inputs["InputTensor"]
    sizes = pooled_sizes(desc)["output_tensor"]
    taps = [np.where(tap.is_inside, np.abs(arithmetic_values(tap.values)), 0.0) for tap in _taps(desc, source)]
    largest = np.zeros(sizes)
    for values in taps:
        largest = np.where(np.isnan(values) | np.isnan(largest), np.nan, np.maximum(values, largest))
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.sum([np.where(largest > 0, values / largest, 0.0) ** desc.p for values in taps], axis=0)
        norms = np.where(np.isfinite(largest) & (largest > 0), largest * total ** (1.0 / desc.p), largest)
    ulps = 1.02 if desc.p <= 2 else 2 * (3 + np.log(len(taps)) / desc.p)
    finite = np.where(np.isfinite(norms), norms, 0.0)
    bound = ulps * half_ulp(norms, source.dtype) + finite * len(taps) * 2.0**-47
    return {"OutputTensor": Bounded(norms, bound)}


for _name in ("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"):
    reference(_name)(_maxima)
for _name in ("AVERAGE_POOLING", "AVERAGE_POOLING1"):
    reference(_name)(_averages)
for _name in ("LP_POOLING", "LP_POOLING1"):
    reference(_name)(_norms)


@reference("AVERAGE_POOLING_GRAD")
def average_pooling_grad(desc: dml.AveragePoolingGrad, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Window by window: its share is added to the elements that it covers, in the longest float that NumPy has."""
    source, sizes = inputs["InputGradientTensor"], desc.output_gradient_tensor.sizes
    numbers = arithmetic_values(source).astype(np.longdouble)
    total, magnitudes = np.zeros(sizes, np.longdouble), np.zeros(sizes, np.longdouble)
    for window in np.ndindex(*source.shape[2:]):
        covered = [slice(None), slice(None)]
        axes = zip(window, desc.strides, desc.start_padding, desc.window_size, sizes[2:], strict=True)
        for number, stride, padding, taps, size in axes:
            first = number * stride - padding
            covered.append(slice(min(max(first, 0), size), min(max(first + taps, 0), size)))
        inside = int(np.prod([part.stop - part.start for part in covered[2:]]))
        if inside == 0:
            continue
        count = int(np.prod(desc.window_size)) if desc.include_padding else inside
        at: list[Any] = [slice(None), slice(None), *window]
        share = numbers[tuple(at)].reshape(*sizes[:2], *[1] * len(window)) / count
        with np.errstate(invalid="ignore"):
            total[tuple(covered)] += share
            magnitudes[tuple(covered)] += np.abs(share)
    values, sums = total.astype(np.float64), magnitudes.astype(np.float64)
    known = np.where(np.isfinite(values), sums, 0.0)
    return {"OutputGradientTensor": Bounded(values, 1.02 * half_ulp(values, source.dtype) + known * 2.0**-39)}


def _inside(first: int, taps: int, apart: int, size: int) -> range:
    """Those of places that lie so far apart, from the first one on, which are elements of an axis."""
    begin, end = max(0, -(first // apart)), min(taps, (size - 1 - first) // apart + 1)
    return range(first + begin * apart, first + end * apart, apart)


@reference("MAX_POOLING_GRAD")
def max_pooling_grad(desc: dml.MaxPoolingGrad, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Window by window: its elements are put in order, and its gradient is added to the first of the largest ones."""
    source, gradients = inputs["InputTensor"], inputs["InputGradientTensor"]
    with np.errstate(invalid="ignore"):  # of signaling NaN
        numbers, values = arithmetic_values(gradients).astype(np.longdouble), source.astype(np.float64)
    total, magnitudes = np.zeros(source.shape, np.longdouble), np.zeros(source.shape, np.longdouble)
    count = np.zeros(source.shape)
    axes = list(zip(desc.strides, desc.start_padding, desc.window_size, desc.dilations, source.shape[2:], strict=True))
    for window in np.ndindex(*gradients.shape):
        covered = [
            _inside(number * step - pad, taps, apart, size)
            for number, (step, pad, taps, apart, size) in zip(window[2:], axes, strict=True)
        ]
        if not all(covered):
            continue
        inside = values[window[0], window[1]][np.ix_(*covered)]
        # Numbers before NaN, larger ones before smaller ones, +0 before -0, and earlier ones before later ones.
        keys = (np.arange(inside.size), np.signbit(inside).ravel(), -inside.ravel(), np.isnan(inside).ravel())
        first = np.unravel_index(np.lexsort(keys)[0], inside.shape)
        at = (*window[:2], *(taps[number] for taps, number in zip(covered, first, strict=True)))
        with np.errstate(invalid="ignore"):
            total[at] += numbers[window]
        magnitudes[at] += np.abs(numbers[window])
        count[at] += 1
    found, sums = total.astype(np.float64), magnitudes.astype(np.float64)
    bound = np.where(np.isfinite(found), sums, 0.0) * np.maximum(2.0**-40, count * 2.0**-47)
    return {"OutputGradientTensor": Bounded(found, 1.02 * half_ulp(found, gradients.dtype) + bound)}


@reference("MAX_UNPOOLING")
def max_unpooling(desc: dml.MaxUnpooling, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    result = np.zeros(desc.output_tensor.sizes, inputs["InputTensor"].dtype)
    flat = result.reshape(-1)
    for value, index in zip(
        inputs["InputTensor"].reshape(-1), inputs["IndicesTensor"].reshape(-1).tolist(), strict=True
    ):
        if index < flat.size:
            flat[index] = value
    return {"OutputTensor": result}


def _overflowed(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """With infinity for what is beyond float32's largest number."""
    return np.where(values > float(np.finfo(np.float32).max), np.inf, values)


def _sums_around(desc: dml.LocalResponseNormalization | dml.LocalResponseNormalizationGrad, values: Array) -> Array:
    before, behind = (desc.local_size - 1) // 2, desc.local_size // 2
    for axis in (1,) if desc.cross_channel else (2, 3):
        extent = values.shape[axis]
        lines = [
            np.take(values, range(max(0, at - before), min(extent, at + behind + 1)), axis).sum(axis)
            for at in range(extent)
        ]
        values = np.stack(lines, axis)
    return values


@reference("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(
    desc: dml.LocalResponseNormalization, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    """Element by element along the axes of the neighbours."""
    source = inputs["InputTensor"]
    total = _sums_around(desc, arithmetic_values(source) ** 2)
    factor = float(np.float32(desc.alpha) / np.float32(desc.local_size))
    with np.errstate(over="ignore", invalid="ignore"):
        base = _overflowed(float(np.float32(desc.bias)) + factor * _overflowed(total))
        values = arithmetic_values(source) / _overflowed(base ** float(np.float32(desc.beta)))
    bound = 2 * (3 + 4 * abs(desc.beta)) * half_ulp(values, np.dtype(np.float32))
    if source.dtype == np.float16:
        bound = bound + half_ulp(values, source.dtype)
    return {"OutputTensor": Bounded(values, bound)}


@reference("LOCAL_RESPONSE_NORMALIZATION_GRAD")
def local_response_normalization_grad(
    desc: dml.LocalResponseNormalizationGrad, inputs: Mapping[str, Array]
) -> Mapping[str, Expected]:
    """Each element's term is added to all elements around it."""
    x, gradients = arithmetic_values(inputs["InputTensor"]), arithmetic_values(inputs["InputGradientTensor"])
    factor, beta = float(np.float32(desc.alpha) / np.float32(desc.local_size)), float(np.float32(desc.beta))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        base = _overflowed(float(np.float32(desc.bias)) + factor * _overflowed(_sums_around(desc, x**2)))
        power = _overflowed(base**beta)
        share = gradients / np.where(power < _SMALLEST_NORMAL, 0.0, power)
        of_base = 2 * factor * beta * (x / base)
        total, magnitudes, denormal = (np.zeros(x.shape) for _ in range(3))
        before, behind = (desc.local_size - 1) // 2, desc.local_size // 2
        reach = [(before, behind) if axis in ((1,) if desc.cross_channel else (2, 3)) else (0, 0) for axis in range(4)]
        for at in np.ndindex(*x.shape):
            around = tuple(slice(max(0, i - below), i + above + 1) for i, (below, above) in zip(at, reach, strict=True))
            total[around] += share[at] * of_base[at]
            magnitudes[around] += abs(share[at] * of_base[at])
            denormal[around] += _SMALLEST_NORMAL * (1 + abs(share[at]) + abs(of_base[at]))
        values = share - x * total
        sums = (np.abs(share) + np.abs(x) * magnitudes) * (12 + 3 * abs(beta)) * 2.0**-24
        bound = np.where(np.isfinite(values), sums + (1 + np.abs(x)) * denormal, 0.0) + _SMALLEST_NORMAL
    return {"OutputGradientTensor": Bounded(values, bound + half_ulp(values, inputs["InputTensor"].dtype))}
