"""Factorizations of matrices by products and element-wise operators, whose order is the same on every device.

Golub, Van Loan: Matrix Computations, 2013: LU with partial pivots (3.4), Cholesky (4.2), Householder's QR (5.2),
Jacobi's eigenvalues (8.5) and singular values (8.6). A step of each is the same few operators with masks over the whole
matrix, so that steps share plans.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dmlvk.torch.modes import without_gradients

_aten = torch.ops.aten

Tensors = tuple[torch.Tensor, ...]

_SWEEPS = 9
"""Of Jacobi's methods, which converge quadratically: matrices of FLOAT32 need six to eight."""


def _count(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Numbers of the rows (-2) or columns (-1), along that axis."""
    numbers = torch.arange(x.shape[axis], device=x.device)
    return numbers[:, None] if axis == -2 else numbers


def _eye(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    made = torch.eye(rows, columns, dtype=x.dtype, device=x.device)
    return made.expand(*x.shape[:-2], rows, columns)


def _cholesky_ex(x: torch.Tensor, *, upper: bool = False) -> Any:
    rest, row, columns, info = x.mH if upper else x, _count(x, -2), [], None
    for k in range(x.shape[-1]):
        square = rest[..., k : k + 1, k : k + 1]
        column = torch.where(row >= k, rest[..., :, k : k + 1] / torch.sqrt(square), 0)
        rest = rest - column * column.mT
        columns.append(column)
        bad = torch.where(square[..., 0, 0] > 0, 0, k + 1)
        info = bad if info is None else torch.where(info == 0, bad, info)
    made = torch.cat(columns, -1) if columns else x.clone()
    if info is None:
        info = torch.zeros(x.shape[:-2], device=x.device)
    return (made.mT.contiguous() if upper else made.mT.contiguous().mT), info.to(torch.int32)


def _solved(a: torch.Tensor, b: torch.Tensor, *, upper: bool, unit: bool) -> torch.Tensor:
    """Triangular systems, by halves: products do most of the work."""
    n = a.shape[-1]
    if n <= 1:
        return b.clone() if unit or not n else b / a
    half = n // 2
    one, two = a[..., :half, :half], a[..., half:, half:]
    if upper:
        last = _solved(two, b[..., half:, :], upper=True, unit=unit)
        first = _solved(one, b[..., :half, :] - a[..., :half, half:] @ last, upper=True, unit=unit)
    else:
        first = _solved(one, b[..., :half, :], upper=False, unit=unit)
        last = _solved(two, b[..., half:, :] - a[..., half:, :half] @ first, upper=False, unit=unit)
    return torch.cat([first, last], -2)


def _solve_triangular(
    a: torch.Tensor, b: torch.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> torch.Tensor:
    if not left:
        return _solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _solved(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]), upper=upper, unit=unitriangular)


def _triangular_solve(
    b: torch.Tensor, a: torch.Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Tensors:
    matrix = a.mT if transpose else a
    made = _solve_triangular(matrix, b, upper=upper is not transpose, unitriangular=unitriangular)
    return made, a.expand(*made.shape[:-2], *a.shape[-2:]).clone()


def _lu_factor_ex(x: torch.Tensor, *, pivot: bool = True) -> Any:
    row, column, pivots = _count(x, -2), _count(x, -1), []
    info = torch.zeros(x.shape[:-2], dtype=torch.int64, device=x.device)
    for k in range(min(x.shape[-2:])):
        own = x[..., :, k : k + 1]
        place = torch.full_like(own[..., :1, :], k, dtype=torch.int64)
        if pivot:
            place = torch.where(row >= k, own.abs(), -1).argmax(-2, keepdim=True)
            order = torch.where(row == k, place, torch.where(row == place, k, row))
            x = x.gather(-2, order.expand(x.shape))
            own = x[..., :, k : k + 1]
        top = own[..., k : k + 1, :]
        info = torch.where((info == 0) & (top[..., 0, 0] == 0), k + 1, info)
        factors = torch.where((row > k) & (top != 0), own / top, 0)
        x = torch.where(
            column > k, x - factors * x[..., k : k + 1, :], torch.where((column == k) & (row > k), factors, x)
        )
        pivots.append(place[..., 0] + 1)
    made = torch.cat(pivots, -1) if pivots else torch.zeros(*x.shape[:-2], 0, device=x.device)
    return x.mT.contiguous().mT, made.to(torch.int32), info.to(torch.int32)


def _permutation(pivots: torch.Tensor, count: int) -> torch.Tensor:
    """Which row each one is after the exchanges: [..., count]."""
    row = torch.arange(count, device=pivots.device)
    order = row.expand(*pivots.shape[:-1], count)
    for k in range(pivots.shape[-1]):
        place = pivots[..., k : k + 1].to(torch.int64) - 1
        order = order.gather(-1, torch.where(row == k, place, torch.where(row == place, k, row)))
    return order


def _lu_unpack(lu: torch.Tensor, pivots: torch.Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Tensors:
    rows, columns = lu.shape[-2:]
    inner = min(rows, columns)
    matrix, lower, upper = (lu.new_zeros(0) for _ in range(3))
    if unpack_pivots:
        order = _permutation(pivots, rows)
        matrix = (order[..., None, :] == torch.arange(rows, device=lu.device)[:, None]).to(lu.dtype)
    if unpack_data:
        lower = lu[..., :, :inner].tril(-1) + _eye(lu, rows, inner)
        upper = lu[..., :inner, :].triu()
    return matrix, lower, upper


def _lu(x: torch.Tensor, *, pivot: bool = True) -> Tensors:
    lu, pivots, _ = _lu_factor_ex(x, pivot=pivot)
    matrix, lower, upper = _lu_unpack(lu, pivots, unpack_pivots=pivot)
    return matrix, lower, upper


def _lu_solve(
    lu: torch.Tensor, pivots: torch.Tensor, b: torch.Tensor, *, left: bool = True, adjoint: bool = False
) -> torch.Tensor:
    if not left:
        return _lu_solve(lu, pivots, b.mT, adjoint=not adjoint).mT
    batch = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b, order = b.expand(*batch, *b.shape[-2:]), _permutation(pivots, lu.shape[-1])
    order = order.expand(*batch, order.shape[-1])
    if adjoint:
        made = _solve_triangular(lu.mT, b, upper=False)
        made = _solve_triangular(lu.mT, made, upper=True, unitriangular=True)
        order = order.argsort(-1)
    else:
        made = b.gather(-2, order[..., None].expand(b.shape))
        made = _solve_triangular(lu, made, upper=False, unitriangular=True)
        return _solve_triangular(lu, made, upper=True)
    return made.gather(-2, order[..., None].expand(made.shape))


@functools.cache
def _turns_rows(operator: Any) -> bool:
    """Whether PyTorch factors the transpose of a matrix that lies by rows, which its gradients then expect.

    Its versions differ in that; what its CPU gives is what its gradients take.
    """
    needed = sum(not one.has_default_value() for one in operator._schema.arguments)
    place = [one.name for one in operator._schema.returns].index("LU")
    with _disable_current_modes(), without_gradients():
        factors = operator(*[torch.tensor([[2.0, 1.0], [0.0, 2.0]], device="cpu")] * needed)[place]
    return bool(factors[0, 1] == 0)


def _is_turned(x: torch.Tensor, operator: Any) -> bool:
    return x.is_contiguous() and _turns_rows(operator)


def _solve_ex(a: torch.Tensor, b: torch.Tensor, *, left: bool = True) -> Any:
    is_turned = _is_turned(a, _aten._linalg_solve_ex.default)
    lu, pivots, info = _lu_factor_ex(a.mT if is_turned else a)
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    made = _lu_solve(lu, pivots, b[..., None] if is_vector else b, left=left, adjoint=is_turned)
    return (made[..., 0] if is_vector else made), lu, pivots, info


def _inv_ex(x: torch.Tensor) -> Any:
    lu, pivots, info = _lu_factor_ex(x)
    return _lu_solve(lu, pivots, _eye(x, *x.shape[-2:])).mT.contiguous().mT, info


def _sign_of_exchanges(pivots: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    own = torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    odd = (pivots != own).to(torch.int64).sum(-1) % 2
    return 1 - 2 * odd.to(dtype)


def _det(x: torch.Tensor) -> Tensors:
    lu, pivots, _ = _lu_factor_ex(x.mT if _is_turned(x, _aten._linalg_det.default) else x)
    return lu.diagonal(0, -2, -1).prod(-1) * _sign_of_exchanges(pivots, x.dtype), lu, pivots


def _slogdet(x: torch.Tensor) -> Tensors:
    lu, pivots, _ = _lu_factor_ex(x.mT if _is_turned(x, _aten._linalg_slogdet.default) else x)
    diagonal = lu.diagonal(0, -2, -1)
    return diagonal.sign().prod(-1) * _sign_of_exchanges(pivots, x.dtype), diagonal.abs().log().sum(-1), lu, pivots


def _scale(x: torch.Tensor) -> torch.Tensor:
    """What divides matrices such that squares neither overflow nor vanish."""
    if not x.numel():
        return x.new_ones(1, 1)
    largest = x.abs().amax((-2, -1), keepdim=True)
    return torch.where((largest > 0) & torch.isfinite(largest), largest, 1)


def _geqrf(x: torch.Tensor) -> Tensors:
    scale = _scale(x)
    x = x / scale
    row, column, shares = _count(x, -2), _count(x, -1), []
    for k in range(min(x.shape[-2:])):
        own = x[..., :, k : k + 1]
        head, tail = own[..., k : k + 1, :], torch.where(row > k, own, 0)
        beneath = (tail * tail).sum(-2, keepdim=True)
        is_done = beneath == 0
        size = torch.sqrt(head * head + beneath)
        beta = torch.where(is_done, head, torch.where(head < 0, size, -size))
        share = torch.where(is_done, 0, (beta - head) / torch.where(is_done, 1, beta))
        vector = tail / torch.where(is_done, 1, head - beta)
        whole = torch.where(row == k, 1, vector)
        reflected = x - share * whole * (whole.mT @ x)
        x = torch.where(column > k, reflected, x)
        x = torch.where(column == k, torch.where(row == k, beta, torch.where(row > k, vector, x)), x)
        shares.append(share[..., 0])
    x = torch.where(row <= column, x * scale, x)
    tau = torch.cat(shares, -1) if shares else x.new_zeros(*x.shape[:-2], 0)
    return x.mT.contiguous().mT, tau


def _reflectors(x: torch.Tensor, tau: torch.Tensor, order: Iterator[int] | range) -> Iterator[Tensors]:
    row = _count(x, -2)
    for k in order:
        vector = torch.where(row > k, x[..., :, k : k + 1], torch.where(row == k, 1, 0).to(x.dtype))
        yield vector, tau[..., None, k : k + 1]


def _householder_product(x: torch.Tensor, tau: torch.Tensor, columns: int | None = None) -> torch.Tensor:
    made = _eye(x, x.shape[-2], x.shape[-1] if columns is None else columns)
    for vector, share in _reflectors(x, tau, range(tau.shape[-1] - 1, -1, -1)):
        made = made - share * vector * (vector.mT @ made)
    return made.mT.contiguous().mT


def _ormqr(
    x: torch.Tensor, tau: torch.Tensor, other: torch.Tensor, left: bool = True, transpose: bool = False
) -> torch.Tensor:
    made, count = (other if left else other.mT), tau.shape[-1]
    for vector, share in _reflectors(x, tau, range(count) if left is transpose else range(count - 1, -1, -1)):
        made = made - share * vector * (vector.mT @ made)
    return (made if left else made.mT).mT.contiguous().mT


def _qr(x: torch.Tensor, mode: str = "reduced") -> Tensors:
    rows, columns = x.shape[-2:]
    held, tau = _geqrf(x)
    count = rows if mode == "complete" else min(rows, columns)
    upper = held[..., : (min(rows, columns) if mode == "r" else count), :].triu()
    if mode == "r":
        return x.new_zeros(0), upper
    return _householder_product(held, tau, count), upper


def _rounds(count: int) -> Iterator[list[int]]:
    """Partners of all places, such that each pair meets once (a tournament by the circle method)."""
    even = count + count % 2
    ring = list(range(1, even))
    for _ in range(even - 1):
        order = [0, *ring]
        partner = list(range(even))
        for place in range(even // 2):
            a, b = order[place], order[even - 1 - place]
            partner[a], partner[b] = b, a
        yield [other if place < count and other < count else place for place, other in enumerate(partner)][:count]
        ring = [ring[-1], *ring[:-1]]


def _turns(own: torch.Tensor, other: torch.Tensor, shared: torch.Tensor, is_first: torch.Tensor) -> Tensors:
    """Cosines and sines that make what pairs share 0; those of a pair differ by their sign."""
    nothing = shared == 0
    middle = (other - own) / torch.where(nothing, 1, 2 * shared)
    sign = torch.where((middle > 0) | ((middle == 0) & is_first), 1.0, -1.0).to(own.dtype)
    tangent = torch.where(nothing, 0, sign / (middle.abs() + torch.sqrt(middle * middle + 1)))
    cosine = 1 / torch.sqrt(tangent * tangent + 1)
    return cosine, tangent * cosine


def _eigh(x: torch.Tensor, UPLO: str = "L", compute_v: bool = True) -> Tensors:
    n = x.shape[-1]
    lower = x.tril(-1) if UPLO.upper() == "L" else x.mT.tril(-1)
    x = lower + lower.mT + torch.diag_embed(x.diagonal(0, -2, -1))
    vectors, row, column = _eye(x, n, n), _count(x, -2), _count(x, -1)
    pairs = [torch.tensor(each, device=x.device) for each in _rounds(n)] if n > 1 else []
    for _ in range(_SWEEPS):
        for partner in pairs:
            meets = column == partner[:, None]
            diagonal = x.diagonal(0, -2, -1)
            shared = torch.where(meets & (row != column), x, 0).sum(-1)
            cosine, sine = _turns(diagonal, diagonal[..., partner], shared, column < partner)
            turn = torch.where(row == column, cosine[..., None, :], torch.where(meets, sine[..., :, None], 0))
            x = turn.mT @ x @ turn
            x = (x + x.mT) * 0.5  # else both of a pair may turn by other angles where only rounding is left
            vectors = vectors @ turn
    values, order = x.diagonal(0, -2, -1).sort(-1)
    vectors = vectors.gather(-1, order[..., None, :].expand(vectors.shape))
    return values, vectors.mT.contiguous().mT if compute_v else x.new_zeros(0)


def _svd(
    x: torch.Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> Tensors:
    """Hestenes: Inversion of Matrices by Biorthogonalization, 1958: columns are turned until they are orthogonal."""
    rows, columns = x.shape[-2:]
    if rows < columns:
        u, s, vh = _svd(x.mT, full_matrices, compute_uv)
        return (vh.mT, s, u.mT) if compute_uv else (u, s, vh)
    scale = _scale(x)
    x = x / scale
    places = torch.arange(columns, device=x.device)
    vectors = _eye(x, columns, columns)
    pairs = [torch.tensor(each, device=x.device) for each in _rounds(columns)] if columns > 1 else []
    for _ in range(_SWEEPS):
        for partner in pairs:
            other = x[..., partner]
            size = (x * x).sum(-2)
            shared = torch.where(partner == places, 0, (x * other).sum(-2))
            cosine, sine = (each[..., None, :] for each in _turns(size, size[..., partner], shared, places < partner))
            x, vectors = x * cosine - other * sine, vectors * cosine - vectors[..., partner] * sine
    values, order = torch.sqrt((x * x).sum(-2)).sort(-1, descending=True)
    values = values * scale[..., 0]
    if not compute_uv:
        return x.new_zeros(0), values, x.new_zeros(0)
    x = x.gather(-1, order[..., None, :].expand(x.shape))
    vectors = vectors.gather(-1, order[..., None, :].expand(vectors.shape))
    q, r = _qr(x, "complete" if full_matrices else "reduced")  # also where a value is 0
    signs = torch.where(r.diagonal(0, -2, -1) < 0, -1.0, 1.0).to(x.dtype)
    if q.shape[-1] > columns:
        signs = torch.cat([signs, signs.new_ones(*signs.shape[:-1], q.shape[-1] - columns)], -1)
    return q * signs[..., None, :], values, vectors.mT.contiguous()


_TERMS = 12
_MOST_SQUARED = 24


def _matrix_exp(x: torch.Tensor) -> torch.Tensor:
    """Scaled, by Taylor's series, squared (Moler, Van Loan: Nineteen Dubious Ways, 2003, method 3)."""
    if not x.numel():
        return x.clone()
    size = x.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    times = torch.ceil(torch.log2(size.clamp(min=0.5))).clamp(0, _MOST_SQUARED) + 1
    times = torch.where(torch.isnan(size), 1, times)
    one = _eye(x, *x.shape[-2:])
    small, made = x / torch.exp2(times), one
    for k in range(_TERMS, 0, -1):
        made = one + small @ made / k
    for k in range(int(times.amax().item())):
        made = torch.where(times > k, made @ made, made)
    return made


def _cholesky_solve(b: torch.Tensor, a: torch.Tensor, upper: bool = False) -> torch.Tensor:
    lower = a.mT if upper else a
    return _solve_triangular(lower.mT, _solve_triangular(lower, b, upper=False), upper=True)


def _cholesky_inverse(x: torch.Tensor, upper: bool = False) -> torch.Tensor:
    return _cholesky_solve(_eye(x, *x.shape[-2:]), x, upper)


def _checking(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Has a factorization raise PyTorch's LinAlgError, where that is asked for: numbers are read from the device."""

    def checked(x: torch.Tensor, *arguments: Any, check_errors: bool = False, **named: Any) -> Any:
        made = function(x, *arguments, **named)
        if check_errors:
            torch._linalg_check_errors(made[-1], f"linalg.{name}", is_matrix=x.dim() == 2)
        return made

    return checked


def _triangle(x: torch.Tensor, uplo: str = "L", *_: Any) -> torch.Tensor:
    return x.tril() if uplo.upper() == "L" else x.triu()


def _converging(
    name: str, function: Callable[..., Any], read: Callable[..., torch.Tensor] = lambda x, *_: x
) -> Callable[..., Any]:
    """Has an iteration raise LinAlgError for what it cannot converge of."""

    def checked(x: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        if not bool(torch.isfinite(read(x, *arguments)).all()):
            raise torch.linalg.LinAlgError(
                f"linalg.{name}: The algorithm failed to converge because the input matrix contained non-finite values."
            )
        return function(x, *arguments, **named)

    return checked


LINEAR: dict[Any, Callable[..., Any]] = {
    _aten.linalg_cholesky_ex.default: _checking("cholesky_ex", _cholesky_ex),
    _aten.cholesky_solve.default: _cholesky_solve,
    _aten.cholesky_inverse.default: _cholesky_inverse,
    _aten.linalg_solve_triangular.default: _solve_triangular,
    _aten.triangular_solve.default: _triangular_solve,
    _aten.linalg_lu_factor_ex.default: _checking("lu_factor_ex", _lu_factor_ex),
    _aten.linalg_lu.default: _lu,
    _aten.lu_unpack.default: _lu_unpack,
    _aten.linalg_lu_solve.default: _lu_solve,
    _aten._linalg_solve_ex.default: _checking("solve_ex", _solve_ex),
    _aten.linalg_inv_ex.default: _checking("inv_ex", _inv_ex),
    _aten._linalg_det.default: _det,
    _aten._linalg_slogdet.default: _slogdet,
    _aten.geqrf.default: _geqrf,
    _aten.linalg_householder_product.default: _householder_product,
    _aten.ormqr.default: _ormqr,
    _aten.linalg_qr.default: _qr,
    _aten._linalg_eigh.default: _converging("eigh", _eigh, _triangle),
    _aten._linalg_svd.default: _converging("svd", _svd),
    _aten.linalg_matrix_exp.default: _matrix_exp,
}
"""By operator."""
