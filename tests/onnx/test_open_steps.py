"""RNN, GRU and LSTM whose number of steps is open: few plans, with the bits of a plan for each number alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.plan.segments import Segment
from tests.onnx import models
from tests.onnx.counted_calls import calls_of

Array = npt.NDArray[Any]

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_BATCH, _INPUTS, _UNITS = 3, 4, 6
_STEPS = (5, 8, 7, 6, 9, 16, 12, 2, 3, 11)
"""Between 2 and 16: powers of two, and what lies between them; a plan each for 2, up to 4, up to 8, and up to 16."""


def _model(
    op_type: str, direction: str, steps: int | str, *, has_lengths: bool, layout: int = 0, **attributes: Any
) -> onnx.ModelProto:
    random, directions = np.random.default_rng(1), 2 if direction == "bidirectional" else 1
    rows = _GATES[op_type] * _UNITS
    shapes = {"w": (rows, _INPUTS), "r": (rows, _UNITS), "b": (2 * rows,)}
    constants = {name: random.normal(0, 0.5, (directions, *s)).astype(np.float32) for name, s in shapes.items()}
    outputs = ["y", "y_h", "y_c"][: 3 if op_type == "LSTM" else 2]
    names = ["x", "w", "r", "b", *(["lengths"] if has_lengths else [])]
    more: dict[str, Any] = {"layout": 1} if layout else {}
    node = helper.make_node(op_type, names, outputs, direction=direction, hidden_size=_UNITS, **attributes, **more)
    inputs: dict[str, Any] = {"x": _turned([steps, "batch", _INPUTS], layout)}
    if has_lengths:
        inputs["lengths"] = (TensorProto.INT32, ["batch"])
    return models.model([node], inputs, outputs, constants, opset=14)


def _turned(shape: list[Any], layout: int) -> list[Any]:
    return [shape[1], shape[0], shape[2]] if layout else shape


def _feed(steps: int, *, has_lengths: bool, layout: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(steps)
    x = random.standard_normal(_turned([steps, _BATCH, _INPUTS], layout)).astype(np.float32)
    lengths = {"lengths": np.array([steps, 1, max(1, steps - 2)], np.int32)} if has_lengths else {}
    return {"x": x, **lengths}


@pytest.mark.t_way(1)
@pytest.mark.parametrize("has_lengths", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op_type", "attributes"), [("RNN", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {})]
)
def test_steps_have_a_plan_for_each_power_of_two_and_the_bits_of_one_for_them_alone(
    any_device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    op_type: str,
    attributes: dict[str, Any],
    direction: str,
    has_lengths: bool,
) -> None:
    plans = calls_of(monkeypatch, Segment, "__init__")
    model = _model(op_type, direction, "steps", has_lengths=has_lengths, **attributes)
    session = ort.InferenceSession(model, device=any_device, strict=True)
    theirs = models.onnx_runtime(model)
    feeds = [_feed(steps, has_lengths=has_lengths) for steps in _STEPS]
    made = [session.run(None, feed) for feed in feeds]
    assert len(plans) == 4, f"{len(plans)} plans for {len(_STEPS)} sizes"
    for steps, feed, results in zip(_STEPS, feeds, made, strict=True):
        alone = _model(op_type, direction, steps, has_lengths=has_lengths, **attributes)
        planned = ort.InferenceSession(alone, device=any_device, strict=True).run(None, feed)
        for number, (got, wanted) in enumerate(zip(results, planned, strict=True)):
            assert got.tobytes() == wanted.tobytes(), f"output {number} of {steps} steps has other bits than alone"
        for got, wanted in zip(results, theirs.run(None, feed), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=f"{steps} steps")


@pytest.mark.parametrize("op_type", list(_GATES))
def test_open_steps_of_sequences_that_come_first(device: dml.Device, op_type: str) -> None:
    model = _model(op_type, "bidirectional", "steps", has_lengths=True, layout=1)
    session = ort.InferenceSession(model, device=device, strict=True)
    for steps in _STEPS:
        feed = _feed(steps, has_lengths=True, layout=1)
        alone = _model(op_type, "bidirectional", steps, has_lengths=True)
        turned = feed | {"x": np.ascontiguousarray(feed["x"].swapaxes(0, 1))}
        expected = ort.InferenceSession(alone, device=device, strict=True).run(None, turned)
        y, *states = session.run(None, feed)
        assert y.tobytes() == expected[0].transpose(2, 0, 1, 3).tobytes(), f"{steps} steps"
        for got, wanted in zip(states, expected[1:], strict=True):
            assert got.tobytes() == wanted.swapaxes(0, 1).tobytes(), f"last states of {steps} steps"
    assert session._program.plan_count == 4
