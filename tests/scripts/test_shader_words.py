"""docs/shaders.md names every word that a pattern asks an operator's file for, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "shaders.md").read_text(encoding="utf-8")
PATTERNS = [
    path
    for path in (ROOT / "shaders").rglob("*.glsl")
    if path.name.startswith(("elementwise", "along_axes")) or path.name == "coefficients.glsl"
]
OPERATORS = [
    path for folder in ("elementwise", "activation", "lookup") for path in (ROOT / "shaders" / folder).iterdir()
]


def _asked_for() -> set[str]:
    """What patterns test for, and what operators' files define that patterns use."""
    tested: set[str] = set()
    for path in PATTERNS:
        text = path.read_text(encoding="utf-8")
        guard = re.findall(r"#ifndef (\w+_GLSL)", text)
        tested |= set(re.findall(r"^\s*#\s*(?:ifdef|ifndef)\s+(\w+)", text, re.MULTILINE)) - set(guard)
    used = "\n".join(path.read_text(encoding="utf-8") for path in PATTERNS)
    defined: set[str] = set()
    for path in OPERATORS:
        text = path.read_text(encoding="utf-8")
        taken_away = set(re.findall(r"^\s*#\s*undef (\w+)", text, re.MULTILINE))  # the file's own, for a few lines
        defined |= set(re.findall(r"^\s*#\s*define (\w+)", text, re.MULTILINE)) - taken_away
    return tested | {word for word in defined if re.search(rf"\b{word}\b", used)}


def _named() -> set[str]:
    return set(re.findall(r"`([A-Za-z][A-Za-z0-9_]+)(?:\(|`|<)", PAGE))


def test_every_word_that_patterns_ask_for_is_named() -> None:
    asked = {word for word in _asked_for() if not re.match(r"HAS_|INPUT_|FURTHER_|ATTRIBUTE_|FUSED_", word)}
    assert not sorted(asked - _named())


def test_every_word_that_is_named_is_in_the_shaders() -> None:
    others = {"Target", "PlainKernel", "precise"}
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "shaders").rglob("*") if path.suffix in (".glsl", ".comp")
    )
    missing = [word for word in _named() - others if not re.search(rf"\b{re.escape(word)}", text)]
    assert not sorted(missing)
