"""Runs the script whose results are compared, here and on another platform, where a driver may end its process."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

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
    there: Platform,
    every: int,
    *,
    is_small: bool = False,
    kept: Path | None = None,
    seconds: float = math.inf,
    jobs: int = 1,
) -> dict[str, Any]:
    """What is the same on both; see :func:`scripts.cross.platform_table.compared`. It is told meanwhile how it goes on.

    Args:
        there: the other platform.
        every: each so many operators, and each so many operator families.
        is_small: whether to run a small conformance case of every family instead of whole ones.
        kept: a file that keeps what was found there; what it has already is not run again.
        seconds: that the other platform has for all.
        jobs: processes side by side, on either platform.
    """
    environment = {**os.environ, **settings_of(jobs)}
    here = results_of(lambda *words: _here(words, environment), every, is_small=is_small, jobs=jobs)
    progress = f"of {here.count} there"
    found = results_of(there, every, is_small=is_small, progress=progress, kept=kept, seconds=seconds, jobs=jobs)
    return compared(here, found)


def settings_of(jobs: int) -> dict[str, str]:
    """What llvmpipe is told where processes run side by side: together they have a thread for each processor."""
    return {"LP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))} if jobs > 1 else {}


def results_of(
    platform: Platform,
    every: int,
    *,
    is_small: bool = False,
    silent_seconds: float = _SILENT_SECONDS,
    progress: str = "here",
    kept: Path | None = None,
    seconds: float = math.inf,
    jobs: int = 1,
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
        jobs: processes side by side, each of which is asked for what none was asked for before.
    """
    results = _Results(kept, progress)
    command = platform("--every", str(every), *(["--small"] if is_small else []))
    numbers = (number for number in itertools.count() if number not in results.lines)
    end = time.monotonic() + seconds
    faults = []
    has_more = True
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(_Process(command, numbers)) for _ in range(jobs)]
        while running:
            silent = min(process.heard for process in running) + silent_seconds
            streams = [stream for process in running for stream in process.streams]
            ready = select.select(streams, [], [], max(0.0, min(silent, end) - time.monotonic()))[0]
            if time.monotonic() >= end:
                return dataclasses.replace(_found(results.lines.values()), is_cut=True)
            for process in [*running]:
                for line in process.answers(ready, silent_seconds):
                    results.add(line)
                if process.streams:
                    continue
                running.remove(process)
                status, reason = process.ended(silent_seconds)
                if status == 0:
                    has_more = False  # numbers rise: nothing has the next ones, either
                elif process.begun is None:
                    faults.append({"kind": "operators", "name": "", "ended": reason})
                else:
                    results.add({**process.begun, "ended": reason})
                    if has_more:
                        running.append(stack.enter_context(_Process(command, numbers)))
    return _found([*results.lines.values(), *faults])


class _Results:
    """What was found, by number; it is kept in a file at once, and told now and then.

    Args:
        kept: the file, which may have some already; ``None`` for none.
        progress: what is told beside the number of results.
    """

    def __init__(self, kept: Path | None, progress: str) -> None:
        self.lines: dict[int, dict[str, Any]] = {}
        if kept is not None and kept.is_file():
            self.lines = {line["number"]: line for line in map(json.loads, kept.read_text("utf-8").splitlines())}
        self._kept = kept
        self._progress = progress
        self._noticed = time.monotonic()

    def add(self, line: dict[str, Any]) -> None:
        self.lines[line["number"]] = line
        if self._kept is not None:
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            with self._kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if time.monotonic() - self._noticed > _SECONDS_BETWEEN_NOTICES:
            self._noticed = time.monotonic()
            print(f"  {len(self.lines)} {self._progress}: {line['name']}", file=sys.stderr, flush=True)


class _Process:
    """A process that is asked for one thing after another. A context manager, which ends it.

    Args:
        command: what runs it.
        numbers: of what to ask for.

    Attributes:
        streams: what it writes to, as long as it does.
        heard: when it said something last, by the monotonic clock.
        begun: what it was running when it ended; ``None`` for nothing.
    """

    def __init__(self, command: Command, numbers: Iterator[int]) -> None:
        pipe = subprocess.PIPE  # for errors, too: Python for Windows does not start with a file of Linux there
        words, folder, environment = list(command.words), command.folder, command.environment
        self._process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self.streams: list[IO[bytes]] = [self._process.stdout, self._process.stderr]
        self.heard = time.monotonic()
        self.begun: dict[str, Any] | None = None
        self._numbers = numbers
        self._pending = b""
        self._errors = bytearray()
        self._ask()

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    def _ask(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, as its output will tell
            self._process.stdin.write(b"%d\n" % next(self._numbers))

    def answers(self, ready: Sequence[IO[bytes]], silent_seconds: float) -> Iterator[dict[str, Any]]:
        """What it has found meanwhile; it is asked for more. It is ended if it says nothing.

        Args:
            ready: streams that can be read.
            silent_seconds: how long it may say nothing.
        """
        readable = [stream for stream in self.streams if stream in ready]
        if readable:
            self.heard = time.monotonic()
        elif time.monotonic() >= self.heard + silent_seconds:
            self._process.kill()
            self.streams = []
        for stream in readable:
            said = os.read(stream.fileno(), 65536)
            if not said:
                self.streams.remove(stream)
            elif stream is self._process.stderr:
                self._errors += said
            else:
                *lines, self._pending = (self._pending + said).split(b"\n")
                for self.begun in map(json.loads, lines):
                    if "found" in self.begun:
                        yield self.begun
                        self.begun = None
                        self._ask()

    def ended(self, silent_seconds: float) -> tuple[int, str]:
        """Its exit status, and why it ended."""
        status = self._process.wait()
        return status, _reason(self._errors.decode(errors="replace"), status, silent_seconds)


def _found(lines: Iterable[Mapping[str, Any]]) -> Found:
    def of(kind: str, what: str) -> dict[str, Any]:
        return {line["name"]: line[what] for line in lines if line["kind"] == kind and what in line}

    lines = list(lines)
    return Found(of("operators", "found"), of("cases", "found"), of("operators", "ended"), of("cases", "ended"))


def _reason(said: str, status: int, silent_seconds: float) -> str:
    """The line that tells most: LLVM's error where there is one, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    found = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "it says nothing")[:200]
    return f"{found} (ended after {silent_seconds:.0f} s without a result)" if status == -9 else found


def _here(words: Sequence[str], environment: Mapping[str, str]) -> Command:
    script = Path(__file__).with_name("results.py")
    return Command([sys.executable, str(script), *words], environment=environment)
