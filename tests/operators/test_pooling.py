"""Pooling: the worked examples of DirectML's pages, what is refused, and what averages promise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench

WINDOWS: dict[str, Any] = {
    "dimension_count": 2,
    "strides": (1, 1),
    "window_size": (2, 2),
    "start_padding": (0, 0),
    "end_padding": (0, 0),
}


def _average(sizes: tuple[int, ...], output: tuple[int, ...], **more: Any) -> dml.OperatorDesc:
    members = {**WINDOWS, "include_padding": False, **more}
    return dml.AveragePooling(
        input_tensor=dml.TensorDesc(dml.FLOAT32, sizes), output_tensor=dml.TensorDesc(dml.FLOAT32, output), **members
    )


def test_the_pages_example_of_maxima_and_indices(benches: list[Workbench]) -> None:
    source, result = dml.TensorDesc(dml.FLOAT32, (1, 1, 3, 3)), dml.TensorDesc(dml.FLOAT32, (1, 1, 2, 2))
    desc = dml.MaxPooling2(
        input_tensor=source,
        output_tensor=result,
        output_indices_tensor=dml.TensorDesc(dml.UINT32, (1, 1, 2, 2)),
        dilations=(1, 1),
        **WINDOWS,
    )
    values = np.array([[[[1, 2, 3], [2, 4, 2], [5, 6, 7]]]], np.float32)
    for bench in benches:
        got = bench.device.run(desc, {"InputTensor": values})
        assert got["OutputTensor"].tolist() == [[[[4, 4], [6, 7]]]]
        assert got["OutputIndicesTensor"].tolist() == [[[[4, 4], [7, 8]]]]


def test_the_pages_example_of_averages(benches: list[Workbench]) -> None:
    values = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
    for bench in benches:
        got = bench.device.run(_average((1, 1, 3, 3), (1, 1, 2, 2)), {"InputTensor": values})
        assert got["OutputTensor"].tolist() == [[[[3, 4], [6, 7]]]]


def test_averages_of_huge_numbers_do_not_overflow_and_cancellation_loses_nothing(benches: list[Workbench]) -> None:
    lines = [[3e38] * 4, [1e30, 1.0, -1e30, 3.0], [2.0**-126] * 4, [1e38, 2.0**-126, -1e38, 0]]
    rows = np.array(lines, np.float32)
    desc = _average((1, 4, 1, 4), (1, 4, 1, 1), window_size=(1, 4))
    for bench in benches:
        got = bench.device.run(desc, {"InputTensor": rows.reshape(1, 4, 1, 4)})["OutputTensor"].ravel()
        assert got[:3].tolist() == [np.float32(3e38), 1.0, np.float32(2.0**-126)]
        assert abs(float(got[3])) < 2.0**-40 * 1e38


@pytest.mark.parametrize("taps", [3, 7, 49, 250])
def test_float16_averages_are_correctly_rounded(benches: list[Workbench], taps: int) -> None:
    random = np.random.default_rng(taps)
    values = random.integers(0, 0x7C00, (1, 64, 1, taps)).astype(np.uint16)
    values |= (random.integers(0, 2, values.shape) << 15).astype(np.uint16)
    values[:, ::2] = (values[:, ::2] & 0x83FF) | 0x3C00  # many sums halfway between two numbers, and near that
    halves = values.view(np.float16)
    desc = dml.AveragePooling(
        input_tensor=dml.TensorDesc(dml.FLOAT16, halves.shape),
        output_tensor=dml.TensorDesc(dml.FLOAT16, (1, 64, 1, 1)),
        **{**WINDOWS, "window_size": (1, taps)},
        include_padding=True,
    )
    means = [sum(map(Fraction, map(float, row)), Fraction(0)) / taps for row in halves[0, :, 0]]
    for bench in benches:
        got = bench.device.run(desc, {"InputTensor": halves})["OutputTensor"].ravel()
        for number, mean in zip(got, means, strict=True):
            neighbours = [number, np.nextafter(number, np.float16(np.inf)), np.nextafter(number, np.float16(-np.inf))]
            errors = [abs(Fraction(float(n)) - mean) for n in neighbours if np.isfinite(n)]
            assert errors[0] == min(errors)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"strides": (0, 1)}, r"Strides\[0\] must be at least 1; got 0"),
        ({"window_size": (2, 0)}, r"WindowSize\[1\] must be at least 1; got 0"),
        ({"window_size": (2, 4)}, r"WindowSize\[1\] 4 spans 4 elements; the input with its padding has 3"),
        ({"window_size": (2, 2, 2)}, r"WindowSize"),
        ({"dimension_count": 3}, r"AVERAGE_POOLING: "),
        ({"end_padding": (1, 0)}, r"OutputTensor.Sizes must be \[1, 1, 3, 2\].*got \[1, 1, 2, 2\]"),
        ({"start_padding": (0, 2**31 - 1)}, r"below 2\^31"),
    ],
)
def test_what_does_not_fit_is_refused(more: dict[str, Any], words: str) -> None:
    with dml.Device() as device, pytest.raises(dml.DmlError, match=words):
        device.create_operator(_average((1, 1, 3, 3), (1, 1, 2, 2), **more))


def test_norms_of_power_0_are_refused() -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (1, 1, 2, 2))
    one = dml.TensorDesc(dml.FLOAT32, (1, 1, 1, 1))
    with dml.Device() as device, pytest.raises(dml.DmlError, match="LP_POOLING: P must be at least 1; got 0"):
        device.create_operator(dml.LpPooling(input_tensor=tensor, output_tensor=one, **WINDOWS, p=0))
