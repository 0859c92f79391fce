"""Nodes that run by their definition, of open sizes: one plan, with the bits of plans for those sizes alone."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models


def _model(tokens: int | str) -> onnx.ModelProto:
    node = helper.make_node("RMSNormalization", ["x", "scale"], ["y"], axis=-1, epsilon=1e-5)
    return models.model([node], {"x": [2, tokens, 16], "scale": [16]}, ["y"], opset=23)


def test_a_node_of_open_sizes_by_its_definition_has_one_plan(any_device: dml.Device) -> None:
    random = np.random.default_rng(1)
    session = ort.InferenceSession(_model("tokens"), device=any_device, strict=True)
    for tokens in (17, 31, 25, 20):
        feed = {"x": random.standard_normal((2, tokens, 16), np.float32), "scale": random.random(16, np.float32)}
        (made,) = session.run(None, feed)
        expected = feed["x"] / np.sqrt(np.mean(np.square(feed["x"], dtype=np.float64), -1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(made, expected * feed["scale"], rtol=1e-5, err_msg=f"{tokens} tokens")
        (alone,) = ort.InferenceSession(_model(tokens), device=any_device, strict=True).run(None, feed)
        assert made.tobytes() == alone.tobytes(), f"{tokens} tokens have other bits than planned alone"
    assert session._program.plan_count == 1
