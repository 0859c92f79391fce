"""Small models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

import dmlvk.onnx as ort

OPSET = 17


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None] | None],
    outputs: Sequence[str],
    constants: Mapping[str, npt.NDArray[Any]] | None = None,
    *,
    element: int = TensorProto.FLOAT,
    opset: int = OPSET,
) -> onnx.ModelProto:
    """A model of these nodes; its inputs are of one element type."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info(name, element, shape) for name, shape in inputs.items()],
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def on_host(session: ort.InferenceSession) -> list[str]:
    """The nodes that the host computes, each with its operator and the reason: what a test's failure is to show."""
    return [f"{item.op_type} {item.node!r}: {item.reason}" for item in session.partition if item.place == "host"]


def two_branches() -> onnx.ModelProto:
    """Views, element-wise operators, a shape that follows from another one, and a symbolic size."""
    return model(
        [
            helper.make_node("Add", ["x", "bias"], ["sum"], name="add"),
            helper.make_node("Relu", ["sum"], ["bent"], name="bend"),
            helper.make_node("Transpose", ["bent"], ["turned"], perm=[1, 0]),
            helper.make_node("Shape", ["turned"], ["shape"]),
            helper.make_node("Neg", ["shape"], ["negated"]),
            helper.make_node("Abs", ["negated"], ["same shape"]),
            helper.make_node("Reshape", ["bent", "same shape"], ["y"], name="reshape"),
            helper.make_node("Exp", ["turned"], ["z"]),
        ],
        {"x": ["rows", 3]},
        ["y", "z"],
        {"bias": np.array([1, -2, 3], np.float32)},
    )
