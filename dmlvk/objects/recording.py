"""Records dispatches and runs them (IDMLCommandRecorder); the one place that knows which kernel waits for which."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError
from dmlvk.kernels.library import coefficients
from dmlvk.kernels.program import BindingKind, KernelStep, Region
from dmlvk.objects.binding import Bindings, BindingTable, BoundRange, check_usable
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import ALREADY_INITIALIZED, CompiledOperator, Dispatchable, OperatorInitializer
from dmlvk.runtime.kompute import Allocation, Launch, Recording
from dmlvk.runtime.waiting import run_again, submitted_again

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.runtime.kompute import Engine


@dataclasses.dataclass(frozen=True)
class Access:
    """A range of memory that a kernel reads or writes: the tensor's bytes, in the range that was bound."""

    memory: Buffer | Allocation  # a buffer, or an allocation
    start: int  # its first byte
    end: int  # the byte behind it

    @property
    def allocation(self) -> Allocation:
        """The memory itself."""
        return self.memory.allocation if isinstance(self.memory, Buffer) else self.memory


class _Ranges:
    """Bytes of several memories, as ranges in rising order that neither overlap nor touch."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Buffer | Allocation, list[int], list[int]]] = {}

    def overlap(self, access: Access) -> bool:
        _, starts, ends = self._found.get(id(access.memory), (None, [], []))
        before = bisect.bisect_left(starts, access.end)  # so many begin before its end; the last of them ends last
        return before > 0 and ends[before - 1] > access.start

    def add(self, access: Access) -> None:
        _, starts, ends = self._found.setdefault(id(access.memory), (access.memory, [], []))
        first = bisect.bisect_left(ends, access.start)
        last = bisect.bisect_right(starts, access.end)
        start = min([access.start, *starts[first:last][:1]])
        end = max([access.end, *ends[first:last][-1:]])
        starts[first:last], ends[first:last] = [start], [end]

    def take_over(self, others: _Ranges) -> None:
        """Takes those of others in, which have none afterwards."""
        for memory, starts, ends in others._found.values():
            for start, end in zip(starts, ends, strict=True):
                self.add(Access(memory, start, end))
        others.clear()

    def clear(self) -> None:
        self._found.clear()


class HazardTracker:
    """Decides before which dispatches the earlier ones must be complete.

    A dependency is needed for read-after-write, write-after-read and write-after-write on bytes that two dispatches
    share, and for nothing else. One dependency orders everything before it, so only what came after the last one
    counts.
    """

    def __init__(self) -> None:
        self._read = _Ranges()
        self._written = _Ranges()
        self._written_by_group = _Ranges()  # what the last dispatch wrote, and those of its group before it

    def depends(self, reads: list[Access], writes: list[Access], *, is_independent: bool = False) -> bool:
        """Notes a dispatch, and tells whether it must wait for those before it.

        Args:
            reads: what it reads.
            writes: what it writes.
            is_independent: whether it and the dispatches before it that are told so write different words, although
                their ranges may overlap.
        """
        if not is_independent:
            self._written.take_over(self._written_by_group)
        waits = any(self._written.overlap(access) or self._written_by_group.overlap(access) for access in reads)
        waits = waits or any(self._written.overlap(access) or self._read.overlap(access) for access in writes)
        if waits:
            self._read.clear()
            self._written.clear()
            self._written_by_group.clear()
        for access in reads:
            self._read.add(access)
        for access in writes:
            self._written_by_group.add(access)
        return waits


@dataclasses.dataclass(frozen=True)
class RecordedStep:
    """A kernel's launch as recorded, for those who look inside."""

    step: KernelStep  # the launch
    reads: tuple[Access, ...]  # the memory that it reads
    writes: tuple[Access, ...]  # the memory that it writes
    depends: bool  # whether it waits for what was recorded before it

    def launch(self, engine: Engine) -> Launch:
        """What a device is to do.

        Raises:
            OutOfMemoryError: when the device has no memory for the coefficients that the kernel reads.
        """
        operands = (*self.reads, *self.writes)
        offsets = [access.start for access in operands]
        kernel = self.step.kernel
        spirv = self.step.spirv()
        allocations = [access.allocation for access in operands]
        if coefficients.are_read_by(spirv, len(operands)):
            allocations.append(engine.shared(coefficients.contents()))
        x, y, z = map(index, kernel.work_groups)  # those that follow from open sizes are of a plan for these alone
        return Launch(
            spirv=spirv,
            specialization=tuple(map(index, kernel.specialization(offsets))),
            push_constants=tuple(map(index, kernel.push_constants(offsets))),
            work_groups=(x, y, z),
            allocations=tuple(allocations),
            written=tuple(access.allocation for access in self.writes),
            depends=self.depends,
            operand_bytes=sum(access.end - access.start for access in operands),
        )


