"""The only module that imports Kompute (``kp``): buffers, pipelines, recorded submissions.

Kompute 0.9.0 as it is on PyPI is enough; with the changes of ``scripts/kompute_changes.py`` everything is the same and
faster. What both lack is worked around here:

- A command buffer cannot be recorded twice, because its pool lacks the flag for it: every recording has a Sequence of
  its own, which is evaluated as often as needed.
- Integers become floats unless every constant is a NumPy array of uint32, also an empty one.
- ``import kp`` installs a handler on Python's root logger; it is taken away again.

And what only the unchanged package lacks:

- It ignores the results of buffer creation and memory allocation and crashes afterwards: Vulkan is asked first
  (:mod:`dmlvk.runtime.vulkan`).
- Between two dispatches of a submission it records a transfer-to-compute barrier only. A dependency is made from a
  one-word copy between them: Kompute's barrier before the copy orders it after all earlier compute work, and the
  barrier that it records before the next dispatch orders that after the copy. The shaders' buffers are ``coherent``,
  which makes writes available and visible without naming them in a barrier. The changed package has memory barriers,
  and its shaders are not ``coherent``.
- Only ``Sequence.eval`` runs what was recorded, and it waits for the device: ``submit`` returns when the work is done.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import dataclasses
import functools
import logging
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import DeviceRemovedError, DmlError, InvalidArgumentError, OutOfMemoryError
from dmlvk.runtime import validation
from dmlvk.runtime.coherence import without_coherence
from dmlvk.runtime.flattening import flattened
from dmlvk.runtime.specialization import NAIVE_DRIVERS, on_processor, specialized
from dmlvk.runtime.vulkan import DeviceInfo, MemoryClaim, MemoryGuard, MemoryRequest, open_instance
from dmlvk.spirv import uses_constant, with_constant

_PIPELINE_CACHE_SIZE = 512

_open_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


@functools.cache
def _kompute() -> Any:
    """Imports Kompute without the handler that it puts on the root logger."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    import kp

    for handler in list(root.handlers):
        if handler not in handlers:
            root.removeHandler(handler)
    # Registered after Kompute's own handler and so run before it: devices go before what they stand on.
    atexit.register(_close_open_engines)
    return kp


def _close_open_engines() -> None:
    for engine in list(_open_engines):
        engine.close()


@dataclasses.dataclass(eq=False)
class Allocation:
    """A piece of device memory, in 32-bit words, with its host-visible side.

    Attributes:
        tensor: Kompute's tensor.
        claim: its entry in the books of the device's memory.
        size_in_bytes: a multiple of 4.
        host_bytes: the host-visible side: the memory itself, or its staging copy.
        has_staging: whether the host-visible side is a copy.
        upload_pending: whether the host's side is newer.
        download_pending: whether the device's side is newer.
    """

    tensor: Any
    claim: MemoryClaim
    size_in_bytes: int
    host_bytes: npt.NDArray[np.uint8]
    has_staging: bool
    upload_pending: bool
    download_pending: bool = False


@dataclasses.dataclass(frozen=True)
class Launch:
    """One dispatch of a recording.

    Attributes:
        spirv: the shader.
        specialization: values of its specialization constants, from id 0 on.
        push_constants: words.
        work_groups: launch size.
        allocations: what its bindings are, in order.
        written: those of them that it writes.
        depends: whether earlier dispatches of the recording must be complete before it starts.
    """

    spirv: bytes
    specialization: tuple[int, ...]
    push_constants: tuple[int, ...]
    work_groups: tuple[int, int, int]
    allocations: tuple[Allocation, ...]
    written: tuple[Allocation, ...]
    depends: bool


