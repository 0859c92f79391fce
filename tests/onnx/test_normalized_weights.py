"""What follows from weights alone is computed once, however large it is together, and nothing but its results stays."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper

import dmlvk.onnx
from dmlvk.runtime.vulkan.devices import DeviceLimits
from tests.onnx import models

WIDTH = 48
WEIGHT = 4 * WIDTH * WIDTH


def _normalized(kind: str, number: int) -> list[tuple[str, list[str], list[str], dict[str, Any]]]:
    """Nodes that make ``w`` of ``v``, as weight_norm, weight standardization and a transposed export write them."""
    v, w = f"v{number}", f"w{number}"
    a, b, c, d = (f"{letter}{number}" for letter in "abcd")
    if kind == "norm":
        return [
            ("ReduceL2", [v], [a], {"axes": [0], "keepdims": 1}),
            ("Div", [v, a], [b], {}),
            ("Mul", [b, f"g{number}"], [w], {}),
        ]
    if kind == "standardized":
        return [
            ("ReduceMean", [v], [a], {"axes": [0], "keepdims": 1}),
            ("Sub", [v, a], [b], {}),
            ("Mul", [b, b], [c], {}),
            ("ReduceMean", [c], [d], {"axes": [0], "keepdims": 1}),
            ("Add", [d, "epsilon"], [f"e{number}"], {}),
            ("Sqrt", [f"e{number}"], [f"r{number}"], {}),
            ("Div", [b, f"r{number}"], [f"s{number}"], {}),
            ("Mul", [f"s{number}", f"g{number}"], [w], {}),
        ]
    return [("Tanh", [v], [a], {}), ("Transpose", [a], [b], {"perm": [1, 0]}), ("Softmax", [b], [w], {"axis": 0})]


def _model(kinds: list[str], rows: int | str, seed: int) -> ModelProto:
    draw = np.random.default_rng(seed)
    nodes, weights = [], {"epsilon": np.array([1e-5], np.float32)}
    for number, kind in enumerate(kinds):
        weights[f"v{number}"] = draw.normal(0, 1, (WIDTH, WIDTH)).astype(np.float32)
        weights[f"g{number}"] = draw.uniform(0.05, 0.2, (1, WIDTH)).astype(np.float32)
        nodes += [helper.make_node(op, reads, writes, **more) for op, reads, writes, more in _normalized(kind, number)]
        nodes.append(helper.make_node("MatMul", [f"x{number}", f"w{number}"], [f"x{number + 1}"]))
    return models.model(nodes, {"x0": [rows, WIDTH]}, [f"x{len(kinds)}"], weights)


@pytest.mark.parametrize("rows", [3, "n"])
@pytest.mark.parametrize("seed", range(3))
def test_weights_that_are_normalized_in_the_model_take_several_buffers_and_their_room_once(
    rows: int | str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceLimits, "largest_buffer", 2 * WEIGHT + 1024)
    kinds = random.Random(seed).choices(["norm", "standardized", "transposed"], k=9)
    model = _model(kinds, rows, seed).SerializeToString()
    session = dmlvk.onnx.InferenceSession(model)
    reference = onnxruntime.InferenceSession(model)
    for count in (3,) if rows == 3 else (3, 7, 2):
        x = np.random.default_rng(count).normal(0, 1, (count, WIDTH)).astype(np.float32)
        for _ in range(2):
            (result,) = session.run(None, {"x0": x})
            (expected,) = reference.run(None, {"x0": x})
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * float(np.abs(expected).max()))
    assert session.usage.device_bytes < (len(kinds) + 2) * WEIGHT, "weights, or what is between, stay on the device"
