"""Copies between host and device are recorded once, and go with the memory that they copy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.running.host_runs import HostRun
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
    monkeypatch.setattr(engine._transfers._recorded, "most", 3)
    allocations = [engine.allocate(64) for _ in range(4)]
    for value, allocation in enumerate(allocations):
        round_trip(engine, allocation, value)
        assert len(engine._transfers) <= 3
    round_trip(engine, allocations[0], 9)


@pytest.mark.parametrize(("elements", "is_copied"), [(2048, False), (2049, True)])
def test_small_inputs_and_outputs_of_a_run_lie_with_the_host(
    elements: int, is_copied: bool, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 KiB of them; with the unchanged Kompute, which cannot say that the host reads, all are copied."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda self: True))
    x = np.arange(elements, dtype=np.float32) - 7
    tensor = dml.TensorDesc(dml.FLOAT32, x.shape)
    desc = dml.ElementWiseAbs(input_tensor=tensor, output_tensor=tensor)
    with dml.Device(device.info.index) as opened:
        run = HostRun(opened.engine, opened.compile_operator(opened.create_operator(desc)))
        for shift in range(2):
            (y,) = run.execute({"InputTensor": x + shift}).values()
            assert y.tobytes() == np.abs(x + shift).tobytes()
        assert bool(run.recording.downloads) and bool(run.recording.uploads)
        copies = [allocation.has_staging for allocation in run.recording.uploads | run.recording.downloads]
        assert copies == [is_copied or not opened.engine._has_barriers] * 2
        run.close()
