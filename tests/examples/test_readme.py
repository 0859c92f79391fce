"""The README's Python runs as it stands, one block after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

README = Path(__file__).parents[2] / "README.md"


def test_python_blocks_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 3
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, Python block {number + 1}", "exec"), names)
    shown = re.findall(r"print\(.*?# (.*)", "".join(blocks))
    numbers = [re.findall(r"-?\d+\.?", text) for text in ("".join(shown), capsys.readouterr().out)]
    assert numbers[0] == numbers[1] != []
    x, y = names["pixels"], names["y"]
    assert np.abs(y - np.clip(2 * np.tanh(x) + names["biases"], 0, 1)).max() < 1e-6
    names["device"].close()
