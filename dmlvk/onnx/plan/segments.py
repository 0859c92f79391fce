"""Runs a plan's graphs on the device: buffers for its sizes, uploads, recorded work."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.arrays.memory_pool import Storage
from dmlvk.arrays.tensor_bytes import copy_elements
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.dynamic.sizes import Guards
from dmlvk.dynamic.vectors import Integers
from dmlvk.errors import DeviceLimitError
from dmlvk.graphs.description import OperatorGraphNode
from dmlvk.graphs.launching import Lies, PlaceNumber
from dmlvk.graphs.network import network
from dmlvk.graphs.plan import Layout, Plan
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.binding import BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import ExecutionFlags
from dmlvk.objects.recording import KernelTime
from dmlvk.onnx.decoding.standing import StandingStep
from dmlvk.onnx.host.evaluators import Repeated
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.assembly import Assembled
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Array, Bytes, bytes_of
from dmlvk.onnx.plan.execution import DeviceValue, Resident, Usage, Weights
from dmlvk.onnx.plan.round_plans import RoundPlan
from dmlvk.running.bound import KEPT_RECORDINGS, Bound
from dmlvk.running.replay import Replay
from dmlvk.runtime.engine_memory import Fill
from dmlvk.support.recent import Recent
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph
    from dmlvk.runtime.kompute import Allocation, Recording

_MOST_FETCHED = 2**20  # Bytes of an output that every run copies to the host, whether it is read or not

_MOST_COMPARED = 2**12  # Bytes of constants that are looked at to see that they are the same


@dataclasses.dataclass(frozen=True)
class OpenSizes:
    """What a plan for open sizes needs besides."""

    guards: Guards  # of the sizes
    offsets: Sequence[int]  # as for :class:`Plan`
    known: Mapping[str, Any]  # values that are known, which the host computes with
    # computes a node on the host for the first time, and says which program did
    evaluated: Callable[[Step, Mapping[str, Any]], tuple[list[Any], str]]
    repeated: Callable[[Step], Repeated]  # makes what computes it again, without looking at it
    shown: Collection[str]  # what others than its graph read, by name: the model's outputs, what is computed behind it


@dataclasses.dataclass(frozen=True)
class _OfSizes:
    """What follows from one set of sizes."""

    sizes: tuple[int, ...]  # those
    shapes: tuple[tuple[int, ...], ...]  # of the outputs
    arrays: dict[str, Array]  # what the host computes, by the values' names
    # outputs that are given memory, by their numbers, and where the others lie
    described: dict[int, TensorDesc] = dataclasses.field(default_factory=dict)
    lying: dict[str, Resident] = dataclasses.field(default_factory=dict)


class HostOfSizes:
    """What the host computes of open sizes."""

    def __init__(self, plan: RoundPlan, shapes: tuple[tuple[int, ...], ...], read: Collection[str], of: OpenSizes):
        self._prelude, self._evaluated = plan.prelude, of.evaluated
        self._repeated = [of.repeated(step) for step in plan.prelude]
        self._kinds = [_kind(step) for step in plan.prelude]
        self._was_evaluated, self._unused = False, [0] * len(of.offsets)
        read_by_host = {name for step in plan.prelude for name in step.reads}
        same: dict[object, Any] = {}
        self._known = {
            name: same.setdefault(_contents(of.known[name]), of.known[name])
            for name in read_by_host
            if name in of.known
        }
        read = {*read, *of.shown, *read_by_host}
        self._derived = {name: value for name, value in plan.derived.items() if name in read}
        derived = tuple(tuple(value.numbers.reshape(-1)) for value in self._derived.values())
        self._function = of.guards.function((shapes, derived))

    def __call__(self, sizes: tuple[int, ...]) -> _OfSizes:
        shapes, contents = self._function(*sizes, *self._unused)
        made: dict[str, Array] = {}
        same: dict[object, Any] = {}  # exporters write what follows from sizes again and again: each is computed once
        for (name, value), numbers in zip(self._derived.items(), contents, strict=True):
            element, shape = value.element, value.numbers.shape
            if (element, shape, numbers) not in same:
                same[element, shape, numbers] = np.array(numbers, NUMPY_TYPES[element]).reshape(shape)
            made[name] = same[element, shape, numbers]
        there = {**self._known, **made}
        with np.errstate(all="ignore"):
            for step, kind, repeated in zip(self._prelude, self._kinds, self._repeated, strict=True):
                key = kind, *(id(there[name]) for name in step.reads)
                if key not in same or not self._was_evaluated:
                    given = {name: there[name] for name in step.reads}
                    results = repeated(given) if self._was_evaluated else self._evaluated(step, given)[0]
                    same[key] = [np.asarray(each).view() for each in results]  # with memory of others: callers copy
                found = {name: each for name, each in zip(step.proto.output, same[key], strict=True) if name}
                made.update(found)
                there.update(found)
        self._was_evaluated = True
        return _OfSizes(sizes, shapes, made)


def _kind(step: Step) -> tuple[object, ...]:
    """What tells nodes apart that the host computes, besides what they read."""
    attributes = (attribute.SerializeToString(deterministic=True) for attribute in step.proto.attribute)
    absent = tuple(name and step.reads.index(name) for name in step.proto.input)
    outputs = tuple(map(bool, step.proto.output))
    return step.domain, step.proto.op_type, step.version, outputs, absent, *attributes


def _contents(value: Any) -> object:
    """What a known value is the same by: small arrays by what they contain, others only by themselves."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O" and value.nbytes <= _MOST_COMPARED:
        return value.dtype, value.shape, value.tobytes()
    return id(value)


