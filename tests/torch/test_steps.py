"""Steps of training on PyTorch's device: what they do again."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.array_api.lazy import Trace
from dmlvk.objects.recording import RecordedStep
from dmlvk.runtime.kompute import Engine

torch = pytest.importorskip("torch")  # CI has it in a check of its own

import dmlvk.torch  # noqa: E402 - needs PyTorch
from dmlvk.torch.device import recorder  # noqa: E402 - likewise
from dmlvk.torch.device.kernels import Kernel  # noqa: E402 - likewise
from dmlvk.torch.device.tensors import value_of  # noqa: E402 - likewise
from tests.counted_calls import calls_of  # noqa: E402

nn, functional = torch.nn, torch.nn.functional
assert dmlvk.torch  # importing it registers the device


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_steps_of_an_optimizer_run_what_was_recorded_before(
    strict: str, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).to(strict, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
    x, labels = torch.randn(6, 8, device=strict, dtype=dtype), torch.randint(0, 4, (6,), device=strict)
    recorded = calls_of(monkeypatch, RecordedStep, "launch")
    counts = []
    for _ in range(12):
        before = len(recorded)
        optimizer.zero_grad()
        functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
        torch.dmlvk.synchronize()
        counts.append(len(recorded) - before)
    assert counts[0] > 0 and counts[-4:] == [0] * 4, counts


def test_numbers_that_change_with_each_step_take_no_more_memory(strict: str, any_device: dml.Device) -> None:
    x, rate = torch.ones(4, device=strict), 1.0
    sizes = []
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(3, device=strict))], lr=0.1)
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3, device=strict)
    for _ in range(40):
        rate *= 0.97
        x.mul_(rate)
        optimizer.step()
        torch.dmlvk.synchronize()
        sizes.append(len(any_device.engine._allocations))
    assert sizes[-1] == sizes[10]


_FUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "Adam": ("Adam", {"weight_decay": 0.1, "amsgrad": True}),
    "AdamW": ("AdamW", {"weight_decay": 0.1, "maximize": True, "lr": torch.tensor(0.01)}),
    "SGD": ("SGD", {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    "Nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "Adagrad": ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
}


@pytest.mark.parametrize("name", _FUSED)
def test_fused_optimizers_do_what_they_do_on_the_cpu(strict: str, name: str) -> None:
    """Gradients are scaled as GradScaler scales them; the third ones are not finite, and change nothing."""
    kind, named = _FUSED[name]
    values: dict[str, list[Any]] = {}
    for where in ("cpu", strict):
        parameter = nn.Parameter(torch.linspace(-1, 1, 6).to(where))
        settings = {one: value.to(where) if isinstance(value, torch.Tensor) else value for one, value in named.items()}
        optimizer = getattr(torch.optim, kind)([parameter], **({"lr": 0.01} | settings), fused=True)
        values[where] = []
        for step in range(5):
            parameter.grad = torch.linspace(0.3, -2, 6).to(where) * (step + 1) * 8
            optimizer.grad_scale = torch.tensor(8.0, device=where)
            optimizer.found_inf = torch.tensor(float(step == 2), device=where)
            optimizer.step()
            values[where].append(parameter.detach().clone().cpu())
    assert torch.equal(values[strict][1], values[strict][2]) and not torch.equal(values[strict][2], values[strict][3])
    for own, wanted in zip(values[strict], values["cpu"], strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-5, atol=2e-6)


def test_fused_optimizers_of_short_floats_count_in_wide_ones(strict: str) -> None:
    for kind in ("Adam", "SGD", "Adagrad"):
        found = []
        for where in ("cpu", strict):
            parameter = nn.Parameter(torch.ones(1, dtype=torch.float16, device=where))
            optimizer = getattr(torch.optim, kind)([parameter], lr=0.05, fused=True)
            for _ in range(3):
                parameter.grad = torch.full_like(parameter, 300.0)
                optimizer.step()
            found.append(parameter.item())
        assert found[1] == pytest.approx(found[0], rel=2e-3), kind


def test_what_the_cpu_changes_of_lists_of_tensors_is_changed_on_the_device(on: str) -> None:
    parameters, gradients = ([torch.full((3,), value, device=on), torch.ones(2, device=on)] for value in (1.0, 2.0))
    settings = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.5, "dampening": 0.0, "nesterov": False}
    by_host = Kernel(torch.ops.aten._fused_sgd_.default, None)
    by_host(parameters, gradients, [], **settings, maximize=False, is_first_step=True)
    assert [one.tolist() for one in parameters] == [[0, 0, 0], [0.5, 0.5]]


def test_what_is_let_go_while_a_graph_is_made_is_part_of_it(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Any] = []

    def compiled(*arguments: Any) -> Any:
        held.clear()  # as a garbage collector does
        return plain(*arguments)

    plain = Trace._compiled

    recorder.RECORDER.run()
    monkeypatch.setattr(Trace, "_compiled", compiled)
    for again in (False, True):
        x = torch.ones(3, device=strict) + 1.7
        if not again:
            held.append(x)
            del x
        recorder.RECORDER.run()
    assert not value_of(x).is_pending


def test_steps_alone_run_before_they_are_too_many(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_PENDING", 24)
    parameters = [nn.Parameter(torch.ones(3, device=strict)) for _ in range(2)]
    for one in parameters:
        one.grad = torch.ones_like(one)
    optimizer = torch.optim.SGD(parameters, lr=0.5, fused=True)
    for _ in range(50):
        optimizer.step()
    assert len(recorder.RECORDER._pending) < 50
    assert [one[0].item() for one in parameters] == [-24, -24]


def test_what_lies_in_another_order_is_computed_once(strict: str) -> None:
    """An operator that begins the next graph has the elements in the tensor's order, which no array is kept for."""
    tensor = torch.randn(4, 5, 6).to(strict).transpose(0, 2) * 2
    operand = value_of(tensor)
    was_pending = operand.is_pending
    assert was_pending and not tensor.is_contiguous()
    recorder.RECORDER.run()
    assert not operand.is_pending and (tensor.cpu() == tensor.contiguous().cpu()).all()


