"""Records dispatches and runs them (IDMLCommandRecorder); the one place that knows which dispatch waits for which."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from dmlvk.binding import BindingTable, BoundTensor, CompiledOperator
from dmlvk.buffers import Buffer
from dmlvk.errors import InvalidArgumentError
from dmlvk.kernels import library
from dmlvk.runtime.kompute import Launch, Recording

if TYPE_CHECKING:
    from dmlvk.device import Device


@dataclasses.dataclass(frozen=True)
class Access:
    """A range of a buffer that a dispatch reads or writes: the tensor's bytes, in the range that was bound."""

    buffer: Buffer
    start: int
    end: int

    def overlaps(self, other: Access) -> bool:
        """Whether the two share a byte."""
        return self.buffer is other.buffer and self.start < other.end and other.start < self.end


def _access(bound: BoundTensor) -> Access:
    start = bound.binding.offset
    return Access(bound.binding.buffer, start, start + bound.tensor.size_in_bytes)


class HazardTracker:
    """Decides before which dispatches the earlier ones must be complete.

    A dependency is needed for read-after-write, write-after-read and write-after-write on bytes that two dispatches
    share, and for nothing else. One dependency orders everything before it, so only what came after the last one
    counts.
    """

    def __init__(self) -> None:
        self._read: list[Access] = []
        self._written: list[Access] = []

    def depends(self, reads: list[Access], writes: list[Access]) -> bool:
        """Notes a dispatch, and tells whether it must wait for those before it."""
        waits = any(
            access.overlaps(earlier)
            for accesses, earlier_ones in ((reads, self._written), (writes, self._written), (writes, self._read))
            for access in accesses
            for earlier in earlier_ones
        )
        if waits:
            self._read.clear()
            self._written.clear()
        self._read += reads
        self._written += writes
        return waits


@dataclasses.dataclass(frozen=True)
class RecordedDispatch:
    """One dispatch as recorded, for those who look inside.

    Attributes:
        compiled: the operator.
        inputs: its inputs as they were bound.
        outputs: its outputs as they were bound.
        depends: whether it waits for the dispatches before it.
    """

    compiled: CompiledOperator
    inputs: tuple[BoundTensor, ...]
    outputs: tuple[BoundTensor, ...]
    depends: bool


class CommandRecorder:
    """Records dispatches, to be submitted together. Made by ``Device.create_command_recorder``.

    What was recorded stays recorded: each ``execute`` runs all of it again, until ``reset``.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._hazards = HazardTracker()
        self._dispatches: list[RecordedDispatch] = []
        self._recording: Recording | None = None

    @property
    def dispatches(self) -> tuple[RecordedDispatch, ...]:
        """What was recorded, in order."""
        return tuple(self._dispatches)

    def reset(self) -> None:
        """Forgets everything that was recorded."""
        self._hazards = HazardTracker()
        self._dispatches.clear()
        self._recording = None

    def record_dispatch(self, compiled: CompiledOperator, table: BindingTable) -> None:
        """Records the execution of a compiled operator with what is bound now.

        Dependencies between dispatches are found and placed by the recorder. The table may be changed or dropped
        afterwards; the buffers must not be closed before the work is done.

        Raises:
            InvalidArgumentError: when the table is not complete, or made for another operator or device.
            DeviceRemovedError: when the device is lost or closed.
        """
        self._device.engine.check_open()
        if not isinstance(compiled, CompiledOperator) or not isinstance(table, BindingTable):
            raise InvalidArgumentError(
                "CommandRecorder.record_dispatch: takes a CompiledOperator and a BindingTable; "
                f"got {compiled!r}, {table!r}"
            )
        if table.compiled is not compiled:
            raise InvalidArgumentError(
                f"{compiled.desc.operator_name}: the binding table was made for another compiled operator"
            )
        if compiled.device is not self._device:
            raise InvalidArgumentError(f"{compiled.desc.operator_name}: belongs to another device than the recorder")
        inputs, outputs = table.snapshot()
        depends = self._hazards.depends([_access(bound) for bound in inputs], [_access(bound) for bound in outputs])
        self._dispatches.append(RecordedDispatch(compiled, inputs, outputs, depends))
        self._recording = None

    def execute(self) -> None:
        """Runs everything that was recorded, in one submission, and waits until it is done.

        Raises:
            InvalidArgumentError: when a buffer was closed since.
            DeviceRemovedError: when the device is lost or closed.
        """
        self.submit()
        self.wait()

    def submit(self) -> None:
        """Hands everything that was recorded to the device, and returns; what is submitted runs once.

        Reading, writing or closing a buffer that the work uses waits for it, and so does submitting other work with it.
        With the unchanged Kompute 0.9.0, which cannot submit without waiting, this returns when the work is done.
        """
        engine = self._device.engine
        engine.check_open()
        if not self._dispatches:
            return
        with engine.exclusive():  # nobody may close a buffer between the check and the end of the run
            self._check_buffers()
            if self._recording is None:
                self._recording = engine.record([_launch(dispatch) for dispatch in self._dispatches])
            engine.submit(self._recording)

    def _check_buffers(self) -> None:
        for dispatch in self._dispatches:
            for bound in dispatch.inputs + dispatch.outputs:
                where = f"{dispatch.compiled.desc.operator_name}: {bound.field.name}"
                bound.binding.buffer.check_usable(f"{where}: the buffer was closed after the dispatch was recorded")

    def wait(self) -> None:
        """Waits until what was submitted is done.

        Raises:
            DeviceRemovedError: when the device is lost while waiting.
        """
        if self._recording is not None:
            self._device.engine.wait(self._recording)


def _launch(dispatch: RecordedDispatch) -> Launch:
    kernel = dispatch.compiled.kernel
    bound = dispatch.inputs + dispatch.outputs
    offsets = [tensor.binding.offset for tensor in bound]
    return Launch(
        spirv=library.load(kernel.variant),
        specialization=kernel.specialization(offsets),
        push_constants=kernel.push_constants(offsets),
        work_groups=kernel.work_groups,
        allocations=tuple(tensor.binding.buffer.allocation for tensor in bound),
        written=tuple(tensor.binding.buffer.allocation for tensor in dispatch.outputs),
        depends=dispatch.depends,
    )
