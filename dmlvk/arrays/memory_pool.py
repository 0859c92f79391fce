"""Memory for arrays that come and go: what is let go is kept for the next array of the same size.

New memory costs more than a small operator: it is asked for, its pages are touched for the first time, and kernels are
bound to it anew.
"""

from __future__ import annotations

import collections
import functools
import heapq
import weakref
from collections.abc import Callable
from typing import Protocol

from dmlvk.errors import InvalidArgumentError, OutOfMemoryError
from dmlvk.runtime.kompute import Allocation, Engine

KEPT_BYTES = 256 * 2**20
"""Chunks of up to this size in all are kept at least; those that were let go first are freed first."""

_KEPT_PART = {"CPU": 32}
"""Which part of a device's memory is kept where that is more: of a CPU's, which is everybody's, less than an eighth."""

_GRANULE = 64  # Bytes of which a chunk's size is a multiple


class _Entry:
    """The owner of a chunk that is kept: gone with its entry, whatever interrupts the pool."""

    __slots__ = ("__weakref__",)


class MemoryPool:
    """The memory that nobody uses at the moment."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._kept: dict[Allocation, _Entry] = {}  # the oldest first
        self._by_size: dict[int, list[tuple[int, Allocation]]] = {}  # heaps, of which some may be taken
        self._shared: set[Allocation] = set()  # what is in one of them
        self._returned: collections.deque[tuple[Allocation, _Entry]] = collections.deque()  # what is to be kept
        self._size = 0
        self._taken = self._most_taken = self._most_of_all = 0
        self._most = max(KEPT_BYTES, engine.info.memory // _KEPT_PART.get(engine.info.kind, 8))
        self._listener: weakref.WeakMethod[Callable[[Allocation], object]] | None = None

    @property
    def size_in_bytes(self) -> int:
        self._collect()
        return self._size

    @property
    def taken_in_bytes(self) -> int:
        self._collect()
        return self._taken

    @property
    def most_taken_in_bytes(self) -> int:
        """The most that somebody had since :meth:`forget_most`."""
        return self._most_taken

    @property
    def most_in_bytes(self) -> int:
        """Likewise of what somebody had and what was kept together."""
        return self._most_of_all

    def forget_most(self) -> None:
        """Begins anew to note the most there were."""
        self._most_taken, self._most_of_all = self._taken, self._taken + self._size

    def _count(self, size_in_bytes: int) -> None:
        """Notes that somebody has so many bytes more, or less."""
        self._taken += size_in_bytes
        if self._taken > self._most_taken:
            self._most_taken = self._taken
        if self._taken + self._size > self._most_of_all:
            self._most_of_all = self._taken + self._size

    def when_freed(self, listener: Callable[[Allocation], object]) -> None:
        """Sets the method that is called with each chunk that is freed, before it is, as long as its object lives."""
        self._listener = weakref.WeakMethod(listener)

    def take(self, size_in_bytes: int, owner: object, wish: Allocation | None = None) -> Allocation:
        """A chunk of at least so many bytes, whose contents are undefined, for one who gives it back.

        Args:
            wish: what it is where that is free.

        Raises:
            DeviceLimitError, OutOfMemoryError: when the device cannot have it.
        """
        size = -(-size_in_bytes // _GRANULE) * _GRANULE
        if self.engine.lock._is_owned():
            return self._take(size, owner, wish)
        with self.engine.afterwards, self.engine.lock:
            return self._take(size, owner, wish)

    def _take(self, size: int, owner: object, wish: Allocation | None) -> Allocation:
        self.engine.check_open()
        self._collect()
        allocation = self._taken_from_kept(size, owner, wish) or self._allocated(size, owner)
        self._count(size)
        return allocation

    def _collect(self) -> None:
        """Keeps what came back."""
        while self._returned:
            with self.engine.afterwards, self.engine.lock:
                while self._returned:
                    self._keep(*self._returned.popleft())

    def _taken_from_kept(self, size: int, owner: object, wish: Allocation | None) -> Allocation | None:
        if wish is not None and wish.size_in_bytes == size and self._leaves(wish):
            wish.owner = weakref.ref(owner)
            return wish
        heap = self._by_size.get(size)
        while heap:
            # Whatever came back in which order, the same one: what repeats finds the kernels bound that it wants.
            self._shared.discard(heap[0][1])  # first: an interrupt may come between
            _, allocation = heapq.heappop(heap)
            if not allocation.is_reserved and self._leaves(allocation):
                allocation.owner = weakref.ref(owner)
                return allocation
        return None

    def _leaves(self, allocation: Allocation) -> bool:
        """Keeps a chunk no more; whether it was kept. It has no owner then, so that an interrupt leaves nothing."""
        if self._kept.pop(allocation, None) is None:
            return False
        self._size -= allocation.size_in_bytes
        return True

    def _allocated(self, size: int, owner: object) -> Allocation:
        try:
            return self.engine.allocate(size, zeroed=False, owner=owner)
        except OutOfMemoryError:
            if not self._kept:
                raise
            self.clear()
            return self.engine.allocate(size, zeroed=False, owner=owner)

    def give_back(self, allocation: Allocation) -> None:
        """Takes a chunk back; never waits, since finalizers call it. It is kept when memory is taken, or looked at."""
        entry = _Entry()
        allocation.owner = weakref.ref(entry)
        self._returned.append((allocation, entry))

    def free(self, allocation: Allocation) -> None:
        """Frees a chunk that was taken; in the middle of a call of the same thread when that call is over."""
        if self.engine.afterwards.in_call():
            self.engine.afterwards.put_off(functools.partial(self._free_taken, allocation))
            return
        with self.engine.afterwards, self.engine.lock:
            self._free_taken(allocation)

    def clear(self) -> None:
        """Frees everything that is kept."""
        with self.engine.afterwards, self.engine.lock:
            self._collect()
            self._free_oldest(-1)

    def _keep(self, allocation: Allocation, entry: _Entry) -> None:
        if self.engine.is_closed or not self.engine.has(allocation):
            return  # the device has freed it, or another process has it
        self._count(-allocation.size_in_bytes)
        if allocation.size_in_bytes > self._most:
            self._free(allocation)
            return
        self._size += allocation.size_in_bytes  # first: what an interrupt leaves is never less than what is kept
        self._kept[allocation] = entry
        if not allocation.is_reserved:
            self._share(allocation)
        if self._size > self._most:
            self._free_oldest(self._most)

    def _free_oldest(self, most: int) -> None:
        """Frees what was let go first, until no more bytes than these are kept."""
        while self._kept and self._size > most:
            allocation = next(iter(self._kept))
            if self._leaves(allocation):
                self._drop(allocation)
                self._free(allocation)
        if not self._kept:
            self._size = 0

    def _share(self, allocation: Allocation) -> None:
        if allocation not in self._shared:
            heapq.heappush(self._by_size.setdefault(allocation.size_in_bytes, []), (allocation.number, allocation))
            self._shared.add(allocation)

    def _drop(self, allocation: Allocation) -> None:
        heap, entry = self._by_size.get(allocation.size_in_bytes, []), (allocation.number, allocation)
        self._shared.discard(allocation)
        if entry in heap:
            heap.remove(entry)
            heapq.heapify(heap)

    def unreserve(self, allocation: Allocation) -> None:
        """Has a chunk for everybody again; never waits, since finalizers call it."""

        def change() -> None:
            if allocation in self._kept:
                self._share(allocation)

        allocation.is_reserved = False
        if allocation in self._kept:
            self.engine.afterwards.put_off(change)

    def _free_taken(self, allocation: Allocation) -> None:
        if not self.engine.has(allocation):
            return  # another thread closed the same array
        self._count(-allocation.size_in_bytes)
        self._free(allocation)

    def _free(self, allocation: Allocation) -> None:
        listener = None if self._listener is None else self._listener()
        if listener is not None:  # arrays outlive their device's runs, and with them what was recorded
            listener(allocation)
        self.engine.release_unused(allocation)


class Waiting(Protocol):
    def memory(self) -> object:
        """Computes it."""


class Storage:
    """A chunk of a pool's memory, for as long as somebody refers to it.

    Args:
        pool: where it comes from, and goes.
        wish: as :meth:`MemoryPool.take` has it.

    Attributes:
        chunk: its memory, whether it was closed or not.
        waiting: what still has to be computed from its contents.
    """

    def __init__(self, pool: MemoryPool, size_in_bytes: int, wish: Allocation | None = None) -> None:
        self._pool = pool
        self.waiting: weakref.WeakSet[Waiting] | None = None
        self._is_released = True
        self.chunk = pool.take(size_in_bytes, self, wish)
        self._is_released = False
        self.size_in_bytes = self.chunk.size_in_bytes

    def __del__(self) -> None:
        if not self.is_closed:
            self._is_released = True
            self._pool.give_back(self.chunk)

    @property
    def is_closed(self) -> bool:
        """Whether the memory was freed, by :meth:`close` or with the device."""
        return self._is_released or self._pool.engine.is_closed

    @property
    def allocation(self) -> Allocation:
        """Its memory.

        Raises:
            InvalidArgumentError: when it was closed.
            DeviceRemovedError: when its device was closed.
        """
        is_released = self._is_released  # before the device is asked, which another thread may be closing
        self._pool.engine.check_open()
        if is_released:
            raise InvalidArgumentError("Array: was closed")
        return self.chunk

    def add_waiting(self, value: Waiting) -> None:
        """Notes what is to be computed before the contents change."""
        if self.waiting is None:
            self.waiting = weakref.WeakSet()
        self.waiting.add(value)

    def remove_waiting(self, value: Waiting) -> None:
        if self.waiting is not None:
            self.waiting.discard(value)

    def settle(self) -> None:
        """Has everything computed that waits for the contents, which are about to change."""
        waiting, self.waiting = self.waiting, None
        for value in list(waiting or ()):
            value.memory()

    def close(self) -> None:
        """Frees the memory; closing twice is allowed."""
        if not self.is_closed:
            self.settle()
        if not self._is_released:
            self._is_released = True
            self._pool.free(self.chunk)
