"""Operators that shift and scale by a mean and a variance, and LOCAL_RESPONSE_NORMALIZATION, with their gradients."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import Bounded, expected_outputs
from dmlvk.conformance.samples.normalization import gradient_desc
from tests.operators.differences import differences


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


def _assert_slopes(
    got: Mapping[str, npt.NDArray[Any]],
    loss: Callable[[list[npt.NDArray[np.float64]]], float],
    values: list[npt.NDArray[np.float64]],
    step: float,
    **near: Any,
) -> None:
    """The gradients of an input, a scale and a bias."""
    for place, name in enumerate(("OutputGradientTensor", "OutputScaleGradientTensor", "OutputBiasGradientTensor")):

        def moved(there: npt.NDArray[np.float64], place: int = place) -> float:
            return loss([*values[:place], there, *values[place + 1 :]])

        slopes = differences(moved, values[place], step)
        assert got[name] == pytest.approx(slopes, **near), name


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
    _assert_slopes(got, loss, values, 0.5, rel=1e-5, abs=1e-5)


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
    _assert_slopes(got, loss, values, 1e-4, rel=1e-5, abs=2e-6)


Array = npt.NDArray[Any]

QUARTERS = (0.25, 0.5, 0.75)

SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


def _run(
    device: dml.Device,
    x: Array,
    *,
    local_size: int,
    beta: float,
    alpha: float,
    bias: float,
    strides: tuple[int, ...] | None = None,
) -> Array:
    data_type = dml.FLOAT16 if x.dtype == np.float16 else dml.FLOAT32
    packed = dml.TensorDesc(data_type, x.shape)
    source = packed if strides is None else dml.TensorDesc(data_type, x.shape, strides=strides)
    desc = dml.LocalResponseNormalization(
        input_tensor=source,
        output_tensor=packed,
        cross_channel=True,
        local_size=local_size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )
    return device.run(desc, {"InputTensor": x})["OutputTensor"]


def _exact(x: Array, *, local_size: int, beta: float, alpha: float, bias: float) -> Array:
    """The results in extended precision, whose errors are 2^-60 of them."""
    wide = x.astype(np.longdouble)
    channels = x.shape[1]
    before, behind = (local_size - 1) // 2, local_size // 2
    sums = [(wide[:, max(0, at - before) : at + behind + 1] ** 2).sum(1) for at in range(channels)]
    factor = np.longdouble(np.float32(alpha) / np.float32(local_size))
    base = np.longdouble(np.float32(bias)) + factor * np.stack(sums, 1)
    return np.asarray(wide / base ** np.longdouble(beta))


def _errors(result: Array, exact: Array) -> Array:
    """In units of float32's last place."""
    ulp = np.spacing(np.maximum(np.abs(exact).astype(np.float32), SMALLEST_NORMAL)).astype(np.longdouble)
    return np.asarray(np.abs(result.astype(np.longdouble) - exact) / ulp)


@pytest.mark.parametrize("beta", QUARTERS)
def test_a_quotient_is_rounded_once(benches: list[Workbench], beta: float) -> None:
    """With a factor of 0 the base is Bias, which is exact: nothing but the quotient is rounded."""
    random = np.random.default_rng(7)
    biases = [*np.exp2(random.uniform(-30, 30, 24)), 2.0**-30, 2.0**30, 1.0, np.nextafter(np.float32(4), np.float32(0))]
    for bias in np.array(biases, np.float32):
        x = (random.choice([-1.0, 1.0], (1, 1, 32, 64)) * np.exp2(random.uniform(-38, 60, (1, 1, 32, 64)))).astype(
            np.float32
        )
        members: dict[str, Any] = {"local_size": 1, "beta": beta, "alpha": 0.0, "bias": float(bias)}
        exact = _exact(x, **members)
        for bench in benches:
            assert _errors(_run(bench.device, x, **members), exact).max() <= 0.5 + 2.0**-4


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
def test_any_layout_gives_the_same_bits(benches: list[Workbench], data_type: type) -> None:
    """Rare elements among ordinary ones: one kernel has vectors, the other one single elements."""
    random = np.random.default_rng(3)
    shape = (2, 19, 4, 6)
    x: Array = random.standard_normal(shape).astype(data_type)
    with np.errstate(over="ignore"):
        unusual: Array = np.array(
            [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-30, 2.0**-41, 2.0**-24, 1e30, -3e38, 2e19]
        ).astype(data_type)
    needs_slow_path = random.random(shape) < 0.2
    x[needs_slow_path] = random.choice(unusual, needs_slow_path.sum())
    for beta, local_size, (alpha, bias) in itertools.product(
        QUARTERS, (2, 5), ((1e-4, 1.0), (1.0, 2.0**-20), (1e-37, 1.0))
    ):
        members: dict[str, Any] = {"local_size": local_size, "beta": beta, "alpha": alpha, "bias": bias}
        results = {_run(bench.device, x, **members).tobytes() for bench in benches}
        for bench in benches:
            results.add(_run(bench.device, x, **members, strides=(19 * 24, 1, 6 * 19, 19)).tobytes())
        assert len(results) == 1


