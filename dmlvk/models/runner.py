"""Runs a model on a device: makes its buffers, compiles its dispatchables, carries out its commands in order.

As in DxDispatch, resources keep their contents from one command to the next.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.device import Device
from dmlvk.errors import DmlError, OutOfMemoryError
from dmlvk.models import images
from dmlvk.models.bindings import Binding, Bound, ModelBindPoint
from dmlvk.models.commands import (
    Command,
    DispatchCommand,
    ExpectCommand,
    OnnxDispatchCommand,
    PrintCommand,
    WriteFileCommand,
)
from dmlvk.models.comparison import compare, describe
from dmlvk.models.dispatchables import ModelDispatchable
from dmlvk.models.formatting import format_value, name_text, verbose_line
from dmlvk.models.json_source import JsonNode, shortened
from dmlvk.models.model import Model
from dmlvk.models.onnx_dispatchables import OnnxBinding, OnnxDispatchable
from dmlvk.models.onnx_runs import OnnxRun, resolved, stored
from dmlvk.models.resources import Resource
from dmlvk.objects.binding import BindingTable, BufferArrayBinding, BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import CompiledOperator
from dmlvk.objects.recording import KernelTime
from dmlvk.support.files import written_whole


@dataclasses.dataclass(frozen=True)
class Timing:
    """How dispatches are timed: each is run ``iterations`` times, of which the first ``warm_up`` count as cold.

    Every iteration but the first one submits ``repeats`` dispatches together, and counts as what one of them took.
    """

    iterations: int = 10
    warm_up: int = 1
    repeats: int = 1


@dataclasses.dataclass
class RunResult:
    """What a run did.

    Attributes:
        expectations: how many ``expect`` commands were carried out.
        failures: how many of them found a value outside their tolerance.
        files: what was written, in order.
        kernel_times: what each kernel of each dispatch took on the device where times were asked for, in its first and
            in its last iteration.
    """

    expectations: int = 0
    failures: int = 0
    files: list[Path] = dataclasses.field(default_factory=list)
    kernel_times: list[KernelTime] = dataclasses.field(default_factory=list)


def run_model(
    model: Model, device: Device, output_directory: Path, emit: Callable[[str], None], timing: Timing | None = None
) -> RunResult:
    """Runs a model.

    Args:
        model: what :func:`dmlvk.models.load_model` returned.
        device: where to run it.
        output_directory: where ``writeFile`` writes; made when something is written.
        emit: takes each line of output.
        timing: how to time dispatches; ``None`` runs each once.

    Returns:
        How many expectations were checked and failed, and the files written. A failing ``expect`` does not end the run.

    Raises:
        ModelFileError: with the place of the resource, dispatchable or command at fault.
    """
    with contextlib.ExitStack() as stack:
        given = {name: resource for name, resource in model.resources.items() if not resource.is_deferred}
        buffers = {name: _filled_buffer(resource, device, stack) for name, resource in given.items()}
        prepared: dict[str, _PreparedDispatchable] = {}
        models: dict[str, OnnxRun] = {}
        for name, dispatchable in model.dispatchables.items():
            if isinstance(dispatchable, OnnxDispatchable):
                models[name] = stack.enter_context(contextlib.closing(OnnxRun(dispatchable, device)))
            else:
                prepared[name] = _prepared(dispatchable, device, buffers, stack)
        run = _ModelRun(device, buffers, prepared, models, output_directory, emit, timing)
        stack.callback(run.close)
        for command in model.commands:
            with command.node.located():
                run.carry_out(command)
        return run.result


def _filled_buffer(resource: Resource, device: Device, stack: contextlib.ExitStack) -> Buffer:
    """Makes the buffer first: the device refuses what is too large before the values take any memory here."""
    with resource.node.located(f"the resource {shortened(resource.name)}: "):
        buffer = device.create_buffer(resource.buffer_size_in_bytes)
        stack.callback(buffer.close)
        with _memory_for(f"{resource.size_in_bytes} bytes of values"):
            values = np.ascontiguousarray(resource.values.read()).view(np.uint8)
            if values.nbytes != resource.buffer_size_in_bytes:
                padded = np.zeros(resource.buffer_size_in_bytes, np.uint8)
                padded[resource.values_offset : resource.values_offset + values.nbytes] = values
                values = padded
            buffer.upload(values)
    return buffer


@dataclasses.dataclass(frozen=True)
class _PreparedDispatchable:
    """A dispatchable that is compiled and initialized."""

    compiled: CompiledOperator  # the operator or graph
    persistent: Buffer | None  # its persistent resource, where it needs one
    temporary: Buffer | None  # its temporary resource, likewise

    def table(self, device: Device) -> BindingTable:
        table = device.create_binding_table(self.compiled)
        if self.persistent is not None:
            table.bind_persistent_resource(BufferBinding(self.persistent))
        if self.temporary is not None:
            table.bind_temporary_resource(BufferBinding(self.temporary))
        return table


def _prepared(
    dispatchable: ModelDispatchable, device: Device, buffers: Mapping[str, Buffer], stack: contextlib.ExitStack
) -> _PreparedDispatchable:
    """Compiles a dispatchable and initializes it, which copies its inputs that are OWNED_BY_DML."""
    compiled = dispatchable.compile(device)
    with dispatchable.node.located(f"the dispatchable {shortened(dispatchable.name)}: "):
        sizes = compiled.binding_properties
        persistent, temporary = (
            stack.enter_context(device.create_buffer(size)) if size else None
            for size in (sizes.persistent_resource_size, sizes.temporary_resource_size)
        )
        if persistent is not None:
            _initialize(compiled, device, _owned_ranges(dispatchable.owned, compiled, buffers), persistent)
    return _PreparedDispatchable(compiled, persistent, temporary)


def _owned_ranges(
    owned: Bound, compiled: CompiledOperator, buffers: Mapping[str, Buffer]
) -> list[BufferBinding | None]:
    ranges: list[BufferBinding | None] = []
    for bindings, tensor in zip(owned, compiled.input_tensors, strict=True):
        if not bindings or tensor is None:
            ranges.append(None)
            continue
        (binding,) = bindings
        if binding.resource.is_deferred:
            raise binding.node.error(
                f"the resource {shortened(binding.resource.name)} is deferred: it is not there yet"
            )
        available = binding.resource.buffer_size_in_bytes - binding.offset_in_bytes
        size = min(tensor.size_in_bytes, available)
        ranges.append(BufferBinding(buffers[binding.resource.name], binding.offset_in_bytes, size))
    return ranges


def _initialize(
    compiled: CompiledOperator, device: Device, owned: Sequence[BufferBinding | None], persistent: Buffer
) -> None:
    initializer = device.create_operator_initializer([compiled])
    table = device.create_binding_table(initializer)
    table.bind_inputs([BufferArrayBinding(owned)])
    table.bind_outputs([BufferBinding(persistent)])
    recorder = device.create_command_recorder()
    recorder.record_dispatch(initializer, table)
    recorder.execute()


@contextlib.contextmanager
def _memory_for(what: str) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        if isinstance(error, DmlError):
            raise
        raise OutOfMemoryError(f"there is not enough main memory for {what}") from error


class _ModelRun:
    """One run of a model: its buffers and compiled dispatchables by name, and what came of it so far."""

    def __init__(
        self,
        device: Device,
        buffers: dict[str, Buffer],
        prepared: Mapping[str, _PreparedDispatchable],
        models: Mapping[str, OnnxRun],
        output_directory: Path,
        emit: Callable[[str], None],
        timing: Timing | None,
    ) -> None:
        self.result = RunResult()
        self._device = device
        self._buffers = buffers
        self._prepared = prepared
        self._models = models
        self._resolved: dict[str, Resource] = {}
        self._output_directory = output_directory
        self._emit = emit
        self._timing = timing

    def close(self) -> None:
        """Frees the buffers of what was deferred."""
        for name in self._resolved:
            self._buffers[name].close()

    def carry_out(self, command: Command) -> None:
        if isinstance(command, DispatchCommand):
            self._dispatch(command)
        elif isinstance(command, OnnxDispatchCommand):
            self._dispatch_model(command)
        elif isinstance(command, PrintCommand):
            self._print(command)
        elif isinstance(command, WriteFileCommand):
            self._write_file(command)
        else:
            self._expect(command)

    def _dispatch(self, command: DispatchCommand) -> None:
        prepared = self._prepared[command.dispatchable.name]
        inputs, outputs = self._bindings(command)
        table = prepared.table(self._device)
        table.bind_inputs(inputs)
        table.bind_outputs(outputs)
        if self._timing is None:
            recorder = self._device.create_command_recorder()
            recorder.record_dispatch(prepared.compiled, table)
            recorder.execute()
            return
        first = _Stopwatch(self._device, prepared.compiled, table, 1)
        samples = [first.sample()]
        self._note(command.dispatchable.name, first.kernel_times())
        if self._timing.iterations > 1:
            repeated = _Stopwatch(self._device, prepared.compiled, table, self._timing.repeats)
            with self._contents_kept(command):
                samples += [repeated.sample() for _ in range(self._timing.iterations - 1)]
            self._note(command.dispatchable.name, repeated.kernel_times())
        self._emit(_timing_line(command.dispatchable.name, samples, self._timing))

    def _dispatch_model(self, command: OnnxDispatchCommand) -> None:
        name, model = command.dispatchable.name, self._models[command.dispatchable.name]
        model.check(command.bindings)
        inputs = model.inputs(command.bindings, self._buffers)
        samples = []
        for _ in range(1 if self._timing is None else self._timing.iterations):
            start = time.perf_counter()
            outputs = model.outputs(inputs, command.bindings)
            samples.append(_TimeSample(time.perf_counter() - start, None))
        for output_name, output in outputs.items():
            self._take(output, command.bindings[output_name], output_name)
        if self._timing is not None:
            self._note(name, model.kernel_times(inputs))
            self._emit(_timing_line(name, samples, self._timing))

    def _take(self, output: npt.NDArray[Any], binding: OnnxBinding, name: str) -> None:
        """Puts an output into its resource, which gets its memory now, where it is deferred."""
        resource = binding.resource
        if resource.is_deferred:
            made = self._resolved[resource.name] = resolved(resource, output, binding)
            kept = self._buffers.get(resource.name)
            if kept is None or kept.size_in_bytes != made.buffer_size_in_bytes:
                self._buffers[resource.name] = self._device.create_buffer(made.buffer_size_in_bytes)
                if kept is not None:
                    kept.close()
            sizes = list(output.shape)
            self._emit(f"Resource '{name_text(resource.name)}': {made.element_types[0].name} {sizes} of output {name}")
        stored(output, binding, self._buffers[resource.name])

    def _known(self, resource: Resource) -> Resource:
        """The resource, as an ONNX model has made it where it is deferred.

        Raises:
            ModelFileError: when none has yet.
        """
        found = self._resolved.get(resource.name, resource)
        if found.is_deferred:
            raise resource.node.error(
                f"the resource {shortened(resource.name)} is deferred, and is used before an ONNX model gives it"
            )
        return found

    def _note(self, name: str, times: Sequence[KernelTime]) -> None:
        """Adds a dispatch's kernels to the result, behind those of earlier dispatches."""
        noted = self.result.kernel_times
        end = noted[-1].start + noted[-1].seconds if noted else 0.0
        noted += [KernelTime(f"{name}: {time.label}", end + time.start, time.seconds) for time in times]

    def _bindings(self, command: DispatchCommand) -> tuple[list[BufferBinding | None], list[BufferBinding | None]]:
        """The ranges to bind, inputs and outputs in the order of the bind points.

        DxDispatch binds from the offset to the buffer's end. Here a range ends where its tensor does, so that an input
        and an output may lie in one resource, side by side; ranges that begin at one place get one length, so that
        work in place is recognized.
        """
        lengths: dict[tuple[str, int], int] = {}
        pairs: list[tuple[ModelBindPoint | None, tuple[Binding, ...]]]
        pairs = list(zip(command.dispatchable.bind_points, command.bindings, strict=True))
        for point, bindings in pairs:
            for tensor, binding in zip(point.tensors if point else (), bindings, strict=True):
                key = (binding.resource.name, binding.offset_in_bytes)
                lengths[key] = max(lengths.get(key, 0), tensor.size_in_bytes)
        inputs: list[BufferBinding | None] = []
        outputs: list[BufferBinding | None] = []
        for point, bindings in pairs:
            target = outputs if point is not None and point.is_output else inputs
            if point is None:
                target.append(None)
            for binding in bindings:
                available = self._known(binding.resource).buffer_size_in_bytes - binding.offset_in_bytes
                length = lengths[binding.resource.name, binding.offset_in_bytes]
                buffer = self._buffers[binding.resource.name]
                target.append(BufferBinding(buffer, binding.offset_in_bytes, min(length, available)))
        return inputs, outputs

    @contextlib.contextmanager
    def _contents_kept(self, command: DispatchCommand) -> Iterator[None]:
        """Undoes what repeating a dispatch does to buffers that it also reads (work in place)."""
        read: set[str] = set()
        written: set[str] = set()
        for point, bindings in zip(command.dispatchable.bind_points, command.bindings, strict=True):
            if point is not None:
                (written if point.is_output else read).update(binding.resource.name for binding in bindings)
        kept = {name: self._bytes(self._buffers[name]) for name in read & written}
        yield
        for name, contents in kept.items():
            self._buffers[name].upload(contents)

    @staticmethod
    def _bytes(buffer: Buffer) -> npt.NDArray[np.uint8]:
        return buffer.download(np.uint8, (buffer.size_in_bytes,))

    def _values(self, resource: Resource) -> npt.NDArray[Any]:
        """The elements that the resource's initial values filled."""
        resource = self._known(resource)
        assert resource.element_type is not None
        dtype = resource.element_type.numpy_dtype
        return self._buffers[resource.name].download(dtype, (resource.element_count,), resource.values_offset)

    def _print(self, command: PrintCommand) -> None:
        resource = self._known(command.resource)
        values: Sequence[np.generic]
        if resource.is_mixed:
            values = resource.split(self._bytes(self._buffers[resource.name]).tobytes())
        else:
            values = list(self._values(resource))
        if command.is_verbose:
            self._emit(f"Resource '{name_text(resource.name)}':")
            for index, value in enumerate(values):
                self._emit(verbose_line(index, value))
        else:
            self._emit(f"Resource '{name_text(resource.name)}': {', '.join(map(format_value, values))}")

    def _write_file(self, command: WriteFileCommand) -> None:
        path = self._output_directory / command.target
        try:
            _check_location(path, self._output_directory, command.node)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(command, path)
        except OSError as error:
            raise command.node.error(f"cannot write {str(path)!r}: {error.strerror or error}") from error
        self.result.files.append(path)
        self._emit(f"Resource '{name_text(command.resource.name)}' written to '{name_text(path)}'")

    def _write(self, command: WriteFileCommand, path: Path) -> None:
        resource = self._known(command.resource)
        buffer = self._buffers[resource.name]
        element_type = resource.element_type
        dimensions = command.dimensions or (resource.stored_element_count,)
        if element_type is not None and images.is_picture(path):
            shape = images.PictureShape.from_sizes(dimensions)
            images.write_picture(path, buffer.download(element_type.numpy_dtype, (shape.element_count,)), shape)
        elif element_type is not None and path.suffix.lower() == ".npy":
            with written_whole(path) as file:
                np.save(file, buffer.download(element_type.numpy_dtype, dimensions), allow_pickle=False)
        else:
            with written_whole(path) as file:
                file.write(self._bytes(buffer)[: resource.size_in_bytes].tobytes())

    def _expect(self, command: ExpectCommand) -> None:
        resource = command.resource
        with _memory_for("the expected values"):
            got, expected = self._values(resource), command.values.read()
            if got.size != expected.size:
                raise command.node.error(
                    f"the resource {shortened(resource.name)} has {got.size} values; {expected.size} are expected"
                )
            comparison = compare(got, expected, command.tolerance)
        self.result.expectations += 1
        if comparison.has_passed:
            how = describe(command.tolerance)
            self._emit(f"Expect '{name_text(resource.name)}': {comparison.count} values as expected ({how})")
            return
        self.result.failures += 1
        self._emit(f"Expect '{name_text(resource.name)}' FAILED ({command.node.location}): {comparison.report[0]}")
        for line in comparison.report[1:]:
            self._emit(f"  {line}")


