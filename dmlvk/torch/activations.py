"""Activations and their gradients, taken apart by formulas of our own.

PyTorch's are others in other versions (SiLU's gradient had 1 / (1 + exp(-x)) in 2.11, and has sigmoid(x) in 2.14), and
with them the last bits of whatever is trained. These are the same whichever version asks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten

_HALVES = (torch.float16, torch.bfloat16)


def in_float32(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Computes halves in FLOAT32, as PyTorch does, and rounds once."""

    @functools.wraps(function)
    def wide(first: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
        given = [
            item.to(torch.float32) if isinstance(item, torch.Tensor) and item.dtype in _HALVES else item
            for item in (first, *others)
        ]
        return function(*given, **named).to(first.dtype)

    return wide


@in_float32
def _silu_backward(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    sigmoid = torch.sigmoid(x)
    return gradient * sigmoid * (1 + x * (1 - sigmoid))


@in_float32
def _gelu_backward_of(gradient: torch.Tensor, x: torch.Tensor, approximate: str) -> torch.Tensor:
    if approximate == "tanh":
        factor, cubic = math.sqrt(2 / math.pi), 0.044715
        squared = x * x
        tanh = torch.tanh(factor * (x + cubic * (squared * x)))
        inner = factor * (1 + 3 * cubic * squared)
        return gradient * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * inner)
    below = 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))
    return gradient * (below + x * (math.sqrt(0.5 / math.pi) * torch.exp(x * x * -0.5)))


def _gelu_backward(gradient: torch.Tensor, x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    return _gelu_backward_of(gradient, x, approximate)


@in_float32
def _elu_backward(
    gradient: torch.Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: torch.Tensor
) -> torch.Tensor:
    slope = x + alpha * scale if is_result else alpha * scale * torch.exp(x * input_scale)
    return torch.where(x <= 0, gradient * input_scale * slope, gradient * scale)


@in_float32
def _leaky_relu_backward(
    gradient: torch.Tensor, x: torch.Tensor, negative_slope: float, is_result: bool
) -> torch.Tensor:
    return torch.where(x > 0, gradient, gradient * negative_slope)


@in_float32
def _hardtanh_backward(gradient: torch.Tensor, x: torch.Tensor, least: float, most: float) -> torch.Tensor:
    return torch.where((x <= least) | (x >= most), 0.0, gradient)


@in_float32
def _hardsigmoid_backward(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.where((x > -3.0) & (x < 3.0), gradient * (1.0 / 6.0), 0.0)


@in_float32
def _hardswish_backward(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.where(x <= -3, 0.0, torch.where(x < 3, gradient * ((x / 3) + 0.5), gradient))


@in_float32
def _softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20) -> torch.Tensor:
    scaled = x * beta
    return torch.where(scaled > threshold, x, torch.log1p(torch.exp(scaled)) / beta)


@in_float32
def _softplus_backward(gradient: torch.Tensor, x: torch.Tensor, beta: float, threshold: float) -> torch.Tensor:
    scaled = x * beta
    return torch.where(scaled > threshold, gradient, gradient * torch.sigmoid(scaled))


@in_float32
def _mish(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tanh(_softplus(x))


@in_float32
def _mish_backward(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    tanh = torch.tanh(_softplus(x))
    return gradient * (tanh + x * torch.sigmoid(x) * (1 - tanh * tanh))


@in_float32
def _log_sigmoid(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(x, max=0.0) - torch.log1p(torch.exp(-torch.abs(x)))


def _log_sigmoid_forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """With what PyTorch keeps for the gradient on a CPU, which is not read here."""
    return _log_sigmoid(x), torch.exp(-torch.abs(x))


@in_float32
def _log_sigmoid_backward(gradient: torch.Tensor, x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    return gradient * torch.sigmoid(-x)


ACTIVATIONS: dict[Any, Callable[..., Any]] = {
    _aten.elu_backward.default: _elu_backward,
    _aten.gelu_backward.default: _gelu_backward,
    _aten.hardsigmoid_backward.default: _hardsigmoid_backward,
    _aten.hardswish_backward.default: _hardswish_backward,
    _aten.hardtanh_backward.default: _hardtanh_backward,
    _aten.leaky_relu_backward.default: _leaky_relu_backward,
    _aten.log_sigmoid_backward.default: _log_sigmoid_backward,
    _aten.log_sigmoid_forward.default: _log_sigmoid_forward,
    _aten.mish.default: _mish,
    _aten.mish_backward.default: _mish_backward,
    _aten.silu_backward.default: _silu_backward,
    _aten.softplus.default: _softplus,
    _aten.softplus_backward.default: _softplus_backward,
}
"""By operator. All others of PyTorch's are lowered as they are, or made of some that are."""

LOWERED = [
    _aten.hardsigmoid.default, _aten.hardswish.default, _aten.sigmoid_backward.default, _aten.silu.default,
    _aten.tanh_backward.default, _aten.threshold_backward.default,
]  # fmt: skip
"""Those that PyTorch would take apart, too."""
