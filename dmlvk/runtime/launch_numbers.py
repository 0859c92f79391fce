"""Launches with dynamic numbers: shaders read what varies, instead of being compiled for it.

A shader is compiled for the numbers of its first launch. When another launch has others (another batch, say), it is
compiled once more, for all values of those that differ; and again when further ones do, which then ends it: all numbers
are told. Launches that work on much are compiled for a few sets of numbers before: numbers that are compiled in make
them faster.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dmlvk.errors import OutOfMemoryError
from dmlvk.runtime.vulkan import DeviceLimits
from dmlvk.runtime.work import Allocation, Launch
from dmlvk.spirv.general_shaders import general_shader, numbers_of
from dmlvk.spirv.modules import binding_count
from dmlvk.support.recent import Recent

MOST_WORK_GROUPS = 2**10  # Of a launch that reads its numbers from a buffer as soon as they vary

MOST_BYTES = 2**20  # Of all operands of such a launch

MOST_FORMS = 4  # Sets of numbers that a shader is compiled for where it works on more

MOST_NUMBERS = 128  # That a launch reads

MOST_TIMES = 2  # That a shader is compiled for what was found to vary, before it is compiled for everything that may

_WORDS = 2**16  # Of a buffer; more for one recording that has more

_FEWEST_WORDS = 2**4  # Of a room

_MOST_SHADERS = 256  # About which is remembered what varies


class Room(NamedTuple):
    """Where the numbers of a recording's launches stand, one launch behind the other."""

    buffer: Allocation
    base: int  # the first word
    words: int  # how many there are


@dataclasses.dataclass
class Varying:
    """What varies between the launches of a shader that computes one kind of thing."""

    first: tuple[int, ...]  # the values of all of its constants in the first launch
    dynamic: frozenset[int] = frozenset()  # the constants that are dynamic
    spirv: bytes = b""  # the module that reads them
    times: int = 0  # how often one was made
    # the values for which the shader is compiled where it works on much
    forms: set[tuple[int, ...]] = dataclasses.field(default_factory=set)


