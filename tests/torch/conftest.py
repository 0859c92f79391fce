"""Where tests of PyTorch's device compute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dmlvk as dml


@pytest.fixture
def on(any_device: dml.Device) -> Iterator[str]:
    """The device's name, with one of the drivers behind it."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("dmlvk.torch")
    torch.manual_seed(0)
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
