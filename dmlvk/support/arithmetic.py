"""How sums of products are rounded: the same everywhere, or as a device likes."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, get_args

from dmlvk.errors import InvalidArgumentError

Arithmetic: TypeAlias = Literal["portable", "device"]
"""``"portable"``: the same bits on every device. ``"device"``: FLOAT32 products are summed as a device does it best."""

ARITHMETICS: tuple[Arithmetic, ...] = get_args(Arithmetic)

VARIABLE = "DMLVK_ARITHMETIC"
"""The environment variable that says what devices do that are opened without a word about it."""


def checked_arithmetic(given: object, where: str) -> Arithmetic:
    """One of ``ARITHMETICS``.

    Args:
        given: what a caller, or an environment variable, says.

    Raises:
        InvalidArgumentError: when it is none of them.
    """
    for arithmetic in ARITHMETICS:
        if given == arithmetic:
            return arithmetic
    raise InvalidArgumentError(f"{where} must be {' or '.join(map(repr, ARITHMETICS))}; got {given!r}")


def default_arithmetic() -> Arithmetic:
    """What the environment variable says; ``"portable"`` where it is not set, or empty.

    Raises:
        InvalidArgumentError: when it says something else.
    """
    said = os.environ.get(VARIABLE, "").strip()
    return checked_arithmetic(said, VARIABLE) if said else "portable"
