"""What must not happen in the middle of a call, and happens when it is over."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any


class Afterwards:
    """Keeps what is put off until no call is under way.

    Between any two steps of Python garbage may be collected or a signal's handler run, and either may free memory or
    close the device that the interrupted call is working with. Nor may a finalizer wait for a lock: the call that has
    it may be waiting for the very thread in which the finalizer runs. So finalizers, and whoever frees something while
    his own thread is inside a call, put it off.

    A call is ``with afterwards, lock:``. The lock is a plain ``threading.RLock`` in the statement itself, because no
    interrupt comes between such a lock and the statement: one in the middle of a context manager that is written in
    Python could leave the lock held.

    A call that copies, or waits for the device, in memory that no other thread works with is a visit,
    ``with afterwards, afterwards.visit():``. Any number of threads visit at once, and take the lock for moments. What
    is freed meanwhile is not theirs; only the end of everything (:meth:`put_off_to_the_end`) waits for all of them.
    Whoever holds the lock never waits for a visit, which may be waiting for the lock.
    """

    __slots__ = ("_actions", "_last_actions", "_lock", "_mine", "_visits")

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._actions: collections.deque[Callable[[], object]] = collections.deque()
        self._last_actions: collections.deque[Callable[[], object]] = collections.deque()
        self._mine = threading.local()
        # A lock of each thread that ever visited and lives: held while it visits, and taken by no other thread.
        self._visits: list[weakref.ref[threading.Lock]] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._actions or self._last_actions:
            self.do()

    def visit(self) -> Any:
        """What a visit holds; :data:`INSIDE` in the middle of another call of the same thread."""
        lock = getattr(self._mine, "lock", None)
        if lock is None:
            lock = threading.Lock()
            self._visits.append(weakref.ref(lock, self._visits.remove))  # first: a signal's handler may visit, too
            self._mine.lock = lock
        return INSIDE if lock.locked() or self._lock._is_owned() else lock

    def is_visited(self) -> bool:
        """Whether any thread is inside a visit."""
        for reference in tuple(self._visits):  # runs ask often, so without a function for each
            lock = reference()
            if lock is not None and lock.locked():
                return True
        return False

    def wait_for_visits(self) -> None:
        """Waits until no thread is inside a visit. Those that begin meanwhile must find out by themselves to leave."""
        while self.is_visited():
            time.sleep(1e-4)

    def in_call(self) -> bool:
        """Whether this thread is inside a call, a visit or not."""
        if self._lock._is_owned():
            return True
        lock = getattr(self._mine, "lock", None)
        return lock is not None and bool(lock.locked())

    def put_off(self, action: Callable[[], object]) -> None:
        """Does something as soon as no call is under way: at once, or at the end of the call that is. Never waits.

        Visits of other threads go on meanwhile.
        """
        self._actions.append(action)
        self.do()

    def put_off_to_the_end(self, action: Callable[[], object]) -> None:
        """The same, when no visit is under way either: whoever leaves last does it."""
        self._last_actions.append(action)
        self.do()

    def do(self) -> None:
        """Does what was put off, unless a call is under way, in this thread or another: it will do so at its end."""
        if self.in_call():
            return
        try:
            while (self._actions or self._last_actions) and self._lock.acquire(blocking=False):
                with self._lock:
                    self.do_inside()
                    if not self.is_visited():
                        _do_all(self._last_actions)
                self._lock.release()
                # A visit that ended before the lock was free has left the rest to this thread.
                if not self._actions and self.is_visited():
                    break
        finally:
            if self._lock._is_owned():  # interrupted between two of the steps above
                self._lock.release()

    def do_inside(self) -> None:
        """Does what was put off, for a call that has just begun and holds the lock."""
        _do_all(self._actions)


INSIDE = contextlib.nullcontext()  # What a visit holds in the middle of a call, which holds enough: nothing


def _do_all(actions: collections.deque[Callable[[], object]]) -> None:
    while actions:
        actions.popleft()()


def new_lock() -> Any:
    return threading.RLock()
