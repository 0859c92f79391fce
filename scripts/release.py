#!/usr/bin/env python3
"""Make a release: the version and the date, a commit and a tag, wheels and source distribution, and what to upload.

    scripts/release.py 0.1.0 --check      say what is in the way, and change nothing
    scripts/release.py 0.1.0              do everything that happens on this machine

Before anything is changed it looks for what a release must have: nothing uncommitted, a newer version than the last
tag's, a section of CHANGELOG.md that is not longer than 60 lines of 120 characters, and the address of the repository
in ``[project.urls]`` of pyproject.toml, which is filled in there and nowhere else. Nothing leaves this machine: the
last lines are the commands that push and upload.

Exit status: 0 done, 1 something is in the way or failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.cross.targets import CrossBuildError, tools_python

ROOT = Path(__file__).resolve().parent.parent

MOST_LINES, MOST_CHARACTERS = 60, 120

_VERSION = re.compile(r"\d+\.\d+\.\d+")


class ReleaseError(Exception):
    """A step failed; the message says which."""


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", metavar="VERSION", help="MAJOR.MINOR.PATCH")
    parser.add_argument("--check", action="store_true", help="say what is in the way, and change nothing")
    options = parser.parse_args(arguments)
    if not _VERSION.fullmatch(options.version):
        parser.error(f"{options.version} is not MAJOR.MINOR.PATCH")
    try:
        faults = list(in_the_way(options.version, root))
        for fault in faults:
            print(f"release.py: {fault}", file=sys.stderr)
        if faults:
            return 1
        if not options.check:
            write_version(options.version, root, datetime.date.today())
            commit(options.version, root)
            files = built(options.version, root)
            tag(options.version, root)  # Last: whoever mends what does not build begins again
            print(what_to_upload(options.version, root, files))
    except (ReleaseError, CrossBuildError, OSError) as error:
        print(f"release.py: {error}", file=sys.stderr)
        return 1
    return 0


def in_the_way(version: str, root: Path) -> Iterator[str]:
    """What a release must have and does not, a line each."""
    if changed := git(root, "status", "--porcelain", "--untracked-files=no").rstrip():
        yield f"uncommitted: {', '.join(line[3:] for line in changed.splitlines())}"
    tags = [tag[1:] for tag in git(root, "tag", "--list", "v*").split() if _VERSION.fullmatch(tag[1:])]
    newest = max(tags, key=_numbers, default=None)
    if newest is not None and _numbers(version) <= _numbers(newest):
        yield f"{version} is not newer than {newest}, which has a tag"
    lines = section(version, (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if not lines:
        yield f"CHANGELOG.md has no section {version}"
    if len(lines) > MOST_LINES:
        yield f"CHANGELOG.md: section {version} has {len(lines)} lines, more than {MOST_LINES}"
    for line in lines:
        if len(line) > MOST_CHARACTERS:
            yield f"CHANGELOG.md: a line of {len(line)} characters: {line[:60]}…"
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    urls = re.search(r"^\[project\.urls\]\n((?:(?!\[).*\n)*)", project, re.M)
    if urls is None or not re.search(r'^Repository *= *"https://\S+"', urls[1], re.M):
        yield 'pyproject.toml: [project.urls] has no address: Repository = "https://…"'


def section(version: str, changes: str) -> list[str]:
    """The lines of a version's section of the changes, without empty ones and its title."""
    match = re.search(rf"^## {re.escape(version)}(?:,[^\n]*)?\n(.*?)(?=^## |\Z)", changes, re.M | re.S)
    return [line for line in match[1].splitlines() if line] if match else []


def write_version(version: str, root: Path, day: datetime.date) -> None:
    """Writes the version where it is stated, and the day into its section of the changes."""
    for name, pattern, new in (
        ("pyproject.toml", r'^version = ".*"$', f'version = "{version}"'),
        ("dmlvk/__init__.py", r'^__version__ = ".*"$', f'__version__ = "{version}"'),
        ("CHANGELOG.md", rf"^## {re.escape(version)}(,.*)?$", f"## {version}, {day.isoformat()}"),
    ):
        path = root / name
        text, count = re.subn(pattern, new, path.read_text(encoding="utf-8"), flags=re.M)
        if count != 1:
            raise ReleaseError(f"{name} does not have {pattern} once")
        path.write_text(text, encoding="utf-8")


def commit(version: str, root: Path) -> None:
    """Commits what :func:`write_version` wrote."""
    if git(root, "status", "--porcelain", "--untracked-files=no").strip():
        git(root, "commit", "--quiet", "--all", "--message", f"dmlvk {version}")


def tag(version: str, root: Path) -> None:
    """Tags the last commit with the section of the changes."""
    lines = section(version, (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    signs = ["--sign"] if git(root, "config", "--default", "", "--get", "user.signingkey").strip() else ["--annotate"]
    message = "\n".join([f"dmlvk {version}", "", *lines])
    # Headings of the changes begin with what git would take for a comment.
    git(root, "tag", *signs, "--cleanup=verbatim", "--message", message, f"v{version}")


def built(version: str, root: Path) -> list[Path]:
    """The wheels of all systems and the source distribution, checked.

    Raises:
        ReleaseError: one cannot be built, or is not as it must be.
    """
    output = root / "dist" / version
    shutil.rmtree(output, ignore_errors=True)  # What is there is uploaded
    source = output / f"dmlvk-{version}.tar.gz"
    for command in (
        [sys.executable, "scripts/build_wheels.py", "--output", str(output)],
        [str(tools_python()), "-m", "build", "--sdist", "--no-isolation", "--outdir", str(output)],
        [str(tools_python()), "-m", "twine", "check", "--strict", str(source)],
    ):
        if subprocess.run(command, cwd=root, stdout=sys.stderr, check=False).returncode != 0:
            raise ReleaseError(f"exit status not 0: {' '.join(command[1:])}")
    return [*sorted(output.glob("*.whl")), source]


def what_to_upload(version: str, root: Path, files: Sequence[Path]) -> str:
    """Files with their digests, and the commands that are left."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(root)}" for path in files]
    lines += ["", f"git push origin HEAD v{version}", f"twine upload dist/{version}/*"]
    return "\n".join(lines)


def git(root: Path, *words: str) -> str:
    """What git says.

    Raises:
        ReleaseError: it fails.
    """
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    sys.exit(main())
