"""What docs/architecture.md says of the folders holds; the first pages are easy to read."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import os
import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PACKAGE = ROOT / "dmlvk"

MEASURING = ("dmlvk.conformance", "dmlvk.bench")  # Only the command, and these themselves, import them

AT_THE_TOP = {
    *(".ci", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "LICENSE", "README.md"),
    *("SECURITY.md", "pyproject.toml"),
    *("dmlvk", "docs", "examples", "scripts", "shaders", "tests"),
}
"""What git keeps at the top."""


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_name(path): path for room in ("dmlvk", "scripts", "tests") for path in sorted((ROOT / room).rglob("*.py"))}


def _imports(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Modules of the repository that code imports, those inside functions included, and those of types left out."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        yield from itertools.chain.from_iterable(map(_imports, node.orelse))
        return
    if isinstance(node, ast.Import):
        yield from ((alias.name, node.lineno) for alias in node.names if alias.name in MODULES)
    if isinstance(node, ast.ImportFrom) and node.module in MODULES:
        for alias in node.names:
            member = f"{node.module}.{alias.name}"
            yield (member if member in MODULES else str(node.module)), node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


@functools.cache
def _imports_of(name: str) -> dict[str, int]:
    """Each module that one imports, with the line."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    return {module: line for module, line in _imports(tree) if module != name}


def test_no_module_imports_itself_by_way_of_others() -> None:
    done: set[str] = set()
    way: list[str] = []

    def follow(name: str) -> None:
        if name in way:
            circle = [*way[way.index(name) :], name]
            steps = (f"{a}:{_imports_of(a)[b]} imports {b}" for a, b in itertools.pairwise(circle))
            raise AssertionError("modules import each other in a circle: " + ", ".join(steps))
        if name not in done:
            way.append(name)
            for other in _imports_of(name):
                follow(other)
            way.pop()
            done.add(name)

    for name in MODULES:
        follow(name)


def test_only_the_command_imports_what_measures() -> None:
    wrong = [
        f"{name}:{line} imports {module}"
        for name in MODULES
        for module, line in _imports_of(name).items()
        if module.startswith(MEASURING) and not name.startswith((*MEASURING, "dmlvk.cli", "scripts", "tests"))
    ]
    assert not wrong


def test_nothing_but_the_project_lies_at_the_top() -> None:
    """Commands that are tried leave files behind, which are easily committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {name.split("/")[0] for name in listed.split("\0") if name}
    assert found <= AT_THE_TOP, f"{sorted(found - AT_THE_TOP)} at the top of what git keeps"


def test_the_page_on_architecture_names_every_folder_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = {f"dmlvk/{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    families = {f"{path.parent.name}/" for path in (PACKAGE / "kernels").glob("*/__init__.py")}
    named = set(re.findall(r"`(dmlvk/\w+/)`", page))
    assert named == folders
    assert families <= set(re.findall(r"`(\w+/)`", page))


def test_the_page_names_the_folders_in_these_and_each_script() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    inner = {path.parent for path in PACKAGE.glob("*/*/__init__.py") if path.parents[1].name != "kernels"}
    inner |= {path.parent for path in (ROOT / "scripts").glob("*/*.*") if path.suffix in (".py", ".cpp")}
    wanted = {f"{path.relative_to(ROOT).as_posix()}/" for path in inner}
    wanted |= {path.name for path in (ROOT / "scripts").glob("*.*") if path.name != "__init__.py"}
    named = set(re.findall(r"`((?:scripts|dmlvk/\w+)/\w+/|\w+\.(?:py|sh))`", page))
    known = {path.name for path in PACKAGE.rglob("*.py")}
    assert wanted - named == set(), "which docs/architecture.md does not name"
    gone = {name for name in named - wanted - known if not (ROOT / name).is_dir()}
    assert gone == set(), "which docs/architecture.md names and nobody has"


def test_commands_can_be_typed_as_pages_have_them() -> None:
    begun = [path for path in (ROOT / "scripts").glob("*.*") if path.read_bytes().startswith(b"#!")]
    assert len(begun) > 20 and [path.name for path in begun if not os.access(path, os.X_OK)] == []


PUBLIC = ("dmlvk", "dmlvk.array_api", "dmlvk.dask", "dmlvk.language", "dmlvk.onnx")
"""What users import. A docstring elsewhere is there where it says more than names and types do."""


@pytest.mark.parametrize("package", PUBLIC)
def test_what_a_user_imports_says_what_it_is(package: str) -> None:
    module = importlib.import_module(package)
    exported = {name: getattr(module, name) for name in module.__all__}
    kinds = {name: each for name, each in exported.items() if inspect.isclass(each) or inspect.isfunction(each)}
    members = {
        f"{name}.{member}": getattr(kind, member)
        for name, kind in kinds.items()
        for member, each in vars(kind).items()
        if not member.startswith("_")
        and isinstance(each, (property, classmethod, staticmethod, type(_name)))
        and f" {member}: " not in (kind.__doc__ or "")
    }
    assert [name for name, each in (kinds | members).items() if not inspect.getdoc(each)] == []


def test_patterns_lie_in_folders_of_the_same_names_as_kernels() -> None:
    kernels = {path.parent.name for path in (PACKAGE / "kernels").glob("*/__init__.py")} - {"library"}
    assert {path.name for path in (ROOT / "shaders" / "patterns").iterdir() if path.is_dir()} == kernels


_FOLDERS = "how-to", "tutorials"

PAGES = (
    *("README.md", "CHANGELOG.md", "SECURITY.md", "docs/index.md", "docs/performance.md", "docs/architecture.md"),
    *("docs/contributing.md", "docs/onnx.md", "docs/accuracy.md"),
    *sorted(p.relative_to(ROOT).as_posix() for folder in _FOLDERS for p in (ROOT / "docs" / folder).glob("*.md")),
)

GENERATED = ("docs/accuracy.md", "docs/how-to/array-programs.md")
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
