"""The command line with options that make no sense, or lead to what cannot be read or written."""

from __future__ import annotations

import contextlib
import io
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

import dmlvk as dml
from dmlvk.cli import cli, main

_EXAMPLES = Path(__file__).parents[1] / "examples"

_COMMANDS = (
    ("run", str(_EXAMPLES / "sign.json"), "--output-dir", "output"),
    ("run", str(_EXAMPLES / "digits.onnx"), "--output-dir", "output"),
    ("bench", "--seconds", "0.01", "--operators", "ABS", "--sizes", "64", "--libraries", "none"),
    ("conformance", "--operators", "ABS", "--compare", "text.json", "list.json"),
    ("operators",),
)

_VALUES = (
    *("", "-1", "0", "nan", "inf", "-inf", "1e308", "9" * 30, "1_000", "1,,2", "2..1", "=1", "a=", "alpha=nan", "%s"),
    *("[[[", "*", "x" * 3000, "a\nb", "\x1b[31m", "é\udcff", "/", ".", "-", "/dev/full", "/dev/zero", "/proc/self/mem"),
    *("pipe", "nowhere/at/all", "folder", "text.json", "list.json", "deep.json", "bytes.json", "loop", "dangling"),
)

_SLOW = frozenset({("bench", "--operators", "*"), ("bench", "--device", "0"), ("run", "--device", "0")})
"""What is right, and takes more than a case may."""


def command_line(seed: int, device: dml.Device) -> str:
    """One option of a command has another value: the command succeeds, or says in one line what is wrong with it.

    Raises:
        AssertionError: when it ends in another way.
    """
    choose = random.Random(seed)
    words = list(choose.choice(_COMMANDS))
    command = cli.commands[words[0]]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.is_flag]
    option = choose.choice([each.opts[-1] for each in options] or [""])
    value = choose.choice(_VALUES)
    if (words[0], option, value) in _SLOW:
        return "takes too long"
    words += [option, value, *(["list.json"] if option == "--compare" else [])] if option else [value]
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        _furnish(Path(folder))
        status, said = _outcome(words)
    assert status in (0, 1, 2), f"{words}: exit status {status}: {said[-500:]}"
    assert status != 2 or len(said.splitlines()) == 1, f"{words}: {said[-500:]}"
    return "runs" if status == 0 else "is refused"


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    """A folder is the one that relative paths begin at."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _furnish(folder: Path) -> None:
    """Files that a value may lead to."""
    (folder / "folder").mkdir()
    (folder / "text.json").write_text("{}")
    (folder / "list.json").write_text("[1]")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "bytes.json").write_bytes(b"\xff\xfe\0")
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("/nowhere/at/all")


def _outcome(words: list[str]) -> tuple[int, str]:
    """Exit status, and what a command wrote to standard error."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0, err.getvalue()
