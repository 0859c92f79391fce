"""Weights that are replaced, changed, or could not be prepared: the next call computes with what they are then."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")

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
