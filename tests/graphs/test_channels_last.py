"""Convolutions whose channels lie last, by matrices that subgroups hold together, and graphs that choose this layout.

No processor here has such matrices: the kernels run with what imitates them, as in test_cooperative_floats.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.references.bounded import fault
from dmlvk.conformance.references.device_arithmetic import outputs_within_error
from dmlvk.conformance.samples.products import convolution_desc
from dmlvk.graphs import channels_last as layouts
from dmlvk.kernels.products import channel_copies, matrix_choice
from dmlvk.kernels.products.matrix_tiles import OF_CHANNELS, matrix_variants
from dmlvk.kernels.target import Target
from dmlvk.spirv.cooperative_types import CHANNELS_SOURCE, FLOATS_SOURCE
from tests.cooperative_modules import ABLE, imitate_matrices
from tests.operators.test_products import convolution_inputs

VARIANTS = {variant.name: variant for variant in matrix_variants() if variant.source == CHANNELS_SOURCE}
_ALLOWED = dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC


@pytest.fixture
def able(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> dml.Device:
    """A device that has such matrices, or what imitates them."""
    if Target.of(device.info).is_naive:
        pytest.skip("SwiftShader compiles these kernels for a minute")
    imitate_matrices(monkeypatch, VARIANTS)
    monkeypatch.setattr(
        dml.Device, "target", property(lambda _: dataclasses.replace(ABLE, shared_memory=32768, buffers=32))
    )
    return device


@pytest.mark.parametrize(
    ("sizes", "window", "options"),
    [
        ((2, 32, 9, 11), (72, 32, 3, 3), {"start": (1, 1), "end": (1, 1), "bias": True}),
        pytest.param((3, 40, 8, 10), (56, 40, 1, 1), {"bias": True}, marks=pytest.mark.sweep),
        pytest.param((2, 128, 6, 5), (24, 128, 3, 3), {"bias": False}, marks=pytest.mark.sweep),
        # Whole steps of a place's channels, some of which pad the picture.
        ((2, 64, 7, 9), (40, 64, 3, 3), {"start": (1, 2), "end": (1, 1), "strides": (2, 1), "bias": True}),
        ((2, 48, 9, 11), (32, 24, 3, 3), {"start": (1, 1), "end": (1, 1), "groups": 2, "bias": True}),
        pytest.param((2, 64, 7, 9), (40, 64, 1, 1), {"strides": (2, 2), "bias": True}, marks=pytest.mark.sweep),
        pytest.param(
            (2, 24, 8, 9),
            (24, 32, 3, 3),
            {"direction": dml.ConvolutionDirection.BACKWARD, "strides": (2, 2), "bias": False},
            marks=pytest.mark.sweep,
        ),
        pytest.param(
            (2, 24, 5, 6),
            (24, 40, 4, 2),
            {"direction": dml.ConvolutionDirection.BACKWARD, "strides": (2, 2), "start": (1, 0), "bias": True},
            marks=pytest.mark.sweep,
        ),
    ],
    ids=["3x3", "1x1", "segments", "whole steps", "groups", "whole steps of 1x1", "backward", "backward in parts"],
)
def test_results_are_within_the_stated_error(
    able: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    window: tuple[int, ...],
    options: dict[str, Any],
) -> None:
    """Padding, which an infinite weight does not meet, edges that no tile divides, two segments."""
    monkeypatch.setattr(channel_copies, "_gains", lambda *_: True)
    random = np.random.default_rng(1)
    packed = convolution_desc(dml.FLOAT16, sizes, window, **options)
    desc = dataclasses.replace(
        packed,
        input_tensor=layouts.channels_last(packed.input_tensor),
        output_tensor=layouts.channels_last(packed.output_tensor),
    )
    inputs = convolution_inputs(desc, random)
    compiled = able.compile_operator(able.create_operator(desc), _ALLOWED)
    assert any(step.kernel.variant in VARIANTS for step in compiled.steps)
    made = able.run(compiled, inputs)["OutputTensor"]
    assert fault("CONVOLUTION", made, outputs_within_error(desc, inputs)["OutputTensor"]) is None
    assert np.isinf(made).any()


_BACKWARD = {"direction": dml.ConvolutionDirection.BACKWARD, "bias": True}


@pytest.mark.parametrize(
    ("sizes", "window", "options"),
    [
        ((2, 5, 9, 11), (3, 5, 3, 3), {"start": (1, 1), "end": (1, 1), "bias": True}),
        ((1, 16, 9, 10), (32, 8, 3, 3), {"start": (1, 1), "groups": 2, "bias": True}),
        ((2, 11, 5, 6), (11, 5, 4, 4), {**_BACKWARD, "strides": (2, 2), "start": (1, 1), "end": (1, 1)}),
        pytest.param((1, 9, 4, 5), (9, 5, 6, 2), {**_BACKWARD, "strides": (3, 2)}, marks=pytest.mark.sweep),
        pytest.param((1, 9, 4, 5), (9, 5, 3, 3), _BACKWARD, marks=pytest.mark.sweep),
        pytest.param((1, 11, 3, 5, 4), (13, 11, 3, 3, 3), {"start": (1, 0, 1), "bias": False}, marks=pytest.mark.sweep),
        pytest.param((2, 3, 16, 20), (20, 3, 4, 4), {"strides": (4, 4), "bias": True}, marks=pytest.mark.sweep),
    ],
    ids=["few channels", "groups", "transposed", "unequal steps", "backward", "3d", "patches"],
)
def test_channels_that_fill_no_eights_are_copied_into_some(
    able: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    window: tuple[int, ...],
    options: dict[str, Any],
) -> None:
    """With padding, which an infinite weight does not meet, and steps of a transposed one, each by itself."""
    monkeypatch.setattr(channel_copies, "_gains", lambda *_: True)
    ready = tuple(dataclasses.replace(tile, fewest_groups=1) for tile in OF_CHANNELS)
    monkeypatch.setattr(matrix_choice, "OF_CHANNELS", ready)  # that of few channels, too
    random = np.random.default_rng(3)
    desc = convolution_desc(dml.FLOAT16, sizes, window, **options)
    inputs = convolution_inputs(desc, random)
    compiled = able.compile_operator(able.create_operator(desc), _ALLOWED)
    parts = [step for step in compiled.steps if step.kernel.variant in VARIANTS]
    is_cut = options.get("direction") is dml.ConvolutionDirection.BACKWARD
    assert len(parts) == (np.prod(options.get("strides", (1,))) if is_cut else 1)
    made = able.run(compiled, inputs)["OutputTensor"]
    assert fault("CONVOLUTION", made, outputs_within_error(desc, inputs)["OutputTensor"]) is None
    assert np.isinf(made).any()


def _block(graph: dml.Graph, random: np.random.Generator, *, strides: tuple[int, ...] | None) -> dml.Expression:
    """A convolution, BATCH_NORMALIZATION, a sum and RELU, in one layout."""
    size, channels = (2, 24, 5, 6), (1, 24, 1, 1)
    names = ("mean", "variance", "scale", "shift")
    x = graph.input("x", dml.FLOAT16, size, strides)
    weights = graph.constant(random.normal(0, 0.1, (24, 24, 3, 3)).astype(np.float16))
    more: dict[str, Any] = {} if strides is None else {"output_strides": strides}
    y = F.convolution(x, weights, start_padding=(1, 1), end_padding=(1, 1), **more)
    mean, variance, scale, shift = (graph.input(name, dml.FLOAT16, channels) for name in names)
    y = F.batch_normalization(y, mean, variance, scale, shift, True, 1e-3, **more)
    y = F.add(y, graph.input("other", dml.FLOAT16, size, strides), **more)
    result: dml.Expression = F.activation_relu(y, **more)
    return result


def _arrays() -> dict[str, Any]:
    random = np.random.default_rng(2)
    arrays = {name: random.normal(size=(1, 24, 1, 1)) for name in ("mean", "variance", "scale", "shift")}
    arrays |= {name: random.normal(size=(2, 24, 5, 6)) for name in ("x", "other")}
    arrays["variance"] = abs(arrays["variance"])
    arrays["variance"].flat[:3] = 0, np.inf, -1
    arrays["scale"].flat[3] = arrays["mean"].flat[5] = arrays["shift"].flat[5] = 0
    arrays["other"].flat[:7] = np.inf, -np.inf, np.nan, -0.0, 6e-8, -6e-8, 65504
    arrays["x"][0, :, 1, 1] = 0
    arrays["x"][1, :, 2, 2] = np.inf
    return {name: array.astype(np.float16) for name, array in arrays.items()}


def test_what_follows_has_the_bits_of_the_operators(able: dml.Device) -> None:
    """Rare operands among them: infinities, NaN, zeros of both signs, denormals."""
    graph = dml.Graph(able)
    y = _block(graph, np.random.default_rng(1), strides=(720, 1, 144, 24))
    fused, single = (graph.compile({"y": y}, flags=_ALLOWED, fuse=fuse) for fuse in (True, False))
    (variant,) = (step.kernel.variant for step in fused.steps if step.kernel.variant in VARIANTS)
    assert variant.endswith(".epilogue")
    results = [able.run(each, _arrays())["y"] for each in (fused, single)]
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("groups", [1, 24], ids=["dense", "depthwise"])
def test_swish_behind_a_convolution_is_the_devices(able: dml.Device, groups: int) -> None:
    """Within a place of FLOAT16 of the operator's, and with its infinities, NaN and zeros."""
    graph, random = dml.Graph(able), np.random.default_rng(1)
    more: dict[str, Any] = {"output_strides": (720, 1, 144, 24)}
    x, other = (graph.input(name, dml.FLOAT16, (2, 24, 5, 6), more["output_strides"]) for name in ("x", "other"))
    weights = graph.constant(random.normal(0, 1, (24, 24 // groups, 3, 3)).astype(np.float16))
    y = F.convolution(x, weights, start_padding=(1, 1), end_padding=(1, 1), group_count=groups, **more)
    y = F.activation_swish(F.add(y, other, **more), 1.0, **more)
    fused, single = (graph.compile({"y": y}, flags=_ALLOWED, fuse=fuse) for fuse in (True, False))
    assert len(fused.stages) == 1
    arrays = {name: array for name, array in _arrays().items() if name in ("x", "other")}
    made, expected = (able.run(each, arrays)["y"] for each in (fused, single))
    assert np.array_equal(np.isnan(made), np.isnan(expected)) and np.isinf(expected).any()
    there = np.isfinite(expected)
    assert np.array_equal(made[~there & ~np.isnan(made)], expected[~there & ~np.isnan(made)])
    with np.errstate(over="ignore"):
        places = np.spacing(np.abs(expected[there])).astype(np.float32)
    assert np.all(np.abs(made[there].astype(np.float32) - expected[there].astype(np.float32)) <= places)


def test_a_graph_copies_its_ends_alone(able: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two convolutions: what is between them is not copied, and filters are only once."""
    monkeypatch.setattr(layouts, "_COST", 0.0)
    monkeypatch.setattr(layouts, "_COST_OF_LAUNCH", 0.0)
    graph, random = dml.Graph(able), np.random.default_rng(3)
    x = graph.input("x", dml.FLOAT16, (4, 24, 8, 8))
    first, second = (graph.constant(random.normal(0, 0.1, (24, 24, 3, 3)).astype(np.float16)) for _ in range(2))
    y = F.activation_relu(F.convolution(x, first))
    y = F.convolution(F.max_pooling(y, (2, 2)), second)
    arrays = {"x": random.normal(size=(4, 24, 8, 8)).astype(np.float16)}
    compiled = graph.compile({"y": y}, flags=_ALLOWED)
    assert [stage.nodes[0].desc.operator_name for stage in compiled.stages] == [
        "ELEMENT_WISE_IDENTITY",
        "CONVOLUTION",
        "MAX_POOLING",
        "CONVOLUTION",
        "ELEMENT_WISE_IDENTITY",
    ]
    assert len(compiled.stages_once) == 2
    expected = able.run(graph.compile({"y": y}), arrays)["y"]
    assert np.allclose(able.run(compiled, arrays)["y"], expected, rtol=2e-3, atol=2e-3)


def test_layers_read_channels_where_they_lie(able: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of ConvNeXt's: a depthwise convolution, a normalization of its channels, a product whose columns are
    scaled when they come back as an image, and a pool over a whole picture."""
    imitate_matrices(monkeypatch, {each.name: each for each in matrix_variants() if each.source == FLOATS_SOURCE})
    monkeypatch.setattr(layouts, "_COST", 0.0)
    monkeypatch.setattr(layouts, "_COST_OF_LAUNCH", 0.0)
    graph, random = dml.Graph(able), np.random.default_rng(3)

    def constant(*sizes: int) -> dml.Expression:
        return graph.constant(random.normal(0, 0.3, sizes).astype(np.float16))

    x = F.convolution(graph.input("x", dml.FLOAT16, (2, 24, 8, 8)), constant(24, 24, 1, 1))
    y = F.convolution(x, constant(24, 1, 3, 3), start_padding=(1, 1), end_padding=(1, 1), group_count=24)
    y = F.mean_variance_normalization2(y.transpose(0, 2, 3, 1), [3], True, True, 1e-6)
    y = (y.reshape(1, 1, 128, 24) @ constant(1, 1, 24, 24)).reshape(2, 8, 8, 24) + constant(1, 1, 1, 24)
    y = constant(1, 24, 1, 1) * y.transpose(0, 3, 1, 2) + x
    outputs = {"y": F.average_pooling1(y, (8, 8), include_padding=False), "z": F.convolution(y, constant(24, 24, 1, 1))}
    arrays = {"x": random.normal(size=(2, 24, 8, 8)).astype(np.float16)}
    compiled = graph.compile(outputs, flags=_ALLOWED)
    assert [stage.nodes[0].desc.operator_name for stage in compiled.stages] == [
        "ELEMENT_WISE_IDENTITY",
        "CONVOLUTION",
        "CONVOLUTION",
        "MEAN_VARIANCE_NORMALIZATION2",
        "GEMM",
        "AVERAGE_POOLING1",
        "CONVOLUTION",
        "ELEMENT_WISE_IDENTITY",
    ]
    expected = able.run(graph.compile(outputs), arrays)
    for name, result in able.run(compiled, arrays).items():
        assert np.allclose(result, expected[name], rtol=4e-3, atol=4e-3), name


def test_a_depthwise_convolution_alone_keeps_channels_last(able: dml.Device) -> None:
    """Of an image whose channels lie last, and a sum that is wanted so: nothing is copied but its filter."""
    graph, random = dml.Graph(able), np.random.default_rng(3)
    x = graph.input("x", dml.FLOAT16, (2, 8, 8, 24)).transpose(0, 3, 1, 2)
    window = graph.constant(random.normal(0, 0.3, (24, 1, 3, 3)).astype(np.float16))
    y = F.convolution(x, window, start_padding=(1, 1), end_padding=(1, 1), group_count=24)
    outputs = {"y": F.activation_relu(y + x).transpose(0, 2, 3, 1)}
    arrays = {"x": random.normal(size=(2, 8, 8, 24)).astype(np.float16)}
    compiled = graph.compile(outputs, flags=_ALLOWED)
    read = [node.desc.operator_name for stage in compiled.stages for node in stage.nodes]
    assert read == ["CONVOLUTION", "ELEMENT_WISE_ADD", "ACTIVATION_RELU"]
    expected = able.run(graph.compile(outputs), arrays)["y"]
    assert np.allclose(able.run(compiled, arrays)["y"], expected, rtol=4e-3, atol=4e-3)


def test_patches_are_written_with_their_channels_last(able: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first layers of ConvNeXt and Swin: three channels in windows beside one another, whose results are normalized
    by their channels."""
    imitate_matrices(monkeypatch, {each.name: each for each in matrix_variants() if each.source == FLOATS_SOURCE})
    graph, random = dml.Graph(able), np.random.default_rng(3)
    weights, bias = (
        graph.constant(random.normal(0, 0.3, sizes).astype(np.float16)) for sizes in ((24, 3, 4, 4), (1, 24, 1, 1))
    )
    x = F.convolution(graph.input("x", dml.FLOAT16, (2, 3, 32, 32)), weights, bias, strides=(4, 4))
    y = F.mean_variance_normalization2(x.transpose(0, 2, 3, 1), [3], True, True, 1e-6)
    arrays = {"x": random.normal(size=(2, 3, 32, 32)).astype(np.float16)}
    compiled = graph.compile({"y": y}, flags=_ALLOWED)
    _, normalization = compiled.stages
    ((_, read), *_) = [(member, tensor) for member, tensor in normalization.nodes[0].desc.inputs if tensor is not None]
    assert read.element_strides[-1] == 1
    assert len(normalization.program.steps) == 1
    expected = able.run(graph.compile({"y": y}), arrays)["y"]
    assert np.allclose(able.run(compiled, arrays)["y"], expected, rtol=4e-3, atol=4e-3)
    alone = graph.compile({"x": x}, flags=_ALLOWED)  # whom nobody reads so
    assert len(alone.stages) == 1


def test_copies_that_cost_more_than_is_gained_are_not_made(able: dml.Device) -> None:
    graph = dml.Graph(able)
    y = _block(graph, np.random.default_rng(1), strides=None)
    compiled = graph.compile({"y": y}, flags=_ALLOWED)
    assert not any(step.kernel.variant in VARIANTS for step in compiled.steps)
