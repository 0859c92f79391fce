"""Runs plans for open sizes: binds the sizes of a run, and launches everything with their numbers."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.dynamic.sizes import Guards
from dmlvk.dynamic.vectors import Integers
from dmlvk.graphs.dynamic import DynamicGraph, Layout
from dmlvk.graphs.launching import Launcher, Lies, PlaceNumber
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.binding import BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import ExecutionFlags
from dmlvk.onnx.decoding.caches import Cache, Lengths
from dmlvk.onnx.host.evaluators import Repeated
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.assembly import Assembled
from dmlvk.onnx.nodes.ranges import Range
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Array, Tensor, bytes_of, stored
from dmlvk.onnx.plan.execution import DeviceValue, Resident, Usage, Weights
from dmlvk.onnx.plan.round_plans import RoundPlan
from dmlvk.running.open_runs import fit
from dmlvk.running.replay import Replay

if TYPE_CHECKING:
    from dmlvk.arrays.tensor_memory import TensorMemory
    from dmlvk.device import Device
    from dmlvk.runtime.kompute import Allocation, Recording

_KEPT_RECORDINGS = 64
"""Recordings, and different sizes, that a plan keeps; those not used for longest go first."""


@dataclasses.dataclass
class _BoundPlan:
    """A plan with certain sizes.

    Attributes:
        sizes: those.
        shapes: of the outputs.
        arrays: what the host computes from the sizes, by the values' names.
    """

    sizes: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    arrays: dict[str, Array]


class DynamicSegment:
    """A graph on the device for open sizes, with its buffers.

    Args:
        device: where it runs.
        assembled: the graph.
        plan: the plan that it is of.
        guards: of its sizes.
        offsets: as for :class:`DynamicGraph`.
        weights: where its constants are uploaded.
        known: values that are known, which the host computes with.
        evaluated: computes a node on the host for the first time, and says which program did.
        repeated: makes what computes it again, without looking at it.
        shown: the model's outputs, by name.
        elsewhere: inputs that lie on the device already in every run, and outputs that get memory of their own.
        fuse: as for ``Device.compile_graph``.
        flags: as for ``Device.compile_graph``.

    Attributes:
        recording: the last run of arrays that lie on the device.
    """

    def __init__(
        self,
        device: Device,
        assembled: Assembled,
        plan: RoundPlan,
        guards: Guards,
        offsets: Sequence[int],
        weights: Weights,
        known: Mapping[str, Any],
        evaluated: Callable[[Step, Mapping[str, Any]], tuple[list[Any], str]],
        repeated: Callable[[Step], Repeated],
        shown: Collection[str],
        elsewhere: Collection[str],
        *,
        fuse: bool,
        flags: ExecutionFlags,
    ) -> None:
        self._device = device
        self._names = list(plan.outputs)
        self._tensors: tuple[Tensor, ...] = assembled.output_tensors[: len(self._names)]
        self._prelude = plan.prelude
        self._known = known
        self._evaluated = evaluated
        self._repeated = [repeated(step) for step in plan.prelude]
        self._was_evaluated = False
        self._weights = weights
        constants = {
            number: (source.array, source.size_in_bytes)
            for number, source in enumerate(assembled.inputs)
            if source.array is not None
        }
        self.graph = DynamicGraph(
            device,
            assembled.desc,
            flags,
            guards,
            offsets,
            fuse=fuse,
            lasting_inputs=constants,
        )
        self._passing = {number: constants.pop(number) for number in self.graph.inputs_read_once}
        weights.upload(list(constants.values()))
        self._sources = assembled.inputs
        read = {*shown, *(name for step in plan.prelude for name in step.reads)}
        read |= {source.name for source in assembled.inputs}
        self._derived = {name: value for name, value in plan.derived.items() if name in read}
        derived = tuple(tuple(value.numbers.reshape(-1)) for value in self._derived.values())
        shapes = tuple(tensor.shape for tensor in self._tensors)
        self._of_sizes = guards.function((shapes, derived))
        self._unused = [0] * len(offsets)
        self._constants: dict[int, BufferBinding] = {}
        for number, (array, _) in constants.items():
            lies = weights.found(array)
            assert lies is not None  # it was uploaded above
            self._constants[number] = lies
        self._elsewhere: dict[PlaceNumber, str] = {}
        for number, source in enumerate(self._sources):
            if source.kind == "input" and source.name in elsewhere:
                self._elsewhere[BindingKind.INPUT, number] = source.name
        for number, (name, tensor) in enumerate(zip(self._names, self._tensors, strict=True)):
            if name in elsewhere and tensor.data_type.size_in_bits >= 8:
                self._elsewhere[BindingKind.OUTPUT, number] = name
        self._layout: Layout | None = None
        self._buffers: dict[tuple[BindingKind, int], Buffer] = {}
        self._launcher: Launcher | None = None
        self._bound: collections.OrderedDict[tuple[int, ...], _BoundPlan] = collections.OrderedDict()
        self._recordings: collections.OrderedDict[tuple[tuple[int, ...], tuple[Lies, ...]], Recording]
        self._recordings = collections.OrderedDict()
        self._last: _BoundPlan | None = None
        self._has_replays = False  # which upload without leaving word
        self.recording: Recording | None = None
        self.empty_inputs: dict[str, Array] = {}

    def are_given(self, names: Collection[str]) -> bool:
        """Whether these, on the device, are all the values that a run reads besides weights."""
        return not self._uploads() and {
            name for (kind, _), name in self._elsewhere.items() if kind is BindingKind.INPUT
        } <= set(names)

    @property
    def is_there(self) -> bool:
        """Whether its buffers are."""
        return not any(buffer.is_closed for buffer in self._buffers.values())

    @property
    def usage(self) -> Usage:
        """What a run takes; the weights that plans share are not among it."""
        layout = self._layout
        if layout is None:
            return Usage()
        own = self.graph.constants
        own_bytes = (
            sum(buffer.size_in_bytes for buffer in [*self._buffers.values(), *own]) + self._weights.size_in_bytes
        )
        needed = [self._buffers[BindingKind.INPUT, n].size_in_bytes for n in self._uploads()]
        needed += self.graph.output_bytes(layout)
        needed += [array.nbytes for array in self._weights.arrays]
        needed += [buffer.size_in_bytes for buffer in own]
        return Usage(
            launches=self.graph.launch_count,
            waits=sum(layout.depends[1:]),
            device_bytes=own_bytes,
            least_bytes=sum(needed) + layout.placement.temporary.plan.lower_bound_bytes,
        )

    def _uploads(self) -> list[int]:
        return [
            number
            for number, source in enumerate(self._sources)
            if source.kind == "input" and (BindingKind.INPUT, number) not in self._elsewhere
        ]

    def run(
        self,
        sizes: tuple[int, ...],
        values: Mapping[str, Any],
        memory: Mapping[str, TensorMemory] | None = None,
        targets: Mapping[str, DeviceValue] | None = None,
    ) -> tuple[dict[str, Resident | DeviceValue], dict[str, Array]]:
        """Uploads, runs, and says where the outputs lie, until the next run; those of their own memory for ever.

        Args:
            sizes: the open sizes, for which the plan's guards hold.
            values: the model's inputs.
            memory: that of outputs which are written where they lie already.
            targets: values that outputs with memory of their own are written to, where they have room for them.

        Returns:
            The outputs, and what the host computes from the sizes.
        """
        bound = self._bound.get(sizes)
        numbers = None
        if bound is None:
            numbers, needed = self.graph.numbers(sizes)
            layout = self.graph.laid_out(sizes, needed, self._layout)
            if layout is not self._layout:
                self._lay_out(layout)
            shapes, contents = self._of_sizes(*sizes, *self._unused)
            bound = self._bound[sizes] = _BoundPlan(sizes, shapes, self._of_host(contents))
            if len(self._bound) > _KEPT_RECORDINGS:
                self._bound.popitem(last=False)
        self._bound.move_to_end(sizes)
        self._upload(bound, values)
        device_values = self._device_values(bound, values, memory or {}, targets or {})
        if device_values:
            prepare = functools.partial(self._recording, bound, device_values, numbers)
            self.recording = self._device.engine.submit_prepared(prepare)
        else:
            self._device.engine.run(self._recording(bound, device_values, numbers))
        self.empty_inputs = {name: _empty(value) for name, value in values.items()}
        return {**self.lying, **device_values}, bound.arrays

    def _upload(self, bound: _BoundPlan, values: Mapping[str, Any]) -> None:
        """Writes what a run reads and does not lie on the device."""
        is_there = self._last is bound and not self._has_replays
        self._last = None  # until all of it is written
        for number in self._uploads():
            name = self._sources[number].name
            if name in values:
                self._buffers[BindingKind.INPUT, number].upload(stored(np.asarray(values[name])))
            elif not is_there:
                self._buffers[BindingKind.INPUT, number].upload(stored(np.asarray(bound.arrays[name])))
        self._last = bound

    def _device_values(
        self,
        bound: _BoundPlan,
        values: Mapping[str, Any],
        memory: Mapping[str, TensorMemory],
        targets: Mapping[str, DeviceValue],
    ) -> dict[str, DeviceValue]:
        """What lies elsewhere in a run, and new memory for the outputs that get their own."""
        found = {}
        for (slot, number), name in self._elsewhere.items():
            if slot is BindingKind.INPUT:
                value = values[name]
                packed = self._device.arrays.packed(value.on_device)
                found[name] = value if packed is value.on_device else dataclasses.replace(value, on_device=packed)
            else:
                tensor, shape = self._tensors[number], bound.shapes[number]
                target = targets.get(name)
                if name not in memory and target is not None and target.is_room_for(tensor, shape):
                    target.on_device.storage.settle()
                    found[name] = target
                    continue
                lies = memory[name] if name in memory else self._device.empty(shape, tensor.data_type).memory()
                found[name] = DeviceValue(tensor.element, shape, lies)
        return found

    def _recording(
        self, bound: _BoundPlan, device_values: Mapping[str, DeviceValue], numbers: Integers | None
    ) -> Recording:
        """The launches for memory that is still there."""
        arrays = {slot: device_values[name].on_device for slot, name in self._elsewhere.items()}
        lies = {slot: (array.storage.allocation, array.offset) for slot, array in arrays.items()}
        key = bound.sizes, tuple(lies.values())
        found = self._recordings.get(key)
        if found is None:
            numbers = self.graph.numbers(bound.sizes)[0] if numbers is None else numbers
            if self._launcher is None:
                assert self._layout is not None  # these sizes have one
                self._launcher = self.graph.launcher(self._layout, self._positions() | lies, numbers, self._elsewhere)
            found = self._recordings[key] = self._launcher.recording(numbers, lies)
            if len(self._recordings) > _KEPT_RECORDINGS:
                self._recordings.popitem(last=False)
        self._recordings.move_to_end(key)
        return found

    @property
    def uploads(self) -> tuple[str, ...]:
        """The names of the values that every run uploads."""
        return tuple(source.name for source in self._sources if source.name in self.empty_inputs)

    @property
    def lying(self) -> dict[str, Resident]:
        """Where the outputs of the last run lie, until the next one, but for those that have memory of their own."""
        assert self._last is not None  # there was a run
        found = {}
        for number, (name, tensor) in enumerate(zip(self._names, self._tensors, strict=True)):
            if (BindingKind.OUTPUT, number) not in self._elsewhere:
                of_run = dataclasses.replace(tensor, shape=self._last.shapes[number], strides=())
                found[name] = Resident(of_run, self._buffers[BindingKind.OUTPUT, number])
        return found

    def replay(self, read: Collection[str]) -> Replay:
        """Runs like the last one as one submission each, as long as there are those buffers.

        Args:
            read: the outputs that the host reads behind every run; all others stay on the device until the next one.
        """
        assert self._launcher is not None and self._last is not None  # there was a run
        launches = self._launcher.launches(self.graph.numbers(self._last.sizes)[0])
        written = {self._sources[number].name: self._buffers[BindingKind.INPUT, number] for number in self._uploads()}
        fetched = {
            name: self._buffers[BindingKind.OUTPUT, number] for number, name in enumerate(self._names) if name in read
        }
        arrays = self._last.arrays
        fixed = {name: bytes_of(np.asarray(arrays[name])) for name in written if name not in self.empty_inputs}
        self._has_replays = True
        return Replay(self._device, launches, written, fetched, self._buffers.values(), fixed)

    def _of_host(self, contents: Sequence[Sequence[int]]) -> dict[str, Array]:
        """What the host computes from the sizes."""
        made: dict[str, Array] = {}
        for (name, value), numbers in zip(self._derived.items(), contents, strict=True):
            made[name] = np.array(numbers, NUMPY_TYPES[value.element]).reshape(value.numbers.shape)
        there: collections.ChainMap[str, Any] = collections.ChainMap(made, self._known)  # type: ignore[arg-type]
        for step, repeated in zip(self._prelude, self._repeated, strict=True):
            given = {name: there[name] for name in step.reads}
            results = repeated(given) if self._was_evaluated else self._evaluated(step, given)[0]
            for name, result in zip(step.proto.output, results, strict=True):
                if name:
                    made[name] = np.asarray(result)
        self._was_evaluated = True
        return made

    def _lay_out(self, layout: Layout) -> None:
        """Makes buffers for the capacities of a layout, in the place of those before."""
        is_first = self._layout is None
        self._bound.clear()
        self._recordings.clear()
        self._launcher = self._last = None
        wanted = self.graph.buffer_bytes(layout, self._uploads())
        self._layout = None  # what fails below leaves no half of one
        fit(self._buffers, {slot: wanted[slot] for slot in wanted if slot not in self._elsewhere}, self._device)
        if is_first and not self.graph.is_prepared:
            with self._weights.passing(list(self._passing.values())) as there:
                lies = self._constants | {n: there.found(array) for n, (array, _) in self._passing.items()}
                self.graph.prepare(layout, {n: (each.buffer, each.offset) for n, each in lies.items() if each})
            self._passing.clear()
        self._layout = layout

    def _positions(self) -> dict[tuple[BindingKind, int], tuple[Allocation, int]]:
        """Memory and first byte of each place."""
        bound = {slot: (buffer.allocation, 0) for slot, buffer in self._buffers.items()}
        for number, binding in self._constants.items():
            bound[BindingKind.INPUT, number] = binding.buffer.allocation, binding.offset
        return bound | {
            (BindingKind.CONSTANTS, page): (buffer.allocation, 0) for page, buffer in enumerate(self.graph.constants)
        }


def _empty(value: Any) -> Array:
    """An array of a value's type and shape, without contents."""
    dtype = NUMPY_TYPES[value.element] if isinstance(value, (Cache, DeviceValue)) else value.dtype
    return np.broadcast_to(np.zeros((), dtype), value.shape)


