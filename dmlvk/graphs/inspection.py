"""The values inside a graph: what every operator of it has written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dmlvk.graphs.description import GraphDesc, OutputGraphEdge
from dmlvk.objects.compilation import ExecutionFlags

if TYPE_CHECKING:
    from dmlvk.graphs.compiled import CompiledGraph


def node_values(graph: CompiledGraph, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray[Any]]:
    """Runs a graph one operator at a time, and returns what each of them has written.

    A fused kernel keeps most of these values in registers; but its results are the same bits, so these are the values
    that it computes with.

    Returns:
        The output of every operator in the order of the nodes, by the node's name; where names are equal, or an
        operator has several outputs, numbers follow.
    """
    names: dict[str, tuple[int, int]] = {}
    for node in sorted(graph.network.nodes, key=lambda node: node.index):
        for number, _, _ in node.writes():
            name = node.name if number == 0 and node.name not in names else f"{node.name} ({node.index}, {number})"
            names[name] = node.index, number
    edges = [OutputGraphEdge(node, output, number) for number, (node, output) in enumerate(names.values())]
    desc: GraphDesc = dataclasses.replace(graph.desc, output_count=len(edges), output_edges=edges)
    twin = graph.device.compile_graph(
        desc,
        graph.flags & ExecutionFlags.ALLOW_DEVICE_ARITHMETIC,
        fuse=False,
        input_names=[point.name for point in graph.inputs],
        output_names=list(names),
        input_tensors=graph.input_tensors,
    )
    return graph.device.run(twin, inputs)
