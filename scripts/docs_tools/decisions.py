"""``docs/decisions.md``: what was decided where DirectML is silent, why, and which tests hold it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path

from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.operators import OPERATORS
from scripts.docs_tools.markdown import page, table


@dataclasses.dataclass(frozen=True)
class Theme:
    title: str  # its heading
    reason: str  # why it was decided so
    pattern: str  # what in a decision's words tells that it belongs here; themes are asked in order


_DATA = json.loads(Path(__file__).with_name("decisions.json").read_text("utf-8"))

THEMES = tuple(Theme(*each) for each in _DATA["themes"])

GENERAL: tuple[tuple[str, str, str], ...] = tuple((what, why, test) for what, why, test in _DATA["general"])
"""What holds for all operators: the decision, why, and the test that holds it."""

_INTRODUCTION = """# Where DirectML is silent

DirectML's pages leave questions open, and drivers answer them in different ways. Here is what dmlvk does, why, and what
holds it. Each decision stands in its operator's declaration; the reference function named beside it computes by it, and
`tests/operators/test_values.py` compares every device with the reference (every pattern of 8- and 16-bit types, special
values and sweeps of wider ones): `scripts/test.sh tests/operators/test_values.py -k CASES`."""


def theme_of(decision: str) -> Theme:
    """The first theme that a decision's words belong to; the last one takes all that are left."""
    return next(theme for theme in THEMES if re.search(theme.pattern, decision))


def decisions_page() -> str:
    by_decision: dict[str, list[str]] = {}
    for name, operator in sorted(OPERATORS.items()):
        for decision in operator.declaration.decisions:
            by_decision.setdefault(decision, []).append(name)
    lines = [*_INTRODUCTION.splitlines(), ""]
    for theme in THEMES:
        chosen = {decision: names for decision, names in by_decision.items() if theme_of(decision) is theme}
        if chosen:
            lines += [f"## {theme.title}", "", f"Why: {theme.reason}", ""]
            lines += [*table(["decision", "operators", "reference", "CASES"], map(_row, chosen.items())), ""]
    lines += ["## All operators", ""]
    lines += table(["decision", "why", "test"], ((what, why, f"`{test}`") for what, why, test in GENERAL))
    return page(lines)


def _row(decision: tuple[str, list[str]]) -> tuple[str, ...]:
    text, names = decision
    return text, _operators(names), _references(names), _tests(names)


def _short(name: str) -> str:
    return name.removeprefix("ELEMENT_WISE_")


def _operators(names: list[str]) -> str:
    return ", ".join(f"[{_short(name)}](operators.md#{name.lower()})" for name in names)


def _references(names: list[str]) -> str:
    """The functions in ``dmlvk/conformance/references/``, of few operators."""
    functions: dict[str, None] = {}
    for name in names:
        reference = REFERENCES[name]
        module = reference.__module__.removeprefix("dmlvk.conformance.references").lstrip(".")
        functions[f"`{module + '.' if module else ''}{reference.__name__}`"] = None
    return ", ".join(functions) if len(functions) <= 6 else "each its own"


def _tests(names: list[str]) -> str:
    return f'`"{" or ".join(f"{_short(name).lower()}-" for name in names)}"`' if len(names) <= 6 else "all"


def general_tests() -> Iterator[str]:
    for _, _, test in GENERAL:
        yield test
