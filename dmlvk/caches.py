"""Where files are kept from one run to the next, when there is such a place."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_MOST_BYTES = 2**30


def user_cache(name: str) -> Path | None:
    """A folder in the user's cache directory; it may not exist yet.

    Args:
        name: of the folder.

    Returns:
        ``None`` where the user has no home directory, as in some containers: nothing is kept there.
    """
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return base / "dmlvk" / name


def file_contents(path: Path) -> bytes:
    """A regular file's bytes. Of anything else reading might never end: a pipe waits for somebody who writes.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger than any that is kept.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            raise OSError(f"{path} is no file that was kept")
        return file.read()