def scheduled(
    steps: Iterable[KernelStep], locate: Callable[[Region], tuple[Buffer | Allocation, int]], hazards: HazardTracker
) -> list[RecordedStep]:
    """Finds the memory that kernels work on, and which of them wait.

    Args:
        steps: the kernels, in order.
        locate: memory and first byte of a region's place.
        hazards: what was recorded before; these steps are added to it.
    """

    def access(region: Region) -> Access:
        memory, start = locate(region)
        return Access(memory, start + region.offset, start + region.offset + region.size_in_bytes)

    recorded = []
    for step in steps:
        reads, writes = [access(region) for region in step.reads], [access(region) for region in step.writes]
        depends = hazards.depends(reads, writes, is_independent=step.is_independent)
        recorded.append(RecordedStep(step, tuple(reads), tuple(writes), depends))
    return recorded


def run_once(
    engine: Engine,
    made: Callable[[list[Region], list[Region]], Sequence[KernelStep]],
    inputs: Sequence[Buffer],
    output: Buffer,
) -> None:
    """Runs kernels on whole buffers and waits for them, without what a compiled operator brings.

    Args:
        engine: the device.
        made: the launches, from what they read and write.
        inputs: a buffer for each input.
        output: where the result goes.
    """

    def locate(region: Region) -> tuple[Buffer | Allocation, int]:
        return (inputs[region.index] if region.kind is BindingKind.INPUT else output), 0

    reads = [Region(BindingKind.INPUT, index, 0, buffer.size_in_bytes) for index, buffer in enumerate(inputs)]
    steps = made(reads, [Region(BindingKind.OUTPUT, 0, 0, output.size_in_bytes)])
    recorded = scheduled(steps, locate, HazardTracker())
    engine.run(engine.record([step.launch(engine) for step in recorded]))


def run_on_arrays(
    engine: Engine,
    made: Callable[[list[Region], list[Region]], Sequence[KernelStep]],
    inputs: Sequence[npt.NDArray[Any]],
    dtype: npt.DTypeLike,
    shape: Sequence[int],
) -> npt.NDArray[Any]:
    """The same on arrays: what the kernels write, as an array of this type and shape."""
    sizes = [*(array.nbytes for array in inputs), math.prod(shape) * np.dtype(dtype).itemsize]
    with contextlib.ExitStack() as stack:
        *sources, target = [stack.enter_context(Buffer(engine, size)) for size in sizes]
        for source, array in zip(sources, inputs, strict=True):
            source.upload(array)
        run_once(engine, made, sources, target)
        return target.download(dtype, shape)


@dataclasses.dataclass(frozen=True)
class RecordedDispatch:
    """One dispatch as recorded, for those who look inside."""

    dispatchable: Dispatchable  # the compiled operator, compiled graph or initializer
    bindings: Bindings  # what is bound; of an operator with DESCRIPTORS_VOLATILE, what is bound now
    targets: tuple[CompiledOperator, ...]  # what an initializer initializes
    steps: tuple[RecordedStep, ...]  # its kernels

    @property
    def inputs(self) -> tuple[BoundRange, ...]:
        """Its inputs that are bound, in order."""
        return tuple(self.bindings.inputs.values())

    @property
    def outputs(self) -> tuple[BoundRange, ...]:
        """Its outputs, in order."""
        return tuple(self.bindings.outputs.values())

    @property
    def depends(self) -> bool:
        """Whether its first kernel waits for the dispatches before it."""
        return bool(self.steps) and self.steps[0].depends


