"""Tell how far a run is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_SECONDS_BETWEEN_LINES = 5.0


class Advance(Protocol):
    """Called once for each finished item."""

    def __call__(self) -> None:
        """Count one item."""


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Show the progress of ``total`` items on the standard output.

    Args:
        what: what is being done, such as ``"Compiling shaders"``.
        total: number of items.

    Yields:
        A function to be called after each item, from one thread.
    """
    if sys.stdout.isatty():
        with _bar(what, total) as advance:
            yield advance
    else:
        yield _lines(what, total)


@contextmanager
def _bar(what: str, total: int) -> Iterator[Advance]:
    # Imported here because a run that has nothing to do should not wait for it.
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def _lines(what: str, total: int) -> Advance:
    started = last = time.monotonic()
    done = 0
    print(f"{what}: {total}", flush=True)

    def advance() -> None:
        nonlocal done, last
        done += 1
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES and done < total:
            last = now
            left = (now - started) / done * (total - done)
            print(f"{what}: {done} of {total}, {left:.0f} s left", flush=True)

    return advance
