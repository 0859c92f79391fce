"""Numbers among arguments that change from call to call, and special values: as on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")  # CI has it in a check of its own

import dmlvk.torch  # noqa: E402 - needs PyTorch

functional = torch.nn.functional
assert dmlvk.torch  # importing it registers the device

NAN, INF = math.nan, math.inf
_NUMBERS = (2.0, 3.3, 5.7, 0.0, -1.3, -1.0, -0.0, 1.0, 0.5)
_OF_NUMBERS: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "integers filled": (lambda p, x: x.masked_fill(x < 0, p), ([3, -4],)),
    "truths filled": (lambda p, x: x.masked_fill(x, p), ([True, False, True],)),
    "floats filled": (lambda p, x: x.masked_fill(x < 0, p), ([3.0, -4.0],)),
    "integers made": (lambda p, x: torch.full_like(x, 16777217.0 * p, dtype=torch.int64), ([3.0, -4.0],)),
    "truths made": (lambda p, x: torch.full_like(x, p, dtype=torch.bool), ([3.0, -4.0],)),
    "signs": (lambda p, x: torch.copysign(x, p), ([1.0, -2.0, 0.0],)),
    "powers": (lambda p, x: x**p, ([2.0, 3.0, 0.25],)),
    "slopes": (lambda p, x: functional.leaky_relu(x, p), ([-2.0, 3.0, 0.0],)),
    "products": (lambda p, c, a: torch.addmm(c, a, a, beta=p), ([[NAN]], [[2.0]])),
    "products of batches": (lambda p, c, a: torch.baddbmm(c, a, a, beta=p), ([[[NAN]]], [[[2.0]]])),
    "bounds": (lambda p, x: x.clamp(-2.0, p), ([-3.0, 0.1, 9.0],)),
}


def _as_on_the_cpu(where: str, compute: Callable[..., Any], *arguments: Any) -> None:
    wanted, found = (compute(*(torch.tensor(one).to(place) for one in arguments)) for place in ("cpu", where))
    torch.testing.assert_close(found.cpu(), wanted, equal_nan=True, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", _OF_NUMBERS)
def test_numbers_that_change_give_what_each_gives(on: str, name: str) -> None:
    compute, arguments = _OF_NUMBERS[name]
    for number in _NUMBERS:
        _as_on_the_cpu(on, lambda *given, number=number: compute(number, *given), *arguments)


def test_exponentials_less_one_end_at_minus_one(on: str) -> None:
    x = [-INF, -200.0, -90.0, -41.0, -39.0, -17.0, -1e-5, 1e-5, 80.0, 88.0, NAN, INF]
    _as_on_the_cpu(on, torch.expm1, x)
    _as_on_the_cpu(on, functional.celu, x[:8])


def test_eigenvalues_are_of_the_triangle_that_is_read(on: str) -> None:
    _as_on_the_cpu(on, torch.linalg.eigvalsh, [[2.0, NAN], [0.0, 3.0]])
    with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
        torch.linalg.eigvalsh(torch.tensor([[2.0, 0.0], [NAN, 3.0]]).to(on))


@pytest.mark.parametrize(("first", "second", "dim"), [((0, 3), (2, 4), 0), ((2, 0), (2, 4, 1), 1)])
def test_parts_without_elements_must_fit(on: str, first: Any, second: Any, dim: int) -> None:
    for where in ("cpu", on):
        with pytest.raises(RuntimeError):
            torch.cat([torch.zeros(first).to(where), torch.zeros(second).to(where)], dim)
    made = torch.cat([torch.zeros(0).to(on), torch.zeros(0, *second[1:]).to(on), torch.ones(second).to(on)])
    assert torch.equal(made.cpu(), torch.ones(second))


def test_what_is_not_finite_stays_where_windows_take_it(on: str) -> None:
    pixels = torch.arange(49.0).reshape(1, 1, 7, 7)
    pixels[0, 0, 1, 1], pixels[0, 0, 5, 5], pixels[0, 0, 0, 6] = INF, -INF, NAN
    _as_on_the_cpu(on, lambda x: functional.adaptive_avg_pool2d(x, 3), pixels.tolist())
    gradient = torch.ones(1, 1, 14, 14)
    gradient[0, 0, 0, 0], gradient[0, 0, 13, 13] = INF, NAN
    found = []
    for where in ("cpu", on):
        x = torch.ones(1, 1, 7, 7).to(where).requires_grad_()
        functional.interpolate(x, scale_factor=2.0, mode="nearest").backward(gradient.to(where))
        found.append(x.grad.cpu())
    torch.testing.assert_close(found[1], found[0], equal_nan=True)


def test_results_of_another_type_are_refused_as_on_the_cpu(on: str) -> None:
    for where in ("cpu", on):
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch.tensor([1, 2]).to(where).add_(0.5)


_BY_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "products": lambda x: (x * 0.1, x * 1e6, 1e30 * x, x * math.nan),
    "quotients": lambda x: (x / 0.1, 0.1 / x, x / 1e6),
    "sums": lambda x: (x + 0.1, x - 0.1, 0.1 - x, torch.add(x, x, alpha=0.1), torch.rsub(x, 0.3, alpha=0.1)),
    "whole quotients": lambda x: (x // 0.1,),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", _BY_NUMBERS)
def test_short_floats_by_numbers_have_the_bits_of_the_cpu(on: str, name: str, dtype: Any) -> None:
    torch.manual_seed(0)
    # So many that PyTorch computes none of them one by one, which it rounds otherwise.
    x = torch.cat([torch.randn(507), torch.tensor([0.0, -0.0, INF, 65504.0, 6e-5])]).to(dtype)
    for number, (own, wanted) in enumerate(zip(_BY_NUMBERS[name](x.to(on)), _BY_NUMBERS[name](x), strict=True)):
        assert torch.equal(own.cpu().nan_to_num(123.0), wanted.nan_to_num(123.0)), number


_OF_SQUARES: dict[str, Callable[[Any], Any]] = {
    "var": lambda x: torch.stack([*torch.var_mean(x, 1), x.std(1)]),
    "batch_norm": lambda x: functional.batch_norm(x.t(), None, None, training=True).std(0),
    "batch_norm of variances": lambda x: (
        functional.batch_norm(x.t(), x.new_zeros(2).float(), torch.full_like(x[:, 0], 9e6, dtype=torch.float32)).std(0)
        * 1000
    ),
}


@pytest.mark.parametrize("name", _OF_SQUARES)
def test_squares_beyond_float16_are_numbers_meanwhile(on: str, name: str) -> None:
    x = torch.randn(2, 30000).half() * 3  # 270,000 is the sum of squares
    wanted = _OF_SQUARES[name](x.float())
    torch.testing.assert_close(_OF_SQUARES[name](x.to(on)).cpu().float(), wanted, rtol=2e-3, atol=1e-3)


def test_statistics_that_run_have_the_digits_of_their_type(on: str) -> None:
    x, found = torch.randn(64, 3, 40).half(), []
    for where in ("cpu", on):
        statistics = torch.zeros(3, device=where), torch.ones(3, device=where)
        functional.batch_norm(x.to(where), *statistics, training=True)
        found.append(torch.stack(statistics).cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-7)


_NORMS: dict[str, Callable[..., Any]] = {
    "layer_norm": lambda x, w: functional.layer_norm(x, x.shape[2:], w.repeat(125)),
    "batch_norm": lambda x, w: functional.batch_norm(x, None, None, w, w, training=True),
    "batch_norm with statistics": lambda x, w: functional.batch_norm(
        x, w.detach() * 0, w.detach() * 0 + 1, w, None, training=True
    ),
}
_IN_HALVES: dict[str, tuple[Callable[..., Any], Callable[[], Sequence[Any]]]] = {
    **{name: (norm, lambda: (torch.randn(6, 4, 500) * 3 + 500, torch.rand(4))) for name, norm in _NORMS.items()},
    "layer_norm of many": (lambda x: functional.layer_norm(x, (50000,)), lambda: (torch.randn(2, 50000) * 1000,)),
    "addbmm": (
        lambda *given: torch.addbmm(*given, alpha=0.001),
        lambda: (torch.randn(5, 5), torch.randn(3, 5, 100) * 50, torch.randn(3, 100, 5) * 50),
    ),
    "means of large parts": (
        lambda x: functional.adaptive_avg_pool2d(x * 1000, (1, 2)),
        lambda: (torch.randn(1, 1, 400, 400),),
    ),
}


@pytest.mark.parametrize("name", _IN_HALVES)
def test_halves_are_computed_in_float32(on: str, name: str) -> None:
    """Gradients included, whose parts would be lost in FLOAT16 or beyond it; as other devices of PyTorch do."""
    compute, draw = _IN_HALVES[name]
    operands, found = [one.half() for one in draw()], []
    for where, dtype in (("cpu", torch.float64), (on, torch.float16)):
        own = [one.to(where, dtype).requires_grad_() for one in operands]
        made = compute(*own)
        made.backward(torch.linspace(-30, 50, made.numel()).half().reshape(made.shape).to(where, dtype))
        found.append([made, *(one.grad for one in own)])
    for wanted, own in zip(*found, strict=True):
        torch.testing.assert_close(own.cpu().double(), wanted, rtol=2e-3, atol=2e-3 * wanted.abs().max().item())


@pytest.mark.parametrize("shape", [(2, 4), (3,), (2, 2, 1)])
def test_masks_have_the_shape_of_what_they_choose_from(on: str, shape: tuple[int, ...]) -> None:
    for where in ("cpu", on):
        x = torch.ones(2, 2, device=where)
        with pytest.raises(IndexError, match=r"mask|too many indices"):
            x[torch.ones(shape, device=where) > 0]
        with pytest.raises(IndexError, match=r"mask|too many indices"):
            x[torch.ones(shape, device=where) > 0] = torch.ones(2, device=where)


def test_axes_of_what_has_no_elements_are_checked(on: str) -> None:
    each: tuple[Callable[[Any], Any], ...] = (lambda x: x.softmax(2), lambda x: x.sort(2), lambda x: x.cumsum(-3))
    for compute in each:
        with pytest.raises(IndexError, match="out of range"):
            compute(torch.ones(4, 0, device=on))
    with pytest.raises(RuntimeError):
        torch.bmm(torch.ones(2, 2, 0, device=on), torch.ones(4, 0, 2, device=on))


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2)])
def test_dropout_leaves_out_what_it_leaves_out_on_the_cpu(on: str, axes: tuple[int, ...]) -> None:
    chosen = []
    for where in ("cpu", on):
        x = torch.ones(2, 4, 2, 3).to(where).permute(axes)
        torch.manual_seed(1)
        chosen.append(functional.dropout(x, 0.3).cpu() != 0)
    assert torch.equal(*chosen)
