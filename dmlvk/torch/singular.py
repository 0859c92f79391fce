"""What follows from singular values: pseudoinverses, ranks, least squares, polar factors, roots of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

_aten = torch.ops.aten

Bound: TypeAlias = "float | torch.Tensor | None"


def _bounds(x: torch.Tensor, atol: Bound, rtol: Bound) -> tuple[torch.Tensor, torch.Tensor]:
    """Absolute and relative bounds in the matrices' type: PyTorch's own have FLOAT64."""

    def taken(bound: float | torch.Tensor) -> torch.Tensor:
        return bound.to(x.dtype) if isinstance(bound, torch.Tensor) else x.new_full((), bound)

    least = taken(0.0 if atol is None else atol)
    if rtol is not None:
        return least, taken(rtol)
    return least, torch.where(least > 0, 0, torch.finfo(x.dtype).eps * max(x.shape[-2:]))


def _smallest(values: torch.Tensor, bounds: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """What a value must exceed to be none that is 0 but for rounding."""
    absolute, relative = (each[..., None] for each in bounds)
    return torch.maximum(absolute, relative * values.amax(-1, keepdim=True))


def _pinv(
    x: torch.Tensor, *, atol: torch.Tensor | None = None, rtol: torch.Tensor | None = None, hermitian: bool = False
) -> torch.Tensor:
    if not x.numel():
        return x.new_zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]))
    if hermitian:
        values, left = torch.linalg.eigh(x)
        right, sizes = left.mT, values.abs()
    else:
        left, values, right = torch.linalg.svd(x, full_matrices=False)
        sizes = values
    inverses = torch.where(sizes > _smallest(sizes, _bounds(x, atol, rtol)), values.reciprocal(), 0)
    return (right.mT * inverses[..., None, :]) @ left.mT


def _pinv_by_numbers(
    x: torch.Tensor, *, atol: Bound = None, rtol: Bound = None, hermitian: bool = False
) -> torch.Tensor:
    bounds = _bounds(x, atol, rtol)
    made: torch.Tensor = _aten.linalg_pinv.atol_rtol_tensor(x, atol=bounds[0], rtol=bounds[1], hermitian=hermitian)
    return made


def _pinv_by_ratio(x: torch.Tensor, rcond: Bound, hermitian: bool = False) -> torch.Tensor:
    return _pinv_by_numbers(x, atol=0.0, rtol=rcond, hermitian=hermitian)


def _rank(x: torch.Tensor, *, atol: Bound = None, rtol: Bound = None, hermitian: bool = False) -> torch.Tensor:
    if x.dim() < 2:
        raise RuntimeError(f"linalg.matrix_rank: The input tensor must have at least 2 dimensions; got {x.dim()}")
    if not x.numel():
        return torch.zeros(x.shape[:-2], dtype=torch.int64, device=x.device)
    values = torch.linalg.eigvalsh(x).abs() if hermitian else torch.linalg.svdvals(x)
    return (values > _smallest(values, _bounds(x, atol, rtol))).sum(-1)


def _rank_by_size(x: torch.Tensor, tol: Bound, hermitian: bool = False) -> torch.Tensor:
    return _rank(x, atol=tol, rtol=0.0, hermitian=hermitian)


def _least_squares(
    x: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, ...]:
    """Those of least size among the solutions, by singular values, whichever method of LAPACK's is named."""
    methods = ("gels", "gelsy", "gelsd", "gelss")
    method = "gelsy" if driver is None else driver
    if method not in methods:
        raise RuntimeError(f"torch.linalg.lstsq: parameter `driver` should be one of {methods}; got {driver!r}")
    is_vector = x.dim() == b.dim() + 1 and x.shape[:-1] == b.shape
    if x.dim() < 2 or (not is_vector and (b.dim() != x.dim() or x.shape[-2] != b.shape[-2])):
        raise RuntimeError(f"torch.linalg.lstsq: systems of {list(x.shape)} have no such results: {list(b.shape)}")
    b = b[..., None] if is_vector else b
    rows, columns = x.shape[-2:]
    none = x.new_zeros(0)
    if not x.numel() or not b.numel():
        made, ranks, values = x.new_zeros((*x.shape[:-2], columns, b.shape[-1])), none.to(torch.int64), none
    else:
        left, values, right = torch.linalg.svd(x, full_matrices=False)
        bounds = _bounds(x, 0.0, None if method == "gels" or rcond is None or rcond < 0 else rcond)
        is_kept = values > _smallest(values, bounds)
        shares = torch.where(is_kept, values.reciprocal(), 0)[..., None] * (left.mT @ b)
        made, ranks = right.mT @ shares, is_kept.sum(-1)
    squares = none
    # LAPACK gives no residuals for gelsy, nor where ranks are less than they may be.
    if rows > columns and made.numel() and method != "gelsy" and (method == "gels" or bool((ranks == columns).all())):
        squares = (b - x @ made).square().sum(-2)
    return (
        made[..., 0] if is_vector else made,
        squares,
        none.to(torch.int64) if method == "gels" else ranks,
        values if method in ("gelsd", "gelss") else none,
    )


def _polar(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    return left @ right, (right.mT * values[..., None, :]) @ right


def _square_root(x: torch.Tensor) -> torch.Tensor:
    values, vectors = torch.linalg.eigh(x)
    return (vectors * values.sqrt()[..., None, :]) @ vectors.mT


SINGULAR: dict[Any, Callable[..., Any]] = {
    _aten.linalg_pinv.atol_rtol_tensor: _pinv,
    _aten.linalg_lstsq.default: _least_squares,
    **{
        getattr(_aten, name).default: function
        for name, function in {"linalg_polar": _polar, "linalg_matrix_sqrth": _square_root}.items()
        if hasattr(_aten, name)  # PyTorch has them since 2.14
    },
}
"""By operator."""

SINGULAR_OWN: dict[str, Callable[..., Any]] = {
    "linalg_pinv": _pinv_by_ratio,
    "linalg_pinv.rcond_tensor": _pinv_by_ratio,
    "linalg_pinv.atol_rtol_float": _pinv_by_numbers,
    "linalg_matrix_rank": _rank_by_size,
    "linalg_matrix_rank.tol_tensor": _rank_by_size,
    "linalg_matrix_rank.atol_rtol_tensor": _rank,
    "linalg_matrix_rank.atol_rtol_float": _rank,
}
"""What PyTorch composes with FLOAT64, by the operators' names."""
