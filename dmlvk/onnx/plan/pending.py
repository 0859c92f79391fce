"""The nodes of a model that are not computed yet, from one round of a plan to the next."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

from dmlvk.onnx.model.loading import Step


@dataclasses.dataclass(frozen=True)
class _Queue:
    """All nodes in order, with the places of each and of those that read a value."""

    steps: tuple[Step, ...]
    positions: Mapping[int, int]
    readers: Mapping[str, Sequence[int]]


@dataclasses.dataclass(frozen=True, eq=False)
class Pending:
    """Nodes that are not computed yet, in order: those that wait for something, then those that nobody looked at yet.

    What a round leaves shares the second part with what it was given, so a chain of rounds takes as long as its nodes
    are many, not as the square of that.
    """

    waiting: tuple[Step, ...]  # nodes of which a round knows that they wait
    _queue: _Queue
    _begin: int
    _done: frozenset[int]

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Pending:
        """All of these nodes, of which nobody looked at one yet."""
        readers: dict[str, list[int]] = {}
        for position, step in enumerate(steps):
            for name in step.reads:
                readers.setdefault(name, []).append(position)
        positions = {step.index: position for position, step in enumerate(steps)}
        return cls((), _Queue(tuple(steps), positions, readers), 0, frozenset())

    def left(self, waiting: Sequence[Step], looked_at: int, done: Collection[int]) -> Pending:
        """What a round leaves.

        Args:
            waiting: the nodes that wait, of those that it looked at; of the others those wait that waited.
            looked_at: to how many it looked, in order.
            done: the indices of nodes that it computed, before it looked at them too.
        """
        begin = self._begin
        missing = looked_at - len(self.waiting)
        while missing > 0:
            missing -= self._queue.steps[begin].index not in self._done
            begin += 1
        ahead = frozenset(index for index in (*self._done, *done) if self._queue.positions.get(index, -1) >= begin)
        waited = [step for step in self.waiting[looked_at:] if step.index not in done]
        return Pending((*waiting, *waited), self._queue, begin, ahead)

    def is_same_as(self, other: Pending) -> bool:
        """Whether they are the same nodes; those of a branch or a function's body are others in each plan."""
        mine, others = ((id(of._queue), of._begin, of._done, [id(step) for step in of.waiting]) for of in (self, other))
        return mine == others

    def __len__(self) -> int:
        return len(self.waiting) + len(self._queue.steps) - self._begin - len(self._done)

    def __iter__(self) -> Iterator[Step]:
        yield from self.waiting
        for position in range(self._begin, len(self._queue.steps)):
            if self._queue.steps[position].index not in self._done:
                yield self._queue.steps[position]

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and (
            index in self._of_waiting or self._is_behind(self._queue.positions.get(index, -1))
        )

    def reads(self, name: str) -> bool:
        return name in self._read_by_waiting or self.reads_behind(name)

    def reads_behind(self, name: str) -> bool:
        """Whether a node reads a value that nobody looked at yet."""
        return any(map(self._is_behind, reversed(self._queue.readers.get(name, ()))))

    def _is_behind(self, position: int) -> bool:
        return position >= self._begin and self._queue.steps[position].index not in self._done

    @functools.cached_property
    def _of_waiting(self) -> frozenset[int]:
        return frozenset(step.index for step in self.waiting)

    @functools.cached_property
    def _read_by_waiting(self) -> frozenset[str]:
        return frozenset(name for step in self.waiting for name in step.reads)
