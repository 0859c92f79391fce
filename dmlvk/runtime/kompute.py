"""The only module that calls Kompute (``kp``): buffers, pipelines, recorded submissions.

Kompute 0.9.0 as it is on PyPI is enough; with the changes of ``scripts/kompute/`` everything is the same and
faster. What both lack is worked around here:

- A command buffer cannot be recorded twice, because its pool lacks the flag for it: every recording has a Sequence of
  its own, which is evaluated as often as needed.
- Integers become floats unless every constant is a NumPy array of uint32, also an empty one.
- ``import kp`` installs a handler on Python's root logger: :mod:`dmlvk.runtime.kompute_library` takes it away again.

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

import contextlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from dmlvk.errors import UnsupportedError
from dmlvk.runtime import validation
from dmlvk.runtime.afterwards import Afterwards, new_lock
from dmlvk.runtime.engine_memory import EngineMemory, Fill
from dmlvk.runtime.forked import keep_for_ever
from dmlvk.runtime.guard import Guard, raise_messages
from dmlvk.runtime.kompute_library import drivers_of_parent, kompute, open_engines
from dmlvk.runtime.launch_numbers import LaunchNumbers, Room
from dmlvk.runtime.pipelines import Pipelines
from dmlvk.runtime.prepared_launches import Elsewhere, Numbers, PreparedLaunches
from dmlvk.runtime.recorder import Recorder
from dmlvk.runtime.shader_forms import ShaderForms
from dmlvk.runtime.staging import Staging
from dmlvk.runtime.submissions import Submissions
from dmlvk.runtime.transfers import Transfers
from dmlvk.runtime.vulkan import DeviceInfo, MemoryGuard, open_instance
from dmlvk.runtime.waiting import once_free, run_again, wait_for
from dmlvk.runtime.work import Allocation, Chain, Launch, Recording
from dmlvk.support.weak_calls import weakly

__all__ = ["Allocation", "Chain", "Engine", "Launch", "Recording"]

_Result = TypeVar("_Result")

_FEWEST_ALLOCATIONS_BETWEEN_SWEEPS = 64

_FLOAT_CONTROLS = "VK_KHR_shader_float_controls"

_SHARES_THREADS = ("SwiftShader driver",)
"""Drivers all of whose devices work with the same threads: with those of the parent, where it had one open."""


class Engine(EngineMemory):
    """One Vulkan device, opened through Kompute. Its methods may be called from several threads.

    ``with engine.afterwards, engine.lock:`` makes several calls in a row, without another thread's between them.
    ``with engine.afterwards, engine.afterwards.visit():`` only keeps the device from being closed: for work with
    memory and recordings that no other thread knows, which so overlaps with that of others. Kompute's calls hold the
    lock, but for that which waits for the device: Vulkan allows it while others submit, record, make and destroy. Only
    a call in the middle of another one of its thread waits with the lock, if that one has it.

    Attributes:
        declares_float_controls: the same; False where the device offers nothing.
        shaders: in the form that suits the device.
        submissions: what was handed to the device.
    """

    def __init__(
        self,
        info: DeviceInfo,  # the device, as :func:`dmlvk.runtime.vulkan.list_devices` gives it
        # for the ``constant_id`` of each Boolean that says what a device does: whether it does so, tried on an engine
        # whose shaders rely on it. Each is made once, before the first shader that could. Without a trial no shader
        # relies on it
        trials: Mapping[int, Callable[[Engine], bool]] | None = None,
        *,
        # whether modules demand of FLOAT32 arithmetic what the device offers to keep
        declares_float_controls: bool = False,
    ) -> None:
        if info.driver in drivers_of_parent and info.driver in _SHARES_THREADS:
            raise UnsupportedError(
                f"{info.name}: cannot be opened in a process that was forked while a device of this driver was open, "
                "because all of its devices share threads, which do not exist here; close the device before the fork, "
                'or start processes with multiprocessing\'s "spawn"'
            )
        self.info = info
        self.lock = new_lock()
        self.afterwards = Afterwards(self.lock)
        self._is_closing = False
        self._recordings: weakref.WeakSet[Recording] = weakref.WeakSet()
        self._prepared: weakref.WeakSet[PreparedLaunches] = weakref.WeakSet()
        super().__init__(kompute())
        self.declares_float_controls = declares_float_controls and bool(info.float_controls)
        self.shaders = ShaderForms(
            self, self._has_barriers, trials or {}, info.float_controls if self.declares_float_controls else ()
        )
        self.submissions = Submissions(self._has_barriers)
        self._running = self.submissions.running
        with open_instance():  # keeps the driver loaded between the guard's questions and Kompute's own instance
            self._memory = MemoryGuard(info)
            try:
                with Guard(self, "opening the device"), validation.new_instance():
                    extensions = [_FLOAT_CONTROLS] if self.declares_float_controls else []
                    families = [] if info.compute_queue_family is None else [info.compute_queue_family]
                    self._manager: Any = self._kp.Manager(info.index, families, extensions)
            except BaseException:
                self._memory.close()
                raise
        # llvmpipe compiles when a shader is dispatched for the first time, and not when its pipeline is made.
        self._pipelines = Pipelines(self._manager, side_by_side=not self.shaders.are_compiled_slowly)
        self._transfers = Transfers(self._kp, self._manager)
        self._staging = Staging(self._manager, self._memory, weakly(self._settle))
        self._numbers: LaunchNumbers | None = None
        finds_out = self.shaders.are_compiled_slowly and not self._needs_staging
        self._numbers = LaunchNumbers(weakly(self._shared_memory), info.limits, finds_out=finds_out)
        self.enabled_features = frozenset(getattr(self._kp, "enabled_features", ())).intersection(info.features)
        open_engines.add(self)

    @property
    def compilations(self) -> int:
        return self._pipelines.compilations

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called, or another process has the device."""
        return self._manager is None or self._is_closing

    @property
    def is_removed(self) -> bool:
        """Whether the device was lost or closed, or another process has it: then every call raises."""
        return self._removed is not None

    def close(self) -> None:
        """Frees everything in the order that Vulkan needs. Closing twice is allowed.

        In the middle of a call of the same thread, that is in a signal's handler, it is done when that call is over,
        and the calls of other threads are.
        """
        if self.is_closed:
            return
        self._is_closing = True
        self._removed = f"{self.info.name}: the device was closed"  # first: other threads ask without the lock
        self.afterwards.put_off_to_the_end(self._close)
        if self.afterwards.in_call():
            return
        self.afterwards.wait_for_visits()
        with self.afterwards, self.lock:
            self._close()
        raise_messages(self, "closing the device")

    def _close(self) -> None:
        if self._manager is None:
            return
        self._abandon_running()
        self._transfers.forget()
        self._pipelines.destroy()
        for allocation in list(self._allocations):
            self._free(allocation)
        self._token = None
        self._shared.clear()
        self._numbers = None
        self._manager.destroy()
        self._manager = None
        self._memory.close()
        open_engines.discard(self)

    def leave_to_parent(self) -> None:
        """Lets go of everything without touching it: in a forked process, where the driver's threads do not exist.

        Kompute's objects must not be destroyed here, which would wait for those threads: they stay for ever.
        """
        mine = [self._manager, *self._pipelines.objects(), *self._transfers.objects()]
        mine += [recording.sequence for recording in [*self._recordings, *self._running]]
        mine += [kept for prepared in self._prepared for kept in prepared.objects()]
        keep_for_ever([*mine, *(allocation.tensor for allocation in self._allocations)])
        if self._removed is None:
            self._removed = (
                f"{self.info.name}: the device was opened by another process, of which this one is a fork; "
                "open it here with dmlvk.Device"
            )
        self.lock = new_lock()  # a thread of the parent may have it
        self.afterwards = Afterwards(self.lock)
        self._pipelines.forget()
        self._transfers.forget()
        for memory in (self._allocations, self._shared, self._running):
            memory.clear()
        self._manager = self._token = self._numbers = None
        self._memory.leave_to_parent()
        open_engines.discard(self)

    def _abandon_running(self) -> None:
        """Waits for everything submitted: what it uses must not be destroyed before. Nobody asks for its outcome."""
        for recording in list(self._running):
            # A device that was lost fails here, and is at rest.
            with contextlib.suppress(RuntimeError):
                self.submissions.finish(recording)

    def record(
        self,
        launches: Sequence[Launch],
        # allocations whose host side every run copies to the device first, whether it changed or not
        upload: Sequence[Allocation] = (),
        download: Sequence[Allocation] = (),  # allocations whose device side every run copies to the host last
        *,
        # whether to note the device's time after each step, for :meth:`Recording.dispatch_seconds`
        timestamps: bool = False,
        chain: Chain | None = None,  # what it belongs to; such a recording uploads nothing
    ) -> Recording:
        """Records dispatches, to be run as often as needed."""
        with self.afterwards, self.lock, Guard(self, "recording"):
            for allocation in (*upload, *download):
                allocation.host_bytes  # noqa: B018 - which the copies are recorded for
            if self._numbers is None:
                return self._recorded(launches, upload, download, chain, timestamps)
            dynamic_launches, room = self._numbers.dynamic(launches)
            try:
                self._show_numbers(room)
                recording = self._recorded(dynamic_launches, upload, download, chain, timestamps)
            except BaseException:
                self._numbers.give_back(room)
                raise
            self._numbers.give_back_with(recording, room)
            return recording

    def _recorded(
        self,
        launches: Sequence[Launch],
        upload: Sequence[Allocation],
        download: Sequence[Allocation],
        chain: Chain | None,
        timestamps: bool,
    ) -> Recording:
        shared = *self._shared.values(), *(self._numbers.buffers if self._numbers is not None else ())
        recording = self._recorder().recorded(launches, upload, download, chain, shared, timestamps=timestamps)
        self._recordings.add(recording)
        return recording

    def _show_numbers(self, room: Room | None) -> None:
        """Brings numbers that were written to the device, which launches are to read."""
        if room is not None and self._needs_staging:
            # Other recordings read other words of this buffer, which are copied, too.
            self.submissions.finish_all(list(self._running))
            self._upload([room.buffer])

    def prepare(self, launches: Sequence[Launch], are_open: Sequence[bool]) -> PreparedLaunches:
        """Finds out what is the same in all recordings of launches that have other numbers each time.

        Args:
            launches: in order, with the numbers of one recording.
            are_open: which of them have other numbers in other recordings.
        """
        with self.afterwards, self.lock, Guard(self, "recording"):
            prepared = PreparedLaunches(
                self._recorder(), self._numbers, launches, are_open, tuple(self._shared.values())
            )
            self._show_numbers(prepared.room)
            self._prepared.add(prepared)
            return prepared

    def record_prepared(
        self, prepared: PreparedLaunches, numbers: Numbers, elsewhere: Elsewhere | None = None
    ) -> Recording:
        """Records launches with other numbers than before, to be run as often as needed.

        Args:
            elsewhere: what open launches bind, where that is not the same in all recordings.
        """
        with self.afterwards, self.lock, Guard(self, "recording"):
            room = None if self._numbers is None else self._numbers.room(prepared.words)
            has_room = self._numbers is not None and (room is not None or not prepared.words)
            # Kompute as it is may have barriers that name what was bound first.
            if self._numbers is None or not has_room or (elsewhere and not self._has_barriers):
                if self._numbers is not None:
                    self._numbers.give_back(room)
                return self.record(prepared.launches(numbers, elsewhere))
            try:
                recording = prepared.recording(numbers, room, elsewhere or {})
                self._show_numbers(room)
            except BaseException:
                self._numbers.give_back(room)
                raise
            self._numbers.give_back_with(recording, room)
            self._recordings.add(recording)
            return recording

    def _recorder(self) -> Recorder:
        return Recorder(
            self._kp,
            self._manager,
            self._pipelines,
            self.shaders.of,
            weakly(self._word),
            has_barriers=self._has_barriers,
            seconds_per_tick=self.info.limits.timestamp_period_in_nanoseconds * 1e-9,
        )

    def _word(self) -> Allocation:
        """A word of memory that nothing else uses."""
        if self._token is None:
            self._token = self._allocated(4, has_staging=True, zeroed=False)
            self._allocations.add(self._token)
        return self._token

    def run(self, recording: Recording) -> None:
        """Runs a recording and waits for the device, which other threads may use meanwhile.

        No other thread runs or awaits the same recording.
        """
        if not run_again(self, recording):
            with self.afterwards, self.afterwards.visit():
                self.submit(recording)
                with Guard(self, "running on the device"):
                    self.submissions.finish(recording)

    def run_whole(self, recording: Recording) -> None:
        """Runs a recording that uploads all that it reads, downloads all that it writes, and shares no memory.

        As :meth:`run`, in the middle of a call: nothing has to be kept account of, which a small operator would notice.
        """
        with Guard(self, "running on the device"):
            with self.lock:
                self.submissions.start(recording)
            self.submissions.finish(recording)

    def submit(self, recording: Recording) -> None:
        """Hands a recording to the device. With the unchanged Kompute this returns when the work is done.

        Earlier submissions that write what this one uses, or use what it writes, are waited for first: nothing orders
        two submissions.
        """
        self.submit_prepared(lambda: recording)

    def submit_prepared(
        self,
        prepare: Callable[[], Recording | None],
        note: Callable[[], object] | None = None,
        writes: Mapping[Allocation, Fill] | None = None,
    ) -> Recording | None:
        """The same for what a function prepares, and returns.

        Args:
            prepare: makes the recording, or finds that there is nothing to be done; called under the lock, and again
                whenever something had to be waited for, which other threads may have used to close what it needs.
            note: called under the lock when it was submitted, or there is nothing to submit.
            writes: what writes the host's side of memory that the recording reads, as :meth:`write` takes it; all that
                matters there, before it is submitted.
        """
        prepared: Recording | None = None

        def blockers() -> list[Recording]:
            nonlocal prepared
            prepared = prepare()
            found = [] if prepared is None else self.submissions.rivals(prepared)
            for allocation in writes or ():
                found += [other for other in self.users(allocation) if other not in found]
            return found

        def submit() -> None:
            for allocation, fill in (writes or {}).items():
                self.write_now(allocation, fill)
            if prepared is not None:
                self.begin(prepared)
            if note is not None:
                note()

        once_free(self, "running on the device", blockers, submit)
        return prepared

    def begin(self, recording: Recording) -> None:
        """Hands a recording to the device, whose lock is held, when none of its rivals is under way."""
        waiting = [allocation for allocation in recording.only_bound if allocation.upload_pending]
        if waiting:
            self._upload(waiting)
            for allocation in waiting:
                allocation.upload_pending = False
        self.submissions.start(recording)
        for allocation in recording.bound:
            allocation.upload_pending = False
        for allocation in recording.written:
            allocation.download_pending = allocation.has_staging and allocation not in recording.downloads

    def wait(self, recording: Recording) -> None:
        """Waits until a recording's last submission is done."""
        if recording in self._running:  # not so when the device was closed: nothing runs any more
            wait_for(self, lambda: [recording])

    def wait_for(self, allocation: Allocation) -> None:
        wait_for(self, lambda: self.users(allocation))

    def wait_for_all(self) -> None:
        wait_for(self, lambda: list(self._running))

    def dispatch_spans(self, recording: Recording) -> list[tuple[float, float]]:
        """:meth:`Recording.dispatch_spans`, when its last submission is done.

        Raises:
            DeviceRemovedError: when the device is lost or closed.
        """
        return once_free(
            self, "reading timestamps", lambda: self.submissions.among([recording]), recording.dispatch_spans
        )
