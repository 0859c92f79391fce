"""The pages that say how an operator is added are run as they stand there, and lead where they say."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in ("adding-an-operator.md", "adding-an-onnx-operator.md", "adding-a-torch-lowering.md")
}
PLACES = sorted(
    {
        (name, path)
        for name, page in PAGES.items()
        for path in re.findall(r"`((?:dmlvk|tests|scripts|shaders)/[\w/.]*)`", page)
    }
)


@pytest.mark.parametrize("name", PAGES)
def test_the_example_works(name: str, tmp_path: Path) -> None:
    if "torch" in name and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    text = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGES[name], re.MULTILINE | re.DOTALL))
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    path = os.pathsep.join([str(ROOT), *map(os.path.abspath, folders)])
    environment = {**os.environ, "PYTHONPATH": path, "DMLVK_CACHE_DIR": str(tmp_path / "kernels")}
    (tmp_path / "example.py").write_text(text, encoding="utf-8")  # PyTorch reads its functions' sources
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"print\(.*\)  # (.*)$", text, re.MULTILINE)
    assert " ".join(done.stdout.split()) == " ".join(shown)


@pytest.mark.parametrize(("name", "path"), PLACES)
def test_the_places_are_there(name: str, path: str) -> None:
    assert (ROOT / path).exists()
