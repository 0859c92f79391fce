"""What a release needs: versions, wheels, patches of Kompute; which tests a command runs."""

from __future__ import annotations

import datetime
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import build_wheels, release
from scripts.build_kompute import apply_patch, patches
from scripts.check_array_api import PAGE, expected_failures, judged, matches
from scripts.cross import parts
from scripts.cross.targets import TARGETS, CrossBuildError

FILES = {
    "pyproject.toml": '[project]\nversion = "0.1.0"\n\n[project.urls]\nRepository = "https://example.org/dmlvk"\n',
    "dmlvk/__init__.py": '__version__ = "0.1.0"\n',
    "CHANGELOG.md": "# Changes\n\n## 0.2.0, not released yet\n\n### New\n- one thing\n\n## 0.1.0, 2026-01-01\n- old\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "dmlvk").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for words in (
        ["init", "--quiet"], ["config", "user.name", "A"], ["config", "user.email", "a@example.org"],
        ["config", "commit.gpgsign", "false"], ["add", "."], ["commit", "--quiet", "-m", "all"], ["tag", "v0.1.0"],
    ):  # fmt: skip
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_version_date_commit_and_tag_follow(checkout: Path) -> None:
    assert release.main(["0.2.0", "--check"], checkout) == 0
    release.write_version("0.2.0", checkout, datetime.date(2026, 2, 3))
    release.commit("0.2.0", checkout)
    release.tag("0.2.0", checkout)
    assert 'version = "0.2.0"' in (checkout / "pyproject.toml").read_text()
    assert '__version__ = "0.2.0"' in (checkout / "dmlvk/__init__.py").read_text()
    assert "## 0.2.0, 2026-02-03\n" in (checkout / "CHANGELOG.md").read_text()
    said = release.git(checkout, "tag", "--list", "--format=%(contents)", "v0.2.0")
    assert said.strip() == "dmlvk 0.2.0\n\n### New\n- one thing"
    assert release.git(checkout, "rev-parse", "v0.2.0^{commit}") == release.git(checkout, "rev-parse", "HEAD")


def test_what_does_not_build_gets_no_tag_and_is_begun_again(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(version: str, root: Path) -> list[Path]:
        raise release.ReleaseError("it does not compile")

    monkeypatch.setattr(release, "built", fails)
    assert release.main(["0.2.0"], checkout) == 1
    assert release.git(checkout, "tag", "--list") == "v0.1.0\n"
    monkeypatch.setattr(release, "built", lambda version, root: [])
    assert release.main(["0.2.0"], checkout) == 0
    assert release.git(checkout, "tag", "--list") == "v0.1.0\nv0.2.0\n"


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("CHANGELOG.md", "# Changes\n", "CHANGELOG.md has no section 0.2.0"),
        ("CHANGELOG.md", "## 0.2.0\n" + "- a\n" * 61, "section 0.2.0 has 61 lines, more than 60"),
        ("CHANGELOG.md", "## 0.2.0\n- " + "a" * 130, "a line of 132 characters"),
        ("pyproject.toml", 'version = "0.1.0"\n[project.urls]\n', "[project.urls] has no address"),
    ],
)
def test_what_is_in_the_way_is_named_and_nothing_changed(
    checkout: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    (checkout / name).write_text(text)
    assert release.main(["0.2.0"], checkout) == 1
    errors = capsys.readouterr().err
    assert f"uncommitted: {name}" in errors and said in errors
    assert (checkout / "dmlvk/__init__.py").read_text() == FILES["dmlvk/__init__.py"]


def test_an_old_version_is_refused(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["0.1.0"], checkout) == 1
    assert "0.1.0 is not newer than 0.1.0, which has a tag" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        release.main(["0.1"], checkout)


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
    monkeypatch.setattr(build_wheels, "lean_libraries", lambda: build_wheels.run(["false", "a", "b"]))
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


def _edited(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines) - 6)  # the end of the file stays
        lines[at : at + rng.randint(0, 3)] = [f"new {rng.random()}" for _ in range(rng.randint(0, 3))]
    return "\n".join(lines)


