"""The program of the page «PyTorch on any GPU»."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")  # CI has it in a check of its own

PAGE = Path(__file__).parents[2] / "docs/how-to/pytorch.md"


def test_the_pages_program_learns(capsys: pytest.CaptureFixture[str]) -> None:
    program = re.search(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {}
    exec(compile(program[1], str(PAGE), "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    losses = [float(line.split()[1]) for line in printed[:10]]
    assert losses[-1] < 0.2 * losses[0] and printed[-1] == "torch.Size([32, 10])"


def test_an_installed_package_need_not_be_imported(tmp_path: Path) -> None:
    about = tmp_path / "dmlvk_points-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: dmlvk_points\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[torch_dynamo_backends]\ndmlvk = dmlvk.torch:backend\n")
    program = "import torch; print(torch.compile(torch.nn.ReLU(), backend='dmlvk')(-torch.ones(2)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "tensor([0., 0.])\n", done.stderr
