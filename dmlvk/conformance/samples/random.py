"""Samples of operators that make random numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.operators.random import RandomGeneratorType

_CASES = (
    ("a few", (3, 5), (2**32 - 2, 2**32 - 1, 2**32 - 1, 2**32 - 1, 7, 9), True),
    ("many", (2, 3, 1000), (2**32 - 9, 5, 6, 7, 2**32 - 1, 2**31), True),
    ("without a state behind", (1, 4), (0, 0, 0, 0, 0, 0), False),
)


@sampler("RANDOM_GENERATOR")
def random_generator(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Numbers that are no multiple of four; counters whose words carry, and one that wraps."""
    for name, sizes, state, has_next in _CASES:
        state_sizes = (*[1] * (len(sizes) - 1), 6)
        members = {"output_tensor": sizes, "output_state_tensor": state_sizes if has_next else None}
        inputs = {"input_state_tensor": np.array(state, np.uint32).reshape(state_sizes)}
        generator = RandomGeneratorType.PHILOX_4X32_10
        yield sample(name, "RANDOM_GENERATOR", types, inputs, **members, type=generator)
