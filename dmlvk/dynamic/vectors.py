"""Numbers of a plan as one array, of which only those are computed anew that follow from open sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.dynamic.polynomials import Key, key_of
from dmlvk.dynamic.sizes import DynamicSize, Guards

Integers: TypeAlias = npt.NDArray[np.int64]


class NumberVector:
    """Numbers that are evaluated together."""

    def __init__(self, guards: Guards, numbers: Sequence[Any]) -> None:
        different: dict[Key, int] = {}
        computed: list[DynamicSize] = []
        indices, which = [], []
        self._fixed = np.zeros(len(numbers), np.int64)
        for index, number in enumerate(numbers):
            if not isinstance(number, DynamicSize):
                self._fixed[index] = int(number)
                continue
            key = key_of(number.terms)
            if key not in different:
                different[key] = len(computed)
                computed.append(number)
            indices.append(index)
            which.append(different[key])
        self._positions, self._which = np.array(indices, np.intp), np.array(which, np.intp)
        self._function = guards.function(tuple(computed))
        self.is_open = np.zeros(len(numbers), np.bool_)  # which of them follow from open sizes
        self.is_open[self._positions] = True

    def __call__(self, *sizes: int) -> Integers:
        """A new array of the numbers.

        Args:
            sizes: all open sizes of the plan.
        """
        made = self._fixed.copy()
        made[self._positions] = np.array(self._function(*sizes), np.int64)[self._which]
        return made
