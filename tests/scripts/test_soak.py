"""The soak script: its actions work, and it says what it finds."""

from __future__ import annotations

import random

import numpy as np
import pytest

import dmlvk as dml
from scripts import soak


@pytest.mark.parametrize("action", [action for action, _ in soak.ACTIONS if action is not soak.fork])
def test_actions_find_nothing(action: soak.Action, device: dml.Device) -> None:
    action(device, random.Random(1))


def test_faults_are_found(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_device: dml.Device, _choice: random.Random) -> None:
        raise soak.Fault("wrong")

    monkeypatch.setattr(soak, "ACTIONS", ((wrong, 1),))
    lines: list[str] = []
    assert soak.soak(device, 1.0, random.Random(1), lines.append) == ["wrong: Fault: wrong"] * 10


def test_growth_is_the_slope() -> None:
    assert soak._slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == 2.0


def test_memory_that_grows_is_a_fault() -> None:
    steady = [(float(10 * i), 200.0, 50.0 + i % 2) for i in range(30)]
    lines: list[str] = []
    assert soak._judged(steady, lines.append) == []
    assert lines == ["memory: in use +0.0 MiB, resident +0.00 MiB a minute"]
    leaking = [(now, resident, used + 0.06 * now) for now, resident, used in steady]
    assert soak._judged(leaking, lines.append) == ["memory in use grows by 12.0 MiB"]
    swelling = [(now, resident + 0.2 * now, used) for now, resident, used in steady]
    assert soak._judged(swelling, lines.append) == ["memory grows by 12.0 MiB a minute"]


def test_memory_in_use_is_counted() -> None:
    before = soak.used_mib()
    kept = np.ones(5 * 2**20, np.uint8), [object() for _ in range(100_000)]
    assert 5 < soak.used_mib() - before < 20
    del kept
    assert abs(soak.used_mib() - before) < 5