def _diff(folder: Path, context: int) -> str:
    words = ["git", "diff", "--no-index", "--no-color", f"-U{context}", "old", "new"]
    text = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False).stdout
    return text.replace("a/old/", "a/").replace("b/new/", "b/")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("seed", range(8))
def test_a_patch_gives_the_files_that_git_made_it_of(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for name in ("old", "new"):
        (tmp_path / name / "src").mkdir(parents=True)
    for name in ("a.cpp", "src/b.hpp"):
        text = (
            "\n".join(rng.choice(["", "    }", f"x{rng.randint(0, 9)};", "-- a", "++ b"]) for _ in range(40))
            + "\nend\n"
        )
        (tmp_path / "old" / name).write_text(text, encoding="utf-8")
        (tmp_path / "new" / name).write_text(_edited(text, rng), encoding="utf-8")
    patch = tmp_path / "x.patch"
    patch.write_text("What for\n\n" + _diff(tmp_path, context=1 + seed % 3), encoding="utf-8")
    apply_patch(patch, tmp_path / "old")
    for name in ("a.cpp", "src/b.hpp"):
        assert (tmp_path / "old" / name).read_bytes() == (tmp_path / "new" / name).read_bytes()


def test_another_source_is_refused_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("a\nb\nc\n", encoding="utf-8")
    patch = tmp_path / "x.patch"
    patch.write_text("--- a/setup.py\n+++ b/setup.py\n@@ -1,3 +1,3 @@\n a\n-x\n+y\n c\n", encoding="utf-8")
    with pytest.raises(CrossBuildError, match=r"x\.patch: setup\.py is not as it was at line 1"):
        apply_patch(patch, tmp_path)


def test_what_a_patch_may_not_say_is_refused(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("a\nb", encoding="utf-8")
    patch = tmp_path / "x.patch"
    end = "\\ No newline at end of file\n"
    patch.write_text(f"--- a/setup.py\n+++ b/setup.py\n@@ -1,2 +1,2 @@\n a\n-b\n{end}+c\n{end}", encoding="utf-8")
    with pytest.raises(CrossBuildError, match=r"x\.patch: setup\.py"):
        apply_patch(patch, tmp_path)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_each_patch_says_what_it_is_for_and_git_can_read_it() -> None:
    every = patches()
    assert len(every) > 10
    for patch in every:
        name, empty, why, *_ = patch.read_text(encoding="utf-8").split("\n")
        assert name and not empty and why, f"{patch.name} lacks what it is for"
        made = subprocess.run(["git", "apply", "--numstat", str(patch)], capture_output=True, text=True, check=False)
        assert made.returncode == 0 and made.stdout, f"{patch.name}: {made.stderr}"


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
        ("--measure", {TURNS, MEASURE}, ""),
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


_PAGE = """
| tests | why |
|---|---|
| `test_a.py::test_x[*complex*]` `test_a.py::test_y` | no complex numbers |
"""


def test_every_row_of_the_documentation_has_a_reason() -> None:
    expected = expected_failures(PAGE.read_text("utf-8"))
    assert len(expected) > 15
    assert all(reason.strip() for reason in expected.values()), expected


def test_only_the_star_of_a_pattern_has_a_meaning() -> None:
    assert matches("test_a.py::test_x[a complex case]", "test_a.py::test_x[*complex*]")
    assert not matches("test_a.py::test_xa", "test_a.py::test_x[a]")


def test_what_fails_and_is_not_named_is_told() -> None:
    outcomes = {
        "test_a.py::test_x[complex]": "failed",
        "test_a.py::test_x[real]": "failed",
        "test_a.py::test_y": "passed",
        "test_a.py::test_z": "passed",
    }
    wrong, idle, known = judged(outcomes, expected_failures(_PAGE))
    assert wrong == ["test_a.py::test_x[real]"]
    assert idle == ["test_a.py::test_y"]
    assert known == ["test_a.py::test_x[complex]"]
