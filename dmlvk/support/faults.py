"""Faults of dmlvk's own code, told apart from refusals.

A translator, a shape rule, a planner refuses by the exception of its level (``NotOnDevice``, ``NotLowered``, a
:class:`~dmlvk.errors.DmlError`). Anything else that comes out of it is a fault of dmlvk. A user's program goes on by
the other way that there is, and the log tells it with its traceback; where ``DMLVK_RAISE_FAULTS`` is ``1``, as in the
tests, it is raised::

    try:
        translate(node)
    except NotOnDevice:
        ...
    except Exception as error:  # noqa: BLE001 - told
        faults.report(error, f"translating {node.label}")
        ...  # as for a refusal
"""

from __future__ import annotations

import logging
import os
import threading
import traceback

_log = logging.getLogger("dmlvk")

_MOST_KINDS = 256  # Kinds that are told; a program with more of them has told enough

_lock = threading.Lock()
_kinds: set[tuple[str, str]] = set()

reported: list[str] = []
"""Where faults are raised: the traceback of each, for whoever checks that none was lost on its way (at most 256)."""


class FaultError(Exception):
    """A fault of dmlvk's own, where faults are raised; its cause is what went wrong."""


def are_raised() -> bool:
    """Whether faults are raised: ``DMLVK_RAISE_FAULTS`` is ``1``, for this process and those that it starts."""
    return os.environ.get("DMLVK_RAISE_FAULTS") == "1"


def raise_all() -> None:
    """From now on faults are raised, in this process and those that it starts: for programs that test dmlvk."""
    os.environ["DMLVK_RAISE_FAULTS"] = "1"


def report(error: Exception, what: str) -> None:
    """Tells a fault: logged at level WARNING with its traceback, once for each type of error and line of code.

    Args:
        error: what was raised, and is no refusal.
        what: what dmlvk was about, for the message: "translating Conv 'first'".

    Raises:
        FaultError: where faults are raised.
        MemoryError, RecursionError: as they came: these say nothing of the code.
        Exception: as it came, where a signal's handler raised it: it is the program's.
    """
    if isinstance(error, (MemoryError, RecursionError, FaultError)):
        raise error
    raise_of_handler(error)
    text = "".join(traceback.format_exception(error))
    if are_raised():
        if len(reported) < _MOST_KINDS:
            reported.append(f"{what}\n{text}")
        raise FaultError(f"{what}: {type(error).__name__}: {error}") from error
    with _lock:
        kind = type(error).__name__, _place(error)
        if kind in _kinds or len(_kinds) >= _MOST_KINDS:
            return
        _kinds.add(kind)
    _log.warning("a fault of dmlvk while %s; please report it (told once):\n%s", what, text.rstrip())


def raise_of_handler(error: Exception) -> None:
    """Raises an exception once more where the program's handler of a signal raised it, as those for time limits do.

    It comes between any two steps of Python, and so out of any code: it says nothing of what that code was about.
    Python calls a handler with the frame that it interrupts, which is the one before it in the traceback.

    Raises:
        Exception: the same one.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        interrupted, trace = trace.tb_frame, trace.tb_next
        for value in trace.tb_frame.f_locals.values():
            if value is interrupted or (isinstance(value, tuple) and any(item is interrupted for item in value)):
                raise error


def _place(error: Exception) -> str:
    """File and line of the innermost frame."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
