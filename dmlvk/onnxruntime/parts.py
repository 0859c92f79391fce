"""Parts of graphs that the device has taken, and their runs."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dmlvk.errors import DmlError
from dmlvk.objects.recording import KernelTime
from dmlvk.onnx.engine import Program, State
from dmlvk.onnx.execution import Held, Resident
from dmlvk.onnx.loading import Model
from dmlvk.onnx.values import element_of, stored
from dmlvk.onnxruntime.interface import WARNING, array_of
from dmlvk.onnxruntime.library import Library
from dmlvk.onnxruntime.memory import Content, Memory, size_of
from dmlvk.onnxruntime.on_host import DEVICE_CANNOT, HostPart
from dmlvk.onnxruntime.sessions import Session

_RECORD = 20
"""Numbers that provider.c tells of each tensor: address, element type, place, number of dimensions, dimensions."""


class Part:
    """A part of a graph that is ready to run.

    Args:
        session: whose part it is.
        library: what ONNX Runtime calls.
        memory: where values lie on the device.
        model: what it is.
        inputs: for each input of the fused node its name; ``None`` for one that is not needed.
        outputs: the names of the outputs.
    """

    def __init__(
        self,
        session: Session,
        library: Library,
        memory: Memory,
        model: Model,
        inputs: Sequence[str | None],
        outputs: Sequence[str],
    ) -> None:
        self.api = session.api
        self._session = session
        self._library = library
        self._memory = memory
        self._device = session.device
        self._model = model
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._places = {name: place for place, name in enumerate(outputs)}
        self._lock = threading.RLock()
        self._on_host: HostPart | None = None
        self._lent: list[tuple[str, weakref.ref[Content]]] = []
        self._program = Program(session.device, model, flags=session.device.own_flags)
        self._caches = self._program.cache_outputs
        self._kept = set(self._caches)
        try:
            self._program.plan_static_shapes()
        except DEVICE_CANNOT as error:
            self._tell(error)

    def forget(self) -> None:
        """Frees what lies on the device."""
        with self._lock:
            self._program.forget()

    def run(self, context: int, numbers: list[int]) -> None:
        """Computes.

        Args:
            context: ONNX Runtime's, of this run.
            numbers: what provider.c tells of the inputs.

        Raises:
            DmlError: when it cannot be done, on the device or on the host.
        """
        arrays: dict[str, Any] = {}
        addresses: dict[str, int] = {}
        for name, record in zip(self._inputs, records(numbers), strict=True):
            if name is not None:
                arrays[name] = self._input(record)
                addresses[name] = record[0]

        def bound(name: str, shape: tuple[int, ...]) -> Any:
            """A cache that is to be appended to where it lies: its output is bound to its input's memory."""
            past = self._caches[name]
            address, is_on_device = self._output(context, self._places[name], shape)
            return arrays[past] if is_on_device and address == addresses[past] else None

        self._device.engine.check_open()
        with self._lock:
            self._settle()
            for place, value in enumerate(self._computed(arrays, bound)):
                self._give(context, place, value)

    def _computed(self, arrays: dict[str, Any], bound: Callable[[str, tuple[int, ...]], Any]) -> list[Any]:
        try:
            state = self._ran(arrays, bound)
        except DEVICE_CANNOT as error:
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
            DmlError: the device's, which names node and rule, where that cannot compute them either.
        """
        try:
            if self._on_host is None:
                self._on_host = HostPart(self._model, self._outputs)
                self._tell(error)
            return self._on_host.run(arrays)
        except Exception:  # noqa: BLE001 - ONNX Runtime's own kinds: it is no more able to
            raise error from None

    def _tell(self, error: DmlError) -> None:
        message = " ".join(f"{error}".split())
        told = f"{self._model.name}: ONNX Runtime's CPU provider computes what the device cannot: {message}"
        self._session.log(WARNING, told)

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
        """An input, where it is."""
        address, element, is_on_device, rank = record[:4]
        if element == 0:
            return None  # left out
        shape = tuple(record[4 : 4 + rank])
        if is_on_device:
            return self._memory.tensor(address, element, shape, self._device)
        return array_of(element, shape, _room(address, size_of(element, shape)))

    def _output(self, context: int, place: int, shape: tuple[int, ...]) -> tuple[int, int]:
        """Where ONNX Runtime wants an output, and whether that is on the device."""
        record = _PLACE()
        status = self._library.output(self.api.factory, context, place, _sizes(shape), len(shape), record)
        if status:
            message = (self.api.call("GetErrorMessage", status) or b"").decode(errors="replace")
            self.api.call("ReleaseStatus", status)
            raise DmlError(f"the output {self._outputs[place]!r}: {message}")
        return record[0], record[1]

    def _give(self, context: int, place: int, value: Any) -> None:
        """Writes an output where ONNX Runtime wants it."""
        if isinstance(value, Resident):
            element, shape = value.tensor.element, value.tensor.shape
        elif isinstance(value, Held):
            element, shape = value.element, value.shape
        else:
            value = np.asarray(value)
            element, shape = element_of(value) or 0, value.shape
        address, is_on_device = self._output(context, place, shape)
        size = size_of(element, shape)
        if not address or not size:
            return
        if is_on_device:
            content = self._memory.put(address, size, value, self._device)
            if isinstance(value, Resident) and content is not None:
                self._lent.append((self._outputs[place], weakref.ref(content)))
        else:
            array = value.array() if isinstance(value, (Resident, Held)) else value
            ctypes.memmove(address, np.ascontiguousarray(stored(array)).ctypes.data, size)


_PLACE = ctypes.c_int64 * 2


@functools.lru_cache(maxsize=1024)
def _sizes(shape: tuple[int, ...]) -> Any:
    """A shape as ONNX Runtime reads it."""
    return (ctypes.c_int64 * max(len(shape), 1))(*shape)


@functools.lru_cache(maxsize=64)
def _row(count: int) -> Any:
    return ctypes.c_int64 * (count * _RECORD)


def numbers_of(address: int, count: int) -> list[int]:
    """What provider.c tells of so many tensors."""
    return _row(count).from_address(address)[:] if count else []


def records(numbers: list[int]) -> Iterator[list[int]]:
    """The same, one by one."""
    return (numbers[start : start + _RECORD] for start in range(0, len(numbers), _RECORD))


def _room(address: int, size: int) -> Any:
    """Memory of the host."""
    return (ctypes.c_char * size).from_address(address) if size and address else b""


__all__ = ["Part", "numbers_of", "records"]
