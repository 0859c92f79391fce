"""Work recorded for memory that stays where it is, and run again and again as one submission."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.tensor_bytes import copy_elements
from dmlvk.runtime.waiting import run_between, start_behind, take_behind

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.objects.buffers import Buffer
    from dmlvk.runtime.work import Launch

Bytes = npt.NDArray[np.uint8]


class Replay:
    """A graph, recorded for memory that stays where it is; what the host writes and reads goes with each submission.

    It keeps its buffers; of arrays among that memory, whoever runs it knows that they are still there.
    """

    def __init__(
        self,
        device: Device,
        launches: Sequence[Launch],
        # the memory that the host writes before each run, by name; a run brings it to the device
        written: Mapping[str, Buffer],
        read: Mapping[str, Buffer],  # the memory that it reads after each run, likewise
        kept: Collection[Buffer],  # all buffers that are in use
        fixed: Mapping[str, Bytes] | None = None,  # the bytes of what is written and is the same in each run
    ) -> None:
        self._engine = device.engine
        self._kept, self._fixed = list(dict.fromkeys(kept)), dict(fixed or {})  # weights share a few
        uploads, downloads = ([buffer.allocation for buffer in memory.values()] for memory in (written, read))
        self._recording = device.engine.record(launches, uploads, downloads)
        # the host's side of what is written, by name
        self.inputs = {name: buffer.allocation.host_bytes for name, buffer in written.items()}
        # the host's side of what is read, likewise
        self.outputs = {name: buffer.allocation.host_bytes for name, buffer in read.items()}

    @property
    def is_there(self) -> bool:
        return not any(buffer.is_closed for buffer in self._kept)

    def run(self, given: Mapping[str, Bytes], results: Mapping[str, Bytes]) -> None:
        """Runs, and waits.

        Args:
            given: the bytes of everything that the host writes and is not fixed, packed.
            results: where the bytes of what it reads are to be written.

        Raises:
            DeviceRemovedError: when the device is lost or closed.
        """
        self.run_between(lambda: self._fill(given), lambda: self._take(results))

    def run_between(self, fill: Callable[[], object], take: Callable[[], object]) -> None:
        """The same with functions that write :attr:`inputs`, all that are not fixed, and read :attr:`outputs`."""
        run_between(self._engine, self._recording, fill, take)

    def fill_fixed(self) -> None:
        """Writes what is the same in each run; others may have written there since the last one."""
        for name, source in self._fixed.items():
            copy_elements(self.inputs[name][: source.size], source)

    def start(self, given: Mapping[str, Bytes]) -> None:
        """Begins a run, without waiting."""
        start_behind(self._engine, self._recording, lambda: self._fill(given))

    def finish(self, results: Mapping[str, Bytes]) -> None:
        """Waits for the run that was begun last, behind which nothing else has run on the same memory."""
        take_behind(self._engine, self._recording, lambda: self._take(results))

    def _fill(self, given: Mapping[str, Bytes]) -> None:
        for name, target in self.inputs.items():
            source = given[name] if name in given else self._fixed[name]
            copy_elements(target[: source.size], source)

    def _take(self, results: Mapping[str, Bytes]) -> None:
        for name, target in results.items():
            copy_elements(target, self.outputs[name][: target.size])
