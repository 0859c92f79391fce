"""Launches that are recorded again and again with other numbers, as for each new size of a model.

What does not follow from the numbers is found out once: pipelines, what is bound, barriers, and launches that have the
same numbers in every recording. What is left for a recording is to bind and push what differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.runtime.launch_numbers import LaunchNumbers, Room, Varying, placed, reading, words_of
from dmlvk.runtime.pipelines import Binder
from dmlvk.runtime.recorder import Recorder
from dmlvk.runtime.work import Allocation, Launch, Recording
from dmlvk.support.progress import with_progress

Numbers: TypeAlias = npt.NDArray[np.int64]
"""Of all launches one after the other: specialization constants, push constants, and the three of the work groups."""

Elsewhere: TypeAlias = Mapping[int, tuple[tuple[Allocation, ...], tuple[Allocation, ...]]]
"""What launches, by their numbers, bind in one recording, where all differ in that; and what they write of it."""

_Words: TypeAlias = npt.NDArray[np.uint32]


class _OperationList(list[Any]):
    """Operations that stand in a list, to be recorded later."""

    def record(self, operation: Any) -> None:
        self.append(operation)


@dataclasses.dataclass(frozen=True)
class _Bound:
    """What a launch was bound to last. Replaced as a whole: an interrupt may come between any two steps."""

    specialization: tuple[int, ...]  # the specialization constants that it was compiled for
    bind: Binder  # of the pipeline of these
    allocations: tuple[Allocation, ...]  # what it was bound to, with the allocation that it reads numbers from
    groups: list[int]  # the number of work groups
    algorithm: Any  # what that gave


@dataclasses.dataclass
class _VaryingLaunch:
    """A launch whose numbers differ between recordings."""

    number: int  # of the launch
    launch: Launch  # with the numbers of the recording that it was prepared for
    index: int  # of its operation in a recording
    bound: _Bound  # what it was bound to last
    varying: Varying | None  # what it reads from memory; ``None``: nothing
    compiled_in: tuple[int, ...]  # the specialization constants that differ and are not read, by their ids
    constants: int  # where the first specialization constant is among all numbers


class PreparedLaunches:
    """Launches on one device. The engine's lock is held by whoever calls."""

    def __init__(
        self,
        recorder: Recorder,
        memory: LaunchNumbers | None,  # what launches read from memory; ``None``: nothing
        launches: Sequence[Launch],  # with the numbers of one recording
        are_open: Sequence[bool],  # which of them have other numbers in other recordings
        shared: Collection[Allocation],  # allocations that recordings do not wait for
    ) -> None:
        self._recorder, self._memory = recorder, memory
        self._launches = list(launches)
        self._bound = frozenset(each for launch in launches for each in launch.allocations).difference(shared)
        self._written = frozenset(each for launch in launches for each in launch.written)
        self._open: list[_VaryingLaunch] = []
        self._pushes: list[slice] = []  # where the push constants of each are among those of all
        self._steps = _OperationList()
        read = [None if memory is None else memory.varying(launch) for launch in launches]
        self.room = None if memory is None else memory.room(words_of(read))
        """Where numbers stand that are read and the same in every recording, and those of the launches as given."""
        if self.room is None:
            read = [None] * len(launches)
        try:
            self._prepare(read, are_open)
        except BaseException:
            if memory is not None:
                memory.give_back(self.room)
            raise
        if memory is not None:
            memory.give_back_with(self, self.room)

    def _prepare(self, read: Sequence[Varying | None], are_open: Sequence[bool]) -> None:
        recorder, first = self._recorder, 0
        operations = recorder.operations(self._steps)
        if self._launches:
            operations.wait_for_copies(self._launches[0].allocations)
        forms = self._launches if self.room is None else placed(self._launches, read, self.room)
        unsettled: dict[Allocation, None] = {}  # written since the last dependency
        shown = with_progress(forms, len(forms), "kernels prepared by the driver")
        for number, (launch, form, varying) in enumerate(zip(self._launches, shown, read, strict=True)):
            if launch.depends:
                operations.add(recorder.dependency(unsettled))
                unsettled.clear()
            unsettled.update(dict.fromkeys(launch.written))
            push = np.array(form.push_constants, np.uint32)
            bind = recorder.pipelines.binder(form, push, recorder.shader, forms[number + 1 :])
            algorithm = bind(form.work_groups, form.allocations)
            if are_open[number]:
                bound = _Bound(launch.specialization, bind, form.allocations, list(launch.work_groups), algorithm)
                compiled_in = launch.varying - (frozenset() if varying is None else varying.dynamic)
                self._open.append(
                    _VaryingLaunch(number, launch, len(self._steps), bound, varying, tuple(compiled_in), first)
                )
            operations.dispatch(algorithm, push)
            first += len(launch.specialization) + len(launch.push_constants) + 3
        recorder.show_host(operations, self._launches)
        self._operations = operations
        self._find_numbers(first)

    def _find_numbers(self, count: int) -> None:
        """Notes where what open launches push, read, and how much work they have, is among the numbers of all."""
        read: list[int] = []
        pushed: list[int] = []
        groups: list[range] = []
        begins: list[int] = []  # where in a recording's room numbers begin, which stands behind the numbers of all
        for each in self._open:
            constants, words = len(each.launch.specialization), len(each.launch.push_constants)
            first = len(pushed)
            pushed += range(each.constants + constants, each.constants + constants + words)
            groups.append(range(each.constants + constants + words, each.constants + constants + words + 3))
            if each.varying is not None:
                pushed.append(count + len(begins))
                begins.append(len(read))
                read += (each.constants + number for number in sorted(each.varying.dynamic))
            self._pushes.append(slice(first, len(pushed)))
        self._read, self._pushed = np.array(read, np.intp), np.array(pushed, np.intp)
        self._groups, self._begins = np.array(groups, np.intp).reshape(-1, 3), np.array(begins, np.uint32)

    @property
    def words(self) -> int:
        """How many numbers a recording's launches read from memory."""
        return len(self._read)

    def objects(self) -> list[Any]:
        return [*self._steps, *(each.bound.algorithm for each in self._open)]

    def launches(self, numbers: Numbers, elsewhere: Elsewhere | None = None) -> list[Launch]:
        """What is launched.

        Args:
            elsewhere: what some of them bind.
        """
        counts = [(len(launch.specialization), len(launch.push_constants)) for launch in self._launches]
        made = with_numbers(self._launches, counts, numbers)
        for number, (allocations, written) in (elsewhere or {}).items():
            made[number] = dataclasses.replace(made[number], allocations=allocations, written=written)
        return made

    def recording(self, numbers: Numbers, room: Room | None, elsewhere: Elsewhere) -> Recording:
        """Records the launches.

        Args:
            room: its own, for as many numbers as :attr:`words` says, which are written there.
            elsewhere: what open launches bind in this recording.
        """
        words = numbers.astype(np.uint32)
        memory: tuple[Allocation, ...] = ()
        if room is not None:
            memory = (room.buffer,)
            room.buffer.host_bytes.view(np.uint32)[room.base : room.base + self.words] = words[self._read]
            words = np.concatenate([words, self._begins + np.uint32(room.base)])
        pushed = words[self._pushed]
        of_all = zip(self._open, self._pushes, numbers[self._groups].tolist(), strict=True)
        for each, push, groups in of_all:
            allocations = elsewhere[each.number][0] if each.number in elsewhere else each.launch.allocations
            if each.varying is not None:
                allocations += memory
            each.bound = self._bound_to(each, numbers, allocations, groups)
            self._steps[each.index] = self._operations.of_dispatch(each.bound.algorithm, pushed[push])
        sequence = self._recorder.sequence()
        for operation in self._steps:
            sequence.record(operation)
        return Recording(
            sequence,
            bound=self._bound.union(*(allocations for allocations, _ in elsewhere.values())),
            written=self._written.union(*(written for _, written in elsewhere.values())),
            uploads=frozenset(),
            downloads=frozenset(),
            dispatch_steps=(),
            seconds_per_tick=self._recorder.seconds_per_tick,
            launches=self,
        )

    def _bound_to(
        self, each: _VaryingLaunch, numbers: Numbers, allocations: tuple[Allocation, ...], groups: list[int]
    ) -> _Bound:
        """What a launch is bound to; the same object as before where that is the same."""
        bound = each.bound
        specialization, bind = bound.specialization, bound.bind
        if each.compiled_in:  # constants that it cannot read
            own = list(specialization)
            for constant in each.compiled_in:
                own[constant] = int(numbers[each.constants + constant])
            specialization = tuple(own)
        if specialization != bound.specialization:
            launch = dataclasses.replace(each.launch, specialization=specialization)
            form = launch if each.varying is None else reading(launch, each.varying, allocations[-1])
            push = np.zeros(len(form.push_constants), np.uint32)  # of which only the number counts
            bind = self._recorder.pipelines.binder(form, push, self._recorder.shader)
        if bind is bound.bind and groups == bound.groups and allocations == bound.allocations:
            return bound
        return _Bound(specialization, bind, allocations, groups, bind(groups, allocations))


def with_numbers(launches: Sequence[Launch], counts: Sequence[tuple[int, int]], numbers: Numbers) -> list[Launch]:
    """Launches with other numbers.

    Args:
        counts: how many specialization constants and push constants each has.
    """
    made, left = [], numbers.tolist()
    first = 0
    for launch, (constants, words) in zip(launches, counts, strict=True):
        behind = first + constants + words
        x, y, z = left[behind : behind + 3]
        made.append(
            dataclasses.replace(
                launch,
                specialization=tuple(left[first : first + constants]),
                push_constants=tuple(left[first + constants : behind]),
                work_groups=(x, y, z),
            )
        )
        first = behind + 3
    return made
