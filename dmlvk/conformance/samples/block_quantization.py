"""Samples of QUANTIZE and DEQUANTIZE: scales for blocks of every kind, tensors of any count of halves of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.references.block_quantization import spread
from dmlvk.conformance.samples import Sample, Types, sampler
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, QuantizationType
from dmlvk.tensors import TensorDesc

Array = npt.NDArray[Any]

_SHAPES: Sequence[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = (
    ("one scale for all", (3, 37), (1, 1), None),
    ("one scale and zero point for all", (41,), (1,), (1,)),
    ("a scale for each row", (5, 19), (5, 1), (5, 1)),
    ("blocks along the last axis", (3, 24), (3, 3), (3, 3)),
    ("blocks along the first axis", (12, 7), (3, 7), None),
    ("blocks of other lengths for the zero point", (2, 12, 10), (1, 4, 5), (2, 6, 1)),
    ("a scale for each element", (2, 3, 5), (2, 3, 5), (2, 3, 5)),
    ("blocks along all of eight axes", (2, 1, 4, 2, 1, 3, 2, 6), (1, 1, 2, 2, 1, 1, 2, 3), (2, 1, 1, 1, 1, 3, 1, 2)),
)
"""Name, sizes, and those of the scale and of the zero point, if there is one."""

_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 65504.0, 1.0, -2.0, 2.0**-126, 3e38)


def integers(random: np.random.Generator, data_type: DataType, sizes: Sequence[int]) -> Array:
    least, greatest = data_type.integer_limits
    return random.integers(least, greatest, tuple(sizes), data_type.numpy_dtype, endpoint=True)


def _with_special(random: np.random.Generator, values: Array) -> Array:
    """Numbers, in some places of which are others that are rare."""
    with np.errstate(over="ignore"):
        special = random.choice(np.array(_SPECIAL).astype(values.dtype), values.shape)
    return np.where(random.random(values.shape) < 0.15, special, values)


def _scale(random: np.random.Generator, data_type: DataType, sizes: Sequence[int]) -> Array:
    """Powers of two, by which quotients are halves now and then, and other numbers of both signs."""
    dtype = data_type.numpy_dtype
    powers = (2.0 ** random.integers(-4, 3, tuple(sizes))).astype(dtype)
    others = random.uniform(-1.0, 1.0, tuple(sizes)).astype(dtype)
    return np.where(random.random(tuple(sizes)) < 0.5, powers, others)


def _sample(
    operator: str,
    shape: tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...] | None],
    types: Types,
    inputs: Mapping[str, Array],
) -> Sample:
    name, sizes, scale, zero = shape
    tensors = [TensorDesc(types["quantization_tensors[0]"], scale)]
    if zero is not None:
        tensors.append(TensorDesc(types["quantization_tensors[1]"], zero))
    kind: Any = OPERATORS[operator]
    desc = kind(
        input_tensor=TensorDesc(types["input_tensor"], sizes),
        quantization_type=QuantizationType.SCALE if zero is None else QuantizationType.SCALE_ZERO_POINT,
        quantization_tensor_count=len(tensors),
        quantization_tensors=tensors,
        output_tensor=TensorDesc(types["output_tensor"], sizes),
    )
    return Sample(name, desc, inputs)


@sampler("QUANTIZE")
def quantize(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Quotients inside and outside of the integers, halves, and quotients of and by rare numbers."""
    number, integer = types["input_tensor"], types["output_tensor"]
    for shape in _SHAPES:
        _, sizes, scale_sizes, zero_sizes = shape
        scale = _scale(random, number, scale_sizes)
        quotients = random.integers(-300, 300, sizes) / 2 * random.choice([0.125, 0.125, 1.0], sizes)
        near = spread(scale, sizes) * quotients
        values = _with_special(random, near.astype(number.numpy_dtype))
        inputs = {"InputTensor": values, "QuantizationTensors[0]": _with_special(random, scale)}
        if zero_sizes is not None:
            inputs["QuantizationTensors[1]"] = integers(random, integer, zero_sizes)
        yield _sample("QUANTIZE", shape, types, inputs)


@sampler("DEQUANTIZE")
def dequantize(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Any integers, scales of which some are rare numbers."""
    integer, number = types["input_tensor"], types["output_tensor"]
    for shape in _SHAPES:
        _, sizes, scale_sizes, zero_sizes = shape
        scale = _with_special(random, _scale(random, number, scale_sizes))
        inputs = {"InputTensor": integers(random, integer, sizes), "QuantizationTensors[0]": scale}
        if zero_sizes is not None:
            inputs["QuantizationTensors[1]"] = integers(random, integer, zero_sizes)
        yield _sample("DEQUANTIZE", shape, types, inputs)