class Segment:
    """A graph on the device with its buffers and everything recorded: a run of known sizes allocates and plans nothing.

    Raises:
        DeviceLimitError, OutOfMemoryError: when the device cannot have what all runs need.
    """

    def __init__(
        self,
        device: Device,
        assembled: Assembled,
        plan: RoundPlan,  # the plan that it is of
        weights: Weights,  # where its constants are uploaded
        opened: OpenSizes | None = None,  # the plan's open sizes; ``None``: there are none
        *,
        # values that lie on the device already, by their names, and stay there
        resident: Mapping[str, Resident] | None = None,
        # inputs that lie on the device in every run, and outputs that are given memory in every run
        elsewhere: Collection[str] = (),
        fuse: bool = True,  # as for ``Device.compile_graph``
        flags: ExecutionFlags = ExecutionFlags.NONE,  # as for ``Device.compile_graph``
    ) -> None:
        self._device, self._weights = device, weights
        self._names = list(plan.outputs)
        self._tensors = assembled.output_tensors[: len(self._names)]
        self._halves = frozenset(n for n, of in enumerate(self._tensors) if of.data_type.size_in_bits < 8)
        self._sources = assembled.inputs
        constants = {
            number: (source.array, source.size_in_bytes)
            for number, source in enumerate(assembled.inputs)
            if source.array is not None
        }
        guards, offsets = (None, ()) if opened is None else (opened.guards, opened.offsets)
        with _too_much(assembled):
            self._plan = Plan(
                device, network(assembled.desc, device), flags, guards, offsets, fuse=fuse, lasting_inputs=constants
            )
        self._passing = {number: constants.pop(number) for number in self._plan.inputs_read_once}
        weights.upload(list(constants.values()))
        self._bindings: dict[int, BufferBinding] = {}
        for number, (array, _) in constants.items():
            lies = weights.found(array)
            assert lies is not None  # it was uploaded above
            self._bindings[number] = lies
        self._inputs: dict[int, str] = {}
        for number, source in enumerate(assembled.inputs):
            if source.kind == "input":
                there = (resident or {}).get(source.name)
                if there is None:
                    self._inputs[number] = source.name
                else:
                    self._bindings[number] = BufferBinding(there.buffer)
        self._elsewhere = self._places_of(elsewhere)
        self._own = [number for number in self._inputs if (BindingKind.INPUT, number) not in self._elsewhere]
        self._bound = Bound(device, self._plan, self._own, self._elsewhere)
        names = self._names
        if opened is None:  # else the plan for these sizes alone says it
            self._bound.described = lambda place: _described(assembled, names, place)
        self._bound.bind({n: (each.buffer.allocation, each.offset) for n, each in self._bindings.items()})
        shapes = tuple(tensor.shape for tensor in self._tensors)
        self._host = None if opened is None else HostOfSizes(plan, shapes, self._inputs.values(), opened)
        self._of_sizes: Recent[tuple[int, ...], _OfSizes] = Recent(KEPT_RECORDINGS)
        self._last: _OfSizes | None = None
        self._has_replays = False  # which upload without leaving word
        self._bytes_elsewhere = 0
        self._buffers: list[Buffer] = []
        if self._host is None:
            self._lay_out(())
            self._of_sizes[()] = _OfSizes((), shapes, {})

    def _places_of(self, names: Collection[str]) -> dict[PlaceNumber, str]:
        """Where inputs and outputs of these names are bound; no outputs of 4-bit types."""
        return {(BindingKind.INPUT, number): name for number, name in self._inputs.items() if name in names} | {
            (BindingKind.OUTPUT, number): name
            for number, (name, tensor) in enumerate(zip(self._names, self._tensors, strict=True))
            if name in names and tensor.data_type.size_in_bits >= 8
        }

    def _lay_out(self, sizes: tuple[int, ...]) -> Integers | None:
        """Has buffers for a set of sizes; contents of those before are gone where some are made."""
        numbers = self._bound.lay_out(sizes, self._prepare)
        if numbers is not None:
            self._of_sizes.clear()
            self._last = None
            owners = [*self._bound.buffers.values(), *(binding.buffer for binding in self._bindings.values())]
            self._buffers = list(dict.fromkeys(owners))  # weights share a few
        return numbers

    def _prepare(self, layout: Layout) -> None:
        if self._plan.is_prepared:
            return
        with self._weights.passing(list(self._passing.values())) as there:
            lies = self._bindings | {n: there.found(array) for n, (array, _) in self._passing.items()}
            self._plan.prepare(layout, {n: (each.buffer, each.offset) for n, each in lies.items() if each})
        self._passing.clear()

    @property
    def usage(self) -> Usage:
        """What a run takes; the weights that plans share are not among it."""
        layout = self._bound.layout
        if layout is None:
            return Usage()
        own = [buffer.size_in_bytes for buffer in self._plan.constants]
        needed = [self._plan.input_bytes(layout)[number] for number in self._own]
        needed += self._plan.output_bytes(layout)
        needed += [array.nbytes for array in self._weights.arrays]
        buffers = sum(buffer.size_in_bytes for buffer in self._bound.buffers.values())
        return Usage(
            launches=len(layout.depends),
            waits=sum(layout.depends[1:]),
            device_bytes=buffers + sum(own) + self._weights.size_in_bytes + self._bytes_elsewhere,
            least_bytes=sum(needed) + sum(own) + layout.placement.temporary.plan.lower_bound_bytes,
        )

    def gives(self, name: str) -> bool:
        """Whether it is an output of the graph."""
        return name in self._names

    @property
    def last_sizes(self) -> tuple[int, ...]:
        """The open sizes of the last run."""
        assert self._last is not None  # there was a run
        return self._last.sizes

    @property
    def uploads(self) -> tuple[str, ...]:
        """The names of the values that a run reads, but for weights and what the host computes from sizes."""
        own = () if self._last is None else self._last.arrays
        return tuple(name for name in self._inputs.values() if name not in own)

    def run(
        self,
        sizes: tuple[int, ...],  # the open sizes, for which the plan's guards hold
        values: Callable[[str], Any],  # gives an input, by its name: an array, or one that lies on the device
        kept: Collection[str] = (),  # outputs that get memory of their own
        memory: Mapping[str, TensorMemory] | None = None,  # that of outputs which are written where they lie already
        # values that outputs with memory of their own are written to, where they have room for them
        targets: Mapping[str, DeviceValue] | None = None,
    ) -> tuple[dict[str, Resident | DeviceValue], dict[str, Array]]:
        """Uploads, runs, and says where the outputs lie, until the next run; those of their own memory for ever.

        Runs on arrays that lie on the device, or that leave outputs there, are not waited for.

        Returns:
            The outputs, and what the host computes from the sizes.
        """
        of, numbers = self._of(sizes)
        given = {number: values(name) for number, name in self._inputs.items() if name not in of.arrays}
        arrays, made = self._on_device(of, given, kept, memory or {}, targets or {})
        self._bytes_elsewhere = sum(array.nbytes for array in memory.values()) if memory else 0
        writes, engine = self._writes(of, given), self._device.engine
        recording = engine.submit_prepared(lambda: self._recorded(of, arrays, numbers), writes=writes)
        self._last = of
        if not arrays and recording is not None:
            engine.wait(recording)
        return {**self.lying, **made}, of.arrays

    def _of(self, sizes: tuple[int, ...]) -> tuple[_OfSizes, Integers | None]:
        """What follows from sizes, for which there is memory afterwards; and the numbers of launches, if it is new."""
        found, numbers = self._of_sizes.get(sizes), None
        if found is None:
            assert self._host is not None  # else there is one set of sizes, which is known
            numbers = self._lay_out(sizes)
            return self._of_sizes.keep(sizes, self._host(sizes)), numbers
        self._of_sizes.move_to_end(sizes)
        return found, numbers

    def _writes(self, of: _OfSizes, given: Mapping[int, Any]) -> dict[Allocation, Fill]:
        """What writes what a run reads and does not lie on the device, by where it goes."""
        is_there = self._last is of and not self._has_replays
        self._last = None  # until all of it is written
        writes: dict[Allocation, Fill] = {}
        for number in self._own:
            value = given.get(number)
            if value is None and is_there:
                continue
            if not isinstance(value, DeviceValue):
                contents = bytes_of(np.asarray(of.arrays[self._inputs[number]] if value is None else value))
                buffer = self._bound.buffers[BindingKind.INPUT, number]
                writes[buffer.allocation] = functools.partial(_fill, contents)
        return writes

    def _on_device(
        self,
        of: _OfSizes,
        given: Mapping[int, Any],
        kept: Collection[str],
        memory: Mapping[str, TensorMemory],
        targets: Mapping[str, DeviceValue],
    ) -> tuple[dict[PlaceNumber, TensorMemory], dict[str, DeviceValue]]:
        """What lies elsewhere in a run, by its places; and the outputs among it."""
        arrays: dict[PlaceNumber, TensorMemory] = {
            (BindingKind.INPUT, number): array if array.is_packed else self._device.arrays.packed(array)
            for number, value in given.items()
            if isinstance(value, DeviceValue) and (array := value.on_device)
        }
        made: dict[str, DeviceValue] = {}
        for number, (name, tensor, shape) in enumerate(zip(self._names, self._tensors, of.shapes, strict=True)):
            place = BindingKind.OUTPUT, number
            if place not in self._elsewhere and (name not in kept or number in self._halves):
                continue
            target = targets.get(name)
            if name in memory:
                made[name] = DeviceValue(tensor.element, shape, memory[name])
            elif target is not None and target.is_room_for(tensor, shape):
                target.on_device.storage.settle()
                made[name] = target
            else:
                described = of.described.get(number)
                if described is None:
                    described = of.described[number] = TensorDesc(tensor.data_type, shape or (1,))
                storage = Storage(self._device.arrays.pool, described.size_in_bytes)
                made[name] = DeviceValue(tensor.element, shape, TensorMemory(self._device, storage, described))
            arrays[place] = made[name].on_device
        return arrays, made

    def _recorded(
        self, of: _OfSizes, arrays: Mapping[PlaceNumber, TensorMemory], numbers: Integers | None
    ) -> Recording:
        """The launches for memory that is still there."""
        lies = _lies(arrays)
        found = self._bound.recorded(of.sizes, lies)
        if found is not None or self._plan.is_open:
            return found or self._bound.recording(of.sizes, lies, numbers)
        own = {place: buffer for place, buffer in self._bound.buffers.items() if place not in lies}
        uploads = [buffer.allocation for (kind, _), buffer in own.items() if kind is BindingKind.INPUT]
        read = [buffer for (kind, number), buffer in own.items() if kind is BindingKind.OUTPUT]
        downloads = [buffer.allocation for buffer in read if buffer.size_in_bytes <= _MOST_FETCHED]
        return self._bound.recording(of.sizes, lies, numbers, uploads, downloads)

    @property
    def lying(self) -> dict[str, Resident]:
        """Where the outputs of the last run lie, until the next one, but for those that are given memory."""
        assert self._last is not None  # there was a run
        found = self._last.lying
        if found:
            return found
        for number, (name, tensor, shape) in enumerate(zip(self._names, self._tensors, self._last.shapes, strict=True)):
            if (BindingKind.OUTPUT, number) not in self._elsewhere:
                of_run = tensor if self._host is None else dataclasses.replace(tensor, shape=shape, strides=())
                found[name] = Resident(of_run, self._bound.buffers[BindingKind.OUTPUT, number])
        return found

    def replay(self, read: Collection[str], memory: Mapping[str, TensorMemory] | None = None) -> Replay:
        """Runs like the last one as one submission each, as long as there are those buffers.

        Args:
            read: the outputs that the host reads behind every run; all others stay on the device until the next one.
            memory: as for :meth:`run`, of all runs; whoever runs it keeps that memory.
        """
        of = self._last
        assert of is not None  # there was a run
        launches = self._bound.launches(of.sizes, _lies(self._places(memory or {})))
        written = {self._inputs[number]: self._bound.buffers[BindingKind.INPUT, number] for number in self._own}
        fetched = {
            name: self._bound.buffers[BindingKind.OUTPUT, number]
            for number, name in enumerate(self._names)
            if name in read
        }
        fixed = {name: bytes_of(np.asarray(of.arrays[name])) for name in written if name in of.arrays}
        self._has_replays = True
        return Replay(self._device, launches, written, fetched, self._buffers, fixed)

    def _places(self, memory: Mapping[str, TensorMemory]) -> dict[PlaceNumber, TensorMemory]:
        return {(BindingKind.OUTPUT, self._names.index(name)): array for name, array in memory.items()}

    def standing(
        self,
        values: Callable[[str], Any],
        memory: Mapping[str, TensorMemory],
        again: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
    ) -> StandingStep:
        """A run without open sizes as it lies on the device, with arguments as of :meth:`run`; the inputs all come from
        the host, in another run what ``again`` says.
        """
        places = self._places(memory)
        return StandingStep(
            self._plan,
            lambda others: self._bound.launches((), {**_lies(places), **others}),
            {**{place: BufferBinding(buffer) for place, buffer in self._bound.buffers.items()}, **places},
            {name: number for number, name in self._inputs.items()},
            {name: number for number, name in enumerate(self._names)},
            {name: np.asarray(values(name)) for name in self._inputs.values()},
            self._buffers,
            again,
        )

    def profile(
        self, sizes: tuple[int, ...], values: Callable[[str], Any]
    ) -> tuple[dict[str, Resident], list[KernelTime]]:
        """As :meth:`run`, with what each kernel took; arrays on the device go through the host."""
        of, _ = self._of(sizes)
        given = {number: values(name) for number, name in self._inputs.items() if name not in of.arrays}
        on_host = {n: value.array() if isinstance(value, DeviceValue) else value for n, value in given.items()}
        self._device.engine.submit_prepared(lambda: None, writes=self._writes(of, on_host))
        self._last = of
        times = self._bound.profile(sizes)
        return self.lying, times


