"""What Kompute's sequences are recorded with: dispatches, and the dependencies between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from dmlvk.runtime import validation
from dmlvk.runtime.pipelines import Pipelines, ShaderOf
from dmlvk.runtime.work import Allocation, Chain, Launch, Recording
from dmlvk.support.progress import with_progress


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


class Recorder:
    """That of one device. The engine's lock is held by whoever calls."""

    def __init__(
        self,
        kompute: Any,
        manager: Any,
        pipelines: Pipelines,
        shader: ShaderOf,  # as for ``Pipelines.of``
        token: Callable[[], Allocation],  # gives a word of memory that nothing else uses
        *,
        has_barriers: bool,  # whether Kompute has memory barriers
        seconds_per_tick: float,
    ) -> None:
        self._kp, self._manager, self._has_barriers = kompute, manager, has_barriers
        self._token = token
        self.pipelines, self.shader, self.seconds_per_tick = pipelines, shader, seconds_per_tick

    def sequence(self, *arguments: Any) -> Any:
        return self._manager.sequence(*arguments)

    def operations(self, sequence: Any) -> RecordedOperations:
        """Operations that a sequence, or what stands for one, is given as the device needs them."""
        return RecordedOperations(self._kp, sequence, has_barriers=self._has_barriers)

    def recorded(
        self,
        launches: Sequence[Launch],
        upload: Sequence[Allocation],
        download: Sequence[Allocation],
        chain: Chain | None,
        shared: Collection[Allocation],
        *,
        timestamps: bool,
    ) -> Recording:
        """Launches as they are, recorded.

        Args:
            launches, upload, download, chain, timestamps: as for ``Engine.record``.
            shared: allocations that recordings do not wait for.
        """
        most = 5 + 2 * len(launches)
        operations = self.operations(self.sequence(0, most) if timestamps else self.sequence())
        operations.upload(upload)
        if launches:
            operations.wait_for_copies(launches[0].allocations)
        unsettled: dict[Allocation, None] = {}  # written since the last dependency
        if chain is not None and launches:
            operations.add(self.dependency(chain.memory or launches[0].allocations))
        for number, launch in enumerate(with_progress(launches, len(launches), "kernels prepared by the driver"), 1):
            if launch.depends:
                operations.add(self.dependency(unsettled))
                unsettled.clear()
            push = np.array(launch.push_constants, np.uint32)
            ahead = itertools.islice(launches, number, None)
            operations.dispatch(self.pipelines.of(launch, push, self.shader, ahead), push)
            unsettled.update(dict.fromkeys(launch.written))
        operations.download(download)
        self.show_host(operations, launches)
        return Recording(
            operations.sequence,
            bound=frozenset(allocation for launch in launches for allocation in launch.allocations).difference(shared),
            written=frozenset(allocation for launch in launches for allocation in launch.written),
            uploads=frozenset(upload),
            downloads=frozenset(download),
            dispatch_steps=tuple(operations.dispatches),
            seconds_per_tick=self.seconds_per_tick,
            chain=chain,
        )

    def show_host(self, operations: RecordedOperations, launches: Sequence[Launch]) -> None:
        """Adds what makes the host see what launches have written into its own memory."""
        unstaged = {a: None for launch in launches for a in launch.written if not a.has_staging}
        if unstaged and self._has_barriers:  # the host reads the memory itself
            operations.add(self._kp.OpMemoryBarrier([allocation.tensor for allocation in unstaged], True))

    def dependency(self, written: Iterable[Allocation]) -> Any:
        """An operation that makes later dispatches wait for the earlier ones, and see what they wrote."""
        named = [allocation.tensor for allocation in written]
        if self._has_barriers:
            return self._kp.OpMemoryBarrier(named)
        if validation.synchronization_enabled():
            return self._kp.OpTensorSyncLocal(named)
        return self._kp.OpTensorSyncLocal([self._token().tensor])
