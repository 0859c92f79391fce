"""Functions that PyTorch does not take apart, by formulas of our own from the literature."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from dmlvk.torch.activations import in_float32
from dmlvk.torch.bessel import BESSEL, polynomial
from dmlvk.torch.ordering import ORDERING

_aten = torch.ops.aten


_ERFC = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398),
    *(1.48851587, -0.82215223, 0.17087277),
)
"""Press, Teukolsky, Vetterling, Flannery: Numerical Recipes, 6.2: within 1.2e-7 of the result."""


@in_float32
def _erfc(x: torch.Tensor) -> torch.Tensor:
    size = x.abs()
    t = 1 / (1 + 0.5 * size)
    tail = t * torch.exp(polynomial(t, *_ERFC) - size * size)
    far = torch.where(x >= 0, tail, 2 - tail)
    return torch.where(size < 0.5, 1 - torch.erf(x), far)


_NEAR = (
    *(1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06),
    *(-3.5233877e-06, 3.43273939e-07, 2.81022636e-08),
)
_FAR = (
    *(2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844),
    *(0.00134934322, 0.000100950558, -0.000200214257),
)
"""Giles: Approximating the erfinv function, 2010, table 5."""


@in_float32
def _erfinv(x: torch.Tensor) -> torch.Tensor:
    w = -torch.log((1 - x) * (1 + x))
    near = polynomial(w - 2.5, *_NEAR)
    far = polynomial(torch.sqrt(w.clamp(min=5)) - 3, *_FAR)
    made = x * torch.where(w < 5, near, far)
    return torch.where(x.abs() == 1, x * math.inf, made)


_LANCZOS = 76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 1.208650973866179e-3
"""Lanczos, 1964, as in Numerical Recipes, 6.1."""


def _log_gamma_above(x: torch.Tensor) -> torch.Tensor:
    """Of at least 1/2."""
    shifted = x + 5.5
    series = torch.full_like(x, 1.000000000190015)
    for place, each in enumerate(_LANCZOS):
        series = series + each / (x + (place + 1))
    return (x + 0.5) * torch.log(shifted) - shifted + torch.log(2.5066282746310005 * series / x)


@in_float32
def _lgamma(x: torch.Tensor) -> torch.Tensor:
    is_low = x < 0.5
    above = _log_gamma_above(torch.where(is_low, 1 - x, x))
    reflected = math.log(math.pi) - torch.log(torch.sin(math.pi * (x - torch.round(x))).abs()) - above
    made = torch.where(is_low, reflected, above)
    return torch.where(x.abs() == math.inf, math.inf, made)


def _as_results(operator: Callable[[torch.Tensor, Any], torch.Tensor]) -> Callable[[torch.Tensor, Any], torch.Tensor]:
    """For operators whose integers become floats."""

    def converted(x: torch.Tensor, *others: Any) -> torch.Tensor:
        return operator(x if x.is_floating_point() else x.to(torch.get_default_dtype()), *others)

    return converted


def _is_negative(x: torch.Tensor) -> torch.Tensor:
    """Whether the sign is set; of NaN it is not."""
    return (x < 0) | ((x == 0) & (1 / x < 0))


def _copysign(x: torch.Tensor, sign: Any) -> torch.Tensor:
    wanted = torch.result_type(x, sign)
    wanted = wanted if wanted.is_floating_point else torch.get_default_dtype()
    size = x.to(wanted).abs()
    if not isinstance(sign, torch.Tensor):
        return -size if math.copysign(1, sign) < 0 else size.clone()
    is_negative = _is_negative(sign) if sign.is_floating_point() else sign < 0
    return torch.where(is_negative, -size, size)


def _known(choose: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The larger or smaller one; where one is NaN, the other one."""

    def chosen(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        made = choose(a, b)
        if not made.is_floating_point():
            return made
        return torch.where(torch.isnan(a), b.to(made.dtype), torch.where(torch.isnan(b), a.to(made.dtype), made))

    return chosen


def _scanned(x: torch.Tensor, dim: int, join: Callable[..., tuple[torch.Tensor, ...]], *others: torch.Tensor) -> Any:
    """All up to each element joined (Hillis, Steele: Data Parallel Algorithms, 1986)."""
    parts, step, count = (x, *others), 1, x.shape[dim]
    while step < count:
        before = [part.narrow(dim, 0, count - step) for part in parts]
        after = [part.narrow(dim, step, count - step) for part in parts]
        joined = join(*before, *after)
        parts = tuple(torch.cat([part.narrow(dim, 0, step), one], dim) for part, one in zip(parts, joined, strict=True))
        step *= 2
    return parts


def _logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    if not x.dim() or x.is_complex():
        return x.clone()
    wide = x.to(torch.float32)
    return _scanned(wide, dim, lambda a, b: (torch.logaddexp(a, b),))[0].to(x.dtype)


def _extreme(is_better: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """The largest or smallest up to each element, and where it is: the last of equal ones, or the last NaN."""

    def scanned(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not x.dim():
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        shape = [size if axis == dim % x.dim() else 1 for axis, size in enumerate(x.shape)]
        places = torch.arange(x.shape[dim], device=x.device).reshape(shape).expand(x.shape)

        def join(a: torch.Tensor, i: torch.Tensor, b: torch.Tensor, j: torch.Tensor) -> tuple[torch.Tensor, ...]:
            takes = is_better(b, a)
            if x.is_floating_point():
                takes = torch.isnan(b) | (takes & ~torch.isnan(a))
            return torch.where(takes, b, a), torch.where(takes, j, i)

        values, found = _scanned(x, dim, join, places)
        return values, found.contiguous()

    return scanned


def _of_order(x: torch.Tensor, place: int, dim: int, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """An element of each row by its place in order, and where it was; NaN where a row has one."""
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, places = torch.sort(x, dim=dim, stable=True)
    found, at = values.narrow(dim, place, 1), places.narrow(dim, place, 1)
    if not keepdim:
        found, at = found.squeeze(dim), at.squeeze(dim)
    return found.clone(), at.clone()


def _kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _of_order(x, k - 1, dim, keepdim)


def _median_of_rows(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    if not x.dim():
        return _of_order(x, 0, dim, keepdim)
    made, at = _of_order(x, (x.shape[dim] - 1) // 2, dim, keepdim)
    if not x.is_floating_point():
        return made, at
    has_none = torch.isnan(x)
    is_none, first = has_none.any(dim, keepdim), has_none.to(torch.int64).argmax(dim, keepdim)
    return torch.where(is_none, math.nan, made), torch.where(is_none, first, at)


def _median(x: torch.Tensor) -> Any:
    return _median_of_rows(x.flatten(), 0)[0] if x.numel() else NotImplemented


def _nanmedian_of_rows(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    if not x.dim() or not x.is_floating_point():
        return _median_of_rows(x, dim, keepdim)
    values, places = torch.sort(x, dim=dim, stable=True)
    place = ((~torch.isnan(x)).sum(dim, True) - 1).clamp(min=0).div(2, rounding_mode="floor")
    found, at = values.gather(dim, place), places.gather(dim, place)
    return (found, at) if keepdim else (found.squeeze(dim).clone(), at.squeeze(dim).clone())


def _nanmedian(x: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = _nanmedian_of_rows(x.flatten(), 0)[0]
    return made


def _hypot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    dtype = torch.result_type(a, b)
    return _length(a.to(dtype), b.to(dtype))


@in_float32
def _length(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    larger, smaller = torch.maximum(a.abs(), b.abs()), torch.minimum(a.abs(), b.abs())
    share = torch.where(larger == smaller, 1.0, smaller / larger)
    made = torch.where(larger == 0, 0.0, larger * torch.sqrt(1 + share * share))
    return torch.where((a.abs() == math.inf) | (b.abs() == math.inf), math.inf, made)


def _angle(x: torch.Tensor) -> Any:
    if x.is_complex():
        return NotImplemented
    if not x.is_floating_point():
        return torch.where(x < 0, math.pi, 0.0)
    return torch.where(torch.isnan(x), x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))


def _vdot(a: torch.Tensor, b: torch.Tensor) -> Any:
    return NotImplemented if a.is_complex() else torch.dot(a, b)


def _distances_back(
    gradient: torch.Tensor, x: torch.Tensor, other: torch.Tensor, p: float, distances: torch.Tensor
) -> torch.Tensor:
    """Of cdist, for its first operand: of points that lie on one another it is 0, as PyTorch's is."""
    apart = x[..., :, None, :] - other[..., None, :, :]
    size, far = apart.abs(), distances[..., None]
    if p == math.inf:
        shares = apart.sign() * (size == far)
    elif p == 1:
        shares = apart.sign()
    else:
        is_one = (far == 0) | (size == 0)
        shares = apart.sign() * torch.where(is_one, 0, (size / torch.where(is_one, 1, far)) ** (p - 1))
    return (gradient[..., None] * shares).sum(-2) if p else torch.zeros_like(x)


def _signbit(x: torch.Tensor) -> torch.Tensor:
    return _is_negative(x) if x.is_floating_point() else x < 0


def _rounded(x: torch.Tensor, *, decimals: int) -> torch.Tensor:
    if not x.is_floating_point():
        return x.clone()
    factor = 10.0 ** abs(decimals)
    return torch.round(x * factor) / factor if decimals >= 0 else torch.round(x / factor) * factor


def _fraction(x: torch.Tensor) -> Any:
    """A number from 1/2 to 1, and an exponent of 2."""
    if x.dtype in (torch.float16, torch.bfloat16):
        fraction, power = _fraction(x.to(torch.float32))
        return fraction.to(x.dtype), power
    if x.dtype is not torch.float32:
        return NotImplemented
    exponent = torch.floor(torch.log2(x.abs())) + 1
    exponent = torch.where((x == 0) | ~torch.isfinite(x), 0, exponent)
    half = torch.floor(exponent / 2)
    made = x * torch.exp2(-half) * torch.exp2(half - exponent)
    is_large, is_small = made.abs() >= 1, (made.abs() < 0.5) & (x != 0)  # the logarithm was rounded
    exponent = torch.where(torch.isfinite(x), exponent + is_large.to(x.dtype) - is_small.to(x.dtype), exponent)
    made = torch.where(is_large & torch.isfinite(x), made / 2, torch.where(is_small, made * 2, made))
    return made, exponent.to(torch.int32)


def _randomized(
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    return NotImplemented if training else torch.nn.functional.leaky_relu(x, (lower + upper) / 2)


def _logspace(start: float, end: float, steps: int, base: float = 10.0, **named: Any) -> Any:
    """By FLOAT32, where PyTorch's own decomposition takes FLOAT64."""
    dtype = named.pop("dtype", None) or torch.get_default_dtype()
    if dtype is not torch.float32:
        return NotImplemented
    return torch.pow(base, torch.linspace(start, end, steps, dtype=dtype, **named))


def _put_in_place(
    x: torch.Tensor, indices: Any, values: torch.Tensor, accumulate: bool = False, unsafe: bool = False
) -> torch.Tensor:
    made: torch.Tensor = _aten.index_put(x, indices, values, accumulate)
    return made


SPECIAL: dict[Any, Callable[..., Any]] = {
    _aten.erfc.default: _as_results(_erfc),
    _aten.erfinv.default: _as_results(_erfinv),
    _aten.lgamma.default: _as_results(_lgamma),
    _aten.copysign.Tensor: _copysign,
    _aten.copysign.Scalar: _copysign,
    _aten.fmax.default: _known(torch.maximum),
    _aten.fmin.default: _known(torch.minimum),
    _aten._logcumsumexp.default: _logcumsumexp,
    _aten.logcumsumexp.default: _logcumsumexp,
    _aten.cummax.default: _extreme(torch.ge),
    _aten.cummin.default: _extreme(torch.le),
    _aten.kthvalue.default: _kthvalue,
    _aten.median.default: _median,
    _aten.median.dim: _median_of_rows,
    _aten.nanmedian.default: _nanmedian,
    _aten.nanmedian.dim: _nanmedian_of_rows,
    _aten.hypot.default: _hypot,
    _aten.angle.default: _angle,
    _aten.vdot.default: _vdot,
    _aten.logspace.default: _logspace,
    _aten._index_put_impl.default: _put_in_place,
    _aten._cdist_backward.default: _distances_back,
    _aten.signbit.default: _signbit,
    _aten.round.decimals: _rounded,
    _aten.frexp.Tensor: _fraction,
    _aten.rrelu_with_noise.default: _randomized,
    **BESSEL,
    **ORDERING,
}
"""By operator."""