def _fill(contents: Bytes, host_bytes: Bytes) -> None:
    copy_elements(host_bytes[: contents.size], contents)


def _lies(arrays: Mapping[PlaceNumber, TensorMemory]) -> dict[PlaceNumber, Lies]:
    return {place: (array.storage.allocation, array.offset) for place, array in arrays.items()}


@contextlib.contextmanager
def _too_much(assembled: Assembled) -> Iterator[None]:
    """Says which value the work was for that the device cannot launch."""
    try:
        yield
    except DeviceLimitError as error:
        names = [] if error.node is None else list(assembled.values[error.node].values())
        if not names:
            raise
        raise DeviceLimitError(f"the value {', '.join(map(repr, names))}: {error}", node=error.node) from error


def compiled_graph(
    device: Device, assembled: Assembled, names: Sequence[str], flags: ExecutionFlags, *, fuse: bool
) -> CompiledGraph:
    """The same graph as an object of DirectML's, for those who look inside.

    Args:
        names: of its outputs; those behind are not asked for.
        flags: as for ``Device.compile_graph``.
    """
    unused = [f"unused {position}" for position in range(len(names), len(assembled.output_tensors))]
    inputs = enumerate(assembled.inputs)
    return device.compile_graph(
        assembled.desc,
        flags,
        fuse=fuse,
        input_names=[source.name if source.kind == "input" else f"constant {index}" for index, source in inputs],
        output_names=[*names, *unused],
        lasting_inputs=[index for index, source in enumerate(assembled.inputs) if source.kind == "constant"],
    )


