"""Batch normalization while a network learns: what samples do not try."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.samples.normalization import gradient_desc


def _training(sizes: tuple[int, ...], parameters: tuple[int, ...], **more: object) -> dml.BatchNormalizationTraining:
    large, small = dml.TensorDesc(dml.FLOAT32, sizes), dml.TensorDesc(dml.FLOAT32, parameters)
    desc = dml.BatchNormalizationTraining(
        input_tensor=large,
        scale_tensor=small,
        bias_tensor=small,
        fused_add_tensor=None,
        output_tensor=large,
        output_mean_tensor=small,
        output_variance_tensor=small,
        epsilon=0.0,
        fused_activation=None,
    )
    return dataclasses.replace(desc, **more)  # type: ignore[arg-type]  # members by name


def test_by_hand(any_device: dml.Device) -> None:
    """Channels of large means, of equal numbers and of few numbers: exact where everything on the way is."""
    x = np.zeros((2, 3, 1, 4), np.float32)
    deviations = np.array([[-3, -1, 1, 3], [-1, 1, 1, -1]], np.float32)
    x[:, 0, 0] = 2**20 + deviations  # variance 3
    x[:, 1] = 1.1
    x[:, 2, 0] = deviations * 4  # variance 48
    scale, bias = (np.array(values, np.float32).reshape(1, 3, 1, 1) for values in ([2, 5, 3], [0.5, -7, 1]))
    added = np.arange(24, dtype=np.float32).reshape(x.shape)
    tensor = dml.TensorDesc(dml.FLOAT32, x.shape)
    desc = _training(
        x.shape,
        (1, 3, 1, 1),
        fused_add_tensor=tensor,
        epsilon=1.0,
        fused_activation=dml.FusedActivation(dml.ActivationRelu),
    )
    inputs = {"InputTensor": x, "ScaleTensor": scale, "BiasTensor": bias, "FusedAddTensor": added}
    got = any_device.run(desc, inputs)
    assert got["OutputMeanTensor"].ravel().tolist() == [2**20, np.float32(1.1), 0]
    assert got["OutputVarianceTensor"].ravel().tolist() == [3, 0, 48]
    expected = np.stack([deviations * 2 / 2 + 0.5, 0 * deviations - 7, deviations * 4 * np.float32(3 / 7) + 1], 1)
    assert got["OutputTensor"] == pytest.approx(np.maximum(expected.reshape(x.shape) + added, 0), rel=1e-6)
    assert np.array_equal(got["OutputTensor"][:, :2], np.maximum(expected.reshape(x.shape) + added, 0)[:, :2])


def test_parameters_for_each_element(any_device: dml.Device) -> None:
    """Nothing is summed up: the mean is the element, and the result is Bias."""
    x, scale, bias = np.random.default_rng(2).normal(0, 3, (3, 3, 4)).astype(np.float32)
    desc = _training((3, 4), (3, 4), epsilon=0.25)
    got = any_device.run(desc, {"InputTensor": x, "ScaleTensor": scale, "BiasTensor": bias})
    assert np.array_equal(got["OutputMeanTensor"], x)
    assert not got["OutputVarianceTensor"].any()
    assert np.array_equal(got["OutputTensor"], bias)


@pytest.mark.parametrize("count", [7, 999])
def test_equal_numbers_have_variance_0(any_device: dml.Device, count: int) -> None:
    numbers = (np.random.default_rng(3).normal(0, 1, 500) * 10.0 ** np.arange(-20, 30, 0.1)).astype(np.float32)
    x = np.repeat(numbers[None], count, 0)
    one = np.ones((1, 500), np.float32)
    got = any_device.run(_training(x.shape, (1, 500)), {"InputTensor": x, "ScaleTensor": one, "BiasTensor": one})
    assert np.array_equal(got["OutputMeanTensor"], numbers[None])
    assert not got["OutputVarianceTensor"].any()


def test_gradients_agree_with_finite_differences(any_device: dml.Device) -> None:
    """Of a loss in float64 that normalizes by the batch's own mean and variance."""
    random = np.random.default_rng(5)
    x, gradient = random.normal(3, 2, (2, 4, 3, 2, 5)).astype(np.float32)
    scale, bias = random.normal(0, 1, (2, 1, 3, 1, 1)).astype(np.float32)
    axes, epsilon = (0, 2, 3), 0.25
    large, small = dml.TensorDesc(dml.FLOAT32, x.shape), dml.TensorDesc(dml.FLOAT32, scale.shape)
    forward = any_device.run(
        _training(x.shape, scale.shape, epsilon=epsilon), {"InputTensor": x, "ScaleTensor": scale, "BiasTensor": bias}
    )
    desc = gradient_desc(dml.BatchNormalizationTrainingGrad, large, small, epsilon)
    inputs = {"InputTensor": x, "InputGradientTensor": gradient, "ScaleTensor": scale}
    inputs |= {"MeanTensor": forward["OutputMeanTensor"], "VarianceTensor": forward["OutputVarianceTensor"]}
    got = any_device.run(desc, inputs)

    def loss(values: list[npt.NDArray[np.float64]]) -> float:
        own, factor, added = values
        normalized = (own - own.mean(axes, keepdims=True)) / np.sqrt(own.var(axes, keepdims=True) + epsilon)
        return float((gradient.astype(np.float64) * (factor * normalized + added)).sum())

    values = [each.astype(np.float64) for each in (x, scale, bias)]
    names = ("OutputGradientTensor", "OutputScaleGradientTensor", "OutputBiasGradientTensor")
    for number, name in enumerate(names):
        for index in np.ndindex(values[number].shape):
            results = []
            for step in (1e-4, -1e-4):
                moved = [each.copy() for each in values]
                moved[number][index] += step
                results.append(loss(moved))
            assert got[name][index] == pytest.approx((results[0] - results[1]) / 2e-4, rel=1e-5, abs=2e-6), (
                name,
                index,
            )


def test_means_that_are_not_the_batch_s(any_device: dml.Device) -> None:
    """OutputScaleGradient is made with MeanTensor, OutputGradient with the mean of the values."""
    x, gradient = (np.array([[0, 2, 4, 6]], np.float32), np.array([[1, 0, 0, 1]], np.float32))
    large, small = dml.TensorDesc(dml.FLOAT32, (1, 4)), dml.TensorDesc(dml.FLOAT32, (1, 1))
    desc = gradient_desc(dml.BatchNormalizationTrainingGrad, large, small, 0.0)
    mean, variance, scale = (np.array([[value]], np.float32) for value in (1, 4, 6))
    inputs = {"InputTensor": x, "InputGradientTensor": gradient, "MeanTensor": mean}
    got = any_device.run(desc, {**inputs, "VarianceTensor": variance, "ScaleTensor": scale})
    assert got["OutputGradientTensor"].tolist() == [
        [1.5, -1.5, -1.5, 1.5]
    ]  # 6 / 2 * (g - 1/2), as g * (x - 3) add up to 0
    assert got["OutputScaleGradientTensor"].tolist() == [[2.0]]  # (-1 + 5) / 2
    assert got["OutputBiasGradientTensor"].tolist() == [[2.0]]
