"""What is found by order: places in sorted rows, the most frequent elements, elements that meet at places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dmlvk.torch.activations import in_float32

_aten = torch.ops.aten


def _searchsorted(
    rows: torch.Tensor,
    x: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """By halves, all elements at a time."""
    rows = rows if sorter is None else rows.gather(-1, sorter)
    count, is_right = rows.shape[-1], right or side == "right"
    low = torch.zeros(x.shape, dtype=torch.int64, device=x.device)
    high = low + count
    if rows.dim() == 1 or not x.dim():
        flat = x.flatten()
        low, high = low.flatten(), high.flatten()
        rows = rows.flatten()
    else:
        flat = x
    for _ in range(count.bit_length() if x.numel() and count else 0):
        middle = torch.div(low + high, 2, rounding_mode="floor")
        value = rows.gather(-1, middle.clamp(max=count - 1))
        is_behind = ~(value > flat if is_right else value >= flat) & (low < high)
        low, high = torch.where(is_behind, middle + 1, low), torch.where(is_behind, high, middle)
    return low.reshape(x.shape).to(torch.int32 if out_int32 else torch.int64)


def _searchsorted_number(rows: torch.Tensor, x: float, **named: Any) -> torch.Tensor:
    return _searchsorted(rows, torch.full((), x, dtype=rows.dtype, device=rows.device), **named)


def _bucketize(
    x: torch.Tensor, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False
) -> torch.Tensor:
    return _searchsorted(boundaries, x, out_int32=out_int32, right=right)


def _mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The least of the most frequent elements, and where its last one lies."""
    if not x.dim() or x.shape[dim] == 1:
        one = x if keepdim or not x.dim() else x.squeeze(dim)
        return one.clone(), torch.zeros_like(one, dtype=torch.int64)
    values, places = torch.sort(x.movedim(dim, -1), dim=-1, stable=True)
    count = values.shape[-1]
    number = torch.arange(count, device=x.device).expand(values.shape)
    is_new = torch.cat([torch.ones_like(values[..., :1], dtype=torch.bool), values[..., 1:] != values[..., :-1]], -1)
    first = torch.where(is_new, number, 0).cummax(-1).values
    best = (number - first).argmax(-1, keepdim=True)
    made, at = values.gather(-1, best), places.gather(-1, best)
    if not keepdim:
        return made[..., 0].clone(), at[..., 0].clone()
    return made.movedim(-1, dim).clone(), at.movedim(-1, dim).clone()


def _index_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    if not x.dim():
        return _index_reduce(x[None], 0, index.reshape(1), source.reshape(1), reduce, include_self=include_self)[0]
    shape = [index.numel() if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    places = index.reshape(shape).expand(source.shape)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


def _scattered(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor | float, *, reduce: str
) -> torch.Tensor:
    parts = source if isinstance(source, torch.Tensor) else torch.full_like(index, source, dtype=x.dtype)
    return x.scatter_reduce(dim, index, parts, {"add": "sum", "multiply": "prod"}.get(reduce, reduce))


def _put(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    made = _aten.index_put(x.flatten(), [index.flatten()], source.flatten(), accumulate)
    return made.reshape(x.shape)


def _segmented(
    data: torch.Tensor, axis: int, lengths: torch.Tensor | None, offsets: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """In which segment each row lies (those in none behind the last one), and how many each has; ``None``: of no rows.

    Counts have the type of the rows, and as many axes.
    """
    known = lengths if offsets is None else offsets
    if axis != 0 or known is None or known.dim() != 1 or (lengths is not None and offsets is not None):
        return None
    bounds = torch.cat([torch.zeros_like(known[:1]), known.cumsum(0)]) if offsets is None else known
    number = torch.arange(data.shape[0], device=data.device).to(bounds.dtype)
    counts = bounds[1:] - bounds[:-1]
    place = (number[:, None] >= bounds[None]).sum(1) - 1
    place = torch.where(place < 0, counts.shape[0], place)
    return place, counts.reshape(-1, *[1] * (data.dim() - 1)).to(data.dtype)


def _segments(
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    known = None if indices is not None else _segmented(data, axis, lengths, offsets)
    if known is None:
        return NotImplemented
    place, counts = known
    start = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -torch.inf, "min": torch.inf}[reduce]
    base = data.new_full((counts.shape[0] + 1, *data.shape[1:]), start if initial is None else initial)
    if reduce in ("sum", "mean"):
        made = base.index_add(0, place, data)
    else:
        made = _index_reduce(base, 0, place, data, {"max": "amax", "min": "amin"}.get(reduce, reduce))
    made = made[: counts.shape[0]]
    if reduce == "mean":
        made = torch.where(counts == 0, torch.nan if initial is None else initial, made / counts)
    return made


def _segments_back(
    gradient: torch.Tensor,
    made: torch.Tensor,
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Any:
    known = _segmented(data, axis, lengths, offsets)
    if known is None or not made.numel():
        return NotImplemented
    place, counts = known
    own = place.clamp(max=counts.shape[0] - 1)
    is_in = (place < counts.shape[0]).reshape(-1, *[1] * (data.dim() - 1))

    def of_segments(x: torch.Tensor) -> torch.Tensor:
        """What each row gets of sums of rows."""
        return torch.zeros_like(made).index_add(0, own, torch.where(is_in, x, 0))[own]

    given = gradient[own]
    if reduce == "mean":
        given = given / counts[own]
    elif reduce in ("max", "min"):
        is_chosen = torch.isnan(data) | (data == made[own])
        equals = of_segments(is_chosen.to(data.dtype))
        given = torch.where(is_chosen, torch.where(given > 0, given / equals.clamp(min=1), given), 0)  # as PyTorch's
    elif reduce == "prod":
        is_odd, is_nan = (data == 0) | torch.isnan(data), torch.isnan(data)
        odd, nans = (of_segments(each.to(data.dtype)) - each.to(data.dtype) for each in (is_odd, is_nan))
        base = torch.full_like(made, 1.0 if initial is None else initial)
        others = _index_reduce(base, 0, own, torch.where(is_in & ~is_odd, data, 1), "prod")[own]
        others = torch.where(odd == 0, others, torch.where(nans > 0, torch.nan, 0.0))
        given = given * torch.where(is_odd, others, made[own] / torch.where(is_odd, 1, data))
    return torch.where(is_in, given, 0)


@in_float32
def _addbmm(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
    made = torch.bmm(a, b).sum(0) * alpha
    return made if beta == 0 else made + x * beta


ORDERING: dict[Any, Callable[..., Any]] = {
    _aten.searchsorted.Tensor: _searchsorted,
    _aten.searchsorted.Scalar: _searchsorted_number,
    _aten.bucketize.Tensor: _bucketize,
    _aten.mode.default: _mode,
    _aten.index_reduce.default: _index_reduce,
    _aten.scatter.reduce: _scattered,
    _aten.scatter.value_reduce: _scattered,
    _aten.put.default: _put,
    _aten.segment_reduce.default: _segments,
    _aten._segment_reduce_backward.default: _segments_back,
    _aten.addbmm.default: _addbmm,
}
"""By operator."""
