"""``torch.compile`` of what lives on PyTorch's device: results are there, with the bits of the same operators eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from dmlvk.errors import DeviceNotFoundError

torch = pytest.importorskip("torch")  # CI has it in a check of its own

import dmlvk.torch  # noqa: E402 - needs PyTorch

nn, functional = torch.nn, torch.nn.functional
assert dmlvk.torch  # importing it registers the device


def _in_place(x: Any, y: Any) -> Any:
    x[1] = y
    x[:, 0].add_(1)
    return x.sum()


_FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "product": (lambda x, w: functional.gelu(x @ w) + 1, ((4, 8), (8, 3))),
    "normalization": (lambda x, w, b: functional.layer_norm(x, (8,), w, b).softmax(-1), ((4, 8), (8,), (8,))),
    "convolution": (
        lambda x, w: functional.max_pool2d(functional.relu(functional.conv2d(x, w, padding=1)), 2),
        ((2, 3, 8, 8), (4, 3, 3, 3)),
    ),
    "attention": (
        lambda *qkv: functional.scaled_dot_product_attention(*qkv, is_causal=True),
        ((2, 2, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)),
    ),
    "views of arguments": (lambda x: (x.t(), x[0], x.view(-1)), ((4, 8),)),
    "views of results": (lambda x, y: ((x * 2).t(), (y * 3).expand(2, 4, 8)), ((4, 8), (4, 8))),
    "the same result twice, and an argument": (lambda x: [x, (y := x * 2), y], ((3, 4),)),
    "changes in place": (_in_place, ((3, 4), (4,))),
    "own tensors": (lambda x: x + torch.arange(4, device=x.device) + x.new_ones(4), ((3, 4),)),
    "a number of the CPU": (lambda x: x * torch.tensor(2.5) + x.shape[1] ** -0.5, ((3, 4),)),
    "sizes that depend on data": (lambda x: x[x > 0].sum() * (x.sum().item() > -100), ((3, 4),)),
    "several types": (lambda x: ((x.half() * 2).float(), x.bfloat16() * 3, x > 0, x.topk(2)[1]), ((3, 4),)),
    "without elements": (lambda x, y: (torch.cat([x, y]) * 2, y * 2), ((3, 4), (0, 4))),
    "to the CPU and back": (lambda x: (x * 2).cpu().to(x.device) * 3, ((3, 4),)),
}
_CHANGES = {"changes in place"}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_function_has_the_bits_that_it_has_uncompiled(strict: str, name: str, dynamic: bool) -> None:
    function, shapes = _FUNCTIONS[name]
    torch.manual_seed(5)
    arguments = [torch.randn(shape) for shape in shapes]
    compiled = torch.compile(function, backend="dmlvk", dynamic=dynamic)
    results = [_results(each, arguments, strict, changes=name in _CHANGES) for each in (function, compiled)]
    wanted = _results(function, arguments, "cpu", changes=name in _CHANGES)
    for eager, made, on_cpu in zip(*results, wanted, strict=True):
        assert made.device.type == strict and made.dtype is on_cpu.dtype and made.stride() == eager.stride()
        if name != "views of arguments":  # whose gradients autograd adds up in another order, with any backend
            assert torch.equal(made.cpu(), eager.cpu())
        torch.testing.assert_close(made.cpu(), on_cpu, rtol=1e-4, atol=1e-5)


def _results(function: Callable[..., Any], arguments: Any, where: str, *, changes: bool) -> list[Any]:
    """Results, the arguments afterwards, and gradients."""
    own = [one.to(where, copy=True).requires_grad_(not changes) for one in arguments]
    made = function(*own)
    results = list(made) if isinstance(made, (list, tuple)) else [made]
    losses = [one.float().square().sum() for one in results if one.requires_grad and one.grad_fn is not None]
    if losses:
        sum(losses).backward()
    return [one.detach() for one in (*results, *own)] + [one.grad for one in own if one.grad is not None]


_MODULES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "batch norm": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)),
        (4, 3, 8, 8),
    ),
    "dropout": (lambda: nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 2)), (4, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (2, 5, 16)),
}


@pytest.mark.parametrize("name", _MODULES)
def test_training_has_the_bits_that_it_has_uncompiled(strict: str, name: str) -> None:
    make, shape = _MODULES[name]
    module, x, found = make(), torch.randn(shape, device=strict), []
    for compiles in (False, True):
        own = copy.deepcopy(module).to(strict)
        optimizer = torch.optim.AdamW(own.parameters(), 1e-2)
        called = torch.compile(own, backend="dmlvk") if compiles else own
        torch.manual_seed(3)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = called(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found.append((losses, [one.cpu() for one in own.state_dict().values()]))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(one, other) for one, other in zip(found[0][1], found[1][1], strict=True))


_DRAWING: dict[str, Callable[[], Any]] = {
    "dropout": lambda: nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.Tanh()),
    "two results": lambda: nn.Sequential(nn.Linear(6, 6), nn.RReLU(), nn.Tanh()),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize("name", _DRAWING)
def test_a_checkpoint_has_the_random_numbers_of_its_first_run(
    on: str, name: str, is_moved: bool, dynamic: bool
) -> None:
    where = on if is_moved else "cpu"
    module = _DRAWING[name]().to(where)
    x = torch.randn(4, 6).to(where).requires_grad_()

    def loss(a: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(module, a, use_reentrant=False).square().sum()

    found = []
    for called in (loss, torch.compile(loss, backend="dmlvk", fullgraph=True, dynamic=dynamic)):
        torch.manual_seed(3)
        losses = [called(x) for _ in range(2)]  # both before the first gradient, which must not draw the second's
        gradients = [torch.autograd.grad(each, (x, *module.parameters())) for each in losses]
        found.append([one.cpu() for one in (*losses, *gradients[0], *gradients[1], torch.rand(2))])
    for eager, made in zip(*found, strict=True):
        torch.testing.assert_close(made, eager, **({"rtol": 0, "atol": 0} if is_moved else {}))


_OF_DATA: dict[str, Callable[..., Any]] = {
    "item": lambda x: x * x.sum().item(),
    "numbers of items": lambda x: x * (x.sum().item() * 2 + 1) + abs(x.mean().item()) ** 0.5,
    "a comparison of FLOAT64": lambda x: torch.where(x.sum().double() > 0, x, -x),
    "chosen elements": lambda x: (x[x > 0] * 2).sum(),
    "a result of open size": lambda x: x[x > 0] * 2,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize("name", _OF_DATA)
def test_what_depends_on_data_is_in_one_graph(on: str, name: str, is_moved: bool, dynamic: bool) -> None:
    function = _OF_DATA[name]
    captures = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(captures):
        compiled = torch.compile(function, backend="dmlvk", fullgraph=True, dynamic=dynamic)
        for _ in range(2):
            x = torch.randn(3, 4).to(on if is_moved else "cpu").requires_grad_()
            results = [each(x) for each in (function, compiled)]
            gradients = [torch.autograd.grad(each.sum(), x)[0] for each in results]
            for eager, made in (results, gradients):
                assert made.device == eager.device
                torch.testing.assert_close(made.cpu(), eager.cpu(), rtol=1e-6, atol=1e-6)


def test_one_graph_serves_calls_of_one_form(strict: str, any_device: Any) -> None:
    compiled = torch.compile(lambda x: (x * 3).softmax(-1) @ x.t(), backend="dmlvk")
    kept = any_device.arrays.programs._kept["graph"]
    counts = []
    for _ in range(4):
        compiled(torch.randn(3, 4, device=strict)).cpu()
        counts.append(len(kept))
    assert len(set(counts)) == 1, counts


def test_what_the_device_lacks_is_the_cpus_with_its_warning(on: str, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(3, device=on)
    before = sum(torch.dmlvk.fallbacks().values())
    made = torch.compile(lambda x: torch.special.airy_ai(x * 2) + 1, backend="dmlvk")(x)
    assert made.device.type == on and torch.equal(made.cpu(), torch.special.airy_ai(x * 2).cpu() + 1)
    assert sum(torch.dmlvk.fallbacks().values()) > before


def test_options_that_choose_a_device_are_for_tensors_of_the_cpu(on: str) -> None:
    compiled = torch.compile(lambda x: x + 1, backend="dmlvk", options={"arithmetic": "device"})
    with pytest.raises(Exception, match=r"InvalidArgumentError: .* are for tensors of the CPU"):
        compiled(torch.ones(3, device=on))


def test_memory_is_counted_as_torch_accelerator_asks(strict: str) -> None:
    before = torch.dmlvk.memory_allocated()
    x = torch.ones(1000, device=strict)
    torch.accelerator.synchronize()
    y = torch.ones(100_000, device=strict).sum().item()
    assert y == 100_000 and torch.dmlvk.memory_allocated() - before >= x.nbytes
    assert torch.accelerator.memory_allocated() == torch.dmlvk.memory_allocated()
    assert torch.accelerator.max_memory_reserved() >= torch.dmlvk.max_memory_allocated()
    del x
    torch.dmlvk.empty_cache()
    torch.dmlvk.reset_peak_memory_stats()
    assert torch.dmlvk.max_memory_allocated() == torch.dmlvk.memory_allocated() <= before + 4096
    for other in ("cpu", "dmlvk:1", 1):
        with pytest.raises(DeviceNotFoundError):
            torch.dmlvk.memory_allocated(other)
    free, total = torch.dmlvk.mem_get_info()
    assert 0 < free <= total


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_pins_memory(on: str, workers: int) -> None:
    loader = torch.utils.data.DataLoader(torch.arange(6.0), batch_size=2, pin_memory=True, num_workers=workers)
    batches = [(each.is_pinned(), each.to(on, non_blocking=True).tolist()) for each in loader]
    assert batches == [(True, [0, 1]), (True, [2, 3]), (True, [4, 5])] and not torch.ones(3).is_pinned()


def test_streams_are_one(strict: str) -> None:
    stream, events = torch.dmlvk.Stream(device=strict), [torch.dmlvk.Event(enable_timing=True) for _ in range(2)]
    events[0].record()
    with torch.dmlvk.stream(stream):
        x = torch.ones(3, device=strict) * 2
    x.record_stream(stream)
    torch.dmlvk.current_stream().wait_stream(stream)
    torch.dmlvk.current_stream().wait_event(events[0])
    stream.record_event(events[1]).synchronize()
    assert stream.query() and stream.record_event().query()
    assert x.tolist() == [2, 2, 2] and events[0].elapsed_time(events[1]) > 0