def _check_location(path: Path, directory: Path, node: JsonNode) -> None:
    """Refuses what symbolic links lead out of the output directory, and to overwrite what is no file."""
    if not path.resolve().is_relative_to(directory.resolve()):
        raise node.error(
            f"targetPath must stay inside the output directory; a symbolic link leads {str(path)!r} out of it"
        )
    if path.exists() and not path.is_file():
        raise node.error(f"cannot write {str(path)!r}: it is there, and no regular file")


@dataclasses.dataclass(frozen=True)
class _TimeSample:
    """What one iteration took, in seconds: from the call to its end, and (where it has a clock) on the device."""

    wall: float
    device: float | None


class _Stopwatch:
    """Dispatches of one table, submitted together and timed."""

    def __init__(self, device: Device, compiled: CompiledOperator, table: BindingTable, repeats: int) -> None:
        self._has_clock = device.info.limits.timestamp_valid_bits > 0
        self._repeats = repeats
        self._recorder = device.create_command_recorder(timestamps=self._has_clock)
        for _ in range(repeats):
            self._recorder.record_dispatch(compiled, table)

    def sample(self) -> _TimeSample:
        """Runs them, and tells what one of them took."""
        start = time.perf_counter()
        self._recorder.execute()
        wall = (time.perf_counter() - start) / self._repeats
        if not self._has_clock:
            return _TimeSample(wall, None)
        return _TimeSample(wall, sum(kernel.seconds for kernel in self._recorder.kernel_times()) / self._repeats)

    def kernel_times(self) -> list[KernelTime]:
        """What each kernel took in the last run; nothing where the device has no clock."""
        return self._recorder.kernel_times() if self._has_clock else []


def _timing_line(name: str, samples: Sequence[_TimeSample], timing: Timing) -> str:
    """Medians of the first (cold) and of the other (hot) iterations, in milliseconds."""
    parts = [f"median wall time {_medians([sample.wall for sample in samples], timing.warm_up)}"]
    on_device = [sample.device for sample in samples if sample.device is not None]
    if on_device:
        parts.append(f"device time {_medians(on_device, timing.warm_up)}")
    return f"Dispatch '{name_text(name)}': {len(samples)} iterations, {'; '.join(parts)}"


def _medians(seconds: Sequence[float], warm_up: int) -> str:
    return ", ".join(
        f"{statistics.median(chosen) * 1e3:.4f} ms {kind}"
        for kind, chosen in (("cold", seconds[:warm_up]), ("hot", seconds[warm_up:]))
        if chosen
    )
