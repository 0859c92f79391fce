"""Resampling and its gradients, long loops that go in several launches, ONNX's and PyTorch's results."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.bounded import Bounded
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import PlainKernel
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.kernels.windows import resample as resample_kernels
from dmlvk.operators import OPERATORS
from dmlvk.operators.resampling import WeighedTaps
from tests.operators.differences import differences
from tests.targets import all_compute_as_gpus, check_bits, variants

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
    return dml.Resample2(dimension_count=len(source), **members)


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
    tensors = {"input_tensor": dml.TensorDesc(data_type, source), "output_tensor": dml.TensorDesc(data_type, output)}
    desc = _resample(source, output, interpolation_mode=LINEAR, **tensors, **more)
    random = np.random.default_rng(5)
    x = (random.standard_normal(source) * 50).astype(data_type.numpy_dtype)
    specials = (0.0, 1e-12, 1e-39, np.inf, np.nan) if data_type.is_float else (-128, 127)
    for image, value in zip(x.reshape(-1, *source[-2:])[1:], specials, strict=False):
        with np.errstate(over="ignore"):
            image[random.random(image.shape) < 0.2] = np.array(value).astype(data_type.numpy_dtype)
    kernel = lower(desc, GPU).steps[0].kernel
    assert isinstance(kernel, PlainKernel)
    assert [kernel.constants[f"SIZE_{axis}"] for axis in (2, 3, 4)] == [1, 1, 0]  # batches and channels are one axis
    for bench in benches:
        device = bench.device
        at_once = device.compile_operator(device.create_operator(desc))
        with monkeypatch.context() as patch:
            patch.setattr(resample_kernels, "_LEAST_SCALE_OF_BLOCK", np.inf)
            assert lower(desc, GPU).steps[0].kernel != kernel
            row_by_row = device.compile_operator(device.create_operator(desc))
        got, expected = (device.run(each, {"InputTensor": x})["OutputTensor"] for each in (at_once, row_by_row))
        assert np.array_equal(got.view(np.uint8), expected.view(np.uint8)), device.info.name


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


def _gradient_run(bench: Workbench, desc: dml.OperatorDesc, gradients: Array) -> Array:
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
        got = _gradient_run(bench, desc, gradients)
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
        assert np.allclose(_gradient_run(bench, desc, gradients), expected, rtol=error, atol=error), (
            bench.device.info.name
        )


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
            got = _gradient_run(bench, desc, gradients)[1, 1, 1, 1]
            assert abs(got / (2 * factor * 2.0**-80) - 1) < 2.0**-20, bench.device.info.name


def test_infinities_reach_elements_with_a_part_in_them_only(benches: list[Workbench]) -> None:
    desc = _desc((8,), (4,), None, interpolation_mode=dml.InterpolationMode.LINEAR, scales=(2.0,))
    gradients = np.array([1, 1, 1, np.inf, 1, -np.inf, np.nan, -0.0], np.float32)
    for bench in benches:
        got = _gradient_run(bench, desc, gradients)
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
            found |= {_gradient_run(bench, desc, gradients).tobytes() for bench in benches}
        assert len(found) == 1, sizes


_TYPES = [dml.FLOAT32, dml.FLOAT16]


@pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])
@pytest.mark.parametrize(("window", "sizes"), [((40_000,), (5,)), ((60, 71), (2, 3))], ids=["one axis", "two axes"])
def test_fold_adds_windows_of_many_places(
    benches: list[Workbench], window: Sequence[int], sizes: Sequence[int], data_type: DataType
) -> None:
    start = [size // 2 for size in window]
    end = [size - size // 2 for size in window]
    positions = math.prod(size + 1 for size in sizes)
    desc = dml.Fold(
        input_tensor=dml.TensorDesc(data_type, (1, math.prod(window), positions)),
        output_tensor=dml.TensorDesc(data_type, (1, 1, *sizes)),
        dimension_count=len(sizes),
        window_sizes=window,
        strides=[1] * len(sizes),
        dilations=[1] * len(sizes),
        start_padding=start,
        end_padding=end,
    )
    random = np.random.default_rng(3)
    values = random.standard_normal((1, math.prod(window), positions)).astype(data_type.numpy_dtype)
    values[0, -1, 0], values[0, 0, -1] = -0.0, 1e-7  # those that the last launch and the first one take
    check_bits(benches, desc, {"InputTensor": values})


@pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])
@pytest.mark.parametrize("name", ["AVERAGE_POOLING_GRAD", "MAX_POOLING_GRAD"])
def test_gradients_of_pools_add_those_of_many_windows(benches: list[Workbench], name: str, data_type: DataType) -> None:
    """40,000 places of a window lie over an element in as many positions."""
    positions, sizes = 40_000, (1, 1, 1, 3)
    windows = dml.TensorDesc(data_type, (1, 1, 1, positions + sizes[3]))
    of_maxima = {"input_tensor": dml.TensorDesc(data_type, sizes), "dilations": [1, 1]}
    kind: Any = OPERATORS[name]
    desc = kind(
        input_gradient_tensor=windows,
        output_gradient_tensor=dml.TensorDesc(data_type, sizes),
        dimension_count=2,
        strides=[1, 1],
        window_size=[1, positions],
        start_padding=[0, positions],
        end_padding=[0, positions - 1],
        **(of_maxima if name == "MAX_POOLING_GRAD" else {"include_padding": True}),
    )
    random = np.random.default_rng(3)
    gradients = (random.standard_normal(windows.sizes) + 0.25).astype(data_type.numpy_dtype)
    gradients[..., 0], gradients[..., 1], gradients[..., -1] = 1e-7, 1000.0, -0.0
    values = np.array([[[[1, 3, np.nan]]]], data_type.numpy_dtype)
    inputs = {"InputTensor": values} if name == "MAX_POOLING_GRAD" else {}
    check_bits(benches, desc, {**inputs, "InputGradientTensor": gradients})


@pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])
@pytest.mark.parametrize(
    ("sizes", "results"), [((50_000,), (1,)), ((300, 210), (2, 1)), ((40, 50, 60), (1, 2, 1))], ids=["1", "2", "3"]
)
def test_resample3_averages_many_elements(
    benches: list[Workbench], sizes: Sequence[int], results: Sequence[int], data_type: DataType
) -> None:
    rank = len(sizes)
    desc = dml.Resample3(
        input_tensor=dml.TensorDesc(data_type, (1,) * (4 - rank) + tuple(sizes)),
        output_tensor=dml.TensorDesc(data_type, (1,) * (4 - rank) + tuple(results)),
        interpolation_mode=dml.InterpolationMode.LINEAR,
        rounding_direction=dml.AxisDirection.INCREASING,
        dimension_count=4,
        scales=[1.0] * (4 - rank) + [result / size for result, size in zip(results, sizes, strict=True)],
        input_pixel_offsets=[0.5] * 4,
        output_pixel_offsets=[-0.5] * 4,
        antialiased=True,
    )
    values = np.random.default_rng(4).standard_normal(desc.input_tensor.sizes) + 3.0
    check_bits(benches, desc, {"InputTensor": values.astype(data_type.numpy_dtype)})


@pytest.mark.parametrize("data_type", _TYPES, ids=["float32", "float16"])
@pytest.mark.parametrize(("mode", "far"), [("LINEAR", 200), ("NEAREST_NEIGHBOR", 200), ("LINEAR", 30_000)], ids=str)
def test_gradients_of_resampling_add_those_of_many_elements(
    benches: list[Workbench], mode: str, far: int, data_type: DataType
) -> None:
    """Elements of the middle are repeated 200 times along two axes, those at the edges more often; or along one."""
    sizes, scales = ((2, 3), (far, far)) if far == 200 else ((1, 2), (1, far))
    resampled = [size * scale for size, scale in zip(sizes, scales, strict=True)]
    desc = dml.ResampleGrad1(
        input_gradient_tensor=dml.TensorDesc(data_type, resampled),
        output_gradient_tensor=dml.TensorDesc(data_type, sizes),
        interpolation_mode=dml.InterpolationMode[mode],
        rounding_direction=dml.AxisDirection.DECREASING,
        dimension_count=2,
        scales=[float(scale) for scale in scales],
        input_pixel_offsets=[0.5 if mode == "LINEAR" else 0.0] * 2,
        output_pixel_offsets=[-0.5 if mode == "LINEAR" else 0.0] * 2,
    )
    random = np.random.default_rng(5)
    values = (random.standard_normal(resampled) + 0.125).astype(data_type.numpy_dtype)
    if data_type is dml.FLOAT32:  # beyond what is added as it is
        values[-1, -1], values[0, 0] = 1e30, 1e-37
    check_bits(benches, desc, {"InputGradientTensor": values})


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=str)
@pytest.mark.parametrize("group", [1, 3, 4])
def test_weighed_taps_have_the_bits_of_products_and_sums(
    benches: list[Workbench], data_type: dml.DataType, group: int
) -> None:
    """Of elements of all magnitudes, infinities and NaN, one group of products after the other."""
    random = np.random.default_rng(7)
    bits = np.uint16 if data_type is dml.FLOAT16 else np.uint32
    x = random.integers(0, np.iinfo(bits).max, (3, 5, 7), bits, True).view(data_type.numpy_dtype)
    index, weight = random.integers(0, 5, (6, 4)).astype(np.uint32), random.normal(0, 1, (6, 4)).astype(np.float32)
    desc = WeighedTaps(
        input_tensor=dml.TensorDesc(data_type, x.shape),
        index_tensor=dml.TensorDesc(dml.UINT32, index.shape),
        weight_tensor=dml.TensorDesc(dml.FLOAT32, weight.shape),
        output_tensor=dml.TensorDesc(dml.FLOAT32, (3, 6, 7)),
        group=group,
    )
    for bench in benches:
        made = bench.device.run(desc, {"InputTensor": x, "IndexTensor": index, "WeightTensor": weight})["OutputTensor"]
        graph = dml.Graph(bench.device)
        taken = x[:, index].astype(np.float32)
        terms = graph.input("x", dml.FLOAT32, taken.shape) * graph.constant(
            np.broadcast_to(weight[..., None], taken.shape[1:])[None]
        )
        parts = [
            F.reduce(terms[:, :, first : first + group], dml.ReduceFunction.SUM, axes=[2])
            for first in range(0, 4, group)
        ]
        total = functools.reduce(operator.add, parts)
        (expected,) = bench.device.run(graph.compile({"y": total}), {"x": taken}).values()
        assert made.tobytes() == expected.tobytes(), bench.device.info.name
