"""Samples of the operators that fill tensors, and of windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sampler
from dmlvk.conformance.samples.movement import WINDOWS, any_bits
from dmlvk.datatypes import DataType
from dmlvk.operators.filling import (
    DiagonalMatrix,
    DiagonalMatrix1,
    FillValueConstant,
    FillValueSequence,
    Fold,
    SliceGrad,
    Unfold,
    ValueScale2d,
)
from dmlvk.tensors import TensorDesc


def _telling_value(data_type: DataType) -> Any:
    """A value that uses all bytes of its type."""
    return 1.0 / 3.0 if data_type.is_float else int(np.iinfo(data_type.numpy_dtype).max) // 3


@sampler("DIAGONAL_MATRIX")
def diagonal_matrix(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Diagonals to either side, and beyond the matrix."""
    for offset in (0, 2, -3, 2**31 - 1, -(2**31)):
        tensor = TensorDesc(types["output_tensor"], (1, 2, 5, 7))
        yield Sample(f"offset {offset}", DiagonalMatrix(output_tensor=tensor, offset=offset, value=10.6), {})


@sampler("DIAGONAL_MATRIX1")
def diagonal_matrix1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Bands to either side, empty, without ends, and inverted; with an input and without."""
    data_type = types["output_tensor"]
    lowest, highest = -(2**31), 2**31 - 1
    sizes = (2, 5, 7)
    for begin, end in ((0, 2), (-3, -1), (2, -1), (lowest, 1), (1, highest), (3, 3), (highest, lowest)):
        tensor = TensorDesc(data_type, sizes)
        has_input = begin != 0
        desc = DiagonalMatrix1(
            input_tensor=tensor if has_input else None,
            output_tensor=tensor,
            value_data_type=data_type,
            value=_telling_value(data_type),
            diagonal_fill_begin=begin,
            diagonal_fill_end=end,
        )
        inputs = {"InputTensor": any_bits(random, data_type, sizes)} if has_input else {}
        yield Sample(f"from {begin} to {end}", desc, inputs)


@sampler("FILL_VALUE_CONSTANT")
def fill_value_constant(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """A value that uses all bytes, in odd rows."""
    data_type = types["output_tensor"]
    tensor = TensorDesc(data_type, (1, 3, 2, 11))
    value = _telling_value(data_type)
    yield Sample("odd rows", FillValueConstant(output_tensor=tensor, value_data_type=data_type, value=value), {})


@sampler("FILL_VALUE_SEQUENCE")
def fill_value_sequence(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Upwards and downwards, beyond the limits of the type."""
    data_type = types["output_tensor"]
    tensor = TensorDesc(data_type, (2, 3, 5, 29))
    pairs: tuple[tuple[Any, Any], ...] = ((3, 2), (0.1, -0.3), (-65504.0, 151.0), (3e38, 1e36), (1e-38, -1e-40))
    if not data_type.is_float:
        limits = np.iinfo(data_type.numpy_dtype)
        lowest, highest = int(limits.min), int(limits.max)
        pairs = ((3, 2), (highest - 5, 3), (10, -2), (lowest, highest // 3))
    for start, delta in pairs:
        if data_type is not DataType.FLOAT16 or abs(start) < 1e30:
            desc = FillValueSequence(
                output_tensor=tensor, value_data_type=data_type, value_start=start, value_delta=delta
            )
            yield Sample(f"{start} by {delta}", desc, {})


@sampler("SLICE_GRAD")
def slice_grad(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The windows of SLICE1 that all levels have."""
    data_type = types["input_gradient_tensor"]
    for name, whole, offsets, sizes, strides, taken in WINDOWS:
        desc = SliceGrad(
            input_gradient_tensor=TensorDesc(data_type, taken),
            output_gradient_tensor=TensorDesc(data_type, whole),
            dimension_count=len(sizes),
            input_window_offsets=offsets,
            input_window_sizes=sizes,
            input_window_strides=strides,
        )
        yield Sample(name, desc, {"InputGradientTensor": any_bits(random, data_type, taken)})


@sampler("UNFOLD")
def unfold(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """One, two and three spatial dimensions, with paddings, dilations and strides."""
    data_type = types["input_tensor"]
    for name, sizes, windows, strides, dilations, start, end in (
        ("one dimension", (2, 3, 11), (3,), (2,), (1,), (0,), (0,)),
        ("two dimensions, padded", (1, 2, 5, 6), (3, 2), (1, 2), (2, 1), (1, 0), (2, 1)),
        ("three dimensions", (1, 2, 3, 4, 3), (2, 1, 3), (1, 1, 2), (1, 2, 1), (0, 1, 1), (0, 0, 1)),
    ):
        axes = zip(sizes[2:], windows, strides, dilations, start, end, strict=True)
        blocks = [(size + s + e - d * (w - 1) - 1) // step + 1 for size, w, step, d, s, e in axes]
        desc = Unfold(
            input_tensor=TensorDesc(data_type, sizes),
            output_tensor=TensorDesc(data_type, (sizes[0], sizes[1] * int(np.prod(windows)), int(np.prod(blocks)))),
            dimension_count=len(windows),
            window_sizes=windows,
            strides=strides,
            dilations=dilations,
            start_padding=start,
            end_padding=end,
        )
        yield Sample(name, desc, {"InputTensor": any_bits(random, data_type, sizes)})


@sampler("VALUE_SCALE_2D")
def value_scale_2d(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """One channel and three; any bits and ordinary numbers."""
    data_type = types["input_tensor"]
    for channels, scale, bias in ((3, 1.0 / 3.0, (0.1, -7.5, 1e-3)), (1, -255.0, (0.0,))):
        sizes = (2, channels, 5, 7)
        tensor = TensorDesc(data_type, sizes)
        values = any_bits(random, data_type, sizes)
        values[0] = random.uniform(-20, 20, sizes[1:])
        desc = ValueScale2d(input_tensor=tensor, output_tensor=tensor, scale=scale, channel_count=channels, bias=bias)
        yield Sample(f"{channels} channels", desc, {"InputTensor": values})


@sampler("FOLD")
def fold(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """One, two and three spatial dimensions; ordinary numbers, any bits, and sums that would overflow on the way."""
    data_type = types["input_tensor"]
    for name, sizes, windows, strides, dilations, start, end in (
        ("one dimension", (2, 3, 11), (3,), (2,), (1,), (0,), (0,)),
        ("two dimensions, padded", (1, 2, 5, 6), (3, 2), (1, 2), (2, 1), (1, 0), (2, 1)),
        ("three dimensions", (1, 2, 3, 4, 3), (2, 1, 3), (1, 1, 2), (1, 2, 1), (0, 1, 1), (0, 0, 1)),
        ("a wide window", (1, 1, 7, 7), (5, 5), (1, 1), (1, 1), (2, 2), (2, 2)),
    ):
        axes = zip(sizes[2:], windows, strides, dilations, start, end, strict=True)
        blocks = [(size + s + e - d * (w - 1) - 1) // step + 1 for size, w, step, d, s, e in axes]
        columns = (sizes[0], sizes[1] * int(np.prod(windows)), int(np.prod(blocks)))
        desc = Fold(
            input_tensor=TensorDesc(data_type, columns),
            output_tensor=TensorDesc(data_type, sizes),
            dimension_count=len(windows),
            window_sizes=windows,
            strides=strides,
            dilations=dilations,
            start_padding=start,
            end_padding=end,
        )
        numbers = random.uniform(-20, 20, columns).astype(data_type.numpy_dtype)
        yield Sample(name, desc, {"InputTensor": numbers})
        if len(windows) == 2:
            yield Sample(f"{name}, any bits", desc, {"InputTensor": any_bits(random, data_type, columns)})
            large = np.finfo(data_type.numpy_dtype).max * random.choice([-1, 1], columns)
            yield Sample(f"{name}, large", desc, {"InputTensor": large.astype(data_type.numpy_dtype)})
