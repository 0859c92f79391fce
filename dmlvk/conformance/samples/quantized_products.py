"""Samples of products and convolutions of quantized tensors, and of quantization by range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.products import steps_of
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]

SPECIAL_SCALES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 2.0**-126, 3e38, -0.5, 1.0, 2.0**-60, 2.0**60], np.float32
)
_SMALLEST_SCALE = 0.01


def any_integers(data_type: DataType, shape: Sequence[int], random: np.random.Generator) -> Array:
    limits = np.iinfo(data_type.numpy_dtype)
    return random.integers(limits.min, limits.max, tuple(shape), data_type.numpy_dtype, endpoint=True)


def scales(shape: Sequence[int], random: np.random.Generator) -> Array:
    return (random.random(tuple(shape)) + _SMALLEST_SCALE).astype(np.float32) / np.float32(64)


# leading sizes; rows, terms, columns; sizes of A's parameters, of B's, of the output's; whether there are zero points
_PRODUCTS: dict[str, Any] = {
    "one number each": ((), (5, 7, 9), (1,), (1,), (1,), False),
    "zero points": ((2, 1), (6, 33, 11), (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), True),
    "of rows and columns": ((3,), (4, 30, 7), (4, 1), (1, 7), (4, 1), True),
    "of columns": ((2, 3), (3, 5, 13), (1, 1), (1, 13), (1, 1), True),
}
_MANY_TERMS = ((), (2, 40000, 3), (2, 1), (1, 3), (2, 1), True)


@sampler("QUANTIZED_LINEAR_MATRIX_MULTIPLY")
def quantized_matrix_products(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Parameters of every shape, sums that wrap, quotients halfway between integers, and scales of every kind."""
    for name, kind in {**_PRODUCTS, "many terms": _MANY_TERMS}.items():
        yield _quantized_product(name, types, random, kind)
    for number, factor in enumerate((0.5, 0.25)):
        halves = {"a_scale_tensor": factor, "b_scale_tensor": 2.0**-5, "output_scale_tensor": 2.0}
        yield _quantized_product(f"halves {number}", types, random, _PRODUCTS["zero points"], halves)
    rows = len(SPECIAL_SCALES)
    special = ((), (rows, 3, rows), (rows, 1), (1, rows), (1, 1), True)
    for divisor in (1.0, 0.0, np.inf, np.nan, -1e-40, -1e-3):
        numbers = {
            "a_scale_tensor": SPECIAL_SCALES[:, None],
            "b_scale_tensor": SPECIAL_SCALES[None],
            "output_scale_tensor": divisor,
        }
        yield _quantized_product(f"special scales by {divisor:g}", types, random, special, numbers)


def _quantized_product(
    name: str, types: Types, random: np.random.Generator, kind: Any, numbers: Mapping[str, Any] | None = None
) -> Sample:
    arrays, sizes = _product_arrays(types, random, kind)
    terms, output = kind[1][1], kind[4]
    arrays["output_scale_tensor"] = scales(output, random) * np.float32(1 + 4 * math.sqrt(terms))
    if kind[5]:
        arrays["output_zero_point_tensor"] = any_integers(types["output_zero_point_tensor"], output, random)
    for member, values in (numbers or {}).items():
        arrays[member] = np.broadcast_to(np.float32(values), arrays[member].shape).copy()
    return sample(name, "QUANTIZED_LINEAR_MATRIX_MULTIPLY", types, arrays, output_tensor=sizes)


def _product_arrays(types: Types, random: np.random.Generator, kind: Any) -> tuple[dict[str, Array], tuple[int, ...]]:
    """Both matrices with their parameters, and the output's sizes."""
    leading, (rows, terms, columns), a_sizes, b_sizes, _, has_zeros = kind
    arrays: dict[str, Array] = {}
    for name, sizes, own in (("a", (rows, terms), a_sizes), ("b", (terms, columns), b_sizes)):
        arrays[f"{name}_tensor"] = any_integers(types[f"{name}_tensor"], (*leading, *sizes), random)
        arrays[f"{name}_scale_tensor"] = scales(own, random)
        if has_zeros:
            arrays[f"{name}_zero_point_tensor"] = any_integers(types[f"{name}_zero_point_tensor"], own, random)
    return arrays, (*leading, rows, columns)


