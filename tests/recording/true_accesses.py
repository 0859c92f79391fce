"""What each step of a recording really touches, and shaders whose stores are marked."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.kernels.program import BindingKind, KernelStep, Region
from dmlvk.objects.recording import Access, HazardTracker, scheduled
from dmlvk.runtime.work import Allocation, Launch
from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words
from dmlvk.spirv.opcodes import numbers

Bytes = npt.NDArray[np.uint8]

Mask = npt.NDArray[np.bool_]

Memory = dict[Allocation, Bytes]

Contents = Mapping[tuple[BindingKind, int], Bytes]

_GUARD = 256  # Bytes before and behind the memory of each place

_NOT_WRITTEN = 0xFF

_ELSEWHERE = 0x5A, 0xFF
"""What bytes hold that do not belong to a step: the second one is NaN for those who compute with it."""

_Written = dict[Allocation, Mask]


class ProbedSteps:
    """The steps of a program with memory of their own, run one at a time.

    Args:
        device: one whose memory the host sees.
        contents: what inputs and constants hold.
        fill: the byte with which all other memory begins.
    """

    def __init__(self, device: dml.Device, steps: Sequence[KernelStep], contents: Contents, fill: int = 0x33) -> None:
        self._engine = device.engine
        sizes = {index: data.size for index, data in contents.items()}
        for region in (region for step in steps for region in (*step.reads, *step.writes)):
            key = region.kind, region.index
            sizes[key] = max(sizes.get(key, 0), region.offset + region.size_in_bytes)
        self._memory: dict[tuple[BindingKind, int], Allocation] = {}
        for key, size in sizes.items():
            allocation = self._engine.allocate(-(-size // 4) * 4 + 2 * _GUARD)
            assert not allocation.has_staging
            allocation.host_bytes[:] = fill
            self._memory[key] = allocation
        for key, data in contents.items():
            self._memory[key].host_bytes[_GUARD : _GUARD + data.size] = data
        self._steps = scheduled(steps, self._locate, HazardTracker())

    def _locate(self, region: Region) -> tuple[Allocation, int]:
        return self._memory[region.kind, region.index], _GUARD

    def close(self) -> None:
        for allocation in self._memory.values():
            self._engine.release(allocation)

    def outputs(self) -> list[Bytes]:
        return [
            allocation.host_bytes[_GUARD:-_GUARD].copy()
            for (index, _), allocation in self._memory.items()
            if index is BindingKind.OUTPUT
        ]

    def run(self) -> None:
        for number in range(len(self._steps)):
            self._run_step(number)

    def run_turned_around(self) -> int:
        """Runs the steps in another order that the device may take, too: says how many have another place in it.

        Steps run in the opposite order where none of them waits for one before it.
        """
        waiting = [number for number, step in enumerate(self._steps) if step.depends]
        bounds = [0, *waiting, len(self._steps)]
        moved = 0
        for start, end in itertools.pairwise(bounds):
            moved += end - start if end - start > 1 else 0
            for number in reversed(range(start, end)):
                self._run_step(number)
        return moved

    def _run_step(self, number: int, changed: Callable[[Launch], Launch] | None = None) -> None:
        launch = dataclasses.replace(self._steps[number].launch(self._engine), depends=False)
        self._engine.run(self._engine.record([launch if changed is None else changed(launch)]))

    def faults(self, *, mirrors: bool = False) -> Iterator[str]:
        """Runs the steps in order, and says which of them are not what the recorder takes them for.

        A step must write no word outside of its writes, and what it makes must not follow from any byte outside of its
        reads and writes. Steps that are independent of one another must not write the same word.

        Args:
            mirrors: whether what a step makes must not follow from the order of its work groups either.
        """
        siblings: list[tuple[str, _Written]] = []
        for number, recorded in enumerate(self._steps):
            label, written = recorded.step.label, self._written(number)
            for allocation, words in written.items():
                beyond = words & ~_words(_mask(allocation, recorded.writes))
                if beyond.any():
                    yield f"{label}: writes {self._told(allocation, beyond)}, which it does not say"
            if not recorded.step.is_independent:
                siblings.clear()
            for sibling, others in siblings:
                for allocation in written.keys() & others.keys():
                    shared = written[allocation] & others[allocation]
                    if shared.any():
                        told = self._told(allocation, shared)
                        yield f"{label}: writes {told}, as {sibling} does, of which it is said to be independent"
            siblings.append((label, written))
            yield from self._run_and_compare(number, _mirrored if mirrors else None)

    def _written(self, number: int) -> _Written:
        """The words that a step writes; of those that it reads as well, the ones that were not zero."""
        before = self._saved()
        for allocation in before:
            allocation.host_bytes[~_mask(allocation, self._steps[number].reads)] = _NOT_WRITTEN
        unmarked = self._saved()
        self._run_step(number, _marked)
        found = {allocation: _words(allocation.host_bytes != data) for allocation, data in unmarked.items()}
        _restore(before)
        return {allocation: words for allocation, words in found.items() if words.any()}

    def _run_and_compare(self, number: int, changed: Callable[[Launch], Launch] | None) -> Iterator[str]:
        """Runs a step twice, with other bytes around what it reads and writes; leaves what the first run made.

        Args:
            changed: makes of its launch the second one.
        """
        recorded = self._steps[number]
        before, made = self._saved(), list[Memory]()
        own = {a: _mask(a, (*recorded.reads, *recorded.writes)) for a in before}
        for elsewhere, change in zip(_ELSEWHERE, (None, changed), strict=True):
            _restore(before)
            for allocation in before:
                allocation.host_bytes[~own[allocation]] = elsewhere
            self._run_step(number, change)
            made.append(self._saved())
        for allocation, data in before.items():
            first, second = (each[allocation] for each in made)
            differing = _words(_mask(allocation, recorded.writes) & (first != second))
            if differing.any():
                told = self._told(allocation, differing)
                yield f"{recorded.step.label}: {told} follow from bytes that are not its own, or from an order"
            allocation.host_bytes[:] = np.where(own[allocation], first, data)

    def _saved(self) -> Memory:
        return {allocation: allocation.host_bytes.copy() for allocation in self._memory.values()}

    def _told(self, allocation: Allocation, words: Mask) -> str:
        position, index = next(key for key, there in self._memory.items() if there is allocation)
        found = np.flatnonzero(words) - _GUARD // 4
        return f"{found.size} words of {position.value} {index} from {found[0]} to {found[-1]}"


def _marked(launch: Launch) -> Launch:
    return dataclasses.replace(launch, spirv=with_marked_stores(launch.spirv))


def _mirrored(launch: Launch) -> Launch:
    """A launch with the last work group first, whose invocations are counted by work groups."""
    constants = (1, *launch.specialization[1:]) if launch.specialization else ()  # LAUNCH_HAS_ROWS is the first
    return dataclasses.replace(launch, spirv=with_mirrored_work_groups(launch.spirv), specialization=constants)


def _restore(memory: Memory) -> None:
    for allocation, data in memory.items():
        allocation.host_bytes[:] = data


def _mask(allocation: Allocation, accesses: Sequence[Access]) -> Mask:
    """The bytes of an allocation that are among some ranges, which end at whole words."""
    mask = np.zeros(allocation.size_in_bytes, np.bool_)
    for access in accesses:
        if access.memory is allocation:
            mask[access.start : -(-access.end // 4) * 4] = True
    return mask


def _words(mask: Mask) -> Mask:
    words: Mask = mask.reshape(-1, 4).any(axis=1)
    return words


_TYPE_POINTER, _FUNCTION, _CONSTANT_NULL, _STORE = numbers("TypePointer Function ConstantNull Store")

_ATOMIC_AND, _ATOMIC_OR, _ATOMIC_U_MIN, _ATOMIC_U_MAX = numbers("AtomicAnd AtomicOr AtomicUMin AtomicUMax")

_LOAD, _ACCESS_CHAIN, _DECORATE, _NOT, _I_ADD = numbers("Load AccessChain Decorate Not IAdd")

_BUILT_IN, _NUM_WORKGROUPS, _WORKGROUP_ID = 11, 24, 26

_POINTERS = numbers("AccessChain InBoundsAccessChain Variable FunctionParameter")

_BUFFERS = (2, 12)  # storage classes: Uniform, as buffers were before SPIR-V 1.3, and StorageBuffer

_BOUND = 3

_ATOMICS = (_ATOMIC_AND, _ATOMIC_OR, _ATOMIC_U_MIN, _ATOMIC_U_MAX)


@functools.lru_cache(maxsize=256)
def with_marked_stores(spirv: bytes) -> bytes:
    """A shader that stores zeros at the places of a module's stores and atomics to buffers.

    It goes the same ways: what it loads from memory that it does not write is as before.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.

    Returns:
        the module, in the byte order of this machine.
    """
    words = module_words(spirv)
    pointees: dict[int, int] = {}  # by pointer types to buffers
    pointers: dict[int, int] = {}  # what each pointer to a buffer points to
    for _, opcode, operands in module_instructions(words):
        if opcode == _TYPE_POINTER and operands[1] in _BUFFERS:
            pointees[operands[0]] = operands[2]
        elif opcode in _POINTERS and operands[0] in pointees:
            pointers[operands[1]] = pointees[operands[0]]
    zeros: dict[int, int] = {}  # by type

    def zero(of_type: int) -> int:
        return zeros.setdefault(of_type, words[_BOUND] + len(zeros))

    declared, body = words[:HEADER_WORDS], array("I")
    for position, opcode, operands in module_instructions(words):
        instruction = words[position : position + 1 + len(operands)]
        if opcode == _STORE and operands[0] in pointers:
            instruction[2] = zero(pointers[operands[0]])
        elif opcode in _ATOMICS and operands[2] in pointers:
            instruction[0] += _ATOMIC_AND - opcode
            instruction[6] = zero(operands[0])
        target = body if body or opcode == _FUNCTION else declared
        target.extend(instruction)
    for of_type, number in zeros.items():
        declared.extend((3 << 16 | _CONSTANT_NULL, of_type, number))
    declared[_BOUND] += len(zeros)
    return (declared + body).tobytes()


@functools.lru_cache(maxsize=256)
def with_mirrored_work_groups(spirv: bytes) -> bytes:
    """A shader each of whose work groups does what the one at the other end of the launch did.

    Args:
        spirv: a module whose invocations are counted by work groups and not by ``gl_GlobalInvocationID``: where the
            specialization constant LAUNCH_HAS_ROWS is true.

    Returns:
        the module, in the byte order of this machine; unchanged where it does not count its work groups.
    """
    words = module_words(spirv)
    made, last = words[:HEADER_WORDS], words[_BOUND]
    built_in: dict[int, int] = {}  # the variable of each
    chains: dict[int, tuple[int, int]] = {}  # pointers to parts of a work group's number: their type, and which part
    for position, opcode, operands in module_instructions(words):
        if opcode == _DECORATE and operands[1] == _BUILT_IN:
            built_in[operands[2]] = operands[0]
        elif opcode == _ACCESS_CHAIN and operands[2] == built_in.get(_WORKGROUP_ID):
            chains[operands[1]] = operands[0], operands[3]
        if opcode != _LOAD or operands[2] not in chains or _NUM_WORKGROUPS not in built_in:
            made.extend(words[position : position + 1 + len(operands)])
            continue
        unsigned, result, pointer = operands[:3]
        pointer_type, part = chains[pointer]
        counted, count, own, opposite = range(last, last + 4)
        last += 4
        made.extend((5 << 16 | _ACCESS_CHAIN, pointer_type, counted, built_in[_NUM_WORKGROUPS], part))
        made.extend((4 << 16 | _LOAD, unsigned, count, counted))
        made.extend((4 << 16 | _LOAD, unsigned, own, pointer))
        made.extend((4 << 16 | _NOT, unsigned, opposite, own))
        made.extend((5 << 16 | _I_ADD, unsigned, result, count, opposite))  # count - 1 - own
    made[_BOUND] = last
    return made.tobytes()
