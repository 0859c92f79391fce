"""Masks and biases beside caches: one plan for all lengths, as ONNX Runtime has it, whatever makes and holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.plan.segments import Segment
from tests.onnx import models
from tests.onnx.bound_caches import CACHES, bound
from tests.onnx.counted_calls import calls_of
from tests.onnx.masked_caches import BATCH, CAPACITY, FORMS, HEADS, JOINED, OF_DEVICE, OUTPUTS, SIZE, Array, Form
from tests.targets import most_plans

_ALL = FORMS | OF_DEVICE | JOINED


def _texts(steps: list[list[Array]]) -> Array:
    return np.concatenate([y for y, *_ in steps], axis=1)


@pytest.mark.parametrize("name", _ALL)
def test_a_length_is_in_no_plan_and_no_recording(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    recorded = calls_of(monkeypatch, any_device.engine, "record")
    form, parts = _ALL[name], [5, *[1] * 12]
    model = form.model()
    session = ort.InferenceSession(model, device=any_device)
    made = form.steps(session, parts)
    planned = len(plans)
    # A prompt, and a token; where shapes of caches are read, the prompt without any has rounds of its own.
    assert planned <= most_plans(any_device, 4 if "by the caches" in name or name in JOINED else 2)
    expected = form.steps(models.onnx_runtime(model), parts)
    y = _texts(made)
    np.testing.assert_allclose(y[:, 2:], _texts(expected)[:, 2:], rtol=2e-5, atol=2e-5)  # hidden queries see nothing
    rows = sum(parts)
    for got, wanted in zip(made[-1][1:], expected[-1][1:], strict=True):
        np.testing.assert_allclose(got[:, :, :rows], wanted[:, :, :rows], rtol=2e-5, atol=2e-5)
    for steps, most in ((12, 8), (30, 4)):  # for the room and the memory of other caches
        before = len(plans) + len(recorded)
        bound_y = np.concatenate(form.bound_steps(session, [5, *[1] * steps]), axis=1)
        assert bound_y[:, : y.shape[1]].tobytes() == y.tobytes()
        assert len(plans) + len(recorded) - before <= most


@pytest.mark.parametrize("name", OF_DEVICE | JOINED)
def test_results_have_the_bits_of_plans_for_their_lengths_alone(any_device: dml.Device, name: str) -> None:
    form, parts, total = _ALL[name], [5, 1, 1, 3, 1], 0
    made = form.steps(ort.InferenceSession(form.model(), device=any_device), parts)
    caches = form.empty()
    for part, (tokens, feed) in enumerate(zip(parts, form.feeds(parts), strict=True)):
        total += tokens
        alone = ort.InferenceSession(form.model(BATCH, tokens, total), device=any_device)
        for output, got, wanted in zip(OUTPUTS, made[part], alone.run(OUTPUTS, {**feed, **caches}), strict=True):
            assert got.tobytes() == wanted.tobytes(), f"{output} of part {part} has other bits than planned alone"
        caches = dict(zip(CACHES, made[part][1:], strict=True))


def test_a_mask_of_what_stands_before_gives_the_bits_of_no_mask(device: dml.Device) -> None:
    parts = [5, 1, 2, 1]
    y, expected = (
        _texts(form.steps(ort.InferenceSession(form.model(), device=device), parts))
        for form in (FORMS["a mask that is made, growing"], FORMS["no mask, ONNX"])
    )
    assert y[0].tobytes() == expected[0].tobytes()  # nothing of the first text is hidden


def test_caches_with_much_room_have_one_plan_too(device: dml.Device) -> None:
    form, parts = FORMS["a mask, shared"], [3, 1, 1, 1]
    with ort.InferenceSession(form.model(), device=device) as session:
        y = _texts(Form(form.op_type, form.order, 9000).steps(session, parts))
        assert session._program.plan_count == 2
        assert _texts(form.steps(session, parts)).tobytes() == y.tobytes()


_OTHER_KEYS = "5 tokens and 1 new ones contradict a mask of 9 keys"
_ROWS = "'past_key' and 'past_value' must have as many sequences, heads and rows; got"
_REFUSED: dict[str, tuple[Form, dict[str, Array], tuple[int, int], str]] = {
    "a mask of other keys": (
        *(FORMS["a mask, shared"], {"mask": np.ones((BATCH, 9), np.int32)}, (CAPACITY, CAPACITY), _OTHER_KEYS),
    ),
    "a mask on the device of other keys": (
        OF_DEVICE["shared, heads"],
        {"attention_mask": np.ones((BATCH, 9), np.int64)},
        (CAPACITY, CAPACITY),
        _OTHER_KEYS,
    ),
    "more than there is room for": (
        FORMS["no mask, shared"],
        {"count": np.array([CAPACITY], np.int32)},
        (CAPACITY, CAPACITY),
        f"{CAPACITY} tokens and 1 new ones do not go into",
    ),
    "less than nothing": (
        *(FORMS["no mask, shared"], {"count": np.array([-1], np.int32)}, (CAPACITY, CAPACITY)),
        "-1 tokens stand before",
    ),
    "keys and values of different rows": (FORMS["a bias, groups"], {}, (CAPACITY, CAPACITY - 1), _ROWS),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_contradicts_is_refused_and_shared_caches_stay(any_device: dml.Device, name: str) -> None:
    form, other, rows, words = _REFUSED[name]
    session = ort.InferenceSession(form.model(), device=any_device)
    feed: dict[str, Any] = form.feeds([5, 1])[1] | other
    values = {
        cache: np.ones((BATCH, HEADS, count, SIZE), np.float32) for cache, count in zip(CACHES, rows, strict=True)
    }
    caches = {cache: ort.OrtValue.ortvalue_from_numpy(array, "dml") for cache, array in values.items()}
    with pytest.raises(dml.DmlError, match=words):
        bound(session, feed, caches, are_shared=True).run()
    assert all(caches[cache].numpy().tobytes() == array.tobytes() for cache, array in values.items())
    with pytest.raises(dml.DmlError, match=words):
        session.run(None, feed | values)


def test_numbers_of_a_mask_up_to_0_hide_a_key(device: dml.Device) -> None:
    form = FORMS["a mask, shared"]
    feed = form.feeds([5, 1])[1] | dict.fromkeys(CACHES, np.ones((BATCH, HEADS, CAPACITY, SIZE), np.float32))
    feed["mask"] = np.array([[1, -1, 2, 1, 0, 1], [-7, 0, 1, 1, 3, 1]], np.int32)
    sessions = ort.InferenceSession(form.model(), device=device), models.onnx_runtime(form.model())
    found, expected = (session.run(None, feed)[0] for session in sessions)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
