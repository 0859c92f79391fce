"""Operators that are no single function of NumPy or of PyTorch, as their users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import dmlvk as dml

Clipped: TypeAlias = dml.ElementWiseClip | dml.ElementWiseClip1 | dml.ElementWiseClipGrad | dml.ElementWiseClipGrad1
Expression = Callable[..., Any]  # Called with NumPy or PyTorch, the description and the inputs


def _cast(x: Any, dtype: Any) -> Any:
    return x.astype(dtype) if isinstance(x, np.ndarray) else x.to(dtype)


def _bounds(desc: Clipped, x: Any) -> tuple[Any, Any]:
    """Min and Max, for NumPy in the inputs' type, so that integers stay what they are."""
    kind = x.dtype.type if isinstance(x, np.ndarray) else float
    return kind(desc.min), kind(desc.max)


def _clipped_gradient(xp: Any, desc: Clipped, x: Any, gradient: Any) -> Any:
    low, high = _bounds(desc, x)
    return xp.where((x > low) & (x < high), gradient, 0)


def _exponential_linear(x: Any, alpha: float) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _hard_sigmoid(xp: Any, desc: dml.ActivationHardSigmoid | dml.ActivationHardSwish, x: Any) -> Any:
    return xp.clip(desc.alpha * x + desc.beta, 0, 1)


def _shrunk(xp: Any, desc: dml.ActivationShrink, x: Any) -> Any:
    if xp is not np and desc.bias == desc.threshold:
        return xp.nn.functional.softshrink(x, desc.threshold)
    return xp.where(x > desc.threshold, x - desc.bias, xp.where(x < -desc.threshold, x + desc.bias, 0))


def _unsigned(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}")


def _bitwise(name: str) -> Expression:
    return lambda _, __, *inputs: getattr(np, name)(*map(_unsigned, inputs)).view(inputs[0].dtype)


def _bits_counted(_: Any, __: Any, x: Any) -> Any:
    if not hasattr(np, "bitwise_count"):
        raise TypeError("NumPy has bitwise_count from version 2.0 on")
    return np.bitwise_count(_unsigned(x))


def _quantized(xp: Any, desc: dml.OperatorDesc, x: Any) -> Any:
    """Without zero points, which are optional and not measured."""
    data_type = desc.output_type.numpy_dtype
    limits = np.iinfo(data_type)
    return _cast(xp.clip(xp.round(x), limits.min, limits.max), data_type if xp is np else getattr(xp, data_type.name))


def _quantized_sum(xp: Any, desc: Any, a: Any, a_scale: Any, b: Any, b_scale: Any, scale: Any) -> Any:
    return _quantized(xp, desc, (a * a_scale + b * b_scale) / scale)


def _shifted_to_peak(x: Any) -> Any:
    return x - np.max(x, axis=-1, keepdims=True)


def _softmax(_: Any, __: Any, x: Any) -> Any:
    powers = np.exp(_shifted_to_peak(x))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def _log_softmax(_: Any, __: Any, x: Any) -> Any:
    shifted = _shifted_to_peak(x)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def _hardmax(xp: Any, _: Any, x: Any) -> Any:
    places = np.arange(x.shape[-1]) if xp is np else xp.arange(x.shape[-1], device=x.device)
    return _cast(x.argmax(-1)[..., None] == places, x.dtype)


_OF_BOTH: dict[str, Expression] = {
    "ACTIVATION_HARDMAX": _hardmax,
    "ACTIVATION_HARDMAX1": _hardmax,
    "ACTIVATION_HARD_SIGMOID": _hard_sigmoid,
    "ACTIVATION_HARD_SWISH": lambda xp, desc, x: x * _hard_sigmoid(xp, desc, x),
    "ACTIVATION_LINEAR": lambda _, desc, x: desc.alpha * x + desc.beta,
    "ACTIVATION_PARAMETERIZED_RELU": lambda xp, _, x, slope: xp.where(x >= 0, x, slope * x),
    "ACTIVATION_RELU_GRAD": lambda xp, _, x, gradient: xp.where(x > 0, gradient, 0),
    "ACTIVATION_SCALED_TANH": lambda xp, desc, x: desc.alpha * xp.tanh(desc.beta * x),
    "ACTIVATION_SHRINK": _shrunk,
    "ELEMENT_WISE_CLIP_GRAD": _clipped_gradient,
    "ELEMENT_WISE_CLIP_GRAD1": _clipped_gradient,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": lambda _, __, x, scale: _cast(x, scale.dtype) * scale,
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda xp, _, a, b: xp.square(a - b),
    "ELEMENT_WISE_MEAN": lambda _, __, a, b: (a + b) / 2,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _quantized_sum,
}

