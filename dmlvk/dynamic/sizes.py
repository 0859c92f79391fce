"""Sizes that are not known for ever: numbers that remember how they follow from a model's open sizes.

A plan is made for the sizes of one run. Where a size may be another one next time, it is a :class:`DynamicSize`: it has
the value of this run and a polynomial of the open sizes. Arithmetic gives such numbers again; a comparison gives what
it does for the values of this run **and notes that outcome as a guard**. Whatever needs a plain number (an index, a
hash, NumPy, text) gets this run's value, and notes that the plan is for this number only. A plan is valid for all sizes
for which its guards hold, so its correctness does not depend on how much of the code knows of dynamic sizes.

A dynamic size is no ``int`` on purpose: code in C would take an int's value without asking. The method is that of
PyTorch's SymInt and ShapeEnv (J. Ansel et al., «PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode
Transformation and Graph Compilation», ASPLOS 2024, section 4.4).
"""

from __future__ import annotations

import logging
import numbers
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from dmlvk.dynamic.polynomials import (
    Applied,
    Atom,
    Key,
    Quotient,
    Terms,
    added,
    constant,
    even_part,
    key_of,
    multiplied,
    scaled,
)
from dmlvk.dynamic.size_functions import Texts, interleaved, ordered

_log = logging.getLogger("dmlvk")

FEWEST = 2  # What every open size is at least: 0 and 1 are planned as such

_LARGE = 256  # An open size by which sizes are put in order

