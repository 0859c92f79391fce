"""The compiled library on disk: one file for each variant, and a manifest that says what belongs to it.

The manifest lists only files that are there and whole, and calls the library complete only when every variant is. A
run that has something to do takes that word back first and gives it again last, so that an interrupted run never
leaves a library that passes for complete.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1


class ManifestError(ValueError):
    """A manifest is missing or cannot be understood."""


@dataclass(frozen=True)
class Entry:
    """What the manifest says of one variant.

    Attributes:
        key: hash of all that decides the bytes; see ``Compiler.key``.
        sha256: hash of the bytes.
    """

    key: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Contents of the manifest.

    Attributes:
        compiler: version of glslang.
        flags: its options.
        complete: whether every variant of the project is in the library.
        entries: variants by name.
    """

    compiler: str
    flags: tuple[str, ...]
    complete: bool
    entries: Mapping[str, Entry]

    def to_json(self) -> str:
        """Write the manifest: sorted, so that equal libraries have equal manifests."""
        content = {
            "compiler": f"glslang {self.compiler}",
            "complete": self.complete,
            "flags": list(self.flags),
            "format": FORMAT,
            "variants": {name: {"key": e.key, "sha256": e.sha256} for name, e in self.entries.items()},
        }
        return json.dumps(content, sort_keys=True, indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Read a manifest.

        Raises:
            ManifestError: it is not JSON, of another format, or lacks something.
        """
        try:
            content: dict[str, Any] = json.loads(text)
            if content["format"] != FORMAT:
                raise ManifestError(f"format {content['format']!r} instead of {FORMAT}")
            return Manifest(
                str(content["compiler"]).removeprefix("glslang "),
                tuple(content["flags"]),
                bool(content["complete"]),
                {name: Entry(str(e["key"]), str(e["sha256"])) for name, e in content["variants"].items()},
            )
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ManifestError(f"not a manifest: {type(error).__name__}: {error}") from error


class Library:
    """A directory of compiled shaders.

    Args:
        directory: where they are or shall be.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest_path = directory / MANIFEST

    def path(self, name: str) -> Path:
        """Return the file of a variant."""
        return self.directory / f"{name}.spv"

    def read_manifest(self) -> Manifest:
        """Read the manifest.

        Raises:
            ManifestError: it is missing or cannot be understood.
        """
        try:
            text = self.manifest_path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ManifestError(f"{self.manifest_path} cannot be read: {error}") from error
        return Manifest.from_json(text)

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a variant, or None when there is no such file."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self) -> set[str]:
        """Return the names of the variants that have a file."""
        return {path.stem for path in self.directory.glob("*.spv")}

    def write(self, name: str, data: bytes) -> None:
        """Put a variant's bytes in place in one step."""
        _replace(self.path(name), data)

    def write_manifest(self, manifest: Manifest) -> None:
        """Put the manifest in place in one step, unless it is there already."""
        data = manifest.to_json().encode()
        if not self.manifest_path.is_file() or self.manifest_path.read_bytes() != data:
            _replace(self.manifest_path, data)

    def remove_leftovers(self) -> None:
        """Delete the temporary files of runs that were killed."""
        for path in self.directory.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Delete a variant's file."""
        self.path(name).unlink(missing_ok=True)


def sha256(data: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)
