"""Shaders that leave zeros wherever they would store something, or whose work groups stand in the opposite order.

They show which words a dispatch really writes, and what follows from an order of work groups, which nothing promises.
"""

from __future__ import annotations

import functools
from array import array

from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words
from dmlvk.spirv.opcodes import numbers

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
