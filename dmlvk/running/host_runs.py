"""Runs a compiled operator or graph on arrays, with buffers of its own: what ``Device.run`` does."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.conversion import Casting
from dmlvk.arrays.tensor_bytes import (
    checked_array,
    copied,
    copy_elements,
    elements_of,
    has_views,
    lay_out,
    logical_view,
    may_overlap,
)
from dmlvk.errors import InvalidArgumentError, OutOfMemoryError
from dmlvk.kernels.program import BindingKind, Region
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import CompiledOperator, CompiledSingleOperator
from dmlvk.objects.recording import HazardTracker, KernelTime, scheduled
from dmlvk.runtime.afterwards import INSIDE
from dmlvk.runtime.kompute import Allocation, Engine, Recording
from dmlvk.support.weak_keys import WeakKeys
from dmlvk.tensors import TensorDesc

KEPT_RUN_BYTES = 256 * 2**20
"""Buffers of up to this size are kept between two runs of a compiled operator, where the device has 8 GiB and more: to
make them anew takes ten times as long as a run. Else a thirty-second of its memory."""

KEPT_RUN_BYTES_IN_ALL = 4 * KEPT_RUN_BYTES
"""Buffers of up to this size are kept by all compiled operators together; those not used for longest go first. Where
the device has less memory than 8 GiB, an eighth of it."""

MOST_BYTES_NEAR_HOST = 2**14
"""Inputs and outputs of so many bytes together lie in the host's memory: a kernel reads and writes them over the bus in
less time than two copies and their barriers take (an NVIDIA H100: 26 µs instead of 37 for 1024 elements)."""

MOST_RUNS_AT_ONCE = 3
"""Of a compiled operator: one lays out its inputs, one waits for the device, one copies its outputs out."""

Arrays = dict[str, npt.NDArray[Any]]


def checked_inputs(compiled: CompiledOperator, inputs: Mapping[str, Any], casting: Casting | None = None) -> Arrays:
    """An array for each input that the compiled operator has, OWNED_BY_DML or not.

    Raises:
        InvalidArgumentError: when one is missing, unknown, or does not fit its tensor.
    """
    return {
        member: checked_array(value, tensor, f"{compiled.name}: {member}", casting)
        for member, tensor, value in wanted_inputs(compiled, inputs)
    }


def wanted_inputs(compiled: CompiledOperator, inputs: Mapping[str, Any]) -> list[tuple[str, TensorDesc, Any]]:
    """The inputs that the compiled operator has: DirectML's name, tensor, and what was given.

    Raises:
        InvalidArgumentError: when the given ones have other names.
    """
    if not isinstance(inputs, Mapping):
        raise InvalidArgumentError(f"{compiled.name}: run takes the inputs as a mapping by member name; got {inputs!r}")
    wanted = {
        point.name: tensor
        for point, tensor in zip(compiled.inputs, compiled.input_tensors, strict=True)
        if tensor is not None
    }
    if any(member not in wanted for member in inputs):
        inputs = _by_directml_names(compiled, inputs, wanted)
    for member in wanted:
        if member not in inputs:
            raise InvalidArgumentError(f"{compiled.name}: {member}: an array is missing")
    return [(member, tensor, inputs[member]) for member, tensor in wanted.items()]


def _by_directml_names(
    compiled: CompiledOperator, inputs: Mapping[str, Any], wanted: Mapping[str, TensorDesc]
) -> dict[str, Any]:
    """The inputs of an operator that are given by Python names, ``input_tensor`` for ``InputTensor``, or by either."""
    fields = [field for field, _ in compiled.desc.inputs] if isinstance(compiled, CompiledSingleOperator) else []
    names = {field.attribute: field.name for field in fields if field.name in wanted}
    renamed: dict[str, Any] = {}
    for member, value in inputs.items():
        name = names.get(member, member) if isinstance(member, str) else member
        if name not in wanted:
            raise InvalidArgumentError(
                f"{compiled.name}: has no input {member!r} to give an array for; it has {list(wanted)}"
            )
        if name in renamed:
            raise InvalidArgumentError(f"{compiled.name}: {name} is given twice, by both of its names")
        renamed[name] = value
    return renamed


class HostRun:
    """A compiled operator with buffers of its own and everything recorded.

    It knows what it needs of the compiled operator, but does not keep it alive. An operator's persistent resource is
    written from the host here, as the initializer would write it.

    Args:
        timestamps: whether to note what each kernel takes.
    """

    def __init__(self, engine: Engine, compiled: CompiledOperator, *, timestamps: bool = False) -> None:
        self._engine = engine
        self._name = compiled.name
        self._inputs = [
            (point.name, tensor, compiled.owned.get(number, Region(BindingKind.INPUT, number, 0, tensor.size_in_bytes)))
            for number, (point, tensor) in enumerate(zip(compiled.inputs, compiled.input_tensors, strict=True))
            if tensor is not None
        ]
        self._outputs = [
            (point.name, point.tensor, Region(BindingKind.OUTPUT, number, 0, point.size_in_bytes))
            for number, point in enumerate(compiled.outputs)
            if point.tensor is not None
        ]
        self._constants: tuple[Buffer, ...] = compiled.constants
        self._labels = [step.label for step in compiled.steps]
        self._allocations: dict[tuple[BindingKind, int], Allocation] = {}
        self._is_submitted = False
        # Frees the memory when nobody refers to this object any more.
        self._release = weakref.finalize(self, _release_all, engine, self._allocations)
        try:
            self.recording = self._record(compiled, timestamps)
            self._input_views = [self._view(*member) for member in self._inputs]
            self._output_views = [self._view(*member) for member in self._outputs]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._input_views, self._output_views = [], []
        self._release()

    def _record(self, compiled: CompiledOperator, timestamps: bool) -> Recording:
        sizes = _sizes(compiled)
        of_host = [key for key in sizes if key[0] in (BindingKind.INPUT, BindingKind.OUTPUT)]
        # What kernels take is asked for of those that work in the device's memory.
        is_near = not timestamps and sum(sizes[key] for key in of_host) <= MOST_BYTES_NEAR_HOST
        for key, size in sizes.items():
            near_host = is_near and key in of_host
            self._allocations[key] = self._engine.allocate(size, zeroed=False, owner=self, near_host=near_host)
        uploaded = [self._allocations[region.kind, region.index] for _, _, region in self._inputs]
        written = [self._allocations[region.kind, region.index] for _, _, region in self._outputs]
        steps = scheduled(compiled.steps, self._locate, HazardTracker())
        return self._engine.record(
            [step.launch(self._engine) for step in steps],
            upload=list(dict.fromkeys(uploaded)),
            download=written,
            timestamps=timestamps,
        )

    def _locate(self, region: Region) -> tuple[Buffer | Allocation, int]:
        if region.kind is BindingKind.CONSTANTS:
            return self._constants[region.index], 0
        return self._allocations[region.kind, region.index], 0

    def _view(self, member: str, tensor: TensorDesc, region: Region) -> _HostView:
        host_bytes = self._allocations[region.kind, region.index].host_bytes[region.offset :]
        elements = logical_view(host_bytes, tensor) if has_views(tensor) else None
        return _HostView(member, tensor, host_bytes, elements, may_overlap(tensor))

    def kernel_times(self) -> list[KernelTime]:
        """What each kernel took in the last run; only where timestamps were asked for."""
        spans = self._engine.dispatch_spans(self.recording)
        return [KernelTime(label, *span) for label, span in zip(self._labels, spans, strict=True)]

    def execute(
        self, arrays: Mapping[str, npt.NDArray[Any]], results: Mapping[str, npt.NDArray[Any]] | None = None
    ) -> Arrays:
        """Lays out the inputs, runs, and copies the outputs out. One thread at a time, inside a call or a visit.

        Args:
            results: where the outputs go; ``None``: into new arrays.
        """
        engine = self._engine
        engine.check_open()  # else the views lead nowhere
        if self._is_submitted:  # and was not waited for, because an interrupt came
            engine.wait(self.recording)
        for view in self._input_views:
            if view.overlaps or view.elements is None:
                lay_out(arrays[view.member], view.tensor, view.host_bytes, f"{self._name}: {view.member}")
            else:
                copy_elements(view.elements, arrays[view.member])
        self._is_submitted = True
        if not self._constants:
            engine.run_whole(self.recording)
        else:
            engine.run(self.recording)
        self._is_submitted = False
        if results is None:
            return {view.member: view.copied() for view in self._output_views}
        for view in self._output_views:
            assert view.elements is not None  # whoever has room for results knows their types
            copy_elements(results[view.member], view.elements)
        return dict(results)


@dataclasses.dataclass(frozen=True, slots=True)
class _HostView:
    """A tensor of a :class:`HostRun` in the host's memory."""

    member: str
    tensor: TensorDesc
    host_bytes: npt.NDArray[np.uint8]
    elements: npt.NDArray[Any] | None  # none of a 4-bit type
    overlaps: bool

    def copied(self) -> npt.NDArray[Any]:
        """The elements, in C order."""
        return elements_of(self.host_bytes, self.tensor) if self.elements is None else copied(self.elements)


