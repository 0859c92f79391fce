"""A release begins only where nothing is in its way, and says the same of itself everywhere."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest

from scripts import release

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
    release.commit_and_tag("0.2.0", checkout)
    assert 'version = "0.2.0"' in (checkout / "pyproject.toml").read_text()
    assert '__version__ = "0.2.0"' in (checkout / "dmlvk/__init__.py").read_text()
    assert "## 0.2.0, 2026-02-03\n" in (checkout / "CHANGELOG.md").read_text()
    said = release.git(checkout, "tag", "--list", "--format=%(contents)", "v0.2.0")
    assert said.strip() == "dmlvk 0.2.0\n\n### New\n- one thing"
    assert release.git(checkout, "rev-parse", "v0.2.0^{commit}") == release.git(checkout, "rev-parse", "HEAD")


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
