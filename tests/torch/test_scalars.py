"""Numbers of FLOAT64 without dimensions, which follow from sizes and numbers: beside PyTorch on the CPU."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")

from dmlvk.graphs.plan import Plan  # noqa: E402
from tests.counted_calls import calls_of  # noqa: E402

DOUBLE = torch.float64
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a root of a size": lambda x: x * x.shape[0] + x / x.shape[1] ** 0.5,
    "twice as many elements": lambda x: torch.nn.functional.interpolate(x[None], scale_factor=2.0) + 1,
    "arithmetic": lambda x: x * (3.7 - 1.5 / x.shape[0] + x.shape[1] * 0.3) - (x.shape[0] / x.shape[1] - 2.0),
    "rounding": lambda x: x + round(x.shape[0] / 3) + math.floor(x.shape[1] / 7) * 0.5 + math.ceil(x.shape[0] * 0.3),
    "rounded sizes": lambda x: x[: math.ceil(x.shape[0] * 0.9)] * 2 + torch.full((int(x.shape[1] ** 1.0),), 0.5),
    "bounds": lambda x: x.clamp(min(-0.1, -1 / x.shape[0]), max(0.3, 1.5 / x.shape[1])) * 2,
    "a choice": lambda x: torch.where(x > 1 / x.shape[0], x, x.shape[1] ** -0.5) * 2,
    "tensors of numbers": lambda x: x * torch.tensor(x.shape[0] ** 0.5, dtype=DOUBLE).reciprocal().neg().exp() + 1,
    "a constant": lambda x: (x * torch.full((), 1 / 3, dtype=DOUBLE)).tanh() + torch.tensor(0.1, dtype=DOUBLE),
    "a number that is a result": lambda x: [torch.tensor(x.shape[0] / 7, dtype=DOUBLE).sqrt(), x.exp() + 1],
    "half precision": lambda x: x.half() * x.shape[1] ** -0.5 + 1,
    "wide numbers in between": lambda x: x * torch.tensor(x.shape[0] + 2**40, dtype=DOUBLE).remainder(7).float() + 1,
}


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    torch.compiler.reset()
    torch.manual_seed(0)
    monkeypatch.setattr("dmlvk.torch.compiler._said", set())
    return calls_of(monkeypatch, Plan, "__init__")


@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_that_follow_from_sizes_leave_the_program_on_the_device(
    name: str, is_open: bool, device: dml.Device, plans: list[tuple[Any, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    program = PROGRAMS[name]
    run = torch.compile(program, backend="dmlvk", dynamic=is_open, options={"device": device})
    with caplog.at_level(logging.WARNING, "dmlvk"):
        for shape in ((10, 11), (14, 9), (12, 10)) if is_open else ((9, 10),):  # between the same powers of two
            x = torch.randn(shape)
            limit = 2e-3 if "half" in name else 1e-5
            torch.testing.assert_close(run(x), program(x), atol=limit, rtol=limit)
            assert len(plans) == 1, shape
    assert "CPU computes" not in caplog.text


def test_gradients_pass_numbers_that_follow_from_sizes(
    device: dml.Device, plans: list[tuple[Any, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    def program(x: Any) -> Any:
        return (x.sin() * x.shape[1] ** -0.5).square() / (x.shape[0] / 3)

    run = torch.compile(program, backend="dmlvk", dynamic=True, options={"device": device})
    with caplog.at_level(logging.WARNING, "dmlvk"):
        for shape in ((9, 10), (12, 9)):
            x = torch.randn(shape, requires_grad=True)
            (wanted,) = torch.autograd.grad(program(x).sum(), x)
            (found,) = torch.autograd.grad(run(x).sum(), x)
            torch.testing.assert_close(found, wanted)
    assert len(plans) == 2
    assert "CPU computes" not in caplog.text


def test_numbers_among_the_arguments_need_one_plan(
    device: dml.Device, plans: list[tuple[Any, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    def program(x: Any, factor: float) -> Any:
        return x * factor + x / (factor * 2 + x.shape[0])

    run = torch.compile(program, backend="dmlvk", dynamic=True, options={"device": device})
    with caplog.at_level(logging.WARNING, "dmlvk"):
        for factor in (0.3, 1 / 3, 1e-3, 7.1):
            x = torch.randn(9, 10)
            torch.testing.assert_close(run(x, factor), program(x, factor))
    assert len(plans) == 1
    assert "CPU computes" not in caplog.text


@pytest.mark.parametrize("seed", range(4))
def test_any_chain_of_operators_on_a_number_has_pytorchs_bits(
    seed: int, device: dml.Device, plans: list[tuple[Any, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(seed)
    of_one = ["neg", "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "trunc", "round", "exp", "log1p", "abs", "sin"]
    of_two = ["add", "sub", "mul", "div", "pow", "minimum", "maximum", "remainder", "fmod", "atan2"]
    types = [torch.float32, torch.int64, torch.float16, torch.int32]
    steps = [(draw.choice(of_one), draw.choice(of_two), draw.uniform(0.5, 3), draw.choice(types)) for _ in range(6)]

    def program(x: Any) -> Any:
        number = torch.tensor(x.shape[0] / 3, dtype=DOUBLE)
        for one, two, other, dtype in steps:
            number = getattr(number.abs() + 1, one)()
            number = getattr(torch, two)(number, torch.tensor(other * x.shape[1], dtype=DOUBLE)).clamp(-1e4, 1e4)
            number = number + number.to(dtype).to(DOUBLE) * 0.25
        return x * 2 + number  # the product is exact, so that only the number's bits may differ

    run = torch.compile(program, backend="dmlvk", dynamic=True, options={"device": device})
    with caplog.at_level(logging.WARNING, "dmlvk"):
        for shape in ((9, 10), (12, 9)):
            x = torch.randn(shape)
            assert torch.equal(run(x).nan_to_num(7), program(x).nan_to_num(7)), steps
    assert len(plans) == 1
    assert "CPU computes" not in caplog.text


def _assigned(x: Any) -> Any:
    x[0] = 5
    x[:, 1] = x[1, 0] * 2
    x[2:4] = x[5]
    x[:, 2:4] = x[:, 5:6]
    return x.tanh() + 1


def _filled(x: Any) -> Any:
    marks = x > 0
    marks[1:3] = x[0].abs() * 0.1  # truths, where it is not 0
    return torch.where(marks, x, -x).copy_(x.sum(0)) + marks


@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
@pytest.mark.parametrize("program", [_assigned, _filled])
def test_a_smaller_tensor_is_repeated_where_it_is_assigned(
    program: Callable[[Any], Any],
    is_open: bool,
    device: dml.Device,
    plans: list[tuple[Any, ...]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = torch.compile(program, backend="dmlvk", dynamic=is_open, options={"device": device})
    with caplog.at_level(logging.WARNING, "dmlvk"):
        for shape in ((9, 10), (12, 9)) if is_open else ((9, 10),):
            x = torch.randn(shape)
            own, other = x.clone(), x.clone()
            torch.testing.assert_close(run(own), program(other))
            torch.testing.assert_close(own, other)
    assert "CPU computes" not in caplog.text
