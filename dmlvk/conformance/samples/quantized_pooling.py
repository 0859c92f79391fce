"""Samples of means of windows of quantized tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.products import steps_of
from dmlvk.conformance.samples.quantized_products import SPECIAL_SCALES, any_integers, scales

# sizes, window, steps; whether parameters are of channels, whether zero points are given, whether padding counts
_POOLS: dict[str, Any] = {
    "without zero points": ((2, 3, 7, 6), (3, 2), {}, False, False, False),
    "padded": ((1, 4, 6, 5), (3, 3), {"start": (1, 2), "end": (2, 1)}, False, True, False),
    "padding counts": ((1, 4, 6, 5), (3, 3), {"start": (2, 1), "end": (1, 2)}, True, True, True),
    "steps": ((2, 3, 9, 8), (2, 3), {"strides": (2, 1), "dilations": (2, 3), "start": (1, 0)}, True, True, False),
    "three axes": ((1, 2, 4, 5, 3), (2, 3, 2), {"start": (1, 0, 1), "strides": (1, 2, 1)}, True, True, False),
    "nothing but padding": ((1, 2, 2, 2), (1, 1), {"start": (2, 0), "end": (1, 3)}, True, True, False),
    "one window": ((1, 3, 90, 70), (90, 70), {}, True, True, False),
    "large windows": ((1, 2, 260, 255), (259, 255), {"start": (1, 0), "strides": (2, 1)}, True, True, False),
}


@sampler("QUANTIZED_LINEAR_AVERAGE_POOLING")
def quantized_average_pools(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Parameters of every shape, padding of both kinds, halves, and scales of every kind."""
    for name, kind in _POOLS.items():
        yield _sample(name, types, random, kind, {})
    halves = {"input_scale_tensor": np.float32(1), "output_scale_tensor": np.float32(0.5)}
    yield _sample("halves", types, random, ((1, 4, 9, 9), (2, 2), {}, False, True, True), halves)
    channels = len(SPECIAL_SCALES)
    kind = ((1, channels, 3, 2), (2, 1), {}, True, True, False)
    for divisor in (1.0, 0.0, -np.inf, np.nan, 1e-40):
        given = {"input_scale_tensor": SPECIAL_SCALES.reshape(1, -1, 1, 1), "output_scale_tensor": np.float32(divisor)}
        yield _sample(f"special scales by {divisor:g}", types, random, kind, given)


def _sample(name: str, types: Types, random: np.random.Generator, kind: Any, numbers: Mapping[str, Any]) -> Sample:
    sizes, window, options, of_channels, has_zeros, counts_padding = kind
    count = len(window)
    shape = (1, sizes[1], *(1,) * count) if of_channels else (1,) * (count + 2)
    arrays = {"input_tensor": any_integers(types["input_tensor"], sizes, random)}
    for key in ("input", "output"):
        member = f"{key}_scale_tensor"
        arrays[member] = np.broadcast_to(numbers.get(member, scales(shape, random)), shape).copy()
        if has_zeros:
            zero = f"{key}_zero_point_tensor"
            arrays[zero] = any_integers(types[zero], shape, random)
    members = steps_of(count, **options) | {"window_size": window, "include_padding": counts_padding}
    del members["group_count"]
    return sample(name, "QUANTIZED_LINEAR_AVERAGE_POOLING", types, arrays, **members)
