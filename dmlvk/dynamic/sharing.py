"""What is made of dynamic sizes once, for all places of a plan that have equal ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from dmlvk.dynamic.sizes import DynamicSize, Guards

_Made = TypeVar("_Made")


def once(make: Callable[..., _Made], *given: Any) -> _Made:
    """What a function makes of dynamic sizes: made once of those that are equal, whichever objects they are.

    Args:
        make: depends on nothing but what it is given.
        given: dynamic sizes, at least one, hashable values, and tuples of such, of any depth.
    """
    guards: list[Guards] = []
    key = make, _alike(given, guards)
    if any(other is not guards[0] for other in guards[1:]):  # one of another plan, out of a cache
        return make(*given)
    kept = guards[0].made
    if key not in kept:
        kept[key] = make(*given)
    return cast(_Made, kept[key])


def _alike(value: Any, guards: list[Guards]) -> object:
    """What equal values have in common, without a guard; notes whose dynamic sizes are in it."""
    if isinstance(value, DynamicSize):
        guards.append(value.guards)
        return DynamicSize, *value.terms.items()
    return tuple([_alike(item, guards) for item in value]) if isinstance(value, tuple) else value
