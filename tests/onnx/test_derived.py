"""Integers that follow from open sizes are computed by the host's functions, with one plan for all sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.host.evaluation.call import FUNCTIONS
from tests.onnx import models

_OF_THREE: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "Add": ([[1, 2, 0]], {}),
    "Sub": ([[1, 2, 3]], {}),
    "Mul": ([[3, 1, 2]], {}),
    "Div": ([[2, 3, 4]], {}),
    "Mod": ([[64, 63, 64]], {}),
    "Max": ([[4, 0, 2]], {}),
    "Min": ([[99, 98, 97]], {}),
    "Neg": ([], {}),
    "Identity": ([], {}),
    "Cast": ([], {"to": TensorProto.INT32}),
    "Equal": ([[3, 3, 4]], {}),
    "Greater": ([[3, 99, 4]], {}),
    "GreaterOrEqual": ([[3, 99, 4]], {}),
    "Less": ([[3, 99, 4]], {}),
    "LessOrEqual": ([[3, 99, 4]], {}),
    "ReduceSum": ([[0]], {"keepdims": 0}),
    "ReduceProd": ([], {"axes": [0], "keepdims": 1}),
    "ReduceMax": ([], {"keepdims": 1}),
    "ReduceMin": ([], {"keepdims": 0}),
    "Reshape": ([[1, 3]], {}),
    "Flatten": ([], {"axis": 0}),
    "Squeeze": ([], {}),
    "Unsqueeze": ([[0, 2]], {}),
    "Transpose": ([], {"perm": [0]}),
    "Expand": ([[2, 1]], {}),
    "Tile": ([[2]], {}),
    "Concat": ([[7]], {"axis": 0}),
    "Split": ([[1, 2]], {"axis": 0}),
    "Slice": ([[-1], [2**63 - 1], [0], [-1]], {}),
    "Gather": ([[2, -3]], {"axis": 0}),
    "Where": ([], {}),
}
"""Further inputs of each operator, whose first one has three sizes; and its attributes."""

_SIZES = ((4, 8, 12), (8, 12, 16), (8, 12, 20))


def model_of(op_type: str) -> onnx.ModelProto:
    """An operator of the shape of x, with numbers that say the shape of another result."""
    more, attributes = _OF_THREE[op_type]
    constants = {f"c{number}": np.array(values, np.int64) for number, values in enumerate(more)}
    given = ["s", *constants]
    if op_type == "Where":
        constants = {"chosen": np.array([True, False, True]), "other": np.array([4, 5, 6], np.int64)}
        given = ["chosen", "s", "other"]
    outputs = ["v", "w"] if op_type == "Split" else ["v"]
    names = {**constants, "flat": np.array([-1], np.int64), "least": np.array([1], np.int64)}
    names |= {"first": np.zeros(3, np.int64), "second": np.ones(3, np.int64)}
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node(op_type, given, outputs, **attributes),
        helper.make_node("Cast", ["v"], ["numbers"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["numbers", "flat"], ["row"]),
        helper.make_node("Max", ["row", "least"], ["shape"]),
        helper.make_node("Slice", ["x", "first", "second"], ["corner"]),
        helper.make_node("Reshape", ["corner", "flat"], ["one"]),
        helper.make_node("Expand", ["one", "shape"], ["filled"]),
    ]
    return models.model(nodes, {"x": ["a", "b", "c"]}, [*outputs, "filled"], names)


def test_every_function_that_knows_sizes_is_tried() -> None:
    assert {name for (_, name), records in FUNCTIONS.items() if any(each.of_sizes for each in records)} == set(
        _OF_THREE
    )


@pytest.mark.parametrize("op_type", _OF_THREE)
def test_one_plan_computes_with_open_sizes_what_onnx_runtime_does(op_type: str, any_device: dml.Device) -> None:
    model = model_of(op_type)
    reference = models.onnx_runtime(model)
    with ort.InferenceSession(model, device=any_device) as session:
        for sizes in _SIZES:
            feed = {"x": np.random.default_rng(sizes).standard_normal(sizes, np.float32)}
            for found, expected in zip(session.run(None, feed), reference.run(None, feed), strict=True):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)
        assert len(session._program._dynamic) == 1
