"""Shaders that leave zeros wherever they would store something: they show which words a dispatch really writes."""

from __future__ import annotations

import functools
from array import array

from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words
from dmlvk.spirv.opcodes import numbers

_TYPE_POINTER, _FUNCTION, _CONSTANT_NULL, _STORE = numbers("TypePointer Function ConstantNull Store")
_ATOMIC_AND, _ATOMIC_OR, _ATOMIC_U_MIN, _ATOMIC_U_MAX = numbers("AtomicAnd AtomicOr AtomicUMin AtomicUMax")
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