@dataclasses.dataclass(frozen=True)
class KernelTime:
    """What a kernel took on the device.

    Attributes:
        label: what it computes.
        start: when it could begin, in seconds since the first kernel of the submission could.
        seconds: from then until it was done.
    """

    label: str
    start: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A call of record_dispatch: with a table that is read later, or with what was bound then."""

    dispatchable: Dispatchable
    steps: tuple[KernelStep, ...]
    targets: tuple[CompiledOperator, ...]
    table: BindingTable
    bindings: Bindings | None

    def resolved(self) -> Bindings:
        """What is bound.

        Raises:
            InvalidArgumentError: when a table that is read late is not complete, or no longer for this operator.
        """
        if self.bindings is not None:
            return self.bindings
        if self.table.dispatchable is not self.dispatchable:
            raise InvalidArgumentError(
                f"{self.dispatchable.name}: its binding table was reset for another operator; with "
                "DESCRIPTORS_VOLATILE it is read when the work is submitted"
            )
        return self.table.snapshot()


class CommandRecorder:
    """Records dispatches, to be submitted together. Made by ``Device.create_command_recorder``.

    What was recorded stays recorded: each ``execute`` runs all of it again, until ``reset``.
    """

    def __init__(self, device: Device, *, timestamps: bool = False) -> None:
        self._device = device
        self._timestamps = timestamps
        self._entries: list[_Entry] = []
        self._dispatches: list[RecordedDispatch] = []
        self._recording: Recording | None = None
        self._submitted: Recording | None = None
        self._is_demanding = False  # at each submission tables are read, or what is initialized is looked at
        self._labels: list[str] = []  # of the kernels in what was submitted

    @property
    def dispatches(self) -> tuple[RecordedDispatch, ...]:
        """What was recorded, in order.

        Raises:
            InvalidArgumentError: when a table that is read late (DESCRIPTORS_VOLATILE) is not complete.
        """
        self._resolve()
        return tuple(self._dispatches)

    def reset(self) -> None:
        """Forgets everything that was recorded. What was submitted goes on; reading its buffers waits for it."""
        self._entries.clear()
        self._dispatches.clear()
        self._recording = self._submitted = None
        self._is_demanding = False

    def record_dispatch(self, dispatchable: Dispatchable, table: BindingTable) -> None:
        """Records the execution of a compiled operator, a compiled graph or an initializer with what is bound now.

        Dependencies are found and placed by the recorder. The table may be changed or dropped afterwards; the buffers
        must not be closed before the work is done. It is different for an operator that was compiled with
        DESCRIPTORS_VOLATILE: its table is read at every submission, and needs to be complete only then.

        Raises:
            InvalidArgumentError: when the table is not complete, or made for another operator or device.
            DeviceRemovedError: when the device is lost or closed.
        """
        self._device.engine.check_open()
        if not isinstance(dispatchable, Dispatchable) or not isinstance(table, BindingTable):
            raise InvalidArgumentError(
                "CommandRecorder.record_dispatch: takes a CompiledOperator or an OperatorInitializer, and a "
                f"BindingTable; got {dispatchable!r}, {table!r}"
            )
        if table.dispatchable is not dispatchable:
            raise InvalidArgumentError(f"{dispatchable.name}: the binding table was made for another dispatchable")
        if dispatchable.device is not self._device:
            raise InvalidArgumentError(f"{dispatchable.name}: belongs to another device than the recorder")
        targets = dispatchable.targets if isinstance(dispatchable, OperatorInitializer) else ()
        bindings = None if dispatchable.is_volatile else table.snapshot()
        self._entries.append(_Entry(dispatchable, dispatchable.steps, targets, table, bindings))
        self._recording = None
        persists = bool(targets) or (bindings is not None and bindings.persistent is not None)
        self._is_demanding = self._is_demanding or persists or dispatchable.is_volatile

    def execute(self) -> None:
        """Runs everything that was recorded, in one submission, and waits until it is done.

        Raises:
            InvalidArgumentError: when a buffer was closed since, an operator is not initialized that needs to be, or
                one is initialized a second time.
            DeviceRemovedError: when the device is lost or closed.
        """
        again = self._submitted_before()
        if again is not None and run_again(self._device.engine, again, self._check_usable):
            return
        self.submit()
        self.wait()

    def submit(self) -> None:
        """Hands everything that was recorded to the device, and returns; what is submitted runs once.

        Reading, writing or closing a buffer that the work uses waits for it, and so does submitting other work that
        writes it, or that uses what this one writes.
        With the unchanged Kompute 0.9.0, which cannot submit without waiting, this returns when the work is done.
        """
        engine = self._device.engine
        engine.check_open()
        if not self._entries:
            return
        again = self._submitted_before()
        if again is not None and submitted_again(engine, again, self._check_usable):
            return
        initialized: dict[CompiledOperator, tuple[Buffer, int] | None] = {}

        def prepare() -> Recording | None:
            self._resolve()
            self._check_usable()
            initialized.clear()
            initialized.update(self._check_initialized())
            if self._recording is None:
                steps = [step for dispatch in self._dispatches for step in dispatch.steps]
                launches = [step.launch(engine) for step in steps]
                self._recording = engine.record(launches, timestamps=self._timestamps) if steps else None
            if self._recording is not None and self._submitted is not self._recording:
                self.wait()  # for what was submitted before something else was recorded or bound
            return self._recording

        def note() -> None:
            if self._recording is not None:
                self._submitted = self._recording
                self._labels = [step.step.label for dispatch in self._dispatches for step in dispatch.steps]
            for compiled, persistent in initialized.items():
                compiled.mark_initialized(persistent)

        engine.submit_prepared(prepare, note)

    def _submitted_before(self) -> Recording | None:
        """What was submitted last, if it is to be submitted again, and nothing but its buffers has to be looked at."""
        return self._recording if self._recording is self._submitted and not self._is_demanding else None

    def _check_usable(self) -> None:
        for dispatch in self._dispatches:
            check_usable(dispatch.dispatchable, dispatch.bindings, "was closed after the dispatch was recorded")

    def _resolve(self) -> None:
        """Brings ``_dispatches`` up to date with what was recorded, and with tables that are read late."""
        bound = [entry.resolved() for entry in self._entries]
        if bound == [dispatch.bindings for dispatch in self._dispatches]:
            return
        self._recording = None
        self._dispatches.clear()
        hazards = HazardTracker()
        for entry, bindings in zip(self._entries, bound, strict=True):
            steps = scheduled(entry.steps, _locator(entry.dispatchable, bindings), hazards)
            self._dispatches.append(RecordedDispatch(entry.dispatchable, bindings, entry.targets, tuple(steps)))

    def _check_initialized(self) -> dict[CompiledOperator, tuple[Buffer, int] | None]:
        """Rules 31, 62 and 63, in the order of the dispatches; returns what they initialize, and where."""
        initialized: dict[CompiledOperator, tuple[Buffer, int] | None] = {}
        for dispatch in self._dispatches:
            for number, target in enumerate(dispatch.targets):
                if target in initialized or target.is_initialized:
                    raise InvalidArgumentError(
                        f"{dispatch.dispatchable.name}: target {number} ({target.name}) {ALREADY_INITIALIZED}"
                    )
                bound = dispatch.bindings.outputs.get(number)
                initialized[target] = (bound.binding.buffer, bound.binding.offset) if bound else None
            compiled, persistent = dispatch.dispatchable, dispatch.bindings.persistent
            if not isinstance(compiled, CompiledOperator) or not compiled.persistent_resource_size:
                continue
            assert persistent is not None  # the table was complete
            location = (persistent.buffer, persistent.offset)
            if compiled not in initialized and not compiled.is_initialized:
                raise InvalidArgumentError(
                    f"{compiled.name}: is not initialized: execute an operator initializer for it first"
                )
            same = (
                initialized[compiled] == location
                if compiled in initialized
                else compiled.was_initialized_into(*location)
            )
            if not same:
                raise InvalidArgumentError(
                    f"{compiled.name}: the persistent resource must be bound to the place that its initializer wrote"
                )
        return initialized

    def wait(self) -> None:
        """Waits until what was submitted is done.

        Raises:
            DeviceRemovedError: when the device is lost while waiting.
        """
        if self._submitted is not None:
            self._device.engine.wait(self._submitted)

    def kernel_times(self) -> list[KernelTime]:
        """What each kernel took when everything was last run: of a recorder that was made with ``timestamps``.

        A device notes its time when everything before is done, so kernels that run side by side share their time. What
        was recorded since does not count.

        Raises:
            InvalidArgumentError: when the recorder was made without timestamps, or nothing was submitted yet.
            DeviceRemovedError: when the device is lost or closed.
        """
        if not self._timestamps:
            raise InvalidArgumentError("CommandRecorder.kernel_times: the recorder was created without timestamps")
        self.wait()
        if self._submitted is None:
            raise InvalidArgumentError("CommandRecorder.kernel_times: nothing was submitted yet")
        spans = self._device.engine.dispatch_spans(self._submitted)
        return [KernelTime(label, *span) for label, span in zip(self._labels, spans, strict=True)]


def _locator(dispatchable: Dispatchable, bindings: Bindings) -> Callable[[Region], tuple[Buffer | Allocation, int]]:
    def locate(region: Region) -> tuple[Buffer | Allocation, int]:
        if region.kind is BindingKind.CONSTANTS:
            return dispatchable.constants[region.index], 0
        binding = bindings.at(region.kind, region.index)
        return binding.buffer, binding.offset

    return locate
