"""From where to where the numbers of a node's input may go."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dmlvk.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class Range:
    """From where to where the numbers of a node's input may go, as a plan knows it."""

    node: str  # for messages
    role: str  # the input's name in the operator's definition
    name: str  # the value's
    least: int  # the smallest number
    end: int  # the number behind the largest

    def broken(self, numbers: Any) -> str:
        """The rule, where numbers break it; empty: none does, or they lie on the device, where kernels bound them."""
        if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "iu" or not numbers.size:
            return ""
        least, most = int(numbers.min()), int(numbers.max())
        if least >= self.least and most < self.end:
            return ""
        strange = least if least < self.least else most
        return f"{self.role} ({self.name!r}) must be from {self.least} to {self.end - 1}; got {strange}"


def check_ranges(model: str, ranges: Iterable[Range], *values: Mapping[str, Any]) -> None:
    """Looks at numbers that nodes read, as far as the host has them.

    Args:
        values: arrays by name; the first one that has a name counts.

    Raises:
        InvalidArgumentError: naming the first number that is none.
    """
    for each in ranges:
        numbers = next((of[each.name] for of in values if each.name in of), None)
        if broken := each.broken(numbers):
            raise InvalidArgumentError(f"{model}: {each.node}: {broken}")
