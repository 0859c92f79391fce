"""Numbers as sums of multiples of open sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlvk.dynamic.sizes import DynamicSize


def coefficients_of(value: Any, sizes: Sequence[Any]) -> tuple[Any, list[int]]:
    """A number as a sum of multiples of some open sizes and a rest without them.

    Args:
        value: an integer or a dynamic size.

    Returns:
        The rest, and how often it has each.

    Raises:
        ValueError: when they are in it otherwise.
    """
    found = [0] * len(sizes)
    if not isinstance(value, DynamicSize):
        return value, found
    atoms = {next(iter(size.terms))[0]: number for number, size in enumerate(sizes)}
    rest: Any = value
    for monomial, coefficient in value.terms.items():
        if atoms.keys().isdisjoint(monomial):
            continue
        if len(monomial) > 1:
            raise ValueError("a product of an open size and another number")
        found[atoms[monomial[0]]] = coefficient
        rest = rest - coefficient * sizes[atoms[monomial[0]]]
    if isinstance(rest, DynamicSize) and rest.guards.mentions(rest.terms, atoms):
        raise ValueError("a quotient of an open size")
    return rest, found
