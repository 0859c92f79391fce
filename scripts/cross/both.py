"""Runs the script whose results are compared, here and on another platform, where a driver may end its process."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.cross.platform_table import Found, compared

SCRIPTS = ("results", "bits", "families")

_SILENT_SECONDS = 1200.0
"""After so long without a line a process hangs: under an emulator the longest case takes some minutes."""

_SECONDS_BETWEEN_NOTICES = 10.0


@dataclasses.dataclass(frozen=True)
class Command:
    """What runs a platform's Python.

    Attributes:
        words: the program and its arguments.
        folder: where it runs; ``None`` for the present one.
        environment: all of its variables; ``None`` for those of this process.
    """

    words: Sequence[str]
    folder: Path | None = None
    environment: Mapping[str, str] | None = None


Platform = Callable[..., Command]
"""The command that runs ``scripts/cross/results.py`` on a platform, with arguments."""


def run_both(
    there: Platform, every: int, *, is_small: bool = False, kept: Path | None = None, seconds: float = math.inf
) -> dict[str, Any]:
    """What is the same on both; see :func:`scripts.cross.platform_table.compared`. It is told meanwhile how it goes on.

    Args:
        there: the other platform.
        every: each so many operators, and each so many operator families.
        is_small: whether to run a small conformance case of every family instead of whole ones.
        kept: a file that keeps what was found there; what it has already is not run again.
        seconds: that the other platform has for all.
    """
    here = results_of(_here, every, is_small=is_small)
    progress = f"of {here.count} there"
    return compared(here, results_of(there, every, is_small=is_small, progress=progress, kept=kept, seconds=seconds))


def results_of(
    platform: Platform,
    every: int,
    *,
    is_small: bool = False,
    silent_seconds: float = _SILENT_SECONDS,
    progress: str = "here",
    kept: Path | None = None,
    seconds: float = math.inf,
) -> Found:
    """Everything, also where a part of it ends the process: what comes after it is run by another one.

    Args:
        platform: where.
        every: each so many operators, and each so many operator families.
        is_small: whether to run a small conformance case of every family instead of whole ones.
        silent_seconds: a process is ended that says nothing for so long.
        progress: what is told meanwhile beside the number of results.
        kept: a file that keeps what is found; what it has already is not run again.
        seconds: after so long what is not run is left.
    """
    lines: dict[int, dict[str, Any]] = {}
    if kept is not None and kept.is_file():
        lines = {line["number"]: line for line in map(json.loads, kept.read_text(encoding="utf-8").splitlines())}
    noticed = time.monotonic()
    end = noticed + seconds
    while time.monotonic() < end:
        begun: dict[str, Any] | None = None
        errors = bytearray()
        words = ["--every", str(every), *(["--small"] if is_small else []), "--but", ",".join(map(str, lines))]
        with _started(platform(*words)) as process:
            for begun in map(json.loads, _lines(process, errors, silent_seconds, end)):
                if "found" not in begun:
                    continue
                _keep(begun, lines, kept)
                begun = None
                if time.monotonic() - noticed > _SECONDS_BETWEEN_NOTICES:
                    noticed = time.monotonic()
                    print(f"  {len(lines)} {progress}: {lines[max(lines)]['name']}", file=sys.stderr, flush=True)
            status = process.wait()
        reason = _reason(errors.decode(errors="replace"), status, silent_seconds)
        if time.monotonic() >= end:
            break
        if begun is not None and status != 0:
            _keep({**begun, "ended": reason}, lines, kept)
        elif status == 0:
            return _found(lines.values())
        else:
            return _found([*lines.values(), {"kind": "operators", "name": "", "ended": reason}])
    return dataclasses.replace(_found(lines.values()), is_cut=True)


def _keep(line: dict[str, Any], lines: dict[int, dict[str, Any]], kept: Path | None) -> None:
    lines[line["number"]] = line
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _found(lines: Iterable[Mapping[str, Any]]) -> Found:
    def of(kind: str, what: str) -> dict[str, Any]:
        return {line["name"]: line[what] for line in lines if line["kind"] == kind and what in line}

    lines = list(lines)
    return Found(of("operators", "found"), of("cases", "found"), of("operators", "ended"), of("cases", "ended"))


def _started(command: Command) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE  # for errors, too: Python for Windows does not start with a file of Linux there
    words, folder, environment = list(command.words), command.folder, command.environment
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, bufsize=0
    )


def _lines(process: subprocess.Popen[bytes], errors: bytearray, silent_seconds: float, end: float) -> Iterator[bytes]:
    """A process's output by line, until it ends, or is ended because it says nothing or the time is over.

    Args:
        process: one that has just started.
        errors: takes what it says to the error stream.
        silent_seconds: how long it may say nothing.
        end: by the monotonic clock.
    """
    pending = b""
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    while streams:
        ready = select.select(streams, [], [], max(0.0, min(silent_seconds, end - time.monotonic())))[0]
        if not ready:
            process.kill()
            return
        for stream in ready:
            found = os.read(stream.fileno(), 65536)
            if not found:
                streams.remove(stream)
            elif stream is process.stderr:
                errors += found
            else:
                *lines, pending = (pending + found).split(b"\n")
                yield from lines


def _reason(said: str, status: int, silent_seconds: float) -> str:
    """The line that tells most: LLVM's error where there is one, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    found = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "it says nothing")[:200]
    return f"{found} (ended after {silent_seconds:.0f} s without a result)" if status == -9 else found


def _here(*words: str) -> Command:
    return Command([sys.executable, str(Path(__file__).with_name("results.py")), *words])