OF_NUMPY: dict[str, Expression] = _OF_BOTH | {
    "ACTIVATION_CELU": lambda _, desc, x: np.where(
        x > 0, x, desc.alpha * np.expm1(np.minimum(x, 0) / x.dtype.type(desc.alpha))
    ),
    "ACTIVATION_ELU": lambda _, desc, x: _exponential_linear(x, desc.alpha),
    "ACTIVATION_LEAKY_RELU": lambda _, desc, x: np.where(x >= 0, x, desc.alpha * x),
    "ACTIVATION_LOG_SOFTMAX": _log_softmax,
    "ACTIVATION_LOG_SOFTMAX1": _log_softmax,
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda _, desc, x: desc.alpha * np.logaddexp(0, desc.beta * x, dtype=x.dtype),
    "ACTIVATION_RELU": lambda _, __, x: np.maximum(x, 0),
    "ACTIVATION_SCALED_ELU": lambda _, desc, x: desc.gamma * _exponential_linear(x, desc.alpha),
    "ACTIVATION_SIGMOID": lambda _, __, x: 1 / (1 + np.exp(-x)),
    "ACTIVATION_SOFTMAX": _softmax,
    "ACTIVATION_SOFTMAX1": _softmax,
    "ACTIVATION_SOFTPLUS": lambda _, desc, x: np.logaddexp(0, desc.steepness * x, dtype=x.dtype) / desc.steepness,
    "ACTIVATION_SOFTSIGN": lambda _, __, x: x / (1 + np.abs(x)),
    "ACTIVATION_SWISH": lambda _, desc, x: x / (1 + np.exp(-desc.sigmoid_input_scale * x)),
    "ACTIVATION_THRESHOLDED_RELU": lambda _, desc, x: np.where(x > desc.alpha, x, 0),
    "ELEMENT_WISE_BIT_AND": _bitwise("bitwise_and"),
    "ELEMENT_WISE_BIT_COUNT": _bits_counted,
    "ELEMENT_WISE_BIT_NOT": _bitwise("invert"),
    "ELEMENT_WISE_BIT_OR": _bitwise("bitwise_or"),
    "ELEMENT_WISE_BIT_XOR": _bitwise("bitwise_xor"),
    "ELEMENT_WISE_CLIP": lambda _, desc, x: np.clip(x, *_bounds(desc, x)),
    "ELEMENT_WISE_CLIP1": lambda _, desc, x: np.clip(x, *_bounds(desc, x)),
    "ELEMENT_WISE_IF": lambda _, __, condition, a, b: np.where(condition != 0, a, b),
    "ELEMENT_WISE_QUANTIZE_LINEAR": lambda xp, desc, x, scale: _quantized(xp, desc, np.divide(x, scale, dtype="f4")),
}
"""By operator. Neither here nor among the functions are ERF and GELU: NumPy has no error function."""

OF_TORCH: dict[str, Expression] = _OF_BOTH | {
    "ACTIVATION_LOG_SOFTMAX1": lambda torch, _, x: torch.log_softmax(x, -1),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda torch, desc, x: (
        (desc.alpha * desc.beta) * torch.nn.functional.softplus(x, desc.beta)
    ),
    "ACTIVATION_SCALED_ELU": lambda torch, desc, x: desc.gamma * torch.nn.functional.elu(x, desc.alpha),
    "ACTIVATION_SOFTMAX1": lambda torch, _, x: torch.softmax(x, -1),
    "ACTIVATION_SWISH": lambda torch, desc, x: x * torch.sigmoid(desc.sigmoid_input_scale * x),
    "ELEMENT_WISE_QUANTIZE_LINEAR": lambda torch, desc, x, scale: _quantized(torch, desc, x.float() / scale.float()),
}
"""By operator. Where its attributes are those of a function of :mod:`dmlvk.bench.functions`, that is called instead."""