def _described(assembled: Assembled, names: Sequence[str], place: PlaceNumber) -> str:
    kind, number = place
    if kind is BindingKind.TEMPORARY:
        return _largest_between(assembled)
    if kind is BindingKind.INPUT:
        return _read_by(assembled, number, assembled.inputs[number].name)
    return _given_by(assembled, number, names[number] if number < len(names) else f"unused {number}")


def _node_name(assembled: Assembled, number: int) -> str:
    return repr(getattr(assembled.desc.nodes[number], "name", ""))


def _read_by(assembled: Assembled, index: int, name: str) -> str:
    edges = (edge for edge in assembled.desc.input_edges if edge.graph_input_index == index)
    return f"the value {name!r}, which the node {_node_name(assembled, next(edges).to_node_index)} reads"


def _given_by(assembled: Assembled, index: int, name: str) -> str:
    edges = (edge for edge in assembled.desc.output_edges if edge.graph_output_index == index)
    return f"the value {name!r}, which the node {_node_name(assembled, next(edges).from_node_index)} gives"


def _largest_between(assembled: Assembled) -> str:
    """The largest of the values that lie in scratch memory, with its node."""
    sizes = {
        (number, position): tensor.size_in_bytes
        for number, node in enumerate(assembled.desc.nodes)
        if isinstance(node, OperatorGraphNode)
        for position, (_, tensor) in enumerate(node.operator.desc.outputs)
        if tensor is not None
    }
    (number, position), size = max(sizes.items(), key=lambda item: item[1])
    name = assembled.values[number].get(position)
    value = "what" if name is None else f"the value {name!r}, which"  # a part of a node's work has no name
    return f"{value} the node {_node_name(assembled, number)} gives, {size} bytes"
