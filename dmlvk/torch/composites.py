"""Operators of tensors on the device that are several others, because how many elements there are depends on the data.

They read numbers from the device on the way, so nothing of them is in a graph of ``torch.compile``.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from dmlvk.torch.linear_algebra import LINEAR
from dmlvk.torch.singular import SINGULAR, SINGULAR_OWN

_aten = torch.ops.aten


def _places(mask: torch.Tensor) -> torch.Tensor:
    """Numbers of the elements that are not 0, in row-major order."""
    chosen = (mask != 0).flatten()
    if not chosen.numel():
        return torch.zeros(0, dtype=torch.int64, device=mask.device)
    before = chosen.to(torch.int64).cumsum(0)
    count = int(before[-1].item())
    numbers = torch.arange(chosen.numel(), device=mask.device)
    held = torch.zeros(count + 1, dtype=torch.int64, device=mask.device)
    return held.scatter(0, torch.where(chosen, before - 1, count), numbers)[:count]


def _nonzero(x: torch.Tensor) -> torch.Tensor:
    places, columns = _places(x), []
    for size in reversed(x.shape):
        columns.append(places % size)
        places = torch.div(places, size, rounding_mode="floor")
    return torch.stack(columns[::-1], 1) if columns else places.new_zeros(places.shape[0], 0)


def _nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> torch.Tensor:
    found = _nonzero(x)[:size]
    rest = found.new_full((size - found.shape[0], x.dim()), fill_value)
    return torch.cat([found, rest])


def _masked_select(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    x, mask = torch.broadcast_tensors(x, mask)
    return x.flatten()[_places(mask)]


def _without_masks(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None] | None:
    """Indices with numbers in the place of masks; ``None``: there are no masks.

    Raises:
        IndexError: a mask has another shape than what it chooses from.
    """
    if not any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in indices):
        return None
    made: list[torch.Tensor | None] = []
    for each in indices:
        if each is None or each.dtype not in (torch.bool, torch.uint8):
            made.append(each)
            continue
        axis, own = len(made), tuple(x.shape[len(made) : len(made) + each.dim()])
        if own != each.shape:
            raise IndexError(
                f"The shape of the mask {list(each.shape)} at index {axis} does not match the shape of the indexed "
                f"tensor {list(x.shape)} there"
            )
        made += _nonzero(each).unbind(1)
    return made


def _index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Any:
    numbers = _without_masks(x, indices)
    return NotImplemented if numbers is None else _aten.index(x, numbers)


def _index_put(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Any:
    numbers = None if values.numel() == 1 and len(indices) == 1 and not accumulate else _without_masks(x, indices)
    return NotImplemented if numbers is None else _aten.index_put(x, numbers, values, accumulate)


def _unique_consecutive(
    x: torch.Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[torch.Tensor, ...]:
    """Also of slices along an axis."""
    rows = x.reshape(-1, 1) if dim is None else x.movedim(dim, 0).reshape(x.shape[dim], -1)
    count = rows.shape[0]
    is_new = torch.ones(count, dtype=torch.bool, device=x.device)
    if count > 1:
        is_new = torch.cat([is_new[:1], (rows[1:] != rows[:-1]).any(1)])
    places, none = _places(is_new), torch.zeros(0, dtype=torch.int64, device=x.device)
    values = x.flatten()[places] if dim is None else x.index_select(dim, places)
    inverse = (is_new.to(torch.int64).cumsum(0) - 1) if return_inverse else none
    ends = torch.cat([places[1:], torch.full_like(places[:1], count)])
    return (
        values,
        inverse.reshape(x.shape) if return_inverse and dim is None else inverse,
        ends - places if return_counts else none,
    )


def _unique_dim(
    x: torch.Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[torch.Tensor, ...]:
    """Rows are brought into order from the last column to the first, by stable sorts."""
    if 0 in x.shape:
        if x.shape[dim] or x.shape.count(0) > 1:
            raise RuntimeError(f"unique: dim {dim} of {list(x.shape)} has rows without elements")
        none = torch.zeros(0, dtype=torch.int64, device=x.device)
        return x.clone(), none, none.clone()
    rows = x.movedim(dim, 0).reshape(x.shape[dim], -1)
    order = torch.arange(rows.shape[0], device=x.device)
    for column in range(rows.shape[1] - 1, -1, -1):
        order = order[rows[order, column].sort(stable=True).indices]
    values, inverse, counts = _unique_consecutive(x.index_select(dim, order), return_inverse, return_counts, dim)
    return values, torch.zeros_like(inverse).scatter(0, order, inverse) if return_inverse else inverse, counts


def _unique(
    x: torch.Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[torch.Tensor, ...]:
    if not x.dim():
        values, inverse, counts = _unique(x[None], sorted, return_inverse, return_counts)
        return values, inverse.reshape(x.shape) if return_inverse else inverse, counts
    values, inverse, counts = _unique_dim(x.flatten(), 0, sorted, return_inverse, return_counts)
    return values, inverse.reshape(x.shape) if return_inverse else inverse, counts


def _unique_dim_consecutive(
    x: torch.Tensor, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> tuple[torch.Tensor, ...]:
    return _unique_consecutive(x, return_inverse, return_counts, dim)


def _counted(x: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> torch.Tensor:
    if x.dim() != 1 or minlength < 0 or (weights is not None and weights.shape != x.shape):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs, and weights of their length")
    dtype = torch.int64  # PyTorch's for other weights than FLOAT32 is FLOAT64, which the device refuses
    if weights is not None:
        dtype = torch.float32 if weights.dtype is torch.float32 else torch.float64
    if not x.numel():
        return torch.zeros(minlength, dtype=torch.int64, device=x.device)
    least, most = (int(one.item()) for one in torch.aminmax(x))
    if least < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    own = torch.ones_like(x, dtype=dtype) if weights is None else weights.to(dtype)
    return torch.zeros(max(most + 1, minlength), dtype=dtype, device=x.device).index_add(0, x.to(torch.int64), own)


def repeated(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    if repeats.dim() != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if not repeats.numel():
        return torch.zeros(0, dtype=repeats.dtype, device=repeats.device)
    ends = repeats.to(torch.int64).cumsum(0)
    if bool((repeats < 0).any()):
        raise RuntimeError("repeats can not be negative")
    count = int(ends[-1].item()) if output_size is None else output_size
    return torch.searchsorted(ends, torch.arange(count, device=repeats.device), right=True).to(repeats.dtype)


_STEPS = 8


def _gcd(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """By Euclid, some steps before one number is read that says whether there are others."""
    dtype = torch.result_type(x, other)
    x, other = torch.broadcast_tensors(x.to(dtype).abs(), other.to(dtype).abs())
    while x.numel() and bool((other != 0).any()):
        for _ in range(_STEPS):
            rest = torch.remainder(x, torch.where(other == 0, 1, other))
            x, other = torch.where(other == 0, x, other), torch.where(other == 0, 0, rest)
    return x.clone()


def _lcm(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    shared = torch.gcd(x, other)
    return (torch.div(x, torch.where(shared == 0, 1, shared), rounding_mode="trunc") * other).abs()


_Step = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def _polynomials(second: Callable[[torch.Tensor], torch.Tensor], step: _Step, is_shifted: bool = False) -> Any:
    """Orthogonal polynomials by their three-term recurrences (Abramowitz, Stegun, 22.7), up to the largest degree."""

    def computed(x: Any, n: Any) -> torch.Tensor:
        device = x.device if isinstance(x, torch.Tensor) else n.device
        x, n = (torch.as_tensor(each, device=device) for each in (x, n))
        wanted = torch.result_type(x, n)
        x, n = torch.broadcast_tensors(x.to(wanted if wanted.is_floating_point else torch.float32), n.trunc())
        x = 2 * x - 1 if is_shifted else x
        before, last = torch.ones_like(x), second(x)
        made = torch.where(n == 0, before, torch.where(n == 1, last, 0))
        known = torch.where(n.abs() < 2**31, n, -1)  # neither NaN nor infinite
        for k in range(2, int(known.amax().item()) + 1 if n.numel() else 0):
            before, last = last, step(k, x, last, before)
            made = torch.where(n == k, last, made)
        return made

    return computed


def _chebyshev(k: int, x: torch.Tensor, last: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    return 2 * x * last - before


_SECOND: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "t": lambda x: x.clone(),
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}

_POLYNOMIALS: dict[str, Any] = {
    "hermite_polynomial_h": _polynomials(lambda x: 2 * x, lambda k, x, p, q: 2 * (x * p - (k - 1) * q)),
    "hermite_polynomial_he": _polynomials(lambda x: x.clone(), lambda k, x, p, q: x * p - (k - 1) * q),
    "laguerre_polynomial_l": _polynomials(lambda x: 1 - x, lambda k, x, p, q: ((2 * k - 1 - x) * p - (k - 1) * q) / k),
    "legendre_polynomial_p": _polynomials(
        lambda x: x.clone(), lambda k, x, p, q: ((2 * k - 1) * x * p - (k - 1) * q) / k
    ),
    **{f"chebyshev_polynomial_{kind}": _polynomials(second, _chebyshev) for kind, second in _SECOND.items()},
    **{
        f"shifted_chebyshev_polynomial_{kind}": _polynomials(second, _chebyshev, True)
        for kind, second in _SECOND.items()
    },
}


def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    values = x.flatten()
    low, high = float(min), float(max)
    if low == high and values.numel():
        low, high = float(values.min().item()), float(values.max().item())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    if low == high:
        low, high = low - 1, high + 1
    place = torch.floor((values - low) * (bins / (high - low))).clamp(0, bins - 1).to(torch.int64)
    counted = ((values >= low) & (values <= high)).to(x.dtype)
    return torch.zeros(bins, dtype=x.dtype, device=x.device).scatter_add(0, place, counted)


def _between(rows: torch.Tensor, rank: Any, interpolation: str) -> torch.Tensor:
    """What lies at a rank, a number or one of each row, of rows that are in order."""
    if isinstance(rank, float):
        low, high = rows[..., math.floor(rank)], rows[..., math.ceil(rank)]
        share: Any = rank - math.floor(rank)
        nearest = rows[..., round(rank)]
    else:
        places = rank.floor().to(torch.int64)
        low, high = (rows.gather(-1, one)[..., 0] for one in (places, rank.ceil().to(torch.int64)))
        share = (rank - places.to(rank.dtype))[..., 0]
        nearest = rows.gather(-1, rank.round().to(torch.int64))[..., 0]
    if interpolation == "linear":
        return low + (high - low) * share
    return {"lower": low, "higher": high, "nearest": nearest, "midpoint": (low + high) * 0.5}[interpolation]


def _quantile(
    x: torch.Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> torch.Tensor:
    return _quantiles(x, q, dim, keepdim, interpolation, False)


def _nanquantile(
    x: torch.Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> torch.Tensor:
    return _quantiles(x, q, dim, keepdim, interpolation, True)


def _quantiles(
    x: torch.Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, without_nan: bool
) -> torch.Tensor:
    """PyTorch's own takes FLOAT64 on the way."""
    shares = q.tolist() if isinstance(q, torch.Tensor) else q
    if forward_ad._current_level < 0:  # in which PyTorch's own fails without elements
        with contextlib.suppress(NotImplementedError):  # PyTorch refuses what it does not like
            shape = _shaped(q) if isinstance(q, torch.Tensor) else q
            torch.quantile(_shaped(x), shape, dim, interpolation=interpolation)
    dim = dim if x.dim() else None
    rows = (x.flatten() if dim is None else x.movedim(dim, -1)).sort(-1).values
    is_nan = torch.isnan(rows)
    last = (~is_nan).sum(-1, keepdim=True).to(rows.dtype) - 1 if without_nan else None
    found = []
    for share in shares if isinstance(shares, list) else [shares]:
        if last is None:
            own = float(torch.tensor(share, dtype=rows.dtype, device="cpu"))  # of the type, as PyTorch has it
            made = _between(rows, own * (rows.shape[-1] - 1), interpolation)  # PyTorch rounds it until 2.13
            made = torch.where(is_nan.any(-1), math.nan, made)
        else:
            made = _between(rows, (last * share).clamp(min=0), interpolation)
        if keepdim:
            made = made.reshape([1] * x.dim()) if dim is None else made.unsqueeze(dim)
        found.append(made)
    return torch.stack(found) if isinstance(shares, list) else found[0]


