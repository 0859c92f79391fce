"""What takes long says so: lines at level INFO of the logger ``dmlvk``."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

_log = logging.getLogger("dmlvk")
_SECONDS_BETWEEN_LINES = 2.0

Item = TypeVar("Item")


def told(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The same items; how many are done is logged every two seconds, with an estimate of what is left.

    Args:
        items: whatever is worked on, one after the other.
        total: how many there are.
        what: what is done with them, after «300 of 1,000»: ``"kernels compiled"``.
    """
    began = said = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - said >= _SECONDS_BETWEEN_LINES:
            said = now
            left = (now - began) / done * (total - done)
            _log.info("%s of %s %s, about %.0f s left", f"{done:,}", f"{total:,}", what, left)
        yield item
