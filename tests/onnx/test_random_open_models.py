"""Random models with open sizes, and random decoders, have the bits of sessions for their sizes alone."""

from __future__ import annotations

import pytest

import dmlvk as dml
from tests.effort import some
from tests.onnx import random_decoders
from tests.onnx.random_open_models import case_of, compared


@pytest.mark.parametrize("number", some(range(12), 4))
def test_random_models_at_sizes_that_follow_each_other(device: dml.Device, number: int) -> None:
    outcome = compared(case_of(7, number), device)
    assert not outcome.faults, "\n".join(outcome.faults)


@pytest.mark.parametrize("number", some(range(8), 4))
def test_random_decoders_whose_text_comes_in_parts(device: dml.Device, number: int) -> None:
    faults = random_decoders.faults_of(random_decoders.drawn(7, number), device)
    assert not faults, "\n".join(faults)
