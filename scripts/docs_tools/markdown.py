"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTE = "<!-- Made by scripts/make_docs.py; changes belong there or into the operators' declarations. -->"


def cell(text: str) -> str:
    """Text for a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """A table; the columns named by number are aligned to the right."""
    rules = ["---:" if number in right else "---" for number in range(len(head))]
    return [
        f"| {' | '.join(head)} |",
        f"|{'|'.join(rules)}|",
        *(f"| {' | '.join(map(cell, row))} |" for row in rows),
    ]


def anchor(heading: str) -> str:
    """How GitHub and others name a heading of letters, digits and underscores."""
    return heading.lower()


def page(lines: Iterable[str]) -> str:
    """A whole file."""
    return "\n".join([NOTE, "", *lines]).rstrip() + "\n"
