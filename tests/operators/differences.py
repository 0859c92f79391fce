"""Gradients by finite differences, which know nothing of how gradients are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt


def differences(
    loss: Callable[[npt.NDArray[np.float64]], float], x: npt.NDArray[np.floating[Any]], step: float = 2.0**-12
) -> npt.NDArray[np.float64]:
    """The central differences of a number that is made of an array, for each of the array's elements, in float64.

    Args:
        step: how far an element is moved each way; the error is of the order of its square.
    """
    values = x.astype(np.float64)
    gradient = np.empty(values.shape)
    for index in np.ndindex(*values.shape):
        ends = []
        for moved in (step, -step):
            there = values.copy()
            there[index] += moved
            ends.append(loss(there))
        gradient[index] = (ends[0] - ends[1]) / (2 * step)
    return gradient
