"""What acts along each axis by itself, and its gradients: a matrix for each axis, and products.

The matrix is what the operator makes of ones on a diagonal, so that both follow the same rules of corners and edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

_aten = torch.ops.aten

Matrices = Sequence[torch.Tensor]  # of each axis of pictures [its size, the result's]


def _moved(x: torch.Tensor, matrices: Matrices) -> torch.Tensor:
    """Products along the last axes, in FLOAT32."""
    made = x.to(torch.float32)
    for axis, matrix in enumerate(reversed(matrices)):
        made = _product(made.movedim(-1 - axis, -1), matrix).movedim(-1, -1 - axis)
    return made.to(x.dtype)


def _product(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """A product in which what is not finite goes only to where the matrix takes it: 0 infinity would be NaN."""
    up, down = (~(x < torch.inf)).to(torch.float32), (~(x > -torch.inf)).to(torch.float32)  # NaN is both
    ways = torch.cat([(matrix > 0).to(torch.float32), (matrix < 0).to(torch.float32)])
    made = torch.where(torch.isfinite(x), x, 0.0) @ matrix
    for infinity, one, other in ((torch.inf, up, down), (-torch.inf, down, up)):
        made = made + torch.where(torch.cat([one, other], -1) @ ways > 0, infinity, 0.0)
    return made


def _moved_back(gradient: torch.Tensor, matrices: Matrices) -> torch.Tensor:
    return _moved(gradient, [matrix.T for matrix in matrices])


def _diagonal(like: torch.Tensor, size: int) -> torch.Tensor:
    return torch.eye(size, dtype=torch.float32, device=like.device)


def _upsampled_back(operator: Any, count: int, has_corners: bool) -> Callable[..., torch.Tensor]:
    """Of an operator for pictures of so many axes; those of two are told one row of pixels with the other axis."""

    def computed(gradient: torch.Tensor, output: Sequence[int], own: Sequence[int], *named: Any) -> torch.Tensor:
        corners = named[: int(has_corners)]
        scales = [*named[len(corners) :], *[None] * len(output)][: len(output)]
        made = []
        for size, wanted, scale in zip(own[2:], output, scales, strict=True):
            ones = _diagonal(gradient, size)
            if count == 1:
                made.append(operator(ones[None], [wanted], *corners, scale)[0])
            else:
                made.append(operator(ones[None, :, :, None], [wanted, 1], *corners, scale, None)[0, :, :, 0])
        return _moved_back(gradient, made)

    return computed


def _replicated_back(gradient: torch.Tensor, x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
    count = len(padding) // 2
    made = []
    for axis in range(count):
        pads = list(padding[2 * axis : 2 * axis + 2])
        made.append(functional.pad(_diagonal(x, x.shape[-1 - axis])[None], pads, mode="replicate")[0])
    return _moved_back(gradient, made[::-1])


def _has_equal_parts(x: torch.Tensor, sizes: Sequence[int]) -> bool:
    return all(own % count == 0 for own, count in zip(x.shape[-len(sizes) :], sizes, strict=True))


def _adaptive(x: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
    pairs = zip(x.shape[-len(sizes) :], sizes, strict=True)
    return [functional.adaptive_avg_pool1d(_diagonal(x, own)[None], count)[0] for own, count in pairs]


def _adaptive_means(x: torch.Tensor, sizes: Sequence[int]) -> Any:
    """Of equal parts the table has them."""
    return NotImplemented if _has_equal_parts(x, sizes) else _moved(x, _adaptive(x, sizes))


def _adaptive_means_back(count: int) -> Callable[..., Any]:
    def computed(gradient: torch.Tensor, x: torch.Tensor) -> Any:
        sizes = gradient.shape[-count:]
        if count == 2 and _has_equal_parts(x, sizes):
            return NotImplemented
        return _moved_back(gradient, _adaptive(x, sizes))

    return computed


def _means(
    count: int,
    x: torch.Tensor,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> list[torch.Tensor]:
    window, padding = (list(one) * (count // len(one)) for one in (window, padding))
    steps = list(stride) * (count // len(stride)) if stride else window
    made = []
    for size, width, step, pad in zip(x.shape[-count:], window, steps, padding, strict=True):
        ones = _diagonal(x, size)[None]
        matrix = functional.avg_pool1d(ones, width, step, pad, ceil_mode, count_include_pad)[0]
        made.append(matrix if divisor is None else (matrix != 0).to(matrix.dtype))
    if divisor is not None:
        made[0] = made[0] / divisor
    return made


def _has_divisors(
    window: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, is_counted: bool = True, *rest: Any
) -> bool:
    """Of means: the table has those whose divisor is the window's size, or what of it is inside."""
    return any(each is not None for each in rest) or (ceil_mode and is_counted)


def _mean_pool(x: torch.Tensor, *arguments: Any) -> Any:
    return _moved(x, _means(3, x, *arguments)) if _has_divisors(*arguments) else NotImplemented


