"""What kernels take on the device: medians over several runs, and files for trace viewers."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dmlvk.objects.recording import KernelTime
from dmlvk.support.files import write_whole

if TYPE_CHECKING:
    from dmlvk.device import Device


def median_times(runs: Sequence[Sequence[KernelTime]]) -> list[KernelTime]:
    """The median of each kernel's time over several runs of the same kernels, as if they ran one behind the other."""
    found: list[KernelTime] = []
    start = 0.0
    for times in zip(*runs, strict=True):
        seconds = statistics.median(time.seconds for time in times)
        found.append(KernelTime(times[0].label, start, seconds))
        start += seconds
    return found


def trace(times: Iterable[KernelTime], device: Device) -> dict[str, Any]:
    """Kernel times in Chrome's trace event format, for chrome://tracing or https://ui.perfetto.dev."""
    names = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": device.info.name}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "compute queue"}},
    ]
    events = [
        {
            "name": time.label,
            "cat": "kernel",
            "ph": "X",
            "ts": time.start * 1e6,
            "dur": time.seconds * 1e6,
            "pid": 1,
            "tid": 1,
        }
        for time in times
    ]
    return {"displayTimeUnit": "ms", "traceEvents": [*names, *events]}


def write_trace(path: str | os.PathLike[str], times: Iterable[KernelTime], device: Device) -> None:
    """Writes a file that chrome://tracing and https://ui.perfetto.dev open.

    Args:
        path: the file, ``trace.json``.
        times: from ``CommandRecorder.kernel_times`` or ``Device.profile``.
        device: where the kernels ran.
    """
    write_whole(path, json.dumps(trace(times, device), indent=1))
