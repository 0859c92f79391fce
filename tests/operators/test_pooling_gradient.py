"""Gradients of pools: the transposed map of averages, and the elements that maxima's indices name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.registry import REFERENCES
from tests.operators.differences import differences

_GEOMETRIES: dict[str, dict[str, Any]] = {
    "apart": {"strides": (2, 3), "window_size": (2, 2), "start_padding": (0, 0), "end_padding": (0, 0)},
    "overlapping": {"strides": (1, 2), "window_size": (3, 4), "start_padding": (0, 0), "end_padding": (0, 0)},
    "padded": {"strides": (2, 1), "window_size": (3, 3), "start_padding": (1, 2), "end_padding": (2, 0)},
}


def run(bench: Workbench, desc: dml.OperatorDesc, **inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The only output."""
    (result,) = bench.device.run(desc, inputs).values()
    return result


@pytest.mark.parametrize("include_padding", [False, True])
@pytest.mark.parametrize("name", _GEOMETRIES)
def test_it_is_the_transposed_map_of_the_forward_operator(
    benches: list[Workbench], name: str, include_padding: bool
) -> None:
    """The product of g with the means of x is that of x with the gradient, for all g and x."""
    members = {**_GEOMETRIES[name], "dimension_count": 2, "include_padding": include_padding}
    geometry = _GEOMETRIES[name]
    sizes = (2, 3, 8, 9)
    pooled = tuple(
        (size + start + end - window) // stride + 1
        for size, start, end, window, stride in zip(
            sizes[2:],
            *(geometry[key] for key in ("start_padding", "end_padding", "window_size", "strides")),
            strict=True,
        )
    )
    source, means = dml.TensorDesc(dml.FLOAT32, sizes), dml.TensorDesc(dml.FLOAT32, (2, 3, *pooled))
    forward = dml.AveragePooling(input_tensor=source, output_tensor=means, **members)
    backward = dml.AveragePoolingGrad(input_gradient_tensor=means, output_gradient_tensor=source, **members)
    random = np.random.default_rng(5)
    x = random.standard_normal(sizes).astype(np.float32)
    g = random.standard_normal(means.sizes).astype(np.float32)
    for bench in benches:
        made = run(bench, forward, InputTensor=x).astype(np.float64)
        gradient = run(bench, backward, InputGradientTensor=g).astype(np.float64)
        magnitude = np.sum(np.abs(made * g)) + np.sum(np.abs(gradient * x))
        assert abs(np.sum(made * g) - np.sum(gradient * x)) <= 2.0**-22 * magnitude, bench.device.info.name


_MAXIMA: dict[str, Any] = {"dimension_count": 2, "strides": (1, 1), "window_size": (2, 2), "dilations": (1, 1)}


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=str)
@pytest.mark.parametrize("dilations", [(1, 1), (2, 3)], ids=str)
def test_gradients_go_to_the_elements_that_the_indices_of_maxima_name(
    benches: list[Workbench], dilations: tuple[int, int], data_type: dml.DataType
) -> None:
    """Equal maxima, both zeros, NaN among numbers and alone, infinities, and windows of nothing but padding."""
    sizes = (2, 2, 9, 11)
    members = {
        **_MAXIMA, "dilations": dilations, "window_size": (2, 3), "start_padding": (4, 7), "end_padding": (3, 0)
    }  # fmt: skip
    extents = [(window - 1) * apart for window, apart in zip((2, 3), dilations, strict=True)]
    windows = (2, 2, 9 + 7 - extents[0], 11 + 7 - extents[1])
    source, maxima = dml.TensorDesc(data_type, sizes), dml.TensorDesc(data_type, windows)
    forward = dml.MaxPooling2(
        input_tensor=source,
        output_tensor=maxima,
        output_indices_tensor=dml.TensorDesc(dml.UINT64, windows),
        **members,
    )
    desc = dml.MaxPoolingGrad(
        input_tensor=source, input_gradient_tensor=maxima, output_gradient_tensor=source, **members
    )
    random = np.random.default_rng(6)
    x = random.choice([0.0, -0.0, np.nan, -np.nan, -np.inf, -1.0, 1.0], sizes).astype(data_type.numpy_dtype)
    x[1, 1] = np.nan
    gradients = random.integers(-9, 10, windows).astype(data_type.numpy_dtype)  # whose sums are exact
    for bench in benches:
        indices = bench.device.run(forward, {"InputTensor": x})["OutputIndicesTensor"].ravel()
        is_inside = indices != np.iinfo(np.uint64).max
        assert not is_inside.all() and is_inside.any()
        expected = np.zeros(x.size, x.dtype)
        np.add.at(expected, indices[is_inside], gradients.ravel()[is_inside])
        got = run(bench, desc, InputTensor=x, InputGradientTensor=gradients)
        assert np.array_equal(got.ravel(), expected), bench.device.info.name


def test_gradients_of_maxima_are_the_differences_of_the_forward_operator(benches: list[Workbench]) -> None:
    """In float64, where no maximum is near to another element of its window."""
    sizes, windows = (1, 2, 5, 4, 6), (1, 2, 2, 3, 3)
    members: dict[str, Any] = {
        "dimension_count": 3, "strides": (2, 1, 2), "window_size": (3, 2, 2), "dilations": (2, 2, 3),
        "start_padding": (1, 0, 1), "end_padding": (1, 1, 1),
    }  # fmt: skip
    source, maxima = dml.TensorDesc(dml.FLOAT32, sizes), dml.TensorDesc(dml.FLOAT32, windows)
    forward = dml.MaxPooling2(input_tensor=source, output_tensor=maxima, output_indices_tensor=None, **members)
    desc = dml.MaxPoolingGrad(
        input_tensor=source, input_gradient_tensor=maxima, output_gradient_tensor=source, **members
    )
    random = np.random.default_rng(7)
    x = random.permutation(source.element_count).reshape(sizes).astype(np.float32)
    gradients = random.standard_normal(windows).astype(np.float32)

    def loss(values: npt.NDArray[np.float64]) -> float:
        maxima_of_values = REFERENCES[forward.operator_name](forward, {"InputTensor": values})["OutputTensor"]
        return float(np.sum(gradients * np.asarray(maxima_of_values)))  # of FLOAT64, as differences need

    expected = differences(loss, x)
    assert np.count_nonzero(expected) > 10
    for bench in benches:
        got = run(bench, desc, InputTensor=x, InputGradientTensor=gradients)
        assert np.allclose(got, expected, rtol=0, atol=1e-6), bench.device.info.name
