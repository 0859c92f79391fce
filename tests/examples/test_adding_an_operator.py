"""The page that says how an operator is added is run as it stands there, and leads where it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding-an-operator.md").read_text(encoding="utf-8")


def test_the_example_works(tmp_path: Path) -> None:
    text = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DMLVK_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"print\(.*?\)  # (.*)$", text, re.MULTILINE)
    assert " ".join(done.stdout.split()) == " ".join(shown)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:dmlvk|tests|scripts|shaders)/[\w/.]*)`", PAGE))))
def test_the_places_are_there(path: str) -> None:
    assert (ROOT / path).exists()
