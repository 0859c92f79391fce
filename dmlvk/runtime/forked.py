"""What a process that was forked does with what its parent has opened: nothing, and it says nothing when it ends."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterable


def keep_for_ever(objects: Iterable[object]) -> None:
    """Keeps objects from being destroyed, even when the interpreter ends."""
    for each in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


@functools.cache
def end_without_exit_handlers() -> None:
    """Ends this process, when it calls C's ``exit``, without the handlers that were registered before, in its parent.

    Mesa's drivers register one that waits for their threads, which do not exist here: it crashes. Python's own exit
    handlers, and what is registered from now on, are called as ever; files are flushed, and the status is the same.
    Of C libraries only GNU's tells a handler the status; others leave everything as it is.
    """
    c = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):
        # The last one that is registered is called first: fflush(NULL), then _exit(status).
        c.on_exit(c._exit, None)
        c.__getattr__("__cxa_atexit")(c.fflush, None, None)
