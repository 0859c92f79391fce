"""SHRINK of integers at its thresholds, with biases of every size, beside the exact definition."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlvk.conformance.cases import Batch, value_cases
from dmlvk.conformance.execution import Workbench, check_batch

_CASES = {case.name: case for case in value_cases()}

_NUMBERS = [
    *[0.0, -0.0, 1e-42, 1e-30, 0.5, 1.0, 1.5, 2.0, 126.75, 127.0, 128.0, 255.5, 256.0, 32767.5, 65535.0, 65536.5],
    *[2.0**23 - 0.5, 2.0**23, 2.0**24 + 2, 2.0**30 - 64, 2.0**30, 2.0**31 - 128, 2.0**31, 2.0**32 - 256, 2.0**32],
    *[3e9, 1e20, 3e38, math.inf],
]
NUMBERS = [*_NUMBERS, *(-number for number in _NUMBERS), math.nan]
"""Thresholds and biases: whole and not, on both sides of where integers of 8, 16 and 32 bits end."""


def _integers(data_type: str) -> npt.NDArray[Any]:
    """All of 8 bits; else those beside NUMBERS, and random ones."""
    kind = np.dtype(data_type)
    limits = np.iinfo(kind)
    if kind.itemsize == 1:
        return np.arange(limits.min, limits.max + 1).astype(kind)
    finite = [int(number) for number in NUMBERS if math.isfinite(number)]
    beside = [limits.min, limits.max, *(number + step for number in finite for step in (-2, -1, 0, 1, 2))]
    known = [number for number in beside if limits.min <= number <= limits.max]
    random = np.random.default_rng(5).integers(limits.min, limits.max, 500, endpoint=True)
    return np.concatenate([np.array(known, kind), random.astype(kind)])


@pytest.mark.parametrize("data_type", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
def test_integers_at_thresholds_with_any_bias(data_type: str, benches: list[Workbench]) -> None:
    x = _integers(data_type)
    for number, (threshold, bias) in enumerate(itertools.product(NUMBERS, repeat=2)):
        if number % 5 == 0 or abs(threshold) == abs(bias):
            batch = Batch("thresholds", {"threshold": threshold, "bias": bias}, (x,))
            check_batch(benches, _CASES[f"activation_shrink-{data_type}"], "contiguous", batch)
