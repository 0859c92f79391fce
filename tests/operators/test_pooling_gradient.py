"""AVERAGE_POOLING_GRAD: the transposed map of AVERAGE_POOLING, the page's example, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench

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


def test_other_sizes_than_those_of_the_means_are_refused(device: dml.Device) -> None:
    members = {**_GEOMETRIES["apart"], "dimension_count": 2, "include_padding": False}

    def refusal(sizes: tuple[int, ...], **changed: Any) -> str:
        desc = dml.AveragePoolingGrad(
            input_gradient_tensor=dml.TensorDesc(dml.FLOAT32, sizes),
            output_gradient_tensor=dml.TensorDesc(dml.FLOAT32, (1, 1, 8, 9)),
            **{**members, **changed},
        )
        with pytest.raises(dml.InvalidArgumentError) as caught:
            device.create_operator(desc)
        return str(caught.value)

    assert "AVERAGE_POOLING_GRAD: InputGradientTensor.Sizes must be [1, 1, 4, 3]" in refusal((1, 1, 4, 4))
    one = {"strides": (2,), "window_size": (2,), "start_padding": (0,), "end_padding": (0,)}
    assert "must be 2, OutputGradientTensor's" in refusal((1, 1, 4, 3), dimension_count=1, **one)
    assert "WindowSize[0]" in refusal((1, 1, 4, 3), window_size=(9, 2))
