"""The kernels of a graph, before memory is planned."""

from __future__ import annotations

import dataclasses

from dmlvk.compilation import in_place_refusal
from dmlvk.graphs.network import Network, Node, Value
from dmlvk.kernels.elementwise import Kernel
from dmlvk.kernels.lowering import lower


@dataclasses.dataclass(frozen=True)
class Stage:
    """One kernel of a graph.

    Attributes:
        nodes: the operators that it computes.
        kernel: the kernel.
        reads: its inputs, in the order of its operands.
        writes: its outputs, which follow them.
        in_place: pairs of an input and an output that may be one range of memory.
    """

    nodes: tuple[Node, ...]
    kernel: Kernel
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    in_place: frozenset[tuple[int, int]]

    @property
    def label(self) -> str:
        """What it computes, for people."""
        return " + ".join(node.name for node in self.nodes)


def single_stages(network: Network) -> tuple[Stage, ...]:
    """A kernel for each operator, in an order in which they can run."""
    return tuple(single_stage(node) for node in network.nodes)


def single_stage(node: Node) -> Stage:
    """The kernel of one operator."""
    reads, writes = node.reads(), node.writes()
    in_place = frozenset(
        (position, output)
        for position, (number, _, _) in enumerate(reads)
        for output, (output_number, _, _) in enumerate(writes)
        if in_place_refusal(node.desc, node.desc.inputs[number], node.desc.outputs[output_number]) is None
    )
    return Stage(
        (node,),
        lower(node.desc),
        tuple(value for _, _, value in reads),
        tuple(value for _, _, value in writes),
        in_place,
    )
