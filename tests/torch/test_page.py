"""The program of the page «PyTorch on any GPU»."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")  # CI has it in a check of its own

PAGE = Path(__file__).parents[2] / "docs/how-to/pytorch.md"


def test_the_pages_program_learns(capsys: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()
    program = re.search(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {}
    exec(compile(program[1], str(PAGE), "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    losses = [float(line.split()[1]) for line in printed[:10]]
    assert losses[-1] < 0.2 * losses[0] and printed[-1] == "torch.Size([32, 10])"
