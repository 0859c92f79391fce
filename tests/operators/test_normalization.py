"""Operators that shift and scale by a mean and a variance: what samples do not try."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.samples.normalization import gradient_desc


def test_equal_numbers_have_variance_0_and_large_means_cost_no_accuracy(device: dml.Device) -> None:
    x = np.full((3, 1, 30, 100), 1.1, np.float32)
    deviations = np.where(np.arange(3000) % 2, 0.25, -0.25).reshape(30, 100)
    x[1, 0] = 1e6 + deviations
    x[2, 0] = 16777216
    tensor = dml.TensorDesc(dml.DataType.FLOAT32, x.shape)
    desc = dml.MeanVarianceNormalization(
        input_tensor=tensor,
        scale_tensor=None,
        bias_tensor=None,
        output_tensor=tensor,
        cross_channel=False,
        normalize_variance=True,
        epsilon=0.0,
        fused_activation=None,
    )
    got = device.run(dataclasses.replace(desc, epsilon=1e-20), {"InputTensor": x})["OutputTensor"]
    assert not got[[0, 2]].any()
    assert np.array_equal(got[1, 0], deviations * 4)


def test_batch_normalization_grad_agrees_with_finite_differences(any_device: dml.Device) -> None:
    random = np.random.default_rng(5)
    x, gradient = random.normal(0, 2, (2, 2, 3, 4, 5)).astype(np.float32)
    mean, scale = random.normal(0, 1, (2, 1, 3, 1, 1)).astype(np.float32)
    variance = random.uniform(0.5, 2, (1, 3, 1, 1)).astype(np.float32)
    large, small = (dml.TensorDesc(dml.DataType.FLOAT32, sizes) for sizes in (x.shape, mean.shape))
    desc = gradient_desc(dml.BatchNormalizationGrad, large, small, 0.25)
    inputs = {"InputTensor": x, "InputGradientTensor": gradient, "MeanTensor": mean}
    got = any_device.run(desc, {**inputs, "VarianceTensor": variance, "ScaleTensor": scale})

    def loss(values: list[npt.NDArray[np.float64]]) -> float:
        own, factor, bias = values
        normalized = (own - mean.astype(np.float64)) / np.sqrt(variance.astype(np.float64) + 0.25)
        return float((gradient.astype(np.float64) * (factor * normalized + bias)).sum())

    values = [x.astype(np.float64), scale.astype(np.float64), np.zeros(mean.shape)]
    names = ("OutputGradientTensor", "OutputScaleGradientTensor", "OutputBiasGradientTensor")
    for number, name in enumerate(names):
        for index in np.ndindex(values[number].shape):
            results = []
            for step in (0.5, -0.5):
                moved = [each.copy() for each in values]
                moved[number][index] += step
                results.append(loss(moved))
            assert got[name][index] == pytest.approx(results[0] - results[1], rel=1e-5, abs=1e-5)
