"""Which form of an operator's function a fused kernel calls, and what it leaves out.

A shader file may define forms of its ``OPERATION`` for FLOAT32 operands of which something is known
(``OPERATION_PLAIN`` in ``add.comp``). Here it is decided, from what :mod:`dmlvk.graphs.fusion.ranges` knows of the
operands, which of them gives what ``OPERATION`` gives: the same bits, or bits that stand for them and are replaced
before anybody could tell.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence

from dmlvk.datatypes import DataType
from dmlvk.graphs.fusion import ranges
from dmlvk.graphs.fusion.functions import Function
from dmlvk.graphs.fusion.ranges import ANYTHING, RESULT_OF_ARITHMETIC, Range, SpecialBits


class Preparation(enum.Enum):
    """What is done to an operand before a function is called."""

    NONE = enum.auto()
    FLUSHED = enum.auto()  # Denormals become zeros of their sign
    AS_STORED = enum.auto()  # Stand-ins become what they stand for


@dataclasses.dataclass(frozen=True)
class Form:
    preparations: tuple[Preparation, ...]  # what is done to each operand before
    result: Range  # what is known of what it gives
    macro: str = "OPERATION"  # the form, as the shader file names it
    order: tuple[int, ...] | None = None  # which operands it takes, in its own order
    arguments: tuple[str, ...] = ()  # what it is given behind them, in GLSL


def form_of(function: Function, operands: Sequence[Range]) -> Form:
    """The form for operands of which so much is known.

    Args:
        operands: what is known of the bits of each value that it reads, taken for FLOAT32.
    """
    path = function.source.path
    if dict(function.defines).get("HAS_SCALE_BIAS") != "1":
        if (rule := _MOVES.get(path)) is not None:
            return rule(function, operands)
        if (rule := _RULES.get(path)) is not None and set(function.types) == {DataType.FLOAT32}:
            return rule(function, operands)
    return _general(function, operands)


def _general(function: Function, operands: Sequence[Range]) -> Form:
    """``OPERATION`` itself.

    To operators that calculate, all NaN are one and denormals are zeros, and so they are in what these give.
    """
    calculates = function.promise != "exact"
    preparations = tuple(
        Preparation.NONE if calculates and data_type is DataType.FLOAT32 else Preparation.AS_STORED
        for data_type in function.types[: len(operands)]
    )
    is_clean = calculates and function.types[-1] is DataType.FLOAT32
    if is_clean and function.source.path in _BELOW_TWO:
        return Form(preparations, dataclasses.replace(RESULT_OF_ARITHMETIC, highest=0))
    return Form(preparations, RESULT_OF_ARITHMETIC if is_clean else ANYTHING)


def _sum(function: Function, operands: Sequence[Range]) -> Form:
    a, b = operands
    first, a = (Preparation.NONE, a) if b.outweighs_denormals else (Preparation.FLUSHED, a.flushed())
    second, b = (Preparation.NONE, b) if operands[0].outweighs_denormals else (Preparation.FLUSHED, b.flushed())
    return Form((first, second), ranges.of_sum(a, b), "OPERATION_PLAIN")


def _product(function: Function, operands: Sequence[Range]) -> Form:
    return product(*operands)


def product(a: Range, b: Range) -> Form:
    """The form of MULTIPLY, of FLOAT32, for operands of which so much is known."""
    result = ranges.of_product(a, b)
    if not ranges.product_vanishes(a, b):
        return Form((Preparation.FLUSHED, Preparation.FLUSHED), result, "OPERATION_PLAIN")
    for order, number in (((0, 1), b), ((1, 0), a)):
        if ranges.is_number(number) and number.constant is not None:
            vanishing = ranges.largest_vanishing(number.constant)
            if vanishing is not None:
                nothing = (Preparation.NONE, Preparation.NONE)
                return Form(nothing, result, "OPERATION_WITH_NUMBER", order, (f"{vanishing:#x}",))
    flushed = (Preparation.FLUSHED, Preparation.FLUSHED)
    for order, first, second in (((0, 1), a, b), ((1, 0), b, a)):
        if ranges.has_bounded_product(first, second):
            return Form(flushed, result, "OPERATION_OF_BOUNDED", order)
    for order, bounded in (((0, 1), b), ((1, 0), a)):
        if ranges.is_bounded(bounded):
            return Form(flushed, result, "OPERATION_WITH_BOUNDED", order)
    return Form((Preparation.NONE, Preparation.NONE), result)


def _quotient(function: Function, operands: Sequence[Range]) -> Form:
    """A quotient by a power of two is a product, to the bit."""
    a, divisor = operands
    reciprocal = ranges.reciprocal_of_power(divisor)
    if reciprocal is None:
        return _general(function, operands)
    as_product = product(a, ranges.of_constant(reciprocal))
    macro = "OPERATION_BY_POWER" if as_product.macro == "OPERATION_PLAIN" else "OPERATION_BY_POWER_MAY_VANISH"
    return dataclasses.replace(
        as_product, macro=macro, order=None, arguments=(f"{reciprocal:#x}u", *as_product.arguments)
    )


def _extreme(larger: bool) -> Callable[[Function, Sequence[Range]], Form]:
    def rule(function: Function, operands: Sequence[Range]) -> Form:
        for order in ((0, 1), (1, 0)):
            value, bound = (operands[number] for number in order)
            if ranges.is_number(bound):
                result = ranges.of_larger(value, bound, larger=larger)
                macro = f"OPERATION_BESIDE_{_sign(bound).upper()}"
                return Form((Preparation.NONE, Preparation.NONE), result, macro, order)
        return _general(function, operands)

    return rule


def _clip(function: Function, operands: Sequence[Range]) -> Form:
    smallest, largest = (ranges.of_constant(function.attribute(name)) for name in ("ATTRIBUTE_MIN", "ATTRIBUTE_MAX"))
    if not (ranges.is_number(smallest) and ranges.is_number(largest)):
        return _general(function, operands)
    result = ranges.of_clip(operands[0], smallest, largest)
    signs = (_sign(largest), _sign(smallest))
    return Form((Preparation.NONE,), result, "OPERATION_BESIDE_SIGNS", arguments=signs)


def _relu(function: Function, operands: Sequence[Range]) -> Form:
    result = ranges.of_larger(operands[0], ranges.of_constant(0), larger=True)
    return Form((Preparation.NONE,), result, "OPERATION_BESIDE_POSITIVE")


def _moved(function: Function, operands: Sequence[Range]) -> Form:
    return Form((Preparation.NONE,), operands[0])


def _absolute(function: Function, operands: Sequence[Range]) -> Form:
    return Form((Preparation.NONE,), dataclasses.replace(operands[0], constant=None))


def _negated(function: Function, operands: Sequence[Range]) -> Form:
    """The sign of a NaN changes: it must be the canonical one before."""
    (operand,) = operands
    if operand.nans is SpecialBits.STAND_IN:
        return Form((Preparation.AS_STORED,), operand.as_stored())
    return Form((Preparation.NONE,), dataclasses.replace(operand, constant=None))


def _choice(function: Function, operands: Sequence[Range]) -> Form:
    _, a, b = operands
    result = ranges.of_choice(a, b)
    if result is not None:
        return Form((Preparation.AS_STORED, Preparation.NONE, Preparation.NONE), result)
    return Form((Preparation.AS_STORED,) * 3, ranges.of_choice(a.as_stored(), b.as_stored()) or ANYTHING)


def _sign(constant: Range) -> str:
    return "negative" if ranges.is_negative(constant) else "positive"


_RULES: dict[str, Callable[[Function, Sequence[Range]], Form]] = {
    "elementwise/add.comp": _sum,
    "elementwise/subtract.comp": _sum,
    "elementwise/divide.comp": _quotient,
    "elementwise/multiply.comp": _product,
    "elementwise/max.comp": _extreme(larger=True),
    "elementwise/min.comp": _extreme(larger=False),
    "elementwise/clip.comp": _clip,
    "activation/relu.comp": _relu,
    "elementwise/abs.comp": _absolute,
    "elementwise/negate.comp": _negated,
}
"""Of FLOAT32 operands."""

_BELOW_TWO = frozenset(
    (
        "activation/hard_sigmoid.comp",
        "activation/sigmoid.comp",
        "activation/softsign.comp",
        "activation/tanh.comp",
        "elementwise/asin.comp",
        "elementwise/atan.comp",
        "elementwise/cos.comp",
        "elementwise/erf.comp",
        "elementwise/sin.comp",
        "elementwise/tanh.comp",
    )
)
"""Whose results' magnitudes are below 2, for all arguments that have a result."""

_MOVES: dict[str, Callable[[Function, Sequence[Range]], Form]] = {
    "elementwise/identity.comp": _moved,
    "activation/identity.comp": _moved,
    "elementwise/if.comp": _choice,
}
"""Of bits, which may be those of FLOAT32 numbers: what is known of them stays known."""
