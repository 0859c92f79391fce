"""Runs a plan's graphs on the device: buffers, weights, recorded work."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.errors import DeviceLimitError, UnsupportedError
from dmlvk.graphs.description import OperatorGraphNode
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.binding import BindingTable, BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import RESOURCE_ALIGNMENT, ExecutionFlags
from dmlvk.objects.recording import KernelTime
from dmlvk.onnx.decoding.standing import StandingStep
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.assembly import Assembled
from dmlvk.onnx.nodes.values import (
    NUMPY_TYPES,
    Array,
    DeviceSource,
    Tensor,
    dense,
    memory_of,
    restored,
    size_in_bytes,
    stored,
)
from dmlvk.running.replay import Replay
from dmlvk.running.resident_runs import BoundMemory
from dmlvk.support.mapped_files import check_unchanged, file_of
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph
    from dmlvk.runtime.kompute import Recording

_CHUNK = 64 * 2**20
"""Bytes of weights that share a buffer, where they are not larger themselves."""

_PRODUCTS = frozenset(
    {"Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "Gather", "Gemm", "MatMul", "MatMulNBits"}
)
"""Operators that read large constants, as they are."""

_MOST_FETCHED = 2**20
"""Bytes of an output that every run of a decoder copies to the host, whether it is read or not."""


class Weights:
    """Contents that are uploaded once, and shared by all plans that are made with the same arrays.

    Args:
        device: where they go.
        shared: weights to look among first.
        described: what to call an array in messages.
        shares: the memory of arrays that are uploaded to the shared weights.
    """

    def __init__(
        self,
        device: Device,
        shared: Weights | None = None,
        described: Callable[[Array], str] | None = None,
        shares: Collection[tuple[int, int]] = (),
    ) -> None:
        self._device = device
        self._described = described
        self._shared = shared
        self._shares = shares
        self._bindings: dict[tuple[int, int], tuple[Array, BufferBinding]] = {}  # by the memory, which the array keeps

    @property
    def size_in_bytes(self) -> int:
        """Bytes on the device."""
        return sum({id(b.buffer): b.buffer.size_in_bytes for _, b in self._bindings.values()}.values())

    @property
    def arrays(self) -> list[Array]:
        """What was uploaded here."""
        return [array for array, _ in self._bindings.values()]

    def found(self, array: Array) -> BufferBinding | None:
        """Where an array's contents lie already."""
        kept = self._bindings.get(memory_of(array))
        if kept is not None:
            return kept[1]
        return None if self._shared is None else self._shared.found(array)

    def upload(self, arrays: Sequence[tuple[Array, int]]) -> None:
        """Uploads what is not there yet.

        Args:
            arrays: each with the bytes that it takes.

        Raises:
            DeviceLimitError, OutOfMemoryError: when the device cannot have them.
            ModelFileError: when they lie in a file that was written to since it was read.
        """
        pending = [(array, size) for array, size in arrays if self.found(array) is None]
        if self._shared is not None and self._shares:
            self._shared.upload([each for each in pending if memory_of(each[0]) in self._shares])
            pending = [each for each in pending if memory_of(each[0]) not in self._shares]
        group: list[tuple[Array, int]] = []
        total = 0
        for array, size in pending:
            if group and total + size > _CHUNK:
                self._upload_together(group)
                group, total = [], 0
            group.append((array, size))
            total += _aligned(size)
        if group:
            self._upload_together(group)

    @contextlib.contextmanager
    def passing(self, arrays: Sequence[tuple[Array, int]]) -> Iterator[Weights]:
        """Contents that are needed now and not later, with these: what is not here yet goes afterwards.

        Args:
            arrays: as of :meth:`upload`.
        """
        there = Weights(self._device, self, self._described)
        try:
            there.upload(arrays)
            yield there
        finally:
            for buffer in {id(binding.buffer): binding.buffer for _, binding in there._bindings.values()}.values():
                buffer.close()

    def upload_ahead(self, steps: Iterable[Step], constants: Mapping[str, Any]) -> None:
        """Uploads weights that lie in files and that products read as they are, whatever is planned later.

        So a file may be written over as soon as a session is made of it.

        Args:
            steps: the nodes that read them.
            constants: what is known, by name.

        Raises:
            DeviceLimitError, OutOfMemoryError, ModelFileError: as for :meth:`upload`.
        """
        names = dict.fromkeys(name for step in steps if step.proto.op_type in _PRODUCTS for name in step.reads)
        arrays = [dense(constants[name]) for name in names if isinstance(constants.get(name), np.ndarray)]
        most = self._device.info.limits.max_storage_buffer_range  # what is larger is uploaded in parts, by who reads it
        self.upload([(each, each.nbytes) for each in arrays if file_of(each) is not None and each.nbytes <= most])

    def _upload_together(self, group: Sequence[tuple[Array, int]]) -> None:
        check_unchanged(array for array, _ in group)
        described = self._described or (lambda array: f"a constant of {array.nbytes} bytes")
        with _too_large(lambda: described(group[0][0])):  # what is too large is alone
            buffer = self._device.create_buffer(sum(_aligned(size) for _, size in group))
        offset = 0
        for array, size in group:
            buffer.upload(stored(array), offset)
            file = file_of(array)
            if file is not None:
                file.release(array)
            self._bindings[memory_of(array)] = (array, BufferBinding(buffer, offset, size))
            offset += _aligned(size)


