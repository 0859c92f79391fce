"""The nodes of a graph that is being built, and their description with edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from dmlvk.graphs.description import (
    ConstantGraphNode,
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OperatorGraphNode,
    OutputGraphEdge,
)


class NodeSource(Protocol):
    """Where bytes come from: ``"node"``, with its number and that of its output; or something else: an input."""

    @property
    def kind(self) -> Any:
        """Which of these."""

    @property
    def index(self) -> int:
        """The number of the node."""

    @property
    def output(self) -> int:
        """Which output of the node."""


Origin = TypeVar("Origin", bound=NodeSource)


@dataclasses.dataclass(frozen=True)
class SourcedNode(Generic[Origin]):
    """An operator, or a constant, with the sources of its inputs; ``None`` for an absent one."""

    node: OperatorGraphNode | ConstantGraphNode
    sources: tuple[Origin | None, ...]

    @property
    def reads(self) -> list[Origin]:
        return [source for source in self.sources if source is not None]


def needed_nodes(nodes: Sequence[SourcedNode[Origin]], outputs: Iterable[Origin]) -> list[int]:
    """The numbers of the nodes that lead to outputs of nodes, rising."""
    needed: set[int] = set()
    pending = [source.index for source in outputs]
    while pending:
        index = pending.pop()
        if index not in needed:
            needed.add(index)
            pending += [source.index for source in nodes[index].reads if source.kind == "node"]
    return sorted(needed)


def graph_of(
    nodes: Sequence[SourcedNode[Origin]],
    needed: Sequence[int],  # the numbers of those that count, rising
    outputs: Sequence[Origin],  # what the graph shows, in order
    # the numbers of the graph's inputs; those that have none are numbered as they are first read
    inputs: dict[Origin, int],
    names: Sequence[str] = (),  # of the inputs that are numbered already
) -> GraphDesc:
    """The description of some nodes, numbered anew."""
    numbers = {index: number for number, index in enumerate(needed)}
    input_edges: list[InputGraphEdge] = []
    between: list[IntermediateGraphEdge] = []
    for index, number in numbers.items():
        for position, source in enumerate(nodes[index].sources):
            if source is None:
                continue
            if source.kind == "node":
                between.append(IntermediateGraphEdge(numbers[source.index], source.output, number, position))
            else:
                entry = inputs.setdefault(source, len(inputs))
                input_edges.append(InputGraphEdge(entry, number, position, names[entry] if names else ""))
    shown = [OutputGraphEdge(numbers[s.index], s.output, position) for position, s in enumerate(outputs)]
    return GraphDesc(len(inputs), len(outputs), [nodes[i].node for i in numbers], input_edges, shown, between)
