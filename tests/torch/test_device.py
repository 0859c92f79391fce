"""``tensor.to("dmlvk")``: PyTorch's own programs on the device, beside the CPU."""

from __future__ import annotations

import copy
import io
import logging
import math
import pickle
import random
import re
from pathlib import Path
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")  # CI has it in a check of its own

import dmlvk.torch  # noqa: E402 - needs PyTorch
from dmlvk.errors import DataTypeError, DeviceNotFoundError, DmlError, InvalidArgumentError, UnsupportedError  # noqa: E402
from dmlvk.support import faults  # noqa: E402

nn, functional = torch.nn, torch.nn.functional
NAME = "dmlvk"


def _views(dice: random.Random, x: Any) -> Any:
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
        self.head.weight = self.words.weight

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
    ("kind", "named"), [("AdamW", {"lr": 1e-2, "eps": 1e-2}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True})]
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


_OF_DATA: dict[str, Any] = {
    "nonzero": lambda x: x.gt(4).nonzero(),
    "mask": lambda x: x[x > 4],
    "row mask": lambda x: x[:, x[0] > 4],
    "put by mask": lambda x: x.clone().index_put_((x > 4,), x[x > 4] * 2),
    "unique": lambda x: torch.cat([one.flatten() for one in torch.unique(x, return_inverse=True, return_counts=True)]),
    "unique rows": lambda x: torch.unique(x % 2, dim=0),
    "unique_consecutive": lambda x: torch.unique_consecutive(x.flatten()),
    "unique_consecutive rows": lambda x: torch.unique_consecutive(x % 1, dim=0),
    "bincount": lambda x: torch.bincount(x.flatten(), x.flatten().float(), minlength=12),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, x[:, 0], dim=0),
    "gcd": lambda x: torch.gcd(x * 9699690 - 7, 4 - x.T[:6, :1] * 223092870) + torch.lcm(x - 4, x[:1]),
    "histc": lambda x: torch.histc(x.float(), 5),
    "mode": lambda x: x.mode(0).values,
    "searchsorted": lambda x: torch.searchsorted(x.sort(-1).values, x, right=True),
    "quantile": lambda x: torch.quantile(x.float(), torch.tensor([0.2, 0.9], device=x.device), 1),
    "legendre": lambda x: torch.special.legendre_polynomial_p((x / 9).float(), x % 5),
}


@pytest.mark.parametrize("name", _OF_DATA)
def test_what_depends_on_data_is_found_on_the_device(strict: str, name: str) -> None:
    x = torch.randint(0, 9, (6, 7))
    wanted, found = _OF_DATA[name](x), _OF_DATA[name](x.to(strict)).cpu()
    assert found.shape == wanted.shape and torch.allclose(found, wanted, atol=1e-5)


def test_batch_norm_of_inference_is_on_the_device(strict: str) -> None:
    layer = nn.BatchNorm2d(3).eval()
    layer.running_mean, layer.running_var = torch.randn(3), torch.rand(3) + 0.5
    x = torch.randn(2, 3, 4, 5)
    wanted = layer(x)
    assert torch.allclose(layer.to(strict)(x.to(strict)).cpu(), wanted, atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.5, math.inf])
def test_distances_and_their_gradients_are_on_the_device_by_any_norm(strict: str, p: float) -> None:
    x, found = torch.randn(2, 5, 3), []
    for where in ("cpu", strict):
        own = x.detach().to(where).requires_grad_()
        made = torch.cdist(own[:, :4], own.flip(0), p)
        (made * torch.arange(20.0).cos().reshape(4, 5).to(where)).sum().backward()
        functional.pdist(own[0], p).square().sum().backward()
        found.append(torch.cat([own.grad.cpu().flatten(), made.detach().cpu().flatten()]))
    assert torch.allclose(*found, rtol=1e-4, atol=1e-5)


_DRAWN: dict[str, Any] = {
    "bernoulli": torch.bernoulli,
    "bernoulli_": lambda x: torch.zeros_like(x).bernoulli_(x),
    "multinomial": lambda x: torch.multinomial(x, 1),
    "without replacement": lambda x: torch.multinomial(x, 5),
    "with replacement": lambda x: torch.multinomial(x, 20, replacement=True),
    "normal": lambda x: torch.normal(x, x) + torch.normal(x, 2.0) + torch.normal(0.5, x),
}


