"""Which tests ``scripts/test.sh`` runs follows from its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "test.sh"

QUICK, TURNS, MEASURE = "quick", "turns", "measure"


@pytest.mark.skipif(sys.platform != "linux", reason="it is for Debian and Ubuntu")
@pytest.mark.parametrize(
    ("arguments", "extent", "given_on"),
    [
        ("", {QUICK, TURNS}, ""),
        ("--quick", {QUICK, TURNS}, ""),
        ("-k sign", {QUICK, TURNS}, "-k sign"),
        ("-x -k sign", {QUICK, TURNS}, "-x -k sign"),
        ("--quick tests/unit -n 0", {QUICK, TURNS}, "tests/unit -n 0"),
        ("--all", {TURNS}, ""),
        ("--all -n 0 tests/unit", {TURNS}, "-n 0 tests/unit"),
        ("--every-driver", set(), ""),
        ("tests/unit -k sign", set(), "tests/unit -k sign"),
        ("-k sign tests/unit", set(), "-k sign tests/unit"),
        ("-x tests/unit/a.py::test_one", set(), "-x tests/unit/a.py::test_one"),
        ("--measure", {QUICK, TURNS, MEASURE}, ""),
    ],
)
def test_arguments_choose_the_extent(tmp_path: Path, arguments: str, extent: set[str], given_on: str) -> None:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "a.py").touch()
    told = 'echo "<${DMLVK_TEST_QUICK:+quick} ${DMLVK_TEST_TURNS:+turns} ${DMLVK_TEST_MEASURE:+measure}> $*"'
    for name, text in {"scripts/setup.sh": "", ".venv/bin/python": told}.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        program.chmod(0o755)
    shutil.copy(SCRIPT, tmp_path / "scripts" / "test.sh")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DMLVK_") and name != "CI"}
    environment["DMLVK_TEST_SWIFTSHADER_ICD"] = "a file"
    done = subprocess.run(
        [tmp_path / "scripts" / "test.sh", *arguments.split()],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    line = done.stdout.splitlines()[-1]
    words, _, command = line.partition("> ")
    assert set(words[1:].split()) == extent
    assert command.startswith("-m pytest -n auto ")
    assert command.endswith(f"--dist {'load' if QUICK in extent else 'worksteal'} {given_on}".rstrip())