def _sizes(compiled: CompiledOperator) -> dict[tuple[BindingKind, int], int]:
    sizes = {(BindingKind.INPUT, number): point.size_in_bytes for number, point in enumerate(compiled.inputs)}
    sizes |= {(BindingKind.OUTPUT, number): point.size_in_bytes for number, point in enumerate(compiled.outputs)}
    sizes |= {(BindingKind.TEMPORARY, number): size for number, size in enumerate(compiled.temporary_pages)}
    sizes[BindingKind.PERSISTENT, 0] = compiled.persistent_resource_size
    return {key: (size + 3) & ~3 for key, size in sizes.items() if size}


def _release_all(engine: Engine, allocations: Mapping[tuple[BindingKind, int], Allocation]) -> None:
    for allocation in allocations.values():
        engine.release_later(allocation)


class _Slot:
    """Buffers for one run of a compiled operator at a time."""

    __slots__ = ("lock", "run")

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held by the thread that runs it
        self.run: HostRun | None = None  # the buffers, if there are any at the moment


class _RunSlots:
    """For as many runs of a compiled operator at once as make sense.

    Buffers that are let go are freed when nobody refers to them: when the thread that works with them is done.
    """

    def __init__(self, run_size: int, most: int, device_bytes: int) -> None:
        count = min(most, kept_bytes_in_all(device_bytes) // max(run_size, 1))
        self.slots = tuple(_Slot() for _ in range(max(count, 1)))  # at least one; fewer when memory is short
        # whether buffers are kept when nobody uses them
        self.are_kept = run_size <= min(KEPT_RUN_BYTES, device_bytes // 32)
        self._run_size = run_size
        self._uses = 0

    @property
    def kept_bytes(self) -> int:
        return self._run_size * sum(slot.run is not None for slot in self.slots) if self.are_kept else 0

    def next(self) -> _Slot:
        """One that is free; if none is, the one that was taken first, more or less."""
        for slot in self.slots:
            if not slot.lock.locked():
                return slot
        self._uses += 1
        return self.slots[self._uses % len(self.slots)]

    def leave(self, left: _Slot) -> None:
        """Lets go of what is not kept, unless other threads are about to need it: then the last of them does."""
        if any(slot.lock.locked() for slot in self.slots if slot is not left):
            return
        run = left.run
        for slot in self.slots:
            slot.run = None
        if run is not None:
            run.close()  # to which an exception may still refer

    def shrink(self) -> int:
        """Lets go of all buffers but those of one run; returns how many runs it lets go."""
        runs = [slot for slot in self.slots if slot.run is not None]
        for slot in runs[1:]:
            slot.run = None
        return len(runs[1:])

    def narrow(self) -> bool:
        """Leaves one slot, which has buffers; whether there is one."""
        runs = [slot for slot in self.slots if slot.run is not None]
        self.slots = tuple(runs[:1]) or self.slots
        return bool(runs)


def kept_bytes_in_all(device_bytes: int) -> int:
    """What all compiled operators of a device with so much memory keep at most."""
    return min(KEPT_RUN_BYTES_IN_ALL, device_bytes // 8)


def _nothing() -> None:
    """Stands for a weak reference to what is gone."""


class RunCache:
    """The runs that are kept from one call to the next; large ones are kept while several threads want them.

    Several threads may run a compiled operator at once, each with buffers of its own: while one waits for the device,
    others copy.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._device_bytes = engine.info.memory
        self._runs: WeakKeys[CompiledOperator, _RunSlots] = WeakKeys()
        self._last: tuple[Callable[[], CompiledOperator | None], Callable[[], _RunSlots | None]] = _nothing, _nothing

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[CompiledOperator]:
        return iter([compiled for compiled, _ in self._runs.items()])

    def clear(self) -> None:
        self._runs.clear()

    def execute(
        self,
        compiled: CompiledOperator,
        arrays: Mapping[str, npt.NDArray[Any]],
        results: Mapping[str, npt.NDArray[Any]] | None = None,  # where its outputs go; ``None``: into new arrays
        most_at_once: int = MOST_RUNS_AT_ONCE,  # runs of it at a time; the same in every call
    ) -> Arrays:
        """Runs a compiled operator, with kept buffers where there are some."""
        visit = self._engine.afterwards.visit()
        if visit is INSIDE:
            # In a signal's handler or a finalizer, in the middle of a run: that one and this must not wait for others.
            with contextlib.closing(HostRun(self._engine, compiled)) as run:
                return run.execute(arrays, results)
        last, slots_of_last = self._last
        slots = (slots_of_last() if last() is compiled else None) or self._used_now(compiled, most_at_once)
        made_room = False
        while True:
            try:
                with self._engine.afterwards, visit:
                    slot = slots.slots[0]
                    if slot.lock.locked():
                        slot = slots.next()
                    with slot.lock:
                        if slot in slots.slots:  # still
                            return self._execute(slot, slots, compiled, arrays, results)
            except OutOfMemoryError:
                if made_room or not self._make_room(slots):
                    raise
                made_room = True

    def _used_now(self, compiled: CompiledOperator, most: int) -> _RunSlots:
        with self._engine.afterwards, self._engine.lock:
            # The order in which they were used says which goes first.
            slots = self._runs.get(compiled) or _RunSlots(sum(_sizes(compiled).values()), most, self._device_bytes)
            self._runs.keep(compiled, slots)
            self._last = weakref.ref(compiled), weakref.ref(slots)
            return slots

    def _execute(
        self,
        slot: _Slot,
        slots: _RunSlots,
        compiled: CompiledOperator,
        arrays: Mapping[str, npt.NDArray[Any]],
        results: Mapping[str, npt.NDArray[Any]] | None,
    ) -> Arrays:
        run = slot.run or self._filled(slot, slots, compiled)
        if slots.are_kept:
            return run.execute(arrays, results)
        try:
            return run.execute(arrays, results)
        finally:
            slots.leave(slot)

    def _filled(self, slot: _Slot, slots: _RunSlots, compiled: CompiledOperator) -> HostRun:
        run = slot.run = HostRun(self._engine, compiled)
        with self._engine.lock:
            size = sum(each.kept_bytes for _, each in self._runs.items())
            for other, kept in self._runs.items():
                if size <= kept_bytes_in_all(self._device_bytes):
                    break
                if kept is not slots and kept.kept_bytes:
                    size -= kept.kept_bytes
                    self._runs.drop(other)
        return run

    def _make_room(self, slots: _RunSlots) -> bool:
        """Does with the buffers of one run of each operator when memory is short; whether that may be of help."""
        afterwards = self._engine.afterwards
        with afterwards, self._engine.lock:
            let_go = sum(each.shrink() for _, each in self._runs.items())
            waits = slots.narrow()
            afterwards.do_inside()
            return bool(let_go) or waits
