"""Operators that are no single function of NumPy, as its users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import dmlvk as dml
from dmlvk.bench.task import Array

Clipped: TypeAlias = dml.ElementWiseClip | dml.ElementWiseClip1 | dml.ElementWiseClipGrad | dml.ElementWiseClipGrad1
Expression = Callable[..., Array]  # Called with the description and the inputs


def _bounds(desc: Clipped, x: Array) -> tuple[Any, Any]:
    """Min and Max in the inputs' type, so that integers stay what they are."""
    return x.dtype.type(desc.min), x.dtype.type(desc.max)


def _exponential_linear(x: Array, alpha: float) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _shrunk(desc: dml.ActivationShrink, x: Array) -> Any:
    return np.where(x > desc.threshold, x - desc.bias, np.where(x < -desc.threshold, x + desc.bias, 0))


def _clipped_gradient(desc: Clipped, x: Array, gradient: Array) -> Any:
    low, high = _bounds(desc, x)
    return np.where((x > low) & (x < high), gradient, 0)


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def _bitwise(name: str) -> Expression:
    def computed(_: Any, *inputs: Array) -> Array:
        made: Array = getattr(np, name)(*(_unsigned(x) for x in inputs))
        return made.view(inputs[0].dtype)

    return computed


def _bits_counted(_: Any, x: Array) -> Array:
    if not hasattr(np, "bitwise_count"):
        raise TypeError("NumPy has bitwise_count from version 2.0 on")
    made: Array = np.bitwise_count(_unsigned(x))
    return made


def _quantized(desc: dml.OperatorDesc, x: Any) -> Any:
    """Without zero points, which are optional and not measured."""
    data_type = desc.output_type.numpy_dtype
    limits = np.iinfo(data_type)
    return np.clip(np.rint(x), limits.min, limits.max).astype(data_type)


def _quantized_sum(desc: dml.OperatorDesc, a: Array, a_scale: Array, b: Array, b_scale: Array, scale: Array) -> Any:
    return _quantized(desc, (a * a_scale + b * b_scale) / scale)


def _shifted_to_peak(x: Array) -> Any:
    return x - np.max(x, axis=-1, keepdims=True)


def _softmax(_: Any, x: Array) -> Any:
    powers = np.exp(_shifted_to_peak(x))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def _log_softmax(_: Any, x: Array) -> Any:
    shifted = _shifted_to_peak(x)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def _hardmax(_: Any, x: Array) -> Any:
    return (np.argmax(x, axis=-1)[..., None] == np.arange(x.shape[-1])).astype(x.dtype)


EXPRESSIONS: dict[str, Expression] = {
    "ACTIVATION_CELU": lambda desc, x: np.where(
        x > 0, x, desc.alpha * np.expm1(np.minimum(x, 0) / x.dtype.type(desc.alpha))
    ),
    "ACTIVATION_ELU": lambda desc, x: _exponential_linear(x, desc.alpha),
    "ACTIVATION_HARDMAX": _hardmax,
    "ACTIVATION_HARDMAX1": _hardmax,
    "ACTIVATION_HARD_SIGMOID": lambda desc, x: np.clip(desc.alpha * x + desc.beta, 0, 1),
    "ACTIVATION_HARD_SWISH": lambda desc, x: x * np.clip(desc.alpha * x + desc.beta, 0, 1),
    "ACTIVATION_LEAKY_RELU": lambda desc, x: np.where(x >= 0, x, desc.alpha * x),
    "ACTIVATION_LINEAR": lambda desc, x: desc.alpha * x + desc.beta,
    "ACTIVATION_LOG_SOFTMAX": _log_softmax,
    "ACTIVATION_LOG_SOFTMAX1": _log_softmax,
    "ACTIVATION_PARAMETERIZED_RELU": lambda _, x, slope: np.where(x >= 0, x, slope * x),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda desc, x: desc.alpha * np.logaddexp(0, desc.beta * x, dtype=x.dtype),
    "ACTIVATION_RELU": lambda _, x: np.maximum(x, 0),
    "ACTIVATION_RELU_GRAD": lambda _, x, gradient: np.where(x > 0, gradient, 0),
    "ACTIVATION_SCALED_ELU": lambda desc, x: desc.gamma * _exponential_linear(x, desc.alpha),
    "ACTIVATION_SCALED_TANH": lambda desc, x: desc.alpha * np.tanh(desc.beta * x),
    "ACTIVATION_SHRINK": _shrunk,
    "ACTIVATION_SIGMOID": lambda _, x: 1 / (1 + np.exp(-x)),
    "ACTIVATION_SOFTMAX": _softmax,
    "ACTIVATION_SOFTMAX1": _softmax,
    "ACTIVATION_SOFTPLUS": lambda desc, x: np.logaddexp(0, desc.steepness * x, dtype=x.dtype) / desc.steepness,
    "ACTIVATION_SOFTSIGN": lambda _, x: x / (1 + np.abs(x)),
    "ACTIVATION_SWISH": lambda desc, x: x / (1 + np.exp(-desc.sigmoid_input_scale * x)),
    "ACTIVATION_THRESHOLDED_RELU": lambda desc, x: np.where(x > desc.alpha, x, 0),
    "ELEMENT_WISE_BIT_AND": _bitwise("bitwise_and"),
    "ELEMENT_WISE_BIT_COUNT": _bits_counted,
    "ELEMENT_WISE_BIT_NOT": _bitwise("invert"),
    "ELEMENT_WISE_BIT_OR": _bitwise("bitwise_or"),
    "ELEMENT_WISE_BIT_XOR": _bitwise("bitwise_xor"),
    "ELEMENT_WISE_CLIP": lambda desc, x: np.clip(x, *_bounds(desc, x)),
    "ELEMENT_WISE_CLIP1": lambda desc, x: np.clip(x, *_bounds(desc, x)),
    "ELEMENT_WISE_CLIP_GRAD": _clipped_gradient,
    "ELEMENT_WISE_CLIP_GRAD1": _clipped_gradient,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": lambda _, x, scale: x.astype(scale.dtype) * scale,
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda _, a, b: np.square(a - b),
    "ELEMENT_WISE_IF": lambda _, condition, a, b: np.where(condition != 0, a, b),
    "ELEMENT_WISE_MEAN": lambda _, a, b: (a + b) / 2,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _quantized_sum,
    "ELEMENT_WISE_QUANTIZE_LINEAR": lambda desc, x, scale: _quantized(desc, np.divide(x, scale, dtype="f4")),
}
"""By operator. Neither here nor among the functions are ERF and GELU: NumPy has no error function."""
