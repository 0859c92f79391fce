"""Operators that are no single function of PyTorch, or not with every attribute, as its users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dmlvk as dml

Expression = Callable[..., Any]  # Called with PyTorch, the description, and the tensors


def _hard_sigmoid(desc: dml.ActivationHardSigmoid | dml.ActivationHardSwish, x: Any) -> Any:
    return (desc.alpha * x + desc.beta).clamp(0, 1)


def _shrunk(torch: Any, desc: dml.ActivationShrink, x: Any) -> Any:
    if desc.bias == desc.threshold:
        return torch.nn.functional.softshrink(x, desc.threshold)
    return torch.where(x > desc.threshold, x - desc.bias, torch.where(x < -desc.threshold, x + desc.bias, 0))


def _clipped_gradient(
    torch: Any, desc: dml.ElementWiseClipGrad | dml.ElementWiseClipGrad1, x: Any, gradient: Any
) -> Any:
    return torch.where((x > desc.min) & (x < desc.max), gradient, 0)


def _quantized(torch: Any, desc: dml.OperatorDesc, x: Any) -> Any:
    """Without zero points, which are optional and not measured."""
    data_type = getattr(torch, desc.output_type.numpy_dtype.name)
    limits = torch.iinfo(data_type)
    return x.round().clamp(limits.min, limits.max).to(data_type)


def _quantized_sum(torch: Any, desc: dml.OperatorDesc, a: Any, a_scale: Any, b: Any, b_scale: Any, scale: Any) -> Any:
    return _quantized(torch, desc, (a * a_scale + b * b_scale) / scale)


def _hardmax(torch: Any, _: Any, x: Any) -> Any:
    return (x.argmax(-1, keepdim=True) == torch.arange(x.shape[-1], device=x.device)).to(x.dtype)


EXPRESSIONS: dict[str, Expression] = {
    "ACTIVATION_HARDMAX": _hardmax,
    "ACTIVATION_HARDMAX1": _hardmax,
    "ACTIVATION_HARD_SIGMOID": lambda _, desc, x: _hard_sigmoid(desc, x),
    "ACTIVATION_HARD_SWISH": lambda _, desc, x: x * _hard_sigmoid(desc, x),
    "ACTIVATION_LINEAR": lambda _, desc, x: desc.alpha * x + desc.beta,
    "ACTIVATION_LOG_SOFTMAX1": lambda torch, _, x: torch.log_softmax(x, -1),
    "ACTIVATION_PARAMETERIZED_RELU": lambda torch, _, x, slope: torch.where(x >= 0, x, slope * x),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda torch, desc, x: (
        (desc.alpha * desc.beta) * torch.nn.functional.softplus(x, desc.beta)
    ),
    "ACTIVATION_RELU_GRAD": lambda torch, _, x, gradient: torch.where(x > 0, gradient, 0),
    "ACTIVATION_SCALED_ELU": lambda torch, desc, x: desc.gamma * torch.nn.functional.elu(x, desc.alpha),
    "ACTIVATION_SCALED_TANH": lambda torch, desc, x: desc.alpha * torch.tanh(desc.beta * x),
    "ACTIVATION_SHRINK": _shrunk,
    "ACTIVATION_SOFTMAX1": lambda torch, _, x: torch.softmax(x, -1),
    "ACTIVATION_SWISH": lambda torch, desc, x: x * torch.sigmoid(desc.sigmoid_input_scale * x),
    "ELEMENT_WISE_CLIP_GRAD": _clipped_gradient,
    "ELEMENT_WISE_CLIP_GRAD1": _clipped_gradient,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": lambda _, __, x, scale: x.to(scale.dtype) * scale,
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda _, __, a, b: (a - b).square(),
    "ELEMENT_WISE_MEAN": lambda _, __, a, b: (a + b) / 2,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _quantized_sum,
    "ELEMENT_WISE_QUANTIZE_LINEAR": lambda torch, desc, x, scale: _quantized(torch, desc, x.float() / scale.float()),
}
"""By operator. Where its attributes are those of a function of :mod:`dmlvk.bench.functions`, that is called instead."""
