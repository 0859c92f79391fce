"""Where tests of PyTorch's device compute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dmlvk as dml


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have compiled and said nothing, and random numbers begin anew."""
    torch, dynamo = pytest.importorskip("torch"), pytest.importorskip("torch._dynamo")
    dynamo.reset()
    dynamo.utils.counters.clear()
    torch.manual_seed(0)
    for module in ("compiler", "device.kernels"):
        monkeypatch.setattr(f"dmlvk.torch.{module}._said", set())


@pytest.fixture
def on(any_device: dml.Device) -> Iterator[str]:
    """The device's name, with one of the drivers behind it."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("dmlvk.torch")
    torch.dmlvk.use(any_device)
    yield "dmlvk"
    torch.dmlvk.use(None)


@pytest.fixture
def strict(on: str) -> Iterator[str]:
    """The same where nothing may be left to the CPU."""
    torch = pytest.importorskip("torch")
    torch.dmlvk.set_fallback("raise")
    yield on
    torch.dmlvk.set_fallback("warn")
