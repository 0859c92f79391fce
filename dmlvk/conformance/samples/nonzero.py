"""Samples of NONZERO_COORDINATES."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sampler
from dmlvk.conformance.samples.indexed import any_bits
from dmlvk.datatypes import DataType
from dmlvk.operators.nonzero import NonzeroCoordinates
from dmlvk.tensors import TensorDesc

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
        desc = NonzeroCoordinates(
            input_tensor=TensorDesc(data_type, sizes),
            output_count_tensor=TensorDesc(DataType.UINT32, (1,) * len(sizes)),
            output_coordinates_tensor=TensorDesc(DataType.UINT32, (*leading, int(np.prod(sizes)), columns)),
        )
        yield Sample(name, desc, {"InputTensor": values})
