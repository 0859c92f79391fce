"""RESAMPLE_GRAD and RESAMPLE_GRAD1: differences of the forward operators, PyTorch's scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import Bounded
from dmlvk.conformance.references.registry import REFERENCES
from tests.operators.differences import differences
from tests.targets import all_compute_as_gpus, variants

Array = npt.NDArray[Any]

_MODES = list(dml.InterpolationMode)
_DIRECTIONS = [None, *dml.AxisDirection]
"""How nearest elements are chosen: by RESAMPLE_GRAD, and both ways of RESAMPLE_GRAD1."""


def _desc(
    resampled: tuple[int, ...], sizes: tuple[int, ...], direction: dml.AxisDirection | None, **members: Any
) -> dml.ResampleGrad | dml.ResampleGrad1:
    kind: Any = dml.ResampleGrad if direction is None else dml.ResampleGrad1
    return kind(  # type: ignore[no-any-return]  # any of the two classes
        input_gradient_tensor=dml.TensorDesc(members.get("data_type", dml.FLOAT32), resampled),
        output_gradient_tensor=dml.TensorDesc(members.pop("data_type", dml.FLOAT32), sizes),
        dimension_count=len(resampled),
        **({} if direction is None else {"rounding_direction": direction}),
        **{"input_pixel_offsets": (0.5,) * len(resampled), "output_pixel_offsets": (-0.5,) * len(resampled), **members},
    )


def _run(bench: Workbench, desc: dml.OperatorDesc, gradients: Array) -> Array:
    return bench.device.run(desc, {"InputGradientTensor": gradients})["OutputGradientTensor"]


@pytest.mark.parametrize("direction", _DIRECTIONS, ids=str)
@pytest.mark.parametrize("mode", _MODES, ids=str)
@pytest.mark.parametrize(
    ("sizes", "resampled", "members"),
    [
        ((7,), (11,), {"scales": (1.6,)}),
        ((5, 7), (3, 4), {"scales": (0.5, 0.6), "output_pixel_offsets": (0.25, -0.75)}),
        ((2, 3, 4), (2, 5, 9), {"scales": (1.0, 1.0, 2.5), "input_pixel_offsets": (0.0, -1.0, 0.5)}),
        ((2, 3, 2, 3), (3, 2, 4, 2), {"scales": (1.5, 0.5, 2.0, 0.75)}),
    ],
    ids=["1", "2", "3", "4"],
)
def test_gradients_are_the_differences_of_the_forward_operator(
    benches: list[Workbench],
    sizes: tuple[int, ...],
    resampled: tuple[int, ...],
    members: dict[str, Any],
    mode: dml.InterpolationMode,
    direction: dml.AxisDirection | None,
) -> None:
    members = {**members, "interpolation_mode": mode}
    desc = _desc(resampled, sizes, direction, **members)
    kind: Any = dml.Resample1 if direction is None else dml.Resample2
    forward = kind(
        input_tensor=desc.output_gradient_tensor,
        output_tensor=desc.input_gradient_tensor,
        **{field.attribute: value for field, value in desc.attributes},
    )
    random = np.random.default_rng(11)
    x = random.standard_normal(sizes).astype(np.float32)
    gradients = random.standard_normal(resampled).astype(np.float32)

    def loss(values: npt.NDArray[np.float64]) -> float:
        result = REFERENCES[forward.operator_name](forward, {"InputTensor": values})["OutputTensor"]
        return float(np.sum(gradients * (result.values if isinstance(result, Bounded) else result)))  # of FLOAT64

    expected = differences(loss, x, 1.0)  # the operator is linear
    for bench in benches:
        got = _run(bench, desc, gradients)
        assert np.allclose(got, expected, rtol=1e-6, atol=1e-6), bench.device.info.name


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=str)
def test_bilinear_gradients_are_those_that_pytorch_scatters(benches: list[Workbench], data_type: dml.DataType) -> None:
    """upsample_bilinear2d_backward of ATen, with align_corners=False: four weighted places for each gradient."""
    sizes, resampled = (2, 2, 5, 6), (2, 2, 10, 9)
    random = np.random.default_rng(12)
    gradients = random.standard_normal(resampled).astype(data_type.numpy_dtype)
    expected = np.zeros(sizes)

    def source(number: int, extent: int, size: int) -> tuple[int, int, float]:
        position = max(0.0, (number + 0.5) * extent / size - 0.5)
        low = int(position)
        return low, low + (low < extent - 1), position - low

    for row in range(resampled[2]):
        above, below, of_below = source(row, sizes[2], resampled[2])
        for column in range(resampled[3]):
            left, right, of_right = source(column, sizes[3], resampled[3])
            given = gradients[:, :, row, column].astype(np.float64)
            expected[:, :, above, left] += (1 - of_below) * (1 - of_right) * given
            expected[:, :, above, right] += (1 - of_below) * of_right * given
            expected[:, :, below, left] += of_below * (1 - of_right) * given
            expected[:, :, below, right] += of_below * of_right * given
    scales = (1.0, 1.0, resampled[2] / sizes[2], resampled[3] / sizes[3])
    mode = dml.InterpolationMode.LINEAR
    desc = _desc(resampled, sizes, None, data_type=data_type, interpolation_mode=mode, scales=scales)
    error = 2.0**-20 if data_type is dml.FLOAT32 else 2.0**-10
    for bench in benches:
        assert np.allclose(_run(bench, desc, gradients), expected, rtol=error, atol=error), bench.device.info.name


def test_small_gradients_count_beside_large_ones_of_small_weight(benches: list[Workbench]) -> None:
    """Four weights of 2^-20 make less of a large gradient than a small one of weight 1 is; squares would overflow."""
    desc = _desc(
        (2, 2, 2, 2), (2, 2, 2, 2), None, interpolation_mode=dml.InterpolationMode.LINEAR, scales=(1.0,) * 4,
        input_pixel_offsets=(-(2.0**-20),) * 4, output_pixel_offsets=(0.0,) * 4,
    )  # fmt: skip
    for factor in (2.0**100, 2.0**-40):
        gradients = np.zeros((2, 2, 2, 2), np.float32)
        gradients[0, 0, 0, 0], gradients[1, 1, 1, 1] = factor, factor * 2.0**-80
        for bench in benches:
            got = _run(bench, desc, gradients)[1, 1, 1, 1]
            assert abs(got / (2 * factor * 2.0**-80) - 1) < 2.0**-20, bench.device.info.name


def test_infinities_reach_elements_with_a_part_in_them_only(benches: list[Workbench]) -> None:
    desc = _desc((8,), (4,), None, interpolation_mode=dml.InterpolationMode.LINEAR, scales=(2.0,))
    gradients = np.array([1, 1, 1, np.inf, 1, -np.inf, np.nan, -0.0], np.float32)
    for bench in benches:
        got = _run(bench, desc, gradients)
        expected = np.array([2.0, np.inf, np.nan, np.nan], np.float32)
        assert np.array_equal(got, expected, equal_nan=True), bench.device.info.name


@pytest.mark.parametrize("is_special", [False, True], ids=["normal", "special"])
@pytest.mark.parametrize(
    ("mode", "offset", "scales", "kernel"),
    [
        (_MODES[0], 0.0, (1.0, 2.0, 2.0), "block_gradient"),
        (_MODES[0], 0.0, (1.0, 3.0, 2.0), "block_gradient"),
        (_MODES[0], 0.0, (1.0, 1.0, 2.0), "block_gradient"),
        (_MODES[0], 0.0, (1.0, 2.0, 3.0), "gradient"),
        (_MODES[0], 0.25, (1.0, 2.0, 1.5), "gradient"),
        (_MODES[1], 0.5, (1.0, 2.0, 2.0), "doubled_gradient"),
        (_MODES[1], 0.0, (1.0, 2.0, 2.0), "gradient"),
        (_MODES[1], 0.5, (2.0, 2.0, 2.0), "gradient"),
    ],
    ids=str,
)
def test_gpus_kernels_for_what_was_repeated_or_doubled_have_the_same_bits(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    mode: dml.InterpolationMode,
    offset: float,
    scales: tuple[float, ...],
    kernel: str,
    is_special: bool,
) -> None:
    for sizes in ((2, 3, 6), (1, 1, 2), (3, 5, 10)):
        resampled = tuple(int(size * scale) for size, scale in zip(sizes, scales, strict=True))
        offsets = {"input_pixel_offsets": (offset,) * 3, "output_pixel_offsets": (-offset,) * 3}
        desc = _desc(resampled, sizes, dml.AxisDirection.DECREASING, interpolation_mode=mode, scales=scales, **offsets)
        gradients = np.random.default_rng(13).standard_normal(resampled).astype(np.float32)
        if is_special:
            unusual = np.array([np.inf, 3e38, -3e38, np.nan, 1e-40, -0.0, 2e-38, 1e-30], np.float32)
            rarely = gradients.reshape(-1)[:: 5 if gradients.size > 8 else 1]
            rarely[:] = np.resize(unusual, rarely.shape)
        assert variants(desc)[-1] == f"resample.{kernel}.float32"
        found = set()
        for as_gpus in (False, True):
            all_compute_as_gpus(monkeypatch, as_gpus=as_gpus)
            found |= {_run(bench, desc, gradients).tobytes() for bench in benches}
        assert len(found) == 1, sizes
