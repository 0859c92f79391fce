"""Memory of a discrete GPU whose copy on the host comes and goes.

A staging buffer beside each piece of memory takes as much of the host's as models and arrays take of the GPU's, and 0.3
ms a MiB to be made (an NVIDIA H200). So large pieces have one from the first time that the host reads or writes them
until others need the room.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.runtime.vulkan import MemoryClaim, MemoryGuard, MemoryRequest
from dmlvk.runtime.vulkan.host_memory import available_in_bytes
from dmlvk.runtime.work import Allocation

SMALLEST_BYTES = 2**20  # Of memory whose staging buffer comes and goes; smaller pieces keep theirs

STAGING_BYTES = 2**32
"""Staging buffers that are kept in all, besides those that recorded copies use; those not used for longest go first.
Where the host has less than 32 GiB left, an eighth of that."""


class Staging:
    """The staging buffers of one device that come and go. The engine's lock is held by whoever calls.

    Args:
        memory: the books of the device's memory.
        settle: has the device's side hold what the host has written, and waits until nothing copies any more.
    """

    def __init__(self, manager: Any, memory: MemoryGuard, settle: Callable[[Allocation], object]) -> None:
        self._manager, self._memory, self._settle = manager, memory, settle
        self._most = min(STAGING_BYTES, (available_in_bytes() or STAGING_BYTES) // 8)
        self._claims: collections.OrderedDict[Allocation, MemoryClaim] = collections.OrderedDict()
        # allocations that are being copied together, whose buffers stay meanwhile
        self.busy: Collection[Allocation] = ()

    def allocation(self, size_in_bytes: int, *, zeroed: bool) -> Allocation:
        """A piece of device memory, without a staging buffer.

        Args:
            size_in_bytes: a positive multiple of 4.
            zeroed: whether the device must read zeros from it.

        Raises:
            DeviceLimitError, OutOfMemoryError: when the device cannot have it.
        """
        claim = self._memory.claim(MemoryRequest(size_in_bytes, "resident"))
        try:
            tensor = self._manager.device_tensor(size_in_bytes // 4)
        except BaseException:
            claim.release()
            raise
        return Allocation(tensor, claim, size_in_bytes, True, zeroed, self._made)

    def _made(self, allocation: Allocation) -> npt.NDArray[np.uint8]:
        """A staging buffer; of memory that must read zeros, with zeros that are still to be copied."""
        self._make_room(allocation.size_in_bytes)
        claim = self._memory.claim(MemoryRequest(allocation.size_in_bytes, "staging"))
        try:
            allocation.tensor.create_staging()
        except BaseException:
            claim.release()
            raise
        self._claims[allocation] = claim
        mapped: npt.NDArray[np.uint8] = allocation.tensor.data().view(np.uint8)
        if allocation.upload_pending:
            mapped[:] = 0
        return mapped

    def _make_room(self, size_in_bytes: int) -> None:
        kept = [allocation for allocation in self._claims if not allocation.is_pinned]
        total = size_in_bytes + sum(allocation.size_in_bytes for allocation in kept)
        for allocation in kept:
            if total <= self._most:
                break
            if allocation in self.busy:
                continue
            total -= allocation.size_in_bytes
            self._settle(allocation)
            self._drop(allocation)

    def _drop(self, allocation: Allocation) -> None:
        allocation.drop_host_side()
        allocation.download_pending = True  # into the next one
        allocation.tensor.destroy_staging()
        self._claims.pop(allocation).release()

    def used(self, allocation: Allocation) -> None:
        """Notes that the host has just used one."""
        if allocation in self._claims:
            self._claims.move_to_end(allocation)

    def let_go(self, allocation: Allocation) -> None:
        """Forgets one that is being freed."""
        claim = self._claims.pop(allocation, None)
        if claim is not None:
            claim.release()
