"""Samples of NONZERO_COORDINATES."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.indexed import any_bits

_CASES = (("fewer columns", (1, 1, 5, 7), 3, 0.4), ("one segment", (64,), 1, 1.0), ("many", (3, 41, 37), 3, 0.6))


@sampler("NONZERO_COORDINATES")
def nonzero_coordinates(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Zeros of both signs among elements of any bits; fewer columns than dimensions; several levels of counts."""
    data_type = types["input_tensor"]
    for name, sizes, columns, share in _CASES:
        values = any_bits(random, data_type, sizes)
        zeros = random.random(sizes) >= share
        values[zeros] = 0
        if data_type.is_float:
            values[zeros & (random.random(sizes) < 0.5)] = -0.0
        leading = (1,) * max(0, len(sizes) - 2)
        outputs = {
            "output_count_tensor": (1,) * len(sizes),
            "output_coordinates_tensor": (*leading, int(np.prod(sizes)), columns),
        }
        yield sample(name, "NONZERO_COORDINATES", types, {"input_tensor": values}, **outputs)
