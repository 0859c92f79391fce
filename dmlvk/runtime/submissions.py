"""What was handed to the device, and who waits for it.

A recording has one fence for all of its submissions. Vulkan lets any number of threads wait for it at a time, but
nobody may submit the recording anew, which resets the fence, while another thread still looks at it. Submissions happen
under the engine's lock; so does the waiting of whoever has that lock. Whoever waits without it holds
``Recording.waiting`` meanwhile, which a new submission gives time to be let go.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from dmlvk.runtime.work import Allocation, Recording

MOST_RUNNING = 64  # Submissions that nobody has waited for; one more waits for the oldest

_LONGEST_LEAVE_IN_SECONDS = 1.0
"""What a thread has to leave a fence that was signalled. It may be in a signal's handler that wants the engine's lock,
and then looks at no fence, so nobody waits for it longer."""


class Submissions:
    """Those of one device.

    Args:
        is_asynchronous: whether Kompute submits without waiting.
    """

    def __init__(self, is_asynchronous: bool) -> None:
        self.running: dict[Recording, None] = {}  # what was submitted and not yet waited for, oldest first
        self._is_asynchronous = is_asynchronous

    def start(self, recording: Recording) -> None:
        """Hands a recording to the device. The engine's lock is held, and the recording is not running."""
        if not self._is_asynchronous:
            recording.sequence.eval()
            return
        if recording.waiting.locked():
            _let_go(recording)
        self.running[recording] = None  # first: an interrupt may come behind either
        try:
            recording.sequence.eval_async()
        except RuntimeError:
            self.running.pop(recording, None)
            raise

    def finish(self, recording: Recording) -> None:
        """Waits for a recording, by a thread that has the engine's lock, or is the only one that submits it."""
        if recording in self.running:
            try:
                recording.sequence.eval_await()
            except RuntimeError:
                self.running.pop(recording, None)
                for allocation in recording.downloads:
                    allocation.download_pending = allocation.has_staging
                raise
            self.running.pop(recording, None)  # only now: an interrupt may come before

    def finish_all(self, recordings: Iterable[Recording]) -> None:
        """:meth:`finish`, one after the other."""
        for recording in recordings:
            self.finish(recording)

    def finish_outside(self, recording: Recording) -> None:
        """Waits for a recording without the engine's lock; not in the middle of another wait of the same thread."""
        with recording.waiting:
            self.finish(recording)

    def among(self, recordings: Sequence[Recording]) -> list[Recording]:
        """Those that were submitted and not waited for."""
        return [recording for recording in recordings if recording in self.running]

    def users(self, allocation: Allocation) -> list[Recording]:
        """All submitted work that binds an allocation."""
        return [recording for recording in list(self.running) if allocation in recording.bound]

    def rivals(self, recording: Recording) -> list[Recording]:
        """The submitted work that must not be under way beside a recording, and what was not waited for too long."""
        running = list(self.running)  # from which others take theirs without the lock
        if not running:  # as where each submission is waited for
            return []
        overdue = frozenset(running[: 1 - MOST_RUNNING])
        return [other for other in running if other is recording or other in overdue or _are_rivals(recording, other)]


def _are_rivals(recording: Recording, other: Recording) -> bool:
    """Whether one writes what the other one uses, and nothing on the device orders them."""
    if recording.chain is not None and recording.chain is other.chain:
        return False
    return not other.written.isdisjoint(recording.bound) or not recording.written.isdisjoint(other.bound)


def _let_go(recording: Recording) -> None:
    """Gives a thread time that has waited for the last submission, which is done, and looks at its fence still."""
    until = time.monotonic() + _LONGEST_LEAVE_IN_SECONDS
    while recording.waiting.locked() and time.monotonic() < until:
        time.sleep(0)
