"""A device's memory: made and freed, written and read by the host."""

from __future__ import annotations

import collections
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dmlvk.errors import DeviceRemovedError, InvalidArgumentError, OutOfMemoryError
from dmlvk.runtime import staging, validation
from dmlvk.runtime.afterwards import Afterwards
from dmlvk.runtime.guard import Guard
from dmlvk.runtime.pipelines import Pipelines
from dmlvk.runtime.staging import Staging
from dmlvk.runtime.submissions import Submissions
from dmlvk.runtime.transfers import Transfers
from dmlvk.runtime.vulkan import DeviceInfo, MemoryGuard, MemoryRequest
from dmlvk.runtime.waiting import once_free
from dmlvk.runtime.work import Allocation, Recording


def new_allocation(
    kp: Any, manager: Any, memory: MemoryGuard, size_in_bytes: int, *, has_staging: bool, zeroed: bool
) -> Allocation:
    """A piece of device memory whose host-visible side is there from the beginning.

    Args:
        memory: the books of the device's memory.
        size_in_bytes: a positive multiple of 4.
        has_staging: whether the host-visible side is a copy, and the memory the device's own.
        zeroed: whether the device must read zeros from it.

    Raises:
        DeviceLimitError, OutOfMemoryError: when the device cannot have it.
    """
    kind = kp.TensorTypes.device if has_staging else kp.TensorTypes.host
    is_written = zeroed or has_staging or not hasattr(manager, "device_tensor")
    try:
        # Never touched before Kompute copies them: the system maps them all to one page. They are there before the
        # memory is asked for, so that the answer holds with them.
        zeros = np.zeros(size_in_bytes // 4 if is_written else 0, np.uint32)
    except (MemoryError, ValueError):
        zeros = None
    claim = memory.claim(MemoryRequest(size_in_bytes, "device" if has_staging else "host"))
    try:
        if zeros is None:
            raise OutOfMemoryError(f"{memory.info.name}: {size_in_bytes} bytes of zeros are not to be had")
        # Where the device's memory is the host's, 2 ms a MiB are not spent on zeros that nobody reads.
        tensor = manager.tensor_t(zeros, kind) if is_written else manager.device_tensor(size_in_bytes // 4, kind)
        made = Allocation(tensor, claim, size_in_bytes, has_staging, has_staging and zeroed, _mapped)
        made.host_bytes  # noqa: B018 - mapped from now on
        return made
    except BaseException:
        claim.release()
        raise


def _mapped(allocation: Allocation) -> npt.NDArray[np.uint8]:
    mapped: npt.NDArray[np.uint8] = allocation.tensor.data().view(np.uint8)
    return mapped


_Result = TypeVar("_Result")

Fill: TypeAlias = Callable[[npt.NDArray[np.uint8]], object]
"""Writes into the bytes of memory that it is called with, and does not keep them."""

FillPart: TypeAlias = Callable[[int, npt.NDArray[np.uint8]], object]
"""The same for a part of it: with the number of its first byte."""

_PIECES, _PIECE_BYTES = 2, 2**26  # Those of the host's memory that weights pass on their way to a GPU's; their bytes

_FEWEST_ALLOCATIONS_BETWEEN_SWEEPS = 64


class EngineMemory:
    info: DeviceInfo
    lock: Any
    afterwards: Afterwards
    submissions: Submissions
    _manager: Any
    _memory: MemoryGuard
    _pipelines: Pipelines
    _staging: Staging
    _transfers: Transfers

    def __init__(self, kp: Any) -> None:
        self._kp = kp
        # Both came with the same set of changes; the unchanged package's eval_async waits for the device.
        self._has_barriers = hasattr(kp, "OpMemoryBarrier")
        self._removed: str | None = None
        self._allocations: set[Allocation] = set()
        self._until_sweep = _FEWEST_ALLOCATIONS_BETWEEN_SWEEPS
        self._token: Allocation | None = None
        self._shared: dict[bytes, Allocation] = {}
        self._pieces = collections.deque[Allocation]()

    def check_open(self) -> None:
        """Raises DeviceRemovedError when the device was closed or lost."""
        if self._removed is not None:
            raise DeviceRemovedError(self._removed)

    def lose(self, reason: str) -> str:
        """Notes that the device is lost, unless another thread was told first; returns what was noted."""
        self._removed = self._removed or reason
        return self._removed

    def allocate(
        self, size_in_bytes: int, *, zeroed: bool = True, owner: object | None = None, near_host: bool = False
    ) -> Allocation:
        """Device memory.

        Args:
            size_in_bytes: a positive multiple of 4.
            zeroed: whether the device must read zeros from it; without it, what the device reads is undefined.
            owner: who releases it; what interrupts leave behind is freed when the owner is gone.
            near_host: whether the host's own memory will do, which kernels then read and write from afar, where the
                host can be told by a barrier what they wrote.

        Raises:
            DeviceLimitError, OutOfMemoryError: when the device cannot have it.
        """
        in_call = self.afterwards.in_call()
        with self.afterwards, self.lock, Guard(self, f"allocating {size_in_bytes} bytes"):
            if not in_call:  # another thread's call may have put off freeing what is missing now
                self.afterwards.do_inside()
            self._until_sweep -= 1
            if self._until_sweep <= 0:
                # As many as are looked at: so what each allocation costs does not grow with their number.
                self._until_sweep = max(_FEWEST_ALLOCATIONS_BETWEEN_SWEEPS, len(self._allocations))
                self.afterwards.put_off(self._free_orphans)
            has_staging = self._needs_staging and not (near_host and self._has_barriers)
            if has_staging and size_in_bytes >= staging.SMALLEST_BYTES and hasattr(self._manager, "device_tensor"):
                allocation = self._staging.allocation(size_in_bytes, zeroed=zeroed)
            else:
                allocation = self._allocated(size_in_bytes, has_staging, zeroed)
            allocation.owner = None if owner is None else weakref.ref(owner)
            self._allocations.add(allocation)
            return allocation

    def _free_orphans(self) -> None:
        """Frees what an interrupt has left without an owner, inside or in the place of its finalizer."""
        for allocation in list(self._allocations):
            if allocation.owner is not None and allocation.owner() is None:
                self._free(allocation)

    def has(self, allocation: Allocation) -> bool:
        return allocation in self._allocations

    def shared(self, contents: bytes) -> Allocation:
        """Device memory that only kernels read, with the given contents; the same one for the same contents.

        It lives as long as the engine, and submissions that bind it do not wait for each other.

        Raises:
            OutOfMemoryError: when the device cannot have it.
        """
        with self.afterwards, self.lock, Guard(self, "uploading what kernels share"):
            allocation = self._shared.get(contents)
            if allocation is None:
                allocation = self._allocated(len(contents), self._needs_staging, zeroed=False)
                allocation.host_bytes[:] = np.frombuffer(contents, np.uint8)
                self._allocations.add(allocation)
                if allocation.has_staging:
                    self._upload([allocation])
                self._shared[contents] = allocation
            return allocation

    def _shared_memory(self, size_in_bytes: int, *, has_staging: bool | None = None) -> Allocation:
        """Memory that lives as long as the engine; with a staging copy where the device needs one, or as it is said."""
        has_staging = self._needs_staging if has_staging is None else has_staging
        allocation = self._allocated(size_in_bytes, has_staging, zeroed=False)
        self._allocations.add(allocation)
        return allocation

    def _allocated(self, size_in_bytes: int, has_staging: bool, zeroed: bool) -> Allocation:
        return new_allocation(
            self._kp, self._manager, self._memory, size_in_bytes, has_staging=has_staging, zeroed=zeroed
        )

    @property
    def _needs_staging(self) -> bool:
        # A CPU's and an integrated GPU's device memory is host memory: it is bound directly and nothing is copied.
        # Synchronization validation follows barriers that name the buffers, which the unchanged Kompute has for staged
        # ones only.
        unnamed = validation.synchronization_enabled() and not self._has_barriers
        return self.info.kind not in ("CPU", "integrated GPU") or unnamed

    def release(self, allocation: Allocation) -> None:
        """Frees an allocation, and every pipeline that binds it. Releasing twice is allowed.

        In the middle of a call of the same thread it is done when that call is over.
        """
        if self.afterwards.in_call():
            self.release_later(allocation)
            return
        with self.afterwards, self.lock:
            self._free(allocation)

    def release_unused(self, allocation: Allocation) -> None:
        """The same at once, also in the middle of a call: for what no call is working with."""
        with self.afterwards, self.lock:
            self._free(allocation)

    def release_later(self, allocation: Allocation) -> None:
        """The same without waiting for another thread's call, which then frees it at its end: for finalizers."""
        self.afterwards.put_off(functools.partial(self._free, allocation))

    def _free(self, allocation: Allocation) -> None:
        if allocation not in self._allocations:
            return
        self.submissions.finish_all(self.submissions.users(allocation))
        self._pipelines.let_go(allocation)
        self._transfers.let_go(allocation)
        allocation.close()
        self._staging.let_go(allocation)
        if allocation.tensor.is_init():  # not so when this was interrupted behind the next line
            allocation.tensor.destroy()
        allocation.claim.release()
        self._allocations.discard(allocation)

    def write(self, allocation: Allocation, fill: Fill, *, keeps_contents: bool = True) -> None:
        """Has the host's side of an allocation written; the device sees it from the next recording that runs.

        Args:
            keeps_contents: False when ``fill`` writes every byte that matters, which saves a download.
        """

        def blockers() -> list[Recording]:
            return self._users_of_host_side(allocation) if keeps_contents else self.users(allocation)

        once_free(self, "writing a buffer", blockers, lambda: self.write_now(allocation, fill))

    def stream(self, allocation: Allocation, fill: FillPart, size_in_bytes: int) -> None:
        """Has the first bytes written of memory whose others nobody reads, in order and part by part.

        Where the host's side would be a copy that is not there yet, parts go through two of a fixed size, which stay:
        one is filled while the device copies from the other.
        """

        def write() -> None:
            if allocation.needs_host_side and getattr(self._kp, "COPIES_PARTS", False):
                self._copy_parts(allocation, fill, size_in_bytes)
            else:
                self.write_now(allocation, lambda host_bytes: fill(0, host_bytes[:size_in_bytes]))

        once_free(self, "writing a buffer", lambda: self.users(allocation), write)

    def _copy_parts(self, allocation: Allocation, fill: FillPart, size_in_bytes: int) -> None:
        nothing = frozenset[Allocation]()
        while len(self._pieces) < _PIECES:
            self._pieces.append(self._shared_memory(_PIECE_BYTES, has_staging=False))
        for begin in range(0, size_in_bytes, _PIECE_BYTES):
            piece, count = self._pieces.popleft(), min(_PIECE_BYTES, size_in_bytes - begin)
            try:  # a signal's handler that writes other memory meanwhile takes another piece
                self.submissions.finish_all(self.submissions.users(piece))
                fill(begin, piece.host_side()[:count])
                sequence = self._manager.sequence()
                sequence.record(self._kp.copy_of_part(piece.tensor, allocation.tensor, begin, -(-count // 4) * 4))
                used, written = frozenset([piece, allocation]), frozenset([allocation])
                self.submissions.start(Recording(sequence, used, written, nothing, nothing, (), 0.0))
            finally:
                self._pieces.append(piece)
        allocation.upload_pending, allocation.download_pending = False, True

    def write_now(self, allocation: Allocation, fill: Fill) -> None:
        """The same for who holds the lock, where nothing is under way that uses the memory and no contents stay."""
        fill(allocation.host_side())
        self._staging.used(allocation)
        allocation.upload_pending = allocation.has_staging
        allocation.download_pending = False

    def read(self, allocation: Allocation, take: Callable[[npt.NDArray[np.uint8]], _Result]) -> _Result:
        """What a function makes of the host's side of an allocation, as the device last left it.

        Args:
            take: called with the bytes, which it neither writes nor keeps.
        """

        def look() -> _Result:
            self._staging.used(allocation)
            return take(allocation.host_side())

        return once_free(self, "reading a buffer", lambda: self._users_of_host_side(allocation), look)

    def users(self, allocation: Allocation) -> list[Recording]:
        self._check_allocated(allocation)
        return self.submissions.users(allocation)

    def _check_allocated(self, allocation: Allocation) -> None:
        if allocation not in self._allocations:  # another thread may have closed it a moment ago
            raise InvalidArgumentError("Buffer: was closed")

    def _users_of_host_side(self, allocation: Allocation) -> list[Recording]:
        """The same, and a copy to the host's side where that is not up to date."""
        self._check_allocated(allocation)
        if allocation.download_pending:
            allocation.host_side()
            download = self._transfers.download(allocation)
            self.submissions.finish(download)  # an interrupt may have come before anybody waited for it
            self.submissions.start(download)
            allocation.download_pending = False
        return self.submissions.users(allocation)

    def _settle(self, allocation: Allocation) -> None:
        """For :class:`Staging`: nothing copies from or to the host's side of an allocation any more, or is to."""
        if allocation.upload_pending:
            self._upload([allocation])
            allocation.upload_pending = False
        self.submissions.finish_all(self.submissions.users(allocation))
        self._transfers.let_go(allocation)

    def _upload(self, allocations: Sequence[Allocation]) -> None:
        """Submits a copy to the device's side, which nothing uses that was submitted."""
        before, self._staging.busy = self._staging.busy, frozenset(allocations)
        try:
            for allocation in allocations:
                allocation.host_side()
            upload = self._transfers.upload(allocations)
            self.submissions.finish(upload)  # as above
            self.submissions.start(upload)
        finally:
            self._staging.busy = before
