"""Memory of the device for ONNX Runtime: what its allocator hands out, and what lies there.

An address names a place on the device and is none on the host: it lies where no process has memory. What ONNX Runtime
copies to such a place is kept until a part of a graph reads it, and goes to the device then; what a part writes stays
on the device, whoever reads it next.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import ctypes
import dataclasses
import math
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import DeviceLimitError, DmlError, OutOfMemoryError
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.binding import BufferBinding
from dmlvk.onnx.nodes.values import DATA_TYPES, NUMPY_TYPES, stored
from dmlvk.onnx.plan.execution import DeviceValue, Resident
from dmlvk.onnxruntime.interface import array_of
from dmlvk.operators import operator_desc
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.device import Device

_FIRST = 2**53
"""The first address: beyond what any processor's page tables reach, and below what tags of pointers are in."""

_ALIGNMENT = 256

_SMALL = 4096  # Bytes of a value that the host keeps at hand, since its contents may decide how something is planned

_LARGE = 2**16  # Bytes from which on memory is used again

_MOST_STAGED = 2**26  # Bytes of memory that is kept for that


@dataclasses.dataclass(eq=False)
class Content:
    # an array of the host; what lies on the device in an array of its own (``DeviceValue``); or what a part of a
    # graph has written into memory of its own (``Resident``), which its next run writes again
    value: Any
    size: int  # bytes
    device: Device | None = None  # where a ``Resident`` lies
    reads: int = 0  # how many parts have read it
    is_there: bool = True  # whether it still lies at its place
    output: tuple[set[str], str] | None = None  # of which part's outputs it is which; ``None``: of none
    """The names of those that the host reads, and its name."""
    # takes back what a decoder's step that nobody has asked for yet writes here; ``None``: there is none
    take_back: Callable[[], None] | None = None

    def is_read(self, *, by_host: bool) -> None:
        """Notes for the part's next runs who reads what they give."""
        if self.output is not None:
            names, name = self.output
            (names.add if by_host else names.discard)(name)

    def is_used(self) -> None:
        """Is called before anyone but the decoder whose cache it is reads or writes it."""
        if self.take_back is not None:
            self.take_back()

    def settle(self) -> None:
        """Moves what a part's next run would write again into memory of its own."""
        self.is_used()
        if isinstance(self.value, Resident):
            assert self.device is not None
            self.value = lasting(self.value, self.device)


@dataclasses.dataclass(eq=False)
class _MemoryBlock:
    base: int
    size: int
    contents: dict[int, Content]


@dataclasses.dataclass
class Traffic:
    """Bytes that went between the host and a device, by way of ONNX Runtime's copies and a part's inputs.

    Attributes:
        to_device: of values that a part read, and that lay on the host.
        to_host: of values that were copied from the device.
    """

    to_device: int = 0
    to_host: int = 0


class _Staging:
    """Memory of the host for what is copied: large chunks are used again, as the system gives new ones page by page."""

    def __init__(self) -> None:
        self._chunks: dict[int, list[tuple[bytearray, weakref.ref[npt.NDArray[np.uint8]]]]] = {}
        self._bytes = 0

    def array(self, size: int) -> npt.NDArray[np.uint8]:
        """An array of so many bytes; it is used again when neither it nor a view of it is left."""
        if size < _LARGE:
            return np.empty(size, np.uint8)
        chunks = self._chunks.setdefault(size, [])
        for index, (room, reference) in enumerate(chunks):
            if reference() is None:
                array = np.frombuffer(room, np.uint8)
                chunks[index] = (room, weakref.ref(array))
                return array
        room = bytearray(size)
        array = np.frombuffer(room, np.uint8)
        if self._bytes + size > _MOST_STAGED:
            self._chunks.clear()
            self._bytes = 0
        if size <= _MOST_STAGED:
            self._chunks.setdefault(size, []).append((room, weakref.ref(array)))
            self._bytes += size
        return array


