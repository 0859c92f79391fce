"""How much a driver has to look at to compile a module, once it has put all calls into their places.

Drivers do that before they drop what specialization constants exclude, so that a function that is called at fifty
places is looked at fifty times. Mesa then compares each load and store with all that variables are known to hold
there: those stored before in the same block, or in one around it. What a branch or a loop stored is forgotten behind
it (``nir_opt_copy_prop_vars``).
"""

from __future__ import annotations

import functools
import heapq
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from dmlvk.spirv import opcodes
from scripts.shader_tools.spirv import Module

MOST_INSTRUCTIONS: Final = 85_000
"""With all calls in their places. From 90,000 on AMD's compiler took 1.5 s and more of a core."""

MOST_COMPARISONS: Final = 14_000_000
"""Of loads and stores with what is known. From 16 million on AMD's compiler took 1.5 s and more of a core."""

_FUNCTION, _CALL, _LABEL, _LOAD, _STORE = map(
    opcodes.opcode, ("OpFunction", "OpFunctionCall", "OpLabel", "OpLoad", "OpStore")
)
_MERGES = opcodes.opcodes("SelectionMerge LoopMerge")
_FLOW = _MERGES | {_FUNCTION, _CALL, _LABEL, _LOAD, _STORE}


class Length(NamedTuple):
    """What there is to compile of a function with all that it calls.

    Attributes:
        instructions: all of them.
        accesses: its loads and stores.
        comparisons: of each of these with what is known there, as if nothing were known where the function begins.
        known: how many variables hold something that is known where it ends.
    """

    instructions: int
    accesses: int
    comparisons: int
    known: int


def length_of(module: Module) -> Length:
    """The length of a module's entry point."""
    bodies: dict[int, list[tuple[int, int]]] = {}
    sizes: dict[int, int] = {}
    current = 0
    ends = module.offsets.get(opcodes.opcode("OpFunctionEnd"), [])
    starts = module.offsets.get(_FUNCTION, [])
    for start, end in zip(starts, ends, strict=True):
        sizes[module.words[start + 2]] = sum(
            bisect_left(offsets, end) - bisect_left(offsets, start) for offsets in module.offsets.values()
        )
    for opcode, operand in _flow(module):
        if opcode == _FUNCTION:
            current = operand
            bodies[current] = []
        else:
            bodies[current].append((opcode, operand))

    @functools.cache
    def length(function: int) -> Length:
        return _joined(sizes[function], bodies[function], length)

    (entry_point,) = module.named("OpEntryPoint")
    return length(entry_point.operands[1])


def _flow(module: Module) -> Iterator[tuple[int, int]]:
    """The instructions that count, in order: number and function, label, behind which, or variable."""
    for offset in heapq.merge(*(module.offsets.get(number, ()) for number in _FLOW)):
        opcode = module.words[offset] & 0xFFFF
        if opcode in (_FUNCTION, _CALL, _LOAD):  # behind the result and its type, but for a function's own name
            yield opcode, module.words[offset + (2 if opcode == _FUNCTION else 3)]
        else:
            yield opcode, module.words[offset + 1]


def _joined(instructions: int, body: list[tuple[int, int]], length: functools._lru_cache_wrapper[Length]) -> Length:
    accesses = comparisons = of_calls = 0
    known: frozenset[int] = frozenset()
    around: list[tuple[int, int, frozenset[int]]] = []  # the constructs: where each ends, and what was known before it
    for opcode, operand in body:
        if opcode in _MERGES:
            around.append((operand, of_calls, known))
        elif opcode == _LABEL:
            if around:
                end, of_calls, known = around[-1]
                if end == operand:
                    around.pop()
        elif opcode == _CALL:
            called = length(operand)
            instructions += called.instructions
            accesses += called.accesses
            comparisons += called.comparisons + called.accesses * (of_calls + len(known))
            of_calls += called.known
        else:
            accesses += 1
            comparisons += of_calls + len(known)
            if opcode == _STORE:
                known |= {operand}
    return Length(instructions, accesses, comparisons, of_calls + len(known))
