"""The example that trains a network: its gradients are the loss's slope, its losses the same bits on every driver."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_digits.py"
BATCH = 8


@pytest.fixture(scope="module")
def example() -> ModuleType:
    specification = importlib.util.spec_from_file_location("train_digits_example", EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def _first_loss(example: ModuleType, start: npt.NDArray[np.float32], *data: Any) -> float:
    with dml.Device() as device, pytest.MonkeyPatch.context() as patch:
        patch.setattr(example, "initial_parameters", lambda: start)
        return float(np.asarray(next(example.Training(device, *data, BATCH).losses(1))).item())


def test_losses_and_gradients(example: ModuleType) -> None:
    random = np.random.default_rng(5)
    ink = random.random((3 * BATCH, 1, 8, 8), np.float32)
    digits = random.integers(0, 10, len(ink)).astype(np.uint32)
    curves, states = [], []
    for info in dml.list_devices():
        with dml.Device(info.index) as device:
            training = example.Training(device, ink, digits, BATCH)
            curve = []
            for loss in itertools.islice(training.losses(1), 2):
                curve.append(np.asarray(loss).item())
                if len(curve) == 1:
                    mean = np.asarray(training.state["mean"]).copy()
            curves.append(curve)
            states.append({name: np.asarray(array).tobytes() for name, array in training.state.items()})
            assert np.asarray(training.state["step"]).tolist() == [2]
    assert all(curve == curves[0] for curve in curves)
    assert all(state == states[0] for state in states)
    start, gradient = example.initial_parameters(), mean * 10
    first = sum(int(np.prod(example.SHAPES[name])) for name in ("w3", "w2"))
    for part in (slice(None), slice(first, first + int(np.prod(example.SHAPES["w1"])))):  # the loss along it
        step = np.zeros_like(gradient)
        step[part] = gradient[part] * 0.01 / np.linalg.norm(gradient[part])
        before, after = (_first_loss(example, start + sign * step, ink, digits) for sign in (-1, 1))
        assert (after - before) / 0.02 == pytest.approx(np.linalg.norm(gradient[part]), rel=1e-2)
    assert np.count_nonzero(gradient) > 0.5 * example.COUNT


def test_the_curve_is_drawn(example: ModuleType, tmp_path: Path) -> None:
    example.draw(np.array([2.3, 0.9, 0.1, 0.004], np.float32), "falling", tmp_path / "new" / "loss.svg")
    drawn = (tmp_path / "new" / "loss.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg") and ">falling</text>" in drawn and drawn.count("<polyline") == 9
