"""Values and weights on the device, and what runs take of it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.errors import DeviceLimitError
from dmlvk.objects.binding import BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import RESOURCE_ALIGNMENT
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Array, Bytes, Tensor, dense, memory_of, restored, size_in_bytes, stored
from dmlvk.support.file_arrays import fill
from dmlvk.support.mapped_files import check_unchanged, files_of

if TYPE_CHECKING:
    from dmlvk.device import Device

_CHUNK = 64 * 2**20  # Bytes of weights that share a buffer, where they are not larger themselves

_PRODUCTS = frozenset(
    {"Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "Gather", "GatherNBits", "Gemm", "MatMul"}
    | {"MatMulExperts", "MatMulNBits"}
)
"""Operators that read large constants, as they are."""


class Weights:
    """Contents that are uploaded once, and shared by all plans that are made with the same arrays."""

    def __init__(
        self,
        device: Device,
        shared: Weights | None = None,  # weights to look among first
        described: Callable[[Array], str] | None = None,  # what to call an array in messages
        shares: Collection[tuple[int, int]] = (),  # the memory of arrays that are uploaded to the shared weights
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
        """Contents that are needed now and not later, with these: what is not here yet goes afterwards."""
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
        self.upload([(each, each.nbytes) for each in arrays if files_of([each]) and each.nbytes <= most])

    def _upload_together(self, group: Sequence[tuple[Array, int]]) -> None:
        described = self._described or (lambda array: f"a constant of {array.nbytes} bytes")
        with _too_large(lambda: described(group[0][0])):  # what is too large is alone
            buffer = self._device.create_buffer(sum(_aligned(size) for _, size in group), zeroed=False)
        bindings, offset = dict[tuple[int, int], tuple[Array, BufferBinding]](), 0
        for array, size in group:
            bindings[memory_of(array)] = (array, BufferBinding(buffer, offset, size))
            offset += _aligned(size)

        several = [(stored(array), binding.offset) for array, binding in bindings.values()]

        def write(begin: int, destination: Bytes) -> None:
            parts = []
            for array, start in several:
                first, last = max(begin, start), min(begin + destination.size, start + array.nbytes)
                if first < last:
                    parts.append((array, first - start, destination[first - begin : last - begin]))
            fill(parts)

        try:
            buffer.stream(write)
            check_unchanged(array for array, _ in group)  # only now: somebody may have written in between
        except BaseException:
            buffer.close()
            raise
        self._bindings |= bindings


def _aligned(size: int) -> int:
    return -(-size // RESOURCE_ALIGNMENT) * RESOURCE_ALIGNMENT


@dataclasses.dataclass(frozen=True)
class Usage:
    """What runs take of a device."""

    launches: int = 0  # of kernels, in a run
    waits: int = 0  # places where kernels wait for those before them
    device_bytes: int = 0  # memory of weights, inputs, outputs and everything between them
    # what no plan could do without: weights, inputs, outputs, and the largest sum of what is needed between them at
    # one moment
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
    """A value that lies on the device."""

    tensor: Tensor  # its type and shape
    buffer: Buffer  # its bytes, packed

    def array(self) -> Array:
        """A copy of the contents."""
        if self.tensor.data_type.size_in_bits < 8:
            size = size_in_bytes(self.tensor.data_type, self.tensor.shape)
            return restored(self.buffer.download(np.uint8, size), self.tensor.data_type, self.tensor.shape)
        data_type = self.tensor.data_type.numpy_dtype
        return self.buffer.download(data_type, self.tensor.shape).view(NUMPY_TYPES[self.tensor.element])


@dataclasses.dataclass(frozen=True, eq=False)
class DeviceValue:
    """A value that lies on the device in an array of its own."""

    element: int  # ONNX's element type
    shape: tuple[int, ...]  # as ONNX has it; may have no dimension at all
    on_device: TensorMemory  # the array; of UINT8 for BOOL, of one dimension for a scalar

    def array(self) -> Array:
        """A copy of the contents."""
        return self.on_device.numpy().reshape(self.shape).view(NUMPY_TYPES[self.element])

    def is_room_for(self, tensor: Tensor, shape: tuple[int, ...]) -> bool:
        """Whether a graph can write such an output here."""
        there = self.on_device
        return (self.element, self.shape) == (tensor.element, shape) and there.is_whole and there.is_packed


def writable(targets: object, arrays: Mapping[str, Any]) -> dict[str, DeviceValue]:
    """Those of the values that outputs are bound to which a run may write while it reads its inputs.

    Args:
        targets: by the outputs' names; whatever else it is, a decoder finds its caches by it.
    """
    if not targets or not isinstance(targets, Mapping):
        return {}
    used = {value.on_device.storage for value in arrays.values() if isinstance(value, DeviceValue)}
    found: dict[str, DeviceValue] = {}
    for name, value in targets.items():
        if isinstance(value, DeviceValue) and value.on_device.storage not in used:
            used.add(value.on_device.storage)
            found[name] = value
    return found


@contextlib.contextmanager
def _too_large(what: Callable[[], str]) -> Iterator[None]:
    """Says what a buffer was for that the device cannot have."""
    try:
        yield
    except DeviceLimitError as error:
        raise DeviceLimitError(f"{what()}: {error}") from error
