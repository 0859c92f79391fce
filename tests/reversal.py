"""Dispatches in another order that a device may take as well: the opposite one, where none waits for one before it.

A GPU may run them beside one another; CPU drivers run them as they were recorded, so a dependency that is missing shows
there in no result. With ``DMLVK_TEST_REVERSED=1`` all tests show it.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from dmlvk.runtime.kompute_library import kompute
from dmlvk.runtime.recorder import Recorder

TURNS_AROUND = os.environ.get("DMLVK_TEST_REVERSED") == "1"


class TurnedAround:
    """A sequence of Kompute's that is given what comes between two other operations, dispatches, the last one first."""

    def __init__(self, sequence: Any, dispatch: type[object]) -> None:
        self._sequence, self._dispatch = sequence, dispatch
        self._waiting: list[object] = []

    def record(self, operation: object) -> None:
        if isinstance(operation, self._dispatch):
            self._waiting.append(operation)
        else:
            self._record_waiting()
            self._sequence.record(operation)

    def _record_waiting(self) -> None:
        while self._waiting:
            self._sequence.record(self._waiting.pop())

    def __getattr__(self, name: str) -> Any:
        self._record_waiting()
        return getattr(self._sequence, name)


def turn_around_what_nothing_orders() -> None:
    """Has all recordings of this process from here on made so, but for those with times of each dispatch."""
    sequence = Recorder.sequence

    @functools.wraps(sequence)
    def turned_around(self: Recorder, *arguments: Any) -> Any:
        made = sequence(self, *arguments)
        return made if arguments else TurnedAround(made, kompute().OpAlgoDispatch)

    Recorder.sequence = turned_around  # type: ignore[method-assign]  # in the place of it, in every test
