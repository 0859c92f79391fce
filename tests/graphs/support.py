"""What the tests of graphs share: small graphs of a few operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.graphs import (
    ConstantGraphNode,
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OperatorGraphNode,
    OutputGraphEdge,
)
from tests.binding.support import floats, sign, threshold

Array = npt.NDArray[Any]

SIZES = (4, 6)
TENSOR = floats(*SIZES)
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(SIZES)


def maximum(a: dml.TensorDesc = TENSOR, b: dml.TensorDesc = TENSOR) -> dml.OperatorDesc:
    return dml.ElementWiseMax(a_tensor=a, b_tensor=b, output_tensor=floats(*a.sizes))


def add(a: dml.TensorDesc = TENSOR, b: dml.TensorDesc = TENSOR) -> dml.OperatorDesc:
    return dml.ElementWiseAdd(a_tensor=a, b_tensor=b, output_tensor=floats(*a.sizes))


def negate(tensor: dml.TensorDesc = TENSOR) -> dml.OperatorDesc:
    return dml.ElementWiseNegate(input_tensor=tensor, output_tensor=tensor)


def node(device: dml.Device, desc: dml.OperatorDesc, name: str = "") -> OperatorGraphNode:
    return OperatorGraphNode(device.create_operator(desc), name)


def chain(device: dml.Device, descs: Sequence[dml.OperatorDesc]) -> GraphDesc:
    return GraphDesc(
        1,
        1,
        [node(device, desc) for desc in descs],
        [InputGraphEdge(0, 0, 0)],
        [OutputGraphEdge(len(descs) - 1, 0, 0)],
        [IntermediateGraphEdge(number, 0, number + 1, 0) for number in range(len(descs) - 1)],
    )


def diamond(device: dml.Device) -> GraphDesc:
    """MAX(SIGN(x), THRESHOLD(x)) + constant ones."""
    return GraphDesc(
        1,
        1,
        [
            node(device, sign(TENSOR), "sign"),
            node(device, threshold(TENSOR, 0.25), "threshold"),
            node(device, maximum(), "max"),
            ConstantGraphNode(np.ones(SIZES, np.float32), "ones"),
            node(device, add(), "sum"),
        ],
        [InputGraphEdge(0, 0, 0), InputGraphEdge(0, 1, 0)],
        [OutputGraphEdge(4, 0, 0)],
        [
            IntermediateGraphEdge(0, 0, 2, 0),
            IntermediateGraphEdge(1, 0, 2, 1),
            IntermediateGraphEdge(2, 0, 4, 0),
            IntermediateGraphEdge(3, 0, 4, 1),
        ],
    )


DIAMOND_OF_X = np.maximum(np.sign(X), np.maximum(X, np.float32(0.25))) + 1


def result(device: dml.Device, build: Callable[..., dml.Expression], *arrays: Array) -> Array:
    """Runs what is built from an input for each array."""
    graph = dml.Graph(device)
    given = {f"x{number}": array for number, array in enumerate(arrays)}
    inputs = [graph.input(name, dml.DataType[a.dtype.name.upper()], a.shape) for name, a in given.items()]
    return device.run(graph.compile(y=build(*inputs)), given)["y"]


def fused(
    device: dml.Device, graph: dml.Graph, outputs: dml.Expression | dict[str, dml.Expression], arrays: dict[str, Array]
) -> dml.CompiledGraph:
    """The graph, compiled: its outputs have the same bits as where nothing is fused."""
    made, single = graph.compile(outputs), graph.compile(outputs, fuse=False)
    expected = device.run(single, arrays)
    for name, array in device.run(made, arrays).items():
        assert array.tobytes() == expected[name].tobytes(), name
    return made
