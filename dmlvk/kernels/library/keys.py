"""Which content every variant must have now: found without reading a source, as long as nothing was touched.

A key says what a variant's bytes follow from: its sources, its macros, the compiler and its options. To compute all of
them takes half a second, so they are kept in a file, with the sizes and times of all files that they follow from.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dmlvk.kernels.library import glslang


def touched(directories: Iterable[tuple[Path, tuple[str, ...]]]) -> str:
    """A text that changes when a file is changed, comes or goes.

    Args:
        directories: where to look, with the ends of the names that count.
    """
    hasher = hashlib.sha256()
    for directory, suffixes in directories:
        for line in _files(str(directory), suffixes):
            hasher.update(line.encode())
    return hasher.hexdigest()


def _files(directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(suffixes):
            status = entry.stat()
            yield f"{entry.path}\0{status.st_size}\0{status.st_mtime_ns}\n"
        elif entry.is_dir() and not entry.name.startswith(("__", ".")):
            yield from _files(entry.path, suffixes)


def compilers() -> str:
    """A text that changes with the compilers at hand."""
    lines = []
    for path in glslang.candidates():
        status = os.stat(path)
        lines.append(f"{path}\0{status.st_size}\0{status.st_mtime_ns}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Keys:
    signature: str  # what they follow from, as :func:`touched` and :func:`compilers` tell it
    version: str  # of the compiler
    lines: str  # a line "NAME KEY" for each variant, with a line break before and behind

    @classmethod
    def of(cls, signature: str, version: str, keys: Mapping[str, str]) -> Keys:
        return cls(signature, version, "\n" + "".join(f"{name} {key}\n" for name, key in sorted(keys.items())))

    def find(self, variant_name: str) -> str | None:
        """A variant's key; ``None`` where there is no such variant."""
        start = self.lines.find(f"\n{variant_name} ")
        if start < 0:
            return None
        return self.lines[start + len(variant_name) + 2 : self.lines.index("\n", start + 1)]

    def by_name(self) -> dict[str, str]:
        return dict(line.split(" ") for line in self.lines.split("\n") if line)

    def to_text(self) -> str:
        return f"{self.signature}\n{self.version}{self.lines}"

    @classmethod
    def from_text(cls, text: str) -> Keys:
        signature, version, lines = text.split("\n", 2)
        return cls(signature, version, "\n" + lines)
