"""The README's Python runs as it stands, one block after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_python_blocks_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, Python block {number + 1}", "exec"), names)
    shown = re.findall(r"print\(.*?# (.*)", "".join(blocks))
    numbers = [re.findall(r"-?\d+\.?", text) for text in ("".join(shown), capsys.readouterr().out)]
    assert numbers[0] == numbers[1] != []
    names["device"].close()


def test_it_is_one_screen() -> None:
    """What it is, how to try it, what works, how exact and how fast it is; all else is in docs/."""
    text = README.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)", text, re.M) == ["Try it", "What runs, and how fast", "How exact", "Read on"]
    assert len(text.splitlines()) <= 100
    prose = re.sub(r"^```text.*?^```", "", text, flags=re.M | re.S)
    assert max(map(len, prose.splitlines())) <= 120
    assert "](docs/pictures/" in text
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (README.parent / target).exists(), f"README.md leads to {target}, which is not there"
