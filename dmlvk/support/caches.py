"""Where files are kept from one run to the next, when there is such a place."""

from __future__ import annotations

import contextlib
import functools
import hmac
import logging
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_MOST_BYTES = 2**30
_SIGNATURE_BYTES = 32
_SECRET_BYTES = 32
UNFINISHED = ".part"  # How the names of files end that are being written; the number before the last is the process's

_MESA_SWITCHES = ("MESA_SHADER_CACHE_DISABLE", "MESA_GLSL_CACHE_DISABLE")
_MESA_NEEDS = 16 * 2**20  # Bytes: its index alone is a mapped file of more than a mebibyte


def user_cache(name: str) -> Path | None:
    """A folder in the user's cache directory; it may not exist yet.

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


_log = logging.getLogger("dmlvk")


def cache_directory() -> Path | None:
    """Where compiled kernels and trials of devices are kept: ``DMLVK_CACHE_DIR``, or the user's cache; ``None`` when
    there is no such place.
    """
    chosen = os.environ.get("DMLVK_CACHE_DIR")
    directory = Path(chosen) if chosen else user_cache("kernels")
    if directory is not None and not is_own(directory):
        _warn_of(directory)
        return None
    return directory


@functools.lru_cache(maxsize=8)  # once for each
def _warn_of(directory: Path) -> None:
    _log.warning(
        "%s: kernels are not kept there: the folder must be the user's own, and no other user may write to it",
        directory,
    )


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
        key: what the contents follow from: a file under another one's name is damaged.

    Raises:
        ValueError: the file is damaged, or was not written by this user with this cache.
    """
    try:
        whole = file_contents(path)
    except OSError:
        return None
    contents = whole[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(_signature(path, key, contents), whole[:_SIGNATURE_BYTES]):
        raise ValueError("it is not what was written here")
    return contents


def keep_contents(path: Path, key: str, contents: bytes) -> None:
    """Writes a file with a signature, so that only this user's dmlvk can have written what is read from it.

    In this package, whose code is as well trusted, it is a digest.

    What is kept goes to a driver as it is, which a single wrong word can crash: a checksum, which anybody can compute,
    would not tell.

    Raises:
        OSError: it cannot be written.
    """
    write(path, _signature(path, key, contents) + contents)


def write(path: Path, contents: bytes, mode: int = 0o644) -> None:
    """Writes a file whole or not at all, also beside other processes; makes its folder.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.{os.getpid()}.", suffix=UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
        os.chmod(name, mode)  # mkstemp's files are for their owner alone
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _signature(path: Path, key: str, contents: bytes) -> bytes:
    # What lies in the package is trusted as its code is, and goes wherever that goes: to another machine, or user.
    secret = b"" if path.is_relative_to(_PACKAGE) else _secret(cache_directory())
    return hmac.digest(secret, key.encode() + b"\0" + contents, "sha256")


@functools.lru_cache(maxsize=8)
def _secret(directory: Path | None) -> bytes:
    """Random bytes that only the user can read: kept beside what they sign, so that both last equally long.

    Where they cannot be kept they are this process's, and other processes trust nothing that it has written.
    """
    made = os.urandom(_SECRET_BYTES)
    if directory is None:
        return made
    path = directory / "secret"
    with contextlib.suppress(OSError):
        if (kept := _secret_of(path)) is None:
            write(path, made, 0o600)
            kept = _secret_of(path)  # another process may have written one at the same time
        return kept or made
    return made


def _secret_of(path: Path) -> bytes | None:
    """The secret in a file; ``None`` where it is none, or others could have read or written it."""
    try:
        secret = file_contents(path)
        is_secret = sys.platform == "win32" or not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    except FileNotFoundError:
        return None
    return secret if len(secret) == _SECRET_BYTES and is_secret and is_own(path) else None
