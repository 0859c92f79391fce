"""ONNX Runtime's sessions as the provider sees them, and what their profiles are told."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dmlvk.objects.recording import KernelTime
from dmlvk.onnxruntime.interface import Api

if TYPE_CHECKING:
    from dmlvk.device import Device

_KERNEL = 2  # OrtProfilingEventCategory

_MOST_EVENTS = 1_000_000  # As many as ONNX Runtime itself keeps


@dataclasses.dataclass(frozen=True)
class _Event:
    name: str  # what it was
    start: int  # nanoseconds of ``time.perf_counter_ns``
    duration: int  # nanoseconds
    said: Mapping[str, str]  # what else is known of it


class Profiles:
    """The profiles of a session that ONNX Runtime writes at the moment; a run may have one of its own, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, tuple[int, list[_Event]]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def start(self, profiler: int, offset: int) -> None:
        """Begins a profile.

        Args:
            profiler: by which ONNX Runtime's profiler is told from others.
            offset: nanoseconds since ONNX Runtime began it.
        """
        with self._lock:
            self._open[profiler] = (time.perf_counter_ns() - offset, [])

    def add(self, name: str, begun: int, ended: int, kernels: Sequence[KernelTime], said: Mapping[str, str]) -> None:
        """Notes a run of a part of a graph.

        Args:
            begun: nanoseconds of ``time.perf_counter_ns``.
            kernels: what they took. The device's clock is another one: they are put where the run ends.
            said: what else is known of the run.
        """
        length = max((int((kernel.start + kernel.seconds) * 1e9) for kernel in kernels), default=0)
        first = max(ended - length, begun)
        events = [_Event(f"{name}_run", begun, ended - begun, said)]
        events += [
            _Event(kernel.label, first + int(kernel.start * 1e9), int(kernel.seconds * 1e9), {"parent_name": name})
            for kernel in kernels
        ]
        with self._lock:
            for _, noted in self._open.values():
                noted += events[: max(_MOST_EVENTS - len(noted), 0)]

    def end(self, api: Api, profiler: int, container: int) -> None:
        """Ends a profile, and gives ONNX Runtime what was noted.

        Args:
            container: ONNX Runtime's, for events.
        """
        with self._lock:
            origin, events = self._open.pop(profiler, (0, []))
        made = []
        try:
            for event in events:
                made.append(_made(api, event, origin))
            if made:
                pointers = (ctypes.c_void_p * len(made))(*made)
                api.call("ProfilingEventsContainer_AddEvents", container, pointers, len(made))
        finally:
            for pointer in made:
                api.call("ReleaseProfilingEvent", pointer)


def _made(api: Api, event: _Event, origin: int) -> int:
    keys = (ctypes.c_char_p * len(event.said))(*(key.encode() for key in event.said))
    values = (ctypes.c_char_p * len(event.said))(*(value.encode() for value in event.said.values()))
    start, duration = (event.start - origin) // 1000, event.duration // 1000
    name = event.name.encode()
    made = api.pointer(
        "CreateProfilingEvent", _KERNEL, os.getpid(), 0, name, start, duration, keys, values, len(event.said)
    )
    assert made is not None
    return made


@dataclasses.dataclass(frozen=True, eq=False)
class Session:
    """ONNX Runtime's session, as the provider sees it."""

    api: Api  # ONNX Runtime's functions
    device: Device  # where it computes
    logger: int  # ONNX Runtime's
    profiles: Profiles = dataclasses.field(default_factory=Profiles)  # those that are being written

    def log(self, severity: int, message: str) -> None:
        """A line in ONNX Runtime's log, as the session writes it."""
        self.api.log(self.logger, severity, message)
