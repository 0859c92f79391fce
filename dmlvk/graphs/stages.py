"""The kernels of a graph, before memory is planned."""

from __future__ import annotations

import dataclasses
import logging
import os

from dmlvk.compilation import in_place_refusal
from dmlvk.errors import ShaderCompilationError
from dmlvk.graphs.fusion.functions import Function, function_of
from dmlvk.graphs.fusion.grouping import Group, Limits, grouped
from dmlvk.graphs.fusion.kernel import fused_kernel, operand_pairs_in_place
from dmlvk.graphs.network import Network, Node, Value
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.program import Place, Program, Region, Step
from dmlvk.kernels.target import Target
from dmlvk.progress import told
from dmlvk.threads import map_in_threads

_log = logging.getLogger("dmlvk")

NO_COMPILER = "there is no GLSL compiler (glslangValidator) on this machine"


@dataclasses.dataclass(frozen=True)
class Stage:
    """One operator of a graph, or several that became one kernel.

    Attributes:
        nodes: the operators that it computes.
        program: what computes them.
        reads: its inputs, as the program numbers them.
        writes: its outputs, likewise.
        in_place: pairs of an input and an output that may be one range of memory.
    """

    nodes: tuple[Node, ...]
    program: Program
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    in_place: frozenset[tuple[int, int]]

    @property
    def label(self) -> str:
        """What it computes, for people."""
        return " + ".join(node.name for node in self.nodes)


@dataclasses.dataclass(frozen=True)
class Stages:
    """All kernels of a graph.

    Attributes:
        stages: in an order in which they can run.
        remark: why something was not fused that could be, or an empty string.
    """

    stages: tuple[Stage, ...]
    remark: str = ""


def single_stages(network: Network, target: Target) -> Stages:
    """A stage for each operator."""
    return Stages(tuple(single_stage(node, target) for node in network.nodes))


def fused_stages(network: Network, target: Target) -> Stages:
    """Kernels that compute several element-wise operators where that is possible.

    Args:
        network: the graph.
        target: the device.
    """
    functions: dict[int, Function] = {}
    for node in network.nodes:
        function = function_of(node.desc, target)
        if function is not None:
            functions[node.index] = function
    # One binding is left for the coefficients that some functions read.
    groups = grouped(network, functions, Limits(buffers=min(Limits.buffers, target.buffers - 1)), target)
    making = map_in_threads(lambda group: _stages_of(group, network, target), groups, os.cpu_count() or 1)
    made = list(told(making, len(groups), "kernels of a graph compiled"))
    remarks = [remark for _, remark in made if remark]
    if remarks and remarks[0] != NO_COMPILER:
        _log.warning("some operators of a graph run one by one: %s", remarks[0])
    return Stages(tuple(stage for stages, _ in made for stage in stages), remarks[0] if remarks else "")


def _stages_of(group: Group, network: Network, target: Target) -> tuple[list[Stage], str]:
    """One kernel for a group, or one for each of its operators and why."""
    if len(group.nodes) == 1:
        return [single_stage(group.nodes[0], target)], ""
    try:
        return [_fused_stage(group, network)], ""
    except ShaderCompilationError as error:
        return [single_stage(node, target) for node in group.nodes], str(error)


def _fused_stage(group: Group, network: Network) -> Stage:
    kernel = fused_kernel(group, network)
    if kernel is None:
        raise ShaderCompilationError(NO_COMPILER)
    reads, writes = tuple(operand.value for operand in group.inputs), tuple(operand.value for operand in group.outputs)
    step = Step(
        "fused",
        kernel,
        tuple(Region(Place.INPUT, number, 0, network.sizes[value]) for number, value in enumerate(reads)),
        tuple(Region(Place.OUTPUT, number, 0, network.sizes[value]) for number, value in enumerate(writes)),
    )
    return Stage(
        group.nodes,
        Program((step,)),
        reads,
        writes,
        frozenset(operand_pairs_in_place(group)),
    )


def single_stage(node: Node, target: Target) -> Stage:
    """The stage of one operator."""
    reads, writes = node.reads(), node.writes()
    in_place = frozenset(
        (position, output)
        for position, (number, _, _) in enumerate(reads)
        for output, (output_number, _, _) in enumerate(writes)
        if in_place_refusal(node.desc, node.desc.inputs[number], node.desc.outputs[output_number]) is None
    )
    return Stage(
        (node,),
        lower(node.desc, target),
        tuple(value for _, _, value in reads),
        tuple(value for _, _, value in writes),
        in_place,
    )
