"""Large copies, which several threads share among them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from dmlvk.support.shared_work import Helpers

MOST_COPIERS = 4
"""Threads that work at a copy, the one that wants it included. More are in each other's way where several threads copy
at once, and no faster where one does."""

_helpers = Helpers("dmlvk-copy")


def share(parts: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]]) -> None:
    """Copies arrays, with as many threads as there are parts.

    Args:
        parts: where to, and from where; of one shape.
    """
    _helpers.share([functools.partial(_copy, *part) for part in parts], len(parts))


def _copy(destination: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    destination[...] = source
