"""Copies between the host's side of allocations and the device's, each recorded once and submitted as often as needed.

To record one takes half a millisecond on an NVIDIA H200, where command pools are dear; to submit it again 20 µs.

Barriers order an upload before the dispatches that are submitted later (``recorder.py``), and a download
behind those that were submitted before: nobody has to wait in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dmlvk.runtime.work import Allocation, Recording
from dmlvk.support.recent import Recent

MOST_RECORDED = 64  # Transfers that are kept; those that were not used for longest go first


class Transfers:
    """Those of one device. The engine's lock is held by whoever calls."""

    def __init__(self, kompute: Any, manager: Any) -> None:
        self._manager = manager
        self._operations = {"upload": kompute.OpTensorSyncDevice, "download": kompute.OpTensorSyncLocal}
        self._recorded: Recent[tuple[str, tuple[Allocation, ...]], Recording] = Recent(MOST_RECORDED)

    def __len__(self) -> int:
        return len(self._recorded)

    def objects(self) -> list[Any]:
        return [recording.sequence for recording in self._recorded.values()]

    def upload(self, allocations: Iterable[Allocation]) -> Recording:
        """What copies the host's side of allocations to the device."""
        return self._of("upload", tuple(allocations))

    def download(self, allocation: Allocation) -> Recording:
        """What copies the device's side of an allocation to the host."""
        return self._of("download", (allocation,))

    def _of(self, direction: str, allocations: tuple[Allocation, ...]) -> Recording:
        return self._recorded.of((direction, allocations), lambda: self._recording(direction, allocations))

    def _recording(self, direction: str, allocations: tuple[Allocation, ...]) -> Recording:
        sequence = self._manager.sequence()
        sequence.record(self._operations[direction]([allocation.tensor for allocation in allocations]))
        copied, none = frozenset(allocations), frozenset[Allocation]()
        is_upload = direction == "upload"
        return Recording(
            sequence,
            bound=copied,
            written=copied if is_upload else none,
            uploads=copied if is_upload else none,
            downloads=none if is_upload else copied,
            dispatch_steps=(),
            seconds_per_tick=0.0,
        )

    def let_go(self, allocation: Allocation) -> None:
        """Forgets the transfers of an allocation, which is about to be freed."""
        for key in [key for key in self._recorded if allocation in key[1]]:
            del self._recorded[key]

    def forget(self) -> None:
        self._recorded.clear()
