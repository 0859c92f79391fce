"""Modules as Metal computes them: spirv-cross writes products that must not be contracted as fma(a, b, 0).

Metal's compiler may contract a product and a sum whatever the shader says, so spirv-cross writes ``spvFMul(l, r)`` for
them, which is ``fma(l, r, 0)``: a product that is -0 becomes +0. Its sums and differences, ``fma(1, l, r)`` and
``fma(-1, r, l)``, are what they were.
"""

from __future__ import annotations

from array import array

from dmlvk.spirv import HEADER_WORDS, module_instructions, module_words

_BOUND = 3
_EXT_INST_IMPORT, _EXT_INST, _MEMORY_MODEL, _DECORATE = 11, 12, 14, 71
_TYPE_FLOAT, _CONSTANT, _CONSTANT_NULL, _FUNCTION, _PRODUCT = 22, 43, 46, 54, 133
_NO_CONTRACTION = 42
_ONE = 0x3F800000
_FMA = 50  # of GLSL.std.450
_FUNCTIONS = "GLSL.std.450"


def with_products_as_fma(spirv: bytes, *, addend: int = 0) -> bytes:
    """A module in which every product that must not be contracted is fma(a, b, 0).

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.
        addend: 0; with 1 the products of single numbers are wrong, which whoever judges results must notice.

    Returns:
        the module, in the byte order of this machine.
    """
    words = module_words(spirv)
    exact = {
        operands[0]
        for _, opcode, operands in module_instructions(words)
        if opcode == _DECORATE and operands[1] == _NO_CONTRACTION
    }
    products = {
        operands[1]: operands[0]
        for _, opcode, operands in module_instructions(words)
        if opcode == _PRODUCT and operands[1] in exact
    }
    floats = {o[0] for _, opcode, o in module_instructions(words) if opcode == _TYPE_FLOAT}
    if not products:
        return spirv
    bound = words[_BOUND]
    zeros = {kind: bound + 1 + place for place, kind in enumerate(sorted(set(products.values())))}
    functions = next(
        (o[0] for _, c, o in module_instructions(words) if c == _EXT_INST_IMPORT and _text(o[1:]) == _FUNCTIONS), None
    )
    made = words[:HEADER_WORDS]
    made[_BOUND] = bound + 1 + len(zeros)
    for position, opcode, operands in module_instructions(words):
        instruction = words[position : position + 1 + len(operands)]
        if opcode == _MEMORY_MODEL and functions is None:
            functions = bound
            name = array("I", (_FUNCTIONS + "\0" * (4 - len(_FUNCTIONS) % 4)).encode())
            made.extend(((2 + len(name)) << 16 | _EXT_INST_IMPORT, functions, *name))
        if opcode == _FUNCTION and zeros:
            for kind, zero in zeros.items():
                number = (4 << 16 | _CONSTANT, kind, zero, _ONE) if addend and kind in floats else ()
                made.extend(number or (3 << 16 | _CONSTANT_NULL, kind, zero))
            zeros_by_type, zeros = zeros, {}
        if opcode == _PRODUCT and operands[1] in products:
            kind, result, left, right = operands
            assert functions is not None  # the memory model comes before all functions
            made.extend((8 << 16 | _EXT_INST, kind, result, functions, _FMA, left, right, zeros_by_type[kind]))
        else:
            made.extend(instruction)
    return made.tobytes()


def _text(words: array[int]) -> str:
    return words.tobytes().split(b"\0")[0].decode()
