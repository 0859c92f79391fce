"""What takes long says so: lines at level INFO of the logger ``dmlvk``, and in the last line of a terminal."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

_log = logging.getLogger("dmlvk")
_SECONDS_BETWEEN_LINES = 2.0

Item = TypeVar("Item")


def with_progress(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The same items; how many are done is told every two seconds, with an estimate of what is left.

    Args:
        items: whatever is worked on, one after the other.
        what: what is done with them, after «300 of 1,000»: ``"kernels compiled"``.
    """
    began = said = time.monotonic()
    is_shown = False
    try:
        for done, item in enumerate(items):
            now = time.monotonic()
            if done and now - said >= _SECONDS_BETWEEN_LINES:
                said = now
                left = (now - began) / done * (total - done)
                text = f"{done:,} of {total:,} {what}, about {left:.0f} s left"
                _log.info("%s", text)
                is_shown = _show(f"dmlvk: {text}") or is_shown
            yield item
    finally:
        if is_shown:
            _show("")


def _show(text: str) -> bool:
    """Shows a text in the last line of a terminal, instead of what was there; whether there is one."""
    if sys.stderr is None or sys.stderr.closed or not sys.stderr.isatty() or _log.isEnabledFor(logging.INFO):
        return False  # or the logger tells it
    with contextlib.suppress(OSError):  # the terminal was closed
        print(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True)
    return True
