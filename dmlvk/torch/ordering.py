"""What is found by order: places in sorted rows, the most frequent elements, elements that meet at places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
    if indices is not None or axis != 0 or (lengths is None) == (offsets is None):
        return NotImplemented
    known = lengths if lengths is not None else offsets
    assert known is not None
    if known.dim() != 1:
        return NotImplemented
    ends = known.cumsum(0) if lengths is not None else known[1:]
    number = torch.arange(data.shape[0], device=data.device).to(ends.dtype)
    place = (number[:, None] >= ends[None]).sum(1)
    start = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -torch.inf, "min": torch.inf}[reduce]
    base = data.new_full((ends.shape[0] + 1, *data.shape[1:]), start if initial is None else initial)
    how = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    made = _index_reduce(base, 0, place, data, "sum" if how == "mean" else how) if how != "sum" else None
    if reduce in ("sum", "mean"):
        made = base.index_add(0, place, data)
    assert made is not None
    made = made[: ends.shape[0]]
    if reduce == "mean":
        counts = known if lengths is not None else known[1:] - known[:-1]
        shares = counts.reshape(-1, *[1] * (data.dim() - 1)).to(data.dtype)
        made = torch.where(shares == 0, torch.nan if initial is None else initial, made / shares)
    return made


def _addbmm(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
    made = torch.bmm(a, b).sum(0) * alpha
    return made.to(x.dtype) if beta == 0 else (made + x * beta).to(x.dtype)


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
    _aten.addbmm.default: _addbmm,
}
"""By operator."""
