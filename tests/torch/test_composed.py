"""What is recorded as one operator, or for lists of tensors: the bits of its parts, and what those refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")
functional = torch.nn.functional

_FORMS: dict[str, Callable[..., Any]] = {
    "linear": lambda x: functional.linear(x, x[0, 0], x[0, 0, :, 0]),
    "linear of columns": lambda x: functional.linear(x.transpose(1, 3), x[0, 0, :, :3], None),
    "layer_norm": lambda x: functional.layer_norm(x.transpose(1, 2), x.shape[-1:], x[0, 0, 0], None),
    "rows": lambda x: x.transpose(1, 3) @ x[0, 0, :3, :3],
    "vector": lambda x: x[0, 0, 0] @ x[0, 0, 0],
    "batches": lambda x: x @ x.transpose(-1, -2),
    "einsum": lambda x: torch.einsum("bhqd,bhkd->bhqk", x, x),
    "group_norm": lambda x: functional.group_norm(x, 3, x[0, 0, 0, :3], None),
    "attention": lambda x: functional.scaled_dot_product_attention(x, x * 2, x + 1),
    "attention backwards": lambda x: functional.scaled_dot_product_attention(
        x, x * 2, x + 1, is_causal=True, scale=0.3
    ),
    "masked attention": lambda x: functional.scaled_dot_product_attention(x, x * 2, x + 1, x[:1, :1] > 0),
    "attention of nothing": lambda x: functional.scaled_dot_product_attention(x[:0], x[:0], x[:0]),
}


@pytest.mark.parametrize("name", _FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_operators_without_gradients_have_the_bits_and_strides_of_their_parts(
    strict: str, name: str, dtype: Any
) -> None:
    x = torch.randn(2, 3, 5, 5, dtype=dtype).to(strict)
    with torch.no_grad():
        whole = _FORMS[name](x)
    parts = _FORMS[name](x.requires_grad_())
    assert parts.requires_grad and not whole.requires_grad
    assert whole.stride() == parts.stride() and torch.equal(whole.cpu(), parts.detach().cpu())


def _mask(shape: tuple[int, ...]) -> Any:
    """Random, with a row that hides every key."""
    made = torch.rand(shape) > 0.4
    made[..., 2, :] = False
    return made


_ATTENTION: dict[str, Callable[[], tuple[Any, ...]]] = {
    "plain": lambda: (None,),
    "causal": lambda: (None, 0.0, True),
    "a choice of keys": lambda: (_mask((2, 1, 5, 7)),),
    "added": lambda: (torch.where(_mask((5, 7)), torch.randn(5, 7), -torch.inf),),
    "no number": lambda: (torch.where(torch.eye(5, 7) > 0, torch.nan, -torch.inf),),
}


@pytest.mark.parametrize("name", _ATTENTION)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_attention_by_the_devices_arithmetic_is_near_the_cpus(strict: str, name: str, dtype: Any) -> None:
    query, key, value = (torch.randn(2, size, 6, 16) for size in (5, 7, 7))
    of_heads = query.transpose(1, 2), key[:, :, :3].transpose(1, 2), value[:, :, :3].transpose(1, 2)
    mask, *options = _ATTENTION[name]()
    if options:
        of_heads = of_heads[0], of_heads[1][..., :5, :], of_heads[2][..., :5, :]
    wanted = functional.scaled_dot_product_attention(*of_heads, mask, *options, enable_gqa=True)
    with dml.Device("llvmpipe", arithmetic="device") as device, torch.no_grad():
        torch.dmlvk.use(device)
        here = [part.to(strict, dtype) for part in of_heads]
        if mask is not None:
            mask = mask.to(strict, mask.dtype if mask.dtype is torch.bool else dtype)
        made = functional.scaled_dot_product_attention(*here, mask, *options, enable_gqa=True)
        assert made.transpose(1, 2).is_contiguous()  # as layers want it: heads behind one another
        tolerance = 1e-5 if dtype is torch.float32 else 5e-3
        torch.testing.assert_close(made.cpu().float(), wanted, atol=tolerance, rtol=0, equal_nan=True)


def test_scores_beyond_float16_by_the_devices_arithmetic_are_numbers(strict: str) -> None:
    """Masks of the smallest number hide every key of texts that are padded."""
    query, key, value = torch.full((1, 2, 5, 16), 30), torch.full((1, 2, 7, 16), -30), torch.randn(2, 7, 16)
    values = value.half()[None]
    mask = torch.full((5, 7), torch.finfo(torch.float16).min).half()
    mask[0, 3] = 0
    with dml.Device("llvmpipe", arithmetic="device") as device, torch.no_grad():
        torch.dmlvk.use(device)
        here = [part.half().to(strict) for part in (query, key, values, mask)]
        made = functional.scaled_dot_product_attention(*here[:3]).cpu().float()
        torch.testing.assert_close(made, values.float().mean(2, keepdim=True).expand(1, 2, 5, 16), atol=5e-3, rtol=0)
        made = functional.scaled_dot_product_attention(*here).cpu()
        assert torch.equal(made[:, :, 0], values[:, :, 3]) and made.isfinite().all()
        shared = functional.scaled_dot_product_attention(*here[:2], here[2][0]).cpu()  # as matrix products broadcast
        assert shared.shape == made.shape


def test_what_looks_at_operators_sees_the_parts_and_so_does_what_refuses(on: str) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        names: tuple[str, ...] = ()

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names += (str(operator),)
            return operator(*args, **(kwargs or {}))

    x = torch.ones(3, 3, device=on)
    with torch.no_grad(), Seen() as seen:
        functional.linear(x, x, x[0])
    assert "aten.addmm.default" in seen.names
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        functional.linear(x, torch.ones(2, 2, device=on))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # of which PyTorch makes use itself
def test_forward_derivatives_are_those_of_the_cpu(strict: str) -> None:
    """They see the parts of what is one operator, and begin with zeros that have no memory."""
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    x, along = torch.randn(3, 4), torch.randn(3, 4)
    wanted = torch.func.jvp(network, (x,), (along,))
    made = torch.func.jvp(network.to(strict), (x.to(strict),), (along.to(strict),))
    for own, other in zip(made, wanted, strict=True):
        torch.testing.assert_close(own.cpu(), other, atol=1e-5, rtol=0)
    cubes = torch.func.hessian(lambda v: (v**3).sum())(x[0].to(strict))
    torch.testing.assert_close(cubes.cpu(), torch.diag(6 * x[0]), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.t() * 2,
        lambda x: torch.diagonal_copy(x[1:, :3]),
        lambda x: torch.linalg.cholesky(x @ x.T + 5 * torch.eye(3, device=x.device)),
        lambda x: torch.quantile(x, 0.3, 1),
        lambda x: torch.empty_like(x).copy_(x)[:, 1:3].exp().mul_(2),
    ],
)
def test_forward_derivatives_lie_as_what_they_are_of(strict: str, call: Callable[[Any], Any]) -> None:
    x, along = torch.randn(3, 4), torch.randn(4, 3)
    found = []
    for where in (strict, "cpu"):
        with torch.autograd.forward_ad.dual_level():
            # whose derivative lies by other strides
            made = call(torch.autograd.forward_ad.make_dual(x.to(where), along.to(where).t()))
            found.append([one.cpu() for one in torch.autograd.forward_ad.unpack_dual(made)])
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)


_LISTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda x, y: torch._foreach_add(x, y, alpha=0.3), lambda a, b: a.add(b, alpha=0.3)),
    "sub": (lambda x, y: torch._foreach_sub(x, 3), lambda a, b: a - 3),
    "div": (lambda x, y: torch._foreach_div(x, [0.3, 0.7]), lambda a, b: a / (0.3 if a.dim() == 2 else 0.7)),
    "addcdiv": (lambda x, y: torch._foreach_addcdiv(x, y, x, 0.3), lambda a, b: a.addcdiv(b, a, value=0.3)),
    "lerp": (lambda x, y: torch._foreach_lerp(x, y, 0.3), lambda a, b: a.lerp(b, 0.3)),
    "pow": (lambda x, y: torch._foreach_pow(0.3, x), lambda a, b: 0.3**a),
}


@pytest.mark.parametrize("name", _LISTS)
def test_operators_of_lists_have_the_bits_of_those_of_tensors(strict: str, name: str) -> None:
    x, y = ([torch.randn(shape).to(strict) for shape in ((3, 2), (4,))] for _ in range(2))
    of_lists, single = _LISTS[name]
    for own, a, b in zip(of_lists(x, y), x, y, strict=True):
        assert torch.equal(own.cpu(), single(a, b).cpu())


def test_lists_of_different_lengths_are_refused_as_by_pytorch(strict: str) -> None:
    x = [torch.ones(2, device=strict)]
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add_(x, x * 2)
    torch._foreach_add_(x, 1)
    assert x[0].tolist() == [2, 2] and x[0]._version == 1  # which autograd relies on


def test_fused_steps_are_changes_for_autograd(strict: str) -> None:
    parameter = torch.nn.Parameter(torch.ones(2, device=strict))
    parameter.grad = torch.ones_like(parameter)
    before = parameter._version
    torch.optim.SGD([parameter], lr=0.5, fused=True).step()
    assert parameter.tolist() == [0.5, 0.5] and parameter._version > before
