"""``tensor.to("dmlvk")``: PyTorch's own programs on the device, beside the CPU."""

from __future__ import annotations

import copy
import io
import logging
import pickle
import random
from collections.abc import Iterator
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")  # CI has it in a check of its own

import dmlvk.torch  # noqa: E402 - needs PyTorch
from dmlvk.errors import DataTypeError, DeviceNotFoundError, DmlError, InvalidArgumentError, UnsupportedError  # noqa: E402
from dmlvk.support import faults  # noqa: E402

nn, functional = torch.nn, torch.nn.functional
NAME = "dmlvk"


@pytest.fixture
def on(any_device: dml.Device) -> Iterator[str]:
    """The device's name, with one of the drivers behind it."""
    torch.manual_seed(0)
    torch.dmlvk.use(any_device)
    yield NAME
    torch.dmlvk.use(None)


@pytest.fixture
def strict(on: str) -> Iterator[str]:
    """The same where nothing may be left to the CPU."""
    torch.dmlvk.set_fallback("raise")
    yield on
    torch.dmlvk.set_fallback("warn")


def _views(dice: random.Random, x: Any) -> Any:
    """A view of a view of a tensor."""
    for _ in range(dice.randint(1, 3)):
        if not x.dim():
            break
        axis, other = dice.randrange(x.dim()), dice.randrange(x.dim())
        start = dice.randrange(x.shape[axis])
        kind = dice.randrange(7)
        if kind == 0:
            x = x.transpose(axis, other)
        elif kind == 1:
            x = x.select(axis, start)
        elif kind == 2:
            x = x.narrow(axis, start, x.shape[axis] - start)
        elif kind == 3:
            x = x[(slice(None),) * axis + (slice(start, None, 2),)]
        elif kind == 4:
            x = x.unsqueeze(axis)
        elif kind == 5:
            x = x.diagonal(0, 0, 1) if x.dim() > 1 else x
        elif x.is_contiguous():
            x = x.view(-1)
    return x


@pytest.mark.parametrize("seed", range(4))
def test_what_is_changed_in_place_is_seen_through_every_view(strict: str, seed: int) -> None:
    dice = random.Random(seed)
    shape = [dice.randint(1, 5) for _ in range(dice.randint(1, 4))]
    here = torch.randint(-9, 9, shape).to(dice.choice([torch.float32, torch.int32]))
    there = here.to(strict)
    pairs = [(here, there)]
    for _ in range(14):
        a, b = dice.choice(pairs)
        way = dice.getrandbits(40)
        a, b = (_views(random.Random(way), x) for x in (a, b))
        assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
        pairs.append((a, b))
        (x, y), kind, number = dice.choice(pairs), dice.randrange(5), dice.randrange(9)
        for each, all_of in ((a, here), (b, there)):
            if kind == 0:
                each.add_(number)
            elif kind == 1:
                each.fill_(number)
            elif kind == 2:
                each.mul_(all_of.sum() % 3)
            elif kind == 3:
                each[...] = -each
            else:
                each.copy_((x if all_of is here else y).sum().to(each.dtype))
    for a, b in pairs:
        assert torch.equal(a, b.cpu())


class _Block(torch.nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.heads, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.wide = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: Any) -> Any:
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.heads(self.norm(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.wide(x)


class _Language(torch.nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 16), nn.Embedding(6, 16)
        self.blocks, self.head = _Block(), nn.Linear(16, 11)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))))


def _trained(model: Any, where: str, kind: Any, **named: Any) -> tuple[list[float], list[Any]]:
    """Losses of four steps, and the parameters then."""
    model = copy.deepcopy(model).to(where)
    optimizer = kind(model.parameters(), **named)
    data = torch.arange(24).reshape(4, 6).to(where) % 11
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(data).flatten(0, 1), ((data + 1) % 11).flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("AdamW", {"lr": 1e-2, "eps": 1e-2}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ],
)
def test_optimizers_of_pytorch_train_wholly_on_the_device(strict: str, kind: str, named: dict[str, Any]) -> None:
    model = _Language()
    wanted, weights = _trained(model, "cpu", getattr(torch.optim, kind), **named)
    losses, found = _trained(model, strict, getattr(torch.optim, kind), **named)
    assert losses == pytest.approx(wanted, abs=1e-4) and losses[-1] < losses[0]
    assert all(torch.allclose(a, b, atol=2e-4) for a, b in zip(found, weights, strict=True))


