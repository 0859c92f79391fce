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
from dmlvk.operators import OPERATORS

_TYPES = [dml.FLOAT32, dml.FLOAT16]


@pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])
@pytest.mark.parametrize(("window", "sizes"), [((40_000,), (5,)), ((60, 71), (2, 3))], ids=["one axis", "two axes"])
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
@pytest.mark.parametrize("name", ["AVERAGE_POOLING_GRAD", "MAX_POOLING_GRAD"])
def test_gradients_of_pools_add_those_of_many_windows(benches: list[Workbench], name: str, data_type: DataType) -> None:
    """40,000 places of a window lie over an element in as many positions."""
    positions, sizes = 40_000, (1, 1, 1, 3)
    windows = dml.TensorDesc(data_type, (1, 1, 1, positions + sizes[3]))
    of_maxima = {"input_tensor": dml.TensorDesc(data_type, sizes), "dilations": [1, 1]}
    kind: Any = OPERATORS[name]
    desc = kind(
        input_gradient_tensor=windows,
        output_gradient_tensor=dml.TensorDesc(data_type, sizes),
        dimension_count=2,
        strides=[1, 1],
        window_size=[1, positions],
        start_padding=[0, positions],
        end_padding=[0, positions - 1],
        **(of_maxima if name == "MAX_POOLING_GRAD" else {"include_padding": True}),
    )
    random = np.random.default_rng(3)
    gradients = (random.standard_normal(windows.sizes) + 0.25).astype(data_type.numpy_dtype)
    gradients[..., 0], gradients[..., 1], gradients[..., -1] = 1e-7, 1000.0, -0.0
    values = np.array([[[[1, 3, np.nan]]]], data_type.numpy_dtype)
    inputs = {"InputTensor": values} if name == "MAX_POOLING_GRAD" else {}
    _check(benches, desc, {**inputs, "InputGradientTensor": gradients})


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


@pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])
@pytest.mark.parametrize(("mode", "far"), [("LINEAR", 200), ("NEAREST_NEIGHBOR", 200), ("LINEAR", 30_000)], ids=str)
def test_gradients_of_resampling_add_those_of_many_elements(
    benches: list[Workbench], mode: str, far: int, data_type: DataType
) -> None:
    """Elements of the middle are repeated 200 times along two axes, those at the edges more often; or along one."""
    sizes, scales = ((2, 3), (far, far)) if far == 200 else ((1, 2), (1, far))
    resampled = [size * scale for size, scale in zip(sizes, scales, strict=True)]
    desc = dml.ResampleGrad1(
        input_gradient_tensor=dml.TensorDesc(data_type, resampled),
        output_gradient_tensor=dml.TensorDesc(data_type, sizes),
        interpolation_mode=dml.InterpolationMode[mode],
        rounding_direction=dml.AxisDirection.DECREASING,
        dimension_count=2,
        scales=[float(scale) for scale in scales],
        input_pixel_offsets=[0.5 if mode == "LINEAR" else 0.0] * 2,
        output_pixel_offsets=[-0.5 if mode == "LINEAR" else 0.0] * 2,
    )
    random = np.random.default_rng(5)
    values = (random.standard_normal(resampled) + 0.125).astype(data_type.numpy_dtype)
    if data_type is dml.FLOAT32:  # beyond what is added as it is
        values[-1, -1], values[0, 0] = 1e30, 1e-37
    _check(benches, desc, {"InputGradientTensor": values})


def _check(benches: Sequence[Workbench], desc: dml.OperatorDesc, inputs: dict[str, npt.NDArray[Any]]) -> None:
    expected = expected_outputs(desc, inputs)
    for bench in benches:
        assert sample_fault(bench.device.info.name, run_sample(bench, desc, inputs), expected) is None
