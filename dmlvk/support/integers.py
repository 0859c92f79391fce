"""Checks numbers that callers give."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sized
from typing import cast

import numpy as np

from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.errors import InvalidArgumentError

UINT64_MAX = 2**64 - 1

_MOST_ITEMS = 1000  # Of what tells no length, and may have no end


def checked_integer(value: object, where: str, lowest: int, highest: int = UINT64_MAX) -> int:
    """``value`` as a Python int within [lowest, highest].

    Args:
        value: an int, or anything else that Python takes for an index, such as NumPy's integers.
        where: what it is, for the message.

    Raises:
        InvalidArgumentError: when it is no integer, or outside.
    """
    try:
        if isinstance(value, (bool, np.bool_, np.ndarray)):  # these have an index too, but are no numbers
            raise TypeError
        number = cast(int, value) if is_dynamic(value) else operator.index(value)  # type: ignore[arg-type]  # it refuses
    except TypeError:
        raise InvalidArgumentError(f"{where} must be an integer; got {value!r}") from None
    if lowest <= number <= highest:
        return number
    limits = f"at least {lowest}" if highest == UINT64_MAX and number < lowest else f"from {lowest} to {highest}"
    got = str(number) if abs(number) <= UINT64_MAX else f"a number of {number.bit_length()} bits"
    raise InvalidArgumentError(f"{where} must be {limits}; got {got}")


def checked_integers(values: object, where: str, lowest: int, highest: int = UINT64_MAX) -> list[int]:
    """The items of a sequence, each as :func:`checked_integer` takes it.

    Raises:
        InvalidArgumentError: when it is no sequence of such integers.
    """
    try:
        iterator = iter(values)  # type: ignore[call-overload]  # what cannot be iterated over is refused here
    except TypeError:
        raise InvalidArgumentError(f"{where} must be a sequence of integers; got {values!r}") from None
    items = iterator if isinstance(values, Sized) else itertools.islice(iterator, _MOST_ITEMS)
    return [checked_integer(item, f"{where}[{i}]", lowest, highest) for i, item in enumerate(items)]
