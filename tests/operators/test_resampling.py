"""Resampling: long axes, and ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.kernels.windows import resample as resample_kernels

NEAREST, LINEAR = dml.InterpolationMode.NEAREST_NEIGHBOR, dml.InterpolationMode.LINEAR


def _resample(source: tuple[int, ...], output: tuple[int, ...], **more: Any) -> dml.OperatorDesc:
    members: dict[str, Any] = {
        "input_tensor": dml.TensorDesc(dml.FLOAT32, source),
        "output_tensor": dml.TensorDesc(dml.FLOAT32, output),
        "interpolation_mode": NEAREST,
        "rounding_direction": dml.AxisDirection.DECREASING,
        "input_pixel_offsets": (0.5,) * len(source),
        "output_pixel_offsets": (-0.5,) * len(source),
        "scales": tuple(after / before for before, after in zip(source, output, strict=True)),
        **more,
    }
    return dml.Resample2(
        dimension_count=len(source),
        **members,
    )


def _run(bench: Workbench, desc: dml.OperatorDesc, values: npt.NDArray[Any]) -> list[Any]:
    result: list[Any] = bench.device.run(desc, {"InputTensor": values})["OutputTensor"].tolist()
    return result


def test_no_place_is_off_in_a_long_axis(benches: list[Workbench]) -> None:
    """What DirectML computes in float32 steps: the same steps in NumPy."""
    length, scale = 70001, np.float32(1.7)
    output = int(length * float(scale))
    positions = (np.arange(output, dtype=np.float32) + np.float32(0.5)) / scale - np.float32(0.5)
    expected = np.clip(np.floor(positions), 0, length - 1)
    desc = _resample((length,), (output,), scales=(float(scale),))
    for bench in benches:
        assert _run(bench, desc, np.arange(length, dtype=np.float32)) == expected.tolist()


@pytest.mark.parametrize("antialias", [0, 1])
def test_onnx_agrees(benches: list[Workbench], antialias: int) -> None:
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    helper = onnx.helper
    values = np.random.default_rng(7).standard_normal((1, 2, 12, 15)).astype(np.float32)
    scales = (1.0, 1.0, 0.25, 0.4) if antialias else (1.0, 1.0, 1.5, 0.8)
    output = tuple(int(np.floor(size * scale)) for size, scale in zip(values.shape, scales, strict=True))
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear", antialias=antialias)
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "resize",
        [tensor("x", onnx.TensorProto.FLOAT, values.shape), tensor("scales", onnx.TensorProto.FLOAT, [4])],
        [tensor("y", onnx.TensorProto.FLOAT, output)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (expected,) = reference.ReferenceEvaluator(model).run(None, {"x": values, "scales": np.array(scales, np.float32)})
    desc = dml.Resample3(
        input_tensor=dml.TensorDesc(dml.FLOAT32, values.shape),
        output_tensor=dml.TensorDesc(dml.FLOAT32, output),
        interpolation_mode=LINEAR,
        rounding_direction=dml.AxisDirection.DECREASING,
        dimension_count=4,
        scales=scales,
        input_pixel_offsets=(0.5,) * 4,
        output_pixel_offsets=(-0.5,) * 4,
        antialiased=bool(antialias),
    )
    for bench in benches:
        np.testing.assert_allclose(np.array(_run(bench, desc, values)), expected, rtol=0, atol=2e-6)


@pytest.mark.t_way(1)
@pytest.mark.combinations
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16, dml.INT8], ids=str)
@pytest.mark.parametrize(
    ("source", "output", "more"),
    [
        ((2, 3, 5, 6), (2, 3, 10, 12), {}),
        ((2, 4, 18, 10), (2, 4, 36, 20), {}),
        ((6, 3, 1, 2), (6, 3, 2, 4), {}),
        ((3, 2, 4, 8), (3, 2, 13, 20), {"scales": (1.0, 1.0, 2.0, 2.0)}),
        ((3, 2, 9, 8), (3, 2, 5, 12), {"scales": (1.0, 1.0, 2.0, 2.0)}),
        ((6, 4, 2), (6, 8, 4), {}),
        ((1, 2, 7, 4), (1, 2, 21, 16), {"input_pixel_offsets": (0.5, 0.5, 0.0, -1.25)}),
        ((3, 9, 3), (3, 23, 8), {"scales": (1.0, 2.5, 2.75), "output_pixel_offsets": (-0.5, 3.0, -0.25)}),
        ((1, 4, 5), (1, 64, 8), {"scales": (1.0, 2.0, 0.3), "output_pixel_offsets": (-0.5, 1e8, 0.0)}),
    ],
)
def test_rows_that_are_computed_at_once_have_the_same_bits(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    source: tuple[int, ...],
    output: tuple[int, ...],
    more: dict[str, Any],
    data_type: dml.DataType,
) -> None:
    """GPUs compute four rows of four elements at once, all devices eight where axes double; here each row alone."""
    tensors = {
        "input_tensor": dml.TensorDesc(data_type, source),
        "output_tensor": dml.TensorDesc(data_type, output),
    }
    desc = _resample(source, output, interpolation_mode=LINEAR, **tensors, **more)
    random = np.random.default_rng(5)
    x = (random.standard_normal(source) * 50).astype(data_type.numpy_dtype)
    specials = (0.0, 1e-12, 1e-39, np.inf, np.nan) if data_type.is_float else (-128, 127)
    for image, value in zip(x.reshape(-1, *source[-2:])[1:], specials, strict=False):
        with np.errstate(over="ignore"):
            image[random.random(image.shape) < 0.2] = np.array(value).astype(data_type.numpy_dtype)
    kernel = lower(desc, GPU).steps[0].kernel
    for bench in benches:
        device = bench.device
        at_once = device.compile_operator(device.create_operator(desc))
        with monkeypatch.context() as patch:
            patch.setattr(resample_kernels, "_LEAST_SCALE_OF_BLOCK", np.inf)
            assert lower(desc, GPU).steps[0].kernel != kernel
            row_by_row = device.compile_operator(device.create_operator(desc))
        got, expected = (device.run(each, {"InputTensor": x})["OutputTensor"] for each in (at_once, row_by_row))
        assert np.array_equal(got.view(np.uint8), expected.view(np.uint8)), device.info.name
