"""Where files are kept from one run to the next, when there is such a place."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

_MOST_BYTES = 2**30
_CHECKSUM_BYTES = 32
_MESA_SWITCHES = ("MESA_SHADER_CACHE_DISABLE", "MESA_GLSL_CACHE_DISABLE")
_MESA_NEEDS = 16 * 2**20
"""Bytes: its index alone is a mapped file of more than a mebibyte."""


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
            chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
            # One that is relative is to be ignored (XDG Base Directory Specification): it would be a folder here.
            base = chosen if chosen.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "dmlvk" / name


def is_own(path: Path) -> bool:
    """Whether nobody but the user (and root) can have written what lies in a folder; also of one that is not there yet.

    What is kept there goes to the device as it is, so that whoever can write it decides about results.
    """
    if sys.platform == "win32":
        return True
    try:
        status = path.stat()
    except OSError:
        return True  # nothing is read from there
    is_users = status.st_uid in (os.geteuid(), 0)
    others = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid())
    return is_users and not others


def is_private(path: Path) -> bool:
    """Whether nobody but the user (and root) can have put a file where it is; also of one that is not there yet.

    Asked of a program, which is executed: of the file and of all folders above it, in which another user could put
    one of his own in its place, but for those where only a file's owner may do that (/tmp).
    """
    if sys.platform == "win32":
        return True
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError):  # links that lead in circles
        return False
    for place in (resolved, *resolved.parents):
        if is_own(place):
            continue
        status = place.stat()
        is_shared = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        if place == resolved or not is_shared or status.st_uid not in (os.geteuid(), 0):
            return False
    return True


def spare_full_disk() -> None:
    """Switches Mesa's cache of shaders off where its folder has no room: its driver would die of a signal (SIGBUS).

    To be called before the driver is loaded. What the environment says already stays.
    """
    if sys.platform == "win32" or any(name in os.environ for name in _MESA_SWITCHES):
        return
    chosen = os.environ.get("MESA_SHADER_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    folder = Path(chosen) if chosen else Path(os.path.expanduser("~")) / ".cache"
    while not os.path.exists(folder) and folder != folder.parent:  # pathlib raises for those of other users
        folder = folder.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    if free < _MESA_NEEDS:
        os.environ.update(dict.fromkeys(_MESA_SWITCHES, "true"))


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


def kept_contents(path: Path, key: str) -> bytes | None:
    """What :func:`keep_contents` wrote; ``None`` where there is no such file.

    Args:
        path: the file.
        key: what the contents follow from: a file under another one's name is damaged.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        whole = file_contents(path)
    except OSError:
        return None
    contents = whole[_CHECKSUM_BYTES:]
    if not contents or _checksum(key, contents) != whole[:_CHECKSUM_BYTES]:
        raise ValueError("its checksum is another one")
    return contents


def keep_contents(path: Path, key: str, contents: bytes) -> None:
    """Writes a file whole or not at all, also beside other processes; makes its folder.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_checksum(key, contents) + contents)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _checksum(key: str, contents: bytes) -> bytes:
    return hashlib.sha256(key.encode() + contents).digest()
