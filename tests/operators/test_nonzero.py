"""NONZERO_COORDINATES: tensors of several levels of counts."""

from __future__ import annotations

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.samples import Sample
from dmlvk.conformance.sampling import check_sample

U32 = dml.DataType.UINT32


def _desc(sizes: tuple[int, ...], rows: tuple[int, ...]) -> dml.NonzeroCoordinates:
    return dml.NonzeroCoordinates(
        input_tensor=dml.TensorDesc(dml.DataType.FLOAT32, sizes),
        output_count_tensor=dml.TensorDesc(U32, (1,) * len(sizes)),
        output_coordinates_tensor=dml.TensorDesc(U32, rows),
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_counts_of_several_levels(share: float, benches: list[Workbench]) -> None:
    sizes = (70, 61, 63)  # more than 64 segments of 64 segments
    x = (np.random.default_rng(1).random(sizes) < share).astype(np.float32)
    check_sample(benches, Sample("levels", _desc(sizes, (1, x.size, 3)), {"InputTensor": x}))
