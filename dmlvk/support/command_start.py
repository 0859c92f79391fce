"""Ctrl-C while the command ``dmlvk`` is being imported ends it as later ones do: quietly, with status 130.

Nothing here is done in a program that imports dmlvk.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

_EXIT_INTERRUPTED = 130


def _is_command(arguments: list[str]) -> bool:
    """Whether this process is ``dmlvk`` or ``python -m dmlvk``."""
    if "-m" in arguments[1:]:
        return arguments[arguments.index("-m", 1) + 1 :][:1] == ["dmlvk"]
    return any(os.path.basename(argument) == "dmlvk" for argument in arguments[:2])


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(_EXIT_INTERRUPTED)


def begins() -> None:
    """Called before anything else is imported, which is why nothing is imported here that takes a moment itself."""
    if _is_command(sys.orig_argv) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _handle(_end)


def is_imported() -> None:
    """From now on the command itself sees to it."""
    if signal.getsignal(signal.SIGINT) is _end:
        _handle(signal.default_int_handler)


def _handle(handler: Callable[[int, FrameType | None], object]) -> None:
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:
        return  # in another thread than the main one, which alone may say so: it is no command then
