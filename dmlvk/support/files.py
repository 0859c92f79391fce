"""Files that are read, regular ones, and files that are written as a whole or not at all.

A named pipe that nobody writes to, or /dev/zero, would be read for ever.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
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
            raise (IsADirectoryError if kind == "a directory" else OSError)(f"{os.fspath(path)!r} is {kind}")
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


def check_writable(path: str | os.PathLike[str]) -> None:
    """Tells before long work that its results cannot be written to a file; what lies in /dev is left to the writer.

    Raises:
        OSError: when the file's folder is missing or may not be written to, or the path leads to something else.
        ValueError: when there is no such path (one with a zero byte).
    """
    target = Path(path)
    with contextlib.suppress(FileNotFoundError):
        is_device = stat.S_ISCHR(target.stat().st_mode)  # one that may not be a file's name raises OSError
        if is_device or target.absolute().parts[:2] == ("/", "dev"):
            return
    check_regular(target)
    folder = target.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{os.fspath(path)!r}: there is no such directory")
    if not os.access(target if target.exists() else folder, os.W_OK):
        raise PermissionError(f"{os.fspath(path)!r} may not be written")


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that is written as a whole or not at all: what was there before stays where a disk is full.

    Args:
        path: the file; a device (/dev/stdout) and a file whose folder takes no others are written to directly.

    Raises:
        OSError: when it cannot be written.
    """
    given = Path(path)  # what /dev/stdout leads to has no name, where it is a pipe
    target = given.resolve()
    if given.exists() and not (given.is_file() and os.access(target.parent, os.W_OK)):
        with given.open("wb") as file:
            yield file
        return
    part = target.with_name(f".{os.getpid()}-{threading.get_ident()}.part")
    try:
        with part.open("wb") as file:
            yield file
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text in UTF-8, as :func:`written_whole` does.

    Raises:
        OSError: when it cannot be written.
    """
    with written_whole(path) as file:
        file.write(text.encode())
