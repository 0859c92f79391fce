"""Copies between the host's side of allocations and the device's, each recorded once and submitted as often as needed.

To record one takes half a millisecond on an NVIDIA H200, where command pools are dear; to submit it again 20 µs.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from dmlvk.runtime.work import Allocation

MOST_RECORDED = 64
"""Transfers that are kept; those that were not used for longest go first."""


class Transfers:
    """Those of one device. The engine's lock is held by whoever calls.

    Args:
        kompute: the module.
        manager: Kompute's.
    """

    def __init__(self, kompute: Any, manager: Any) -> None:
        self._manager = manager
        self._operations = {"upload": kompute.OpTensorSyncDevice, "download": kompute.OpTensorSyncLocal}
        self._recorded: collections.OrderedDict[tuple[str, tuple[Allocation, ...]], Any] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._recorded)

    def objects(self) -> list[Any]:
        """Kompute's objects."""
        return list(self._recorded.values())

    def upload(self, allocations: Iterable[Allocation]) -> None:
        """Copies the host's side of allocations to the device, and waits for it."""
        self._run("upload", tuple(allocations))

    def download(self, allocation: Allocation) -> None:
        """Copies the device's side of an allocation to the host, and waits for it."""
        self._run("download", (allocation,))

    def _run(self, direction: str, allocations: tuple[Allocation, ...]) -> None:
        key = direction, allocations
        # Taken out meanwhile: one that fails, or is interrupted, is not used again.
        sequence = self._recorded.pop(key, None)
        if sequence is None:
            sequence = self._manager.sequence()
            sequence.record(self._operations[direction]([allocation.tensor for allocation in allocations]))
        sequence.eval()
        self._recorded[key] = sequence
        if len(self._recorded) > MOST_RECORDED:
            self._recorded.popitem(last=False)

    def let_go(self, allocation: Allocation) -> None:
        """Forgets the transfers of an allocation, which is about to be freed."""
        for key in [key for key in self._recorded if allocation in key[1]]:
            del self._recorded[key]

    def forget(self) -> None:
        """Forgets all of them."""
        self._recorded.clear()
