"""Damaged model files end in a result or in a ModelFileError with a place, never in another exception."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from tests.attack import json_model
from tests.effort import IS_QUICK


def test_the_undamaged_model_runs(run: Callable[..., Any], tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", np.array([[0, 1], [2, 255]], np.uint8))
    content = json.loads(Path(__file__).with_name("everything.json").read_text("utf-8"))
    assert run(content)[0].expectations == 1


@pytest.mark.parametrize("first", range(0, 600, 60 if not IS_QUICK else 300))
def test_damaged_files_run_or_are_refused_with_their_place(first: int, any_device: dml.Device) -> None:
    ends = set()
    for seed in range(first, first + 60):
        try:
            ends.add(json_model(seed, any_device))
        except dml.ModelFileError:
            ends.add("refused")
    assert "refused" in ends
