"""Attacks by sizes: models whose sizes are open, decoders, and caches that contradict the rest."""

from __future__ import annotations

import contextlib

import dmlvk as dml
from tests.onnx import random_decoders
from tests.onnx.contradicting_caches import OnnxRuntime, fault_of
from tests.onnx.random_open_models import case_of, compared


def open_sizes(seed: int, device: dml.Device) -> str:
    """A random model has the bits of sessions for its sizes alone, and ONNX Runtime's results."""
    outcome = compared(case_of(0, seed), device)
    assert not outcome.faults, outcome.faults[0]
    return "runs"


def contradicting_caches(seed: int, device: dml.Device) -> str:
    """Attention over caches of which something contradicts the rest is refused, or as by ONNX Runtime."""
    with contextlib.closing(OnnxRuntime()) as runtime:
        outcome, label, words = fault_of(0, seed, device, runtime)
    assert outcome != "fault", f"{label}: {words}"
    return str(outcome)


def decoder(seed: int, device: dml.Device) -> str:
    """A random decoder likewise, and the same whatever the parts are that its text comes in."""
    faults = random_decoders.faults_of(random_decoders.drawn(0, seed), device)
    assert not faults, faults[0]
    return "runs"
