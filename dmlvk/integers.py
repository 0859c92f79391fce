"""Checks numbers that callers give."""

from __future__ import annotations

import operator

import numpy as np

from dmlvk.errors import InvalidArgumentError

UINT64_MAX = 2**64 - 1


def checked_integer(value: object, where: str, lowest: int, highest: int = UINT64_MAX) -> int:
    """``value`` as a Python int within [lowest, highest].

    Args:
        value: an int, or anything else that Python takes for an index, such as NumPy's integers.
        where: what it is, for the message.
        lowest: the smallest number allowed.
        highest: the largest number allowed.

    Raises:
        InvalidArgumentError: when it is no integer, or outside.
    """
    try:
        if isinstance(value, (bool, np.bool_, np.ndarray)):  # these have an index too, but are no numbers
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]  # it refuses what has no index
    except TypeError:
        raise InvalidArgumentError(f"{where} must be an integer; got {value!r}") from None
    if lowest <= number <= highest:
        return number
    limits = f"at least {lowest}" if highest == UINT64_MAX and number < lowest else f"from {lowest} to {highest}"
    got = str(number) if abs(number) <= UINT64_MAX else f"a number of {number.bit_length()} bits"
    raise InvalidArgumentError(f"{where} must be {limits}; got {got}")
