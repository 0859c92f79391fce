"""What an exhaustive run has finished, kept on disk: an interrupted run goes on where it stopped."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any

from dmlvk.support.caches import file_contents

_FORMAT = 1


def usable_directory(directory: Path | None) -> Path | None:
    """The directory, made where it is missing; ``None`` where it cannot be written."""
    if directory is not None:
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            if os.access(directory, os.W_OK | os.X_OK):
                return directory
    return None


class RunState:
    """The finished chunks of one operator on one device.

    A state belongs to what it was made by: device, driver, shader, references. One of anything else is refused.

    Args:
        directory: where to keep it, made when the first chunk is stored; ``None``: it is not kept.
        name: what is measured; becomes the file's name.
        identity: everything that the results depend on.
    """

    def __init__(self, directory: Path | None, name: str, identity: dict[str, str]) -> None:
        file = f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}.json"
        self.path = None if directory is None else directory / file  # the file; ``None`` where nothing is kept
        self.chunks: dict[int, dict[str, Any]] = {}  # what was stored, by number
        # why the file that was found is not used; None when there was none, or it is used
        self.refusal: str | None = None
        self._identity = identity
        if self.path is None:
            return
        try:
            text = file_contents(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            self.refusal = f"it cannot be read ({error})"
            return
        try:
            found = json.loads(text)
            if found["format"] != _FORMAT:
                self.refusal = f"it has format {found['format']}, not {_FORMAT}"
            elif found["identity"] != identity:
                self.refusal = f"it is of another {_first_difference(found['identity'], identity)}"
            else:
                self.chunks = {int(number): chunk for number, chunk in found["chunks"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.refusal = f"it cannot be read ({type(error).__name__}: {error})"

    def store(self, number: int, chunk: dict[str, Any]) -> None:
        """Adds a finished chunk. The file changes in one step: it is never there by halves."""
        self.chunks[number] = chunk
        if self.path is None:
            return
        document = {"format": _FORMAT, "identity": self._identity, "chunks": self.chunks}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(json.dumps(document), encoding="utf-8")
            os.replace(temporary, self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def remove(self) -> None:
        """Deletes the file: what it was kept for is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _first_difference(found: dict[str, str], wanted: dict[str, str]) -> str:
    for key, value in wanted.items():
        if found.get(key) != value:
            return f"{key.replace('_', ' ')} ({found.get(key)}, now {value})"
    return "kind"
