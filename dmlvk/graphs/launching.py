"""Launches of a graph with open sizes in the memory that its values lie in, some of it elsewhere in each recording."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dmlvk.dynamic.vectors import Integers
from dmlvk.kernels.program import BindingKind
from dmlvk.runtime.kompute import Allocation, Launch, Recording
from dmlvk.runtime.prepared_launches import with_numbers

if TYPE_CHECKING:
    from dmlvk.device import Device

PlaceNumber: TypeAlias = tuple[BindingKind, int]

Lies: TypeAlias = tuple[Allocation, int]  # Memory, and the first byte


@dataclasses.dataclass(frozen=True)
class OpenLaunch:
    launch: Launch  # all else
    counts: tuple[int, int]  # how many specialization constants and push constants it has
    operands: tuple[tuple[PlaceNumber, int], ...]  # the place that each lies in, and where in that it begins, in bytes
    reads: int  # how many of them are read
    more: tuple[Allocation, ...]  # what it binds besides
    # the numbers that depend on where operands lie: on which, and with which factors for words
    lying: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    is_open: bool  # whether it has other numbers for other sizes

    def bound(self, memory: Mapping[PlaceNumber, Lies]) -> tuple[tuple[Allocation, ...], tuple[Allocation, ...]]:
        """What it binds in some memory, and what it writes of that."""
        allocations = tuple(memory[index][0] for index, _ in self.operands)
        return (*allocations, *self.more), allocations[self.reads :]

    def add_beginnings(self, numbers: Integers, memory: Mapping[PlaceNumber, Lies]) -> None:
        """Adds to the numbers of all launches where its operands begin in some memory."""
        begins = [(memory[index][1] + start) // 4 for index, start in self.operands]
        for word, factors in self.lying:
            numbers[word] += sum(factor * begins[operand] for operand, factor in factors)


class Launcher:
    """Launches everything in the memory that it was made for."""

    def __init__(
        self,
        device: Device,
        launches: Sequence[OpenLaunch],
        memory: Mapping[PlaceNumber, Lies],
        numbers: Integers,  # of one set of sizes, without where memory begins
        elsewhere: Collection[PlaceNumber],  # those of the places that lie elsewhere in each recording
    ) -> None:
        self._engine = device.engine
        self.elsewhere = frozenset(elsewhere)  # the same
        self._moving = {
            number: launch
            for number, launch in enumerate(launches)
            if any(index in elsewhere for index, _ in launch.operands)
        }
        self._memory = {index: lies for index, lies in memory.items() if index not in elsewhere}
        self._begins = np.zeros(len(numbers), np.int64)
        made, are_open = [], []
        for number, launch in enumerate(launches):
            if number not in self._moving:
                launch.add_beginnings(self._begins, memory)
            allocations, written = launch.bound(memory)
            made.append(dataclasses.replace(launch.launch, allocations=allocations, written=written))
            are_open.append(launch.is_open or number in self._moving)
        all_numbers, _ = self._all(numbers, {index: memory[index] for index in elsewhere})
        counts = [launch.counts for launch in launches]
        self._prepared = self._engine.prepare(with_numbers(made, counts, all_numbers), are_open)

    def _all(
        self, numbers: Integers, elsewhere: Mapping[PlaceNumber, Lies]
    ) -> tuple[Integers, dict[int, tuple[tuple[Allocation, ...], tuple[Allocation, ...]]]]:
        """The numbers with where memory begins, and what launches bind elsewhere."""
        made = numbers + self._begins
        if not self._moving:
            return made, {}
        memory = {**self._memory, **elsewhere}
        for launch in self._moving.values():
            launch.add_beginnings(made, memory)
        return made, {number: launch.bound(memory) for number, launch in self._moving.items()}

    def recording(self, numbers: Integers, elsewhere: Mapping[PlaceNumber, Lies] | None = None) -> Recording:
        """Records everything.

        Args:
            numbers: of a set of sizes.
            elsewhere: where the places lie that lie elsewhere in each recording.
        """
        return self._engine.record_prepared(self._prepared, *self._all(numbers, elsewhere or {}))

    def launches(self, numbers: Integers, elsewhere: Mapping[PlaceNumber, Lies]) -> list[Launch]:
        """What is launched, with arguments as of :meth:`recording`."""
        return self._prepared.launches(*self._all(numbers, elsewhere))
