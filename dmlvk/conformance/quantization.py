"""Inputs for the operators between numbers and their quantized form, whose quotients lie on ties and beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance import patterns
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]
Operands = dict[str, Array]  # An array for each input tensor, by its Python name

_BLOCK = 2**20  # Elements that are made at once


def quantization_inputs(
    operator_name: str, data_types: Sequence[tuple[str, DataType]], total: int, random: np.random.Generator
) -> Iterator[tuple[str, Operands]]:
    """Names and operands of batches that hold ``total`` elements together.

    Args:
        data_types: of the tensors that are given, by their Python names.
    """
    types = dict(data_types)
    make = QUANTIZING[operator_name]
    for start, count in patterns.blocks(total, _BLOCK):
        kinds = list(make(types, count, random))
        yield (
            f"quotients from {start}",
            {member: np.concatenate([kind[member] for kind in kinds]) for member in kinds[0]},
        )


def _integers(data_type: DataType, count: int, random: np.random.Generator) -> Array:
    """A third any pattern, a third short, a third special ones."""
    kinds = [
        random.integers(0, 2**data_type.size_in_bits, count, dtype=np.uint64).astype(patterns.bits_dtype(data_type)),
        patterns.short_patterns(data_type, count, random),
        random.choice(patterns.special_patterns(data_type), count),
    ]
    chosen: Array = np.choose(random.integers(0, 3, count), kinds)
    return chosen.view(data_type.numpy_dtype)


def _scales(data_type: DataType, count: int, random: np.random.Generator) -> Array:
    """Ordinary scales, half of them short (of few bits), a few negative."""
    short = patterns.short_patterns(data_type, count, random)
    full = short ^ random.integers(0, 2**9, count).astype(short.dtype)
    scales: Array = np.where(random.integers(0, 2, count) == 0, short, full).view(data_type.numpy_dtype)
    return np.where(random.integers(0, 4, count) == 0, scales, np.abs(scales))


def _any_floats(data_type: DataType, count: int, random: np.random.Generator) -> Array:
    """Half of them special, denormals and NaN among them, half any pattern."""
    dtype = patterns.bits_dtype(data_type)
    everything = random.integers(0, 2**data_type.size_in_bits, count, dtype=np.uint64).astype(dtype)
    special = random.choice(patterns.landmark_patterns(data_type), count)
    return np.where(random.integers(0, 2, count) == 0, everything, special).view(data_type.numpy_dtype)


def _stepped(values: Array, random: np.random.Generator) -> Array:
    """Half of the floats as they are, of the others the one before or after."""
    bits = values.view(f"i{values.dtype.itemsize}")
    stepped: Array = bits + random.choice((-1, 0, 0, 1), values.size).astype(bits.dtype)
    return stepped.view(values.dtype)


def _halves(count: int, random: np.random.Generator) -> npt.NDArray[np.float64]:
    """Halves of integers from below to beyond all 8-bit results, most of them odd halves: ties."""
    halves = random.integers(-900, 901, count)
    return np.where(random.integers(0, 4, count) == 0, halves, halves | 1) / 2


def _as_type(values: npt.NDArray[np.float64], data_type: DataType) -> Array:
    if not data_type.is_float:
        limits = np.iinfo(data_type.numpy_dtype)
        bounded: Array = np.clip(np.rint(values), limits.min, limits.max)
        return bounded.astype(data_type.numpy_dtype)
    with np.errstate(over="ignore"):
        return values.astype(data_type.numpy_dtype)


def _quantize(types: dict[str, DataType], count: int, random: np.random.Generator) -> Iterator[Operands]:
    number, scale = types["input_tensor"], types["scale_tensor"]
    few = count // 4
    close_scales = _scales(scale, count - 2 * few, random)
    if not number.is_float:
        # An integer lies on or near a half of a scale of some size only: half of them are even, the others any number.
        significands = 1 + random.random(close_scales.size)
        ordinary = np.ldexp(significands, random.integers(-6, 28, close_scales.size).astype(np.int32))
        even = _as_type(np.rint(ordinary) * 2, scale)
        close_scales = np.where(random.integers(0, 2, even.size) == 0, even, _as_type(ordinary, scale))
    close = _as_type(_halves(close_scales.size, random) * close_scales.astype(np.float64), number)
    if number.is_float:
        close = _stepped(close, random)
    unlike = _any_floats(scale, 2 * few, random)
    numbers = _any_floats(number, 2 * few, random) if number.is_float else _integers(number, 2 * few, random)
    for x, s in ((close, close_scales), (numbers, unlike)):
        operands = {"input_tensor": x, "scale_tensor": s}
        if "zero_point_tensor" in types:
            operands["zero_point_tensor"] = _integers(types["zero_point_tensor"], x.size, random)
        yield operands


def _dequantize(types: dict[str, DataType], count: int, random: np.random.Generator) -> Iterator[Operands]:
    integer, scale = types["input_tensor"], types["scale_tensor"]
    half = count // 2
    for scales in (_scales(scale, count - half, random), _any_floats(scale, half, random)):
        operands = {"input_tensor": _integers(integer, scales.size, random), "scale_tensor": scales}
        if "zero_point_tensor" in types:
            operands["zero_point_tensor"] = _zero_points(operands["input_tensor"], integer, random)
        yield operands


def _zero_points(x: Array, data_type: DataType, random: np.random.Generator) -> Array:
    """Any, or close to the integers themselves."""
    near = patterns.partners(x.view(patterns.bits_dtype(data_type)), data_type, random).view(x.dtype)
    return np.where(random.integers(0, 2, x.size) == 0, near, _integers(data_type, x.size, random))


def _difference(operands: Operands, member: str) -> npt.NDArray[np.float64]:
    values = operands[f"{member}_tensor"].astype(np.float64)
    return values - operands.get(f"{member}_zero_point_tensor", np.zeros(values.size))


def _add(types: dict[str, DataType], count: int, random: np.random.Generator) -> Iterator[Operands]:
    quarter = count // 4
    sizes = (quarter, quarter, quarter, count - 3 * quarter)
    for scales_for, size in zip(
        (_any_three, _scales_on_ties, _scales_near_ties, _cancelling_scales), sizes, strict=True
    ):
        operands = {
            member: _integers(data_type, size, random)
            for member, data_type in types.items()
            if not data_type.is_float and member != "output_tensor"
        }
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scales = scales_for(_difference(operands, "a"), _difference(operands, "b"), random)
        names = ("a_scale_tensor", "b_scale_tensor", "output_scale_tensor")
        yield {**operands, **dict(zip(names, scales, strict=True))}


_Differences = npt.NDArray[np.float64]
_Scales = tuple[Array, Array, Array]


def _any_three(a: _Differences, b: _Differences, random: np.random.Generator) -> _Scales:
    """Scales of A, of B and of the output: special ones and any others."""
    first, second, third = (_any_floats(DataType.FLOAT32, a.size, random) for _ in range(3))
    return first, second, third


def _scales_on_ties(a: _Differences, b: _Differences, random: np.random.Generator) -> _Scales:
    """The operands' scales are small multiples of half the output's: every second quotient is a tie."""
    short = patterns.short_patterns(DataType.FLOAT16, a.size, random).view(np.float16).astype(np.float32)
    output = np.where(short == 0, np.float32(1), short)
    first, second = (output * random.integers(1, 4, a.size).astype(np.float32) / 2 for _ in range(2))
    return first, second, output


def _scales_near_ties(a: _Differences, b: _Differences, random: np.random.Generator) -> _Scales:
    """The output's scale is such that the quotient comes near a half of an integer."""
    first, second = (_scales(DataType.FLOAT32, a.size, random) for _ in range(2))
    target = (a * first + b * second) / _halves(a.size, random)
    usable = np.isfinite(target) & (np.abs(target) > 2.0**-100)
    return first, second, _stepped(np.where(usable, target, 1.0).astype(np.float32), random)


def _cancelling_scales(a: _Differences, b: _Differences, random: np.random.Generator) -> _Scales:
    """What is added to (a - zero) * scale is its opposite, or a few steps beside it."""
    first = _scales(DataType.FLOAT32, a.size, random)
    second = _stepped((first * np.where((a != 0) & (b != 0), -a / b, 1.0)).astype(np.float32), random)
    remains = np.abs(a * first + b * second)
    output = np.ldexp(remains, random.integers(-8, 3, a.size).astype(np.int32))
    usable = np.isfinite(output) & (output > 2.0**-100)
    return first, second, np.where(usable, output, np.abs(first)).astype(np.float32)


_Maker = Callable[[dict[str, DataType], int, np.random.Generator], Iterator[Operands]]

QUANTIZING: dict[str, _Maker] = {
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": _dequantize,
    "ELEMENT_WISE_QUANTIZE_LINEAR": _quantize,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _add,
}
"""What makes each operator's inputs."""
