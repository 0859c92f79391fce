"""``torch.optim``'s optimizers on the device beside the CPU's, and training with the same bits on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")  # CI has it in a check of its own

from tests.torch.networks import Transformer, network  # noqa: E402 - needs PyTorch

functional = torch.nn.functional

WAYS = {"plain": {"foreach": False}, "lists": {"foreach": True}, "fused": {"fused": True}}
"""In which PyTorch makes a step: an operator for each tensor, one for all of them, one for the step."""


def losses(make: Callable[[], Any], where: str, way: dict[str, bool]) -> list[float]:
    """Of ten steps of training."""
    torch.manual_seed(1)
    if make is Transformer:
        x = torch.randint(0, 50, (3, 7))
        labels = x.roll(1, 1)
    else:
        x, labels = torch.randn(6, 3, 16, 16), torch.randint(0, 5, (6,))
    torch.manual_seed(3)
    model, x, labels = make().train().to(where), x.to(where), labels.to(where)
    optimizer, seen = torch.optim.Adam(model.parameters(), lr=1e-2, **way), []
    for _ in range(10):
        optimizer.zero_grad()
        made = model(x)
        loss = functional.cross_entropy(made.reshape(-1, made.shape[-1]), labels.reshape(-1))
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


@pytest.mark.parametrize(("make", "way"), [(network, "fused"), (Transformer, "lists")])
def test_ten_steps_follow_the_cpus_losses_with_the_same_bits_on_every_device(make: Callable[[], Any], way: str) -> None:
    found: dict[tuple[float, ...], str] = {}
    for info in dml.list_devices():
        with dml.Device(info.index) as device:
            torch.dmlvk.use(device)
            found[tuple(losses(make, "dmlvk", WAYS[way]))] = info.name
            torch.dmlvk.use(None)
    assert len(found) == 1, found
    wanted = losses(make, "cpu", WAYS[way])
    assert next(iter(found)) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_small_gradients_are_divided_as_in_float64(strict: str, way: str) -> None:
    """With roots of second moments about ``eps``."""
    start = torch.randn(1000)
    own, wanted = torch.nn.Parameter(start.to(strict)), torch.nn.Parameter(start.double())
    optimizer, double = torch.optim.Adam([own], lr=0.1, **WAYS[way]), torch.optim.Adam([wanted], lr=0.1)
    for _ in range(5):
        gradient = torch.randn(1000) * 10.0 ** torch.empty(1000).uniform_(-9, 1)
        own.grad, wanted.grad = gradient.to(strict), gradient.double()
        optimizer.step()
        double.step()
        torch.testing.assert_close(own.cpu().double(), wanted, rtol=0, atol=2e-6)


CHANGES: dict[str, Callable[[Any], object]] = {
    "data.clamp_": lambda p: p.data.clamp_(-0.1, 0.1),
    "data =": lambda p: setattr(p, "data", p.data * 0.5),
    "one element": lambda p: p.data[:1].fill_(3.0),
    "counted": lambda p: p.detach().mul_(0.25),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_changed_between_steps_and_checkpoints_count(strict: str, name: str, way: str) -> None:
    start = [torch.randn(3, 5), torch.randn(7), torch.randn(())]
    parameters = [[torch.nn.Parameter(each.to(where)) for each in start] for where in (strict, "cpu")]
    optimizers = [torch.optim.Adam(each, lr=0.05, weight_decay=0.1, **WAYS[way]) for each in parameters]
    for step in range(5):
        for optimizer, each in zip(optimizers, parameters, strict=True):
            for one in each:
                one.grad = one.detach() * 0.5 + 0.1
            each[-1].grad = None if step % 2 else each[-1].grad
            optimizer.step()
            CHANGES[name](each[0])
        for own, wanted in zip(*parameters, strict=True):
            torch.testing.assert_close(own.cpu(), wanted, rtol=1e-5, atol=1e-6)
        first, second = (optimizer.state_dict() for optimizer in optimizers)
        optimizers[0].load_state_dict(second)
        optimizers[1].load_state_dict(first)
