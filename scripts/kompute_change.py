"""What a change to a package's source is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class ChangeError(Exception):
    """A text that a change replaces is not there, or more than once."""


@dataclass(frozen=True)
class Replacement:
    """One replacement of text in Kompute's source; ``old`` must occur exactly once.

    Attributes:
        path: of the file, in the source distribution.
        old: what is replaced.
        new: what takes its place.
    """

    path: str
    old: str
    new: str

    def apply(self, source: Path) -> None:
        """Makes the replacement in the source tree at ``source``.

        Raises:
            ChangeError: the text to replace is not there, or more than once.
        """
        file = source / self.path
        text = file.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ChangeError(f"expected one {self.old!r} in {self.path}, found {text.count(self.old)}")
        file.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True)
class Change:
    """One change of behaviour.

    Attributes:
        name: in a few words.
        why: what it is good for, with the figures that were measured.
        replacements: in order.
    """

    name: str
    why: str
    replacements: tuple[Replacement, ...]
