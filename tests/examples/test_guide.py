"""What the guide for those who come from Windows shows is run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dmlvk as dml
from dmlvk.models import load_model, run_model

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "moving-from-windows.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def test_model_file(device: dml.Device, tmp_path: Path) -> None:
    (text,) = (text for language, text in BLOCKS if language == "json")
    (tmp_path / "model.json").write_text(text, encoding="utf-8")
    lines: list[str] = []
    result = run_model(load_model(tmp_path / "model.json"), device, tmp_path, lines.append)
    assert (result.expectations, result.failures) == (1, 0), lines


@pytest.mark.parametrize("number", range(2))
def test_python(number: int, tmp_path: Path) -> None:
    text = [text for language, text in BLOCKS if language == "python"][number]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DMLVK_CACHE_DIR": str(tmp_path / "kernels")}
    subprocess.run([sys.executable, "-c", text], cwd=tmp_path, env=environment, check=True, timeout=300)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^)#]+)\)", GUIDE))))
def test_links_lead_to_files(path: str) -> None:
    assert (ROOT / "docs" / path).is_file()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`dml\.(\w+)", GUIDE))))
def test_names_are_there(name: str) -> None:
    assert hasattr(dml, name)
