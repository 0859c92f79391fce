"""Fused steps of PyTorch's optimizers: operators of its own for a step of all parameters, by those for tensors.

A step by the rules of ``torch.optim`` (its documentation has them), in FLOAT32 whatever type parameters have, also for
gradients that ``torch.amp.GradScaler`` has scaled. Where that has found a number that is not finite, nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]

FUSED: dict[str, Callable[..., None]] = {}  # Kernels by the operators' names


def _fused(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        FUSED[name] = FUSED[f"{name}.tensor_lr"] = function
        return function

    return register


class _Step:
    """What the optimizers have in common.

    Args:
        maximize: whether parameters follow the gradients, instead of going against them.
        grad_scale: by which gradients were multiplied.
        found_inf: 1 where one of them is not finite, else 0.
    """

    def __init__(self, *, maximize: bool, grad_scale: torch.Tensor | None, found_inf: torch.Tensor | None) -> None:
        self._sign, self._scale, self._found = -1 if maximize else 1, grad_scale, found_inf

    def gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        """A gradient to go against; one that was scaled is as if it had not been, afterwards, too."""
        wide = gradient.float()
        if self._scale is not None:
            wide = wide / self._scale
            self.take(gradient, wide)
        return wide * self._sign if self._sign < 0 else wide

    def take(self, target: torch.Tensor, value: torch.Tensor) -> None:
        """Gives a parameter or a state another value."""
        value = value.to(target.dtype)
        target.copy_(value if self._found is None else torch.where(self._found != 0, target, value))


def _adam(is_decoupled: bool) -> Callable[..., None]:
    def step(
        parameters: Tensors,
        gradients: Tensors,
        means: Tensors,
        squares: Tensors,
        most_squares: Tensors,
        steps: Tensors,
        *,
        lr: Any,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: torch.Tensor | None = None,
        found_inf: torch.Tensor | None = None,
    ) -> None:
        rule = _Step(maximize=maximize, grad_scale=grad_scale, found_inf=found_inf)
        for number, (parameter, mean, square, count) in enumerate(zip(parameters, means, squares, steps, strict=True)):
            gradient, start = rule.gradient(gradients[number]), parameter.float()
            if weight_decay and is_decoupled:
                start = start * (1 - lr * weight_decay)
            elif weight_decay:
                gradient = gradient + start * weight_decay
            first = mean.float() + (gradient - mean) * (1 - beta1)
            second = square.float() * beta2 + gradient * gradient * (1 - beta2)
            largest = torch.maximum(most_squares[number].float(), second) if amsgrad else second
            root = largest.sqrt() / (1 - beta2**count).sqrt() + eps
            rule.take(parameter, start - first / root * (lr / (1 - beta1**count)))
            rule.take(mean, first)
            rule.take(square, second)
            if amsgrad:
                rule.take(most_squares[number], largest)

    return step


_fused("_fused_adam_")(_adam(is_decoupled=False))
_fused("_fused_adamw_")(_adam(is_decoupled=True))


@_fused("_fused_sgd_")
def _sgd(
    parameters: Tensors,
    gradients: Tensors,
    velocities: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
) -> None:
    rule = _Step(maximize=maximize, grad_scale=grad_scale, found_inf=found_inf)
    for number, parameter in enumerate(parameters):
        gradient, start = rule.gradient(gradients[number]), parameter.float()
        if weight_decay:
            gradient = gradient + start * weight_decay
        if momentum:
            velocity = gradient if is_first_step else velocities[number].float() * momentum + gradient * (1 - dampening)
            rule.take(velocities[number], velocity)
            gradient = gradient + velocity * momentum if nesterov else velocity
        rule.take(parameter, start - gradient * lr)


@_fused("_fused_adagrad_")
def _adagrad(
    parameters: Tensors,
    gradients: Tensors,
    sums: Tensors,
    steps: Tensors,
    *,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
) -> None:
    rule = _Step(maximize=maximize, grad_scale=grad_scale, found_inf=found_inf)
    for parameter, own, total, count in zip(parameters, gradients, sums, steps, strict=True):
        gradient, start = rule.gradient(own), parameter.float()
        if weight_decay:
            gradient = gradient + start * weight_decay
        largest = total.float() + gradient * gradient
        rule.take(parameter, start - gradient / (largest.sqrt() + eps) * (lr / (1 + (count - 1) * lr_decay)))
        rule.take(total, largest)