class Memory:
    """All memory of the device that ONNX Runtime has."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self._lock = threading.RLock()
        self._blocks: dict[int, _MemoryBlock] = {}
        self._bases: list[int] = []
        self._free: dict[int, list[int]] = collections.defaultdict(list)
        self._next = _FIRST
        self._staging = _Staging()

    @property
    def count(self) -> int:
        return len(self._blocks)

    def allocate(self, size: int) -> int:
        room = max(-(-size // _ALIGNMENT), 1) * _ALIGNMENT
        with self._lock:
            if self._free[room]:
                base = self._free[room].pop()
            else:
                base, self._next = self._next, self._next + room
                bisect.insort(self._bases, base)
            self._blocks[base] = _MemoryBlock(base, size, {})
            return base

    def free(self, address: int) -> int:
        """Forgets a block; the number says nothing."""
        with self._lock:
            block = self._blocks.pop(address, None)
            if block is not None:
                for content in block.contents.values():
                    content.is_there = False
                room = max(-(-block.size // _ALIGNMENT), 1) * _ALIGNMENT
                self._free[room].append(address)
        return 0

    def _found(self, address: int, size: int) -> tuple[_MemoryBlock, int]:
        block = self._blocks.get(address)
        if block is None:
            index = bisect.bisect_right(self._bases, address) - 1
            block = self._blocks.get(self._bases[index]) if index >= 0 else None
        if block is None or address + size > block.base + block.size:
            raise DmlError(f"{size} bytes at {address:#x} are no memory of the device's")
        return block, address - block.base

    # Writing.

    def put(
        self,
        address: int,
        size: int,
        value: Any,
        device: Device | None = None,
        output: tuple[set[str], str] | None = None,
    ) -> Content | None:
        """Notes what lies at a place from now on; ``None``: nothing, since it has no bytes."""
        if size == 0:
            return None
        with self._lock:
            block, offset = self._found(address, size)
            for start, old in self._touched(block, offset, size):
                del block.contents[start]
                old.is_there = False
                if start < offset or start + old.size > offset + size:
                    kept = self._bytes(old)
                    if start < offset:
                        block.contents[start] = Content(kept[: offset - start], offset - start)
                    if start + old.size > offset + size:
                        rest = kept[offset + size - start :]
                        block.contents[offset + size] = Content(rest, rest.nbytes)
            content = Content(value, size, device, output=output)
            block.contents[offset] = content
            return content

    def put_from(self, address: int, size: int, source: int) -> None:
        """Notes a copy of bytes at an address of the host."""
        with self._lock:
            array = self._staging.array(size)
            ctypes.memmove(address_of(array), source, size)
            self.put(address, size, array)

    def room(self, size: int) -> npt.NDArray[np.uint8]:
        """Memory of the host for what lies at a place."""
        with self._lock:
            return self._staging.array(size)

    @staticmethod
    def _touched(block: _MemoryBlock, offset: int, size: int) -> list[tuple[int, Content]]:
        if len(block.contents) == 1 and offset in block.contents:
            return [(offset, block.contents[offset])]
        return [(at, old) for at, old in block.contents.items() if at < offset + size and offset < at + old.size]

    # Reading.

    def _bytes(self, content: Content) -> npt.NDArray[np.uint8]:
        """What it holds, as the host has it."""
        content.is_used()
        value = content.value
        if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1 and value.size == content.size:
            return value
        if isinstance(value, (DeviceValue, Resident)):
            self.traffic.to_host += content.size
            value = value.array()
        return np.ascontiguousarray(stored(value)).reshape(-1).view(np.uint8)[: content.size]

    def contents(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A copy of bytes at a place; what was never written is 0."""
        with self._lock:
            if size == 0:
                return np.empty(0, np.uint8)
            block, offset = self._found(address, size)
            exact = block.contents.get(offset)
            if exact is not None and exact.size == size:
                exact.is_read(by_host=True)
                return self._bytes(exact)
            found = np.zeros(size, np.uint8)
            for start, content in self._touched(block, offset, size):
                kept = self._bytes(content)
                first, last = max(start, offset), min(start + content.size, offset + size)
                found[first - offset : last - offset] = kept[first - start : last - start]
            return found

    def fetch(self, address: int, size: int, target: int) -> None:
        """Writes what lies at a place to an address of the host."""
        found = self.contents(address, size)
        ctypes.memmove(target, address_of(found), size)

    def copied(self, source: int, target: int, size: int) -> None:
        with self._lock:
            if size == 0:
                return
            block, offset = self._found(source, size)
            exact = block.contents.get(offset)
            if exact is not None and exact.size == size:
                exact.settle()
                value = exact.value
                if isinstance(value, DeviceValue):  # a copy: a cache is appended to where it lies
                    copy = value.on_device.device.arrays.moved(value.on_device)
                    value = DeviceValue(value.element, value.shape, copy)
                self.put(target, size, value)
            else:
                self.put(target, size, self.contents(source, size))

    def settle(self, content: Content) -> None:
        """See :meth:`Content.settle`."""
        with self._lock:
            content.settle()

    def on_host(self, address: int, size: int) -> Content | None:
        """What lies at a place, for a part that brings it to the device itself; ``None`` where it is to lie there.

        What is read several times is to lie there, too (:meth:`tensor`), unless it is small.
        """
        with self._lock:
            block, offset = self._found(address, size)
            content = block.contents.get(offset)
            if content is None or content.size != size or (content.reads and size > _SMALL):
                return None
            return None if isinstance(content.value, (DeviceValue, Resident)) else content

    def brought(self, content: Content) -> npt.NDArray[np.uint8]:
        """The bytes of what :meth:`on_host` has found, which go to the device now."""
        with self._lock:
            content.is_read(by_host=False)
            content.reads += 1
            self.traffic.to_device += content.size
            return self._bytes(content)

    def tensor(self, address: int, element: int, shape: tuple[int, ...], device: Device) -> Any:
        """A tensor as ``dmlvk.onnx`` computes with it: an array of the host, or what lies on the device already."""
        size = size_of(element, shape)
        dtype = NUMPY_TYPES.get(element)
        if size == 0 or dtype is None:
            return array_of(element, shape, self.contents(address, size))
        with self._lock:
            block, offset = self._found(address, size)
            content = block.contents.get(offset)
            if content is None or content.size != size:
                content = self.put(address, size, self.contents(address, size))
                assert content is not None
            content.settle()
            content.is_read(by_host=False)
            value = content.value
            content.reads += 1
            if isinstance(value, np.ndarray) and value.dtype == np.uint8 and content.reads == 1 and dtype.kind != "V":
                self.traffic.to_device += size  # what was just copied there, as nearly all inputs are
                return value.view(dtype).reshape(shape)
            if isinstance(value, DeviceValue) and value.on_device.device is device and not value.on_device.is_closed:
                if (value.element, value.shape) == (element, shape):
                    return value
                if DATA_TYPES[value.element] is DATA_TYPES[element]:
                    return DeviceValue(element, shape, value.on_device.reshape(shape or (1,)))
            array = array_of(element, shape, self._bytes(content))
            self.traffic.to_device += size
            if content.reads > 1 and size > _SMALL and dtype.kind != "V":
                with contextlib.suppress(DeviceLimitError, OutOfMemoryError):  # so it goes there with each run
                    content.value = DeviceValue(element, shape, device.array(array).memory())
                    return content.value
            return array


