"""Which of ATen's operators are taken apart, into those that are lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.nn import functional

_aten = torch.ops.aten

_DECOMPOSED = [
    _aten.native_layer_norm_backward.default,
    _aten.native_group_norm_backward.default,
    _aten.native_batch_norm_backward.default,
    _aten.gelu_backward.default,
    _aten.silu_backward.default,
    _aten.nll_loss_forward.default,
    _aten.nll_loss_backward.default,
    _aten.mse_loss.default,
    _aten.mse_loss_backward.default,
    _aten.unbind.int,
    _aten.triu.default,
    _aten.tril.default,
    _aten._native_batch_norm_legit.default,
    _aten._native_batch_norm_legit.no_stats,
]

_KEPT = [_aten.embedding_dense_backward.default]
"""Operators that are lowered, though PyTorch would take them apart."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Those of Core ATen and others, by operator."""
    found: dict[Any, Callable[..., Any]] = {**core_aten_decompositions(), **get_decompositions(_DECOMPOSED), **_OWN}
    for kept in _KEPT:
        found.pop(kept, None)
    return found


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    width: int,
    heads: int,
    weights: torch.Tensor,
    biases: torch.Tensor,
    projection: torch.Tensor,
    projection_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What nn.MultiheadAttention calls in inference. A mask is of places (0), keys (1), or both (2)."""
    given = zip((query, key, value), weights.chunk(3), biases.chunk(3), strict=True)
    split = [functional.linear(x, w, b).unflatten(-1, (heads, width // heads)).transpose(1, 2) for x, w, b in given]
    scores = split[0] @ split[1].transpose(-1, -2) * (width // heads) ** -0.5
    if mask is not None:
        if mask_type == 1:
            mask = mask[:, None, None, :]
        scores = scores.masked_fill(mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
    shares = scores.softmax(-1)
    mixed = (shares @ split[2]).transpose(1, 2).flatten(2)
    made = functional.linear(mixed, projection, projection_bias)
    if not need_weights:
        return made, made.new_zeros(())
    return made, shares.mean(1) if average_weights else shares


def _encoder_layer(
    x: torch.Tensor,
    width: int,
    heads: int,
    weights: torch.Tensor,
    biases: torch.Tensor,
    projection: torch.Tensor,
    projection_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """What nn.TransformerEncoderLayer calls in inference."""

    def attended(x: torch.Tensor) -> torch.Tensor:
        learned = (weights, biases, projection, projection_bias)
        return _attention(x, x, x, width, heads, *learned, mask, False, mask_type=mask_type)[0]

    def fed_forward(x: torch.Tensor) -> torch.Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (width,), weight, bias, eps)

    if norm_first:
        x = x + attended(norm(x, norm_weight_1, norm_bias_1))
        return x + fed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(x + attended(x), norm_weight_1, norm_bias_1)
    return norm(x + fed_forward(x), norm_weight_2, norm_bias_2)


_OWN: dict[Any, Callable[..., Any]] = {
    _aten._native_multi_head_attention.default: _attention,
    _aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}
"""What PyTorch has no decomposition of."""
