"""Weights that are replaced, changed, or could not be prepared: the next call computes with what they are then."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from typing import Any

import numpy as np
import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")

from dmlvk.torch.devices import device_for  # noqa: E402 - needs PyTorch
from dmlvk.torch.residency import differing  # noqa: E402 - likewise

SIZES = (5, 6, 7)


def _model() -> Any:
    """A layer whose matrix follows from its weights, which the device computes once."""

    class Bounded(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.weight = self.new()
            self.scale = torch.nn.Parameter(torch.randn(32, 1), requires_grad=False)

        def new(self) -> Any:
            return torch.nn.Parameter(torch.randn(32, 32), requires_grad=False)

        def forward(self, x: Any) -> Any:
            return torch.relu(x @ (self.weight * self.scale.sin()).t())

    torch.manual_seed(0)
    torch.compiler.reset()
    return Bounded().eval()


def _compiled(model: Any, device: dml.Device, *, is_open: bool) -> Any:
    options = {"device": device}
    compiled = torch.compile(model, backend="dmlvk", dynamic=is_open, options=options)
    for size in SIZES if is_open else SIZES[:1]:
        compiled(torch.randn(size, 32))
    return compiled


def _check(compiled: Any, model: Any, size: int, when: str) -> None:
    x = torch.randn(size, 32)
    torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-4, msg=lambda text: f"{when}: {text}")


@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
def test_a_weight_in_the_place_of_one_that_is_gone_is_a_new_one(is_open: bool, device: dml.Device) -> None:
    """Its number as an object, and its count of changes, may be those of the old one."""
    model = _model()
    with torch.no_grad():
        compiled = _compiled(model, device, is_open=is_open)
        numbers = set()
        for turn in range(40):
            numbers.add(id(model.weight))
            del model.weight
            gc.collect()
            model.weight = model.new()
            _check(compiled, model, SIZES[turn % 3] if is_open else SIZES[0], f"weight {turn}")
    assert len(numbers) < 40, "no number of an object came back: this shows nothing"


@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
def test_weights_that_are_swapped_are_read_as_they_are_then(is_open: bool, device: dml.Device) -> None:
    model = _model()
    residency = device_for({"device": device})[1]
    with torch.no_grad():
        compiled = _compiled(model, device, is_open=is_open)
        other = model.new()
        for turn in range(3):
            torch.utils.swap_tensors(model.weight, other)
            _check(compiled, model, SIZES[turn] if is_open else SIZES[0], f"swap {turn}")
        gc.collect()  # what other tests have left
        before = len(residency._residents)
        del other
        gc.collect()
        assert len(residency._residents) == before - 1, "what was swapped away is kept"
        state = {name: 2 * values for name, values in model.state_dict().items()}
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            model.load_state_dict(state)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
        _check(compiled, model, SIZES[0], "a state that was loaded by swaps")


def test_weights_are_saved_and_copied_as_those_that_never_were_on_the_device(device: dml.Device) -> None:
    model = _model()
    with torch.no_grad():
        weights = [model.weight, torch.randn(3)]
        compiled = _compiled(model, device, is_open=False)
        torch.compile(torch.exp, backend="dmlvk", options={"device": device})(weights[1])
        for weight in weights:
            for name in ("label", "another"):
                setattr(weight, name, [name])
            file = io.BytesIO()
            torch.save(weight, file)
            file.seek(0)
            for made in (torch.load(file, weights_only=True), pickle.loads(pickle.dumps(weight))):
                assert made.label == ["label"] and made.another == ["another"]
                assert torch.equal(made, weight)
            copied = copy.deepcopy(weight)
            assert type(vars(copied)) is dict and torch.equal(copied, weight)
        _check(compiled, model, SIZES[0], "after it was saved")


@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
def test_weights_that_nobody_counts_the_changes_of_are_read_in_every_call(is_open: bool, device: dml.Device) -> None:
    with torch.inference_mode():
        model = _model()
        compiled = _compiled(model, device, is_open=is_open)
        for turn in range(6):
            model.weight.copy_(torch.randn(32, 32))
            _check(compiled, model, SIZES[turn % 3] if is_open else SIZES[0], f"change {turn}")


@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
def test_what_follows_from_weights_is_computed_again_where_that_failed(
    is_open: bool, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model()
    with torch.no_grad():
        compiled = _compiled(model, device, is_open=is_open)
        for turn in range(3):
            model.weight.copy_(torch.randn(32, 32))

            def fails(*_: Any, **__: Any) -> Any:
                raise dml.OutOfMemoryError("for this test")

            monkeypatch.setattr(type(device.engine), "record", fails)  # as what is computed once is
            with pytest.raises(dml.OutOfMemoryError):
                compiled(torch.randn(5, 32))
            monkeypatch.undo()
            _check(compiled, model, 5, f"failure {turn}")


@pytest.mark.parametrize("seed", range(8))
def test_weights_and_inputs_that_are_changed_in_any_way_are_read_as_they_are(seed: int, device: dml.Device) -> None:
    from tests.torch.weight_changes import run_case

    run_case(seed, {"device": device}, ways=100)


def test_a_weight_of_another_type_is_not_read_as_the_former_one(device: dml.Device) -> None:
    model = _model()
    with torch.no_grad():
        compiled = _compiled(model, device, is_open=False)
        model.half()
        x = torch.randn(5, 32).half()
        torch.testing.assert_close(compiled(x), model(x), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
def test_the_first_tutorials_training_follows_eager_pytorch(is_open: bool, device: dml.Device) -> None:
    """Through ``data``, which nobody counts; forward and backward."""
    model = _model()
    for parameter in model.parameters():
        parameter.requires_grad_()
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend="dmlvk", dynamic=is_open, options={"device": device})
    for step in range(4):
        x = torch.randn(SIZES[step % 3] if is_open else 5, 32)
        losses = [run(x).square().mean() for run in (compiled, other)]
        torch.testing.assert_close(*losses, msg=lambda text, step=step: f"step {step}: {text}")
        for loss, each in zip(losses, (model, other), strict=True):
            each.zero_grad()
            loss.backward()
            for parameter in each.parameters():
                parameter.data.add_(parameter.grad.data, alpha=-0.5)


@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
def test_a_tensor_without_its_memory_is_an_error_and_not_read(is_open: bool, device: dml.Device) -> None:
    model = _model()
    storage, kept = model.weight.untyped_storage(), model.weight.detach().clone()
    storage.resize_(0)
    with torch.no_grad():
        compiled = torch.compile(model, backend="dmlvk", dynamic=is_open, options={"device": device})
        with pytest.raises(dml.InvalidArgumentError, match="needs 4096 bytes; its memory has 0"):
            compiled(torch.randn(5, 32))
        storage.resize_(kept.untyped_storage().nbytes())
        model.weight.copy_(kept)
        _check(compiled, model, 5, "with its memory")


@pytest.mark.parametrize("is_open", [False, True], ids=["one size", "open sizes"])
@pytest.mark.parametrize("is_compiled", [False, True], ids=["before it is compiled", "after a call"])
def test_a_closed_device_is_one_error_of_dmlvk(is_open: bool, is_compiled: bool) -> None:
    model = _model()
    with dml.Device() as device:
        compiled = torch.compile(model, backend="dmlvk", dynamic=is_open, options={"device": device})
        if is_compiled:
            compiled(torch.randn(5, 32))
    for _ in range(2):
        with pytest.raises(dml.DeviceRemovedError, match="the device was closed"):
            compiled(torch.randn(5, 32))


def test_unchanged_weights_are_not_uploaded_again(device: dml.Device) -> None:
    model = _model()
    _, residency = device_for({"device": device})
    with torch.no_grad():
        compiled = _compiled(model, device, is_open=False)
        x, before = torch.randn(5, 32), residency.uploads
        compiled(x)
        assert residency.uploads == before + 1  # the input
        model.weight.data.mul_(2)
        compiled(x)
        assert residency.uploads == before + 3
        compiled(x)
        assert residency.uploads == before + 4


def test_what_the_contents_of_are_compared_is_what_differs() -> None:
    """Of many pieces, some of them large, in whatever threads."""
    dice = np.random.default_rng(0)
    sizes = [0, 1, 3, 5_000_000, 64, 9_000_001, 1 << 21, 12]
    first = [dice.integers(0, 256, size, np.uint8) for size in sizes]
    for _ in range(20):
        second = [array.copy() for array in first]
        for number in dice.choice(len(sizes), 3):
            if sizes[number]:
                second[number][dice.integers(sizes[number])] ^= 1 << int(dice.integers(8))
        spans = [(a.ctypes.data, b.ctypes.data, a.nbytes) for a, b in zip(first, second, strict=True)]
        expected = [n for n, (a, b) in enumerate(zip(first, second, strict=True)) if not np.array_equal(a, b)]
        assert differing(spans) == expected


def test_a_program_that_promises_to_change_weights_as_pytorch_counts_compares_nothing(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("contents were compared")

    monkeypatch.setattr("dmlvk.torch.residency.differing", refuse)
    model = _model()
    compiled = torch.compile(model, backend="dmlvk", options={"device": any_device, "weights": "counted"})
    x = torch.randn(4, 32)
    for _ in range(3):
        assert torch.allclose(compiled(x), model(x), atol=1e-5)
        with torch.no_grad():
            model.scale.add_(0.25)
        model.weight = model.new()
    with pytest.raises(dml.InvalidArgumentError, match="weights must be one of"):
        device_for({"weights": "frozen"})
