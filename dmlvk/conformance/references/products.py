"""Products of matrices and convolutions: the stated order of the sums, followed bit by bit.

Numbers are NumPy's float32, which rounds sums correctly; products are taken exactly in float64 and rounded to 24 bits,
so that what vanishes is decided after rounding. Terms are gone through one by one; rows and columns all at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.registry import REFERENCES, fused_operator, reference
from dmlvk.operators.shapes import Draft

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

Terms: TypeAlias = Iterable[tuple[Array, Array, "Array | None"]]
"""For each term of all sums two operands that broadcast to their shape, and where it counts; ``None``: everywhere."""

SEGMENT = 1024
_SMALLEST = 2.0**-126


def operand(x: Array) -> Floats:
    """Elements as float32; denormals of FLOAT32 as zero."""
    wide = x.astype(np.float32)
    return np.where(np.abs(wide) < _SMALLEST, np.float32(0), wide) if x.dtype == np.float32 else wide


def product(a: Array, b: Array) -> Floats:
    """The products rounded to 24 bits; what is denormal then is a zero of its sign."""
    with np.errstate(all="ignore"):
        exact = a.astype(np.float64) * b.astype(np.float64)
        tiny = np.abs(exact) < 2.0**-120
        enlarged = np.where(tiny, exact * 2.0**126, 0).astype(np.float32).astype(np.float64)
        kept = np.where(np.abs(enlarged) < 1, np.copysign(0.0, exact), enlarged * _SMALLEST)
        return np.where(tiny, kept, exact).astype(np.float32)


def total(a: Array, b: Array) -> Floats:
    """The sums, rounded; denormal ones are zeros of their sign."""
    with np.errstate(all="ignore"):
        added = np.asarray(a + b, np.float32)
        return np.where(np.abs(added) < _SMALLEST, np.copysign(np.float32(0), added), added)


def sums_of(terms: Terms, shape: tuple[int, ...], half: bool) -> Floats:
    """Sums of products in the stated order.

    Args:
        half: whether the operands were FLOAT16, whose products and sums are never denormal.
    """
    whole: Floats | None = None
    segment = np.zeros(shape, np.float32)
    for count, (a, b, counts) in enumerate(terms):
        if count and count % SEGMENT == 0:
            whole = segment if whole is None else _plus(whole, segment)
            segment = np.zeros(shape, np.float32)
        with np.errstate(all="ignore"):
            term = (a * b).astype(np.float32) if half else product(a, b)
        following = _plus(segment, term)
        segment = following if counts is None else np.where(counts, following, segment)
    return segment if whole is None else _plus(whole, segment)


def _plus(a: Floats, b: Floats) -> Floats:
    added = total(a, b)
    return np.where(added == 0, np.float32(0), added)


def stored(values: Floats, data_type: np.dtype[Any]) -> Array:
    """Values rounded to a data type; a NaN is the canonical one."""
    with np.errstate(all="ignore"):
        made = values.astype(data_type)
    nan = np.array(0x7E00, np.uint16).view(np.float16) if data_type == np.float16 else np.float32(np.nan)
    return np.where(np.isnan(made), nan, made).astype(data_type)


def activated(desc: dml.OperatorDesc, results: Array) -> Expected:
    """What a fused activation makes of the results that would be stored without it."""
    alone = fused_operator(desc, results)
    if alone is None:
        return results
    values: Array = REFERENCES[alone.operator_name](alone, results)
    if alone.accuracy.promise != "accurate":
        return values
    digits = 10 if desc.output_type is dml.FLOAT16 else 23
    least = -24 if desc.output_type is dml.FLOAT16 else -149
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 0).astype(np.float64))
    return Bounded(values, alone.accuracy.maximum_ulp * np.exp2(np.maximum(exponent - 1.0 - digits, least)))


@reference("GEMM")
def gemm(desc: dml.Gemm, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Alpha times the product, plus Beta times C."""
    a, b = inputs["ATensor"], inputs["BTensor"]
    data_type, half = a.dtype, a.dtype == np.float16
    terms = gemm_terms(desc, operand(a), operand(b))
    values = product(sums_of(terms, tuple(desc.output_tensor.sizes), half), scalar(desc.alpha))
    if desc.c_tensor is not None:
        values = total(values, product(operand(inputs["CTensor"]), scalar(desc.beta)))
    return {"OutputTensor": activated(desc, stored(values, data_type))}


