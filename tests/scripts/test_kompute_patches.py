"""Kompute's patches are applied as git applies them, and to no other source than theirs."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.build_kompute import apply_patch, patches
from scripts.cross.targets import CrossBuildError


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
