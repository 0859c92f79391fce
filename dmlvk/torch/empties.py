"""Operators of which an operand has no elements, though the result has: the device has no tensors of that size."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

_aten = torch.ops.aten


def has_none(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and any(isinstance(size, int) and not size for size in x.shape)


def _behind_one_another(parts: Sequence[torch.Tensor], dim: int = 0) -> Any:
    held = [one for one in parts if not has_none(one)]
    if len(held) == len(parts) or not held:
        return NotImplemented

    def beside(one: torch.Tensor) -> list[int]:
        return [size for axis, size in enumerate(one.shape) if axis != dim % max(one.dim(), 1)]

    # PyTorch passes over those of one dimension only; others must fit.
    if any(one.shape != (0,) and (one.dim(), beside(one)) != (held[0].dim(), beside(held[0])) for one in parts):
        return NotImplemented
    wanted = functools.reduce(torch.promote_types, [one.dtype for one in parts])
    return torch.cat(held, dim).to(wanted) if len(held) > 1 else held[0].to(wanted, copy=True)


def _unchanged(place: int) -> Callable[..., Any]:
    """Of operators that write where indices, the argument of that number, say so: a copy where there are none."""

    def written(x: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        indices = arguments[place - 1] if len(arguments) >= place else None
        is_nothing = has_none(indices) or (isinstance(indices, list | tuple) and any(map(has_none, indices)))
        return x.clone() if is_nothing and not has_none(x) else NotImplemented

    return written


def _product(a: torch.Tensor, b: torch.Tensor) -> Any:
    fits = a.dtype is b.dtype and a.dim() == b.dim() and (*a.shape[:-2], a.shape[-1]) == (*b.shape[:-2], b.shape[-2])
    return a.new_zeros((*a.shape[:-1], b.shape[-1])) if fits and has_none(a) and has_none(b) else NotImplemented


def _added(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    made = _product(a, b)
    if made is NotImplemented or has_none(x) or beta == 0:
        return made
    return (x * beta).expand(made.shape).clone()


def _none_of(x: torch.Tensor, dim: Sequence[int] | None = None, keepdim: bool = False) -> Any:
    axes = {axis % x.dim() for axis in (range(x.dim()) if dim is None else dim)}
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdim or axis not in axes]
    return x.new_zeros(sizes, dtype=torch.bool) if has_none(x) and 0 not in sizes else NotImplemented


EMPTIES: dict[Any, Callable[..., Any]] = {
    _aten.cat.default: _behind_one_another, _aten.index_put.default: _unchanged(1), _aten.scatter.src: _unchanged(2),
    _aten.scatter.value: _unchanged(2), _aten.scatter_add.default: _unchanged(2),
    _aten.scatter_reduce.two: _unchanged(2), _aten.mm.default: _product, _aten.bmm.default: _product,
    _aten.addmm.default: _added, _aten.any.dims: _none_of,
}  # fmt: skip
"""By operator; all of them are lowered. Where no operand is empty they give ``NotImplemented``."""