_HOLDS: Mapping[str, Callable[[int], bool]] = {
    "==": lambda difference: difference == 0,
    "!=": lambda difference: difference != 0,
    "<": lambda difference: difference < 0,
    "<=": lambda difference: difference <= 0,
    ">": lambda difference: difference > 0,
    ">=": lambda difference: difference >= 0,
}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Guards:
    """What the plan of one run holds for.

    Args:
        tells_multiples: whether plans differ for sizes that are multiples of four, say, which vectors are loaded by.

    Attributes:
        values: the open sizes of that run.
        made: what was made of sizes once: see :mod:`dmlvk.dynamic.sharing`.
        places: where numbers had to be plain, and the plan became one for these only: file, line, function.
    """

    def __init__(self, *, tells_multiples: bool = True) -> None:
        self.tells_multiples = tells_multiples
        self.values: list[int] = []
        self.locations: dict[str, None] = {}
        self._atoms: list[Atom] = []
        self._numbers: dict[Atom, int] = {}
        self._conditions: dict[tuple[Key, str], str] = {}  # each with who asked first
        self._answers: dict[object, bool] = {}  # to comparisons, by what was compared
        self.made: dict[object, Any] = {}
        self._lock = threading.Lock()

    def size(self, value: int) -> int:
        """A further open size, at least 2; typed as what it stands for."""
        if value < FEWEST:
            raise ValueError(f"sizes below {FEWEST} are planned as such; got {value}")
        if len(self.values) != len(self._atoms):
            raise ValueError("open sizes come before anything is computed with them")
        self.values.append(value)
        self._atoms.append(None)
        return cast(int, DynamicSize(self, value, {(len(self.values) - 1,): 1}))

    def __len__(self) -> int:
        return len(self._conditions)

    @property
    def conditions(self) -> list[str]:
        """All guards with who asked first, for people: ``s0`` is the first open size."""
        texts = self._texts()
        return [
            f"{texts.inlined(dict(key))} {relation} 0 ({location})"
            for (key, relation), location in list(self._conditions.items())
        ]

    def test(self) -> Callable[..., bool]:
        """A function of the open sizes: whether the plan is for them."""
        texts = self._texts()
        tests = [f"{texts.of(dict(key))} {relation} 0" for key, relation in list(self._conditions)]
        lines = [f"    if not ({test}): return False" for test in ordered(tests)]
        return cast(Callable[..., bool], texts.function(interleaved(texts.lines, lines), "True"))

    def function(self, result: object) -> Callable[..., Any]:
        """A function of the open sizes that gives what was made of this run's, for others.

        Args:
            result: an integer, a dynamic size, or a tuple of such, of any depth.
        """
        texts = self._texts()
        text = _nested(texts, result)
        return texts.function(texts.lines, text)

    def _texts(self) -> Texts:
        return Texts(self._atoms, len(self.values))

    def mentions(self, terms: Terms, atoms: Iterable[int]) -> bool:
        """Whether a polynomial, or a quotient in it, is made of one of these open sizes."""
        wanted = set(atoms)
        for monomial in terms:
            for atom in monomial:
                made = self._atoms[atom]
                if atom in wanted or (
                    made is not None and any(self.mentions(dict(part), wanted) for part in made.parts)
                ):
                    return True
        return False

    # What dynamic sizes do with it.

    def quotient(self, a: Terms, b: Terms) -> Terms:
        """The atom of a floor division that does not come out even."""
        return self._atom(Quotient(key_of(a), key_of(b)))

    def applied(self, function: Callable[[int], int], terms: Terms, value: int) -> int:
        """What a function gives for a polynomial: see :func:`applied`."""
        terms = self._atom(Applied(function, key_of(terms)))
        return cast(int, DynamicSize(self, function(value), terms))

    def _atom(self, key: Atom) -> Terms:
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self._atoms)
                self._atoms.append(key)
        return {(number,): 1}

    def compared(self, difference: Terms, value: int, relation: str) -> bool:
        """Whether a polynomial whose value is known has a relation to 0; noted where that is not so for all sizes."""
        outcome = _HOLDS[relation](value)
        least, most = self._least(difference), self._least(scaled(difference, -1))
        highest = None if most is None else -most
        if least is not None and least == highest:
            return outcome
        if least is not None and (least > 0 or (least == 0 and relation in ("<", ">="))):
            return outcome
        if highest is not None and (highest < 0 or (highest == 0 and relation in (">", "<="))):
            return outcome
        sign = 1 if max(difference.items())[1] > 0 else -1  # a condition and its mirror image are one
        noted = relation if outcome else _OPPOSITE[relation]
        if sign < 0:
            noted = noted.replace("<", "~").replace(">", "<").replace("~", ">")
        key = key_of(scaled(difference, sign)), noted
        if key not in self._conditions:
            self._conditions[key] = _caller()
        return outcome

    def typical(self, terms: Terms, every: int | None = None) -> int:
        """A polynomial's value at typical sizes, or where every open size is one number: see :func:`typical`."""
        total = 0
        for monomial, coefficient in terms.items():
            product = coefficient
            for atom in monomial:
                product *= self._typical_atom(atom, every)
            total += product
        return total

    def _typical_atom(self, atom: int, every: int | None) -> int:
        made = self._atoms[atom]
        if isinstance(made, Applied):
            return made.function(self.typical(dict(made.argument), every))
        if made is not None:
            return self.typical(dict(made.numerator), every) // (self.typical(dict(made.divisor), every) or 1)
        if every is not None:
            return every
        value = self.values[atom]
        below = 2 ** ((value - 1).bit_length() - 1)  # and at most twice that
        self.compared({(atom,): 1, (): -below}, value - below, ">")
        self.compared({(atom,): 1, (): -2 * below}, value - 2 * below, "<=")
        return below + below // 2 or 1

    def fixed(self, terms: Terms, value: int, why: str) -> int:
        """The value as a plain number, which the plan is for from now on."""
        difference = added(terms, {(): -value})
        before = len(self._conditions)
        self.compared(difference, 0, "==")
        if len(self._conditions) > before:
            location = _caller()
            if location not in self.locations:
                self.locations[location] = None
                _log.debug("a plan is for %s = %d only: %s at %s", self._texts().inlined(terms), value, why, location)
        return value

    def _least(self, terms: Terms) -> int | None:
        """What a polynomial is at least, whatever the open sizes are; ``None``: not known."""
        total = 0
        for monomial, coefficient in terms.items():
            least = 1
            for atom in monomial:
                bound = self._least_of_atom(atom)
                if bound is None or bound < 0:
                    return None
                least *= bound
            if monomial and coefficient < 0:
                return None
            total += coefficient * least
        return total

    def _least_of_atom(self, atom: int) -> int | None:
        made = self._atoms[atom]
        if made is None:
            return FEWEST
        if isinstance(made, Applied):
            return None
        numerator, divisor = dict(made.numerator), dict(made.divisor)
        least = self._least(numerator)
        if list(divisor) == [()] and divisor[()] > 0:
            return None if least is None else least // divisor[()]
        lowest = self._least(divisor)
        return 0 if least is not None and least >= 0 and lowest is not None and lowest > 0 else None


