"""Results on their way from a device to those who compare: every chunk once, in order, in memory that is there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance import streaming
from dmlvk.conformance.streaming import Bench, Slots, computed, results_in, slots_needed

CHUNK, UNIT = 2**12, 2**10


@pytest.fixture
def slots() -> Iterator[Slots]:
    made = Slots(4 * CHUNK, 8)
    yield made
    made.close()


def sign_bench(device: dml.Device) -> Bench:
    tensor = dml.TensorDesc(dml.FLOAT32, (UNIT,))
    return Bench(device, dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor))


def test_chunks_come_in_order_with_the_device_s_results(any_device: dml.Device, slots: Slots) -> None:
    numbers = [5, 2**20 - 1, 0, 2**19, 7, 8, 9]
    found = []
    for number, slot in computed(lambda: sign_bench(any_device), dml.FLOAT32, slots, numbers, CHUNK):
        patterns = np.arange(number * CHUNK, (number + 1) * CHUNK, dtype=np.uint64).astype(np.uint32)
        values = patterns.view(np.float32)
        signs = (values > 0).astype(np.float32) - (values < 0).astype(np.float32)
        assert np.array_equal(results_in(slot, dml.FLOAT32, CHUNK), signs), number
        slots.give_back(slot)
        found.append(number)
    assert found == numbers


def test_no_more_slots_are_used_than_needed(any_device: dml.Device, slots: Slots) -> None:
    seen: list[Path] = []
    waiting: list[Path] = []
    for _, slot in computed(lambda: sign_bench(any_device), dml.FLOAT32, slots, range(30), CHUNK):
        seen.append(slot)
        waiting.append(slot)
        if len(waiting) == 5:
            slots.give_back(waiting.pop(0))
    assert len(set(seen)) <= slots_needed(5)


def test_an_error_of_the_device_reaches_the_reader(any_device: dml.Device, slots: Slots) -> None:
    class Broken(Bench):
        def run(self, first: int, results: Any) -> None:
            if first == 2 * CHUNK:
                raise dml.DeviceRemovedError("gone")
            super().run(first, results)

    tensor = dml.TensorDesc(dml.FLOAT32, (UNIT,))
    desc = dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor)
    found = []
    with pytest.raises(dml.DeviceRemovedError, match="gone"):
        for number, _ in computed(lambda: Broken(any_device, desc), dml.FLOAT32, slots, range(9), CHUNK):
            found.append(number)
    assert found == [0, 1]


def test_files_have_their_room_and_go(slots: Slots) -> None:
    first = slots.take()
    assert first.stat().st_size == 4 * CHUNK
    assert slots.take() != first
    slots.give_back(first)
    assert slots.take() == first
    slots.close()
    assert not first.parent.exists()


@pytest.mark.skipif(not hasattr(os, "statvfs"), reason="only where /dev/shm can be")
def test_little_shared_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's 64 MiB would be full soon, and writing to memory that is not there kills the process."""
    room = namedtuple("room", ["f_bavail", "f_frsize"])
    monkeypatch.setattr(os, "statvfs", lambda _: room(2**14, 4096))
    made = Slots(2**26, 10)
    try:
        assert "shm" not in str(made.take())
    finally:
        made.close()


def test_no_room_is_an_error(monkeypatch: pytest.MonkeyPatch, slots: Slots) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        slots.take()


def test_leftovers_of_killed_runs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_roomy_directory", lambda size: str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    long_ago = time.time() - 7200
    folders = {name: tmp_path / f"dmlvk-results-{name}-x" for name in (str(ended.pid), str(os.getpid()), "nobody")}
    for folder in folders.values():
        folder.mkdir()
        (folder / "0").write_bytes(b"x")
        for path in (folder / "0", folder):
            os.utime(path, (long_ago, long_ago))
    fresh = tmp_path / f"dmlvk-results-{ended.pid}-fresh"
    fresh.mkdir()
    Slots(16, 1).close()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {folders[str(os.getpid())].name, folders["nobody"].name, fresh.name}
