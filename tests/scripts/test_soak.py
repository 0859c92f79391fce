"""The soak script: its actions work, and it says what it finds."""

from __future__ import annotations

import random

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