def gemm_terms(desc: dml.Gemm, a: Array, b: Array) -> Terms:
    """The terms of all sums of a GEMM."""
    if desc.trans_a is dml.MatrixTransform.TRANSPOSE:
        a = a.swapaxes(-1, -2)
    if desc.trans_b is dml.MatrixTransform.TRANSPOSE:
        b = b.swapaxes(-1, -2)
    return ((a[..., :, k, None], b[..., k, None, :], None) for k in range(a.shape[-1]))


def scalar(value: float) -> Floats:
    """Alpha or Beta as it is multiplied with."""
    return operand(np.array(value, np.float32))


@reference("CONVOLUTION")
def convolution(desc: dml.Convolution, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The convolution, plus Bias."""
    source, window = inputs["InputTensor"], inputs["FilterTensor"]
    half = source.dtype == np.float16
    values = convolved(desc, operand(source), operand(window), lambda terms, shape: sums_of(terms, shape, half))
    if desc.bias_tensor is not None:
        values = total(values, operand(inputs["BiasTensor"]))
    else:
        values = total(values, np.zeros((), np.float32)) if half else values
    return {"OutputTensor": activated(desc, stored(values, source.dtype))}


def convolved(
    desc: dml.Convolution, source: Array, window: Array, add: Callable[[Terms, tuple[int, ...]], Array]
) -> Array:
    """The sums of a convolution.

    Args:
        add: makes the sums of such a shape of their terms; channels are the second axis.
    """
    forward = desc.direction is dml.ConvolutionDirection.FORWARD
    groups, spatial = desc.group_count, source.ndim - 2
    inputs_of_group = source.shape[1] // groups
    outputs_of_group = desc.output_tensor.sizes[1] // groups
    found = []
    for group in range(groups):
        channels = source[:, group * inputs_of_group : (group + 1) * inputs_of_group]
        if forward:
            weights = window[group * outputs_of_group : (group + 1) * outputs_of_group].swapaxes(0, 1)
        else:
            weights = window[group * inputs_of_group : (group + 1) * inputs_of_group]
        terms = terms_of(desc, channels, weights, spatial)
        shape = (source.shape[0], outputs_of_group, *desc.output_tensor.sizes[2:])
        found.append(add(terms, shape))
    return np.concatenate(found, axis=1)


def terms_of(desc: dml.Convolution | Draft, channels: Array, weights: Array, spatial: int) -> Terms:
    """For each input channel and place of the filter: weights, the elements met, and where there are any."""
    for channel in range(channels.shape[1]):
        for tap in itertools.product(*map(range, weights.shape[2:])):
            met, counts = channels[:, channel], np.ones((), np.bool_)
            for axis in range(spatial):
                own, inside = _met(desc, axis, tap[axis], channels.shape[2 + axis], weights.shape[2 + axis])
                met = np.take(met, own, axis=1 + axis)
                counts = counts & inside.reshape(-1, *(1,) * (spatial - 1 - axis))
            weight = np.moveaxis(weights[channel], 0, -1)[tap].reshape(-1, *(1,) * spatial)
            yield weight, met[:, None], counts


def _met(desc: dml.Convolution | Draft, axis: int, tap: int, size: int, length: int) -> tuple[Array, Array]:
    """Which element of the input each place of the output meets, and whether there is one."""
    reached = desc.output_tensor.sizes[2 + axis]
    outputs = np.arange(reached, dtype=np.int64)
    stride, start = desc.strides[axis], desc.start_padding[axis]
    if desc.mode is dml.ConvolutionMode.CONVOLUTION:
        tap = length - 1 - tap
    step = tap * desc.dilations[axis]
    if desc.direction is dml.ConvolutionDirection.FORWARD:
        found = outputs * stride + step - start
        inside = (found >= 0) & (found < size) & (outputs < reached - desc.output_padding[axis])
    else:
        distance = outputs + start - step
        found = distance // stride
        inside = (distance % stride == 0) & (found >= 0) & (found < size)
    return np.clip(found, 0, size - 1), inside