class Engine:
    """One Vulkan device, opened through Kompute. Its methods may be called from several threads.

    Args:
        info: the device, as :func:`dmlvk.runtime.vulkan.list_devices` gives it.
        trials: for the ``constant_id`` of each Boolean that says what a device does: whether it does so, tried on an
            engine whose shaders rely on it. Each is made once, before the first shader that could. Without a trial no
            shader relies on it.
    """

    def __init__(self, info: DeviceInfo, trials: Mapping[int, Callable[[Engine], bool]] | None = None) -> None:
        self.info = info
        self._trials = dict(trials or {})
        self._found: dict[int, bool] = {}  # by the trials
        self._lock = threading.RLock()
        self._removed: str | None = None
        self._pipelines: collections.OrderedDict[tuple[Any, ...], Any] = collections.OrderedDict()
        self._allocations: set[Allocation] = set()
        self._token: Allocation | None = None
        self._shared: dict[bytes, Allocation] = {}
        self._running: dict[Recording, None] = {}  # submitted and not yet waited for, oldest first
        self._kp = _kompute()
        # Both came with the same set of changes; the unchanged package's eval_async waits for the device.
        self._has_barriers = hasattr(self._kp, "OpMemoryBarrier")
        with open_instance():  # keeps the driver loaded between the guard's questions and Kompute's own instance
            self._memory = MemoryGuard(info)
            try:
                with self._guarded("opening the device"), validation.new_instance():
                    self._manager: Any = self._kp.Manager(info.index)
            except BaseException:
                self._memory.close()
                raise
        _open_engines.add(self)

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._manager is None

    def close(self) -> None:
        """Frees everything in the order that Vulkan needs. Closing twice is allowed."""
        with self._lock:
            if self.is_closed:
                return
            self._removed = f"{self.info.name}: the device was closed"  # first: other threads ask without the lock
            self._abandon_running()
            while self._pipelines:
                self._pipelines.popitem()[1].destroy()
            for allocation in list(self._allocations):
                self.release(allocation)
            self._token = None
            self._shared.clear()
            self._manager.destroy()
            self._manager = None
            self._memory.close()
            _open_engines.discard(self)
        self._raise_validation_messages("closing the device")

    def _abandon_running(self) -> None:
        """Waits for everything submitted: what it uses must not be destroyed before. Nobody asks for its outcome."""
        for recording in list(self._running):
            del self._running[recording]
            # A device that was lost fails here, and is at rest.
            with contextlib.suppress(RuntimeError):
                recording.sequence.eval_await()

    def check_open(self) -> None:
        """Raises DeviceRemovedError when the device was closed or lost."""
        if self._removed is not None:
            raise DeviceRemovedError(self._removed)

    def allocate(self, size_in_bytes: int, *, zeroed: bool = True) -> Allocation:
        """Device memory.

        Args:
            size_in_bytes: a positive multiple of 4.
            zeroed: whether the device must read zeros from it; without it, what the device reads is undefined.

        Raises:
            DeviceLimitError, OutOfMemoryError: when the device cannot have it.
        """
        with self._guarded(f"allocating {size_in_bytes} bytes"):
            allocation = self._allocated(size_in_bytes, self._needs_staging, zeroed)
            self._allocations.add(allocation)
            return allocation

    def shared(self, contents: bytes) -> Allocation:
        """Device memory that only kernels read, with the given contents; the same one for the same contents.

        It lives as long as the engine, and submissions that bind it do not wait for each other.

        Raises:
            OutOfMemoryError: when the device cannot have it.
        """
        with self._guarded("uploading what kernels share"):
            allocation = self._shared.get(contents)
            if allocation is None:
                allocation = self._allocated(len(contents), self._needs_staging, zeroed=False)
                allocation.host_bytes[:] = np.frombuffer(contents, np.uint8)
                self._allocations.add(allocation)
                if allocation.has_staging:
                    self._upload([allocation])
                self._shared[contents] = allocation
            return allocation

    def _allocated(self, size_in_bytes: int, has_staging: bool, zeroed: bool) -> Allocation:
        kinds = self._kp.TensorTypes
        kind = kinds.device if has_staging else kinds.host
        try:
            # Never touched before Kompute copies them: the system maps them all to one page. They are there before the
            # memory is asked for, so that the answer holds with them.
            zeros = np.zeros(size_in_bytes // 4, np.uint32)
        except (MemoryError, ValueError):
            zeros = None
        claim = self._memory.claim(MemoryRequest(size_in_bytes, "device" if has_staging else "host"))
        try:
            if zeros is None:
                raise OutOfMemoryError(f"{self.info.name}: {size_in_bytes} bytes of zeros are not to be had")
            tensor = self._manager.tensor_t(zeros, kind)
        except BaseException:
            claim.release()
            raise
        host_bytes = tensor.data().view(np.uint8)
        return Allocation(tensor, claim, size_in_bytes, host_bytes, has_staging, upload_pending=has_staging and zeroed)

    @property
    def _needs_staging(self) -> bool:
        # A CPU's and an integrated GPU's device memory is host memory: it is bound directly and nothing is copied.
        # Synchronization validation follows barriers that name the buffers, which the unchanged Kompute has for staged
        # ones only.
        unnamed = validation.synchronization_enabled() and not self._has_barriers
        return self.info.kind not in ("CPU", "integrated GPU") or unnamed

    def release(self, allocation: Allocation) -> None:
        """Frees an allocation, and every pipeline that binds it. Releasing twice is allowed."""
        with self._lock:
            if allocation not in self._allocations:
                return
            self._await_users(allocation)
            self._allocations.discard(allocation)
            # A collection of garbage may release other allocations in the middle of this.
            for key in tuple(self._pipelines):
                if allocation in key[-1] and (pipeline := self._pipelines.pop(key, None)) is not None:
                    pipeline.destroy()
            allocation.host_bytes = np.empty(0, np.uint8)
            allocation.tensor.destroy()
            allocation.claim.release()

    def exclusive(self) -> contextlib.AbstractContextManager[object]:
        """Several calls in a row, without another thread's between them."""
        return self._lock

    @contextlib.contextmanager
    def writing(self, allocation: Allocation, *, keeps_contents: bool = True) -> Iterator[npt.NDArray[np.uint8]]:
        """The host's side of an allocation, to be written; the device sees it from the next recording that runs.

        Args:
            allocation: what is written.
            keeps_contents: False when every byte that matters is about to be written, which saves a download.
        """
        with self._guarded("writing a buffer"):
            self._check_allocated(allocation)
            if allocation.download_pending and keeps_contents:
                self._download(allocation)
            yield allocation.host_bytes
            allocation.upload_pending = allocation.has_staging
            allocation.download_pending = False

    @contextlib.contextmanager
    def reading(self, allocation: Allocation) -> Iterator[npt.NDArray[np.uint8]]:
        """The host's side of an allocation, as the device last left it; not to be kept or written."""
        with self._guarded("reading a buffer"):
            self._check_allocated(allocation)
            if allocation.download_pending:
                self._download(allocation)
            yield allocation.host_bytes

    def _check_allocated(self, allocation: Allocation) -> None:
        if allocation not in self._allocations:  # another thread may have closed it a moment ago
            raise InvalidArgumentError("Buffer: was closed")
        self._await_users(allocation)

    def _upload(self, allocations: Iterable[Allocation]) -> None:
        sequence = self._manager.sequence()
        sequence.record(self._kp.OpTensorSyncDevice([allocation.tensor for allocation in allocations]))
        sequence.eval()

    def _download(self, allocation: Allocation) -> None:
        sequence = self._manager.sequence()
        sequence.record(self._kp.OpTensorSyncLocal([allocation.tensor]))
        sequence.eval()
        allocation.download_pending = False

    def record(
        self,
        launches: Sequence[Launch],
        upload: Sequence[Allocation] = (),
        download: Sequence[Allocation] = (),
        *,
        timestamps: bool = False,
    ) -> Recording:
        """Records dispatches, to be run as often as needed.

        Args:
            launches: in order.
            upload: allocations whose host side every run copies to the device first, whether it changed or not.
            download: allocations whose device side every run copies to the host last.
            timestamps: whether to note the device's time after each step, for :meth:`Recording.dispatch_seconds`.
        """
        with self._guarded("recording"):
            steps: list[int] = []  # which of Kompute's operations are dispatches
            most = 3 + 2 * len(launches)
            sequence = self._manager.sequence(0, most) if timestamps else self._manager.sequence()
            recorded = 0

            def record_step(operation: Any) -> None:
                nonlocal recorded
                sequence.record(operation)
                recorded += 1

            uploaded = [allocation.tensor for allocation in upload if allocation.has_staging]
            if uploaded:
                record_step(self._kp.OpTensorSyncDevice(uploaded))
            unsettled: dict[Allocation, None] = {}  # written since the last dependency
            for launch in launches:
                if launch.depends:
                    record_step(self._dependency(unsettled))
                    unsettled.clear()
                push = np.array(launch.push_constants, np.uint32)
                record_step(self._kp.OpAlgoDispatch(self._pipeline(launch, push), push))
                steps.append(recorded)
                unsettled.update(dict.fromkeys(launch.written))
            downloaded = [allocation.tensor for allocation in download if allocation.has_staging]
            if downloaded:
                record_step(self._kp.OpTensorSyncLocal(downloaded))
            unstaged = {a: None for launch in launches for a in launch.written if not a.has_staging}
            if unstaged and self._has_barriers:  # the host reads the memory itself
                record_step(self._kp.OpMemoryBarrier([allocation.tensor for allocation in unstaged], True))
            shared = frozenset(self._shared.values())
            return Recording(
                sequence,
                bound=frozenset(allocation for launch in launches for allocation in launch.allocations) - shared,
                written=frozenset(allocation for launch in launches for allocation in launch.written),
                uploads=frozenset(upload),
                downloads=frozenset(download),
                dispatch_steps=tuple(steps),
                seconds_per_tick=self.info.limits.timestamp_period_in_nanoseconds * 1e-9,
            )

    def _dependency(self, written: Iterable[Allocation]) -> Any:
        """An operation that makes later dispatches wait for the earlier ones, and see what they wrote."""
        named = [allocation.tensor for allocation in written]
        if self._has_barriers:
            return self._kp.OpMemoryBarrier(named)
        if validation.synchronization_enabled():
            return self._kp.OpTensorSyncLocal(named)
        if self._token is None:
            self._token = self._allocated(4, has_staging=True, zeroed=False)
            self._allocations.add(self._token)
        return self._kp.OpTensorSyncLocal([self._token.tensor])

    def _pipeline(self, launch: Launch, push: npt.NDArray[np.uint32]) -> Any:
        key = (launch.spirv, launch.specialization, len(push), launch.work_groups, launch.allocations)
        pipeline = self._pipelines.get(key)
        if pipeline is None:
            spirv, specialization = self._shader(launch)
            pipeline = self._manager.algorithm(
                [allocation.tensor for allocation in launch.allocations],
                spirv,
                launch.work_groups,
                np.array(specialization, np.uint32),
                push,
            )
            self._pipelines[key] = pipeline
            if len(self._pipelines) > _PIPELINE_CACHE_SIZE:
                # Recordings that use it keep it alive; it is destroyed with the last of them.
                self._pipelines.popitem(last=False)
        self._pipelines.move_to_end(key)
        return pipeline

    def _shader(self, launch: Launch) -> tuple[bytes, tuple[int, ...]]:
        """The module in the form that suits Kompute and the driver, and the specialization constants that it has."""
        spirv = without_coherence(launch.spirv) if self._has_barriers else launch.spirv
        if self.info.driver in NAIVE_DRIVERS:
            return flattened(specialized(spirv, launch.specialization)), ()
        if self.info.kind == "CPU":
            spirv = on_processor(spirv)
        for constant_id in self._trials:
            if uses_constant(spirv, constant_id) and self._does(constant_id):
                spirv = with_constant(spirv, constant_id, 1)
        return spirv, launch.specialization

    def _does(self, constant_id: int) -> bool:
        """Whether the device does what a constant says; tried when it is asked for the first time."""
        if constant_id not in self._found:
            self._found[constant_id] = True  # for the trial's own shader
            try:
                self._found[constant_id] = self._trials[constant_id](self)
            except OutOfMemoryError:
                del self._found[constant_id]  # not known yet; the bits are the same without it
                return False
            except BaseException:
                del self._found[constant_id]
                raise
        return self._found[constant_id]

    def run(self, recording: Recording) -> None:
        """Runs a recording and waits for the device."""
        self.submit(recording)
        self.wait(recording)

    def run_whole(self, recording: Recording) -> None:
        """Runs a recording that uploads all that it reads, downloads all that it writes, and shares no memory.

        Nothing has to be kept account of then, which a small operator would notice.
        """
        with self._guarded("running on the device"):
            recording.sequence.eval()

    def submit(self, recording: Recording) -> None:
        """Hands a recording to the device. With the unchanged Kompute this returns when the work is done.

        Earlier submissions that touch the same memory are waited for first: nothing orders two submissions.
        """
        with self._guarded("running on the device"):
            for allocation in recording.bound:
                self._await_users(allocation)
            waiting = [allocation for allocation in recording.bound - recording.uploads if allocation.upload_pending]
            if waiting:
                self._upload(waiting)
            if self._has_barriers:
                recording.sequence.eval_async()
                self._running[recording] = None
            else:
                recording.sequence.eval()
            for allocation in recording.bound:
                allocation.upload_pending = False
            for allocation in recording.written:
                allocation.download_pending = allocation.has_staging and allocation not in recording.downloads

    def wait(self, recording: Recording) -> None:
        """Waits until a recording's last submission is done."""
        with self._lock:
            if recording in self._running:  # not so when the device was closed: nothing runs any more
                with self._guarded("running on the device"):
                    self._await(recording)

    def _await(self, recording: Recording) -> None:
        if recording in self._running:
            del self._running[recording]
            recording.sequence.eval_await()

    def _await_users(self, allocation: Allocation) -> None:
        """Waits for all submitted work that binds an allocation."""
        for recording in [recording for recording in self._running if allocation in recording.bound]:
            self._await(recording)

    def _guarded(self, action: str) -> _Guard:
        """One call at a time; Kompute's errors become dmlvk's, and a lost device stays lost."""
        return _Guard(self, action)

    def _enter(self) -> None:
        self._lock.acquire()
        try:
            self.check_open()
        except BaseException:
            self._lock.release()
            raise

    def _leave(self, action: str, error: BaseException | None) -> None:
        try:
            if error is None:
                self._raise_validation_messages(action)
            elif isinstance(error, RuntimeError):
                self._raise_validation_messages(action)
                if "DeviceLost" in str(error):
                    self._removed = f"{self.info.name}: the device was lost while {action} ({error})"
                    raise DeviceRemovedError(self._removed) from error
                raise DmlError(f"{self.info.name}: {action} failed: {error}") from error
        finally:
            self._lock.release()

    def _raise_validation_messages(self, action: str) -> None:
        validation.raise_new_messages(f"{self.info.name}: {action}", except_for=_is_repeated_copy)


class _Guard:
    """The context manager behind ``Engine._guarded``: a class, because a generator costs a small operator 2 µs."""

    __slots__ = ("_action", "_engine")

    def __init__(self, engine: Engine, action: str) -> None:
        self._engine = engine
        self._action = action

    def __enter__(self) -> None:
        self._engine._enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._engine._leave(self._action, error)


def _is_repeated_copy(message: validation.ValidationMessage) -> bool:
    """Whether synchronization validation reports two copies to one staging buffer, for which Kompute has no barrier.

    The second one overwrites what nobody has read: the host reads when all is done.
    """
    return (
        bool(re.search("WRITE.AFTER.WRITE", message.identifier))
        and "vkCmdCopyBuffer" in message.text
        and ("SHADER" not in message.text)
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Recording:
    """Recorded work.

    Attributes:
        sequence: Kompute's sequence.
        bound: the allocations that its dispatches use, but for what all recordings share.
        written: those that its dispatches write.
        uploads: those that it copies to the device first.
        downloads: those that it copies to the host last.
        dispatch_steps: which of the sequence's operations, counted from 1, are dispatches.
        seconds_per_tick: of the device's clock.
    """

    sequence: Any
    bound: frozenset[Allocation]
    written: frozenset[Allocation]
    uploads: frozenset[Allocation]
    downloads: frozenset[Allocation]
    dispatch_steps: tuple[int, ...]
    seconds_per_tick: float

    def dispatch_seconds(self) -> list[float]:
        """What each dispatch took on the device, in its last run; only for a recording made with timestamps."""
        return [seconds for _, seconds in self.dispatch_spans()]

    def dispatch_spans(self) -> list[tuple[float, float]]:
        """For each dispatch when it could begin, in seconds since the run began, and what it took."""
        ticks = [tick * self.seconds_per_tick for tick in self.sequence.get_timestamps()]
        return [(ticks[step - 1] - ticks[0], ticks[step] - ticks[step - 1]) for step in self.dispatch_steps]
