"""Files that are read: regular ones. A named pipe that nobody writes to, or /dev/zero, would be read for ever."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from dmlvk.errors import InvalidArgumentError

_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""A named pipe is opened at once then; regular files do not care."""


def checked_path(path: object, what: str) -> Path:
    """A path that a caller gave.

    Args:
        path: a text, or anything with a path.
        what: what it is for, for the message.

    Raises:
        InvalidArgumentError: when it is no path of a file system.
    """
    try:
        return Path(path)  # type: ignore[arg-type]  # that is what is found out
    except TypeError as error:
        raise InvalidArgumentError(f"{what}: must be a path; got {path!r}") from error


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a regular file for reading.

    Raises:
        OSError: when it cannot be opened, or is something else.
        ValueError: when there is no such path (one with a zero byte).
    """
    handle = os.open(path, os.O_RDONLY | _NO_WAIT)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise OSError(f"{os.fspath(path)!r} is {kind}")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The contents of a regular file.

    Raises:
        OSError, ValueError: as for :func:`open_regular`.
    """
    with open_regular(path) as file:
        return file.read()


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuses what is there and is no regular file, for those who open it themselves.

    Raises:
        OSError: when it is something else; not when it is not there.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)!r} is {'a directory' if target.is_dir() else 'no regular file'}")


__all__ = ["check_regular", "checked_path", "open_regular", "read_bytes"]