def test_windows_may_be_looked_at_while_others_are_computed(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another thread does it, between any two instructions."""
    tensor = torch.arange(12.0).to(strict).mul_(2)
    first, second = tensor[:6] + 0, tensor[6:] + 0
    settle, rest = recorder.Recorded.settle, iter(tensor.split(1))

    def settled(value: Any, memory: Any) -> None:
        settle(value, memory)
        if (one := next(rest, None)) is not None:
            value_of(one)

    monkeypatch.setattr(recorder.Recorded, "settle", settled)
    recorder.RECORDER.run()
    assert torch.cat([first, second]).cpu().tolist() == list(range(0, 24, 2))


def test_betas_that_change_need_no_other_graphs(strict: str, any_device: dml.Device) -> None:
    parameters = [torch.nn.Parameter(torch.ones(size, device=strict)) for size in (3, 5)]
    twins = [torch.nn.Parameter(torch.ones(size)) for size in (3, 5)]
    optimizers = [
        torch.optim.Adam(each, lr=0.1, fused=is_here) for each, is_here in ((parameters, True), (twins, None))
    ]
    counts = []
    for step in range(9):
        for optimizer, each in zip(optimizers, (parameters, twins), strict=True):
            optimizer.param_groups[0]["betas"] = 0.9 - step * 0.013, 0.99
            for one in each:
                one.grad = torch.full_like(one, step - 3.5)
            optimizer.step()
        torch.dmlvk.synchronize()
        counts.append(len(any_device.arrays.programs._kept["graph"]))
    assert len(set(counts[6:])) == 1, counts
    for one, twin in zip(parameters, twins, strict=True):
        torch.testing.assert_close(one.detach().cpu(), twin.detach(), atol=1e-5, rtol=0)


def test_synchronizing_waits_for_what_nobody_has_results_of(strict: str, any_device: dml.Device) -> None:
    x = torch.ones(64, 64, device=strict)
    for _ in range(200):
        x = x @ x * 1e-2
    del x
    torch.dmlvk.synchronize()
    assert not any_device.engine.submissions.running


def test_what_finds_no_memory_keeps_nothing_else_from_being_computed(
    strict: str, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Engine.allocate

    def allocate(self: Engine, size_in_bytes: int, **named: Any) -> Any:
        if size_in_bytes > 2**20:
            raise dml.OutOfMemoryError("for this test")
        return plain(self, size_in_bytes, **named)

    torch.dmlvk.empty_cache()
    monkeypatch.setattr(Engine, "allocate", allocate)
    x = torch.ones(8, device=strict)
    small, large = x + 1, torch.zeros(2**20, device=strict) + x[0]
    assert small.sum().item() == 16
    for wait in (torch.dmlvk.synchronize, large.cpu):
        with pytest.raises(dml.OutOfMemoryError, match="for this test"):
            large.add_(1)
            wait()
    assert (small + x).sum().item() == 24
    with pytest.raises(dml.OutOfMemoryError, match=r"\[1099511627776\] needs 4398046511104 bytes"):
        torch.empty(2**40, device=strict)


def _trained(size: int, where: str) -> list[Any]:
    """What some steps make of numbers that follow from the size."""
    generator = torch.Generator().manual_seed(size)
    x, *weights = (
        torch.randn(shape, generator=generator).to(where) for shape in ((4, size), (size, size + 1), (size + 1, 3))
    )
    labels = torch.arange(4).to(where) % 3
    parameters = [one.requires_grad_() for one in weights]
    optimizer = torch.optim.AdamW(parameters, lr=0.01 * size, weight_decay=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(functional.gelu(x @ parameters[0]) @ parameters[1], labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [one.detach().cpu() for one in (*losses, *parameters)]


def test_threads_that_record_at_once_have_the_results_of_each_alone(strict: str) -> None:
    sizes, before = range(5, 9), sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        with ThreadPoolExecutor(len(sizes)) as workers:
            found = list(workers.map(lambda size: _trained(size, strict), sizes))
    finally:
        sys.setswitchinterval(before)
    for size, made in zip(sizes, found, strict=True):
        assert all(map(torch.equal, made, _trained(size, strict))), size


_INTERRUPTED = """
import _thread, random, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which jobs of shells in the background are without
import torch
import dmlvk.torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.LayerNorm(8)).to("dmlvk")
x = torch.ones(4, 8, device="dmlvk")
count, is_on = 0, threading.Event()

def interrupt():
    while True:
        is_on.wait()
        is_on.clear()  # before the program can ask for the next one
        time.sleep(random.random() * 0.005)
        _thread.interrupt_main()

threading.Thread(target=interrupt, daemon=True).start()
for _ in range(150):
    end = time.time() + 5
    try:
        is_on.set()
        while time.time() < end:
            model(x).sum().backward()
    except KeyboardInterrupt:
        count += 1
print(count)
"""


def test_interrupts_at_any_time_are_raised_and_end_no_process() -> None:
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == 150