class DynamicSize:
    """A number that follows from open sizes. See the module; made by :meth:`Guards.size` and arithmetic."""

    __slots__ = ("_value", "guards", "terms")

    def __init__(self, guards: Guards, value: int, terms: Terms) -> None:
        self.guards = guards  # what its plan holds for
        self._value = value
        self.terms = terms  # the polynomial of the open sizes that it is

    # Arithmetic that keeps track.

    def _terms_of(self, other: object) -> Terms | None:
        if isinstance(other, DynamicSize):
            # One of another plan can come only out of a cache whose key was hashed: its value is guarded here, too.
            return other.terms if other.guards is self.guards else constant(other._value)
        if type(other) is int or isinstance(other, numbers.Integral):  # of Python and NumPy; the latter is asked slowly
            return constant(int(other))
        return None

    def _made(self, terms: Terms, value: int) -> Any:
        if not terms or list(terms) == [()]:
            return value
        return DynamicSize(self.guards, value, terms)

    def __add__(self, other: object) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return self._plain("a sum") + other
        return self._made(added(self.terms, terms), self._value + value_of(other))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self._made(scaled(self.terms, -1), -self._value)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __sub__(self, other: object) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return self._plain("a difference") - other
        return self._made(added(self.terms, scaled(terms, -1)), self._value - value_of(other))

    def __rsub__(self, other: object) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return other - self._plain("a difference")
        return self._made(added(terms, scaled(self.terms, -1)), value_of(other) - self._value)

    def __mul__(self, other: object) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return self._plain("a product") * other
        return self._made(multiplied(self.terms, terms), self._value * value_of(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return self._plain("a quotient") // other
        return self._divided(self.terms, self._value, terms, value_of(other))

    def __rfloordiv__(self, other: object) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return other // self._plain("a quotient")
        return self._divided(terms, value_of(other), self.terms, self._value)

    def _divided(self, a: Terms, a_value: int, b: Terms, b_value: int) -> Any:
        if list(b) != [()]:
            self.guards.compared(b, b_value, "!=")
        value = a_value // b_value
        even, rest = even_part(a, b)
        if not rest:
            return self._made(even, value)
        if list(b) == [()] and b[()] > 0:
            divisor = b[()]
            if list(rest) == [()]:  # below the divisor: what is even is all
                return self._made(added(even, constant(rest[()] // divisor)), value)
            if max(c for m, c in rest.items() if m) < 0:  # rounded up, as -(-a // b) does it
                turned = added(scaled(rest, -1), constant(divisor - 1))
                more, left = even_part(turned, b)
                atom = self.guards.quotient(left, b) if set(left) - {()} else constant(left.get((), 0) // divisor)
                return self._made(added(even, scaled(added(more, atom), -1)), value)
        return self._made(added(even, self.guards.quotient(rest, b)), value)

    def __mod__(self, other: object) -> Any:
        if self._terms_of(other) is None:
            return self._plain("a remainder") % other
        return self - other * (self // other)

    def __rmod__(self, other: object) -> Any:
        if self._terms_of(other) is None:
            return other % self._plain("a remainder")
        return other - self * (other // self)

    def __divmod__(self, other: object) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[Any, Any]:
        return other // self, other % self

    def __and__(self, other: object) -> Any:
        if isinstance(other, int) and not isinstance(other, bool):
            if other > 0 and other & (other + 1) == 0:  # the lowest bits, of which it often has no others
                return self if 0 <= self <= other else self % (other + 1)
            if other < 0 and ~other & (~other + 1) == 0:  # rounded down to a power of two
                return self // -other * -other
        return self._plain("bits") & other

    __rand__ = __and__

    # Comparisons, which are noted.

    def _compared(self, other: object, relation: str) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            if isinstance(other, float):
                return getattr(operator, _OPERATORS[relation])(self._plain("a comparison with a float"), other)
            return NotImplemented
        asked, guards = (tuple(self.terms.items()), tuple(terms.items()), relation), self.guards
        if (answer := guards._answers.get(asked)) is None:
            difference = added(self.terms, scaled(terms, -1))
            answer = guards._answers[asked] = guards.compared(difference, self._value - value_of(other), relation)
        return answer

    def __eq__(self, other: object) -> Any:
        return self._compared(other, "==")

    def __ne__(self, other: object) -> Any:
        return self._compared(other, "!=")

    def __lt__(self, other: object) -> Any:
        return self._compared(other, "<")

    def __le__(self, other: object) -> Any:
        return self._compared(other, "<=")

    def __gt__(self, other: object) -> Any:
        return self._compared(other, ">")

    def __ge__(self, other: object) -> Any:
        return self._compared(other, ">=")

    def __bool__(self) -> bool:
        return self.guards.compared(self.terms, self._value, "!=")

    # What needs a plain number.

    def _plain(self, why: str) -> Any:
        return self.guards.fixed(self.terms, self._value, why)

    def __index__(self) -> int:
        return cast(int, self._plain("a plain integer"))

    def __int__(self) -> int:
        return cast(int, self._plain("a plain integer"))

    def __float__(self) -> float:
        return float(self._plain("a float"))

    def __complex__(self) -> complex:
        return complex(self._plain("a complex number"))

    def __hash__(self) -> int:
        return hash(self._plain("a hash"))

    def __repr__(self) -> str:
        return repr(self._plain("text"))

    def __str__(self) -> str:
        return str(self._plain("text"))

    def __format__(self, spec: str) -> str:
        return format(self._plain("text"), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (self._plain("a copy"),)

    def __copy__(self) -> DynamicSize:
        return self

    def __deepcopy__(self, _: object) -> DynamicSize:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(int, name):
            raise AttributeError(name)
        return getattr(self._plain(name), name)


def _plain_operators() -> None:
    """The other operators of an int, which give what they do for the plain number."""
    names = ["truediv", "pow", "lshift", "rshift", "or", "xor"]
    for name in names:
        function = getattr(operator, f"{name}_" if name == "or" else name)

        def forward(self: DynamicSize, other: object, function: Any = function, name: str = name) -> Any:
            return function(self._plain(name), other)

        def backward(self: DynamicSize, other: object, function: Any = function, name: str = name) -> Any:
            return function(other, self._plain(name))

        setattr(DynamicSize, f"__{name}__", forward)
        setattr(DynamicSize, f"__r{name}__", backward)
    for name in ("invert", "round", "ceil", "floor", "trunc"):

        def alone(self: DynamicSize, *arguments: Any, name: str = name) -> Any:
            return getattr(int, f"__{name}__")(self._plain(name), *arguments)

        setattr(DynamicSize, f"__{name}__", alone)


_plain_operators()

_OPERATORS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def is_dynamic(value: object) -> bool:
    """Whether a number, or one in a tuple or list of such, follows from open sizes."""
    if isinstance(value, (tuple, list)):
        return any(is_dynamic(item) for item in value)
    return isinstance(value, DynamicSize)


def value_of(value: Any) -> int:
    """A number's value in the run that a plan is made for, **without** a guard: for what only looks.

    Args:
        value: an integer or a dynamic size.
    """
    return value._value if isinstance(value, DynamicSize) else int(value)


def as_size(value: Any) -> int:
    """A plain ``int`` of any integer; a dynamic size as it is."""
    return cast(int, value) if isinstance(value, DynamicSize) else int(value)


def is_multiple(number: int, count: int) -> bool:
    """Whether a number is a multiple of another, for a choice that is right with any answer of "no".

    Where plans do not tell multiples apart, a dynamic size is one only if it is for all open sizes.

    Args:
        number: an integer or a dynamic size.
        count: at least 1.
    """
    given: object = number
    if isinstance(given, DynamicSize) and not given.guards.tells_multiples:
        return not any(coefficient % count for coefficient in given.terms.values())
    return number % count == 0


def tells_multiples(number: int) -> bool:
    """Whether a dynamic size's plan tells multiples of four, say, apart; of a plain number it always does."""
    given: object = number
    return not isinstance(given, DynamicSize) or given.guards.tells_multiples


def typical(number: int) -> int:
    """A plain number that stands for a dynamic size where any number would be right, and this one is fast.

    It follows from the powers of two between which the open sizes lie, which are guards from then on; so it is the same
    whichever sizes come first.

    Args:
        number: an integer or a dynamic size.
    """
    given: object = number
    return given.guards.typical(given.terms) if isinstance(given, DynamicSize) else number


def when_large(number: int) -> int:
    """A plain number by which sizes are put in order where any order is right: what it is when open sizes are large.

    Unlike :func:`typical` it asks for no guard.

    Args:
        number: an integer or a dynamic size.
    """
    given: object = number
    return given.guards.typical(given.terms, _LARGE) if isinstance(given, DynamicSize) else number


def applied(function: Callable[[int], int], number: int) -> int:
    """What a function gives for a number, which of a dynamic size is not followed: it is called for every size.

    Args:
        function: of nothing but the number.
        number: an integer or a dynamic size.
    """
    given: object = number
    if isinstance(given, DynamicSize):
        return given.guards.applied(function, given.terms, given._value)
    return function(number)


def power_of_two_in(number: int, most: int) -> int:
    """The largest power of two, up to ``most``, that divides a number: by tests of which each is a guard.

    Args:
        number: an integer or a dynamic size.
    """
    found = 1
    while found < most and number % (2 * found) == 0:
        found *= 2
    return found


def _nested(texts: Texts, value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "(" + "".join(f"{_nested(texts, item)}, " for item in value) + ")"
    return texts.of(value.terms) if isinstance(value, DynamicSize) else repr(int(value))


_HERE = str(Path(__file__))


def _caller() -> str:
    """Who asked for a plain number: the innermost function of this package that is not here."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == _HERE:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"
