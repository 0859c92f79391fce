"""Shaders for processors: they see where they run, and what SwiftShader makes nothing of is worked out for it."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable

from dmlvk.spirv.modules import HEADER_WORDS, module_instructions, module_words, with_constant, words_of
from dmlvk.spirv.opcodes import NUMBERS, numbers

NAIVE_DRIVERS = frozenset({"SwiftShader driver"})
"""Their optimizers take the constants for unknown: what these exclude is compiled all the same, and executed."""

ON_PROCESSOR = 1000
"""The ``constant_id`` by which a shader sees where it runs. It is false, and no pipeline is given it.

Nor are those of higher numbers: they are set in the module.
"""

UNPACKS_DENORMALS = 1002
"""The ``constant_id`` by which a shader sees that ``unpackHalf2x16`` keeps denormals here."""

PACKS_TO_NEAREST_EVEN = 1004
"""The ``constant_id`` by which a shader sees that ``packHalf2x16`` rounds to nearest even here."""

MULTIPLIES_HALVES = 1005
"""The ``constant_id`` by which a shader sees that products of FLOAT16 are right here, denormal ones too."""

MATRICES_LIE_IN_QUADS = 1006
"""The ``constant_id`` by which a shader sees how elements of cooperative matrices lie: ``cooperative_quads.glsl``."""

SUMS_OF_MATRICES_ARE_EXACT = 1008
"""The number of what is tried of matrices for ``Target.has_exact_halves``; no shader has such a constant."""

ON_NAIVE_DRIVER = 1003
"""The ``constant_id`` by which a shader sees that it runs on one of ``NAIVE_DRIVERS``."""

_TYPE_BOOL = NUMBERS["OpTypeBool"]
_CONSTANT_TRUE, _CONSTANT_FALSE, _CONSTANT, _CONSTANT_COMPOSITE = numbers(
    "ConstantTrue ConstantFalse Constant ConstantComposite"
)
_SPEC_CONSTANT_TRUE, _SPEC_CONSTANT_FALSE, _SPEC_CONSTANT, _SPEC_CONSTANT_COMPOSITE = numbers(
    "SpecConstantTrue SpecConstantFalse SpecConstant SpecConstantComposite"
)
_SPEC_CONSTANT_OP = NUMBERS["OpSpecConstantOp"]
_DECORATE, _SPEC_ID = 71, 1
_FUNCTION = NUMBERS["OpFunction"]  # constants stand before the first of them

# What glslang makes of constants: numbers are of 32 bits without sign, and true is 1.
_OPERATIONS: dict[int, Callable[..., int]] = {
    NUMBERS["OpIAdd"]: operator.add,
    NUMBERS["OpISub"]: operator.sub,
    NUMBERS["OpIMul"]: operator.mul,
    NUMBERS["OpUDiv"]: operator.floordiv,
    NUMBERS["OpUMod"]: operator.mod,
    NUMBERS["OpLogicalOr"]: operator.or_,
    NUMBERS["OpLogicalAnd"]: operator.and_,
    NUMBERS["OpLogicalNot"]: operator.not_,
    NUMBERS["OpSelect"]: lambda condition, accepted, rejected: accepted if condition else rejected,
    NUMBERS["OpIEqual"]: operator.eq,
    NUMBERS["OpINotEqual"]: operator.ne,
    NUMBERS["OpUGreaterThan"]: operator.gt,
    NUMBERS["OpUGreaterThanEqual"]: operator.ge,
    NUMBERS["OpULessThan"]: operator.lt,
    NUMBERS["OpULessThanEqual"]: operator.le,
    NUMBERS["OpBitwiseOr"]: operator.or_,
    NUMBERS["OpBitwiseAnd"]: operator.and_,
    NUMBERS["OpShiftLeftLogical"]: lambda number, bits: number << bits % 32,
    NUMBERS["OpShiftRightLogical"]: lambda number, bits: number >> bits % 32,
}
_DIVISIONS = numbers("UDiv UMod")


def on_processor(spirv: bytes) -> bytes:
    """A shader in which the constant ``ON_PROCESSOR`` is true.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.

    Returns:
        the module, in the byte order of this machine.
    """
    return with_constant(spirv, ON_PROCESSOR, 1)


def specialized(spirv: bytes, constants: tuple[int, ...]) -> bytes:
    """A shader for naive drivers whose specialization constants have the values that they would be given.

    Args:
        spirv: a module, as ``scripts/compile_shaders.py`` or a fused graph makes it.
        constants: the values, from id 0 on.

    Returns:
        the module without specialization constants, in the byte order of this machine.

    Raises:
        ValueError: there is a constant without a value, or one is computed in a way that is not known here.
    """
    words = module_words(spirv)
    made = words[:HEADER_WORDS]
    values = _KnownValues(constants)
    for position, opcode, operands in module_instructions(words):
        if opcode == _FUNCTION:
            return (made + words[position:]).tobytes()
        if opcode == _DECORATE and operands[1] == _SPEC_ID:
            values.number(operands)
        else:
            made.extend(values.numbered(opcode, operands))
    raise ValueError("a module without a function")


class _KnownValues:
    """What is known of a module's constants, in the order of its instructions."""

    def __init__(self, constants: tuple[int, ...]) -> None:
        self._constants = constants
        self._given: dict[int, int] = {}
        self._known: dict[int, int] = {}
        self._boolean = 0  # the type's number

    def number(self, decoration: array[int]) -> None:
        """Notes which of the values a constant takes."""
        target, _, constant_id = decoration
        if constant_id in (ON_PROCESSOR, ON_NAIVE_DRIVER):
            self._given[target] = 1
        elif constant_id < ON_PROCESSOR:
            if constant_id >= len(self._constants):
                raise ValueError(f"no value for the specialization constant {constant_id}")
            self._given[target] = self._constants[constant_id]

    def numbered(self, opcode: int, operands: array[int]) -> array[int]:
        """The instruction in terms of numbers."""
        if opcode in (_CONSTANT_TRUE, _CONSTANT_FALSE, _SPEC_CONSTANT_TRUE, _SPEC_CONSTANT_FALSE):
            value = int(opcode in (_CONSTANT_TRUE, _SPEC_CONSTANT_TRUE))
        elif opcode in (_CONSTANT, _SPEC_CONSTANT):
            value = operands[2]
        elif opcode == _SPEC_CONSTANT_OP:
            value = self._computed(operands)
        else:
            if opcode == _TYPE_BOOL:
                self._boolean = operands[0]
            return words_of(_CONSTANT_COMPOSITE if opcode == _SPEC_CONSTANT_COMPOSITE else opcode, *operands)
        type_of_it, name = operands[0], operands[1]
        value = self._given.get(name, value)
        self._known[name] = value
        if type_of_it == self._boolean:
            return words_of(_CONSTANT_TRUE if value else _CONSTANT_FALSE, *operands[:2])
        return words_of(_CONSTANT, type_of_it, name, value)

    def _computed(self, operands: array[int]) -> int:
        opcode, arguments = operands[2], [self._known.get(argument) for argument in operands[3:]]
        operation = _OPERATIONS.get(opcode)
        if operation is None or None in arguments or (opcode in _DIVISIONS and not arguments[1]):
            raise ValueError(f"a specialization constant is computed by the instruction {opcode} of {arguments}")
        return operation(*arguments) & 0xFFFFFFFF
