"""Devices, threads, and a watch over those that wait."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dmlvk.runtime.kompute import Engine, Recording
from tests.device.watching import Watch, Watched


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """All that is recorded in the test is under watch."""
    watch, record = Watch(), Engine.record

    def watched(engine: Engine, *args: Any, **options: Any) -> Recording:
        recording = record(engine, *args, **options)
        object.__setattr__(recording, "sequence", Watched(recording.sequence, watch))
        return recording

    monkeypatch.setattr(Engine, "record", watched)
    return watch


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool
