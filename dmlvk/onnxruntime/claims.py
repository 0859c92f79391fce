"""Which nodes of a graph the device takes from ONNX Runtime, and in which parts.

A trial plan of dmlvk.onnx says what the device computes. Sizes that the model leaves open have trial values there, and
so have contents that decide how something is planned: whatever is planned on the device with one set of them is
claimed; a later run with other sizes is planned anew, by the same rules as in ``dmlvk.onnx``.

Claimed nodes are put together by how often the data has gone from the device to the host before it comes to them.
No order of fewer parts exists: a path through the graph that changes sides so often needs so many. And no part waits
for another that waits for it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.errors import DmlError, ModelFileError
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.translation import translation_of
from dmlvk.onnx.nodes.values import NUMPY_TYPES
from dmlvk.onnx.plan.engine import DeviceModel
from dmlvk.onnx.plan.round_plans import Live, Placement
from dmlvk.onnxruntime.graphs import GraphNode, RuntimeGraph, constant_names, read_by, written_by

if TYPE_CHECKING:
    from dmlvk.device import Device

_TRIALS = ((1, 0), (64, 1))  # Sizes that are left open, and contents that decide; in turns, until all is on the device

_PRODUCTS = frozenset(
    {
        *("Attention", "Conv", "ConvInteger", "ConvTranspose", "DFT", "DynamicQuantizeMatMul", "Einsum", "FusedMatMul"),
        *("GRU", "Gemm", "GroupQueryAttention", "LSTM", "MatMul", "MatMulInteger", "MatMulIntegerToFloat"),
        *("MatMulNBits", "MultiHeadAttention", "QGemm", "QLinearConv", "QLinearMatMul", "RNN", "STFT"),
    }
)
"""Operators that compute more than they read and write."""


@dataclasses.dataclass(frozen=True)
class Claims:
    parts: list[list[GraphNode]]  # the nodes of each part
    reasons: dict[int, str]  # why the other nodes stay with ONNX Runtime, by their places in the graph


def claims_of(device: Device, graph: RuntimeGraph) -> Claims:
    """Decides about a graph's nodes."""
    reasons: dict[int, str] = {}
    candidates: list[int] = []
    for index, node in enumerate(graph.nodes):
        if node.unreadable is not None:
            reasons[index] = node.unreadable
        else:
            candidates.append(index)
    candidates = _checked(graph, candidates, reasons)
    claimed = set()
    sizes: dict[str, int] = {}
    for size, content in _TRIALS:
        left = [index for index in candidates if index not in claimed]
        if not left:
            break
        placed, sizes = _tried(device, graph, candidates, size, content)
        for index in left:
            placement = placed.get(index)
            if placement is not None and placement.place != "host":
                claimed.add(index)
                reasons.pop(index, None)
            else:
                reasons.setdefault(index, placement.reason if placement is not None else "waits for the host")
        shapes = [value.shape or () for value in graph.values.values()]
        if all(isinstance(size, int) for shape in shapes for size in shape):
            break  # other trials would find the same
    _leave_cheap(graph, claimed, sizes, reasons)
    levels = _levels(graph, claimed)
    parts: dict[int, list[GraphNode]] = {}
    for index in sorted(claimed):
        parts.setdefault(levels[index], []).append(graph.nodes[index])
    return Claims([parts[level] for level in sorted(parts)], reasons)


def _model(graph: RuntimeGraph, indices: Sequence[int]) -> OnnxModel:
    """Nodes as a model for a trial: what other nodes write is given, and everything is asked for."""
    nodes = [graph.nodes[index] for index in indices]
    written, read = written_by(nodes), read_by(nodes)
    constants = constant_names(graph, read)
    given = [name for name in read if name not in set(written) and name not in set(constants)]
    asked = set(graph.outputs) | {name for node in graph.nodes if node not in nodes for name in node.reads}
    outputs = [name for name in written if name in asked] or written[-1:]
    return graph.model(nodes, given, outputs, graph.constants(constants, are_kept=False))


def _checked(graph: RuntimeGraph, indices: Sequence[int], reasons: dict[int, str]) -> list[int]:
    """Those of the nodes that keep ONNX's rules."""
    if not indices:
        return []
    try:
        _model(graph, indices)
        return list(indices)
    except DmlError:
        pass
    fine = []
    for index in indices:
        try:
            _model(graph, [index])
            fine.append(index)
        except DmlError as error:
            reasons[index] = f"{error}"
    return fine


def _tried(
    device: Device, graph: RuntimeGraph, indices: Sequence[int], size: int, content: int
) -> tuple[dict[int, Placement], dict[str, int]]:
    """A trial plan: where it puts the nodes, and bytes of values."""
    model = _model(graph, indices)
    trial = _Trial(device, graph, model, size, content)
    placed = trial.placements()
    return {indices[index]: placement for index, placement in placed.items()}, trial.sizes


class _Trial:
    """Plans a model as runs would do it, without computing anything on the device.

    Args:
        size: of dimensions that are left open.
        content: of values that decide how something is planned.
    """

    def __init__(self, device: Device, graph: RuntimeGraph, model: OnnxModel, size: int, content: int) -> None:
        self._graph = graph
        self._model = model
        self._size = size
        self._content = content
        self._program = DeviceModel(device, model)
        self.sizes: dict[str, int] = {}
        for name in graph.values:
            live = self._live(name)
            if live is not None and live.element is not None:
                self.sizes[name] = math.prod(live.shape) * NUMPY_TYPES[live.element].itemsize

    def placements(self) -> dict[int, Placement]:
        """Where each node is planned, by its place in the model."""
        live: dict[str, Live] = {}
        known = dict(self._program.constants)
        for info in self._model.inputs:
            self._add(info.name, live, known)
        steps = self._program.pending
        placed = dict(self._program.constant_placements())
        doubtful: set[str] = set()
        while steps:
            planner = self._program.planner(known, live, self._contents)
            plan = planner.planned(steps)
            doubtful |= set(plan.contents) | (set(plan.known) - set(written_in(list(steps))))
            placed.update(self._benefit_of_doubt(list(steps), plan.placements, doubtful))
            known.update(plan.known)
            given = {**plan.outputs, **plan.fetched}
            live.update({name: Live(tensor.element, tensor.shape) for name, tensor in given.items()})
            for step in plan.host:
                for name in step.proto.output:
                    if name:
                        self._add(name, live, known)
            if len(plan.rest) == len(steps):
                break
            steps = plan.rest
        return placed

    def _add(self, name: str, live: dict[str, Live], known: dict[str, Any]) -> None:
        """A value that is there; one without elements is known as soon as its shape is."""
        found = self._live(name) or Live(None, ())
        if found.element is not None and 0 in found.shape:
            known[name] = np.zeros(found.shape, NUMPY_TYPES[found.element])
        else:
            live[name] = found

    @staticmethod
    def _benefit_of_doubt(
        steps: Sequence[Step], placements: Mapping[int, Placement], doubtful: set[str]
    ) -> dict[int, Placement]:
        """The placements, with nodes on the device that trial contents alone keep from there.

        Args:
            steps: what was planned, in order.
            doubtful: values that follow from trial contents; those that follow from them are added.
        """
        judged = dict(placements)
        for step in steps:
            if doubtful.isdisjoint(step.reads):
                continue
            doubtful.update(name for name in step.proto.output if name)
            placement = placements.get(step.index)
            if placement is None or placement.place != "host" or step.domain:
                continue
            translation = translation_of(step.domain, step.proto.op_type, step.version)
            if translation is not None and translation.missing is None:
                judged[step.index] = Placement(placement.node, placement.op_type, "device", "contents decide about it")
        return judged

    def _live(self, name: str) -> Live | None:
        value = self._graph.values.get(name)
        if value is None or value.shape is None:
            return None
        element = value.element if value.element in NUMPY_TYPES else None
        return Live(element, tuple(size if isinstance(size, int) else self._size for size in value.shape))

    def _contents(self, name: str) -> Any:
        live = self._live(name)
        if live is None or live.element is None:
            raise ModelFileError(f"{name!r} has no contents before a run")
        return np.full(live.shape, self._content, NUMPY_TYPES[live.element])


def written_in(steps: Iterable[Step]) -> list[str]:
    return [name for step in steps for name in step.proto.output if name]


def _producers(graph: RuntimeGraph) -> dict[str, int]:
    return {name: index for index, node in enumerate(graph.nodes) for name in node.proto.output if name}


def _levels(graph: RuntimeGraph, claimed: set[int]) -> dict[int, int]:
    """How often data has come from the host to the device before it comes to each node."""
    producers = _producers(graph)
    levels: dict[int, int] = {}
    for index in _ordered(graph, producers):
        before = [producers[name] for name in graph.nodes[index].reads if name in producers]
        if index in claimed:
            levels[index] = max((levels[other] + (other not in claimed) for other in before), default=0)
            levels[index] = max(levels[index], 0)
        else:
            levels[index] = max((levels[other] for other in before), default=-1)
    return levels


def _ordered(graph: RuntimeGraph, producers: Mapping[str, int]) -> Iterable[int]:
    """The nodes' places, each behind those that it reads from."""
    done: set[int] = set()
    for root in range(len(graph.nodes)):
        pending = [root]
        while pending:
            index = pending[-1]
            missing = [producers[name] for name in graph.nodes[index].reads if name in producers]
            missing = [other for other in missing if other not in done]
            if index in done or not missing:
                pending.pop()
                if index not in done:
                    done.add(index)
                    yield index
            else:
                pending += missing


def _leave_cheap(graph: RuntimeGraph, claimed: set[int], sizes: Mapping[str, int], reasons: dict[int, str]) -> None:
    """Leaves to the host what is not worth the way.

    Claimed nodes that hang together are left where all of this is so: a node on the host gives them something or takes
    something of them (in a graph inside a node: always); there is no product among them (matrix products,
    convolutions, attention, recurrent networks); and the bytes that come from the host and go there are at least as
    many as those of all their results.
    """
    producers = _producers(graph)
    readers: dict[str, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        for name in node.reads:
            readers.setdefault(name, []).append(index)
    is_left = True
    while is_left:
        is_left = False
        for group in _groups(graph, claimed, producers):
            if any(graph.nodes[index].proto.op_type in _PRODUCTS for index in group):
                continue
            written = written_by(graph.nodes[index] for index in group)
            read = [name for name in read_by(graph.nodes[index] for index in group) if name not in set(written)]
            incoming = [name for name in read if not graph.values[name].is_constant]
            outgoing = [n for n in written if n in graph.outputs or any(r not in group for r in readers.get(n, ()))]
            meets_host = graph.is_inside
            meets_host = meets_host or any(name in producers and producers[name] not in claimed for name in incoming)
            meets_host = meets_host or any(r not in claimed for name in written for r in readers.get(name, ()))
            crossing = sum(sizes.get(name, 0) for name in (*incoming, *outgoing))
            computed = sum(sizes.get(name, 0) for name in written)
            if meets_host and crossing >= computed:
                is_left = True
                for index in group:
                    claimed.discard(index)
                    reasons[index] = f"{crossing} bytes would go to and fro for {computed} bytes of results"


def _groups(graph: RuntimeGraph, claimed: set[int], producers: Mapping[str, int]) -> list[set[int]]:
    """Claimed nodes that hang together."""
    group_of = {index: {index} for index in claimed}
    for index in sorted(claimed):
        for name in graph.nodes[index].reads:
            other = producers.get(name)
            if other is None or other not in claimed or group_of[other] is group_of[index]:
                continue
            small, large = sorted((group_of[other], group_of[index]), key=len)
            large |= small
            for member in small:
                group_of[member] = large
    return list({id(group): group for group in group_of.values()}.values())
