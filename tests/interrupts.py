"""Interrupts between any two steps of a module's functions, as signals' handlers raise them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """What a signal's handler raises."""


def interrupted(work: Callable[[], object], step: int, file: str | None) -> bool:
    """Whether work was interrupted before a step of a module's functions, counted from 0; else it had no more steps.

    Args:
        file: of the module.
    """
    left = step

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != file:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False