class DynamicRound:
    """A plan for open sizes that is ready to run.

    Args:
        plan: what it does.
        guards: what it is for.
        segment: its graph on the device.
        offsets: how many numbers stand for operands' places.
        capacities: how many rows the caches have to which it appends, by the outputs that show them.
    """

    def __init__(
        self,
        plan: RoundPlan,
        guards: Guards,
        segment: DynamicSegment,
        offsets: int,
        capacities: Mapping[str, int] | None = None,
    ) -> None:
        self.plan = plan
        self.capacities = capacities
        lengths = [(of.batch, of.tokens, -1 if of.masked is None else of.masked) for of in plan.assembly.lengths]
        self._of_lengths = guards.function(tuple(lengths))
        self._of_ranges = guards.function(tuple((of.least, of.end) for of in plan.assembly.ranges.values()))
        self.guards = guards
        self.segment = segment
        self._test = guards.test()
        self._unused = (0,) * offsets

    @property
    def arrays(self) -> dict[str, Array]:
        """Arrays of the shapes of the last run, with the contents that the plan is for."""
        return {name: self.plan.contents.get(name, array) for name, array in self.segment.empty_inputs.items()}

    def lengths(self, sizes: Sequence[int]) -> list[Lengths]:
        """What it knows of lengths, for these open sizes."""
        numbers = self._of_lengths(*sizes, *self._unused)
        return [
            dataclasses.replace(of, batch=batch, tokens=tokens, masked=None if of.masked is None else masked)
            for of, (batch, tokens, masked) in zip(self.plan.assembly.lengths, numbers, strict=True)
        ]

    def ranges(self, sizes: Sequence[int]) -> list[Range]:
        """From where to where numbers may go, for these open sizes."""
        ranges = self.plan.assembly.ranges.values()
        if not ranges:
            return []
        numbers = self._of_ranges(*sizes, *self._unused)
        return [dataclasses.replace(of, least=a, end=b) for of, (a, b) in zip(ranges, numbers, strict=True)]

    def is_for(self, sizes: Sequence[int]) -> bool:
        """Whether it is a plan for these open sizes."""
        return self._test(*sizes, *self._unused)
