"""Reads the GLSL sources: which files include which, and a digest of everything that a shader is made of.

Each file is read once in a run, however many variants are made from it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dmlvk.kernels.library.glsl import INCLUDE_DIRECTORIES

HEAD = "#version 450\n#extension GL_GOOGLE_include_directive : require\n"
"""What every shader begins with; a source need not say it."""

OPERANDS = '#include "elementwise/elementwise_operands.glsl"'
PATTERN = '#include "elementwise/elementwise.glsl"'
"""Before and behind what defines OPERATION, unless it includes another pattern of these, or ends in another."""

_OPERATION = re.compile(r"^#define OPERATION\(", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_INCLUDE = re.compile(r'^(?:"([^"]+)"|<([^>]+)>)')


class SourceError(Exception):
    """A source or an include is missing, ambiguous or circular; the message names file and line."""


@dataclass(frozen=True)
class Directive:
    """A preprocessor line, comments and line continuations removed."""

    line: int  # line number, from 1
    name: str  # the word after ``#``
    text: str  # the rest


@dataclass(frozen=True)
class SourceFile:
    path: str  # path below the shader directory, with forward slashes
    text: str  # its contents

    @property
    def shader(self) -> str:
        """The text of a shader, with its head; lines keep their numbers."""
        return self.text if self._has_head else f"{HEAD}{self._before}#line 1\n{self.text}{self._behind}"

    @property
    def code(self) -> str:
        """What is compiled, without comments and empty lines."""
        head = HEAD if self.path.endswith(".comp") and not self._has_head else ""
        lines = f"{head}{self._before}{_COMMENT.sub(' ', self.text)}{self._behind}".splitlines()
        return "\n".join(line.rstrip() for line in lines if line.strip())

    @property
    def is_elementwise(self) -> bool:
        """Whether the pattern of element-wise operators follows."""
        return bool(self._behind)

    @cached_property
    def _before(self) -> str:
        return f"{OPERANDS}\n" if self._behind and '#include "elementwise/' not in self.text else ""

    @cached_property
    def _behind(self) -> str:
        is_operator = self.path.endswith(".comp") and _OPERATION.search(self.text) is not None
        ends = self.text.rstrip().rpartition("\n")[2].startswith("#include")
        return f"{PATTERN}\n" if is_operator and not ends else ""

    @property
    def _has_head(self) -> bool:
        return any(directive.name == "version" for directive in self.directives)

    @cached_property
    def directives(self) -> tuple[Directive, ...]:
        """The preprocessor lines, in order."""
        # Comments and continuations keep their line breaks' number, so that positions stay those of the file.
        joined = re.sub(r"((?:[^\n]*\\\n)+)([^\n]*)", _join_continuation, self.text)
        bare = _COMMENT.sub(lambda match: " " + "\n" * match[0].count("\n"), joined)
        whole, first = f"{self._before}{bare}{self._behind}", 0 if self._before else 1
        return tuple(
            Directive(whole.count("\n", 0, match.start()) + first, match[1], match[2])
            for match in _DIRECTIVE.finditer(whole)
        )

    @cached_property
    def includes(self) -> tuple[tuple[int, str], ...]:
        """Line and name of each ``#include``, in branches that are not taken too."""
        found = []
        for directive in self.directives:
            if directive.name == "include":
                found.append((directive.line, self.included_name(directive)))
        return tuple(found)

    def included_name(self, directive: Directive) -> str:
        """Return the file name in an ``#include`` line.

        Raises:
            SourceError: the line has no quoted name.
        """
        match = _INCLUDE.match(directive.text)
        if match is None:
            raise SourceError(f'{self.path}:{directive.line}: #include {directive.text}: expected a "name" in quotes')
        return match[1] or match[2]


class SourceTree:
    """The GLSL files below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, SourceFile] = {}
        self._resolved: dict[tuple[str, str], str] = {}
        self._closures: dict[str, tuple[str, ...]] = {}
        self._digests: dict[str, str] = {}

    def file(self, path: str) -> SourceFile:
        """Return a file by its path below the shader directory.

        Raises:
            SourceError: there is no such file, or it is not UTF-8.
        """
        if path not in self._files:
            try:
                text = (self.root / path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise SourceError(f"{path}: cannot be read: {error}") from error
            self._files[path] = SourceFile(path, text)
        return self._files[path]

    def resolve(self, includer: str, line: int, name: str) -> str:
        """Return the path of an included file.

        Args:
            line: line of the ``#include``, for messages.

        Raises:
            SourceError: no file has that name, or more than one could be meant.
        """
        if (includer, name) not in self._resolved:
            folders = dict.fromkeys([(self.root / includer).parent, *(self.root / d for d in INCLUDE_DIRECTORIES)])
            found = {path.resolve(): path for folder in folders if (path := folder / name).is_file()}
            if len(found) != 1:
                what = "found nowhere" if not found else f"ambiguous: {', '.join(sorted(map(str, found)))}"
                raise SourceError(f'{includer}:{line}: #include "{name}": {what}')
            (path,) = found
            if not path.is_relative_to(self.root.resolve()):
                raise SourceError(f'{includer}:{line}: #include "{name}" leads out of {self.root}')
            self._resolved[includer, name] = path.relative_to(self.root.resolve()).as_posix()
        return self._resolved[includer, name]

    def closure(self, path: str) -> tuple[str, ...]:
        """Return a file and all it includes, directly or not, sorted.

        Raises:
            SourceError: as ``file`` and ``resolve``.
        """
        if path not in self._closures:
            seen: set[str] = set()
            pending = [path]
            while pending:
                current = pending.pop()
                if current not in seen:
                    seen.add(current)
                    pending += [self.resolve(current, line, name) for line, name in self.file(current).includes]
            self._closures[path] = tuple(sorted(seen))
        return self._closures[path]

    def digest(self, path: str) -> str:
        """Return a hash over names and contents, without comments, of a file and all it includes.

        Raises:
            SourceError: as ``closure``.
        """
        if path not in self._digests:
            hasher = hashlib.sha256()
            for member in self.closure(path):
                contents = hashlib.sha256(self.file(member).code.encode("utf-8")).hexdigest()
                hasher.update(f"{member}\0{contents}\n".encode())
            self._digests[path] = hasher.hexdigest()
        return self._digests[path]

    def paths(self) -> list[str]:
        """Return every GLSL file below the shader directory, sorted."""
        suffixes = (".comp", ".glsl", ".glslh", ".h")
        return sorted(p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if p.suffix in suffixes)


def _join_continuation(match: re.Match[str]) -> str:
    """Put a continued line on its first line, and blank lines in place of the others."""
    return match[1].replace("\\\n", " ") + match[2] + "\n" * match[1].count("\\\n")
