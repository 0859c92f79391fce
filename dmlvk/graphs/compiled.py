"""Compiled graphs: what ``Device.compile_graph`` returns."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.description import GraphDesc, OutputGraphEdge
from dmlvk.graphs.memory import MemoryPlan
from dmlvk.graphs.network import network
from dmlvk.graphs.pictures import write_picture
from dmlvk.graphs.plan import Plan
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import BindPoint, CompiledOperator, ExecutionFlags
from dmlvk.objects.portable import Origin
from dmlvk.operators import FeatureLevel
from dmlvk.runtime.kompute import Allocation
from dmlvk.support.tokens import token_of
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device


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


@dataclasses.dataclass(frozen=True)
class GraphOrigin(Origin):
    """What a compiled graph was made from, as ``Device.compile_graph`` takes it."""

    feature_level: FeatureLevel
    desc: GraphDesc
    flags: ExecutionFlags
    fuse: bool
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_tensors: tuple[TensorDesc | None, ...]
    output_tensors: tuple[TensorDesc | None, ...]

    @functools.cached_property
    def token(self) -> str:
        return token_of(self)

    def made(self, device: Device) -> CompiledGraph:
        return device.compile_graph(
            self.desc.on(device),
            self.flags,
            fuse=self.fuse,
            input_names=self.input_names,
            output_names=self.output_names,
            input_tensors=self.input_tensors,
            output_tensors=self.output_tensors,
        )


class CompiledGraph(CompiledOperator):
    """A graph that is ready to run (IDMLCompiledOperator). Made by ``Device.compile_graph``.

    It is initialized, bound, recorded and run as an operator is.

    Attributes:
        desc: the graph.
        fusion_remark: why something was not fused that could be, or an empty string.
        stages: the kernels, in order.
        stages_once: those that run only once, before the first run.
        inner_tensors: tensors that stages hand to one another inside of an operator.
        memory: how intermediate tensors share the temporary resource.
    """

    def __init__(
        self,
        device: Device,
        desc: GraphDesc,
        flags: ExecutionFlags,
        *,
        fuse: bool = True,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        input_tensors: Sequence[TensorDesc | None] | None = None,
        output_tensors: Sequence[TensorDesc | None] | None = None,
        most_temporary_bytes: int | None = None,
        lasting_inputs: Collection[int] = (),
    ) -> None:
        super().__init__(device, "Graph", flags)
        self.desc = desc
        self._fuse = fuse
        self.network = network(desc, device)
        inputs = _names(input_names, desc.input_count, "Input")
        outputs = _names(output_names, desc.output_count, "Output")
        self._set_inputs(_seen(inputs, self.network.inputs, input_tensors, "input"))
        seen = _seen(outputs, [tensor for _, tensor in self.network.outputs], output_tensors, "output")
        self.outputs = tuple(BindPoint.of_tensor(name, tensor) for name, tensor in seen)
        self._plan = plan = Plan(
            device,
            self.network,
            flags,
            fuse=fuse,
            lasting_inputs=lasting_inputs,
            owned=self.owned,
            most_bytes=most_temporary_bytes,
        )
        self.network = dataclasses.replace(self.network, sizes=plan.network.sizes, names=plan.network.names)
        self.inner_tensors, self.fusion_remark = plan.inner, plan.remark
        self.stages, self.stages_once = plan.stages, plan.stages_once
        reason = "is read when the graph is prepared, and not when it is executed"
        self.inputs = tuple(  # runs need none of those that :meth:`prepare` alone reads, so that nobody need keep them
            BindPoint(point.name, None, 0, reason) if number in plan.inputs_read_once else point
            for number, point in enumerate(self.inputs)
        )
        self._layout = plan.laid_out((), plan.numbers(())[1], None)
        self.memory: MemoryPlan = self._layout.placement.temporary.plan
        self.temporary_pages = self._layout.placement.temporary.page_bytes
        self.steps = tuple(plan.steps(self._layout))
        if not lasting_inputs:
            self.prepare({})

    def _made_from(self) -> Origin:
        return GraphOrigin(
            self.device.feature_level,
            self.desc,
            self.flags,
            self._fuse,
            tuple(point.name for point in self.inputs),
            tuple(point.name for point in self.outputs),
            self.input_tensors,
            tuple(point.tensor for point in self.outputs),
        )

    @property
    def constants(self) -> tuple[Buffer, ...]:
        """The contents of its constant nodes and what follows from them alone, in memory of its own."""
        return self._plan.constants

    def prepare(self, inputs: Mapping[int, tuple[Buffer | Allocation, int]]) -> None:
        """Computes what is the same in every run: for those who named ``lasting_inputs``, before the first run.

        To be called again where they changed nevertheless.

        Args:
            inputs: where those of them lie, by their numbers, and stay as they are.
        """
        self._plan.prepare(self._layout, inputs)

    def node_values(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray[Any]]:
        """What every operator inside computes from these inputs: see :func:`dmlvk.graphs.inspection.node_values`."""
        return node_values(self, inputs)

    def write_picture(self, path: str | os.PathLike[str]) -> None:
        """Writes a picture of the graph and its kernels to a .svg file, or to a .dot file for Graphviz."""
        write_picture(self, Path(path))

    def in_place_refusal(self, input_index: int, output_index: int) -> str | None:
        """A graph has no page that would permit it, and its kernels come in an order that callers cannot see."""
        return "but a graph cannot execute in place"


def _names(given: Sequence[str] | None, count: int, default: str) -> list[str]:
    if given is None:
        return [f"{default}{number}" for number in range(count)]
    names = list(given)
    if len(names) != count or len(set(names)) != count or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"Graph: {default.lower()}_names must be {count} different strings; got {names}")
    return names


def _seen(
    names: Sequence[str], tensors: Sequence[TensorDesc | None], given: Sequence[TensorDesc | None] | None, kind: str
) -> list[tuple[str, TensorDesc | None]]:
    """Each input or output with the tensor as which callers see it: the edge's, or one of the same bytes."""
    if given is None:
        return list(zip(names, tensors, strict=True))
    if len(given) != len(tensors):
        raise InvalidArgumentError(f"Graph: {kind}_tensors must be {len(tensors)} tensors; got {len(given)}")
    for name, tensor, wanted in zip(names, tensors, given, strict=True):
        if tensor is None or wanted is None:
            continue
        if not isinstance(wanted, TensorDesc) or wanted.size_in_bytes != tensor.size_in_bytes:
            raise InvalidArgumentError(
                f"Graph: {kind}_tensors: {name} must be a TensorDesc of {tensor.size_in_bytes} bytes; got {wanted!r}"
            )
        if wanted.flags != tensor.flags:
            raise InvalidArgumentError(f"Graph: {kind}_tensors: {name} must have the flags {tensor.flags!r}")
    return [
        (name, None if tensor is None else wanted or tensor)
        for name, tensor, wanted in zip(names, tensors, given, strict=True)
    ]
