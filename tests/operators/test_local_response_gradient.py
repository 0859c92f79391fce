"""LOCAL_RESPONSE_NORMALIZATION_GRAD: held against differences of the forward operator, and against Caffe's formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import Bounded, expected_outputs
from tests.operators.differences import differences

Array = npt.NDArray[Any]


def _desc(sizes: tuple[int, ...], data_type: dml.DataType = dml.FLOAT32, **members: Any) -> dml.OperatorDesc:
    tensor = dml.TensorDesc(data_type, sizes)
    return dml.LocalResponseNormalizationGrad(
        input_tensor=tensor, input_gradient_tensor=tensor, output_gradient_tensor=tensor, **members
    )


def _run(bench: Workbench, desc: dml.OperatorDesc, x: Array, gradients: Array) -> Array:
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
        got = _run(bench, _desc(sizes, **members), x, gradients)
        assert np.allclose(got, expected, rtol=1e-6, atol=1e-6), bench.device.info.name


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=str)
def test_gradients_across_channels_are_those_of_caffe(benches: list[Workbench], data_type: dml.DataType) -> None:
    """Of outputs y and scales D: g / D^beta - 2 * alpha * beta / n * x * (sum of g * y / D), as lrn_layer has it."""
    sizes, size, alpha, beta = (2, 9, 3, 4), 5, 1e-2, 0.75
    random = np.random.default_rng(9)
    x, gradients = ((random.standard_normal(sizes) * 4).astype(data_type.numpy_dtype) for _ in range(2))

    def summed(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        padded = np.pad(values, ((0, 0), (2, 2), (0, 0), (0, 0)))
        sums: npt.NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(padded, size, 1).sum(-1)
        return sums

    values, given = x.astype(np.float64), gradients.astype(np.float64)
    scale = 1.0 + alpha / size * summed(values**2)
    of_outputs = given * (values * scale**-beta) / scale
    expected = given * scale**-beta - 2 * alpha * beta / size * values * summed(of_outputs)
    desc = _desc(sizes, data_type, cross_channel=True, local_size=size, alpha=alpha, beta=beta, bias=1.0)
    error = 2.0**-20 if data_type is dml.FLOAT32 else 2.0**-10
    for bench in benches:
        got = _run(bench, desc, x, gradients)
        assert np.allclose(got, expected, rtol=error, atol=error), bench.device.info.name


def test_large_elements_leave_nothing_of_their_neighbours_gradients(benches: list[Workbench]) -> None:
    """Where squares overflow, nothing is left; and no product of zero with infinity makes NaN."""
    desc = _desc((1, 4, 1, 1), cross_channel=True, local_size=3, alpha=1e9, beta=0.75, bias=1.0)
    x = np.array([1.0, 1.0, 1e31, -1.0], np.float32).reshape(1, 4, 1, 1)
    for bench in benches:
        got = _run(bench, desc, x, np.ones_like(x)).ravel()
        assert np.isfinite(got).all() and got[:2].all() and not got[2:].any(), bench.device.info.name


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
    results = [_run(bench, desc, x, gradients) for bench in benches]
    for got in results:
        assert np.allclose(got, expected, rtol=2.0**-19, atol=2.0**-20)
        assert got.tobytes() == results[0].tobytes()