@sampler("MATRIX_MULTIPLY_INTEGER_TO_FLOAT")
def matrix_products_to_float(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Parameters of every shape, with and without a bias, more terms than 32 bits hold, and scales of every kind."""
    rows = len(SPECIAL_SCALES)
    special = ((), (rows, 2, rows), (rows, 1), (1, rows), None, True)
    special_numbers = {"a_scale_tensor": SPECIAL_SCALES[:, None], "b_scale_tensor": SPECIAL_SCALES[None]}
    float_type = types["output_tensor"].numpy_dtype
    for name, kind in {**_PRODUCTS, "many terms": _MANY_TERMS, "special scales": special}.items():
        for has_bias in (False, True):
            arrays, sizes = _product_arrays(types, random, kind)
            if has_bias:
                arrays["bias_tensor"] = random.standard_normal(sizes) * 100
            if name == "special scales":
                arrays.update(special_numbers)
            with np.errstate(over="ignore"):  # FLOAT16 has fewer numbers
                for member in ("a_scale_tensor", "b_scale_tensor", "bias_tensor"):
                    if member in arrays:
                        arrays[member] = arrays[member].astype(float_type).reshape(arrays[member].shape)
            for member in ("a", "b"):
                scale = arrays[f"{member}_scale_tensor"]
                sizes_of_scale = kind[2] if member == "a" else kind[3]
                arrays[f"{member}_scale_tensor"] = scale.reshape(sizes_of_scale)
            words = f"{name}{', bias' if has_bias else ''}"
            yield sample(words, "MATRIX_MULTIPLY_INTEGER_TO_FLOAT", types, arrays, output_tensor=sizes)


# input, filter, steps, sizes of the filter's parameters, whether zero points and a bias are given
_CONVOLUTIONS: dict[str, Any] = {
    "without zero points": ((2, 3, 7, 6), (4, 3, 3, 2), {}, (1, 1, 1, 1), False, False),
    "padded": ((1, 4, 6, 5), (3, 4, 3, 3), {"start": (1, 2), "end": (2, 1)}, (1, 1, 1, 1), True, True),
    "groups": (
        (1, 6, 8, 7),
        (4, 3, 3, 2),
        {"groups": 2, "strides": (2, 1), "dilations": (1, 2), "start": (1, 0)},
        (1, 4, 1, 1),
        True,
        True,
    ),
    "a line": ((2, 2, 9), (3, 2, 4), {"start": (1,), "end": (2,)}, (1, 3, 1), True, False),
}


@sampler("QUANTIZED_LINEAR_CONVOLUTION")
def quantized_convolutions(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Parameters of every shape, with padding, steps and groups; every kind of scale for the filter."""
    for name, kind in _CONVOLUTIONS.items():
        yield _quantized_convolution(name, types, random, kind, None)
    channels = len(SPECIAL_SCALES)
    special: Any = ((1, 2, 3, 3), (channels, 2, 2, 2), {}, (1, channels, 1, 1), True, True)
    yield _quantized_convolution("special scales", types, random, special, SPECIAL_SCALES)


def _quantized_convolution(
    name: str, types: Types, random: np.random.Generator, kind: Any, filter_scales: Array | None
) -> Sample:
    sizes, window, options, own, has_zeros, has_bias = kind
    one = (1,) * len(sizes)
    arrays: dict[str, Array] = {
        "input_tensor": any_integers(types["input_tensor"], sizes, random),
        "input_scale_tensor": scales(one, random),
        "filter_tensor": any_integers(types["filter_tensor"], window, random),
        "filter_scale_tensor": scales(own, random) if filter_scales is None else filter_scales.reshape(own),
        "output_scale_tensor": scales(one, random) * np.float32(16),
    }
    if has_zeros:
        for member, shape in (("input", one), ("filter", own), ("output", one)):
            key = f"{member}_zero_point_tensor"
            arrays[key] = any_integers(types[key], shape, random)
    if has_bias:
        arrays["bias_tensor"] = random.integers(-(2**16), 2**16, (1, window[0], *one[2:]), np.int32)
    return sample(name, "QUANTIZED_LINEAR_CONVOLUTION", types, arrays, **steps_of(len(sizes) - 2, **options))


@sampler("DYNAMIC_QUANTIZE_LINEAR")
def dynamic_quantizations(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Ranges on both sides of 0 and on one, none, too large, too small; infinities and NaN among the elements."""
    data_type = types["input_tensor"].numpy_dtype
    largest = np.finfo(data_type).max
    normal = random.standard_normal
    values: dict[str, Any] = {
        "both signs": normal((3, 5, 7)) * 8,
        "above 0": random.random((40,)) + 3,
        "below 0": -random.random((1, 2, 3, 4)) - 1,
        "many": normal((130, 300)) * 3,
        "zeros": np.zeros((2, 3)),
        "one element": np.full((1,), -0.75),
        "the largest numbers": np.array([-largest, largest, largest / 2, 1, 0], np.float64),
        "the least numbers": np.array([[1e-38, -2e-38, 1e-40, -1e-40, 5e-38]]),
        "infinity": np.array([1, np.inf, -3, 0, 2]),
        "both infinities": np.array([np.inf, -np.inf, 1]),
        "NaN among numbers": np.array([np.nan, 2, -1, np.nan, 0.5]),
        "nothing but NaN": np.full((2, 2), np.nan),
        "halves": np.concatenate([np.arange(-127.5, 127.5), [127.5]]),
    }
    for name, given in values.items():
        yield sample(name, "DYNAMIC_QUANTIZE_LINEAR", types, {"input_tensor": given.astype(data_type)})
