"""What follows from constants alone is computed once, into as many buffers as it needs."""

from __future__ import annotations

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.runtime.vulkan.devices import DeviceLimits

SIDE = 32
BYTES = 4 * SIDE * SIDE
COUNT = 7


def test_constants_beyond_the_largest_buffer_lie_in_several(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that are only read once, and of what is computed between, nothing stays."""
    monkeypatch.setattr(DeviceLimits, "largest_buffer", 2 * BYTES)
    graph = dml.Graph(device)
    y = graph.input("x", dml.FLOAT32, (1, 1, 3, SIDE))
    draw = np.random.default_rng(5)
    expected = values = draw.normal(0, 1, (1, 1, 3, SIDE)).astype(np.float32)
    for _ in range(COUNT):
        weight = draw.integers(-4, 5, (1, 1, SIDE, SIDE)).astype(np.float32)
        largest = np.abs(weight).max(axis=2, keepdims=True)
        constant = graph.constant(weight)
        y = y @ (constant / F.max(F.absolute(constant), axis=2, keepdims=True))
        expected = expected @ (weight / largest)
    compiled = graph.compile(y=y)
    assert len(compiled.stages_once) >= COUNT
    assert len(compiled.constants) > 1
    assert sum(buffer.size_in_bytes for buffer in compiled.constants) == COUNT * BYTES
    for _ in range(2):
        result = device.run(compiled, {"x": values})["y"]
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * float(np.abs(expected).max()))
    assert (device.run(compiled, {"x": device.array(values)}, keep=True)["y"].numpy() == result).all()


def test_what_follows_from_a_value_that_is_too_large_to_be_kept_is_computed_behind_it(any_device: dml.Device) -> None:
    """The table of 25 numbers takes more memory than the two rows that it follows from; its largest numbers do not."""
    graph = dml.Graph(any_device)
    fifths = np.arange(5, dtype=np.float32) / 5
    table = F.exp(graph.constant(fifths.reshape(1, 5)) * graph.constant(fifths.reshape(5, 1)))
    largest = F.max(table, axis=1, keepdims=True)
    x, w = (graph.input(name, dml.FLOAT32, (5, 5)) for name in "xw")
    model = graph.compile(y=(F.gemm(x, table) + F.gemm(w, table)) * largest)
    a, b = np.random.default_rng(1).random((2, 5, 5), np.float32)
    expected = np.exp(np.outer(fifths, fifths))
    found = any_device.run(model, {"x": a, "w": b})["y"]
    np.testing.assert_allclose(found, (a + b) @ expected * expected.max(1, keepdims=True), rtol=1e-5)
