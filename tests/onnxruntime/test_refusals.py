"""Inputs that a graph cannot compute with: ONNX Runtime's own errors, and sessions that stay on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnxruntime.models import BOTH, alone, parts_of, session_of

_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64


def _model(node: onnx.NodeProto, inputs: dict[str, tuple[int, list[Any]]]) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(name, *info) for name, info in inputs.items()]
    result = helper.make_tensor_value_info("y", _FLOAT, None)
    nodes = [node, helper.make_node("Relu", ["a"], ["y"])]
    table = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "table")
    graph = helper.make_graph(nodes, "refusals", given, [result], [table])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


_PAIR = {"x": (_FLOAT, ["m", "n"]), "z": (_FLOAT, ["p", "q"])}
_SHAPED = {"x": (_FLOAT, ["m", "n"]), "z": (_INT64, ["k"])}

CASES: dict[str, tuple[onnx.NodeProto, Any, dict[str, Any], dict[str, Any]]] = {
    "product": (helper.make_node("MatMul", ["x", "z"], ["a"]), _PAIR, {"z": _ones(3, 2)}, {"z": _ones(4, 2)}),
    "sum": (helper.make_node("Add", ["x", "z"], ["a"]), _PAIR, {"z": _ones(1, 3)}, {"z": _ones(2, 5)}),
    "joined": (helper.make_node("Concat", ["x", "z"], ["a"], axis=1), _PAIR, {"z": _ones(2, 1)}, {"z": _ones(3, 1)}),
    "lines": (
        *(helper.make_node("Gather", ["table", "z"], ["a"]), {"z": _SHAPED["z"]}),
        *({"z": np.array([1, -2])}, {"z": np.array([0, 7])}),
    ),
    "shape": (
        *(helper.make_node("Reshape", ["x", "z"], ["a"]), _SHAPED),
        *({"z": np.array([3, 2])}, {"z": np.array([4, 2])}),
    ),
    "wide": (
        *(helper.make_node("Expand", ["x", "z"], ["a"]), _SHAPED),
        *({"z": np.array([4, 1, 1])}, {"z": np.array([2, 4])}),
    ),
    "parts": (
        *(helper.make_node("Tile", ["x", "z"], ["a"]), _SHAPED),
        *({"z": np.array([2, 1])}, {"z": np.array([2, 1, 1])}),
    ),
}


def _kind(session: onnxruntime.InferenceSession, given: dict[str, Any]) -> type[BaseException] | None:
    try:
        session.run(None, given)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions have no base of their own
        return type(error)
    return None


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_computed_is_refused_as_onnx_runtime_refuses_it(name: str) -> None:
    node, inputs, right, wrong = CASES[name]
    model = _model(node, inputs)
    if "x" in inputs:
        right, wrong = {"x": _ones(2, 3)} | right, {"x": _ones(2, 3)} | wrong
    assert parts_of(session_of(model)), "the device has the node"
    session, expected = onnxruntime.InferenceSession(model.SerializeToString(), providers=BOTH), alone(model)
    wanted = expected.run(None, right)[0]
    for _ in range(2):
        for _ in range(4):  # from the third run on, it repeats others
            np.testing.assert_allclose(session.run(None, right)[0], wanted, rtol=1e-5)
        kind = _kind(expected, wrong)
        assert kind is not None
        assert _kind(session, wrong) is kind
        assert session.get_providers() == BOTH
