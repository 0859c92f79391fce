"""Runs of a graph as one submission, with everything found out before: what the host writes and reads goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.tensor_bytes import copy_elements
from dmlvk.kernels.program import Place
from dmlvk.objects.binding import BufferBinding
from dmlvk.runtime.turns import run_between

if TYPE_CHECKING:
    from dmlvk.arrays.device_array import Array as DeviceArray
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph
    from dmlvk.objects.buffers import Buffer

Bytes = npt.NDArray[np.uint8]


class WholeRun:
    """A graph, recorded for memory that stays where it is.

    It keeps the buffers among that memory; of arrays, whoever runs it knows that they are still there.

    Args:
        device: where it runs.
        compiled: the graph.
        places: what lies where.
        written: the memory that the host writes before each run, by name; a run brings it to the device.
        read: the memory that it reads after each run, likewise.
    """

    def __init__(
        self,
        device: Device,
        compiled: CompiledGraph,
        places: Mapping[tuple[Place, int], DeviceArray | BufferBinding],
        written: Mapping[str, Buffer],
        read: Mapping[str, Buffer],
    ) -> None:
        self._engine = device.engine
        self._kept = [memory.buffer for memory in places.values() if isinstance(memory, BufferBinding)]
        launches = [step.launch(device.engine) for step in device.arrays.scheduled(compiled, places)]
        given, fetched = ([buffer.allocation for buffer in memory.values()] for memory in (written, read))
        self._recording = device.engine.record(launches, given, fetched)
        self._given = {name: buffer.allocation.host_bytes for name, buffer in written.items()}
        self._fetched = {name: buffer.allocation.host_bytes for name, buffer in read.items()}

    def run(self, given: Mapping[str, Bytes], results: Mapping[str, Bytes]) -> None:
        """Runs, and waits.

        Args:
            given: the bytes of everything that the host writes, packed.
            results: where the bytes of what it reads are to be written.

        Raises:
            DeviceRemovedError: when the device is lost or closed.
        """

        def fill() -> None:
            for name, target in self._given.items():
                source = given[name]
                copy_elements(target[: source.size], source)

        def take() -> None:
            for name, target in results.items():
                copy_elements(target, self._fetched[name][: target.size])

        run_between(self._engine, self._recording, fill, take)


__all__ = ["Bytes", "WholeRun"]
