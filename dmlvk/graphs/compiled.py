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
from dmlvk.graphs.channels_last import with_channels_last
from dmlvk.graphs.description import GraphDesc
from dmlvk.graphs.inspection import node_values
from dmlvk.graphs.memory import MemoryPlan
from dmlvk.graphs.network import NetworkValue, network
from dmlvk.graphs.pictures import write_picture
from dmlvk.graphs.placement import placed, run_once, steps, steps_once
from dmlvk.graphs.stages import Stage, fused_stages, inputs_read_once, prepared, single_stages
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import BindPoint, CompiledOperator, ExecutionFlags
from dmlvk.objects.portable import Origin
from dmlvk.operators import FeatureLevel
from dmlvk.runtime.kompute import Allocation
from dmlvk.support.tokens import token_of
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device


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
        """Equal for graphs that compute the same."""
        return token_of(self)

    def made(self, device: Device) -> CompiledGraph:
        """The graph on a device."""
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
        target = device.target_for(flags)
        lasting = {*(NetworkValue("input", number) for number in lasting_inputs), *self.network.constants}
        planned = with_channels_last(self.network, target) if fuse else self.network
        made = fused_stages(planned, target, lasting) if fuse else single_stages(planned, target)
        sizes = {value: tensor.size_in_bytes for value, tensor in made.inner.items()}
        planned = dataclasses.replace(planned, sizes=planned.sizes | sizes)
        written = {value: tensor for node in planned.nodes for _, tensor, value in node.writes()}
        copies = {value: tensor for value, tensor in written.items() if value not in self.network.sizes}
        self.network = dataclasses.replace(self.network, sizes=planned.sizes, names=planned.names)
        self.inner_tensors = {**made.inner, **copies}
        once, others = prepared(planned, made.stages, lasting)
        self.stages: tuple[Stage, ...] = tuple(others)
        self.stages_once: tuple[Stage, ...] = tuple(once)
        self._release_inputs()
        self.fusion_remark = made.remark
        regions = {
            number: self._input_region(number)
            for number, tensor in enumerate(self.network.inputs)
            if tensor is not None
        }
        most_bytes = device.info.limits.largest_buffer if most_temporary_bytes is None else most_temporary_bytes
        placement = placed(planned, self.stages, regions, most_bytes, self.stages_once)
        self._placement = placement
        self.memory: MemoryPlan = placement.temporary.plan
        self.temporary_pages = placement.temporary.page_bytes
        self.steps = tuple(steps(planned, self.stages, placement, target))
        self._steps_once = tuple(steps_once(self.stages_once, placement))
        for step in (*self._steps_once, *self.steps):
            step.spirv()  # a shader that is missing is missed here, not when it is run
        self._constants = placement.constants.uploaded(device)
        if not lasting_inputs:
            self.prepare({})

    def _release_inputs(self) -> None:
        """Runs need no input that :meth:`prepare` alone reads, so that nobody need keep it."""
        reason = "is read when the graph is prepared, and not when it is executed"
        read_once = inputs_read_once(self.stages_once, self.stages)
        self.inputs = tuple(
            BindPoint(point.name, None, 0, reason) if number in read_once else point
            for number, point in enumerate(self.inputs)
        )

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
        return self._constants

    def prepare(self, inputs: Mapping[int, tuple[Buffer | Allocation, int]]) -> None:
        """Computes what is the same in every run: for those who named ``lasting_inputs``, before the first run.

        To be called again where they changed nevertheless.

        Args:
            inputs: where those of them lie, by their numbers, and stay as they are.
        """
        run_once(self.device, self._steps_once, self._placement, inputs, self._constants)

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
