"""Small pieces of Markdown."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

NOTE = "<!-- Made by scripts/make_docs.py; changes belong there or into the operators' declarations. -->"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """A table; the columns named by number are aligned to the right."""
    rules = ["---:" if number in right else "---" for number in range(len(head))]
    return [f"| {' | '.join(head)} |", f"|{'|'.join(rules)}|", *(f"| {' | '.join(map(cell, row))} |" for row in rows)]


def with_table(text: str, lines: Sequence[str]) -> str:
    """A text with these lines in the place of the table that has the same head.

    Raises:
        ValueError: when there is none.
    """
    before, head, after = text.partition(f"{lines[0]}\n")
    if not head:
        raise ValueError(f"there is no table whose head is {lines[0]}")
    rest = itertools.dropwhile(lambda line: line.startswith("|"), after.splitlines(keepends=True))
    return before + "".join(f"{line}\n" for line in lines) + "".join(rest)


def rows_below(text: str, *titles: str) -> list[list[str]]:
    """The cells of the rows of the first table in a text whose head begins with these titles.

    Raises:
        ValueError: when there is none.
    """
    lines = iter(text.splitlines())
    begin = f"| {' | '.join(titles)} |"
    if not any(line.startswith(begin) for line in lines):
        raise ValueError(f"there is no table whose head begins with {begin}")
    next(lines)
    rows = (
        re.split(r"(?<!\\)\|", line)[1:-1] for line in itertools.takewhile(lambda line: line.startswith("|"), lines)
    )
    return [[each.strip().replace("\\|", "|") for each in row] for row in rows]


def anchor(heading: str) -> str:
    """How GitHub and others name a heading of letters, digits and underscores."""
    return heading.lower()


def page(lines: Iterable[str]) -> str:
    return "\n".join([NOTE, "", *lines]).rstrip() + "\n"
