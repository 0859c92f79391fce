"""What a device works on and with: pieces of memory, dispatches, and recordings of them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dmlvk.runtime.vulkan import MemoryClaim


@dataclasses.dataclass(eq=False)
class Allocation:
    """A piece of device memory, in 32-bit words, with its host-visible side."""

    tensor: Any  # Kompute's tensor
    claim: MemoryClaim  # its entry in the books of the device's memory
    size_in_bytes: int  # a multiple of 4
    has_staging: bool  # whether the host-visible side is a copy
    upload_pending: bool  # whether the host's side is newer
    make_host_side: Callable[[Allocation], npt.NDArray[np.uint8]]
    download_pending: bool = False  # whether the device's side is newer
    # whom it is for. An interrupt may take that one's finalizer away, or come before there is one: what has an owner
    # is freed some time after it is gone
    owner: weakref.ref[Any] | None = None
    is_pinned: bool = False  # whether somebody relies on the host-visible side to stay where it is
    is_reserved: bool = False  # whether one owner wants it back where it is free
    number: int = dataclasses.field(default_factory=itertools.count().__next__)  # how many were made before it
    _host_side: npt.NDArray[np.uint8] | None = None

    @property
    def host_bytes(self) -> npt.NDArray[np.uint8]:
        """The host-visible side, which stays from now on: the memory itself, or its staging copy."""
        self.is_pinned = True
        return self.host_side()

    def host_side(self) -> npt.NDArray[np.uint8]:
        """The same for a moment under the engine's lock; a staging copy may be freed afterwards."""
        if self._host_side is None:
            self._host_side = self.make_host_side(self)
        return self._host_side

    @property
    def needs_host_side(self) -> bool:
        """Whether its host-visible side would be a staging copy that is not there yet."""
        return self.has_staging and self._host_side is None

    def drop_host_side(self) -> None:
        """Forgets the host-visible side, which is about to be freed."""
        self._host_side = None

    def close(self) -> None:
        """Has no host-visible side any more: the memory is being freed."""
        self._host_side = np.empty(0, np.uint8)


@dataclasses.dataclass(frozen=True)
class Launch:
    """One dispatch of a recording."""

    spirv: bytes  # the shader
    specialization: tuple[int, ...]  # values of its specialization constants, from id 0 on
    push_constants: tuple[int, ...]  # words
    work_groups: tuple[int, int, int]  # launch size
    allocations: tuple[Allocation, ...]  # what its bindings are, in order
    written: tuple[Allocation, ...]  # those of them that it writes
    depends: bool  # whether earlier dispatches of the recording must be complete before it starts
    # the specialization constants, by id, that follow from dynamic sizes: no shader is compiled for them where it can
    # read them from memory
    varying: frozenset[int] = frozenset()
    operand_bytes: int | None = None  # what its operands take of what it binds; ``None``: all


@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """Recordings that wait for one another on the device: each begins with a barrier behind those submitted before it.

    The host so submits one while another of the same chain still runs. (A barrier's first scope is everything that was
    submitted to the queue before: Vulkan 1.3, 7.1, submission order.)
    """

    memory: tuple[Allocation, ...]  # what one of them writes, and another one uses; none: not known beforehand


@dataclasses.dataclass(frozen=True, eq=False)
class Recording:
    sequence: Any  # Kompute's sequence
    bound: frozenset[Allocation]  # the allocations that its dispatches use, but for what all recordings share
    written: frozenset[Allocation]  # those that its dispatches write
    uploads: frozenset[Allocation]  # those that it copies to the device first
    downloads: frozenset[Allocation]  # those that it copies to the host last
    dispatch_steps: tuple[int, ...]  # which of the sequence's operations, counted from 1, are dispatches
    seconds_per_tick: float  # of the device's clock
    chain: Chain | None = None  # the one that it belongs to
    launches: object | None = None  # what it was made of, and needs as long as it may run
    # held by a thread that waits for the last submission without the engine's lock
    waiting: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    @functools.cached_property
    def only_bound(self) -> tuple[Allocation, ...]:
        """What its dispatches use, and it does not copy to the device itself; for the same memory in the same order."""
        return tuple(sorted(self.bound - self.uploads, key=lambda allocation: allocation.number))

    def uses(self, allocation: Allocation) -> bool:
        """Whether it reads, writes or copies an allocation."""
        return allocation in self.bound or allocation in self.uploads or allocation in self.downloads

    def dispatch_seconds(self) -> list[float]:
        """What each dispatch took on the device, in its last run; only for a recording made with timestamps."""
        return [seconds for _, seconds in self.dispatch_spans()]

    def dispatch_spans(self) -> list[tuple[float, float]]:
        """For each dispatch when it could begin, in seconds since the run began, and what it took."""
        ticks = [tick * self.seconds_per_tick for tick in self.sequence.get_timestamps()]
        return [(ticks[step - 1] - ticks[0], ticks[step] - ticks[step - 1]) for step in self.dispatch_steps]
