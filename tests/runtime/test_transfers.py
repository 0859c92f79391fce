"""Copies between host and device are recorded once, and go with the memory that they copy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.runtime import transfers
from dmlvk.runtime.kompute import Engine
from dmlvk.runtime.work import Allocation


@pytest.fixture
def engine(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A new engine with memory that the host sees through a copy, as a discrete GPU's."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda self: True))
    opened = Engine(device.info)
    yield opened
    opened.close()


def round_trip(engine: Engine, allocation: Allocation, value: int) -> None:
    """Words go to the device and come back, though the host's side was overwritten in between."""
    words = np.full(16, value, np.uint32)
    engine.write(allocation, lambda target: np.copyto(target, words.view(np.uint8)))
    engine._upload([allocation])  # as a submission does that reads it
    engine.wait_for(allocation)
    allocation.host_bytes[:] = 0
    allocation.download_pending = True
    assert engine.read(allocation, lambda source: source.view(np.uint32).tolist()) == words.tolist()


def test_a_transfer_is_recorded_once(engine: Engine) -> None:
    first, second = engine.allocate(64), engine.allocate(64)
    for value in range(3):
        round_trip(engine, first, value)
        assert len(engine._transfers) == 2
    recorded = engine._transfers.objects()
    round_trip(engine, first, 7)
    assert set(map(id, engine._transfers.objects())) == set(map(id, recorded))
    round_trip(engine, second, 8)
    assert len(engine._transfers) == 4


def test_transfers_go_with_their_memory(engine: Engine) -> None:
    kept, freed = engine.allocate(64), engine.allocate(64)
    engine._upload([kept, freed])
    round_trip(engine, freed, 1)
    round_trip(engine, kept, 2)
    engine.release(freed)
    assert len(engine._transfers) == 2
    round_trip(engine, kept, 3)


def test_few_transfers_are_kept(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "MOST_RECORDED", 3)
    allocations = [engine.allocate(64) for _ in range(4)]
    for value, allocation in enumerate(allocations):
        round_trip(engine, allocation, value)
        assert len(engine._transfers) <= 3
    round_trip(engine, allocations[0], 9)
