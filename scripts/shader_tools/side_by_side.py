"""Compiles launches by processes side by side, each with a compiler of its own: a driver may end one of them."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from scripts.shader_tools.launches import RealLaunch
from scripts.shader_tools.pipelines import DriverCompiler

Rows = list[dict[str, Any]]  # What is told of a launch, in each of its module's forms

Opening = Callable[[], contextlib.AbstractContextManager[DriverCompiler]]
"""Opens a compiler, in the process that will use it."""

Telling = Callable[[DriverCompiler, RealLaunch], Rows]  # Has a compiler compile a launch


def outcomes(
    opening: Opening, launches: Sequence[RealLaunch], telling: Telling, *, jobs: int = 1, end: float = math.inf
) -> Iterator[tuple[int, Rows]]:
    """What becomes of launches: the place of each among them, and its rows, in the order in which they are done.

    A launch that ends its process has one row, with a ``"fault"``; another process takes the next one.

    Args:
        end: when no further one is begun, by the monotonic clock.
    """
    places = iter(range(len(launches)))

    def ask(worker: _Worker) -> None:
        worker.place = next(places, None) if time.monotonic() <= end else None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which is seen where its answer is read
            worker.connection.send(worker.place)

    with contextlib.ExitStack() as stack:

        def another() -> _Worker:
            worker = stack.enter_context(_Worker(opening, launches, telling))
            ask(worker)
            return worker

        running = [another() for _ in range(min(jobs, len(launches)))]
        while running := [worker for worker in running if worker.place is not None]:
            ready = wait([worker.connection for worker in running])
            for number, worker in enumerate(running):
                if worker.connection not in ready or worker.place is None:
                    continue
                try:
                    yield worker.place, worker.connection.recv()
                    ask(worker)
                except EOFError:
                    launch = launches[worker.place]
                    fault = f"the driver's compiler ends the process ({worker.status()})"
                    yield worker.place, [{**described(launch), "fault": fault}]
                    running[number] = another()


def described(launch: RealLaunch) -> dict[str, Any]:
    return {"variant": launch.variant, "constants": launch.constants, "operator": launch.operator}


class _Worker:
    """A process that compiles one launch after another. A context manager, which ends it.

    Attributes:
        connection: takes the place of a launch, ``None`` for the end, and gives its rows.
        place: of what it compiles at present; ``None`` for nothing.
    """

    def __init__(self, opening: Opening, launches: Sequence[RealLaunch], telling: Telling) -> None:
        context = multiprocessing.get_context("fork")  # which has the launches; drivers are closed here
        self.connection, there = context.Pipe()
        self.place: int | None = None
        self._process = context.Process(target=_answer, args=(there, opening, launches, telling), daemon=True)
        self._process.start()
        there.close()

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        if self.place is not None:
            self._process.kill()
        self._process.join()

    def status(self) -> int | None:
        """The exit status of one that has ended."""
        self._process.join()
        return self._process.exitcode


def _answer(connection: Connection, opening: Opening, launches: Sequence[RealLaunch], telling: Telling) -> None:
    with opening() as compiler:
        while (place := connection.recv()) is not None:
            connection.send(telling(compiler, launches[place]))
