"""Compiled shaders on disk by content: one file for each, named after a key of all that decides its bytes.

Several processes may use a store at the same time: a file comes into being in one step, and never changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from collections.abc import Collection
from pathlib import Path

KEPT_BYTES = 256 * 2**20
"""What modules that nobody needs at the moment may take; they serve again when a change is taken back."""

_SUFFIX = ".spvz"
_UNFINISHED = ".part"
_CHECKSUM_BYTES = 32


class Store:
    """A directory of compiled shaders.

    Args:
        directory: where they are or shall be; it is made when something is put there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, key: str) -> Path:
        """The file of a module."""
        return self.directory / file_name(key)

    def get(self, key: str) -> bytes | None:
        """A module; ``None`` where it is not there, or its file is damaged."""
        try:
            kept = self.path(key).read_bytes()
            module = zlib.decompress(kept[_CHECKSUM_BYTES:])
        except (OSError, zlib.error):
            return None
        return module if hashlib.sha256(module).digest() == kept[:_CHECKSUM_BYTES] else None

    def put(self, key: str, module: bytes) -> None:
        """Keeps a module.

        Raises:
            OSError: it cannot be written.
        """
        write(self.path(key), contents(module))

    def keys(self) -> set[str]:
        """The keys of all modules that have a file."""
        return {path.name.removesuffix(_SUFFIX) for path in _files(self.directory, f"*{_SUFFIX}")}

    def prune(self, needed: Collection[str], kept_bytes: int = KEPT_BYTES) -> int:
        """Deletes what killed processes left, and the oldest modules that are not needed beyond a number of bytes.

        Args:
            needed: keys of those that stay in any case.
            kept_bytes: how much of the others stays.

        Returns:
            how many modules were deleted.
        """
        files = []
        for path in _files(self.directory, f"*{_SUFFIX}"):
            if path.name.removesuffix(_SUFFIX) not in needed:
                with contextlib.suppress(OSError):  # another process may have deleted it
                    status = path.stat()
                    files.append((status.st_mtime_ns, status.st_size, path))
        size, deleted = 0, 0
        for _, file_size, path in sorted(files, reverse=True):
            size += file_size
            if size > kept_bytes:
                with contextlib.suppress(OSError):
                    path.unlink()
                    deleted += 1
        remove_unfinished(self.directory)
        return deleted


def _files(directory: Path, pattern: str) -> list[Path]:
    """The files of a directory; none where it may not be read, as that of another user."""
    try:
        return list(directory.glob(pattern))
    except OSError:
        return []


def file_name(key: str) -> str:
    """What a module's file is called."""
    return f"{key}{_SUFFIX}"


def contents(module: bytes) -> bytes:
    """What a module's file holds."""
    return hashlib.sha256(module).digest() + zlib.compress(module, 1)


def write(path: Path, written: bytes) -> None:
    """Writes a file in one step, whole or not at all; makes its directory.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.{os.getpid()}.", suffix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(written)
        os.chmod(name, 0o644)  # mkstemp's files are for their owner alone
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def remove_unfinished(directory: Path) -> None:
    """Deletes the files of processes that were killed while they wrote."""
    for path in _files(directory, f".*{_UNFINISHED}"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if not _is_running(int(path.name.split(".")[-3])):
                path.unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is somebody else's
    return True
