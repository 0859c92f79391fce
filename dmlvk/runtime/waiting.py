"""How a thread waits for the device without keeping others from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dmlvk.runtime.afterwards import INSIDE
from dmlvk.runtime.guard import Guard
from dmlvk.runtime.work import Recording

if TYPE_CHECKING:
    from dmlvk.runtime.engine_memory import EngineMemory
    from dmlvk.runtime.kompute import Engine

_Result = TypeVar("_Result")

_RUNNING = "running on the device"

_MOST_WAITS = 3
"""How often a call waits without the lock for what is in its way; other threads may submit more every time."""


def once_free(
    engine: EngineMemory, action: str, blockers: Callable[[], list[Recording]], work: Callable[[], _Result]
) -> _Result:
    """Does something under the engine's lock when nothing is in its way, for which it waits without the lock.

    In the middle of another call of the same thread, which may have the lock, it waits with it.

    Args:
        blockers: what is to be waited for; called under the lock, again after each wait.
    """
    in_call = engine.afterwards.in_call()
    with engine.afterwards:
        with engine.lock, Guard(engine, action):
            found = blockers()
            if in_call:
                engine.submissions.finish_all(found)
            if in_call or not found:
                return work()
        with engine.afterwards.visit():
            engine.check_open()  # whoever closes the device from here on waits
            return _once_free(engine, Guard(engine, action, is_begun=True), found, blockers, work)


def _once_free(
    engine: EngineMemory,
    guard: Guard,
    found: list[Recording],
    blockers: Callable[[], list[Recording]],
    work: Callable[[], _Result],
) -> _Result:
    for _ in range(_MOST_WAITS):
        with guard:
            for recording in found:
                engine.submissions.finish_outside(recording)
        with engine.lock, guard:
            found = blockers()
            if not found:
                return work()
    with engine.lock, guard:
        engine.submissions.finish_all(blockers())
        return work()


def submitted_again(engine: Engine, recording: Recording, check: Callable[[], object]) -> bool:
    """Submits what was submitted before if nothing at all is under way, and says whether that was so.

    A small operator notices what :func:`once_free` takes to find that out of whatever may be in the way.

    Args:
        check: called under the lock; raises where it must not be.
    """
    with engine.afterwards, engine.lock, Guard(engine, _RUNNING):
        check()
        if engine.submissions.running:
            return False
        engine.begin(recording)
        return True


def run_again(engine: Engine, recording: Recording, check: Callable[[], object] | None = None) -> bool:
    """:func:`submitted_again`, and the wait for it: one visit and one guard for both.

    Not in the middle of another call of the same thread, which may be waiting for this very recording.
    """
    visit = engine.afterwards.visit()
    if visit is INSIDE:
        return False
    with engine.afterwards, visit, Guard(engine, _RUNNING):
        with engine.lock:
            if check is not None:
                check()
            if engine.submissions.running:
                return False
            engine.begin(recording)
        engine.submissions.finish_outside(recording)
    return True


def wait_for(engine: Engine, found: Callable[[], list[Recording]]) -> None:
    """Waits for what a function finds, which is called while the device cannot be closed."""
    guard = Guard(engine, _RUNNING)
    if engine.afterwards.in_call():
        with engine.lock, guard:
            engine.submissions.finish_all(found())
        return
    with engine.afterwards, engine.afterwards.visit(), guard:
        for recording in found():
            engine.submissions.finish_outside(recording)


def run_between(engine: Engine, recording: Recording, fill: Callable[[], object], take: Callable[[], object]) -> None:
    """Runs a recording on what a function writes, and waits; no other thread runs or awaits the same recording.

    Args:
        recording: what is run; it uploads what is written, and downloads what is read.
        fill: writes the host's side of memory, when nothing is under way any more that uses it.
        take: reads the host's side of memory; the device is not closed meanwhile.
    """
    visit = engine.afterwards.visit()
    with engine.afterwards, visit:
        if visit is not INSIDE and _ran_alone(engine, recording, fill):
            take()
            return
        start_behind(engine, recording, fill)
        take_behind(engine, recording, take)


def _ran_alone(engine: Engine, recording: Recording, fill: Callable[[], object]) -> bool:
    """Runs a recording where nothing is in its way, and waits; says whether that was so."""
    with Guard(engine, _RUNNING):
        with engine.lock:
            engine.check_open()
            if engine.submissions.running and engine.submissions.rivals(recording):
                return False
            fill()
            engine.begin(recording)
        engine.submissions.finish_outside(recording)
    return True


def start_behind(engine: Engine, recording: Recording, fill: Callable[[], object]) -> None:
    """The first half of :func:`run_between`: hands the recording to the device."""

    def begin() -> None:
        fill()
        engine.begin(recording)

    with engine.afterwards, engine.afterwards.visit():
        once_free(engine, _RUNNING, lambda: engine.submissions.rivals(recording), begin)


def take_behind(engine: Engine, recording: Recording, take: Callable[[], object]) -> None:
    """The second half of :func:`run_between`: waits, unless somebody else has done so, and reads."""
    with engine.afterwards, engine.afterwards.visit():
        with Guard(engine, _RUNNING):
            engine.submissions.finish(recording)
        take()
