"""Factorizations of matrices on PyTorch's device, with their gradients, and what has none."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")  # CI has it in a check of its own

from dmlvk.torch import linear_algebra  # noqa: E402 - needs PyTorch


def _matrices(x: Any) -> tuple[Any, Any]:
    """Any ones, and some whose eigenvalues are above 0."""
    return x, x @ x.mT + torch.eye(x.shape[-1], device=x.device)


_FACTORIZATIONS: dict[str, Any] = {
    "cholesky": lambda a, p: [torch.linalg.cholesky(p), torch.linalg.cholesky(p, upper=True)],
    "cholesky_inverse": lambda a, p: [torch.cholesky_inverse(torch.linalg.cholesky(p))],
    "lu": lambda a, p: [*torch.linalg.lu(a[:, :, :3]), *torch.linalg.lu(a[:, :3])],
    "solve": lambda a, p: [torch.linalg.solve(p, a), torch.linalg.solve(p, a, left=False), torch.linalg.inv(p)],
    "solve any": lambda a, p: [torch.linalg.solve(p + 3 * a, a), torch.linalg.solve((p + 3 * a).mT, a, left=False)],
    "det": lambda a, p: [torch.linalg.det(a), *torch.linalg.slogdet(a)],
    "qr": lambda a, p: [*torch.linalg.qr(a[:, :, :3], "complete"), *torch.linalg.qr(a[:, :3])],
    "eigvalsh": lambda a, p: [torch.linalg.eigvalsh(p), torch.linalg.eigvalsh(a, UPLO="U")],
    "svd": lambda a, p: [torch.linalg.svdvals(a[:, :3]), (lambda u, s, v: u * s[:, None] @ v)(*torch.linalg.svd(a))],
    "matrix_exp": lambda a, p: [torch.matrix_exp(a)],
    "pinv": lambda a, p: [torch.linalg.pinv(a[:, :, :3]), torch.linalg.pinv(p, hermitian=True, rtol=1e-5)],
    "rank": lambda a, p: [torch.linalg.matrix_rank(a, tol=2.0) + a.sum().long(), p.sum()],
    "lstsq": lambda a, p: list(torch.linalg.lstsq(a[:, :, :3], p, driver="gelsd")),
}


@pytest.mark.parametrize("name", _FACTORIZATIONS)
def test_factorizations_and_their_gradients_are_on_the_device(strict: str, name: str) -> None:
    x = torch.randn(2, 5, 5)
    found = []
    for where in ("cpu", strict):
        own = x.detach().to(where).requires_grad_()
        made = _FACTORIZATIONS[name](*_matrices(own))
        if name not in ("lu", "qr"):  # whose gradients have no unique form
            sum(one.square().sum() for one in made if one.is_floating_point()).backward()
            made = [*made, own.grad]
        found.append([one.detach().cpu() for one in made])
    for wanted, own in zip(*found, strict=True):
        near = 1e-3 * max(1.0, float(wanted.abs().max())) if wanted.is_floating_point() else 0.0
        assert own.dtype is wanted.dtype and torch.allclose(own, wanted, rtol=0, atol=near)


_OF_SINGULAR: dict[str, Any] = {
    "inv": torch.linalg.inv,
    "inv_ex": lambda x: torch.linalg.inv_ex(x, check_errors=True),
    "cholesky": torch.linalg.cholesky,
    "cholesky_ex": lambda x: torch.linalg.cholesky_ex(x, check_errors=True),
    "solve": lambda x: torch.linalg.solve(x, x),
    "eigh": lambda x: torch.linalg.eigh(x * math.nan),
    "svd": lambda x: torch.linalg.svd(x * math.nan),
}


@pytest.mark.parametrize("name", _OF_SINGULAR)
def test_what_has_no_factors_is_pytorchs_error(strict: str, name: str) -> None:
    x = torch.stack([torch.eye(3), torch.ones(3, 3)])
    for where in ("cpu", strict):
        with pytest.raises(torch.linalg.LinAlgError, match=r"singular|positive-definite|converge"):
            _OF_SINGULAR[name](x.to(where))


def test_equal_eigenvalues_and_tiny_or_huge_matrices_are_factored() -> None:
    turned = torch.eye(16).roll(1, 0)
    low = torch.randn(20, 2) @ torch.randn(2, 20)
    for x in (turned + turned.mT, low + low.mT):  # the algorithm itself, by the CPU's operators
        values, vectors = linear_algebra._eigh(x)
        assert torch.allclose(values, torch.linalg.eigvalsh(x), atol=1e-4 * float(x.abs().max()))
        assert torch.allclose(vectors * values @ vectors.mT, x, atol=1e-4 * float(x.abs().max()))
    for factor in (1e-22, 1e19):
        q, r = linear_algebra._qr(torch.eye(5)[:, :3] * factor + factor)
        assert torch.allclose(q @ r / factor, torch.eye(5)[:, :3] + 1, atol=1e-5)
        u, values, _ = linear_algebra._svd(torch.randn(20, 8) * factor)
        assert torch.allclose(u.mT @ u, torch.eye(8), atol=1e-5) and torch.isfinite(values).all() and values[-1] > 0