def _mean_pool_back(count: int) -> Callable[..., Any]:
    def computed(gradient: torch.Tensor, x: torch.Tensor, *arguments: Any) -> Any:
        if count == 2 and not _has_divisors(*arguments):
            return NotImplemented
        return _moved_back(gradient, _means(count, x, *arguments))

    return computed


def _largest_of_parts(x: torch.Tensor, sizes: Sequence[int]) -> Any:
    """Of adaptive pools: windows of equal parts, else all of the widest one's size, whose last pixels come again."""
    count = len(sizes)
    if _has_equal_parts(x, sizes):
        window = [own // parts for own, parts in zip(x.shape[-count:], sizes, strict=True)]
        return (_aten.max_pool2d_with_indices if count == 2 else _aten.max_pool3d_with_indices)(x, window, window)
    held, tables = x, []
    for axis in range(count):
        own, parts = x.shape[axis - count], sizes[axis]
        width = max(-(-(part + 1) * own // parts) - part * own // parts for part in range(parts))
        number = torch.arange(parts, device=x.device)[:, None]
        first = torch.div(number * own, parts, rounding_mode="floor")
        last = torch.div((number + 1) * own + parts - 1, parts, rounding_mode="floor") - 1
        tables.append(torch.minimum(first + torch.arange(width, device=x.device), last))
        held = held.index_select(axis - count, tables[-1].flatten())
    apart = list(held.shape[:-count])
    for table in tables:
        apart += table.shape
    rank = x.dim() - count
    order = [*range(rank), *range(rank, rank + 2 * count, 2), *range(rank + 1, rank + 2 * count, 2)]
    values, places = held.reshape(apart).permute(order).flatten(-count, -1).max(-1)
    flat, below = torch.zeros_like(places), 1
    for axis in range(count - 1, -1, -1):
        inside = torch.div(places, below, rounding_mode="floor") % tables[axis].shape[1]
        below *= tables[axis].shape[1]
        shape = [sizes[axis] if other == axis else 1 for other in range(count)]
        first, last = (tables[axis][:, place].reshape(shape) for place in (0, -1))
        flat = flat + torch.minimum(first + inside, last) * math.prod(x.shape[x.dim() - count + axis + 1 :])
    return values, flat


def _chosen_back(count: int) -> Callable[..., torch.Tensor]:
    """Of pools that say which pixels they took, by numbers over all axes of a picture."""

    def computed(gradient: torch.Tensor, x: torch.Tensor, *arguments: Any) -> torch.Tensor:
        flat, places = torch.zeros_like(x).flatten(-count, -1), arguments[-1].flatten(-count, -1)
        return flat.scatter_add(-1, places, gradient.flatten(-count, -1)).reshape(x.shape)

    return computed


def _shrunk_back(gradient: torch.Tensor, x: torch.Tensor, bound: float) -> torch.Tensor:
    return torch.where((x >= -bound) & (x <= bound), 0, gradient)


RESAMPLED: dict[Any, Callable[..., Any]] = {
    **{
        getattr(_aten, f"{name}{axes}d_backward").default: _upsampled_back(
            getattr(_aten, f"{name}1d").default, 1, False
        )
        for name, own in (
            ("upsample_nearest", _aten.upsample_nearest1d.default),
            ("_upsample_nearest_exact", _aten._upsample_nearest_exact1d.default),
        )
        for axes in (1, 2, 3)
    },
    **{
        getattr(_aten, f"upsample_{name}_backward").default: _upsampled_back(_aten.upsample_linear1d.default, 1, True)
        for name in ("linear1d", "bilinear2d", "trilinear3d")
    },
    **{
        getattr(_aten, f"{name}_backward").default: _upsampled_back(getattr(_aten, name).default, 2, True)
        for name in ("upsample_bicubic2d", "_upsample_bilinear2d_aa")
    },
    **{getattr(_aten, f"replication_pad{axes}d_backward").default: _replicated_back for axes in (1, 2, 3)},
    _aten._adaptive_avg_pool3d.default: _adaptive_means,
    _aten._adaptive_avg_pool2d_backward.default: _adaptive_means_back(2),
    _aten._adaptive_avg_pool3d_backward.default: _adaptive_means_back(3),
    _aten.avg_pool3d.default: _mean_pool,
    _aten.avg_pool2d_backward.default: _mean_pool_back(2),
    _aten.avg_pool3d_backward.default: _mean_pool_back(3),
    _aten.adaptive_max_pool2d.default: _largest_of_parts,
    _aten.adaptive_max_pool3d.default: _largest_of_parts,
    _aten.adaptive_max_pool2d_backward.default: _chosen_back(2),
    _aten.fractional_max_pool2d_backward.default: _chosen_back(2),
    _aten.adaptive_max_pool3d_backward.default: _chosen_back(3),
    _aten.max_pool3d_with_indices_backward.default: _chosen_back(3),
    _aten.fractional_max_pool3d_backward.default: _chosen_back(3),
    _aten.softshrink_backward.default: _shrunk_back,
    _aten.hardshrink_backward.default: _shrunk_back,
}
"""By operator."""
