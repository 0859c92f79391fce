"""Random numbers with probabilities on the device: draws are of the generator of PyTorch's CPU, and all else is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_aten = torch.ops.aten

_Draw = Callable[[torch.Tensor], Any]


def _drawn(shape: Sequence[int], draw: _Draw, x: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    made: torch.Tensor = draw(torch.empty(tuple(shape), dtype=dtype, device="cpu"))
    return made.to(torch.float32).to(x.device)


def _bernoulli(x: torch.Tensor, *, generator: torch.Generator | None = None) -> torch.Tensor:
    if not bool(((x >= 0) & (x <= 1)).all()):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    return (_drawn(x.shape, lambda one: one.uniform_(generator=generator), x) < x).to(x.dtype)


def _bernoulli_in_place(x: torch.Tensor, p: torch.Tensor, *, generator: torch.Generator | None = None) -> torch.Tensor:
    return x.copy_(_bernoulli(p.to(x.device).to(torch.float32).expand(x.shape), generator=generator))


def _multinomial(
    x: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: torch.Generator | None = None
) -> torch.Tensor:
    if not x.dim() or x.dim() > 2 or not x.numel():
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, with probabilities; got {list(x.shape)}")
    if num_samples <= 0 or (not replacement and num_samples > x.shape[-1]):
        raise RuntimeError(f"cannot sample n_sample <= 0, nor more than prob_dist.size(-1) samples; got {num_samples}")
    if not bool((torch.isfinite(x) & (x >= 0)).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    x = x.to(torch.float32)
    if not bool((x.sum(-1) > 0).all()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement or num_samples == 1:
        rates = x / _drawn(x.shape, lambda one: one.exponential_(generator=generator), x)
        return rates.topk(num_samples, -1).indices
    ends = x.cumsum(-1)
    places = (*x.shape[:-1], num_samples)
    chosen = _drawn(places, lambda one: one.uniform_(generator=generator), x, torch.float64)
    return torch.searchsorted(ends / ends[..., -1:], chosen).clamp(max=x.shape[-1] - 1)


def _normal(mean: Any, std: Any, *, generator: torch.Generator | None = None) -> torch.Tensor:
    like = mean if isinstance(mean, torch.Tensor) else std
    if bool((std < 0).any()) if isinstance(std, torch.Tensor) else std < 0:
        raise RuntimeError("normal expects all elements of std >= 0.0")
    shape = torch.broadcast_shapes(*(one.shape for one in (mean, std) if isinstance(one, torch.Tensor)))
    made = _drawn(shape, lambda one: one.normal_(generator=generator), like)
    return (made * std + mean).to(like.dtype)


DRAWS: dict[str, Callable[..., torch.Tensor]] = {
    "bernoulli": _bernoulli, "bernoulli_.Tensor": _bernoulli_in_place, "multinomial": _multinomial,
    "normal.Tensor_Tensor": _normal, "normal.Tensor_float": _normal, "normal.float_Tensor": _normal,
}  # fmt: skip
"""By the operators' names."""
