"""Samples of operators that take regions out of images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.operators.members import Size2D

_REGIONS = (
    (0, 0, 0, 6, 4),
    (1, 2, 1, 5, 3),
    (1.75, -3.5, -2.5, 2.5, 1.5),
    (0, 5, 3, 20, 9),
    (1, 4, 4, 2, 2),
    (0, 30, 30, 40, 40),
    (2, 0, 0, 3, 3),
    (-1, 0, 0, 3, 3),
    (np.nan, 0, 0, 3, 3),
    (-0.0, np.nan, 1, np.inf, 2),
    (0, -np.inf, -60000, 60000, np.inf),
)


@sampler("ROI_POOLING")
def roi_pooling(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Regions inside, across the edges, beyond them, without end, inverted, and of batches that there are not."""
    data_type = types["input_tensor"]
    dtype = data_type.numpy_dtype
    regions = np.array(_REGIONS, dtype)[None, None]
    for scale, height, width in ((1.0, 2, 3), (0.6, 4, 1), (-1.5, 1, 9), (5.7e20, 3, 2)):
        values = random.standard_normal((2, 3, 5, 7)).astype(dtype)
        chosen = random.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf], dtype), values.shape)
        values = np.where(random.random(values.shape) < 0.3, chosen, values)
        members = {"spatial_scale": scale, "pooled_size": Size2D(width=width, height=height)}
        inputs = {"input_tensor": values, "roi_tensor": regions}
        yield sample(f"{height} by {width}, scale {scale}", "ROI_POOLING", types, inputs, **members)
