"""Graphs: nodes and edges, their checks, fused kernels, and the memory plan that lets intermediate tensors share."""

from dmlvk.graphs.description import (
    ConstantGraphNode,
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OperatorGraphNode,
    OutputGraphEdge,
)

__all__ = [
    "ConstantGraphNode", "GraphDesc", "InputGraphEdge", "IntermediateGraphEdge", "OperatorGraphNode",
    "OutputGraphEdge",
]  # fmt: skip