def test_a_step_with_convolutions_and_batch_norm_counts_as_on_the_cpu(strict: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    x, found = torch.randn(4, 3, 8, 8), copy.deepcopy(model).to(strict)
    for each, where in ((model, "cpu"), (found, strict)):
        for _ in range(2):
            each(x.to(where)).square().sum().backward()
    for (name, a), b in zip(model.state_dict().items(), found.state_dict().values(), strict=True):
        assert torch.allclose(a.float(), b.cpu().float(), atol=1e-5), name
    for a, b in zip(model.parameters(), found.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad.cpu(), rtol=1e-3, atol=1e-4)


def test_eager_and_compiled_programs_have_the_same_bits(strict: str, any_device: dml.Device) -> None:
    torch._dynamo.reset()
    model, data = _Language().eval(), torch.arange(12).reshape(2, 6) % 11
    with torch.no_grad():
        compiled = torch.compile(model, backend="dmlvk", options={"device": any_device})(data)
        eager = copy.deepcopy(model).to(strict)(data.to(strict))
    assert torch.equal(eager.cpu(), compiled)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_and_their_gradients_are_on_the_device(strict: str, kind: str) -> None:
    layer, x = getattr(nn, kind)(3, 4), torch.randn(2, 2, 3)
    found = copy.deepcopy(layer).to(strict)
    (layer(x)[0] * 2).square().sum().backward()
    (found(x.to(strict))[0] * 2).square().sum().backward()
    for (name, a), b in zip(layer.named_parameters(), found.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad.cpu(), rtol=1e-4, atol=1e-5), name


_SPECIAL: dict[str, Any] = {
    "erfc": torch.special.erfc,
    "erfinv": lambda x: torch.special.erfinv(x / 10),
    "lgamma": torch.lgamma,
    "copysign": lambda x: torch.copysign(x.abs(), x.flip(0)),
    "fmax": lambda x: torch.fmax(torch.where(x > 2, torch.nan, x), x.flip(0)),
    "cumprod": lambda x: (x / 4).cumprod(0),
    "cummax": lambda x: torch.cummax(x.sin(), 0).values,
    "cummin": lambda x: torch.cummin(torch.where(x > 8, torch.nan, x.sin()), 0).indices,
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 0),
    "kthvalue": lambda x: x.sin().kthvalue(17, 0).indices,
    "median": lambda x: torch.stack([x.sin().median(), torch.where(x > 8, torch.nan, x).median()]),
    "nanmedian": lambda x: torch.where(x > 8, torch.nan, x).nanmedian(),
    "hypot": lambda x: torch.hypot(x, x.flip(0) * 3),
}


@pytest.mark.parametrize("name", _SPECIAL)
def test_special_functions_are_as_near_as_floats_are(strict: str, name: str) -> None:
    x = torch.linspace(-9.97, 9.91, 193)
    wanted, found = _SPECIAL[name](x.double()), _SPECIAL[name](x.to(strict)).cpu()
    near = wanted.abs().clamp(min=1) if wanted.is_floating_point() else 1
    assert found.isnan().equal(wanted.isnan())
    assert float(((found.double() - wanted).abs() / near).nan_to_num().max()) < 1e-5


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_training_with_autocast_and_a_scaler_learns_as_on_the_cpu(strict: str, half: str) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
    x, y, losses = torch.randn(5, 8), torch.randint(0, 4, (5,)), dict[str, list[float]]()
    for where in ("cpu", strict):
        own = copy.deepcopy(model).to(where)
        optimizer = torch.optim.SGD(own.parameters(), 0.1)
        scaler = torch.amp.GradScaler(where, init_scale=64.0, growth_interval=2)
        losses[where] = []
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast(where, dtype=getattr(torch, half)):
                given = own(x.to(where))
                loss = functional.cross_entropy(given, y.to(where))
            assert given.dtype is getattr(torch, half)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses[where].append(loss.item())
        assert scaler.get_scale() == 128.0
    assert losses[strict] == pytest.approx(losses["cpu"], abs=5e-3)


