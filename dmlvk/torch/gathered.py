"""What is gathered at places, and its gradients: pictures that grids sample, rows of tables, scores of labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table

_aten = torch.ops.aten

_BILINEAR, _ZEROS = 0, 0  # PyTorch's numbers of the ways
_SUM, _MEAN = 0, 1
_MEAN_LOSS = 1  # PyTorch's number of a mean of losses


def _sampled_back(
    gradient: torch.Tensor,
    picture: torch.Tensor,
    grid: torch.Tensor,
    way: int,
    padding: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> Any:
    """Of pixels between four others, with zeros around the picture."""
    if way != _BILINEAR or padding != _ZEROS:
        return NotImplemented
    wide = torch.float32
    sizes = picture.shape[:1:-1]  # width, height
    scales = [(size - 1) / 2 if align_corners else size / 2 for size in sizes]
    places = [(grid[..., axis].to(wide) + 1) * scales[axis] - (0 if align_corners else 0.5) for axis in (0, 1)]
    first = [place.floor() for place in places]
    shares = [place - low for place, low in zip(places, first, strict=True)]
    count, channels = picture.shape[:2]
    flat, given = picture.to(wide).flatten(2), gradient.to(wide).flatten(2)
    for_picture, for_grid = torch.zeros_like(flat), [torch.zeros_like(place) for place in places]
    for corner in itertools.product((0, 1), (0, 1)):
        x, y = (low + step for low, step in zip(first, corner, strict=True))
        inside = (x >= 0) & (x < sizes[0]) & (y >= 0) & (y < sizes[1])
        index = torch.where(inside, x + y * sizes[0], 0)
        spread = index.to(torch.int64).reshape(count, 1, -1).expand(count, channels, -1)
        across, down = (share if step else 1 - share for share, step in zip(shares, corner, strict=True))
        weight = torch.where(inside, across * down, 0).reshape(count, 1, -1)
        for_picture = for_picture.scatter_add(2, spread, given * weight)
        value = torch.where(inside, (flat.gather(2, spread) * given).sum(1).reshape(x.shape), 0)
        for_grid[0] = for_grid[0] + value * down * (2 * corner[0] - 1)
        for_grid[1] = for_grid[1] + value * across * (2 * corner[1] - 1)
    moved = torch.stack([made * scale for made, scale in zip(for_grid, scales, strict=True)], -1)
    return for_picture.reshape(picture.shape).to(picture.dtype), moved.to(grid.dtype)


def _bags_back(
    gradient: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    bags: torch.Tensor,
    sizes: torch.Tensor,
    largest: torch.Tensor,
    count: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    shares: torch.Tensor | None = None,
    padding_idx: int = -1,
) -> Any:
    """Each row of the table gets what the bags that it is in get."""
    is_plain = not scale_grad_by_freq and not sparse and padding_idx < 0 and bags.shape == indices.shape
    if mode not in (_SUM, _MEAN) or not is_plain or not indices.numel():
        return NotImplemented
    if mode == _MEAN:
        gradient = gradient / sizes.clamp(min=1)[:, None].to(gradient.dtype)
    rows = gradient[bags] if shares is None else gradient[bags] * shares[:, None]
    return gradient.new_zeros((count, gradient.shape[1])).index_add(0, indices, rows)


def _shares_back(
    gradient: torch.Tensor,
    table: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    bags: torch.Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Any:
    if padding_idx >= 0 or bags.shape != indices.shape or not indices.numel():
        return NotImplemented
    return (gradient[bags] * table[indices]).sum(1)


def _each_share(gradient: torch.Tensor, x: torch.Tensor, reduction: int) -> torch.Tensor:
    """What each element of losses of rows gets, [rows or 1, 1]."""
    rows, classes = x.shape
    made: torch.Tensor = gradient.reshape(-1, 1) / (classes * rows if reduction == _MEAN_LOSS else classes)
    return made


def _margin_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    p: float = 1,
    margin: float = 1,
    weight: torch.Tensor | None = None,
    reduction: int = _MEAN_LOSS,
) -> torch.Tensor:
    """As PyTorch takes it apart, but the loss of one row has no axes, as on its CPU."""
    made: torch.Tensor = decomposition_table[_aten.multi_margin_loss.default](x, target, p, margin, weight, reduction)
    return made if reduction else made.reshape(target.shape)


def _labels_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Likewise."""
    made, is_target = decomposition_table[_aten.multilabel_margin_loss_forward.default](x, target, reduction)
    return made if reduction else made.reshape(x.shape[:-1]), is_target


def _margin_back(
    gradient: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    p: float,
    margin: float,
    weight: torch.Tensor | None = None,
    reduction: int = _MEAN_LOSS,
) -> Any:
    """Of classes whose scores come near the one of the row's class: they are pushed down, and that one up."""
    if not x.numel():
        return NotImplemented
    rows, own = x.reshape(-1, x.shape[-1]), target.reshape(-1, 1)
    short = margin - rows.gather(1, own) + rows
    is_near = (short > 0) & (torch.arange(rows.shape[1], device=x.device) != own)
    pushed = _each_share(gradient, rows, reduction) * (1 if p == 1 else 2 * short)
    if weight is not None:
        pushed = pushed * weight[own]
    pushed = torch.where(is_near, pushed, 0)
    return pushed.scatter_add(1, own, -pushed.sum(1, keepdim=True)).reshape(x.shape)


def _labels_margin_back(
    gradient: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, is_target: torch.Tensor
) -> Any:
    """Likewise of rows with several classes, of which the first negative number ends the list."""
    if not x.numel():
        return NotImplemented
    rows, listed = x.reshape(-1, x.shape[-1]), target.reshape(-1, x.shape[-1])
    is_listed = (listed < 0).to(torch.int32).cumsum(1) == 0
    own = torch.where(is_listed, listed, 0)
    is_near = 1 - rows.gather(1, own)[:, :, None] + rows[:, None] > 0
    is_near = is_near & is_listed[:, :, None] & (is_target.reshape(rows.shape) == 0)[:, None]
    counts = is_near.to(x.dtype)
    made = counts.sum(1).scatter_add(1, own, -counts.sum(2)) * _each_share(gradient, rows, reduction)
    return made.reshape(x.shape)


GATHERED: dict[Any, Callable[..., Any]] = {
    _aten.grid_sampler_2d_backward.default: _sampled_back,
    _aten._embedding_bag_backward.default: _bags_back,
    _aten._embedding_bag_per_sample_weights_backward.default: _shares_back,
    _aten.multi_margin_loss.default: _margin_loss,
    _aten.multi_margin_loss_backward.default: _margin_back,
    _aten.multilabel_margin_loss_forward.default: _labels_margin_loss,
    _aten.multilabel_margin_loss_backward.default: _labels_margin_back,
}
"""By operator."""
