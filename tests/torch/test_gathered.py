"""What is gathered at places has gradients on the device: pictures that grids sample, tables, scores, segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")  # CI has it in a check of its own

import dmlvk.torch  # noqa: E402 - needs PyTorch

functional = torch.nn.functional
assert dmlvk.torch  # importing it registers the device


@pytest.mark.parametrize("align_corners", [False, True])
def test_a_grid_and_the_picture_that_it_samples_have_gradients(strict: str, align_corners: bool) -> None:
    picture, grid = torch.randn(2, 3, 5, 4), torch.randn(2, 6, 3, 2)
    found = []
    for where in (strict, "cpu"):
        given = [one.to(where).requires_grad_() for one in (picture, grid)]
        made = functional.grid_sample(*given, align_corners=align_corners)
        made.square().sum().backward()
        found.append([one.grad.cpu() for one in given])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("mode", "has_shares"), [("sum", False), ("mean", False), ("sum", True)])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_tables_learn_by_bags(strict: str, mode: str, has_shares: bool, is_compiled: bool) -> None:
    table, indices, offsets = torch.randn(7, 3), torch.tensor([1, 1, 6, 0, 2, 1]), torch.tensor([0, 2, 2, 5])
    shares = torch.rand(6)

    def pooled(given: list[Any], indices: Any, offsets: Any) -> Any:
        return functional.embedding_bag(indices, given[0], offsets, None, 2.0, False, mode, False, *given[1:])

    found = []
    for where in (strict, "cpu"):
        given = [one.to(where).requires_grad_() for one in (table, shares)[: 1 + has_shares]]
        made = (torch.compile(pooled, backend="dmlvk") if is_compiled and where == strict else pooled)(
            given, indices.to(where), offsets.to(where)
        )
        made.square().sum().backward()
        found.append([one.grad.cpu() for one in given])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def check_gradient(strict: str, x: Any, call: Callable[[Any], Any]) -> None:
    """Checks that results and gradients are the CPU's."""
    found = []
    for where in (strict, "cpu"):
        own = x.detach().to(where).requires_grad_()
        made = call(own)
        (made * torch.arange(made.numel()).cos().reshape(made.shape).to(where)).sum().backward()
        found.append([made.detach().cpu(), own.grad.cpu()])
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(4, 5), (5,)])
def test_losses_by_margins_have_gradients(strict: str, reduction: str, shape: tuple[int, ...]) -> None:
    target, weight = torch.randint(0, 5, shape[:-1]), torch.rand(5)
    for p, margin, has_weight in ((1, 1.0, False), (2, 0.4, True)):

        def loss(x: Any, p: int = p, margin: float = margin, has_weight: bool = has_weight) -> Any:
            own = weight.to(x.device) if has_weight else None
            return functional.multi_margin_loss(x, target.to(x.device), p, margin, own, reduction=reduction)

        check_gradient(strict, torch.randn(shape), loss)
    listed = torch.stack([torch.randperm(5) for _ in range(4)])
    listed[range(3), range(0, 5, 2)] = -1  # rows of no, two and four classes, and one of all
    labels = listed[: 4 if len(shape) == 2 else 1].reshape(shape)
    check_gradient(
        strict,
        torch.randn(shape),
        lambda x: functional.multilabel_margin_loss(x, labels.to(x.device), reduction=reduction),
    )


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0.5])
def test_segments_have_gradients(strict: str, reduce: str, initial: float | None) -> None:
    lengths = torch.tensor([2, 0, 3, 1])
    for x in (torch.randn(6), torch.randint(-1, 2, (6, 3)).float()):  # of equal ones, and zeros
        check_gradient(
            strict,
            x,
            lambda x: torch.segment_reduce(x, reduce, lengths=lengths.to(x.device), initial=initial, unsafe=True),
        )
    offsets = torch.tensor([1, 3, 3, 5])  # which leave the first row and the last one out
    check_gradient(
        strict,
        torch.randn(6, 2),
        lambda x: torch.segment_reduce(x, reduce, offsets=offsets.to(x.device), initial=initial, unsafe=True),
    )
