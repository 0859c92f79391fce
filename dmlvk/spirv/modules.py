"""Reads SPIR-V modules, word by word, and sets constants in them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterator

from dmlvk.spirv.opcodes import NUMBERS, numbers

HEADER_WORDS = 5  # What stands before a module's first instruction

_MAGIC = 0x07230203
_BOUND = 3  # the place in the header of the number above all that the module gives to types, constants and results
_EXECUTION_MODE, _LOCAL_SIZE = 16, 17
_TYPE_INT, _CONSTANT, _CONSTANT_COMPOSITE = numbers("TypeInt Constant ConstantComposite")
_BUILT_IN, _WORK_GROUP_SIZE = 11, 25
_FUNCTION = NUMBERS["OpFunction"]  # constants stand before the first of them
_SPEC_CONSTANT_TRUE, _SPEC_CONSTANT_FALSE, _SPEC_CONSTANT = numbers("SpecConstantTrue SpecConstantFalse SpecConstant")
_DECORATE, _SPEC_ID, _BINDING = 71, 1, 33
_CAPABILITY, _EXTENSION, _ENTRY_POINT = numbers("Capability Extension EntryPoint")

_FLOAT_CONTROLS_NAME = array("I", b"SPV_KHR_float_controls\0\0")
_FLOAT_CONTROLS = {
    "shaderSignedZeroInfNanPreserveFloat32": (4466, 4461),
    "shaderDenormPreserveFloat32": (4464, 4459),
    "shaderRoundingModeRTEFloat32": (4467, 4462),
}
"""Capability and execution mode, by Vulkan's name of what a device offers."""


def module_words(data: bytes) -> array[int]:
    """A module in the byte order of this machine.

    Raises:
        ValueError: the bytes are not a SPIR-V module.
    """
    if len(data) % 4 or len(data) < 4 * HEADER_WORDS:
        raise ValueError(f"{len(data)} bytes are not a SPIR-V module: a multiple of 4, at least 20")
    words = array("I")
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    if words[0] != _MAGIC:
        words.byteswap()
    if words[0] != _MAGIC:
        raise ValueError(f"the first word is {words[0]:#010x}, not SPIR-V's {_MAGIC:#010x}")
    return words


def module_instructions(words: array[int]) -> Iterator[tuple[int, int, array[int]]]:
    """Position, number and operands of every instruction, in order.

    Raises:
        ValueError: one of them has no possible length.
    """
    position = HEADER_WORDS
    while position < len(words):
        length = words[position] >> 16
        if length == 0 or position + length > len(words):
            raise ValueError(f"the instruction at word {position} has the length {length}")
        yield position, words[position] & 0xFFFF, words[position + 1 : position + length]
        position += length


def words_of(opcode: int, *operands: int) -> array[int]:
    """The words of an instruction."""
    return array("I", ((len(operands) + 1) << 16 | opcode, *operands))


def binding_count(spirv: bytes) -> int:
    """How many bindings a shader has, which are numbered from 0 on."""
    count = 0
    for _, opcode, operands in module_instructions(module_words(spirv)):
        if opcode == _FUNCTION:
            break
        if opcode == _DECORATE and operands[1] == _BINDING:
            count = max(count, operands[2] + 1)
    return count


def uses_constant(spirv: bytes, constant_id: int) -> bool:
    """Whether a module computes with a specialization constant that it declares, or may.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.
        constant_id: of a constant from which no other constant is computed.
    """
    words = module_words(spirv)
    for position, _, operands in _declarations(words, constant_id):
        return operands[1] in words[position + 1 + len(operands) :]
    return False


def with_constant(spirv: bytes, constant_id: int, value: int) -> bytes:
    """A module in which a specialization constant is something else for pipelines that are not given it.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.
        constant_id: of a Boolean, or of a number of 32 bits.
        value: 0 or 1 for a Boolean.

    Returns:
        the module, in the byte order of this machine; unchanged where it has no such constant.
    """
    words = module_words(spirv)
    for position, opcode, _ in _declarations(words, constant_id):
        if opcode == _SPEC_CONSTANT:
            words[position + 3] = value
        else:
            words[position] += (_SPEC_CONSTANT_TRUE if value else _SPEC_CONSTANT_FALSE) - opcode
    return words.tobytes()


def with_work_group_size(spirv: bytes, invocations: int) -> bytes:
    """A module whose work groups, which have one dimension, have another number of invocations.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.

    Returns:
        the module, in the byte order of this machine.
    """
    words = module_words(spirv)
    made = words[:HEADER_WORDS]
    number = words[_BOUND]  # of a constant of its own: others may use the one that says 256
    made[_BOUND] += 1
    unsigned = 0  # the type's number
    composites: set[int] = set()
    for position, opcode, operands in module_instructions(words):
        instruction = words[position : position + 1 + len(operands)]
        if opcode == _EXECUTION_MODE and operands[1] == _LOCAL_SIZE:
            instruction[3] = invocations
        elif opcode == _DECORATE and operands[1] == _BUILT_IN and operands[2] == _WORK_GROUP_SIZE:
            composites.add(operands[0])  # it outweighs the execution mode
        elif opcode == _TYPE_INT:
            unsigned = operands[0] if operands[2] == 0 else unsigned
        elif opcode == _CONSTANT_COMPOSITE and operands[1] in composites:
            made += words_of(_CONSTANT, unsigned, number, invocations)
            instruction[3] = number
        made.extend(instruction)
    return made.tobytes()


def with_float_controls(spirv: bytes, controls: Collection[str]) -> bytes:
    """A module that demands of FLOAT32 arithmetic what a device offers to keep.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.
        controls: by Vulkan's names, such as ``"shaderDenormPreserveFloat32"``; at least one.

    Returns:
        the module, in the byte order of this machine.
    """
    words = module_words(spirv)
    named = [_FLOAT_CONTROLS[name] for name in controls]
    made, entry = words[:HEADER_WORDS], 0
    is_extended, has_modes = False, False
    for position, opcode, operands in module_instructions(words):
        if opcode != _CAPABILITY and not is_extended:
            is_extended = True
            for capability, _ in named:
                made += words_of(_CAPABILITY, capability)
            made += words_of(_EXTENSION, *_FLOAT_CONTROLS_NAME)
        if opcode == _ENTRY_POINT:
            entry = operands[1]
        elif entry and not has_modes:
            has_modes = True
            for _, mode in named:
                made += words_of(_EXECUTION_MODE, entry, mode, 32)
        made.extend(words[position : position + 1 + len(operands)])
    return made.tobytes()


def _declarations(words: array[int], constant_id: int) -> Iterator[tuple[int, int, array[int]]]:
    """The instruction that declares a specialization constant: one, or none."""
    name = None
    for position, opcode, operands in module_instructions(words):
        if opcode == _FUNCTION:
            break
        if opcode == _DECORATE and operands[1] == _SPEC_ID and operands[2] == constant_id:
            name = operands[0]
        elif opcode in (_SPEC_CONSTANT_TRUE, _SPEC_CONSTANT_FALSE, _SPEC_CONSTANT) and operands[1] == name:
            yield position, opcode, operands
