"""The names of a module's specialization constants: kept when it is compiled, and read by what launches it.

SPIR-V numbers these constants; their names in GLSL are debug information (OpName), of which nothing else is kept.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Mapping

from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words

NAMES_KEPT = "names of specialization constants"  # Changes when something else is kept of a module's debug information

FIRST_OF_DRIVER = 1000  # Constants with this ``constant_id`` and above are set in the module, and no launch gives them

_NAME, _DECORATE, _SPEC_ID, _FUNCTION, _COMPOSITE = 5, 71, 1, 54, 51
_BUILT_IN, _WORK_GROUP_SIZE = 11, 25
_DEBUG = frozenset((2, 3, 4, _NAME, 6, 7, 8, 317, 330))  # sources, names, lines, what processed the module


@dataclasses.dataclass(frozen=True)
class Constants:
    ids: Mapping[str, int]  # by name the ``constant_id``, of those that a launch gives
    count: int  # how many values a launch gives, from id 0 on: ids that the module has not are given 0


def with_constant_names_only(data: bytes) -> bytes:
    """A module without debug information but for the names of its specialization constants.

    Args:
        data: a module of glslang, with names.

    Returns:
        the module, in the byte order of this machine.

    Raises:
        ValueError: the bytes are not a SPIR-V module, or a constant that is no work group's size has no name.
    """
    words = module_words(data)
    made = words[:HEADER_WORDS]
    constant_ids = _constant_ids(words)
    missing = set(constant_ids)
    for position, opcode, operands in module_instructions(words):
        if opcode == _NAME and operands[0] in constant_ids:
            missing.discard(operands[0])
        elif opcode in _DEBUG:
            continue
        made.extend(words[position : position + 1 + len(operands)])
    missing -= _work_group_sizes(words)
    if missing:
        raise ValueError(
            f"there is no name for the specialization constant {min(constant_ids[each] for each in missing)}"
        )
    return made.tobytes()


def constants_of(spirv: bytes) -> Constants:
    """What a launch of a module may be given.

    Args:
        spirv: a module with the names of its constants.

    Raises:
        ValueError: the bytes are not a SPIR-V module, or two constants share a name.
    """
    words = module_words(spirv)
    constant_ids = {
        result: constant_id for result, constant_id in _constant_ids(words).items() if constant_id < FIRST_OF_DRIVER
    }
    unnamed = set(constant_ids)
    ids: dict[str, int] = {}
    for _, opcode, operands in module_instructions(words):
        if opcode == _FUNCTION:
            break
        # A local variable that is nothing but the constant is a later name of the same result.
        if opcode == _NAME and operands[0] in unnamed:
            unnamed.discard(operands[0])
            name = operands[1:].tobytes().partition(b"\0")[0].decode()
            if name in ids:
                raise ValueError(
                    f"{name} is the name of the specialization constants {ids[name]} and {constant_ids[operands[0]]}"
                )
            ids[name] = constant_ids[operands[0]]
    return Constants(ids, max(constant_ids.values(), default=-1) + 1)


def _work_group_sizes(words: array[int]) -> set[int]:
    """What a work group's size is made of: ``local_size_x_id`` has no name in GLSL, and the linter objects to it."""
    sizes: set[int] = set()
    made: set[int] = set()
    for _, opcode, operands in module_instructions(words):
        if opcode == _FUNCTION:
            break
        if opcode == _DECORATE and tuple(operands[1:3]) == (_BUILT_IN, _WORK_GROUP_SIZE):
            made.add(operands[0])
        elif opcode == _COMPOSITE and operands[1] in made:
            sizes.update(operands[2:])
    return sizes


def _constant_ids(words: array[int]) -> dict[int, int]:
    """By result the ``constant_id`` of every specialization constant."""
    constant_ids: dict[int, int] = {}
    for _, opcode, operands in module_instructions(words):
        if opcode == _FUNCTION:
            break
        if opcode == _DECORATE and operands[1] == _SPEC_ID:
            constant_ids[operands[0]] = operands[2]
    return constant_ids