class LaunchNumbers:
    """What launches on one device read. The engine's lock is held by whoever calls.

    Args:
        allocate: makes a buffer of so many bytes, whose host side is its memory.
        finds_out: whether launches read what was found to vary, and not only what they say varies.
    """

    def __init__(self, allocate: Callable[[int], Allocation], limits: DeviceLimits, *, finds_out: bool = True) -> None:
        self._allocate = allocate
        self._most_push_words = limits.max_push_constants_size // 4
        self._most_bindings = limits.max_per_stage_descriptor_storage_buffers
        self._buffers: list[Allocation] = []
        self._free: dict[int, list[Room]] = {}  # by words, powers of two
        self._uncut: list[Room] = []  # what is left of buffers behind the rooms that were cut from them
        self._shaders: Recent[bytes, frozenset[int]] = Recent(_MOST_SHADERS)
        self._varying: Recent[object, Varying] = Recent(_MOST_SHADERS)
        self._asked: Recent[object, Varying] = Recent(_MOST_SHADERS)
        self._finds_out = finds_out

    @property
    def buffers(self) -> tuple[Allocation, ...]:
        """Where the numbers stand, which only kernels read."""
        return tuple(self._buffers)

    def dynamic(self, launches: Sequence[Launch]) -> tuple[list[Launch], Room | None]:
        """The launches of a recording, of which some read numbers from a buffer; and where these stand, if there are.

        Where the device has no memory for numbers, launches read none.
        """
        read = [self.varying(launch) for launch in launches]
        room = self.room(words_of(read))
        try:
            return (list(launches) if room is None else placed(launches, read, room)), room
        except BaseException:
            self.give_back(room)
            raise

    def varying(self, launch: Launch) -> Varying | None:
        """What a launch reads from a buffer, from now on: others of its shader may read more; ``None``: nothing."""
        varying = self._asked_for(launch) if launch.varying else None
        if varying is None and self._finds_out:
            varying = self._varying_of(launch)
        return None if varying is None else dataclasses.replace(varying)

    def _asked_for(self, launch: Launch) -> Varying | None:
        """A launch's shader that reads from a buffer what varies with sizes; ``None``: it cannot."""
        numbers = self._shaders.of(launch.spirv, lambda: numbers_of(launch.spirv))
        dynamic = numbers & launch.varying
        if not dynamic or len(launch.push_constants) >= self._most_push_words:
            return None
        varying = self._asked.of((launch.spirv, dynamic, len(launch.push_constants)), lambda: Varying(()))
        if not varying.times:
            varying.times = 1
            bindings = binding_count(launch.spirv)
            if self._has_room(launch, bindings, dynamic):
                varying.spirv = general_shader(launch.spirv, dynamic, bindings, len(launch.push_constants))
                varying.dynamic = dynamic
        return varying if varying.dynamic else None

    def _has_room(self, launch: Launch, bindings: int, dynamic: frozenset[int]) -> bool:
        # Each of the launch's buffers is a binding: otherwise the module has other ideas of them than its launches.
        has_binding = bindings == len(launch.allocations) and bindings < self._most_bindings
        return len(dynamic) <= MOST_NUMBERS and has_binding

    def _varying_of(self, launch: Launch) -> Varying | None:
        """What a launch reads; ``None``: nothing."""
        values = launch.specialization
        numbers = self._shaders.of(launch.spirv, lambda: numbers_of(launch.spirv))
        if not numbers or len(launch.push_constants) >= self._most_push_words:
            return None
        kinds = tuple(value for index, value in enumerate(values) if index not in numbers)
        key = (launch.spirv, kinds, len(launch.push_constants))
        varying = self._varying.of(key, lambda: Varying(values))
        pairs = enumerate(zip(values, varying.first, strict=True))
        differing = {index for index, (own, first) in pairs if index in numbers and own != first}
        if not differing:
            return None
        if not _is_small(launch) and (values in varying.forms or len(varying.forms) < MOST_FORMS):
            varying.forms.add(values)
            return None
        if not differing <= varying.dynamic and not self._compile(launch, numbers, varying, differing):
            return None
        return varying

    def _compile(self, launch: Launch, numbers: frozenset[int], varying: Varying, differing: set[int]) -> bool:
        """Makes a module that reads more; not where there is no room for it."""
        every = numbers.intersection(range(len(launch.specialization)))
        dynamic = varying.dynamic | differing if varying.times < MOST_TIMES else every
        bindings = binding_count(launch.spirv)
        if not self._has_room(launch, bindings, dynamic):
            return False
        varying.spirv = general_shader(launch.spirv, dynamic, bindings, len(launch.push_constants))
        varying.dynamic = dynamic
        varying.times += 1
        return True

    def room(self, words: int) -> Room | None:
        """Where so many numbers may stand; ``None``: there are none, or the device has no memory for more."""
        if not words:
            return None
        size = max(_FEWEST_WORDS, 1 << (words - 1).bit_length())
        if free := self._free.setdefault(size, []):
            return free.pop()
        place = next((n for n, uncut in enumerate(self._uncut) if uncut.words >= size), len(self._uncut))
        if place == len(self._uncut):
            try:
                buffer = self._allocate(max(_WORDS, size) * 4)
            except OutOfMemoryError:
                return None
            self._buffers.append(buffer)
            self._uncut.append(Room(buffer, 0, max(_WORDS, size)))
        buffer, base, left = self._uncut[place]
        self._uncut[place] = Room(buffer, base + size, left - size)
        return Room(buffer, base, size)

    def give_back_with(self, owner: object, room: Room | None) -> None:
        """Frees a room when nobody has what launches with its numbers any more: a recording, say."""
        if room is not None:
            # The finalizer may come in the middle of anything: it does nothing but add to a list.
            weakref.finalize(owner, self._free[room.words].append, room).atexit = False

    def give_back(self, room: Room | None) -> None:
        """Frees a room that no recording has."""
        if room is not None:
            self._free[room.words].append(room)


def words_of(read: Sequence[Varying | None]) -> int:
    """How many numbers launches read together."""
    return sum(len(varying.dynamic) for varying in read if varying is not None)


def placed(launches: Sequence[Launch], read: Sequence[Varying | None], room: Room) -> list[Launch]:
    """Launches that read their numbers in a room, into which they are written."""
    made, base = [], room.base
    for launch, varying in zip(launches, read, strict=True):
        if varying is None:
            made.append(launch)
            continue
        dynamic = sorted(varying.dynamic)
        room.buffer.host_bytes.view(np.uint32)[base : base + len(dynamic)] = [launch.specialization[n] for n in dynamic]
        form = reading(launch, varying, room.buffer)
        made.append(dataclasses.replace(form, push_constants=(*launch.push_constants, base)))
        base += len(dynamic)
    return made


def reading(launch: Launch, varying: Varying, buffer: Allocation) -> Launch:
    """A launch that reads its numbers at the beginning of a buffer.

    Args:
        buffer: what is bound behind all else.
    """
    return dataclasses.replace(
        launch,
        spirv=varying.spirv,
        specialization=tuple(0 if i in varying.dynamic else own for i, own in enumerate(launch.specialization)),
        push_constants=(*launch.push_constants, 0),
        allocations=(*launch.allocations, buffer),
    )


def _is_small(launch: Launch) -> bool:
    x, y, z = launch.work_groups
    size = launch.operand_bytes
    if size is None:
        size = sum(allocation.size_in_bytes for allocation in launch.allocations)
    return x * y * z <= MOST_WORK_GROUPS and size <= MOST_BYTES
