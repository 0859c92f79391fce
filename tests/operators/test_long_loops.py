"""What takes more turns of loops than llvmpipe lets an invocation have (65,535) goes in several launches.

Whatever the driver does, more turns than that are wrong there without a word. Tests have sizes at which they were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import expected_outputs
from dmlvk.conformance.sampling import run_sample, sample_fault
from dmlvk.datatypes import DataType

_TYPES = [dml.FLOAT32, dml.FLOAT16]


@pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])
@pytest.mark.parametrize(("window", "sizes"), [((40_000,), (5,)), ((260, 301), (2, 3))], ids=["one axis", "two axes"])
def test_fold_adds_windows_of_many_places(
    benches: list[Workbench], window: Sequence[int], sizes: Sequence[int], data_type: DataType
) -> None:
    start = [size // 2 for size in window]
    end = [size - size // 2 for size in window]
    positions = math.prod(size + 1 for size in sizes)
    desc = dml.Fold(
        input_tensor=dml.TensorDesc(data_type, (1, math.prod(window), positions)),
        output_tensor=dml.TensorDesc(data_type, (1, 1, *sizes)),
        dimension_count=len(sizes),
        window_sizes=window,
        strides=[1] * len(sizes),
        dilations=[1] * len(sizes),
        start_padding=start,
        end_padding=end,
    )
    random = np.random.default_rng(3)
    values = random.standard_normal((1, math.prod(window), positions)).astype(data_type.numpy_dtype)
    values[0, -1, 0], values[0, 0, -1] = -0.0, 1e-7  # those that the last launch and the first one take
    _check(benches, desc, {"InputTensor": values})


@pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])
@pytest.mark.parametrize(
    ("sizes", "results"), [((50_000,), (1,)), ((300, 210), (2, 1)), ((40, 50, 60), (1, 2, 1))], ids=["1", "2", "3"]
)
def test_resample3_averages_many_elements(
    benches: list[Workbench], sizes: Sequence[int], results: Sequence[int], data_type: DataType
) -> None:
    rank = len(sizes)
    desc = dml.Resample3(
        input_tensor=dml.TensorDesc(data_type, (1,) * (4 - rank) + tuple(sizes)),
        output_tensor=dml.TensorDesc(data_type, (1,) * (4 - rank) + tuple(results)),
        interpolation_mode=dml.InterpolationMode.LINEAR,
        rounding_direction=dml.AxisDirection.INCREASING,
        dimension_count=4,
        scales=[1.0] * (4 - rank) + [result / size for result, size in zip(results, sizes, strict=True)],
        input_pixel_offsets=[0.5] * 4,
        output_pixel_offsets=[-0.5] * 4,
        antialiased=True,
    )
    values = np.random.default_rng(4).standard_normal(desc.input_tensor.sizes) + 3.0
    _check(benches, desc, {"InputTensor": values.astype(data_type.numpy_dtype)})


def _check(benches: Sequence[Workbench], desc: dml.OperatorDesc, inputs: dict[str, npt.NDArray[Any]]) -> None:
    expected = expected_outputs(desc, inputs)
    for bench in benches:
        assert sample_fault(bench.device.info.name, run_sample(bench, desc, inputs), expected) is None