@pytest.mark.parametrize("local_size", [1, 2, 4, 5])
def test_what_gpus_execute_gives_the_same_bits(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, local_size: int
) -> None:
    """Written out for eight channels instead of a loop, with elements of the slow path, for more channels and for
    few."""
    random = np.random.default_rng(13)
    inputs = [random.standard_normal((2, channels, 2, 6)).astype(np.float32) for channels in (19, 8, 3, 1)]
    for x in inputs:
        x[random.random(x.shape) < 0.1] = np.inf
        x[random.random(x.shape) < 0.1] = 1e-30
    members: dict[str, Any] = {"local_size": local_size, "beta": 0.75, "alpha": 1.0, "bias": 2.0}

    def results() -> set[bytes]:
        found = set()
        for bench in benches:
            with dml.Device(bench.device.info.index) as device:
                found.add(b"".join(_run(device, x, **members).tobytes() for x in inputs))
        return found

    expected = results()
    monkeypatch.setattr("dmlvk.runtime.shader_forms.on_processor", lambda module: module)
    assert results() == expected
    assert len(expected) == 1


def _desc(sizes: tuple[int, ...], data_type: dml.DataType = dml.FLOAT32, **members: Any) -> dml.OperatorDesc:
    tensor = dml.TensorDesc(data_type, sizes)
    return dml.LocalResponseNormalizationGrad(
        input_tensor=tensor, input_gradient_tensor=tensor, output_gradient_tensor=tensor, **members
    )


def _gradient_run(bench: Workbench, desc: dml.OperatorDesc, x: Array, gradients: Array) -> Array:
    return bench.device.run(desc, {"InputTensor": x, "InputGradientTensor": gradients})["OutputGradientTensor"]


@pytest.mark.parametrize("local_size", [3, 4])
@pytest.mark.parametrize("cross_channel", [True, False], ids=["channels", "planes"])
def test_gradients_are_the_differences_of_the_forward_operator(
    benches: list[Workbench], cross_channel: bool, local_size: int
) -> None:
    """Of an even LocalSize the neighbours lie to one side, and those that an element is a neighbour of to the other."""
    sizes = (1, 5, 2, 2) if cross_channel else (1, 1, 5, 4)
    members: dict[str, Any] = {"local_size": local_size, "alpha": 1.25, "beta": 0.75, "bias": 0.5}
    members["cross_channel"] = cross_channel
    tensor = dml.TensorDesc(dml.FLOAT32, sizes)
    forward = dml.LocalResponseNormalization(input_tensor=tensor, output_tensor=tensor, **members)
    random = np.random.default_rng(8)
    x = random.standard_normal(sizes).astype(np.float32)
    gradients = random.standard_normal(sizes).astype(np.float32)

    def loss(values: npt.NDArray[np.float64]) -> float:
        result = expected_outputs(forward, {"InputTensor": values})["OutputTensor"]
        assert isinstance(result, Bounded)
        return float(np.sum(gradients * result.values))

    expected = differences(loss, x, 2.0**-14)
    for bench in benches:
        got = _gradient_run(bench, _desc(sizes, **members), x, gradients)
        assert np.allclose(got, expected, rtol=1e-6, atol=1e-6), bench.device.info.name


def test_neighbours_may_be_more_than_the_turns_of_a_loop(benches: list[Workbench]) -> None:
    sizes = (1, 7000, 1, 1)
    size = 2 * sizes[1] + 1
    random = np.random.default_rng(10)
    x, gradients = (random.uniform(-4, 4, sizes).astype(np.float32) for _ in range(2))
    values, given = x.astype(np.float64), gradients.astype(np.float64)
    factor = 2.0 / size
    base = 1.0 + factor * np.sum(values**2)
    expected = given * base**-0.75 - 1.5 * factor * values * np.sum(given * values) * base**-1.75
    desc = _desc(sizes, cross_channel=True, local_size=size, alpha=2.0, beta=0.75, bias=1.0)
    results = [_gradient_run(bench, desc, x, gradients) for bench in benches]
    for got in results:
        assert np.allclose(got, expected, rtol=2.0**-19, atol=2.0**-20)
        assert got.tobytes() == results[0].tobytes()
