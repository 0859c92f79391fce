"""Caches that a model joins by itself, outside of attention operators: few plans for all lengths, on the device too."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.bound_caches import CACHES
from tests.onnx.masked_caches import BATCH, HEADS, HIDDEN, JOINED, SIZE, Array


def _fed(step: int, new: int) -> dict[str, Array]:
    random = np.random.default_rng(step)
    return {name: random.standard_normal((BATCH, new, HIDDEN)).astype(np.float32) for name in "qkv"}


def _session(device: dml.Device) -> ort.InferenceSession:
    return ort.InferenceSession(JOINED["joined, products"].model(), device=device)


def test_sizes_that_stay_the_same_on_the_device_are_planned_alone(device: dml.Device) -> None:
    session = _session(device)
    random = np.random.default_rng(1)
    caches = {name: random.standard_normal((BATCH, HEADS, 4, SIZE)).astype(np.float32) for name in CACHES}
    there = {name: ort.OrtValue.ortvalue_from_numpy(array, "dml") for name, array in caches.items()}
    for step in range(3):
        fed = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in _fed(step, 2).items()}
        results = session.run_with_ort_values(["y", "present_key"], fed | there)
        expected = session.run(["y", "present_key"], _fed(step, 2) | caches)
        for result, wanted in zip(results, expected, strict=True):
            assert result.numpy().tobytes() == wanted.tobytes()
    assert len(session._program._dynamic) == 1  # that of the host's arrays


def test_an_array_that_was_closed_is_refused_and_later_runs_go_on(device: dml.Device) -> None:
    session = _session(device)
    for old in (4, 6, 5, 7):
        caches = {name: device.array(np.ones((BATCH, HEADS, old, SIZE), np.float32)) for name in CACHES}
        fed = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in _fed(old, 2).items()}
        there = {name: ort.OrtValue.ortvalue_from_array(array) for name, array in caches.items()}
        if old == 5:
            caches["past_key"].close()
            with pytest.raises(dml.DmlError, match="closed"):
                session.run_with_ort_values(None, fed | there)
            continue
        present = session.run_with_ort_values(None, fed | there)[1].numpy()
        assert present.shape == (BATCH, HEADS, old + 2, SIZE) and (present[:, :, :old] == 1).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("width", [3, 4096])
def test_an_open_axis_may_be_joined_wherever_it_is_and_however_long_rows_are(
    device: dml.Device, axis: int, width: int
) -> None:
    """Copies that are not small choose the axis of which an invocation takes four elements by its length."""
    shape: list[int | str] = [2, 5, width]
    added = shape.copy()
    shape[axis], added[axis] = "old", "new"
    node = helper.make_node("Concat", ["past", "x"], ["present"], axis=axis)
    model = models.model([node], {"past": shape, "x": added}, ["present"])
    session = ort.InferenceSession(model, device=device)
    random = np.random.default_rng(axis)
    wanted = random.standard_normal([4 if size == "old" else int(size) for size in shape]).astype(np.float32)
    past = ort.OrtValue.ortvalue_from_numpy(wanted, "dml")
    for _ in range(20):
        row = random.standard_normal([2 if size == "new" else int(size) for size in added]).astype(np.float32)
        given = {"past": past, "x": ort.OrtValue.ortvalue_from_numpy(row)}
        (past,) = session.run_with_ort_values(None, given)
        wanted = np.concatenate([wanted, row], axis)
        assert np.array_equal(past.numpy(), wanted)
    assert session._program.plan_count <= 6
