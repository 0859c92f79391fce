"""The pages that a newcomer reads first are easy to read: short lines, short sentences, narrow tables, no history."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_FOLDERS = "how-to", "tutorials"

PAGES = (
    *("README.md", "CHANGELOG.md", "SECURITY.md", "docs/index.md", "docs/performance.md", "docs/architecture.md"),
    *("docs/contributing.md", "docs/onnx.md", "docs/accuracy.md"),
    *sorted(p.relative_to(ROOT).as_posix() for folder in _FOLDERS for p in (ROOT / "docs" / folder).glob("*.md")),
)

GENERATED = ("docs/onnx.md", "docs/accuracy.md", "docs/how-to/array-programs.md")
"""Whose tables commands make of declarations and measurements, or read: their rows may be long."""

MOST_CHARACTERS, MOST_COLUMNS, MOST_WORDS = 120, 6, 25
LONGEST_SENTENCE = 45

HISTORY = re.compile(
    r"\d (?:ms |µs )?before\b(?! you)|\bbefore on\b|\bbefore\)|\b(?:was|were) wrong\b|\bit gave\b|\bended in\b"
    r"|\bmissed\b|\bformerly\b|\bpreviously\b|\bused to (?:be|have)\b|\bsince then\b|\basked, and\b"
    r"|\b(?:is|are) asked\b|\bno longer\b|\bhas been fixed\b",
    re.IGNORECASE,
)
"""Words of what was once: the notes have it."""

_FENCE = re.compile(r"^ *```(\w*)\n.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CELLS = re.compile(r"(?<!\\)\|")


def long_lines(text: str, are_rows_free: bool) -> list[str]:
    """Lines that are too long: not those of what a program prints, of an address, and of rows where these are free."""
    kept = _FENCE.sub(lambda block: "" if block[1] == "text" else block[0], text)
    return [
        line
        for line in kept.splitlines()
        if len(line) > MOST_CHARACTERS and "](http" not in line and not (are_rows_free and line.startswith("|"))
    ]


def wide_rows(text: str) -> list[str]:
    """Rows of tables with too many cells."""
    rows = [line for line in _FENCE.sub("", text).splitlines() if line.startswith("|")]
    return [row for row in rows if len(_CELLS.split(row.strip("|"))) > MOST_COLUMNS]


def sentences(text: str) -> list[str]:
    """The prose of a page: its paragraphs and points, without code, tables, headings and the targets of links."""
    prose = _LINK.sub(r"\1", re.sub(r"<!--.*?-->", "", _FENCE.sub("\n", text), flags=re.DOTALL))
    lines = ["" if re.match(r" *(\||#|\*[^*])", line) else line for line in prose.splitlines()]
    points = re.split(r"\n\s*\n|\n *(?:[-*]|\d+\.) ", "\n" + "\n".join(lines))
    found = (each.strip() for point in points for each in re.split(r"(?<=[.!?:;])\**\s+(?=\W*[A-Z0-9`*])", point))
    return [sentence for sentence in found if len(sentence.split()) > 2]


@pytest.mark.parametrize("name", PAGES)
def test_lines_are_short_and_tables_narrow(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert long_lines(text, name in GENERATED) == [], f"lines of {name} with more than {MOST_CHARACTERS} characters"
    assert wide_rows(text) == [], f"rows of {name} with more than {MOST_COLUMNS} columns"


def test_prose_of_all_pages_fits_a_screen() -> None:
    """Lines of all pages that people write, but for code and tables: an editor beside another has room for them."""
    reference = ROOT / "docs" / "reference"  # DirectML's own words are among it
    by_hand = [page for page in (ROOT / "docs").rglob("*.md") if "Made by" not in page.read_text(encoding="utf-8")[:30]]
    wide = {
        page.relative_to(ROOT).as_posix(): lines
        for page in by_hand
        if not page.is_relative_to(reference)
        and (lines := long_lines(_FENCE.sub("", page.read_text(encoding="utf-8")), True))
    }
    assert len(by_hand) > 20 and wide == {}


@pytest.mark.parametrize("name", PAGES)
def test_sentences_are_short(name: str) -> None:
    words = {each: len(each.split()) for each in sentences((ROOT / name).read_text(encoding="utf-8"))}
    assert statistics.median(words.values()) <= MOST_WORDS, f"the median of {name}, in words of a sentence"
    assert [each for each, count in words.items() if count > LONGEST_SENTENCE] == [], f"long sentences of {name}"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_holds_now(name: str) -> None:
    told = [sentence for sentence in sentences((ROOT / name).read_text(encoding="utf-8")) if HISTORY.search(sentence)]
    assert told == [], f"{name} tells history, which docs/notes/ has room for"


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"CHANGELOG.md"}))
def test_a_page_begins_with_prose_or_what_to_type(name: str) -> None:
    text = re.sub(r"^<!--.*?-->\s*", "", (ROOT / name).read_text(encoding="utf-8"))
    title, first = text.split("\n\n")[:2]
    assert title.startswith("# ") and not first.startswith(("|", "#", "!", "- ")), f"the beginning of {name}"
    assert len(first.split()) <= 80, f"the first paragraph of {name} is too long"


def test_the_changes_of_a_release_are_one_screen_or_two() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert len(section.rstrip().splitlines()) <= 60, f"CHANGELOG.md: {section.splitlines()[0]} has at most 60 lines"


def test_what_is_hard_to_read_is_found() -> None:
    page = (
        "# Page\n\nIt takes 5 ms (9 before). It was wrong once.\n\n| a | b | c | d | e | f | g |\n|---|\n\n" + "x" * 121
    )
    assert long_lines(page, False) == ["x" * 121]
    assert long_lines("```text\n" + "y" * 200 + "\n```\n", False) == []
    assert wide_rows(page) == ["| a | b | c | d | e | f | g |"]
    assert [bool(HISTORY.search(each)) for each in sentences(page)] == [True, True]
    assert sentences("- One [two](three.md) four five.\n- Six\n  seven eight.") == [
        "One two four five.",
        "Six\n  seven eight.",
    ]
