"""``dmlvk.torch.Adam`` beside PyTorch's, and training with the same bits on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")  # CI has it in a check of its own

import dmlvk.torch  # noqa: E402 - needs PyTorch
from dmlvk.torch.devices import device_for  # noqa: E402
from tests.torch.networks import Transformer, network  # noqa: E402

functional = torch.nn.functional


def batch(make: Callable[[], Any]) -> tuple[Any, Any]:
    torch.manual_seed(1)
    if make is Transformer:
        tokens = torch.randint(0, 50, (3, 7))
        return tokens, tokens.roll(1, 1)
    return torch.randn(6, 3, 16, 16), torch.randint(0, 5, (6,))


def losses(make: Callable[[], Any], device: dml.Device | None, steps: int = 10) -> list[float]:
    """Of training: by dmlvk, optimizer included, or by PyTorch on the CPU."""
    torch._dynamo.reset()
    x, labels = batch(make)
    torch.manual_seed(3)
    model = make().train()
    if device is None:
        run, optimizer = model, torch.optim.Adam(model.parameters(), lr=1e-2)
    else:
        options = {"device": device}
        run = torch.compile(model, backend="dmlvk", options=options)
        optimizer = dmlvk.torch.Adam(model.parameters(), lr=1e-2, options=options)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        made = run(x)
        loss = functional.cross_entropy(made.reshape(-1, made.shape[-1]), labels.reshape(-1))
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("make", [network, Transformer], ids=["network", "transformer"])
def test_ten_steps_follow_the_cpus_losses_with_the_same_bits_on_every_device(make: Callable[[], Any]) -> None:
    wanted = losses(make, None)
    found: dict[tuple[float, ...], str] = {}
    for info in dml.list_devices():
        with dml.Device(info.index) as device:
            found[tuple(losses(make, device))] = info.name
    assert len(found) == 1, found
    for step, (on_cpu, on_device) in enumerate(zip(wanted, next(iter(found)), strict=True)):
        assert on_device == pytest.approx(on_cpu, rel=1e-3), f"step {step}"


def quadratic(optimizer: Any, parameters: list[Any], steps: int) -> None:
    """Steps with gradients that are the parameters, and of the last one only in every second step."""
    for step in range(steps):
        for index, parameter in enumerate(parameters):
            is_left_out = index == len(parameters) - 1 and step % 2
            parameter.grad = None if is_left_out else parameter.detach() * 0.5 + 0.1
        optimizer.step()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_parameters_are_those_of_pytorchs_adam(any_device: dml.Device, weight_decay: float) -> None:
    torch.manual_seed(0)
    start = [torch.randn(3, 5), torch.randn(7), torch.randn(())]
    mine, theirs = ([torch.nn.Parameter(each.clone()) for each in start] for _ in range(2))
    numbers: dict[str, Any] = {"lr": 0.05, "betas": (0.8, 0.99), "weight_decay": weight_decay}
    optimizer = dmlvk.torch.Adam(mine, **numbers, options={"device": any_device})
    quadratic(optimizer, mine, 3)
    torch_optimizer = torch.optim.Adam(theirs, **numbers)
    quadratic(torch_optimizer, theirs, 3)
    torch_optimizer.load_state_dict(optimizer.state_dict())  # checkpoints of one are the other's
    optimizer.load_state_dict(torch_optimizer.state_dict())
    optimizer.param_groups[0]["lr"] = torch_optimizer.param_groups[0]["lr"] = 0.01  # as schedulers do
    with torch.no_grad():
        mine[1].add_(1)
        theirs[1].add_(1)
    quadratic(optimizer, mine, 2)
    quadratic(torch_optimizer, theirs, 2)
    for own, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)


def test_small_gradients_are_divided_as_pytorchs_adam_divides_them(any_device: dml.Device) -> None:
    """With roots of second moments about ``eps``; beside PyTorch's in FLOAT64."""
    torch.manual_seed(0)
    start = torch.randn(1000)
    mine, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.double())
    optimizer = dmlvk.torch.Adam([mine], lr=0.1, options={"device": any_device})
    torch_optimizer = torch.optim.Adam([theirs], lr=0.1)
    for step in range(5):
        mine.grad = torch.randn(1000) * 10.0 ** torch.empty(1000).uniform_(-9, 1)
        theirs.grad = mine.grad.double()
        optimizer.step()
        torch_optimizer.step()
        torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=2e-6, msg=lambda text, n=step: f"{n}: {text}")


CHANGES: dict[str, Callable[[Any], object]] = {
    "data.clamp_": lambda p: p.data.clamp_(-0.1, 0.1),
    "data =": lambda p: setattr(p, "data", p.data * 0.5),
    "numpy": lambda p: p.detach().numpy().__imul__(0.5),
    "one element": lambda p: p.data[:1].fill_(3.0),
    "counted": lambda p: p.detach().mul_(0.25),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_changed_between_steps_is_what_the_next_one_begins_with(name: str, any_device: dml.Device) -> None:
    torch.manual_seed(0)
    start = [torch.randn(3, 5), torch.randn(7)]
    mine, theirs = ([torch.nn.Parameter(each.clone()) for each in start] for _ in range(2))
    optimizer = dmlvk.torch.Adam(mine, lr=0.05, options={"device": any_device})
    torch_optimizer = torch.optim.Adam(theirs, lr=0.05)
    for _ in range(4):
        quadratic(optimizer, mine, 1)
        quadratic(torch_optimizer, theirs, 1)
        for each in (mine, theirs):
            CHANGES[name](each[0])
        for own, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)


def test_a_parameter_of_another_type_than_its_moments_is_an_error(any_device: dml.Device) -> None:
    parameter = torch.nn.Parameter(torch.randn(4))
    optimizer = dmlvk.torch.Adam([parameter], options={"device": any_device})
    quadratic(optimizer, [parameter], 1)
    parameter.data = parameter.data.half()
    parameter.grad = torch.ones(4, dtype=torch.float16)
    with pytest.raises(dml.InvalidArgumentError, match=r"torch\.float16 \[4\], its exp_avg is torch\.float32"):
        optimizer.step()


def test_parameters_are_not_uploaded_again(any_device: dml.Device) -> None:
    torch.compiler.reset()  # or the sizes of other tests' layers are open
    options = {"device": any_device}
    model, x = torch.nn.Linear(8, 4), torch.randn(3, 8)
    run = torch.compile(model, backend="dmlvk", options=options)
    optimizer = dmlvk.torch.Adam(model.parameters(), options=options)
    _, residency = device_for(options)
    for step in range(3):
        before = residency.uploads
        run(x).sum().backward()
        optimizer.step()
        if step:
            assert residency.uploads - before <= 1  # the gradient of the result


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(dml.InvalidArgumentError, match="lr must be at least 0"):
        dmlvk.torch.Adam([torch.zeros(1)], lr=-1.0)
    with pytest.raises(dml.InvalidArgumentError, match="betas must be two numbers"):
        dmlvk.torch.Adam([torch.zeros(1)], betas=(0.9, 1.0))
    with pytest.raises(dml.UnsupportedError, match=r"torch\.float64"):
        dmlvk.torch.Adam([torch.zeros(1, dtype=torch.float64)])
