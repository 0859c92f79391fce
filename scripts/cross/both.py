"""Runs the scripts whose results are compared, here and on another platform."""

from __future__ import annotations

import json
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
    bits, ended = bits_of(there, every)
    words = ("families", "--every", str(every))
    return compared((bits_of(_here, every)[0], bits), (_here(*words), there(*words)), ended)


def bits_of(run: Run, every: int) -> tuple[dict[str, str], dict[str, str]]:
    """Digests of all operators, also where one of them ends the process: those after it are run by another one.

    Args:
        run: a platform.
        every: each so many operators.

    Returns:
        digests by case; and what was said last by processes that ended within a case, by case, or by ``""`` where a
        process ended before any.
    """
    found: dict[str, str] = {}
    ended: dict[str, str] = {}
    while True:
        done = run("bits", "--every", str(every), "--skip", str(len(found) + len(ended)))
        begun = ""
        for line in done.stdout.splitlines():
            told = json.loads(line)
            begun = told.get("begun", "")
            if not begun:
                found[told["name"]] = told["sha256"]
        if done.returncode == 0:
            return found, ended
        ended[begun] = _reason(done.stderr)
        if not begun:
            return found, ended


def _reason(said: str) -> str:
    """The line that tells most: LLVM's error where there is one, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it says nothing"]
    return next((line for line in lines if "ERROR" in line), lines[-1])[:200]


def _here(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    script = str(Path(__file__).with_name(f"{name}.py"))
    return subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=False)
