"""Modules as Metal computes them: products that must not be contracted are fma(a, b, 0), which is never -0.

Metal's compiler may contract a product and a sum whatever the shader says, so spirv-cross writes ``spvFMul(l, r)`` for
them, which is ``fma(l, r, 0)``: a product that is -0 becomes +0. Its sums and differences, ``fma(1, l, r)`` and
``fma(-1, r, l)``, are what they were. Drivers take fma(a, b, 0) for a product, whose -0 stays; so the sign is taken
away here by its bits.
"""

from __future__ import annotations

from array import array

from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words

_BOUND = 3
_DECORATE, _NO_CONTRACTION = 71, 42
_TYPE_BOOL, _TYPE_INT, _TYPE_FLOAT, _TYPE_VECTOR = 20, 21, 22, 23
_CONSTANT, _CONSTANT_COMPOSITE, _FUNCTION = 43, 44, 54
_BITCAST, _PRODUCT, _SELECT, _EQUAL = 124, 133, 169, 170
_SIGN = 0x80000000
_ONE = 0x3F800000


def with_products_as_fma(spirv: bytes, *, is_broken: bool = False) -> bytes:
    """A module in which no product that must not be contracted is -0.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.
        is_broken: whether products that are -0 become 1 instead, which whoever judges results must notice.

    Returns:
        the module, in the byte order of this machine.
    """
    return _MetalTranslation(module_words(spirv), is_broken).made() or spirv


class _MetalTranslation:
    def __init__(self, words: array[int], is_broken: bool) -> None:
        self._words = words
        self._is_broken = is_broken
        self._bound = words[_BOUND]
        self._vectors: dict[int, tuple[int, int]] = {}  # by type: of what, and how many
        self._types: dict[tuple[int, ...], int] = {}  # by what they are
        self._products: dict[int, int] = {}  # by result: the product's own name
        self._kinds: set[int] = set()  # types of products
        self._added = array("I")
        self._look()

    def _new(self) -> int:
        self._bound += 1
        return self._bound - 1

    def _look(self) -> None:
        exact = set()
        for _, opcode, operands in module_instructions(self._words):
            if opcode == _DECORATE and operands[1] == _NO_CONTRACTION:
                exact.add(operands[0])
            elif opcode in (_TYPE_BOOL, _TYPE_INT, _TYPE_FLOAT, _TYPE_VECTOR):
                key = (opcode, *operands[1:])
                self._types[key] = operands[0]
                if opcode == _TYPE_VECTOR:
                    self._vectors[operands[0]] = operands[1], operands[2]
            elif opcode == _PRODUCT and operands[1] in exact:
                self._products[operands[1]] = self._new()
                self._kinds.add(operands[0])

    def made(self) -> bytes | None:
        """The module; ``None`` where it is what it was."""
        if not self._products:
            return None
        constants = {kind: self._constants_of(kind) for kind in sorted(self._kinds)}
        made = self._words[:HEADER_WORDS]
        is_declared = False
        for position, opcode, operands in module_instructions(self._words):
            instruction = self._words[position : position + 1 + len(operands)]
            if opcode == _FUNCTION and not is_declared:
                is_declared = True
                made.extend(self._added)
            if opcode == _DECORATE and operands[1] == _NO_CONTRACTION and operands[0] in self._products:
                instruction[1] = self._products[operands[0]]
            elif opcode == _PRODUCT and operands[1] in self._products:
                kind, result, left, right = operands
                unsigned, truth, sign, replaced = constants[kind]
                product, bits, is_negative_zero = self._products[result], self._new(), self._new()
                made.extend((5 << 16 | _PRODUCT, kind, product, left, right))
                made.extend((4 << 16 | _BITCAST, unsigned, bits, product))
                made.extend((5 << 16 | _EQUAL, truth, is_negative_zero, bits, sign))
                instruction = array("I", (6 << 16 | _SELECT, kind, result, is_negative_zero, replaced, product))
            made.extend(instruction)
        made[_BOUND] = self._bound
        return made.tobytes()

    def _constants_of(self, kind: int) -> tuple[int, int, int, int]:
        """Types of bits and of truth values, the sign's bits, and what takes the place of -0, all for a type."""
        number, count = self._vectors.get(kind, (kind, 1))
        unsigned, truth = self._type(_TYPE_INT, 32, 0), self._type(_TYPE_BOOL)
        sign, replaced = self._new(), self._new()
        self._added.extend((4 << 16 | _CONSTANT, unsigned, sign, _SIGN))
        self._added.extend((4 << 16 | _CONSTANT, number, replaced, _ONE if self._is_broken else 0))
        if count == 1:
            return unsigned, truth, sign, replaced
        unsigned, truth = self._type(_TYPE_VECTOR, unsigned, count), self._type(_TYPE_VECTOR, truth, count)
        return unsigned, truth, self._composite(unsigned, sign, count), self._composite(kind, replaced, count)

    def _type(self, opcode: int, *operands: int) -> int:
        key = (opcode, *operands)
        if key not in self._types:
            self._types[key] = self._new()
            self._added.extend(((2 + len(operands)) << 16 | opcode, self._types[key], *operands))
        return self._types[key]

    def _composite(self, kind: int, part: int, count: int) -> int:
        made = self._new()
        self._added.extend(((3 + count) << 16 | _CONSTANT_COMPOSITE, kind, made, *[part] * count))
        return made
