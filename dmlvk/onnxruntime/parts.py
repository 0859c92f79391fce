"""Parts of graphs that the device has taken, and their runs."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmlvk.errors import DmlError, InvalidArgumentError
from dmlvk.objects.recording import KernelTime
from dmlvk.onnx.model.loading import OnnxModel
from dmlvk.onnx.nodes.ranges import check_ranges
from dmlvk.onnx.nodes.values import Bytes, bytes_of, element_of, stored
from dmlvk.onnx.plan.engine import DeviceModel
from dmlvk.onnx.plan.execution import DeviceValue, Resident
from dmlvk.onnx.plan.states import State
from dmlvk.onnxruntime.ahead import Ahead
from dmlvk.onnxruntime.interface import WARNING, array_of
from dmlvk.onnxruntime.library import ProviderLibrary
from dmlvk.onnxruntime.memory import Content, Memory, address_of, size_of
from dmlvk.onnxruntime.on_host import DEVICE_CANNOT, REFUSED, HostPart, HostRefusedError, RefusedRunError
from dmlvk.onnxruntime.repeats import ADDRESS, MEMORY, SIZES, DecoderCaches, Repeat, Repeats, Table
from dmlvk.onnxruntime.sessions import Session
from dmlvk.support.mapped_files import ChangedFileError

_MOST_DIMENSIONS = 16  # For which provider.c has room


class Part:
    def __init__(
        self,
        session: Session,
        library: ProviderLibrary,
        memory: Memory,  # where values lie on the device
        model: OnnxModel,
        inputs: Sequence[str | None],  # for each input of the fused node its name; ``None`` for one that is not needed
        outputs: Sequence[str],  # the names of the outputs
    ) -> None:
        self.api = session.api
        self._session = session
        self._library = library
        self._memory = memory
        self._device = session.device
        self._model = model
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._indices = {name: index for index, name in enumerate(outputs)}
        self._rooms_there = np.empty((len(outputs), 2), np.int64)
        self._rooms_at = address_of(self._rooms_there)
        self._lock = threading.RLock()
        self._on_host: HostPart | None = None
        self._needs_host = False
        """Whether the host has computed a run."""
        self._lent: list[tuple[str, weakref.ref[Content]]] = []
        self._program = DeviceModel(session.device, model, flags=session.device.own_flags)
        self._caches = self._program.cache_outputs
        self._kept = set(self._caches)
        self._read: set[str] = set()
        """The outputs that the host has read."""
        self._repeats = Repeats(self._program, inputs, outputs)
        self._ahead: Ahead | None = None
        """What may have begun a step that nobody has asked for yet."""
        try:
            self._program.plan_static_shapes()
        except DEVICE_CANNOT as error:
            self._tell(error)

    def forget(self) -> None:
        """Frees what lies on the device."""
        with self._lock:
            self._repeats.clear()
            self._ahead = None
            self._program.forget()

    def run(self, context: int, table: Table) -> None:
        """Computes.

        Args:
            context: ONNX Runtime's, of this run.
            table: what provider.c tells of the inputs.

        Raises:
            DmlError: when it cannot be done, on the device or on the host.
        """
        self._device.engine.check_open()
        with self._lock:
            self._settle()
            repeat = None if self._session.profiles else self._repeats.of(table, self._read)
            ahead = None if repeat is None else repeat.ahead
            if self._ahead is not None and self._ahead is not ahead:
                self._ahead.stop()
            self._ahead = ahead
            if repeat is None or not self._repeated(repeat, context, table):
                self._run_anew(context, table)

    def _run_anew(self, context: int, table: Table) -> None:
        if self._ahead is not None:
            self._ahead.stop()
        arrays: dict[str, Any] = {}
        addresses: dict[str, int] = {}
        for name, record in zip(self._inputs, table.tolist(), strict=True):
            if name is not None:
                arrays[name] = self._input(record)
                addresses[name] = record[ADDRESS]

        def bound(name: str, shape: tuple[int, ...]) -> Any:
            """A cache that is to be appended to where it lies: its output is bound to its input's memory."""
            past = self._caches[name]
            ((address, is_on_device),) = self._rooms(context, self._indices[name], (shape,)).tolist()
            return arrays[past] if is_on_device and address == addresses[past] else None

        read = set(self._read)
        contents = {}
        for index, value in enumerate(self._computed(arrays, bound)):
            content = self._give(context, index, value)
            if content is not None and self._outputs[index] in self._caches:
                contents[self._outputs[index]] = content
        if self._kept == self._caches.keys() and not self._needs_host:
            self._repeats.note(table, arrays, contents, read)

    def _repeated(self, repeat: Repeat, context: int, table: Table) -> bool:
        """Computes as an earlier run did, in one submission; says whether it can."""
        try:
            given = self._given(repeat, table)
        except InvalidArgumentError:  # another run is told by which kind of error ONNX Runtime refuses it
            return False
        if given is None:
            return False
        rooms = self._rooms(context, 0, repeat.shapes)
        if repeat.caches is not None:
            if not self._are_bound(repeat.caches, table, rooms):
                return False
            if repeat.ahead is None or not repeat.ahead.has_begun:
                for content in repeat.caches.contents:
                    content.is_used()  # another session's decoder may have begun a step on the same caches
        places = rooms.tolist()
        results = {
            name: self._memory.room(size) if places[index][1] else _bytes_at(places[index][0], size)
            for name, (index, size) in repeat.read.items()
        }
        if repeat.ahead is None:
            repeat.replay.run(given, results)
        else:
            repeat.ahead.run(given, results)
        for name, (index, size) in repeat.read.items():
            address, is_on_device = places[index]
            self._memory.traffic.to_host += size
            if is_on_device:
                self._memory.put(address, size, results[name], output=(self._read, name))
        for name, (index, lent) in repeat.lent.items():
            self._lend(name, places[index][0], lent)
        return True

    @staticmethod
    def _are_bound(caches: DecoderCaches, table: Table, rooms: Table) -> bool:
        """Whether all caches are bound to the outputs that show them."""
        bound = rooms[caches.indices]
        return bool((bound[:, 0] == table[caches.rows, ADDRESS]).all() and bound[:, 1].all())

    def _given(self, repeat: Repeat, table: Table) -> dict[str, Bytes] | None:
        """The bytes of all inputs that the host writes; ``None`` where it is another run, or they are on the device."""
        if repeat.caches is not None:
            arrays = {name: self._input(table[row].tolist()) for row, name in repeat.caches.others}
            self._program.index_checks.check(arrays)
            check_ranges(self._model.name, repeat.ranges, arrays)
            counted = repeat.caches.decoding.again(repeat.caches.run, arrays, repeat.caches.lengths)
            if counted is None:
                return None
            return {name: bytes_of(array) for name, array in counted.items()}
        found: dict[str, Bytes] = {}
        there: dict[str, Content] = {}
        for given in repeat.given:
            address, is_on_device = int(table[given.row, ADDRESS]), int(table[given.row, MEMORY])
            if is_on_device:
                content = self._memory.on_host(address, given.size)
                if content is None:
                    return None
                there[given.name] = content
            else:
                found[given.name] = _bytes_at(address, given.size)
                self._memory.traffic.to_device += given.size
        for name, content in there.items():  # only now: else the run reads them once more
            found[name] = self._memory.brought(content)
        numbers = {given.name: found[given.name].view(given.checked) for given in repeat.given if given.checked}
        self._program.index_checks.check(numbers)
        check_ranges(self._model.name, repeat.ranges, numbers)
        return found

    def _computed(self, arrays: dict[str, Any], bound: Callable[[str, tuple[int, ...]], Any]) -> list[Any]:
        try:
            state = self._ran(arrays, bound)
        except ChangedFileError:
            raise
        except REFUSED as error:
            found = self._by_host(arrays, error)
            return [found[name] for name in self._outputs]
        return [state.known[name] if name in state.known else state.values[name] for name in self._outputs]

    def _ran(self, arrays: dict[str, Any], bound: Callable[[str, tuple[int, ...]], Any]) -> State:
        profiles = self._session.profiles
        if not profiles:
            return self._program.run(arrays, kept=self._kept, targets=bound)
        # Kernels are timed where that changes nothing but the time: caches stay where they are.
        is_timed = not self._caches and self._device.info.limits.timestamp_valid_bits > 0
        kernels: list[KernelTime] = []
        begun = time.perf_counter_ns()
        state = self._program.run(arrays, kernels if is_timed else None, kept=self._kept, targets=bound)
        said = {"provider": "DmlVk", "device": self._device.info.name, "nodes": str(len(self._model.proto.graph.node))}
        profiles.add(self._model.name, begun, time.perf_counter_ns(), kernels, said)
        return state

    def _by_host(self, arrays: dict[str, Any], error: DmlError) -> dict[str, Any]:
        """The outputs by ONNX Runtime's CPU provider.

        Raises:
            RefusedRunError: with the device's words, which name node and rule, where that cannot compute them either.
            ChangedFileError: when weights lie in a file that was written to since the model was loaded.
        """
        try:
            if self._on_host is None:
                self._on_host = HostPart(self._model, self._outputs)
            found = self._on_host.run(arrays)
        except HostRefusedError as refusal:
            raise RefusedRunError(error, refusal.code) from None
        if not self._needs_host:
            self._needs_host = True
            self._tell(error)
        return found

    def _tell(self, error: DmlError) -> None:
        message = " ".join(f"{error}".split())
        warning = f"{self._model.name}: ONNX Runtime's CPU provider computes what the device cannot: {message}"
        self._session.log(WARNING, warning)

    def _settle(self) -> None:
        """Before a run: what the last one has written and somebody still has gets memory of its own.

        Outputs of which that was so are written there at once from now on.
        """
        for name, reference in self._lent:
            content = reference()
            if content is not None and isinstance(content.value, Resident):
                self._memory.settle(content)
                self._kept.add(name)
        self._lent.clear()

    def _input(self, record: list[int]) -> Any:
        address, element, is_on_device, rank = record[:SIZES]
        if element == 0:
            return None  # left out
        shape = tuple(record[SIZES : SIZES + rank])
        if is_on_device:
            return self._memory.tensor(address, element, shape, self._device)
        size = size_of(element, shape)
        self._memory.traffic.to_device += size
        return array_of(element, shape, _room(address, size))

    def _rooms(self, context: int, first: int, shapes: tuple[tuple[int, ...], ...]) -> Table:
        """Where ONNX Runtime wants some outputs, from one on, and whether that is on the device: a row for each.

        The next call writes them anew.
        """
        status = self._library.outputs(self.api.factory, context, first, len(shapes), _sizes(shapes), self._rooms_at)
        if status:
            message = (self.api.call("GetErrorMessage", status) or b"").decode(errors="replace")
            self.api.call("ReleaseStatus", status)
            raise DmlError(f"the outputs {self._outputs[first : first + len(shapes)]}: {message}")
        return self._rooms_there[: len(shapes)]

    def _give(self, context: int, index: int, value: Any) -> Content | None:
        """Writes an output where ONNX Runtime wants it; returns what lies there then, where that is on the device."""
        if isinstance(value, Resident):
            element, shape = value.tensor.element, value.tensor.shape
        elif isinstance(value, DeviceValue):
            element, shape = value.element, value.shape
        else:
            value = np.asarray(value)
            element, shape = element_of(value) or 0, value.shape
        ((address, is_on_device),) = self._rooms(context, index, (shape,)).tolist()
        size = size_of(element, shape)
        if not address or not size:
            return None
        name = self._outputs[index]
        if is_on_device and isinstance(value, Resident):
            return self._lend(name, address, value)
        if is_on_device:
            return self._memory.put(address, size, value, self._device, (self._read, name))
        self._read.add(name)
        self._memory.traffic.to_host += size
        array = value.array() if isinstance(value, (Resident, DeviceValue)) else value
        contents = np.ascontiguousarray(stored(array))  # kept until it is copied
        ctypes.memmove(address, contents.ctypes.data, size)
        return None

    def _lend(self, name: str, address: int, value: Resident) -> Content | None:
        """Lets an output be what the device has written, until the next run."""
        size = size_of(value.tensor.element, value.tensor.shape)
        content = self._memory.put(address, size, value, self._device, (self._read, name))
        if content is not None:
            self._lent.append((name, weakref.ref(content)))
        return content


@functools.lru_cache(maxsize=1024)
def _sizes(shapes: tuple[tuple[int, ...], ...]) -> Any:
    """Shapes as provider.c reads them."""
    numbers: list[int] = []
    for shape in shapes:
        numbers += [len(shape), *shape, *(0,) * (_MOST_DIMENSIONS - len(shape))]
    return (ctypes.c_int64 * len(numbers))(*numbers)


@functools.lru_cache(maxsize=64)
def _rows(count: int) -> Any:
    return ctypes.c_int64 * (count * (SIZES + _MOST_DIMENSIONS))


def table_of(address: int, count: int) -> Table:
    """What provider.c tells of so many tensors, where it has that."""
    if not count:
        return np.empty((0, SIZES + _MOST_DIMENSIONS), np.int64)
    return np.frombuffer(_rows(count).from_address(address), np.int64).reshape(count, -1)


def _bytes_at(address: int, size: int) -> Bytes:
    return np.frombuffer(_room(address, size), np.uint8)


def _room(address: int, size: int) -> Any:
    return (ctypes.c_char * size).from_address(address) if size and address else b""
