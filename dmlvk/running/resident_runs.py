"""Runs a compiled operator or graph where its inputs are, and leaves the outputs there: ``run(…, keep=True)``."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.array import Array
from dmlvk.arrays.conversion import Casting
from dmlvk.arrays.indexing import AxisPart, TensorSlice
from dmlvk.arrays.memory_pool import MemoryPool, Storage
from dmlvk.arrays.output_targets import check_shared_memory, checked_targets
from dmlvk.arrays.programs import Programs
from dmlvk.arrays.tensor_bytes import checked_array, copy_elements, has_views, lay_out, may_overlap
from dmlvk.arrays.tensor_memory import TensorMemory, array_tensor
from dmlvk.errors import InvalidArgumentError
from dmlvk.kernels.program import BindingKind, Region
from dmlvk.objects.binding import BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import RESOURCE_ALIGNMENT, BindPoint, CompiledOperator, Operator
from dmlvk.objects.recording import HazardTracker, RecordedStep, scheduled
from dmlvk.operators.movement import Slice1
from dmlvk.running.host_runs import wanted_inputs
from dmlvk.running.kept_recordings import KeptRecordings, Location
from dmlvk.runtime.kompute import Allocation, Recording
from dmlvk.runtime.work import Chain
from dmlvk.support.recent import Recent
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, MINIMUM_BUFFER_TENSOR_ALIGNMENT, TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device

_KEPT_COPIES = 32  # Operators for copies on the device that are kept compiled

OnDevice = (Array, Buffer, BufferBinding)
"""What ``Device.run`` reads where it is."""

Given = TensorMemory | BufferBinding | npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class BoundMemory:
    """Where everything is that a run touches, and what keeps it there."""

    locations: dict[tuple[BindingKind, int], Location]  # allocations, and offsets in bytes
    owners: list[TensorMemory | Buffer | Storage]  # what the allocations belong to


class ResidentRuns:
    """Runs on memory that stays on the device.

    Args:
        pool: where memory for outputs and uploads comes from.

    Attributes:
        programs: graphs of Arrays' operations, and numbers beside them.
    """

    def __init__(self, pool: MemoryPool) -> None:
        self.pool = pool
        self._recordings = KeptRecordings(pool.engine.info.kind)
        self._copies: Recent[Slice1, CompiledOperator] = Recent(_KEPT_COPIES)
        self.programs = Programs()
        self._chain = Chain(())
        pool.when_freed(self._recordings.forget)

    def clear(self) -> None:
        """Forgets all recordings and operators."""
        self._recordings.clear()
        self._copies.clear()
        self.programs.clear()

    def execute(
        self,
        compiled: CompiledOperator,
        inputs: Mapping[str, Any],
        casting: Casting | None = None,
        out: Mapping[str, Any] | None = None,
    ) -> dict[str, TensorMemory]:
        """Runs a compiled operator; returns without waiting for the device.

        Args:
            compiled: of the device.
            inputs: by member name; arrays, Arrays or their memory, Buffers and BufferBindings.
            casting: what of inputs may be converted.
            out: where outputs are to be written, by member name.

        Raises:
            InvalidArgumentError: when one is missing, unknown, closed, of another device, or does not fit its tensor.
        """
        engine = self.pool.engine
        given = {
            member: self._checked(value, tensor, f"{compiled.name}: {member}", casting)
            for member, tensor, value in wanted_inputs(compiled, inputs)
        }
        targets = checked_targets(compiled, {} if out is None else out)
        with engine.afterwards, engine.lock:
            engine.check_open()
            operands = self._inputs(compiled, given)
            outputs: dict[str, TensorMemory] = {}
            for number, point in enumerate(compiled.outputs):
                if point.tensor is not None:
                    made = targets[point.name] if point.name in targets else self._new(compiled, point)
                    operands.locations[BindingKind.OUTPUT, number] = made.storage.allocation, made.offset
                    operands.owners.append(made)
                    outputs[point.name] = made
            if targets:
                check_shared_memory(compiled, operands.locations, targets)
            self._add_scratch(compiled, operands)
        self._submit(compiled, operands)
        return outputs

    def execute_fitting(
        self, compiled: CompiledOperator, inputs: Sequence[TensorMemory], wishes: Sequence[Allocation | None]
    ) -> list[TensorMemory]:
        """The same for what needs no look: its outputs, in order.

        Args:
            compiled: of the device, with a tensor for each input and output, none of them OWNED_BY_DML.
            inputs: which lie as their tensors do.
            wishes: which memory outputs get, where that is free.

        Raises:
            InvalidArgumentError: an input was closed.
        """
        engine = self.pool.engine
        with engine.afterwards, engine.lock:
            engine.check_open()
            outputs = [self._new(compiled, *each) for each in zip(compiled.outputs, wishes, strict=True)]
            places = [(one.storage.chunk, one.offset) for one in (*inputs, *outputs)]
            slots = [(BindingKind.INPUT, number) for number in range(len(inputs))]
            slots += [(BindingKind.OUTPUT, number) for number in range(len(outputs))]
            operands = BoundMemory(dict(zip(slots, places, strict=True)), list(inputs))
            self._add_scratch(compiled, operands)
        self._submit(compiled, operands)
        return outputs

    def _new(self, compiled: CompiledOperator, point: BindPoint, wish: Allocation | None = None) -> TensorMemory:
        assert point.tensor is not None  # an absent output has no array
        return TensorMemory(compiled.device, Storage(self.pool, point.size_in_bytes, wish), point.tensor)

    def run_bound(
        self, compiled: CompiledOperator, locations: Mapping[tuple[BindingKind, int], TensorMemory | BufferBinding]
    ) -> None:
        """Runs a compiled operator on memory that was checked already; returns without waiting for the device.

        Args:
            compiled: of the device.
            locations: what lies where, the scratch memory among it; packed, and large enough.

        Raises:
            InvalidArgumentError: when some of it was closed.
        """
        owners = [memory if isinstance(memory, TensorMemory) else memory.buffer for memory in locations.values()]
        self._submit(compiled, BoundMemory(_found(locations), list(owners)))

    def scheduled(
        self, compiled: CompiledOperator, locations: Mapping[tuple[BindingKind, int], TensorMemory | BufferBinding]
    ) -> list[RecordedStep]:
        """The kernels that :meth:`run_bound` runs, with which of them wait."""
        return scheduled(compiled.steps, _locator(compiled.constants, _found(locations)), HazardTracker())

    def _add_scratch(self, compiled: CompiledOperator, operands: BoundMemory) -> None:
        for number, size in enumerate(compiled.temporary_pages):
            scratch = Storage(self.pool, size)
            operands.owners.append(scratch)
            operands.locations[BindingKind.TEMPORARY, number] = scratch.allocation, 0

    def _submit(self, compiled: CompiledOperator, operands: BoundMemory) -> None:
        """Hands the kernels to the device, unless something was closed meanwhile.

        Args:
            compiled: of the device.
            operands: what lies where.
        """

        def prepare() -> Recording | None:
            for owner in operands.owners:
                _ = _allocation_of(owner)
            return self._recording(compiled, operands) if compiled.steps else None

        self.pool.engine.submit_prepared(prepare)

    def _checked(self, value: Any, tensor: TensorDesc, where: str, casting: Casting | None) -> Given:
        """An input that fits its tensor, or would after a copy."""
        if isinstance(value, Buffer):
            value = BufferBinding(value)
        elif isinstance(value, Array):
            value = value.memory()
        if isinstance(value, BufferBinding):
            return self._checked_binding(value, tensor, where)
        if not isinstance(value, TensorMemory):
            return checked_array(value, tensor, where, casting)
        if value.device.engine is not self.pool.engine:
            raise InvalidArgumentError(f"{where}: the array belongs to another device")
        if value.data_type is not tensor.data_type:
            raise InvalidArgumentError(
                f"{where}: the array's data type must be {tensor.data_type.name}; got {value.data_type.name}"
            )
        own = value.tensor.sizes
        fits = own == tensor.sizes or (
            len(own) == len(tensor.sizes)
            and all(
                length == size or (length == 1 and stride == 0)
                for length, size, stride in zip(own, tensor.sizes, tensor.element_strides, strict=True)
            )
        )
        if not fits:
            raise InvalidArgumentError(
                f"{where}: the array's shape must be {list(tensor.sizes)}; got {list(value.shape)}"
            )
        return value

    def _checked_binding(self, value: BufferBinding, tensor: TensorDesc, where: str) -> BufferBinding:
        if value.buffer.engine is not self.pool.engine:
            raise InvalidArgumentError(f"{where}: the buffer belongs to another device")
        value.buffer.check_usable(f"{where}: the buffer was closed")
        if value.end > value.buffer.size_in_bytes or value.offset % tensor.binding_alignment:
            raise InvalidArgumentError(
                f"{where}: the range must begin at a multiple of {tensor.binding_alignment} bytes inside of the "
                f"buffer's {value.buffer.size_in_bytes} bytes, and end there; got {value.offset} to {value.end}"
            )
        if value.end - value.offset < tensor.size_in_bytes:
            raise InvalidArgumentError(
                f"{where}: the tensor needs {tensor.size_in_bytes} bytes; got {value.end - value.offset}"
            )
        return value

    def _inputs(self, compiled: CompiledOperator, given: Mapping[str, Given]) -> BoundMemory:
        """Where the inputs are, after what must be copied was."""
        locations: dict[tuple[BindingKind, int], Location] = {}
        owners: list[TensorMemory | Buffer | Storage] = []
        persistent: dict[str, tuple[Region, TensorDesc]] = {}
        for number, (point, tensor) in enumerate(zip(compiled.inputs, compiled.input_tensors, strict=True)):
            if tensor is None:
                continue
            value = given[point.name]
            if number in compiled.owned:
                persistent[point.name] = compiled.owned[number], tensor
                continue
            if isinstance(value, BufferBinding):
                owners.append(value.buffer)
                locations[BindingKind.INPUT, number] = value.buffer.allocation, value.offset
                continue
            array = self._laid_out(compiled, value, tensor, f"{compiled.name}: {point.name}")
            owners.append(array)
            locations[BindingKind.INPUT, number] = array.storage.allocation, array.offset
        if persistent:
            storage = self._persistent(compiled, given, persistent)
            owners.append(storage)
            locations[BindingKind.PERSISTENT, 0] = storage.allocation, 0
        return BoundMemory(locations, owners)

    def _laid_out(
        self, compiled: CompiledOperator, value: TensorMemory | npt.NDArray[Any], tensor: TensorDesc, where: str
    ) -> TensorMemory:
        """An array whose elements lie as a tensor wants them."""
        if isinstance(value, TensorMemory):
            if value.fits(tensor):
                return value
            if not may_overlap(tensor) and value.shape == tensor.sizes:
                return self.moved(value, tensor=tensor)
            value = np.broadcast_to(value.numpy(), tuple(tensor.sizes))  # elements that coincide must be equal
        return self.uploaded(compiled.device, value, tensor, where)

    def uploaded(self, device: Device, values: npt.NDArray[Any], tensor: TensorDesc, where: str) -> TensorMemory:
        """An array on the device.

        Args:
            device: the one that the pool belongs to.
            values: of the tensor's sizes and type.
            tensor: how they are to lie.
            where: the call, for messages.
        """
        array = TensorMemory(device, Storage(self.pool, tensor.size_in_bytes), tensor)
        fill = functools.partial(lay_out, values, tensor, where=where)
        self.pool.engine.write(array.storage.allocation, fill, keeps_contents=False)
        return array

    def uploaded_together(self, device: Device, values: Sequence[npt.NDArray[Any]]) -> list[TensorMemory]:
        """Arrays that share memory, so that runs have few chunks of it to look after.

        Args:
            device: the one that the pool belongs to.
            values: their elements.

        Raises:
            DeviceLimitError, OutOfMemoryError: when the device cannot have them.
        """
        tensors = [array_tensor(array.dtype, array.shape, "uploaded_together") for array in values]
        sizes = [-(-tensor.size_in_bytes // RESOURCE_ALIGNMENT) * RESOURCE_ALIGNMENT for tensor in tensors]
        storage = Storage(self.pool, sum(sizes))
        offsets = [end - size for end, size in zip(itertools.accumulate(sizes), sizes, strict=True)]

        def fill(host_bytes: npt.NDArray[np.uint8]) -> None:
            for array, tensor, offset in zip(values, tensors, offsets, strict=True):
                lay_out(array, tensor, host_bytes[offset:], "uploaded_together")

        self.pool.engine.write(storage.allocation, fill, keeps_contents=False)
        return [
            TensorMemory(device, storage, tensor, offset, is_whole=False)
            for tensor, offset in zip(tensors, offsets, strict=True)
        ]

    def overwrite(self, array: TensorMemory, values: npt.NDArray[Any]) -> None:
        """Gives an array other elements; what still has to be computed from the former ones is computed before.

        Args:
            array: packed.
            values: of its shape and type.
        """
        array.storage.settle()

        def fill(host_bytes: npt.NDArray[np.uint8]) -> None:
            lay_out(values, array.tensor, host_bytes[array.offset :], repr(array))

        self.pool.engine.write(array.storage.allocation, fill, keeps_contents=not array.is_whole)

    def _persistent(
        self, compiled: CompiledOperator, given: Mapping[str, Given], wanted: Mapping[str, tuple[Region, TensorDesc]]
    ) -> Storage:
        """The persistent resource, written from the host, as the initializer would write it."""
        storage = Storage(self.pool, compiled.persistent_resource_size)
        contents = {member: self._host_bytes(given[member], tensor) for member, (_, tensor) in wanted.items()}

        def fill(host_bytes: npt.NDArray[np.uint8]) -> None:
            for member, (region, tensor) in wanted.items():
                target = host_bytes[region.offset : region.offset + region.size_in_bytes]
                value = contents[member]
                if isinstance(given[member], BufferBinding):
                    copy_elements(target, value[: target.size])
                else:
                    lay_out(value, tensor, target, f"{compiled.name}: {member}")

        self.pool.engine.write(storage.allocation, fill, keeps_contents=False)
        return storage

    def _host_bytes(self, value: Given, tensor: TensorDesc) -> npt.NDArray[Any]:
        if isinstance(value, BufferBinding):
            return value.buffer.download(np.uint8, tensor.size_in_bytes, value.offset)
        return np.broadcast_to(value.numpy(), tuple(tensor.sizes)) if isinstance(value, TensorMemory) else value

    def _recording(self, compiled: CompiledOperator, operands: BoundMemory) -> Recording:
        """The kernels, recorded for the memory of the operands."""
        places = tuple(operands.locations.values())
        recording = self._recordings.find(compiled, places)
        if recording is None:
            steps = scheduled(compiled.steps, _locator(compiled.constants, operands.locations), HazardTracker())
            engine = self.pool.engine
            recorded = engine.record([step.launch(engine) for step in steps], chain=self._chain)
            return self._recordings.keep(compiled, places, recorded)
        return recording

    def packed(self, array: TensorMemory) -> TensorMemory:
        """The array, copied where it is a view that kernels cannot read as packed."""
        return array if array.is_packed else self.moved(array)

    def moved(
        self, array: TensorMemory, part: TensorSlice | None = None, *, tensor: TensorDesc | None = None
    ) -> TensorMemory:
        """A copy of an array, or of a part of it, on the device; of 4-bit types it goes through the host.

        Args:
            array: what is copied.
            part: what of it; ``None``: all.
            tensor: of the copy; ``None``: packed.
        """
        axes = tuple(AxisPart(0, size, 1) for size in array.shape) if part is None else part.axes
        made = tensor or TensorDesc(array.data_type, [axis.count for axis in axes])
        size = array.dtype.itemsize
        first = array.offset % MINIMUM_BUFFER_TENSOR_ALIGNMENT // size
        no_axis_is_left = first and array.ndim == MAXIMUM_DIMENSION_COUNT  # to say where it begins
        if no_axis_is_left or not has_views(array.tensor):  # nothing on the device moves elements of 4 bits
            taken = tuple(slice(a.start, _end(a), a.step) for a in axes)
            return self.uploaded(array.device, array.numpy()[taken], made, repr(array))
        sizes, strides = list(array.shape), list(array.tensor.element_strides)
        offsets, windows = [axis.window[0] for axis in axes], [axis.window[1] for axis in axes]
        steps, written = [axis.step for axis in axes], made
        if first:  # the second of two: a binding begins at a multiple of 16 bytes
            sizes, strides = [2, *sizes], [first, *strides]
            offsets, windows, steps = [1, *offsets], [1, *windows], [1, *steps]
            written = TensorDesc(made.data_type, (1, *made.sizes), (0, *made.element_strides), made.size_in_bytes)
        desc = Slice1(
            input_tensor=TensorDesc(array.data_type, sizes, strides),
            output_tensor=written,
            dimension_count=len(sizes),
            input_window_offsets=offsets,
            input_window_sizes=windows,
            input_window_strides=steps,
        )
        engine = self.pool.engine
        with engine.afterwards, engine.lock:
            compiled = self._copy(array.device, desc)
            copy = TensorMemory(array.device, Storage(self.pool, made.size_in_bytes), made)
            source = array.storage.allocation, array.offset - first * size
            locations = {(BindingKind.INPUT, 0): source, (BindingKind.OUTPUT, 0): (copy.storage.allocation, 0)}
            operands = BoundMemory(locations, [array, copy])
            self._add_scratch(compiled, operands)
        self._submit(compiled, operands)
        return copy

    def _copy(self, device: Device, desc: Slice1) -> CompiledOperator:
        return self._copies.of(desc, lambda: device.compile_operator(Operator(device, desc)))


def _owner_of(memory: TensorMemory | BufferBinding) -> TensorMemory | Buffer:
    return memory if isinstance(memory, TensorMemory) else memory.buffer


def _allocation_of(owner: TensorMemory | Buffer | Storage) -> Allocation:
    return owner.storage.allocation if isinstance(owner, TensorMemory) else owner.allocation


def _found(
    locations: Mapping[tuple[BindingKind, int], TensorMemory | BufferBinding],
) -> dict[tuple[BindingKind, int], Location]:
    return {slot: (_allocation_of(_owner_of(memory)), memory.offset) for slot, memory in locations.items()}


def _end(axis: AxisPart) -> int | None:
    end = axis.start + axis.count * axis.step
    return end if end >= 0 else None


def _locator(
    constants: Sequence[Buffer], locations: Mapping[tuple[BindingKind, int], Location]
) -> Callable[[Region], tuple[Buffer | Allocation, int]]:
    def locate(region: Region) -> tuple[Buffer | Allocation, int]:
        if region.kind is BindingKind.CONSTANTS:
            return constants[region.index], 0
        return locations[region.kind, region.index]

    return locate
