"""Pauses Python's search for reference cycles while many objects are made that all stay.

It would look at each of them over and over, which takes a third of the time of planning a large network. Afterwards
so many are among the old ones, which only a full collection looks at: two collections of the young would take a tenth.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_MANY = 100_000  # Objects that were made meanwhile, beside which those do not count that others made just before

_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """No automatic collection meanwhile, in any thread; afterwards as before. May be nested."""
    global _pauses, _was_enabled
    with _lock:
        if _pauses == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _was_enabled:
                if gc.get_count()[0] >= _MANY and gc.get_freeze_count() == 0:  # what the application froze stays so
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
