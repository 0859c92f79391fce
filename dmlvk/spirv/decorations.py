"""Says in a module what glslang leaves unsaid: the one change that is made to what the GLSL compiler writes."""

from __future__ import annotations

from array import array

from dmlvk.spirv.modules import module_instructions, module_words, words_of
from dmlvk.spirv.opcodes import numbers

_OP_EXT_INST, _OP_VARIABLE, _OP_DECORATE, _OP_MEMBER_DECORATE, _OP_TYPE_POINTER, _OP_MULTIPLY = numbers(
    "ExtInst Variable Decorate MemberDecorate TypePointer FMul"
)
_OP_TYPE_COOPERATIVE_MATRIX = 4456
_STORAGE_BUFFER = 12
_FMA = 50  # of GLSL.std.450, the only set of functions that shaders may call
_RESTRICT, _ALIASED, _NO_CONTRACTION = 19, 20, 42

PASSES = "aliased storage buffers, precise fma 1"
"""Counts up when something else is changed in what the compiler writes."""


def with_decorations(data: bytes, *, precise: bool = True, precise_matrices: bool = False) -> bytes:
    """Decorate storage buffers as Aliased, and fma() as NoContraction, where they are not yet.

    SPIR-V lets a driver assume that two variables never overlap unless they say so, or are Restrict. Here they do: one
    binding is viewed as words and as vectors, and in-place execution binds one buffer twice. GLSL's rule is the other
    way round (buffers may overlap unless ``restrict``), but glslang writes nothing down for it.

    Nor does it write down that the result of an fma() is ``precise``. Without that Mesa may rearrange it, and
    llvmpipe's sines and powers of e broke their promises.

    Args:
        precise: whether fma() is decorated: everywhere but in kernels that may round as a device likes.
        precise_matrices: whether products of cooperative matrices, element by element, are decorated, too: GLSL has no
            word for it.

    Returns:
        The module with the decorations, in the byte order of this machine.

    Raises:
        ValueError: the bytes are not a SPIR-V module.
    """
    words = module_words(data)
    buffers: dict[int, int] = {}  # variable: its pointer type
    structures: dict[int, int] = {}  # pointer type: what it points to
    decorated: set[int] = set()  # variables and structures that say themselves whether they overlap
    exact: set[int] = set()
    fused: list[int] = []
    matrices: set[int] = set()  # types
    end_of_decorations = 0
    for position, opcode, operands in module_instructions(words):
        if opcode == _OP_VARIABLE and operands[2] == _STORAGE_BUFFER:
            buffers[operands[1]] = operands[0]
        elif opcode == _OP_TYPE_POINTER and operands[1] == _STORAGE_BUFFER:
            structures[operands[0]] = operands[2]
        elif (opcode == _OP_EXT_INST and operands[3] == _FMA) or (opcode == _OP_MULTIPLY and operands[0] in matrices):
            fused.append(operands[1])
        elif opcode == _OP_TYPE_COOPERATIVE_MATRIX and precise_matrices:
            matrices.add(operands[0])
        elif opcode == _OP_DECORATE:
            end_of_decorations = position + 1 + len(operands)
            if operands[1] in (_RESTRICT, _ALIASED):
                decorated.add(operands[0])
            elif operands[1] == _NO_CONTRACTION:
                exact.add(operands[0])
        elif opcode == _OP_MEMBER_DECORATE and operands[2] == _RESTRICT:  # glslang has it there
            decorated.add(operands[0])
    added = array("I")
    for variable, pointer in buffers.items():
        if variable not in decorated and structures[pointer] not in decorated:
            added += words_of(_OP_DECORATE, variable, _ALIASED)
    for result in fused if precise else ():
        if result not in exact:
            added += words_of(_OP_DECORATE, result, _NO_CONTRACTION)
    if not added:
        return data
    # Storage buffers always carry decorations (set and binding); behind the last one is a legal place for more.
    return (words[:end_of_decorations] + added + words[end_of_decorations:]).tobytes()
