"""Gives cooperative matrices their component types, which GLSL cannot name to the compilers that there are.

glslang before its version 13 knows no cooperative matrices, but GL_EXT_spirv_intrinsics, by which
``shaders/include/cooperative_matrix.glsl`` describes them. There a type has no other types for parameters, only
numbers: the numbers that stand for types are replaced here.
"""

from __future__ import annotations

from array import array

from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words, words_of
from dmlvk.spirv.opcodes import numbers

SOURCE = "matrix/cooperative_tiles.comp"
EXACT_SOURCE = "matrix/exact_tiles.comp"
FLOATS_SOURCE = "matrix/cooperative_floats.comp"
CHANNELS_SOURCE = "matrix/cooperative_channels.comp"
ATTENTION_SOURCE = "patterns/composed/attention_cooperative.comp"
BLOCKS_SOURCE = "matrix/block_matrices.comp"
PACKED_SOURCE = "matrix/packed_matrices.comp"
TRIAL_SOURCE = "trial/matrix_quads.comp"
SOURCES = (
    *(SOURCE, EXACT_SOURCE, FLOATS_SOURCE, CHANNELS_SOURCE, ATTENTION_SOURCE, BLOCKS_SOURCE, PACKED_SOURCE),
    TRIAL_SOURCE,
)
"""The shaders with such matrices: of bytes, of FLOAT32 as bytes, of 16-bit numbers, of convolutions, attention, packed
weights by device arithmetic and by exact sums, a trial."""

_OP_CAPABILITY, _OP_TYPE_INT, _OP_TYPE_FLOAT, _OP_CONSTANT = numbers("Capability TypeInt TypeFloat Constant")
_OP_TYPE_COOPERATIVE_MATRIX = 4456
_BOUND = 3  # the place in the header of the number above all that the module gives
_FLOAT16, _INT8 = 9, 39  # capabilities
_BRAIN_FLOAT = 0  # BFloat16KHR, an encoding of floating-point numbers: those without have IEEE 754's

_COMPONENTS = {
    0x5F080001: (_OP_TYPE_INT, 8, 1),
    0x5F200001: (_OP_TYPE_INT, 32, 1),
    0x5F100002: (_OP_TYPE_FLOAT, 16),
    0x5F200002: (_OP_TYPE_FLOAT, 32),
    0x5F100003: (_OP_TYPE_FLOAT, 16, _BRAIN_FLOAT),
}
"""The types that numbers stand for: as in ``shaders/include/cooperative_matrix.glsl``."""

_CAPABILITIES = {_COMPONENTS[0x5F080001]: _INT8, _COMPONENTS[0x5F100002]: _FLOAT16}


def has_cooperative_matrices(data: bytes) -> bool:
    """Whether a module declares a cooperative matrix.

    Raises:
        ValueError: the bytes are not a SPIR-V module.
    """
    return any(opcode == _OP_TYPE_COOPERATIVE_MATRIX for _, opcode, _ in module_instructions(module_words(data)))


def with_component_types(data: bytes) -> bytes:
    """A module whose cooperative matrices have types of components, not numbers.

    Returns:
        the module, in the byte order of this machine; as it is where it has no such matrix.

    Raises:
        ValueError: the bytes are not a SPIR-V module, or a number stands for no type.
    """
    if not has_cooperative_matrices(data):
        return data
    words = module_words(data)
    stand_ins: dict[int, int] = {}  # constants, and the numbers that they are
    declared: dict[tuple[int, ...], int] = {}
    matrices: set[int] = set()  # the constants that stand in the place of types
    capabilities: set[int] = set()
    for _, opcode, operands in module_instructions(words):
        if opcode == _OP_CAPABILITY:
            capabilities.add(operands[0])
        elif opcode in (_OP_TYPE_INT, _OP_TYPE_FLOAT):
            declared[_kind(opcode, operands)] = operands[0]
        elif opcode == _OP_CONSTANT and operands[2] in _COMPONENTS:
            stand_ins[operands[1]] = operands[2]
        elif opcode == _OP_TYPE_COOPERATIVE_MATRIX:
            if operands[1] not in stand_ins:
                raise ValueError(f"the cooperative matrix {operands[0]} has no type of components that is known")
            matrices.add(operands[1])
    return _rewritten(
        words, {name: _COMPONENTS[stand_ins[name]] for name in matrices}, declared, capabilities
    ).tobytes()


def _kind(opcode: int, operands: array[int]) -> tuple[int, ...]:
    """What a type is, whatever its number."""
    return (opcode, *operands[1:])


def _rewritten(
    words: array[int], types: dict[int, tuple[int, ...]], declared: dict[tuple[int, ...], int], capabilities: set[int]
) -> array[int]:
    """The module's words with types in the place of the constants that stand for them, each declared before."""
    made = words[:HEADER_WORDS]
    for wanted in sorted(set(types.values())):
        if (capability := _CAPABILITIES.get(wanted)) is not None and capability not in capabilities:
            made += words_of(_OP_CAPABILITY, capability)
        if wanted not in declared:
            declared[wanted] = made[_BOUND]
            made[_BOUND] += 1
    ready: set[tuple[int, ...]] = set()
    for position, opcode, operands in module_instructions(words):
        instruction = words[position : position + 1 + len(operands)]
        if opcode in (_OP_TYPE_INT, _OP_TYPE_FLOAT):
            kind = _kind(opcode, operands)
            if kind in ready:
                continue  # a type is declared once
            ready.add(kind)
        elif opcode == _OP_CONSTANT and operands[1] in types:
            continue
        elif opcode == _OP_TYPE_COOPERATIVE_MATRIX:
            kind = types[operands[1]]
            if kind not in ready:
                ready.add(kind)
                made += words_of(kind[0], declared[kind], *kind[1:])
            instruction[2] = declared[kind]
        made.extend(instruction)
    return made