def _aligned(size: int) -> int:
    return -(-size // RESOURCE_ALIGNMENT) * RESOURCE_ALIGNMENT


@dataclasses.dataclass(frozen=True)
class Usage:
    """What runs take of a device.

    Attributes:
        launches: of kernels, in a run.
        waits: places where kernels wait for those before them.
        device_bytes: memory of weights, inputs, outputs and everything between them.
        least_bytes: what no plan could do without: weights, inputs, outputs, and the largest sum of what is needed
            between them at one moment.
    """

    launches: int = 0
    waits: int = 0
    device_bytes: int = 0
    least_bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.launches + other.launches,
            self.waits + other.waits,
            self.device_bytes + other.device_bytes,
            self.least_bytes + other.least_bytes,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Resident:
    """A value that lies on the device.

    Attributes:
        tensor: its type and shape.
        buffer: its bytes, packed.
    """

    tensor: Tensor
    buffer: Buffer

    def array(self) -> Array:
        """A copy of the contents."""
        if self.tensor.data_type.size_in_bits < 8:
            size = size_in_bytes(self.tensor.data_type, self.tensor.shape)
            return restored(self.buffer.download(np.uint8, size), self.tensor.data_type, self.tensor.shape)
        data_type = self.tensor.data_type.numpy_dtype
        return self.buffer.download(data_type, self.tensor.shape).view(NUMPY_TYPES[self.tensor.element])


@dataclasses.dataclass(frozen=True, eq=False)
class DeviceValue:
    """A value that lies on the device in an array of its own.

    Attributes:
        element: ONNX's element type.
        shape: as ONNX has it; may have no dimension at all.
        on_device: the array; of UINT8 for BOOL, of one dimension for a scalar.
    """

    element: int
    shape: tuple[int, ...]
    on_device: TensorMemory

    def array(self) -> Array:
        """A copy of the contents."""
        return self.on_device.numpy().reshape(self.shape).view(NUMPY_TYPES[self.element])

    def is_room_for(self, tensor: Tensor, shape: tuple[int, ...]) -> bool:
        """Whether a graph can write such an output here."""
        there = self.on_device
        packed = TensorDesc(there.data_type, there.shape)
        return (self.element, self.shape) == (tensor.element, shape) and there.is_whole and there.fits(packed)


def writable(targets: object, arrays: Mapping[str, Any]) -> dict[str, DeviceValue]:
    """Those of the values that outputs are bound to which a run may write while it reads its inputs.

    Args:
        targets: by the outputs' names; whatever else it is, a decoder finds its caches by it.
        arrays: the inputs.
    """
    if not isinstance(targets, Mapping):
        return {}
    used = {value.on_device.storage for value in arrays.values() if isinstance(value, DeviceValue)}
    found: dict[str, DeviceValue] = {}
    for name, value in targets.items():
        if isinstance(value, DeviceValue) and value.on_device.storage not in used:
            used.add(value.on_device.storage)
            found[name] = value
    return found


class Segment:
    """A graph on the device with its buffers and everything recorded: a run allocates and compiles nothing.

    Args:
        device: where it runs.
        assembled: the graph.
        names: of its outputs; those behind are not asked for.
        weights: where its constants are uploaded.
        resident: values that lie on the device already, by their names.
        fuse: as for ``Device.compile_graph``.
        flags: as for ``Device.compile_graph``.
        elsewhere: outputs that are given memory in every run.

    Attributes:
        recording: the last run of arrays that lie on the device.
    """

    def __init__(
        self,
        device: Device,
        assembled: Assembled,
        names: Sequence[str],
        weights: Weights,
        resident: Mapping[str, Resident],
        *,
        fuse: bool = True,
        flags: ExecutionFlags = ExecutionFlags.NONE,
        elsewhere: Collection[str] = (),
    ) -> None:
        self._device = device
        self._names = list(names)
        self._tensors = assembled.output_tensors
        constants = [number for number, source in enumerate(assembled.inputs) if source.kind == "constant"]
        output_names = [
            *names,
            *(f"unused {position}" for position in range(len(names), len(assembled.output_tensors))),
        ]
        input_names = [_name(position, source) for position, source in enumerate(assembled.inputs)]
        with _too_much(assembled):
            self.compiled: CompiledGraph = device.compile_graph(
                assembled.desc,
                flags,
                fuse=fuse,
                input_names=input_names,
                output_names=output_names,
                lasting_inputs=constants,
            )
        self._weights = weights
        lasting = [number for number in constants if self.compiled.inputs[number].size_in_bytes]
        weights.upload([_sized(assembled.inputs[number]) for number in lasting])
        passing = {number: assembled.inputs[number] for number in constants if number not in lasting}
        self._uploaded: dict[str, Buffer] = {}
        bindings = [
            None if number in passing else self._bound(assembled, number, resident)
            for number in range(len(assembled.inputs))
        ]
        self._sources, self._bindings = assembled.inputs, bindings
        with weights.passing([_sized(source) for source in passing.values()]) as there:
            lies = dict(enumerate(bindings)) | {n: there.found(_array(source)) for n, source in passing.items()}
            self.compiled.prepare({number: (each.buffer, each.offset) for number, each in lies.items() if each})
        self._outputs: dict[int, Buffer] = {}
        for number, point in enumerate(self.compiled.outputs):
            if point.name not in elsewhere:
                with _too_large(functools.partial(_given_by, assembled, number, point.name)):
                    self._outputs[number] = device.create_buffer(point.size_in_bytes)
        self._bytes_elsewhere = 0
        self._own_memory: BoundMemory | None = None
        self.recording: Recording | None = None
        with _too_large(functools.partial(_largest_between, assembled)):
            self._scratch = [device.create_buffer(size) for size in self.compiled.temporary_pages]
        self._table: BindingTable | None = None
        self._recorder = device.create_command_recorder()
        if len(self._scratch) <= 1 and not elsewhere:  # a binding table has no place for more
            self._table = device.create_binding_table(self.compiled)
            self._table.bind_inputs(bindings)
            self._table.bind_outputs([BufferBinding(buffer) for buffer in self._outputs.values()])
            for buffer in self._scratch:
                self._table.bind_temporary_resource(BufferBinding(buffer))
            self._recorder.record_dispatch(self.compiled, self._table)

    def _bound(self, assembled: Assembled, index: int, resident: Mapping[str, Resident]) -> BufferBinding:
        """Where an input of the graph lies: among the weights, where it already is, or in a buffer of its own."""
        source = assembled.inputs[index]
        if source.kind == "constant":
            lies = self._weights.found(_array(source))
            assert lies is not None  # all were uploaded
            return lies
        if (there := resident.get(source.name)) is not None:
            return BufferBinding(there.buffer)
        with _too_large(functools.partial(_read_by, assembled, index, source.name)):
            buffer = self._device.create_buffer(source.size_in_bytes)
        self._uploaded[source.name] = buffer
        return BufferBinding(buffer)

    @property
    def uploads(self) -> tuple[str, ...]:
        """The names of the values that every run uploads."""
        return tuple(self._uploaded)

    @property
    def lying(self) -> Mapping[str, Resident]:
        """Where the outputs lie that are given no memory, from a run until the next one."""
        return self._found()

    def are_given(self, names: Collection[str]) -> bool:
        """Whether these are all the values that a run reads besides weights."""
        return self._uploaded.keys() <= set(names)

    @property
    def is_there(self) -> bool:
        """Whether its buffers are."""
        owners = () if self._own_memory is None else self._own_memory.owners
        return not any(owner.is_closed for owner in owners)

    @property
    def usage(self) -> Usage:
        """What a run takes; the weights that plans share are not among it."""
        recorded = self._device.arrays.scheduled(self.compiled, self._locations())
        own = self.compiled.constants
        values = [*self._uploaded.values(), *self._outputs.values(), *self._scratch, *own]
        own_bytes = sum(buffer.size_in_bytes for buffer in values) + self._weights.size_in_bytes
        own_bytes += self._bytes_elsewhere
        needed = sum(source.size_in_bytes for source in self._sources if source.name in self._uploaded)
        needed += sum(point.size_in_bytes for point in self.compiled.outputs)
        needed += sum(memory.nbytes for memory in self._weights.arrays)
        needed += sum(buffer.size_in_bytes for buffer in own)
        return Usage(
            launches=len(recorded),
            waits=sum(step.depends for step in recorded[1:]),
            device_bytes=own_bytes,
            least_bytes=needed + self.compiled.memory.lower_bound_bytes,
        )

    def run(
        self,
        arrays: Mapping[str, Any],
        kept: Collection[str] = (),
        elsewhere: Mapping[str, TensorMemory] | None = None,
        targets: Mapping[str, DeviceValue] | None = None,
    ) -> dict[str, Resident | DeviceValue]:
        """Uploads, runs, and says where the outputs lie.

        Args:
            arrays: what is uploaded, and arrays that lie on the device.
            kept: outputs that get memory of their own; all others lie where they do until the next run.
            elsewhere: the memory of outputs that are given it.
            targets: values that outputs of ``kept`` are written to, where they have room for them.
        """
        self._upload(arrays)
        there = {name: value for name, value in arrays.items() if isinstance(value, DeviceValue)}
        if there or kept or self._table is None:
            return self._run_where_it_is(there, kept, elsewhere or {}, targets or {})
        self._recorder.execute()
        return {**self._found()}

    def _run_where_it_is(
        self,
        there: Mapping[str, DeviceValue],
        kept: Collection[str],
        elsewhere: Mapping[str, TensorMemory],
        targets: Mapping[str, DeviceValue],
    ) -> dict[str, Resident | DeviceValue]:
        """Runs on arrays that lie on the device already, and leaves outputs in new ones; waits for nothing."""
        found: dict[str, Resident | DeviceValue] = {**self._found()}
        given: dict[tuple[BindingKind, int], TensorMemory] = {
            (BindingKind.OUTPUT, self._names.index(name)): array for name, array in elsewhere.items()
        }
        self._bytes_elsewhere = sum(array.nbytes for array in elsewhere.values())
        if there:
            for number, source in enumerate(self._sources):
                if source.kind == "input" and source.name in there:
                    given[BindingKind.INPUT, number] = self._device.arrays.packed(there[source.name].on_device)
        for number in self._outputs if kept else ():
            name = self._names[number] if number < len(self._names) else ""
            if name in kept and self._tensors[number].data_type.size_in_bits >= 8:
                tensor = self._tensors[number]
                target = targets.get(name)
                if target is not None and target.is_room_for(tensor, tensor.shape):
                    target.on_device.storage.settle()
                    device_value = target
                else:
                    empty = self._device.empty(tensor.shape, tensor.data_type).memory()
                    device_value = DeviceValue(tensor.element, tensor.shape, empty)
                given[BindingKind.OUTPUT, number] = device_value.on_device
                found[name] = device_value
        if self._own_memory is None:
            read = [buffer for buffer in self._outputs.values() if buffer.size_in_bytes <= _MOST_FETCHED]
            self._own_memory = self._device.arrays.bound(self._locations(), self._uploaded.values(), read)
        self.recording = self._device.arrays.run_again(self.compiled, self._own_memory, given)
        return found

    def standing(self, arrays: Mapping[str, Any], elsewhere: Mapping[str, TensorMemory]) -> StandingStep:
        """A run as it lies on the device, with arguments as of :meth:`run`; the inputs all come from the host."""
        locations: dict[tuple[BindingKind, int], TensorMemory | BufferBinding] = {**self._locations()}
        locations |= {(BindingKind.OUTPUT, self._names.index(name)): array for name, array in elsewhere.items()}
        inputs = {source.name: number for number, source in enumerate(self._sources) if source.kind == "input"}
        outputs = {name: number for number, name in enumerate(self._names)}
        return StandingStep(
            self.compiled, locations, inputs, outputs, {name: np.asarray(arrays[name]) for name in self._uploaded}
        )

    def replay(self, read: Collection[str], elsewhere: Mapping[str, TensorMemory] | None = None) -> Replay:
        """Its runs as one submission each.

        Args:
            read: the outputs that the host reads behind every run; all others stay on the device until the next one.
            elsewhere: as for :meth:`run`, of all runs; whoever runs it keeps that memory.
        """
        locations: dict[tuple[BindingKind, int], TensorMemory | BufferBinding] = {**self._locations()}
        locations |= {(BindingKind.OUTPUT, self._names.index(name)): array for name, array in (elsewhere or {}).items()}
        fetched = {name: self._outputs[number] for number, name in enumerate(self._names) if name in read}
        launches = [
            step.launch(self._device.engine) for step in self._device.arrays.scheduled(self.compiled, locations)
        ]
        kept = [memory.buffer for memory in locations.values() if isinstance(memory, BufferBinding)]
        return Replay(self._device, launches, self._uploaded, fetched, kept)

    def _locations(self) -> dict[tuple[BindingKind, int], BufferBinding]:
        """What lies where: the graph's own buffers; others stand in for the memory that outputs are given."""
        locations: dict[tuple[BindingKind, int], BufferBinding] = {}
        for number, binding in enumerate(self._bindings):
            if binding is not None:
                locations[BindingKind.INPUT, number] = binding
        for number in range(len(self.compiled.outputs)):
            own = self._outputs.get(number)
            locations[BindingKind.OUTPUT, number] = BufferBinding(self._device.create_buffer(4) if own is None else own)
        for number, buffer in enumerate(self._scratch):
            locations[BindingKind.TEMPORARY, number] = BufferBinding(buffer)
        return locations

    def profile(self, arrays: Mapping[str, Any]) -> tuple[dict[str, Resident], list[KernelTime]]:
        """As :meth:`run`, with what each kernel took; arrays on the device go through the host."""
        if self._table is None:
            size, name = self.compiled.temporary_resource_size, self._device.info.name
            raise UnsupportedError(
                f"profile: the graph's {size} temporary bytes are more than a buffer of {name} has; only graphs with "
                "one such buffer are timed"
            )
        self._upload(
            {name: value.array() if isinstance(value, DeviceValue) else value for name, value in arrays.items()}
        )
        recorder = self._device.create_command_recorder(timestamps=True)
        recorder.record_dispatch(self.compiled, self._table)
        recorder.execute()
        return self._found(), recorder.kernel_times()

    def _upload(self, arrays: Mapping[str, Any]) -> None:
        for name, buffer in self._uploaded.items():
            if isinstance(arrays[name], DeviceValue):
                continue
            buffer.upload(stored(np.asarray(arrays[name])))

    def _found(self) -> dict[str, Resident]:
        return {
            name: Resident(tensor, self._outputs[number])
            for number, (name, tensor) in enumerate(zip(self._names, self._tensors, strict=False))
            if number in self._outputs
        }


@contextlib.contextmanager
def _too_large(what: Callable[[], str]) -> Iterator[None]:
    """Says what a buffer was for that the device cannot have."""
    try:
        yield
    except DeviceLimitError as error:
        raise DeviceLimitError(f"{what()}: {error}") from error


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


def _array(source: DeviceSource) -> Array:
    assert source.array is not None  # it is a constant
    return source.array


def _sized(source: DeviceSource) -> tuple[Array, int]:
    return _array(source), source.size_in_bytes


def _name(index: int, source: DeviceSource) -> str:
    return source.name if source.kind == "input" else f"constant {index}"
