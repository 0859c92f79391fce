"""Damaged models end in a result or in one of dmlvk's errors; ``python -m tests.onnx.mutations`` tries 3,000."""

from __future__ import annotations

import logging
import warnings

import pytest

import dmlvk as dml
import dmlvk.onnx as ort
from tests.effort import some
from tests.onnx.mutations import sound_models, try_damaged


@pytest.mark.parametrize("part", some(range(5), 5))
def test_damaged_models_end_in_an_error_or_run(
    any_device: dml.Device, part: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "dmlvk")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(part * 60, part * 60 + 60):
            try_damaged(seed, any_device)


def test_what_is_damaged_was_sound(any_device: dml.Device) -> None:
    for model in sound_models():
        ort.InferenceSession(model, device=any_device)
