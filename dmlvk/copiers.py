"""Threads that share large copies among them.

The thread that wants a copy does its share of it, and all of it where there are no others: in a process that was
forked, where the parent's threads do not exist, and while the interpreter ends and starts no new ones. It waits only
for parts that others have taken up, and never leaves while one of them still writes, be it interrupted or not.
"""

from __future__ import annotations

import collections
import os
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

MOST_COPIERS = 4
"""Threads that work at a copy, the one that wants it included. More are in each other's way where several threads copy
at once, and no faster where one does."""

Part = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Where to, and from where; of one shape."""


class _Copy:
    """A copy in parts, which whoever has time takes up."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._count = len(parts)
        self._waiting = collections.deque(parts)
        self._helping: list[threading.Thread] = []
        self._finished: list[Exception | None] = []
        # Not an Event: an interrupt inside of one, which is written in Python, leaves its lock in disorder.
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()

    def work(self) -> None:
        """Does parts until none is waiting; what one of them raises is kept."""
        while True:
            try:
                destination, source = self._waiting.popleft()
            except IndexError:
                return
            failure = None
            try:
                destination[...] = source
            except Exception as error:  # noqa: BLE001 - whatever it is, the thread that wants the copy shall have it
                failure = error
            self._finished.append(failure)
            if len(self._finished) == self._count:
                self._done.put(None)

    def help(self) -> None:
        """:meth:`work` in one of the other threads, where no interrupt comes."""
        self._helping.append(threading.current_thread())  # before it takes anything up
        self.work()
        self._helping.remove(threading.current_thread())

    def wait(self) -> None:
        """Waits for the parts that other threads have taken up, and raises what one has raised."""
        while len(self._finished) < self._count:
            self._done.get()
        for failure in self._finished:
            if failure is not None:
                raise failure

    def abandon(self) -> None:
        """Ends a copy that was interrupted: afterwards nobody works at it."""
        while True:
            try:
                self._waiting.clear()
                while self._helping:
                    time.sleep(1e-4)
            except BaseException:  # noqa: BLE001 - another interrupt: the first one is raised
                continue
            return


_wanted: queue.SimpleQueue[_Copy] = queue.SimpleQueue()
_threads: list[threading.Thread] = []


def _serve(wanted: queue.SimpleQueue[_Copy]) -> None:
    while True:
        wanted.get().help()


def _forget_threads() -> None:
    """In a process that was forked: its parent's threads are not here, nor what they were to do."""
    global _wanted
    _wanted = queue.SimpleQueue()
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _start_threads(count: int) -> None:
    """So many, unless there are; fewer where the system or the end of the interpreter does not let them start."""
    while len(_threads) < count:
        thread = threading.Thread(target=_serve, args=(_wanted,), name=f"dmlvk-copy-{len(_threads)}", daemon=True)
        _threads.append(thread)  # before it starts: an interrupt or another thread may come in between
        try:
            thread.start()
        except RuntimeError:
            _threads.remove(thread)
            return


def share(parts: Sequence[Part]) -> None:
    """Copies arrays, with as many threads as there are parts."""
    _start_threads(len(parts) - 1)
    copy = _Copy(parts)
    try:
        for _ in parts[1:]:
            _wanted.put(copy)
        copy.work()
        copy.wait()
    except BaseException:
        copy.abandon()
        raise
