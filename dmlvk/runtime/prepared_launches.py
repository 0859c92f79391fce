"""Launches that are recorded again and again with other numbers, as for each new size of a model.

What does not follow from the numbers is found out once: pipelines, what is bound, barriers, and launches that have the
same numbers in every recording. What is left for a recording is to bind and push what differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.runtime.launch_numbers import LaunchNumbers, Offsets, Varying, reading, with_numbers_at
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

    launch: Launch  # with the numbers of the recording that it was bound for
    memory: Allocation | None  # the allocation that it reads numbers from
    bind: Callable[[Sequence[int]], Any]  # makes Kompute's algorithm for a number of work groups
    groups: Sequence[int] = ()  # the number that it was bound for last; none: there is no algorithm yet
    algorithm: Any = None  # what that gave


@dataclasses.dataclass
class _VaryingLaunch:
    """A launch whose numbers differ between recordings."""

    number: int  # of the launch
    index: int  # of its operation in a recording
    bound: _Bound  # what it was bound to last
    words: slice  # where its push constants are among all numbers
    varying: Varying | None  # what it reads from memory; ``None``: nothing
    read: npt.NDArray[np.intp]  # where the numbers that it reads are among all numbers
    pushed: _Words  # its push constants, where one more of them says what it reads
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
        self.fixed_offsets: Offsets = []
        """Where numbers stand that are read and the same in every recording."""
        self._open: list[_VaryingLaunch] = []
        self._steps = _OperationList()
        try:
            self._prepare(are_open)
        except BaseException:
            if memory is not None:
                memory.give_back(self.fixed_offsets)
            raise
        if memory is not None:
            memory.give_back_with(self, self.fixed_offsets)
        self._groups = np.array([range(each.words.stop, each.words.stop + 3) for each in self._open], np.intp)

    def _prepare(self, are_open: Sequence[bool]) -> None:
        recorder, first = self._recorder, 0
        operations = recorder.operations(self._steps)
        if self._launches:
            operations.wait_for_copies(self._launches[0].allocations)
        formed = [self._formed(launch, is_open) for launch, is_open in zip(self._launches, are_open, strict=True)]
        forms = [form for form, _ in formed]
        unsettled: dict[Allocation, None] = {}  # written since the last dependency
        shown = with_progress(formed, len(formed), "kernels prepared by the driver")
        for number, (launch, (form, varying)) in enumerate(zip(self._launches, shown, strict=True)):
            if launch.depends:
                operations.add(recorder.dependency(unsettled))
                unsettled.clear()
            unsettled.update(dict.fromkeys(launch.written))
            push = np.array(form.push_constants, np.uint32)
            bind = recorder.pipelines.binder(form, push, recorder.shader, forms[number + 1 :])
            algorithm = bind(form.work_groups)
            words = slice(first + len(launch.specialization), 0)
            words = slice(words.start, words.start + len(launch.push_constants))
            if are_open[number]:
                read = frozenset() if varying is None else varying.dynamic
                memory = None if varying is None else form.allocations[-1]
                self._open.append(
                    _VaryingLaunch(
                        number,
                        len(self._steps),
                        _Bound(launch, memory, bind, launch.work_groups, algorithm),
                        words,
                        varying,
                        np.array([first + each for each in sorted(read)], np.intp),
                        push,
                        tuple(launch.varying - read),
                        first,
                    )
                )
            operations.dispatch(algorithm, push)
            first = words.stop + 3
        recorder.show_host(operations, self._launches)
        self._operations = operations

    def _formed(self, launch: Launch, is_open: bool) -> tuple[Launch, Varying | None]:
        """A launch as it is bound, and what it reads from memory."""
        memory = self._memory
        varying = None if memory is None else memory.varying(launch)
        offset = None if memory is None or varying is None else memory.offset()
        if memory is None or varying is None or offset is None:
            return launch, None
        if is_open:
            memory.give_back([offset])  # each recording takes its own
        else:
            self.fixed_offsets.append(offset)
        # Other launches may have the same shader read more: this one goes on with what it is bound with.
        return with_numbers_at(launch, varying, offset), dataclasses.replace(varying)

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

    def offsets(self) -> Offsets | None:
        """Where a recording's launches find their numbers; ``None``: the device has no memory for them."""
        found: Offsets = []
        for each in self._open:
            if each.varying is not None and self._memory is not None:
                offset = self._memory.offset()
                if offset is None:
                    self._memory.give_back(found)
                    return None
                found.append(offset)
        return found

    def recording(self, numbers: Numbers, offsets: Offsets, elsewhere: Elsewhere) -> Recording:
        """Records the launches.

        Args:
            offsets: its own, as :meth:`offsets` gives them; the numbers are written there.
            elsewhere: what open launches bind in this recording.
        """
        words, left = numbers.astype(np.uint32), iter(offsets)
        for each, groups in zip(self._open, numbers[self._groups].tolist(), strict=True):
            form = self._form(each, numbers, elsewhere)
            memory = each.bound.memory
            push = words[each.words]
            if each.varying is not None:
                memory, base = next(left)
                memory.host_bytes.view(np.uint32)[base : base + len(each.read)] = words[each.read]
                each.pushed[:-1], each.pushed[-1] = push, base
                push = each.pushed
            if form is not each.bound.launch or memory is not each.bound.memory:
                each.bound = self._bound_to(form, each.varying, memory)
            if groups != each.bound.groups:
                algorithm = each.bound.bind(groups)
                each.bound = dataclasses.replace(each.bound, groups=groups, algorithm=algorithm)
            self._steps[each.index] = self._operations.of_dispatch(each.bound.algorithm, push)
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

    def _form(self, each: _VaryingLaunch, numbers: Numbers, elsewhere: Elsewhere) -> Launch:
        """What a launch is bound as; the same object as before where that is the same."""
        found = each.bound.launch
        if each.compiled_in:  # constants that it cannot read
            own = list(found.specialization)
            for constant in each.compiled_in:
                own[constant] = int(numbers[each.constants + constant])
            if tuple(own) != found.specialization:
                found = dataclasses.replace(found, specialization=tuple(own))
        if each.number in elsewhere and elsewhere[each.number][0] != found.allocations:
            found = dataclasses.replace(found, allocations=elsewhere[each.number][0])
        return found

    def _bound_to(self, launch: Launch, varying: Varying | None, memory: Allocation | None) -> _Bound:
        form = launch if varying is None or memory is None else reading(launch, varying, memory)
        push = np.zeros(len(form.push_constants), np.uint32)  # of which only the number counts
        return _Bound(launch, memory, self._recorder.pipelines.binder(form, push, self._recorder.shader))


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
