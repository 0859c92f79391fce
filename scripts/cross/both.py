"""Runs the scripts whose results are compared, here and on another platform."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.cross.platform_table import compared

SCRIPTS = ("bits", "families")

Run = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs the other platform's Python with a script of this folder, by its name, and arguments."""


def run_both(there: Run, every: int) -> dict[str, Any]:
    """What is the same on both; see :func:`scripts.cross.platform_table.compared`.

    Args:
        there: the other platform.
        every: each so many operators, and each so many operator families.
    """
    words = ["--every", str(every)]
    pairs = {}
    for name in SCRIPTS:
        script = str(Path(__file__).with_name(f"{name}.py"))
        here = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=False)
        pairs[name] = (here, there(name, *words))
    return compared(pairs)