def address_of(array: npt.NDArray[Any]) -> int:
    """Where an array's first byte lies; ``array.ctypes.data`` takes three times as long."""
    return int(array.__array_interface__["data"][0])


def lasting(value: Resident, device: Device) -> Any:
    tensor = value.tensor
    if tensor.data_type.size_in_bits < 8:
        return value.array()
    desc = TensorDesc(tensor.data_type, tensor.shape or (1,))
    copy = device.empty(desc.sizes, desc.data_type).memory()
    identity = operator_desc("ELEMENT_WISE_IDENTITY", InputTensor=desc, OutputTensor=desc)
    compiled = device.compile_operator(device.create_operator(identity))
    device.arrays.run_bound(
        compiled, {(BindingKind.INPUT, 0): BufferBinding(value.buffer), (BindingKind.OUTPUT, 0): copy}
    )
    return DeviceValue(tensor.element, tensor.shape, copy)


def size_of(element: int, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor, as ONNX Runtime counts them.

    Raises:
        DmlError: when the device has no such type.
    """
    dtype = NUMPY_TYPES.get(element)
    if dtype is None:
        raise DmlError(f"a value has the element type {element}, which the device does not have")
    count = math.prod(shape)
    return -(-count // 2) if dtype.kind == "V" else count * dtype.itemsize
