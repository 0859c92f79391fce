"""The only module that imports Kompute (``kp``), and what is open in it when the process ends or is forked."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
import sysconfig
import weakref
from typing import Any, Protocol

from dmlvk.errors import UnsupportedError
from dmlvk.runtime.forked import end_without_exit_handlers
from dmlvk.runtime.vulkan import DeviceInfo


class Opened(Protocol):
    """A device that is open: :class:`dmlvk.runtime.kompute.Engine`."""

    info: DeviceInfo

    def close(self) -> None:
        """Frees everything; the second time nothing."""

    def leave_to_parent(self) -> None:
        """Forgets everything, and frees nothing."""


open_engines: weakref.WeakSet[Opened] = weakref.WeakSet()
"""Engines enter themselves, and leave when they are closed."""

drivers_of_parent: set[str] = set()
"""Of the devices that were open in the process from which this one was forked."""


@functools.cache
def kompute() -> Any:
    """Imports Kompute without the handler that it puts on the root logger.

    Raises:
        UnsupportedError: it is not installed, or was built for another Python or system.
    """
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        import kp
    except ImportError as error:
        here = f"Python {sys.version_info.major}.{sys.version_info.minor} on {sysconfig.get_platform()}"
        raise UnsupportedError(
            f"Kompute, which dmlvk stands on, cannot be loaded by {here}: {error}. Install the wheel for it: "
            "pip install --force-reinstall --find-links dist kp (scripts/build_wheels.py makes dist)"
        ) from error

    for handler in list(root.handlers):
        if handler not in handlers:
            root.removeHandler(handler)
    # Registered after Kompute's own handler and so run before it: devices go before what they stand on.
    atexit.register(close_open_engines)
    return kp


def close_open_engines() -> None:
    """Closes all engines that are open, as at the end of the process."""
    for engine in list(open_engines):
        engine.close()


def _leave_to_parent() -> None:
    """In a process that was forked: what its parent has opened is the parent's."""
    for engine in list(open_engines):
        engine.leave_to_parent()
        drivers_of_parent.add(engine.info.driver)
        end_without_exit_handlers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
