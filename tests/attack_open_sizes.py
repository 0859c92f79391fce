"""Attacks by sizes: sound models whose sizes are open, and decoders, run at one size after the other."""

from __future__ import annotations

import dmlvk as dml
from tests.onnx import random_decoders
from tests.onnx.random_open_models import case_of, compared


def open_sizes(seed: int, device: dml.Device) -> str:
    """A random model has the bits of sessions for its sizes alone, and ONNX Runtime's results."""
    outcome = compared(case_of(0, seed), device)
    assert not outcome.faults, outcome.faults[0]
    return "runs"


def decoder(seed: int, device: dml.Device) -> str:
    """A random decoder likewise, and the same whatever the parts are that its text comes in."""
    faults = random_decoders.faults_of(random_decoders.drawn(0, seed), device)
    assert not faults, faults[0]
    return "runs"
