"""The only module that imports Kompute, and what is open in it when the process ends or is forked.

Kompute is the library in this package (:mod:`dmlvk.runtime.bundled`), or ``kp`` as it is on PyPI: where there is no
library, or where ``DMLVK_KOMPUTE=kp`` asks for it.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import platform
import sys
import sysconfig
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from dmlvk.errors import UnsupportedError
from dmlvk.runtime.forked import end_without_exit_handlers
from dmlvk.runtime.kompute_choice import LIBRARY, is_bundled

if TYPE_CHECKING:
    from dmlvk.runtime.vulkan import DeviceInfo


KOMPUTE_VERSION = "0.9.0"


class Opened(Protocol):
    """A device that is open: :class:`dmlvk.runtime.kompute.Engine`."""

    info: DeviceInfo

    def close(self) -> None:
        """Frees everything; the second time nothing."""

    def leave_to_parent(self) -> None:
        """Forgets everything, and frees nothing."""


open_engines: weakref.WeakSet[Opened] = weakref.WeakSet()  # Engines enter themselves, and leave when they are closed

drivers_of_parent: set[str] = set()  # Of the devices that were open in the process from which this one was forked


@functools.cache
def kompute() -> Any:
    """Kompute.

    Raises:
        UnsupportedError: it is not installed, or was built for another Python or system.
    """
    module = _bundled() if is_bundled() else _installed()
    # Registered after Kompute's own handler and so run before it: devices go before what they stand on.
    atexit.register(close_open_engines)
    return module


def _bundled() -> Any:
    try:
        from dmlvk.runtime import bundled
    except (ImportError, OSError) as error:
        raise UnsupportedError(_why_not(error)) from error
    return bundled


def _why_not(error: Exception) -> str:
    """One line: why the library is not loaded here, and what to do."""
    here = f"Python {sys.version_info.major}.{sys.version_info.minor} on {sysconfig.get_platform()}"
    if not LIBRARY.is_file():
        return (
            f"Kompute, which dmlvk stands on, is not in this installation ({here}): {LIBRARY.name} is missing. Install "
            "dmlvk's wheel for this system (pip install --force-reinstall dmlvk), or in a checkout run "
            "scripts/build_kompute.py"
        )
    libc = " ".join(filter(None, platform.libc_ver()))
    served = "Linux with glibc 2.28 or newer, Windows 10 or newer, macOS 13 or newer"
    return (
        f"Kompute, which dmlvk stands on, cannot be loaded by {here}{f' with {libc}' if libc else ''}: {error}. "
        f"dmlvk's wheels serve {served}; in a checkout scripts/build_kompute.py builds it for this system"
    )


def _installed() -> Any:
    """Imports ``kp`` without the handler that it puts on the root logger."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        import kp
    except ImportError as error:
        here = f"Python {sys.version_info.major}.{sys.version_info.minor} on {sysconfig.get_platform()}"
        raise UnsupportedError(
            f"kp, for which DMLVK_KOMPUTE=kp asks, cannot be loaded by {here}: {error}. Without the variable "
            "dmlvk takes the Kompute that is in its wheel"
        ) from error

    for handler in list(root.handlers):
        if handler not in handlers:
            root.removeHandler(handler)
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
