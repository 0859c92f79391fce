"""bfloat16 is rounded where the program says so: random programs beside eager PyTorch on the CPU."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")

OF_ONE: list[Callable[[Any], Any]] = [
    lambda x: x + 0.3,
    lambda x: x * 1.1,
    lambda x: x / 3,
    lambda x: 1 - x,
    lambda x: x.bfloat16(),
    lambda x: x.float(),
    lambda x: x.half(),
    lambda x: x.relu(),
    lambda x: x.abs() + 0.001,
    lambda x: x.flip(0),
    lambda x: x.t().contiguous().t() * 0.7,
    lambda x: torch.where(x > 0, x, 0.1),
    lambda x: torch.where(x > 0.2, x, torch.full_like(x, 0.1)),
    lambda x: x.clamp(-0.3, 0.7),
    lambda x: torch.cat([x[:3], x[3:] * 0.9]),
    lambda x: x.amax(1, keepdim=True) - x,
    lambda x: (x * 7).round(),
    lambda x: x.masked_fill(x > 1, 0.3),
    lambda x: (x * 5).to(torch.int32) * 0.1 + x,
]
OF_TWO: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x - y,
    lambda x, y: torch.maximum(x, y.to(x.dtype)),
    lambda x, y: torch.where(x > y, x, y),
]


def _program(seed: int) -> Callable[..., list[Any]]:
    dice = random.Random(seed)
    steps = [(dice.random() < 0.6, dice.choice(OF_ONE), dice.choice(OF_TWO), dice.random()) for _ in range(8)]

    def program(*inputs: Any) -> list[Any]:
        pool = list(inputs)
        for is_of_one, one, two, place in steps:
            other = pool[int(place * len(pool))]
            pool.append(one(pool[-1]) if is_of_one else two(pool[-1], other))
        return pool[len(inputs) :]

    return program


@pytest.mark.parametrize("seed", range(6))
def test_every_result_is_rounded_as_eager_pytorch_rounds_it(seed: int, device: dml.Device) -> None:
    """By a place of FLOAT32 or FLOAT16 at most where one of these is the result, of bfloat16 to the bit."""
    torch.manual_seed(seed)
    inputs = torch.randn(6, 9), torch.randn(6, 9).bfloat16(), torch.randn(6, 1).bfloat16()
    program = _program(seed)
    torch.compiler.reset()
    found = torch.compile(program, backend="dmlvk", options={"device": device})(*inputs)
    for number, (one, other) in enumerate(zip(found, program(*inputs), strict=True)):
        assert one.dtype is other.dtype, f"result {number}"
        near = {torch.bfloat16: 0.0, torch.float16: 2e-3}.get(one.dtype, 1e-6)
        torch.testing.assert_close(one, other, rtol=near, atol=near, msg=lambda text, n=number: f"result {n}: {text}")


def test_all_bits_of_float32_are_rounded_to_the_nearest_even_one(any_device: dml.Device) -> None:
    """Of each sign, exponent and leading fraction, with what lies about ties; denormals are the numbers they are."""
    words = torch.arange(-(2**15), 2**15, dtype=torch.int32) << 16
    bits = torch.cat([words | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    graph = dml.Graph(any_device)
    x = graph.input("x", dml.FLOAT32, (bits.numel(),))
    compiled = graph.compile(graph.apply("ELEMENT_WISE_ROUND_BFLOAT16", {"input_tensor": x}))
    values = bits.view(torch.float32)
    found = torch.from_numpy(any_device.run(compiled, {"x": values.numpy()})["output"])
    wanted = values.bfloat16().float()
    is_nan = wanted.isnan()
    assert torch.equal(found.isnan(), is_nan)
    assert torch.equal(found.view(torch.int32)[~is_nan], wanted.view(torch.int32)[~is_nan])


@pytest.mark.parametrize(
    "program",
    [
        lambda x, i: x[i] * 2 + x.shape[0],
        lambda x, i: x.sum(0) / x.shape[0] + x.roll(1, 0),
        lambda x, i: x * x.shape[0] ** -0.5 + x.clamp(max=x.shape[0] - 4),
        lambda x, i: x.index_put((i,), x[:2] * 0.5, accumulate=True) + 1,
    ],
    ids=["indices", "means", "powers", "put"],
)
def test_open_sizes_are_numbers_where_numbers_are_wanted(
    program: Callable[..., Any], device: dml.Device, caplog: pytest.LogCaptureFixture
) -> None:
    torch.compiler.reset()
    compiled = torch.compile(program, backend="dmlvk", dynamic=True, options={"device": device})
    for rows in (6, 9, 17, 6):
        x, places = torch.randn(rows, 5), torch.tensor([rows - 1, -2])
        torch.testing.assert_close(compiled(x, places), program(x, places), atol=1e-5, rtol=1e-5)
    assert "InvalidArgumentError" not in caplog.text and "Graph.constant" not in caplog.text


def test_a_fault_of_a_lowering_is_raised_and_no_refusal(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    from dmlvk.support import faults
    from dmlvk.torch.lowering import LOWERINGS

    def fails(*_: Any, **__: Any) -> Any:
        raise IndexError("for this test")

    monkeypatch.setitem(LOWERINGS, "sin.default", fails)
    torch.compiler.reset()
    with pytest.raises(Exception, match="for this test"):
        torch.compile(lambda x: x.sin() + 1, backend="dmlvk", options={"device": device})(torch.randn(3))
    faults.reported.clear()
    monkeypatch.delenv("DMLVK_RAISE_FAULTS")
    torch.compiler.reset()
    made = torch.compile(lambda x: x.sin() * 2, backend="dmlvk", options={"device": device})(torch.ones(3))
    torch.testing.assert_close(made, torch.ones(3).sin() * 2)
