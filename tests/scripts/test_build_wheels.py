"""Which Pythons wheels are made for, and what the script says where it cannot make any."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scripts import build_wheels
from scripts.cross.targets import TARGETS


def program(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_this_python_is_one() -> None:
    version = sys.version_info[:2]
    assert build_wheels.identity(sys.executable) == (version if version <= (3, 13) else None)
    assert build_wheels.found_pythons().get(version, sys.executable) == sys.executable


@pytest.mark.parametrize(
    "script",
    ["echo", "exit 1", "echo 3.11", """echo '["PyPy", 3, 11, false]'""", """echo '["CPython", 3, 9, false]'""",
     """echo '["CPython", 3, 14, false]'""", """echo '["CPython", 3, 13, true]'"""],
)  # fmt: skip
def test_others_are_not(tmp_path: Path, script: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = program(tmp_path, script)
    assert build_wheels.identity(other) is None
    assert build_wheels.main(["--python", other, "--output", str(tmp_path / "dist")]) == 1
    assert f"{other} is no CPython 3.10 to 3.13" in capsys.readouterr().err
    assert not (tmp_path / "dist").exists()


def test_one_of_each_version_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_wheels, "NAMES", ("python",))
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    other = program(tmp_path, """echo '["CPython", 3, 12, false]'""")
    found = build_wheels.found_pythons()
    if sys.version_info[:2] != (3, 12):
        assert found[3, 12] == other
    assert list(found) == sorted(found)


def test_a_step_that_fails_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_wheels, "made_environment", lambda *_: build_wheels.run(["false", "a", "b"]))
    assert build_wheels.main(["--python", sys.executable, "--output", os.devnull + "/x"]) == 1
    with pytest.raises(build_wheels.WheelError, match="exit status 1: false a b"):
        build_wheels.run(["false", "a", "b"])
    assert "build_wheels.py: " in capsys.readouterr().err


@pytest.mark.parametrize("platform", TARGETS)
def test_what_builds_for_another_system_is_looked_for_first(
    platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda name: None if "-linux-gnu-" in name or "mingw" in name else name)
    assert build_wheels.main(["--platform", platform, "--output", str(tmp_path / "dist")]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"build_wheels.py: {platform}: ") and " install " in said and said.count("\n") == 1, said
    assert not (tmp_path / "dist").exists()


def test_no_compiler_goes_out_without_its_licenses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "copyright"
    monkeypatch.setattr(build_wheels, "LICENSES", (missing,))
    monkeypatch.setattr(build_wheels, "run", lambda *_, **__: "built\n")
    with pytest.raises(build_wheels.WheelError, match=f"^the compiler's licences are not here: {missing} "):
        build_wheels.build_own(tmp_path, tmp_path / "pure.whl", tmp_path / "dist", tmp_path)


def test_a_first_result(capsys: pytest.CaptureFixture[str]) -> None:
    """What is run in the new environment works in this one."""
    exec(build_wheels.FIRST_RESULT, {})
    assert "a first result on " in capsys.readouterr().out
