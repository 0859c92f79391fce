"""Samples of the operators that fill tensors, and of windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.movement import WINDOWS, any_bits
from dmlvk.datatypes import DataType


def _telling_value(data_type: DataType) -> Any:
    return 1.0 / 3.0 if data_type.is_float else int(np.iinfo(data_type.numpy_dtype).max) // 3


@sampler("DIAGONAL_MATRIX")
def diagonal_matrix(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Diagonals to either side, and beyond the matrix."""
    for offset in (0, 2, -3, 2**31 - 1, -(2**31)):
        members = {"output_tensor": (1, 2, 5, 7), "offset": offset, "value": 10.6}
        yield sample(f"offset {offset}", "DIAGONAL_MATRIX", types, {}, **members)


@sampler("DIAGONAL_MATRIX1")
def diagonal_matrix1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Bands to either side, empty, without ends, and inverted; with an input and without."""
    data_type = types["output_tensor"]
    lowest, highest = -(2**31), 2**31 - 1
    sizes = (2, 5, 7)
    for begin, end in ((0, 2), (-3, -1), (2, -1), (lowest, 1), (1, highest), (3, 3), (highest, lowest)):
        inputs = {"input_tensor": any_bits(random, data_type, sizes)} if begin != 0 else {}
        members: dict[str, Any] = {"output_tensor": sizes, "diagonal_fill_begin": begin, "diagonal_fill_end": end}
        members |= {"value_data_type": data_type, "value": _telling_value(data_type)}
        yield sample(f"from {begin} to {end}", "DIAGONAL_MATRIX1", types, inputs, **members)


@sampler("FILL_VALUE_CONSTANT")
def fill_value_constant(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """A value that uses all bytes, in odd rows."""
    data_type = types["output_tensor"]
    members = {"output_tensor": (1, 3, 2, 11), "value_data_type": data_type, "value": _telling_value(data_type)}
    yield sample("odd rows", "FILL_VALUE_CONSTANT", types, {}, **members)


@sampler("FILL_VALUE_SEQUENCE")
def fill_value_sequence(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Upwards and downwards, beyond the limits of the type."""
    data_type = types["output_tensor"]
    pairs: tuple[tuple[Any, Any], ...] = ((3, 2), (0.1, -0.3), (-65504.0, 151.0), (3e38, 1e36), (1e-38, -1e-40))
    if not data_type.is_float:
        limits = np.iinfo(data_type.numpy_dtype)
        lowest, highest = int(limits.min), int(limits.max)
        pairs = ((3, 2), (highest - 5, 3), (10, -2), (lowest, highest // 3))
    for start, delta in pairs:
        if data_type is not DataType.FLOAT16 or abs(start) < 1e30:
            members = {"value_data_type": data_type, "value_start": start, "value_delta": delta}
            name = f"{start} by {delta}"
            yield sample(name, "FILL_VALUE_SEQUENCE", types, {}, output_tensor=(2, 3, 5, 29), **members)


@sampler("SLICE_GRAD")
def slice_grad(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The windows of SLICE1 that all levels have."""
    data_type = types["input_gradient_tensor"]
    for name, whole, offsets, sizes, strides, taken in WINDOWS:
        window = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}
        inputs = {"input_gradient_tensor": any_bits(random, data_type, taken)}
        yield sample(name, "SLICE_GRAD", types, inputs, output_gradient_tensor=whole, **window)


# name, sizes, and for each spatial dimension window, stride, dilation, padding before and behind
_WINDOWS: tuple[tuple[str, tuple[int, ...], dict[str, tuple[int, ...]]], ...] = tuple(
    (
        name,
        sizes,
        dict(zip(("window_sizes", "strides", "dilations", "start_padding", "end_padding"), each, strict=True)),
    )
    for name, sizes, *each in (
        ("one dimension", (2, 3, 11), (3,), (2,), (1,), (0,), (0,)),
        ("two dimensions, padded", (1, 2, 5, 6), (3, 2), (1, 2), (2, 1), (1, 0), (2, 1)),
        ("three dimensions", (1, 2, 3, 4, 3), (2, 1, 3), (1, 1, 2), (1, 2, 1), (0, 1, 1), (0, 0, 1)),
        ("a wide window", (1, 1, 7, 7), (5, 5), (1, 1), (1, 1), (2, 2), (2, 2)),
    )
)


@sampler("UNFOLD")
def unfold(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """One, two and three spatial dimensions, with paddings, dilations and strides."""
    for name, sizes, members in _WINDOWS[:3]:
        yield sample(name, "UNFOLD", types, {"input_tensor": any_bits(random, types["input_tensor"], sizes)}, **members)


@sampler("VALUE_SCALE_2D")
def value_scale_2d(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """One channel and three; any bits and ordinary numbers."""
    data_type = types["input_tensor"]
    for channels, scale, bias in ((3, 1.0 / 3.0, (0.1, -7.5, 1e-3)), (1, -255.0, (0.0,))):
        sizes = (2, channels, 5, 7)
        values = any_bits(random, data_type, sizes)
        values[0] = random.uniform(-20, 20, sizes[1:])
        inputs = {"input_tensor": values}
        yield sample(f"{channels} channels", "VALUE_SCALE_2D", types, inputs, scale=scale, bias=bias)


@sampler("FOLD")
def fold(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """One, two and three spatial dimensions; ordinary numbers, any bits, and sums that would overflow on the way."""
    data_type = types["input_tensor"]
    for name, sizes, members in _WINDOWS:
        axes = zip(sizes[2:], *members.values(), strict=True)
        blocks = [(size + s + e - d * (w - 1) - 1) // step + 1 for size, w, step, d, s, e in axes]
        columns = (sizes[0], sizes[1] * int(np.prod(members["window_sizes"])), int(np.prod(blocks)))
        arrays = {name: random.uniform(-20, 20, columns).astype(data_type.numpy_dtype)}
        if len(blocks) == 2:
            arrays[f"{name}, any bits"] = any_bits(random, data_type, columns)
            large = np.finfo(data_type.numpy_dtype).max * random.choice([-1, 1], columns)
            arrays[f"{name}, large"] = large.astype(data_type.numpy_dtype)
        for words, array in arrays.items():
            yield sample(words, "FOLD", types, {"input_tensor": array}, output_tensor=sizes, **members)
