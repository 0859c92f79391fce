"""PyTorch's rules for zeros, infinities, NaN and ties, where DirectML's are others; beside eager PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")

from dmlvk.torch.refusals import is_refused  # noqa: E402 - needs PyTorch

functional = torch.nn.functional
INFINITY, NAN = math.inf, math.nan
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, INFINITY, -INFINITY, NAN, 3.0, -3.0, 7.0, -7.0, 0.1, -0.1)
TYPES = [torch.float32, torch.float16, torch.bfloat16]


def _pairs(dtype: Any) -> tuple[Any, Any]:
    numbers = torch.tensor(NUMBERS, dtype=dtype)
    return tuple(part.reshape(-1) for part in torch.meshgrid(numbers, numbers, indexing="ij"))  # type: ignore[return-value, unused-ignore]


def _check(program: Callable[..., Any], device: dml.Device, *inputs: Any, signs: bool = True) -> None:
    torch.compiler.reset()
    compiled = torch.compile(program, backend="dmlvk", options={"device": device})
    for number, (found, wanted) in enumerate(zip(compiled(*inputs), program(*inputs), strict=True)):
        torch.testing.assert_close(
            found, wanted, rtol=1e-5, atol=0, equal_nan=True, msg=lambda text, n=number: f"result {n}: {text}"
        )
        if signs and wanted.is_floating_point():
            is_zero = wanted == 0
            assert torch.equal(found.signbit()[is_zero], wanted.signbit()[is_zero]), f"signs of zeros, result {number}"


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_quotients_and_remainders_of_zeros_and_infinities(dtype: Any, device: dml.Device) -> None:
    def program(a: Any, b: Any) -> Any:
        by_tensors = [a / b, a // b, torch.remainder(a, b), torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc")]
        return [*by_tensors, a // 0.0]

    _check(program, device, *_pairs(dtype))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_bounds_that_are_no_numbers(dtype: Any, device: dml.Device) -> None:
    def program(a: Any, b: Any) -> Any:
        bounds = [(-1.0, NAN), (NAN, 1.0), (NAN, None), (None, NAN), (1.0, -1.0), (-1.0, None), (None, 0.5)]
        by_tensors = [
            a.clamp(b),
            a.clamp(max=b),
            torch.clamp_min(a, b),
            a.clamp(b, b.flip(0)),
            a.maximum(b),
            a.minimum(b),
        ]
        return [*(a.clamp(least, most) for least, most in bounds), *by_tensors, functional.hardtanh(a)]

    _check(program, device, *_pairs(dtype), signs=False)


ROWS = [
    [0.0, -0.0, 0.0],
    [-0.0, 0.0, -1.0],
    [-0.0, -0.0, 0.0],
    [NAN, 0.0, NAN],
    [-INFINITY] * 3,
    [INFINITY, INFINITY, NAN],
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_both_zeros_are_equal_where_places_are_sought(dtype: Any, device: dml.Device) -> None:
    def program(x: Any) -> Any:
        places = [x.argmax(1), x.argmin(1), x.argmax(), x.argmin(), x.argmax(0), x.max(1).indices, x.min(0).indices]
        places += [torch.sort(x, dim=1, stable=True, descending=flag)[1] for flag in (False, True)]
        return [*places, x.max(1).values, x.amin(0), torch.sort(x, dim=1, stable=True, descending=True)[0]]

    _check(program, device, torch.tensor(ROWS, dtype=dtype), signs=False)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_pools_find_the_first_of_equal_elements_and_no_number_stays(dtype: Any, device: dml.Device) -> None:
    plane = [0.0, -0.0, -0.0, 0.0, -1.0, -0.0, 0.0, 1.0, NAN, -INFINITY, -INFINITY, -INFINITY, -0.0, 0.0, NAN, 0.0]
    x = torch.tensor(plane, dtype=dtype).reshape(1, 1, 4, 4)
    for window, stride, padding in ((2, 1, 0), (3, 2, 1)):
        _check(
            lambda x, w=window, s=stride, p=padding: functional.max_pool2d(x, w, s, p, return_indices=True),
            device,
            x,
            signs=False,
        )


GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin(1),
    "max": lambda x: x.max(1).values,
    "min": lambda x: x.min(1).values,
    "max of all": lambda x: x.max(),
    "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "pool": lambda x: functional.max_pool2d(x[None, None], 2, 1),
    "clamp": lambda x: x.clamp(0, 1),
    "a threshold": lambda x: x.relu() + functional.threshold(x, 1.0, 0.0),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_where_zeros_of_both_signs_tie(name: str, device: dml.Device) -> None:
    start = torch.tensor(ROWS).nan_to_num(0.0, 2.0, -2.0)
    mine, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
    torch.compiler.reset()
    program = GRADIENTS[name]
    torch.compile(program, backend="dmlvk", options={"device": device})(mine).sum().backward()
    program(theirs).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool], ids=str)
def test_borders_of_integers_stay_on_the_device(
    dtype: Any, device: dml.Device, caplog: pytest.LogCaptureFixture
) -> None:
    value = {torch.uint8: 200, torch.bool: True, torch.int64: -(2**40)}.get(dtype, -100)
    x = torch.tensor([[1, 0, 5]]).to(dtype)
    _check(lambda x: [functional.pad(x, (0, 1, 2, 0), value=value)], device, x)
    assert "the CPU computes" not in caplog.text


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "a difference": lambda x, y: x - y,
    "from a number": lambda x, y: 1 - x,
    "less a truth": lambda x, y: x - True,
    "rsub": torch.rsub,
    "in place": lambda x, y: x.clone().sub_(y),
    "of lists": lambda x, y: torch._foreach_sub([x], [y])[0],
    "of lists and a number": lambda x, y: torch._foreach_sub([x], 1)[0],
    "of lists in place": lambda x, y: torch._foreach_sub_([x.clone()], [y]),
    "relu": lambda x, y: torch.relu(x),
    "relu_": lambda x, y: torch.relu_(x.clone()),
    "neg": lambda x, y: -x,
    "argmax": lambda x, y: x.argmax(),
    "argmin": lambda x, y: x.argmin(0),
    "isin": torch.isin,
    "heaviside": torch.heaviside,
    "lerp": lambda x, y: torch.lerp(x, y, 0.5),
    "lerp by a tensor": lambda x, y: torch.lerp(x, x, y),
    "index_put": lambda x, y: torch.index_put(x, (y.new_zeros(3, dtype=torch.int64),), y),
    "index_copy": lambda x, y: torch.index_copy(x, 0, y.new_zeros(3, dtype=torch.int64), y),
    "masked_scatter": lambda x, y: torch.masked_scatter(x, x > 0, y),
    "mm": lambda x, y: torch.mm(x[None], y[:, None]),
    "linear": lambda x, y: functional.linear(x[None], y[None]),
    "matmul": lambda x, y: x[None] @ y[:, None],
    "einsum": lambda x, y: torch.einsum("ij,jk->ik", x[None], y[:, None]),
    "conv1d": lambda x, y: functional.conv1d(x[None], y[None, None]),
    "batch_norm": lambda x, y: functional.batch_norm(x[:, None], None, None, y[:1], y[:1], True),
    "cross": torch.linalg.cross,
    "alpha": lambda x, y: torch.add(x, y, alpha=1.5),
}


@pytest.mark.parametrize("name", REFUSED)
def test_types_that_pytorch_refuses_are_refused_in_its_words(name: str, on: str, device: dml.Device) -> None:
    program, number = REFUSED[name], torch.tensor([0, 1, 1])

    def outcome(function: Callable[..., Any], *inputs: Any) -> Any:
        try:
            return function(*inputs)
        except RuntimeError as error:
            return error

    types = (torch.bool, torch.int64, torch.float16, torch.float32)
    refused: list[Any] = []
    for first, second in itertools.product(types, types):
        inputs = number.to(first), number.to(second)
        wanted = outcome(program, *inputs)
        if not isinstance(wanted, RuntimeError) or "not implemented for" in str(wanted):  # which the CPU lacks
            continue
        refused.append(inputs)
        found = outcome(program, *(one.to(on) for one in inputs))
        assert type(found) is type(wanted), f"{first}, {second}: {found!r}"
        assert str(found) == str(wanted), f"{first}, {second}"
    compiled = torch.compile(program, backend="dmlvk", options={"device": device})
    for inputs in refused[:2]:
        assert isinstance(outcome(compiled, *inputs), RuntimeError)
    assert refused


MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "hypot": torch.hypot,
    "gcd": torch.gcd,
    "index_fill": lambda x, y: torch.index_fill(x, 0, y.new_zeros(1, dtype=torch.int64), y[0]),
    "hardtanh": lambda x, y: functional.hardtanh(x),
    "frexp": lambda x, y: torch.stack([part.float() for part in torch.frexp(x / 64)]),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_types_have_results_of_the_type_that_pytorch_gives(name: str, strict: str, device: dml.Device) -> None:
    program, number = MIXED[name], torch.tensor([3, 1, 4])
    types = (torch.bool, torch.int64, torch.float16, torch.float32)
    computed = 0
    for first, second in itertools.product(types, types):
        inputs = number.to(first), number.flip(0).to(second)
        try:
            wanted = program(*inputs)
        except RuntimeError:
            continue
        computed += 1
        torch.testing.assert_close(program(*(one.to(strict) for one in inputs)).cpu(), wanted)
        if computed == 2:
            compiled = torch.compile(program, backend="dmlvk", options={"device": device})
            torch.testing.assert_close(compiled(*inputs), wanted)
    assert computed


@pytest.mark.parametrize("is_computed", [True, False])
def test_mixed_types_of_normalizations_are_asked_for_apart_from_their_sizes(is_computed: bool) -> None:
    x, weight = torch.zeros(4, 8, 6), torch.zeros(8)
    x, weight = (x.half(), weight) if is_computed else (x, weight.half())
    aten = torch.ops.aten
    for operator, arguments in (
        (aten.native_layer_norm.default, (x.transpose(1, 2), [8], weight, weight, 1e-5)),
        (aten.native_group_norm.default, (x, weight, weight, 4, 8, 6, 2, 1e-5)),
        (aten.group_norm.default, (x, 2, weight, weight)),
    ):
        assert is_refused(operator, arguments, {}) is not is_computed, operator
