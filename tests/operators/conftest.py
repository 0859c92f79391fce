"""Processors' devices compute as GPUs do."""

from __future__ import annotations

import pytest

from tests.targets import all_compute_as_gpus


@pytest.fixture(autouse=True)
def _processors_compute_as_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    all_compute_as_gpus(monkeypatch)


@pytest.fixture
def own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each device has its own kernels, unless a test says otherwise: SwiftShader compiles a GPU's for ten seconds."""
    all_compute_as_gpus(monkeypatch, as_gpus=False)
