"""Normalizations by a variance of rounded squares keep their promise, whatever is in a row and however long it is."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import Bounded
from dmlvk.conformance.references.normalization import mean_variance_normalization
from tests.targets import on_llvmpipe

Array = npt.NDArray[np.float32]

_LENGTHS = (1, 2, 3, 4, 7, 16, 60, 1001, 4096, 16384, 16387, 40000, pytest.param(1 << 20, marks=pytest.mark.sweep))
_SHORT = (60, 1001)  # SwiftShader is shown rows of these lengths only

_VARIED = 60  # From this length on no row is of equal numbers by chance

_EPSILON = 1e-5
_EQUAL_FROM, _TINY = 12, 8
"""From which row on numbers are equal, and whose variance is below 2^-126: without Epsilon they are divided by zero."""


def _desc(x: Array, epsilon: float, *, has_scale: bool = False) -> dml.MeanVarianceNormalization1:
    tensor = dml.TensorDesc(dml.DataType.FLOAT32, x.shape)
    return dml.MeanVarianceNormalization1(
        input_tensor=tensor,
        scale_tensor=tensor if has_scale else None,
        bias_tensor=None,
        output_tensor=tensor,
        axis_count=1,
        axes=(1,),
        normalize_variance=True,
        epsilon=epsilon,
        fused_activation=None,
    )


def _assert_kept(benches: list[Workbench], desc: dml.MeanVarianceNormalization1, inputs: Mapping[str, Array]) -> None:
    expected = mean_variance_normalization(desc, inputs)["OutputTensor"]
    assert isinstance(expected, Bounded)
    for bench in benches:
        result = bench.device.run(desc, inputs)["OutputTensor"]
        assert np.isfinite(result).all()
        # Results below 2^-126 count as zeros.
        shares = np.abs(result - expected.values) / (expected.bound + 2.0**-126)
        assert shares.max() <= 1, (bench.device.info.name, shares.max(axis=1))


def _rows(length: int) -> Array:
    random = np.random.default_rng(length)
    usual = random.standard_normal((16, length))
    with np.errstate(under="ignore"):
        rows: Array = np.stack(
            [
                usual[0],
                np.abs(usual[1]),
                usual[2] * 2.0**-12 + 1000,
                np.where(usual[3] > 0, 1.0, -1.0),  # cancels out
                np.where(np.arange(length) == 0, 1e19, usual[4]),
                usual[5] * 1e18,
                np.where(usual[6] > 1, 1e15, usual[6]),
                usual[7] * 1e-15,
                usual[8] * 1e-25 + 1e-20,
                np.where(usual[9] > 1, 1e-25, usual[9]),
                np.where(usual[10] > 0, usual[10], 0),
                np.round(usual[11] * 2),
                np.full(length, 1.1),
                np.full(length, 3e38),
                np.full(length, 1e-30),
                np.zeros(length),
            ]
        ).astype(np.float32)
    return rows


@pytest.mark.sweep
@pytest.mark.parametrize("length", _LENGTHS)
def test_rows_of_all_kinds(benches: list[Workbench], length: int) -> None:
    x = _rows(length)
    devices = benches if length in _SHORT else on_llvmpipe(benches)
    _assert_kept(devices, _desc(x, _EPSILON), {"InputTensor": x})
    if length >= _VARIED:
        x = x[[row for row in range(_EQUAL_FROM) if row != _TINY]]
        _assert_kept(devices, _desc(x, 0.0), {"InputTensor": x})


def test_equal_numbers_have_no_variance(benches: list[Workbench]) -> None:
    for length in (5, 64, 16388):
        x = np.repeat(np.array([[1.1], [-3e38], [1e-30], [0], [7e-20]], np.float32), length, axis=1)
        each = _desc(x, _EPSILON)
        once = dataclasses.replace(each, input_tensor=dml.TensorDesc(dml.FLOAT32, x.shape, (1, 0)))
        for bench, desc in itertools.product(on_llvmpipe(benches), (each, once)):
            assert not bench.device.run(desc, {"InputTensor": x})["OutputTensor"].any()


def test_what_is_no_number(benches: list[Workbench]) -> None:
    for length in (5, 64, 16388):
        x = np.random.default_rng(1).standard_normal((4, length)).astype(np.float32)
        x[0, 1], x[1, 1], x[2, :2] = np.nan, np.inf, (np.inf, -np.inf)
        for bench in on_llvmpipe(benches):
            result = bench.device.run(_desc(x, _EPSILON), {"InputTensor": x})["OutputTensor"]
            assert np.isnan(result[:3]).all()
            assert np.isfinite(result[3]).all()


@pytest.mark.parametrize("width", [2, 8, 18])
def test_errors_that_do_not_average_out(benches: list[Workbench], width: int) -> None:
    # All differences of a row but two are equal but for their sign, so that all are off by the same part, and so are
    # their squares and sums: significands a little above a power of two are off by most.
    random = np.random.default_rng(width)

    def numbers() -> npt.NDArray[np.float64]:
        significands = 1 + np.exp2(random.uniform(-width, 0, 1 << 14)) * random.random(1 << 14)
        return np.asarray(np.exp2(random.integers(-3, 4, 1 << 14)) * significands, np.float64)

    mean, difference, other = numbers(), numbers(), numbers()
    equal = [mean + difference, mean - difference] * 15
    x = np.stack([*equal, mean + other, mean - other], axis=1).astype(np.float32)
    scale = (1 + np.exp2(random.uniform(-width, 0, x.shape))).astype(np.float32)
    inputs = {"InputTensor": x, "ScaleTensor": scale}
    _assert_kept(on_llvmpipe(benches), _desc(x, 0.0, has_scale=True), inputs)
