"""What the operators that fill tensors give, and windows: element by element, floats by Python's fractions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected
from dmlvk.conformance.references.movement import window_indices
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import arithmetic_value, float_format, nearest_number
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]

_CANONICAL_NAN = {DataType.FLOAT16: 0x7E00, DataType.FLOAT32: 0x7FC00000}


def _converted(value: float, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return dtype.type(value)
    limits = np.iinfo(dtype)
    return dtype.type(min(max(int(value), limits.min), limits.max))


def _distances(sizes: Sequence[int]) -> Array:
    """Column less row, of every element."""
    distances: Array = np.broadcast_to(np.arange(sizes[-1]) - np.arange(sizes[-2])[:, None], sizes)
    return distances


@reference("DIAGONAL_MATRIX")
def diagonal_matrix(desc: dml.DiagonalMatrix, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The value where column less row is the offset."""
    sizes, dtype = desc.output_tensor.sizes, desc.output_tensor.data_type.numpy_dtype
    result = np.zeros(sizes, dtype)
    result[_distances(sizes) == desc.offset] = _converted(desc.value, dtype)
    return {"OutputTensor": result}


@reference("DIAGONAL_MATRIX1")
def diagonal_matrix1(desc: dml.DiagonalMatrix1, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """The page's formula with three comparisons."""
    sizes, dtype = desc.output_tensor.sizes, desc.output_tensor.data_type.numpy_dtype
    result = inputs["InputTensor"].copy() if "InputTensor" in inputs else np.zeros(sizes, dtype)
    begin, end, t = desc.diagonal_fill_begin, desc.diagonal_fill_end, _distances(sizes)
    result[(end >= begin) ^ (t >= begin) ^ (t < end)] = dtype.type(desc.value)
    return {"OutputTensor": result}


@reference("FILL_VALUE_CONSTANT")
def fill_value_constant(desc: dml.FillValueConstant, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """NumPy's full."""
    return {"OutputTensor": np.full(desc.output_tensor.sizes, desc.value, desc.output_tensor.data_type.numpy_dtype)}


def _scaled(x: float, scale: float, bias: float, data_type: DataType) -> Any:
    """X * scale + bias rounded once, with IEEE 754's special values."""
    dtype = data_type.numpy_dtype
    with np.errstate(invalid="ignore"):
        total = np.float64(x) * np.float64(scale) + np.float64(bias)
    if not np.all(np.isfinite([x, scale, bias])):
        if np.isnan(total):
            return np.array(_CANONICAL_NAN[data_type], f"u{data_type.size_in_bytes}").view(dtype)[()]
        return dtype.type(total)
    exact = Fraction(x) * Fraction(scale) + Fraction(bias)
    # the zero of a sum has the right sign
    return dtype.type(nearest_number(exact, float_format(dtype)) if exact else total)


@reference("FILL_VALUE_SEQUENCE")
def fill_value_sequence(desc: dml.FillValueSequence, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Python's integers, cut to the type's bits; or fractions, rounded once."""
    data_type, sizes = desc.output_tensor.data_type, desc.output_tensor.sizes
    dtype, count = data_type.numpy_dtype, int(np.prod(sizes))
    if data_type.is_float:
        start, delta = arithmetic_value(dtype.type(desc.value_start)), arithmetic_value(dtype.type(desc.value_delta))
        values = [_scaled(float(i), delta, start, data_type) for i in range(count)]
        return {"OutputTensor": np.array(values, dtype).reshape(sizes)}
    bits = 8 * dtype.itemsize
    numbers = [(desc.value_start + i * desc.value_delta) % 2**bits for i in range(count)]
    return {"OutputTensor": np.array(numbers, f"u{dtype.itemsize}").view(dtype).reshape(sizes)}


@reference("SLICE_GRAD")
def slice_grad(desc: dml.SliceGrad, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    result = np.zeros(desc.output_gradient_tensor.sizes, desc.output_gradient_tensor.data_type.numpy_dtype)
    gradients = inputs["InputGradientTensor"]
    result[np.ix_(*window_indices(desc, gradients.shape))] = gradients
    return {"OutputGradientTensor": result}


@reference("UNFOLD")
def unfold(desc: dml.Unfold, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Tap by tap of the window, position by position."""
    source = inputs["InputTensor"]
    widths = [(0, 0), (0, 0), *zip(desc.start_padding, desc.end_padding, strict=True)]
    shape = tuple(size + sum(width) for size, width in zip(source.shape, widths, strict=True))
    padded = np.zeros(shape, source.dtype)
    padded[tuple(slice(w[0], w[0] + size) for w, size in zip(widths, source.shape, strict=True))] = source
    axes = list(zip(shape[2:], desc.window_sizes, desc.strides, desc.dilations, strict=True))
    blocks = [range((size - d * (w - 1) - 1) // step + 1) for size, w, step, d in axes]
    result = np.empty(desc.output_tensor.sizes[-3:], source.dtype)
    taps = list(itertools.product(*(range(w) for w in desc.window_sizes)))
    for c, (row, tap) in itertools.product(range(source.shape[1]), enumerate(taps)):
        for column, block in enumerate(itertools.product(*blocks)):
            at: list[Any] = [slice(None), c]
            at += [b * step + p * d for b, p, (_, _, step, d) in zip(block, tap, axes, strict=True)]
            result[:, c * len(taps) + row, column] = padded[tuple(at)]
    return {"OutputTensor": result.reshape(desc.output_tensor.sizes)}


@reference("VALUE_SCALE_2D")
def value_scale_2d(desc: dml.ValueScale2d, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Fractions, rounded once."""
    source, data_type = inputs["InputTensor"], desc.input_tensor.data_type
    result = np.empty_like(source)
    scale, biases = arithmetic_value(np.float32(desc.scale)), [arithmetic_value(np.float32(bias)) for bias in desc.bias]
    for at in np.ndindex(source.shape):
        x = arithmetic_value(source[at]) if data_type is DataType.FLOAT32 else float(source[at])
        result[at] = _scaled(x, scale, biases[at[1]], data_type)
    return {"OutputTensor": result}


@reference("FOLD")
def fold(desc: dml.Fold, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Sums in the longest float that NumPy has, place by place of the window."""
    source = inputs["InputTensor"]
    dtype, sizes = source.dtype, desc.output_tensor.sizes
    with np.errstate(invalid="ignore"):  # of signaling NaN
        numbers = source.astype(np.longdouble).reshape(source.shape[-3:])
    if dtype == np.float32:
        numbers = np.where(np.abs(numbers) < 2.0**-126, 0.0, numbers)
    windows = zip(sizes[2:], desc.start_padding, desc.end_padding, strict=True)
    padded = (*sizes[:2], *(size + start + end for size, start, end in windows))
    total, magnitudes = np.zeros(padded, np.longdouble), np.zeros(padded, np.longdouble)
    axes = list(zip(padded[2:], desc.window_sizes, desc.strides, desc.dilations, strict=True))
    blocks = [range((size - d * (w - 1) - 1) // step + 1) for size, w, step, d in axes]
    taps = list(itertools.product(*(range(w) for w in desc.window_sizes)))
    with np.errstate(invalid="ignore"):
        for c, (row, tap) in itertools.product(range(sizes[1]), enumerate(taps)):
            for column, block in enumerate(itertools.product(*blocks)):
                at: list[Any] = [slice(None), c]
                at += [b * step + p * d for b, p, (_, _, step, d) in zip(block, tap, axes, strict=True)]
                total[tuple(at)] += numbers[:, c * len(taps) + row, column]
                magnitudes[tuple(at)] += np.abs(numbers[:, c * len(taps) + row, column])
    middle: list[Any] = [slice(None), slice(None)]
    middle += [slice(start, start + size) for start, size in zip(desc.start_padding, sizes[2:], strict=True)]
    values = total[tuple(middle)].astype(np.float64)
    bits, lowest = (11, -14) if dtype == np.float16 else (24, -126)
    exponents = np.frexp(np.where(np.isfinite(values), values, 0.0))[1] - 1
    half_ulp = np.ldexp(1.0, np.maximum(exponents, lowest) - bits)
    known = np.where(np.isfinite(values), magnitudes[tuple(middle)].astype(np.float64), 0.0)
    flushed = 2.0**-126 if dtype == np.float32 else 0.0
    return {"OutputTensor": Bounded(values, 1.02 * half_ulp + known * 2.0**-40 + flushed)}
