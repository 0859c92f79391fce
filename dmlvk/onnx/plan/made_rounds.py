"""Rounds of a model that are ready to run, by the shapes and contents that they are for."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlvk.onnx.nodes.values import Array
from dmlvk.onnx.plan.execution import Segment
from dmlvk.onnx.plan.round_plans import RoundPlan
from dmlvk.onnx.plan.states import State

KEPT_PLANS = 16
"""Plans for different input shapes that are kept; those not used for longest go first."""


class MadeRound:
    """A round that is ready to run.

    Args:
        plan: what it does.
        segment: its graph on the device, where there is one.
    """

    def __init__(self, plan: RoundPlan, segment: Segment | None) -> None:
        self.plan = plan
        self.segment = segment
        self.next = MadeRounds()


class MadeRounds:
    """Rounds by the shapes, and the looked-at contents, of the values that are there before them. Bounded."""

    def __init__(self) -> None:
        self._rounds: collections.OrderedDict[tuple[object, ...], list[MadeRound]] = collections.OrderedDict()

    def find(self, key: tuple[object, ...], state: State) -> MadeRound | None:
        """The round for these values."""
        for made in self._rounds.get(key, ()):
            if has_contents(made.plan, state):
                self._rounds.move_to_end(key)
                return made
        return None

    def keep(self, key: tuple[object, ...], made: MadeRound) -> None:
        """Adds a round; the one that was not used for longest goes."""
        self._rounds.setdefault(key, []).append(made)
        self._rounds.move_to_end(key)
        while sum(len(rounds) for rounds in self._rounds.values()) > KEPT_PLANS:
            oldest = next(iter(self._rounds))
            self._rounds[oldest].pop(0)
            if not self._rounds[oldest]:
                del self._rounds[oldest]

    def __iter__(self) -> Iterator[MadeRound]:
        for rounds in self._rounds.values():
            yield from rounds


def has_contents(plan: RoundPlan, state: State) -> bool:
    """Whether the inputs that a plan has looked at have the contents that it is for."""
    return all(_same(state.host_array(name), array) for name, array in plan.contents.items())


def _same(a: Any, b: Array) -> bool:
    found = np.asarray(a)
    return found.shape == b.shape and found.dtype == b.dtype and found.tobytes() == b.tobytes()
