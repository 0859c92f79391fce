"""Rounds of a model that are ready to run, by the shapes and contents that they are for."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.dynamic.sizes import Guards
from dmlvk.onnx.decoding.caches import Cache, Lengths
from dmlvk.onnx.nodes.ranges import Range
from dmlvk.onnx.nodes.values import NUMPY_TYPES, Array
from dmlvk.onnx.plan.execution import DeviceValue, Resident
from dmlvk.onnx.plan.round_plans import RoundPlan
from dmlvk.onnx.plan.segments import HostOfSizes, Segment
from dmlvk.onnx.plan.states import State

KEPT_PLANS = 16  # Plans for different input shapes that are kept; those not used for longest go first


class MadeRound:
    def __init__(
        self,
        plan: RoundPlan,
        segment: Segment | None,  # its graph on the device, where there is one
        guards: Guards | None = None,  # of its open sizes; ``None``: none is open
        offsets: int = 0,  # how many numbers stand for operands' places
        # how many rows the caches have to which it appends, by the outputs that show them
        capacities: Mapping[str, int] | None = None,
        # of a plan for open sizes without such a graph, what the host computes of them
        of_sizes: HostOfSizes | None = None,
        # integers whose contents are open as sizes are, or told apart by what keeps the round, by their names
        numbers: Collection[str] = (),
    ) -> None:
        self.plan, self.segment, self.guards, self.capacities = plan, segment, guards, capacities
        self.of_sizes, self.numbers = of_sizes, numbers
        self.next = Rounds()  # the rounds that follow it
        # of a plan for open sizes, arrays of the shapes of the last run's inputs, and what rounds before had found out
        self.empty_inputs: dict[str, Array] = {}
        self.known: dict[str, Any] = {}
        self._unused = (0,) * offsets
        if guards is not None:
            lengths = [(of.batch, of.tokens, -1 if of.masked is None else of.masked) for of in plan.assembly.lengths]
            ranges = [(of.least, of.end) for of in plan.assembly.ranges.values()]
            self._numbers = guards.function((tuple(lengths), tuple(ranges)))
            self._test = guards.test()

    @property
    def is_open(self) -> bool:
        return self.guards is not None

    def is_for(self, sizes: Sequence[int]) -> bool:
        """Whether it is a plan for these open sizes."""
        return not self.is_open or self._test(*sizes, *self._unused)

    def lengths(self, sizes: Sequence[int]) -> list[Lengths]:
        """What it knows of lengths, for these open sizes."""
        known = self.plan.assembly.lengths
        if not self.is_open or not known:
            return known
        numbers, _ = self._numbers(*sizes, *self._unused)
        return [
            dataclasses.replace(of, batch=batch, tokens=tokens, masked=None if of.masked is None else masked)
            for of, (batch, tokens, masked) in zip(known, numbers, strict=True)
        ]

    def ranges(self, sizes: Sequence[int]) -> Collection[Range]:
        """From where to where numbers may go, for these open sizes."""
        known = self.plan.assembly.ranges.values()
        if not self.is_open or not known:
            return known
        _, numbers = self._numbers(*sizes, *self._unused)
        return [dataclasses.replace(of, least=a, end=b) for of, (a, b) in zip(known, numbers, strict=True)]

    def note_inputs(self, state: State) -> None:
        if self.is_open:
            inputs = {name: value for name, value in state.values.items() if not isinstance(value, Resident)}
            numbers = {name: inputs.pop(name).copy() for name in self.numbers if name in inputs}
            self.empty_inputs = {name: _empty(value) for name, value in inputs.items() if not _is_hosts(value)}
            self.known = {**state.known.maps[0], **numbers}


def _is_hosts(value: Any) -> bool:
    """Whether it is a sequence or absent: no graph reads it."""
    return value is None or isinstance(value, list)


def _empty(value: Any) -> Array:
    """An array of a value's type and shape, without contents."""
    dtype = NUMPY_TYPES[value.element] if isinstance(value, (Cache, DeviceValue)) else value.dtype
    return np.broadcast_to(np.zeros((), dtype), value.shape)


class Rounds:
    """Rounds of a model by what they are told apart by, besides open sizes and the contents that they looked at.

    Bounded: those not used for longest go first.
    """

    def __init__(self, most: int = KEPT_PLANS) -> None:
        self._most = most
        self._rounds: collections.OrderedDict[tuple[object, ...], list[MadeRound]] = collections.OrderedDict()

    def find(self, key: tuple[object, ...], state: State, sizes: Sequence[int] = ()) -> MadeRound | None:
        """The round for these values, and these open sizes."""
        rounds = self._rounds.get(key, [])
        for index, made in enumerate(rounds):
            if made.is_for(sizes) and has_contents(made.plan, state):
                if index:  # the one used last is asked first
                    rounds.insert(0, rounds.pop(index))
                self._rounds.move_to_end(key)
                return made
        return None

    def keep(self, key: tuple[object, ...], made: MadeRound) -> None:
        made.next = self.following(made)
        self._rounds.setdefault(key, []).insert(0, made)
        self._rounds.move_to_end(key)
        while len(self) > self._most:
            oldest = next(iter(self._rounds))
            self._rounds[oldest].pop()
            if not self._rounds[oldest]:
                del self._rounds[oldest]

    def following(self, made: MadeRound) -> Rounds:
        """Where the rounds behind one of these are kept."""
        return Rounds()

    def forget_others(self, kept: MadeRound) -> bool:
        """Lets go of all rounds but one, whose memory others need; whether there were any."""
        was_alone = len(self) == 1
        for key, rounds in list(self._rounds.items()):
            self._rounds[key] = [made for made in rounds if made is kept]
        return not was_alone

    def __len__(self) -> int:
        return sum(map(len, self._rounds.values()))

    def __iter__(self) -> Iterator[MadeRound]:
        for rounds in self._rounds.values():
            yield from rounds


def has_contents(plan: RoundPlan, state: State) -> bool:
    """Whether the inputs that a plan has looked at have the contents that it is for."""
    return all(_same(state.host_array(name), array) for name, array in plan.contents.items())


def _same(a: Any, b: Array) -> bool:
    found = np.asarray(a)
    return found.shape == b.shape and found.dtype == b.dtype and found.tobytes() == b.tobytes()
