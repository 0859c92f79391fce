"""Kompute's operations, one after the other in a sequence: copies, dispatches, and what makes them wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlvk.runtime.work import Allocation


class RecordedOperations:
    """Those of one recording.

    Kompute as it is on PyPI puts a barrier for each tensor before each dispatch, which waits there for copies; NVIDIA's
    driver waits for all earlier dispatches, too. Those of dmlvk's Kompute do without, and one barrier stands where
    copies may come before them: at the beginning, since those of earlier submissions count as well.

    Args:
        has_barriers: whether the module's memory barriers are used.
    """

    def __init__(self, kompute: Any, sequence: Any, *, has_barriers: bool) -> None:
        self.sequence = sequence  # the same
        self.dispatches: list[int] = []  # which operations are dispatches
        self._kompute = kompute
        self._count = 0
        self._dispatches_wait = not (has_barriers and hasattr(kompute, "unordered_dispatch"))
        # makes a dispatch of an algorithm and its push constants, which is not added yet
        self.of_dispatch = kompute.OpAlgoDispatch if self._dispatches_wait else kompute.unordered_dispatch

    def add(self, operation: Any) -> None:
        self.sequence.record(operation)
        self._count += 1

    def upload(self, allocations: Sequence[Allocation]) -> None:
        """Adds a copy of the host's side to the device, of those allocations that have two sides."""
        if staged := [allocation.tensor for allocation in allocations if allocation.has_staging]:
            self.add(self._kompute.OpTensorSyncDevice(staged))

    def download(self, allocations: Sequence[Allocation]) -> None:
        """Adds a copy of the device's side to the host, of those allocations that have two sides."""
        if staged := [allocation.tensor for allocation in allocations if allocation.has_staging]:
            self.add(self._kompute.OpTensorSyncLocal(staged))

    def wait_for_copies(self, used: Sequence[Allocation]) -> None:
        """Makes later dispatches wait for all earlier copies, those of earlier submissions among them.

        Args:
            used: some allocations; the barrier is one of all memory.
        """
        if not self._dispatches_wait:
            self.add(self._kompute.OpMemoryBarrier([allocation.tensor for allocation in used], of_transfers=True))

    def dispatch(self, algorithm: Any, push_constants: np.ndarray[Any, np.dtype[np.uint32]]) -> None:
        self.add(self.of_dispatch(algorithm, push_constants))
        self.dispatches.append(self._count)
