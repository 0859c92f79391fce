"""What must not happen in the middle of a call, and happens when it is over."""

from __future__ import annotations

import collections
import threading
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

    Args:
        lock: what a call holds.
    """

    __slots__ = ("_actions", "_lock")

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._actions: collections.deque[Callable[[], object]] = collections.deque()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._actions:
            self.do()

    def in_call(self) -> bool:
        """Whether this thread is inside a call."""
        return bool(self._lock._is_owned())

    def put_off(self, action: Callable[[], object]) -> None:
        """Does something as soon as no call is under way: at once, or at the end of the call that is. Never waits."""
        self._actions.append(action)
        self.do()

    def do(self) -> None:
        """Does what was put off, unless a call is under way, in this thread or another: it will do so at its end."""
        if self.in_call():
            return
        try:
            while self._actions and self._lock.acquire(blocking=False):
                with self._lock:
                    self.do_inside()
                self._lock.release()
        finally:
            if self.in_call():  # interrupted between two of the steps above
                self._lock.release()

    def do_inside(self) -> None:
        """Does what was put off, for a call that has just begun and holds the lock."""
        while self._actions:
            self._actions.popleft()()


def new_lock() -> Any:
    """A lock for :class:`Afterwards`."""
    return threading.RLock()
