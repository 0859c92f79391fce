"""ROI_POOLING: bins of more elements than a launch goes through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.samples import Sample
from dmlvk.conformance.sampling import check_sample


def _desc(
    source: tuple[int, ...], rois: int, bins: tuple[int, int], data_type: dml.DataType = dml.FLOAT32, **more: Any
) -> dml.RoiPooling:
    members: dict[str, Any] = {
        "input_tensor": dml.TensorDesc(data_type, source),
        "roi_tensor": dml.TensorDesc(data_type, (1, 1, rois, 5)),
        "output_tensor": dml.TensorDesc(data_type, (rois, source[1], *bins)),
        "spatial_scale": 1.0,
        "pooled_size": dml.Size2D(height=bins[0], width=bins[1]),
    }
    return dml.RoiPooling(**{**members, **more})


@pytest.mark.parametrize("index", [0, 32767, 32768, 70000, 79999])
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16])
def test_bins_of_several_launches(index: int, data_type: dml.DataType, benches: list[Workbench]) -> None:
    x = np.full((1, 1, 200, 400), np.nan, data_type.numpy_dtype)
    x.flat[index] = -3.0
    rois = np.array([[0, 0, 0, 399, 199], [0, 0, 0, 0, 0]], data_type.numpy_dtype)[None, None]
    desc = _desc(x.shape, 2, (1, 1), data_type)
    check_sample(benches, Sample("large", desc, {"InputTensor": x, "ROITensor": rois}))