@pytest.mark.parametrize("name", _DRAWN)
def test_what_is_drawn_is_what_the_cpu_draws(strict: str, name: str) -> None:
    x, found = torch.rand(4, 7), []
    for where in ("cpu", strict):
        torch.manual_seed(3)
        found.append(_DRAWN[name](x.to(where)).cpu())
        with pytest.raises(RuntimeError):
            _DRAWN[name]((x - 2).to(where))
    assert torch.allclose(found[0], found[1], atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("largest", [True, False])
def test_nan_is_the_largest_and_zeros_are_equal_in_order(strict: str, dtype: Any, largest: bool) -> None:
    odd = torch.tensor([math.nan, -math.nan, 0.0, -0.0, math.inf, -math.inf, 1e-40, -1e-40, 1.0])
    x = odd[torch.randint(0, len(odd), (5, 40))].to(dtype)
    for dim in (0, 1):
        values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
        for made in (
            torch.sort(x.to(strict), dim=dim, descending=largest, stable=True),
            torch.topk(x.to(strict), x.shape[dim], dim=dim, largest=largest),
        ):
            assert torch.equal(made.indices.cpu(), places)
            assert torch.equal(made.values.cpu().nan_to_num(7), values.nan_to_num(7))


_AT_EDGES: dict[str, Any] = {
    "cat": lambda x: torch.cat([x.new_zeros(0), x, x[:0], x], -2),
    "split": lambda x: torch.cat(torch.split_with_sizes_copy(x, [4, 0, 7])),
    "cat of one": lambda x: torch.cat([x[:, :0], x], 1),
    "cat of types": lambda x: torch.cat([x.half()[:0], x[:1].long()]),
    "products of none": lambda x: torch.addmm(x[0], x[:, :0], x[:0], beta=2) + x[:, :0] @ x[:0],
    "scatter none": lambda x: x.scatter(0, x[:0].long(), 1.0).index_add(0, x[:0, 0].long(), x[:0]),
    "fill none": lambda x: x.index_fill(0, x[:0, 0].long(), 2.0),
    "variance of one": lambda x: torch.stack([x[0, 0].var(), x[:1, 0].std(), x[:2, 0].var(correction=3)]),
    "isin none": lambda x: torch.isin(x.long(), x[:0]) | (x[:, None, :0] > 0).any((1, 2), keepdim=True)[:, 0],
    "quantile of one": lambda x: torch.quantile(x[0, 0], 0.5, dim=0) + torch.nanquantile(x[0, 0], 0.5),
    "rank": lambda x: torch.linalg.matrix_rank(x[:0]),
    "shifts": lambda x: torch.stack(
        [(x.to(t) - 9 << 1) + (x.to(t) * 5 >> x.to(t) % 70 - 2) for t in (torch.int64, torch.int32, torch.int8)]
    ),
    "bincount": lambda x: torch.bincount(x[:0, 0].long(), minlength=2),
    "repeats": lambda x: torch.repeat_interleave(x, torch.arange(11, device=x.device), dim=0),
    "unique": lambda x: torch.unique(x[:0], return_inverse=True)[1],
    "unique rows": lambda x: torch.unique(x[:0], dim=0),
    "nonzero_static": lambda x: torch.nonzero_static(x[:0], size=3),
    "unique one": lambda x: torch.unique(x * 0, return_counts=True)[1],
    "mean of one segment": lambda x: torch.segment_reduce(
        x, "mean", lengths=torch.tensor([11], device=x.device), unsafe=True
    ),
    "mode of one": lambda x: x[:1].mode(0).values,
    "new_full": lambda x: x[:0].new_full((2,), 3.0),
    "median": lambda x: x[:0].median(),
    "matrix_exp": lambda x: torch.matrix_exp(x[:2, :2] * math.nan),
    "matrix_exp of none": lambda x: torch.matrix_exp(x[:0, :0]),
    "polygamma": lambda x: torch.polygamma(1, x * math.inf),
    "legendre": lambda x: torch.special.legendre_polynomial_p(x, x * math.nan),
    "midpoint": lambda x: torch.quantile(x, 0.5, 0, interpolation="midpoint"),
    "higher": lambda x: torch.quantile(x[:, 0], 0.1, interpolation="higher"),
    "lower": lambda x: torch.quantile(x[:, 0], torch.tensor(0.7, device=x.device), interpolation="lower"),
}


@pytest.mark.parametrize("name", _AT_EDGES)
def test_what_is_empty_or_no_number_is_as_on_the_cpu(strict: str, name: str) -> None:
    x = torch.arange(1.0, 34).reshape(11, 3)
    wanted, found = _AT_EDGES[name](x), _AT_EDGES[name](x.to(strict)).cpu()
    assert found.shape == wanted.shape and torch.allclose(found, wanted, equal_nan=True)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("conv2d", {"stride": 2, "padding": 1, "groups": 2}),
        ("conv1d", {"dilation": 2, "groups": 3}),
        ("conv3d", {"padding": 1}),
        ("conv_transpose2d", {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
        ("conv_transpose1d", {"stride": 3, "output_padding": 2}),
    ],
)
def test_gradients_of_convolutions_of_all_kinds(strict: str, kind: str, named: dict[str, Any]) -> None:
    groups, spatial = named.get("groups", 1), int(kind[-2])
    sizes = (2 * groups, 3) if "transpose" in kind else (3 * groups, 2)
    given = [torch.randn(2, 2 * groups, *[7] * spatial), torch.randn(*sizes, *[3] * spatial), torch.randn(3 * groups)]
    found = []
    for where in ("cpu", strict):
        own = [one.detach().to(where).requires_grad_() for one in given]
        getattr(functional, kind)(*own, **named).square().sum().backward()
        found.append([one.grad.cpu() for one in own])
    for wanted, made in zip(*found, strict=True):
        assert torch.allclose(made, wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


def test_an_interrupted_step_of_an_optimizer_changes_nothing(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = [nn.Parameter(torch.randn(3).to(strict)) for _ in range(2)]
    optimizer = torch.optim.AdamW(parameters)

    def step() -> None:
        for one in parameters:
            one.grad = torch.ones_like(one)
        optimizer.step()

    def seen() -> list[Any]:
        states = [optimizer.state[one] for one in parameters]
        return [one.detach().cpu().tolist() for one in (*parameters, *(x for state in states for x in state.values()))]

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    step()
    before = seen()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "_foreach_addcdiv_", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step()
    assert seen() == before
    step()
    assert seen() != before


def test_an_interrupted_search_of_lbfgs_keeps_its_lists(strict: str) -> None:
    x = nn.Parameter(torch.tensor([3.0, -1.0]).to(strict))
    optimizer, calls = torch.optim.LBFGS([x], max_iter=4, lr=0.1), 0

    def loss() -> Any:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt
        optimizer.zero_grad()
        made = (x * x * x * x).sum()
        made.backward()
        return made

    optimizer.step(loss)
    before = len(optimizer.state[x]["old_dirs"]), x.tolist()
    with pytest.raises(KeyboardInterrupt):
        optimizer.step(loss)
    assert (len(optimizer.state[x]["old_dirs"]), x.tolist()) == before and before[0]


def test_parts_that_are_written_one_after_the_other_share_a_plan(strict: str, any_device: dml.Device) -> None:
    cache, x = torch.zeros(3, 8, device=strict), torch.ones(3, device=strict)
    kept, counts = any_device.arrays.programs._kept["graph"], []
    for n in range(8):
        cache[:, n] = x * float(n)
        assert cache[0].cpu().tolist() == [*range(n + 1), *[0] * (7 - n)]
        counts.append(len(kept))
    assert counts[3] == counts[-1]


_SPECIAL: dict[str, Any] = {
    "digamma": torch.digamma,
    "i0e": torch.special.i0e,
    "j1": torch.special.bessel_j1,
    "y0": lambda x: torch.special.bessel_y0(x.abs()),
    "k1": lambda x: torch.special.modified_bessel_k1(x.abs()),
    "log_ndtr": torch.special.log_ndtr,
    "ndtri": lambda x: torch.special.ndtri(x / 22 + 0.5),
    "zeta": lambda x: torch.special.zeta(x.abs() + 1.1, x.flip(0).abs() + 0.5),
    "polygamma": lambda x: torch.polygamma(2, x.abs() + 0.1),
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
    kept = any_device.arrays.programs._kept["graph"]
    counts = []
    for step in range(1, 7):
        x.mul_(1.0 / step + 0.31).cpu()  # none is a number for which operators have graphs of their own, such as 0.5
        counts.append(len(kept))
    assert len(set(counts[1:])) == 1, counts


def test_numbers_beside_float16_have_the_bits_of_constants(strict: str) -> None:
    x, y, z = (torch.randn(500).half().to(strict) for _ in range(3))
    constant = torch.addcdiv(x, y, z, value=0.31).cpu()
    torch.addcdiv(x, y, z, value=0.47).cpu()  # from here on numbers are operands
    assert constant.equal(torch.addcdiv(x, y, z, value=0.31).cpu())


def test_float16_is_normalized_by_numbers_that_change(strict: str) -> None:
    x = torch.randn(3, 8).half()
    for eps in (1e-5, 1e-3, 0.25):
        found = torch.nn.functional.layer_norm(x.to(strict), (8,), eps=eps).cpu()
        torch.testing.assert_close(found, torch.nn.functional.layer_norm(x, (8,), eps=eps), rtol=2e-3, atol=1e-3)


def test_what_the_device_lacks_is_told_once_or_refused(on: str, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.eye(3, device=on) * 2
    with caplog.at_level(logging.WARNING, "dmlvk"):
        before = sum(torch.dmlvk.fallbacks().values())
        for _ in range(2):
            assert torch.equal(torch.special.airy_ai(x).cpu(), torch.special.airy_ai(x.cpu()))
    torch.dmlvk.set_fallback("raise")
    try:
        with pytest.raises(UnsupportedError, match="special_airy_ai"):
            torch.special.airy_ai(x)
    finally:
        torch.dmlvk.set_fallback("warn")
    assert caplog.text.count("the CPU computes special_airy_ai") == 1
    assert sum(torch.dmlvk.fallbacks().values()) > before


_LACKING: dict[str, Any] = {
    "airy_ai": torch.special.airy_ai,
    "binomial": lambda x: torch.binomial(x.abs().ceil(), x.sigmoid()),
    "ctc_loss": lambda x: functional.ctc_loss(
        x.log_softmax(1)[:, None], torch.ones(1, 2, dtype=torch.int64, device=x.device), [4], [2]
    ),
    "fractional_max_pool2d": lambda x: functional.fractional_max_pool2d(x[None], 2, 2),
    "fractional_max_pool3d": lambda x: functional.fractional_max_pool3d(x.reshape(1, 4, 2, 2), (2, 1, 1), (2, 1, 1)),
    "grid_sampler_3d": lambda x: functional.grid_sample(
        x.reshape(1, 1, 1, 4, 4), x.new_zeros(1, 1, 1, 1, 3), align_corners=False
    ),
    "histogram": lambda x: torch.histogram(x, 3),
    "igamma": lambda x: torch.igamma(x.abs(), x.abs()),
    "igammac": lambda x: torch.igammac(x.abs(), x.abs()),
    "ldl_factor": torch.linalg.ldl_factor,
    "ldl_solve": lambda x: torch.linalg.ldl_solve(x, torch.arange(1, 5, dtype=torch.int32, device=x.device), x),
    "nextafter": lambda x: torch.nextafter(x, x),
    "poisson": lambda x: torch.poisson(x.abs()),
    "rrelu_with_noise": lambda x: functional.rrelu(x, training=True),
    "sample_dirichlet": lambda x: torch._sample_dirichlet(x.abs()),
    "standard_gamma": lambda x: torch._standard_gamma(x.abs()),
    "complex": lambda x: torch.complex(x, x),
    "eig": torch.linalg.eig,
    "rfft": torch.fft.rfft,
    "stft": lambda x: torch.stft(x[0], 4, return_complex=True),
}


def test_the_page_lists_what_the_device_lacks(strict: str) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/pytorch.md").read_text(encoding="utf-8")
    listed = page[page.index("Lacking are ") : page.index(", and what else needs complex")]
    assert re.findall(r"`(\w+)`", listed) == list(_LACKING)
    x = torch.randn(4, 4).to(strict)
    for name, call in _LACKING.items():
        try:
            call(x)
        except DmlError:
            continue
        pytest.fail(f"{name}: the device has it")


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
    for made in (torch.eye(3).to_sparse(), torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8)):
        with pytest.raises(UnsupportedError, match=r"sparse|quantized"):
            made.to(strict)
    with pytest.raises(UnsupportedError, match="sparse"):
        x.to_sparse()
    with pytest.raises(InvalidArgumentError, match="one device"):
        x + torch.ones(3)
    with pytest.raises(DeviceNotFoundError, match="number 0"):
        torch.ones(2, device="dmlvk:1")
    with pytest.raises(InvalidArgumentError, match="several elements"):
        x[:1].expand(4).add_(1)
    assert torch.equal((x + torch.tensor(2.0)).cpu(), torch.full((3,), 3.0))  # a number, wherever it is
    assert x.cpu().tolist() == [1.0] * 3


def test_tensors_are_saved_loaded_copied_and_printed(strict: str) -> None:
    assert torch.ones(2, 3, device=strict).is_same_size(torch.zeros(2, 3, device=strict))
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
