"""Compiled shaders on disk by content: one file for each, named after a key of all that decides its bytes.

Several processes may use a store at the same time: a file comes into being in one step, and never changes.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Collection
from pathlib import Path

from dmlvk.support.caches import UNFINISHED, keep_contents, kept_contents
from dmlvk.support.processes import is_running

KEPT_BYTES = 256 * 2**20
"""What modules that nobody needs at the moment may take; they serve again when a change is taken back."""

_SUFFIX = ".spvz"


class Store:
    """A directory of compiled shaders.

    Args:
        directory: where they are or shall be; it is made when something is put there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, key: str) -> Path:
        return self.directory / f"{key}{_SUFFIX}"

    def get(self, key: str) -> bytes | None:
        """A module; ``None`` where it is not there, or its file is damaged or somebody else's."""
        try:
            kept = kept_contents(self.path(key), key)
        except ValueError:
            return None
        return None if kept is None else zlib.decompress(kept)

    def put(self, key: str, module: bytes) -> None:
        """Keeps a module.

        Raises:
            OSError: it cannot be written.
        """
        keep_contents(self.path(key), key, zlib.compress(module, 1))

    def keys(self) -> set[str]:
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


def remove_unfinished(directory: Path) -> None:
    """Deletes the files of processes that were killed while they wrote."""
    for path in _files(directory, f".*{UNFINISHED}"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if not is_running(int(path.name.split(".")[-3])):
                path.unlink()
