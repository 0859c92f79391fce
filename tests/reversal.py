"""Dispatches in another order that a device may take as well: the opposite one, where none waits for one before it.

A GPU may run them beside one another; CPU drivers run them as they were recorded, so a dependency that is missing shows
there in no result. With ``DMLVK_TEST_REVERSED=1`` all tests show it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any

from dmlvk.runtime.kompute import Engine
from dmlvk.runtime.work import Launch, Recording

TURNS_AROUND = os.environ.get("DMLVK_TEST_REVERSED") == "1"


def turned_around(launches: Sequence[Launch]) -> list[Launch]:
    """The launches of a recording in the opposite order from one dependency to the next."""
    groups: list[list[Launch]] = []
    for launch in launches:
        if launch.depends or not groups:
            groups.append([])
        groups[-1].append(launch)
    return [
        dataclasses.replace(launch, depends=group[0].depends and launch is group[-1])
        for group in groups
        for launch in reversed(group)
    ]


def turn_around_what_nothing_orders() -> None:
    """Has all recordings of this process from here on made so, but for those with times of each dispatch."""
    record = Engine.record

    @functools.wraps(record)
    def record_turned_around(self: Engine, launches: Sequence[Launch], *given: Any, **options: Any) -> Recording:
        return record(self, launches if options.get("timestamps") else turned_around(launches), *given, **options)

    Engine.record = record_turned_around  # type: ignore[method-assign]
