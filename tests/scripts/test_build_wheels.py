"""Which Pythons wheels are made for, and what the script says where it cannot make any."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scripts import build_wheels
from scripts.cross import parts
from scripts.cross.targets import TARGETS, CrossBuildError


def program(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_this_python_is_one() -> None:
    version = sys.version_info[:2]
    assert build_wheels.identity(sys.executable) == version
    assert build_wheels.found_pythons().get(version, sys.executable) == sys.executable


@pytest.mark.parametrize(
    "script", ["echo", "exit 1", "echo 3.11", """echo '["PyPy", 3, 11]'""", """echo '["CPython", 3, 9]'"""]
)
def test_others_are_not(tmp_path: Path, script: str) -> None:
    assert build_wheels.identity(program(tmp_path, script)) is None


def test_one_of_each_version_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_wheels, "NAMES", ("python",))
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    other = program(tmp_path, """echo '["CPython", 3, 12]'""")
    found = build_wheels.found_pythons()
    if sys.version_info[:2] != (3, 12):
        assert found[3, 12] == other
    assert list(found) == sorted(found)


def test_a_step_that_fails_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_wheels, "tools_python", lambda: build_wheels.run(["false", "a", "b"]))
    assert build_wheels.main(["--output", os.devnull + "/x"]) == 1
    assert capsys.readouterr().err.endswith("build_wheels.py: exit status 1: false a b …\n")


def test_no_part_of_others_goes_out_without_its_license(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "zig_folder", lambda: tmp_path)
    monkeypatch.setattr(parts, "zig_version", lambda: "1.0")
    with pytest.raises(CrossBuildError, match=rf"^licences of what .* are not here: {tmp_path}/LICENSE"):
        parts.parts(TARGETS["win_arm64"], tmp_path / "kompute.dll", tmp_path / "dmlvk-glslang.exe")


def test_a_first_result(capsys: pytest.CaptureFixture[str]) -> None:
    """What is run in the new environment works in this one."""
    exec(build_wheels.FIRST_RESULT, {})
    assert "a first result on " in capsys.readouterr().out
