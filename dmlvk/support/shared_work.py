"""Threads that share the parts of some work among them.

The thread that wants the work does its share of it, or only waits; and it does all of it where there are no others: in
a process that was forked, where the parent's threads do not exist, and while the interpreter ends and starts no new
ones. It never leaves while another one still works at it, be it interrupted or not.
"""

from __future__ import annotations

import collections
import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence

Part = Callable[[], object]


class _SharedWork:
    """Work in parts, which whoever has time takes up."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._count = len(parts)
        self._waiting = collections.deque(parts)
        self._helping: list[threading.Thread] = []
        self._finished: list[Exception | None] = []
        self._has_failed = False
        # Not an Event: an interrupt inside of one, which is written in Python, leaves its lock in disorder.
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()

    def work(self) -> None:
        """Does parts until none is waiting; what one of them raises is kept, and those still waiting are left out."""
        while True:
            try:
                part = self._waiting.popleft()
            except IndexError:
                return
            failure = None
            try:
                if not self._has_failed:
                    part()
            except Exception as error:  # noqa: BLE001 - whatever it is, the thread that wants the work shall have it
                failure = error
                self._has_failed = True
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
        """Ends work that was interrupted: afterwards nobody is at it."""
        while True:
            try:
                self._waiting.clear()
                while self._helping:
                    time.sleep(1e-4)
            except BaseException:  # noqa: BLE001 - another interrupt: the first one is raised
                continue
            return


class Helpers:
    """Threads that help whoever has work for them; they are started when they are needed first, and stay.

    Args:
        name: of the threads, with a number behind it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._wanted: queue.SimpleQueue[_SharedWork] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        _all.add(self)

    def share(self, parts: Sequence[Part], workers: int, *, only_waits: bool = False) -> None:
        """Does all parts, in any order and any thread; when one raises, those that wait are left out, and it is raised.

        Args:
            workers: threads that do it at most, the one that asks included.
            only_waits: whether that one leaves the work to the others. However many ask, no more than so many threads
                work then at a time.
        """
        helpers = min(workers, len(parts)) - (not only_waits)
        self._start(helpers)
        work = _SharedWork(parts)
        # While the interpreter ends its threads stand still; and those that help would wait for one another.
        there_are_others = self._threads and not sys.is_finalizing() and threading.current_thread() not in self._threads
        try:
            for _ in range(helpers):
                self._wanted.put(work)
            if not (only_waits and there_are_others):
                work.work()
            work.wait()
        except BaseException:
            work.abandon()
            raise

    def forget(self) -> None:
        """In a process that was forked: its parent's threads are not here, nor what they were to do."""
        self._wanted = queue.SimpleQueue()
        self._threads = []

    def _start(self, count: int) -> None:
        """So many, unless there are; fewer where the system or the end of the interpreter does not let them start."""
        while len(self._threads) < count:
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=_serve, args=(self._wanted,), name=name, daemon=True)
            self._threads.append(thread)  # before it starts: an interrupt or another thread may come in between
            try:
                thread.start()
            except RuntimeError:
                self._threads.remove(thread)
                return


def _serve(wanted: queue.SimpleQueue[_SharedWork]) -> None:
    while True:
        wanted.get().help()


_all: weakref.WeakSet[Helpers] = weakref.WeakSet()


def _forget_threads() -> None:
    for helpers in _all:
        helpers.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