def _shaped(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device="meta")


def _split(x: torch.Tensor, places: torch.Tensor, dim: int = 0) -> Any:
    return torch.tensor_split(x, places.tolist(), dim)


OWN: dict[str, Callable[..., Any]] = {
    "quantile": _quantile,
    "quantile.scalar": _quantile,
    "nanquantile": _nanquantile,
    "nanquantile.scalar": _nanquantile,
    "tensor_split.tensor_indices_or_sections": _split,
    **SINGULAR_OWN,
}
"""What PyTorch composes by what the device lacks, composed otherwise; autograd sees what they call."""

COMPOSITES: dict[Any, Callable[..., Any]] = {
    **LINEAR,
    **SINGULAR,
    **{getattr(_aten, f"special_{name}").default: function for name, function in _POLYNOMIALS.items()},
    **{getattr(_aten, f"special_{name}").n_scalar: function for name, function in _POLYNOMIALS.items()},
    **{getattr(_aten, f"special_{name}").x_scalar: function for name, function in _POLYNOMIALS.items()},
    _aten.nonzero.default: _nonzero,
    _aten.nonzero_static.default: _nonzero_static,
    _aten.masked_select.default: _masked_select,
    _aten.index.Tensor: _index,
    _aten.index_put.default: _index_put,
    _aten._index_put_impl.default: _index_put,
    _aten.unique_consecutive.default: _unique_consecutive,
    _aten.unique_dim.default: _unique_dim,
    _aten.unique_dim_consecutive.default: _unique_dim_consecutive,
    _aten._unique2.default: _unique,
    _aten.bincount.default: _counted,
    _aten.gcd.default: _gcd,
    _aten.lcm.default: _lcm,
    _aten.histc.default: _histc,
}
"""By operator. One may give ``NotImplemented``: then the table has it."""
