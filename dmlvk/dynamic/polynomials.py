"""Polynomials with integers as coefficients, in numbered atoms: what dynamic sizes are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

Monomial: TypeAlias = tuple[int, ...]  # A product of atoms, by their numbers, rising; empty: 1

Terms: TypeAlias = dict[Monomial, int]  # A polynomial: the coefficient of each monomial, none of them 0

Key: TypeAlias = tuple[tuple[Monomial, int], ...]


class Quotient(NamedTuple):
    """A floor division that does not come out even."""

    numerator: Key
    divisor: Key

    @property
    def parts(self) -> tuple[Key, ...]:
        return self


class Applied(NamedTuple):
    function: Callable[[int], int]
    argument: Key

    @property
    def parts(self) -> tuple[Key, ...]:
        return (self.argument,)


Atom: TypeAlias = "Quotient | Applied | None"  # What polynomials are made of; ``None``: an open size


def constant(value: int) -> Terms:
    return {(): value} if value else {}


def key_of(terms: Terms) -> Key:
    """What equal polynomials have in common."""
    return tuple(sorted(terms.items()))


def added(a: Terms, b: Terms) -> Terms:
    made = dict(a)
    for monomial, coefficient in b.items():
        total = made.get(monomial, 0) + coefficient
        if total:
            made[monomial] = total
        else:
            made.pop(monomial, None)
    return made


def scaled(terms: Terms, factor: int) -> Terms:
    return {monomial: coefficient * factor for monomial, coefficient in terms.items()} if factor else {}


def multiplied(a: Terms, b: Terms) -> Terms:
    made: Terms = {}
    for first, c in a.items():
        for second, d in b.items():
            monomial = tuple(sorted(first + second))
            total = made.get(monomial, 0) + c * d
            if total:
                made[monomial] = total
            else:
                made.pop(monomial, None)
    return made


def even_part(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """What a polynomial is divided by another, as far as that comes out even term by term; and what is left."""
    if not a or not b:
        return {}, {}
    if len(b) > 1:  # only a multiple of all of it
        monomial, coefficient = next(iter(b.items()))
        factor = a.get(monomial, 0) // coefficient
        return (constant(factor), {}) if factor and scaled(b, factor) == a else ({}, a)
    ((divisor, coefficient),) = b.items()
    even: Terms = {}
    rest: Terms = {}
    for monomial, own in a.items():
        left = _without(monomial, divisor)
        if left is None or own % coefficient:
            whole = own // coefficient if left is not None else 0
            if whole and monomial == () == divisor:  # 1027 // 1024 is 1, and 3 are left
                even[()] = whole
                own -= whole * coefficient
            rest[monomial] = own
        else:
            even[left] = own // coefficient
    return even, rest


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