def test_numbers_that_change_need_no_other_graphs(strict: str, any_device: dml.Device) -> None:
    x = torch.ones(5, device=strict)
    kept = any_device.arrays.programs._kept["program"]
    counts = []
    for step in range(1, 7):
        x.mul_(1.0 / step + 0.3).item() if x.dim() == 0 else x.mul_(1.0 / step + 0.3)
        x.cpu()
        counts.append(len(kept))
    assert counts[1] == counts[-1]


def test_what_the_device_lacks_is_told_once_or_refused(on: str, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.eye(3, device=on) * 2
    with caplog.at_level(logging.WARNING, "dmlvk"):
        before = torch.dmlvk.fallbacks().get("linalg_inv_ex.inverse", 0)
        for _ in range(2):
            assert torch.equal(torch.linalg.inv(x).cpu(), torch.eye(3) / 2)
    torch.dmlvk.set_fallback("raise")
    try:
        with pytest.raises(UnsupportedError, match="linalg_inv"):
            torch.linalg.inv(x)
    finally:
        torch.dmlvk.set_fallback("warn")
    assert caplog.text.count("the CPU computes linalg_inv") <= 1 and sum(torch.dmlvk.fallbacks().values()) > before


def test_what_pytorch_refuses_is_one_error(on: str, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.ones(3, 4, device=on)
    with pytest.raises(RuntimeError, match="3x4 and 3x4"):
        torch.mm(x, x)
    assert caplog.text == ""


def test_a_fault_of_a_decomposition_is_no_refusal(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmlvk.torch.special.math", None)
    x = torch.ones(3, 5, device=on)
    with pytest.raises(faults.FaultError, match=r"tracing hypot\.default: AttributeError"):
        torch.hypot(x, x)
    faults.reported.clear()


def test_types_and_devices_are_refused_by_name(strict: str) -> None:
    x = torch.ones(3, device=strict)
    for dtype in (torch.float64, torch.complex64, torch.uint16):
        with pytest.raises(DataTypeError, match=str(dtype).removeprefix("torch.")):
            torch.ones(2, dtype=dtype, device=strict)
        with pytest.raises(DataTypeError, match=str(dtype).removeprefix("torch.")):
            torch.ones(2, dtype=dtype).to(strict)
    with pytest.raises(InvalidArgumentError, match="one device"):
        x + torch.ones(3)
    with pytest.raises(DeviceNotFoundError, match="number 0"):
        torch.ones(2, device="dmlvk:1")
    with pytest.raises(InvalidArgumentError, match="several elements"):
        x[:1].expand(4).add_(1)
    assert torch.equal((x + torch.tensor(2.0)).cpu(), torch.full((3,), 3.0))  # a number, wherever it is
    assert x.cpu().tolist() == [1.0] * 3


def test_tensors_are_saved_loaded_copied_and_printed(strict: str) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(strict)
    held = io.BytesIO()
    torch.save(model.state_dict(), held)
    for where in (strict, "cpu", None):
        held.seek(0)
        for name, value in torch.load(held, map_location=where).items():
            assert value.device.type == (where or strict)
            assert torch.equal(value.cpu(), model.state_dict()[name].cpu())
    again = pickle.loads(pickle.dumps(model[0].weight))
    assert torch.equal(again.cpu(), model[0].weight.cpu()) and again.requires_grad
    twin = copy.deepcopy(model)
    twin[1].running_mean.add_(1)
    assert not torch.equal(twin[1].running_mean.cpu(), model[1].running_mean.cpu())
    x = torch.arange(4, device=strict, dtype=torch.bfloat16).reshape(2, 2).t()
    held = io.BytesIO()
    torch.save([x, x[0]], held)
    held.seek(0)
    whole, part = torch.load(held)
    part.zero_()
    assert whole.cpu().tolist() == [[0, 0], [1, 3]] and whole.dtype is torch.bfloat16
    assert repr(x) == "tensor([[0., 2.],\n        [1., 3.]], device='dmlvk:0', dtype=torch.bfloat16)"


def test_tensors_of_a_closed_device_are_refused(any_device: dml.Device) -> None:
    with dml.Device(any_device.info.index) as device:
        torch.dmlvk.use(device)
        x = torch.ones(3).to(NAME)
        waiting = x + 1
    try:
        for call in (waiting.cpu, lambda: x + 1, x.cpu):
            with pytest.raises(DmlError):
                call()
    finally:
        torch.dmlvk.use(None)
    assert (torch.ones(2, device=NAME) + 1).tolist() == [2, 2]
