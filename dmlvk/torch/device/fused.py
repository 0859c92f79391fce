"""Fused steps of PyTorch's optimizers: one operator for each parameter, with what belongs to it.

A step by the rules of ``torch.optim`` (its documentation has them), in FLOAT32 whatever type parameters have, also for
gradients that ``torch.amp.GradScaler`` has scaled. Where that has found a number that is not finite, nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from dmlvk.torch.device.composed import Whole
from dmlvk.torch.device.recorder import RECORDER

Tensors: TypeAlias = Sequence[torch.Tensor]
Tensor: TypeAlias = torch.Tensor | None

FUSED: dict[str, Callable[..., None]] = {}  # Kernels by the operators' names


def _fused(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        FUSED[name] = FUSED[f"{name}.tensor_lr"] = function
        return function

    return register


def _unscaled(gradient: torch.Tensor, scale: Tensor, *, maximize: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """A gradient as if it had not been scaled, which it becomes, and one to go against."""
    wide = gradient.float() if scale is None else gradient.float() / scale
    return wide, wide * -1 if maximize else wide


def _chosen(targets: Sequence[Tensor], values: Sequence[torch.Tensor], found: Tensor) -> tuple[torch.Tensor, ...]:
    """What parameters and states become: what they were, where a number was found that is not finite."""
    pairs = [
        (target, value.to(target.dtype)) for target, value in zip(targets, values, strict=True) if target is not None
    ]
    if found is None:
        return tuple(value for _, value in pairs)
    return tuple(torch.where(found != 0, target, value) for target, value in pairs)


def _number(value: Any) -> torch.Tensor:
    """A number that changes from step to step: no other graph is needed for another one."""
    return value if isinstance(value, torch.Tensor) else torch.scalar_tensor(value, dtype=torch.float64, device="cpu")


def _ratio(rate: torch.Tensor, divisor: torch.Tensor, *, is_tensor: bool) -> torch.Tensor:
    """By as many roundings as PyTorch divides a number, or a tensor."""
    return rate / divisor if is_tensor else divisor.reciprocal() * rate


def _step(rule: Whole, operands: Sequence[Sequence[Any]], targets: Sequence[int], *settings: Any) -> None:
    """A step of each parameter.

    Args:
        operands: lists of the rule's first operands; an empty one: there are none.
        targets: which of these the results are for.
        settings: the rule's others.
    """
    RECORDER.widen(max(len(operands[0]) * sum(bool(operands[target]) for target in targets) - 1, 0))
    for number in range(len(operands[0])):
        each = [one[number] if one else None for one in operands]
        changed = [each[target] for target in targets if each[target] is not None]
        rule.into(changed, *each, *settings)
        torch.autograd.graph.increment_version(changed)


_KNOWN_BETAS: set[tuple[float, float]] = set()

_MOST_BETAS = 4  # Pairs of them that have graphs of their own, whose kernels read fewer operands


def _logarithm(beta: float) -> float:
    return math.log(beta) if beta else -math.inf


def _averages(beta1: float, beta2: float) -> Sequence[Any]:
    """What averages keep, and what they take; as operands where a program has many of them, as by a schedule.

    With logarithms ``1 - beta**count`` keeps its digits where it is small.
    """
    made = _logarithm(beta1), 1 - beta1, beta2, _logarithm(beta2), 1 - beta2
    if (beta1, beta2) not in _KNOWN_BETAS:
        if len(_KNOWN_BETAS) >= _MOST_BETAS:
            return [_number(one) for one in made]
        _KNOWN_BETAS.add((beta1, beta2))
    return made


def _adam_rule(
    parameter: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    most: Tensor,
    scaled: Tensor,
    gradient: torch.Tensor,
    count: torch.Tensor,
    rate: torch.Tensor,
    kept: torch.Tensor,
    scale: Tensor,
    found: Tensor,
    log_beta1: Any,
    new_mean: Any,
    beta2: Any,
    log_beta2: Any,
    new_square: Any,
    weight_decay: float,
    eps: float,
    is_decoupled: bool,
    maximize: bool,
    is_tensor: bool,
) -> tuple[torch.Tensor, ...]:
    wide, against = _unscaled(gradient, scale, maximize=maximize)
    start = parameter.float()
    if weight_decay and is_decoupled:
        start = start * kept
    elif weight_decay:
        against = against + start * weight_decay
    first = mean.float() + (against - mean) * new_mean
    second = square.float() * beta2 + against * against * new_square
    largest = second if most is None else torch.maximum(most.float(), second)
    root = largest.sqrt() / (-torch.expm1(count * log_beta2)).sqrt() + eps
    end = start - first / root * _ratio(rate, -torch.expm1(count * log_beta1), is_tensor=is_tensor)
    return _chosen((parameter, mean, square, most, scaled), (end, first, second, largest, wide), found)


_ADAM = Whole(_adam_rule)


def _adam(*, is_decoupled: bool) -> Callable[..., None]:
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
        grad_scale: Tensor = None,
        found_inf: Tensor = None,
    ) -> None:
        most, scaled = most_squares if amsgrad else (), gradients if grad_scale is not None else ()
        operands = parameters, means, squares, most, scaled, gradients, steps
        rates = _number(lr), _number(1 - lr * weight_decay), grad_scale, found_inf
        settings = *_averages(beta1, beta2), weight_decay, eps, is_decoupled, maximize, isinstance(lr, torch.Tensor)
        _step(_ADAM, operands, range(5), *rates, *settings)

    return step


_fused("_fused_adam_")(_adam(is_decoupled=False))
_fused("_fused_adamw_")(_adam(is_decoupled=True))


def _sgd_rule(
    parameter: torch.Tensor,
    velocity: Tensor,
    scaled: Tensor,
    gradient: torch.Tensor,
    rate: torch.Tensor,
    scale: Tensor,
    found: Tensor,
    weight_decay: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
) -> tuple[torch.Tensor, ...]:
    wide, against = _unscaled(gradient, scale, maximize=maximize)
    start = parameter.float()
    if weight_decay:
        against = against + start * weight_decay
    moved = against
    if velocity is not None:
        moved = against if is_first_step else velocity.float() * momentum + against * (1 - dampening)
        against = against + moved * momentum if nesterov else moved
    return _chosen((parameter, velocity, scaled), (start - against * rate, moved, wide), found)


_SGD = Whole(_sgd_rule)


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
    grad_scale: Tensor = None,
    found_inf: Tensor = None,
) -> None:
    operands = parameters, velocities if momentum else (), gradients if grad_scale is not None else (), gradients
    settings = weight_decay, momentum, dampening, nesterov, maximize, is_first_step
    _step(_SGD, operands, range(3), _number(lr), grad_scale, found_inf, *settings)


def _adagrad_rule(
    parameter: torch.Tensor,
    total: torch.Tensor,
    scaled: Tensor,
    gradient: torch.Tensor,
    count: torch.Tensor,
    rate: torch.Tensor,
    scale: Tensor,
    found: Tensor,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    is_tensor: bool,
) -> tuple[torch.Tensor, ...]:
    wide, against = _unscaled(gradient, scale, maximize=maximize)
    start = parameter.float()
    if weight_decay:
        against = against + start * weight_decay
    largest = total.float() + against * against
    slower = _ratio(rate, 1 + (count - 1) * lr_decay, is_tensor=is_tensor)
    end = start - against / (largest.sqrt() + eps) * slower
    return _chosen((parameter, total, scaled), (end, largest, wide), found)


_ADAGRAD = Whole(_adagrad_rule)


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
    grad_scale: Tensor = None,
    found_inf: Tensor = None,
) -> None:
    operands = parameters, sums, gradients if grad_scale is not None else (), gradients, steps
    settings = lr_decay, weight_decay, eps, maximize, isinstance(lr, torch.Tensor)
    _step(_ADAGRAD, operands, range(3), _number(lr), grad_scale, found_inf, *settings)
