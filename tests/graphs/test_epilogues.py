"""What follows a product in a graph is computed by the product's own kernels, and nobody sees it in the results."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.pictures import graph_as_dot, graph_as_svg
from dmlvk.kernels.products import matrix
from dmlvk.kernels.products.matrix_choice import Choice, Work
from dmlvk.kernels.products.matrix_tile import ONE_SEGMENT, PARALLEL, SEGMENT, SEQUENTIAL, MatrixTile
from dmlvk.kernels.products.matrix_tiles import LARGE, MEDIUM, SINGLE, TALL, WINDOWS
from dmlvk.kernels.target import Target
from tests.targets import all_compute_as_gpus, computes_as_gpu

E = dml.Expression
Array = npt.NDArray[Any]
RELU = dml.FusedActivation(dml.ActivationRelu)
TANH = dml.FusedActivation(dml.ActivationTanh)
OPERANDS = ("mean", "variance", "scale", "shift")

pytestmark = pytest.mark.every_driver  # one driver skips most of them


@pytest.fixture
def gpu(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> dml.Device:
    """A device that is given a GPU's kernels, and compiles them quickly."""
    computes_as_gpu(monkeypatch, device)
    return device


class Net:
    """A graph of a convolution and what follows it.

    Args:
        places: height and width of images.
        window: height and width of the filter, an odd number.
    """

    def __init__(
        self,
        device: dml.Device,
        data_type: DataType,
        channels: tuple[int, int, int] = (6, 10, 2),
        spatial: tuple[int, int] = (5, 7),
        window: int = 3,
    ) -> None:
        inputs, outputs, groups = channels
        self.device = device
        self.graph = dml.Graph(device)
        self.padding = (window // 2,) * 2
        self.sizes = {"x": (3, inputs, *spatial), "filter": (outputs, inputs // groups, window, window)}
        self.sizes |= dict.fromkeys(("bias", *OPERANDS), (1, outputs, 1, 1)) | {"other": (3, outputs, *spatial)}
        self.data_type, self.groups = data_type, groups
        self.values: dict[str, E] = {}

    def __getitem__(self, name: str) -> E:
        if name not in self.values:
            self.values[name] = self.graph.input(name, self.data_type, self.sizes[name])
        return self.values[name]

    def convolution(self, **more: Any) -> E:
        return F.convolution(
            self["x"],
            self["filter"],
            start_padding=self.padding,
            end_padding=self.padding,
            group_count=self.groups,
            **more,
        )

    def normalized(self, x: E, fused: dml.FusedActivation | None = None) -> E:
        mean, variance, scale, shift = (self[name] for name in OPERANDS)
        return F.batch_normalization(x, mean, variance, scale, shift, True, 1e-3, fused_activation=fused)

    def arrays(self, seed: int = 0) -> dict[str, Array]:
        """Numbers for the inputs; among them what rounding, flushing and comparing treat in their own ways."""
        random = np.random.default_rng(seed)
        made = {name: random.normal(0, 1, self.sizes[name]).astype(np.float32) for name in sorted(self.values)}
        if "variance" in made:
            made["variance"] = abs(made["variance"])
            made["variance"].flat[:3] = [0.0, np.inf, -1.0]
            made["shift"].flat[3:5] = [0.0, 3e-39]
            made["scale"].flat[5] = 1e-38
        if "other" in made:
            made["other"].flat[:7] = [np.inf, -np.inf, np.nan, -0.0, 1e-39, -1e-39, 65504]
        made["x"][2, :, -1, -1] = np.inf
        made["x"][2, :, 0, 0] = 1e-30
        with np.errstate(over="ignore"):
            return {name: array.astype(self.data_type.numpy_dtype) for name, array in made.items()}

    def check(self, output: E, stages: int) -> dml.CompiledGraph:
        """Compares the bits with those of the operators one by one, and counts the stages."""
        compiled, single = (self.graph.compile({"y": output}, fuse=fuse) for fuse in (True, False))
        assert len(compiled.stages) + len(compiled.stages_once) == stages
        arrays = self.arrays()
        expected = self.device.run(single, arrays)["y"]
        assert np.isfinite(expected).mean() > 0.5
        assert self.device.run(compiled, arrays)["y"].tobytes() == expected.tobytes()
        return compiled


EPILOGUES: dict[str, tuple[Callable[[Net], E], int]] = {
    "normalized": (lambda net: net.normalized(net.convolution()), 2),
    "normalized, RELU fused": (lambda net: net.normalized(net.convolution(), RELU), 2),
    "normalized, RELU": (lambda net: F.activation_relu(net.normalized(net.convolution())), 2),
    "bias, normalized, sum, RELU fused": (
        lambda net: F.add1(net.normalized(net.convolution(bias=net["bias"])), net["other"], fused_activation=RELU),
        2,
    ),
    "sum on the other side": (lambda net: net["other"] + net.normalized(net.convolution()), 2),
    "sum, RELU": (lambda net: F.activation_relu(net.convolution() + net["other"]), 1),
    "RELU": (lambda net: F.activation_relu(net.convolution(bias=net["bias"])), 1),
}


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize("name", EPILOGUES)
def test_what_follows_a_convolution(gpu: dml.Device, name: str, data_type: DataType) -> None:
    build, stages = EPILOGUES[name]
    net = Net(gpu, data_type)
    net.check(build(net), stages)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize(
    ("tile", "come", "channels"),
    [
        (SINGLE[0], ONE_SEGMENT, (6, 10, 2)),
        (MEDIUM, PARALLEL, (120, 9, 1)),
        (LARGE, SEQUENTIAL, (120, 70, 1)),
        (WINDOWS, ONE_SEGMENT, (6, 12, 6)),
    ],
    ids=["single", "side by side", "in turn", "windows"],
)
def test_every_kind_of_kernel_has_epilogues(
    gpu: dml.Device,
    tile: MatrixTile,
    come: int,
    channels: tuple[int, int, int],
    data_type: DataType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(work: Work, target: Target) -> Choice:
        assert (work.terms > SEGMENT) == (come != ONE_SEGMENT)
        return Choice(tile, come)

    monkeypatch.setattr(matrix, "choose", chosen)
    net = Net(gpu, data_type, channels)
    net.check(F.add1(net.normalized(net.convolution()), net["other"], fused_activation=RELU), 2)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize(
    ("tile", "come", "channels", "window"),
    [
        (MEDIUM, ONE_SEGMENT, (6, 10, 2), 1),
        (MEDIUM, PARALLEL, (1030, 9, 1), 1),
        (LARGE, SEQUENTIAL, (1030, 70, 1), 1),
        (TALL, ONE_SEGMENT, (5, 9, 1), 3),
        (TALL, SEQUENTIAL, (120, 9, 1), 3),
    ],
    ids=["of a place", "of a place, side by side", "of a place, in turn", "of nine places", "of nine places, in turn"],
)
def test_epilogues_of_results_that_are_stored_by_fours(
    gpu: dml.Device,
    tile: MatrixTile,
    come: int,
    channels: tuple[int, int, int],
    window: int,
    data_type: DataType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Images of 24 places are whole fours, and windows of one place are loaded by fours, too."""
    monkeypatch.setattr(matrix, "choose", lambda work, target: Choice(tile, come))
    net = Net(gpu, data_type, channels, (4, 6), window)
    net.check(F.add1(net.normalized(net.convolution(bias=net["bias"])), net["other"], fused_activation=RELU), 2)


def test_of_two_branches_the_later_one_takes_the_sum(gpu: dml.Device) -> None:
    net = Net(gpu, dml.FLOAT32, (10, 10, 1))
    first = net.normalized(net.convolution())
    second = net.normalized(net.convolution(bias=net["bias"]), RELU)
    compiled = net.check(F.add1(first, second, fused_activation=RELU), 4)
    assert [len(stage.nodes) for stage in compiled.stages] == [1, 2, 1, 3]


def _twice_read(net: Net) -> E:
    result = net.convolution()
    return net.normalized(result) + result


REFUSED: dict[str, tuple[Callable[[Net], E], list[int]]] = {
    "what is read twice": (_twice_read, [1, 1, 1]),
    "another activation of the convolution": (
        lambda net: net.normalized(net.convolution(fused_activation=TANH)),
        [1, 1],
    ),
    "another activation behind": (lambda net: net.normalized(net.convolution(), TANH), [1, 1]),
    "something behind RELU": (lambda net: net.normalized(F.activation_relu(net.convolution()), RELU), [2, 1]),
    "another layout": (lambda net: net.convolution(output_strides=(350, 1, 70, 10)) + net["other"], [1, 1]),
    "the convolution as an operand": (
        lambda net: F.batch_normalization(
            net["other"], net.convolution(), net["other"], net["other"], net["other"], True, 1e-3
        ),
        [1, 1],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_tail_can_be(gpu: dml.Device, name: str) -> None:
    build, expected = REFUSED[name]
    net = Net(gpu, dml.FLOAT32)
    compiled = net.graph.compile({"y": build(net)})
    assert [len(stage.nodes) for stage in compiled.stages] == expected


def _random_branches(device: dml.Device, seed: int) -> tuple[dml.Graph, E, dict[str, Array]]:
    """Convolutions, normalizations, sums and RELU over one another; whatever nobody reads is added up at the end."""
    choose, random = Random(seed), np.random.default_rng(seed)
    graph, sizes = dml.Graph(device), (2, 8, 4, 4)
    values = [graph.input(name, dml.FLOAT32, sizes) for name in ("a", "b")]
    arrays: dict[str, Array] = {name: random.normal(0, 1, sizes).astype(np.float32) for name in ("a", "b")}
    read: set[int] = set()

    def any_value() -> E:
        found = values[-1] if choose.random() < 0.6 else choose.choice(values)
        read.add(id(found))
        return found

    def weight(*sizes: int) -> E:
        array = random.uniform(0.1, 1, sizes).astype(np.float32)
        if choose.random() < 0.5:
            return graph.constant(array)
        arrays[f"w{len(arrays)}"] = array
        return graph.input(f"w{len(arrays) - 1}", dml.FLOAT32, sizes)

    def normalized() -> E:
        mean, variance, scale, shift = (weight(1, 8, 1, 1) for _ in OPERANDS)
        fused = choose.choice([None, RELU])
        return F.batch_normalization(any_value(), mean, variance, scale, shift, True, 1e-3, fused_activation=fused)

    makers: list[Callable[[], E]] = [
        lambda: F.convolution(any_value(), weight(8, 8, 1, 1) - 0.5),
        normalized,
        lambda: any_value() + any_value(),
        lambda: F.add1(any_value(), any_value(), fused_activation=RELU),
        lambda: F.activation_relu(any_value()),
    ]
    for _ in range(choose.randint(6, 14)):
        values.append(choose.choices(makers, [4, 3, 2, 1, 1])[0]())
    total = values[-1]
    for value in values[:-1]:
        total = total if id(value) in read else total + value
    return graph, total, arrays


def test_branches_at_random(gpu: dml.Device) -> None:
    epilogues = 0
    for seed in range(12):
        graph, output, arrays = _random_branches(gpu, seed)
        compiled, single = (graph.compile({"y": output}, fuse=fuse) for fuse in (True, False))
        products = [stage for stage in compiled.stages if isinstance(stage.nodes[0].desc, dml.Convolution)]
        epilogues += sum(len(stage.nodes) > 1 for stage in products)
        assert gpu.run(compiled, arrays)["y"].tobytes() == gpu.run(single, arrays)["y"].tobytes(), seed
    assert epilogues > 10


def test_a_result_that_the_graph_shows_is_written(gpu: dml.Device) -> None:
    net = Net(gpu, dml.FLOAT32)
    result = net.convolution()
    compiled = net.graph.compile({"result": result, "y": F.activation_relu(result)})
    assert [len(stage.nodes) for stage in compiled.stages] == [1, 1]


def test_devices_with_few_bindings_have_no_epilogues(gpu: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dml.Device, "target", Target())
    net = Net(gpu, dml.FLOAT32)
    compiled = net.graph.compile({"y": net.normalized(net.convolution(), RELU)})
    assert [len(stage.nodes) for stage in compiled.stages] == [1, 1]


def test_relu_behind_products_on_every_device(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    net = Net(device, dml.FLOAT32)
    net.check(F.activation_relu(net.convolution()), 1)

    graph = dml.Graph(device)
    a, b = graph.input("a", dml.FLOAT32, (5, 4)), graph.input("b", dml.FLOAT32, (4, 3))
    compiled = graph.compile({"y": F.activation_relu(F.gemm(a, b))})
    assert [len(stage.nodes) for stage in compiled.stages] == [2]
    random = np.random.default_rng(1)
    arrays = {"a": random.integers(-9, 9, (5, 4)).astype("f4"), "b": random.integers(-9, 9, (4, 3)).astype("f4")}
    assert (device.run(compiled, arrays)["y"] == np.maximum(arrays["a"] @ arrays["b"], 0)).all()


@pytest.mark.parametrize("terms", [70, 2100], ids=["one segment", "segments"])
@pytest.mark.parametrize("rows", [1, 5, 70])
def test_a_bias_behind_a_product_of_float32_is_its_addend(gpu: dml.Device, rows: int, terms: int) -> None:
    """With the bits of the operators one by one: of denormal sums and biases, zeros of both signs, infinities, NaN."""
    random = np.random.default_rng(terms + rows)
    sizes = {"x": (rows, terms), "w": (terms, 40), "bias": (1, 1, 40)}
    arrays = {name: random.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    arrays["w"][:, 3:6], arrays["w"][3, 8] = [1e-39, 0.0, -1e-38], np.inf
    arrays["bias"][0, 0, :8] = [0.0, -0.0, 1e-40, -0.0, -1e-40, 1e-38, np.nan, -np.inf]

    def compiled(*, relu: bool, fuse: bool) -> dml.CompiledGraph:
        graph = dml.Graph(gpu)
        e = {name: graph.input(name, dml.FLOAT32, size) for name, size in sizes.items()}
        y = (e["x"] @ e["w"]).reshape(1, rows, 40) + e["bias"]
        return graph.compile({"y": F.activation_relu(y) if relu else y}, fuse=fuse)

    for relu in (False, True):
        whole, one_by_one = compiled(relu=relu, fuse=True), compiled(relu=relu, fuse=False)
        assert [len(stage.nodes) for stage in whole.stages] == [2 + relu]
        made, expected = (gpu.run(graph, arrays)["y"] for graph in (whole, one_by_one))
        assert made.tobytes() == expected.tobytes()
        assert np.isfinite(made).any() and (relu or not np.isfinite(made).all())


def test_what_follows_from_constants_alone_is_computed_once(any_device: dml.Device) -> None:
    """The factor of a BATCH_NORMALIZATION; but nothing that takes more memory than the constants, and no output."""
    random = np.random.default_rng(2)
    operands = {name: random.uniform(0.5, 2, (1, 6, 1, 1)).astype(np.float32) for name in OPERANDS}
    graph = dml.Graph(any_device)
    x = graph.input("x", dml.FLOAT32, (2, 6, 3, 5))
    mean, variance, scale, shift = (graph.constant(operands[name]) for name in OPERANDS)
    normalized = F.batch_normalization(x, mean, variance, scale, shift, True, 0.25)
    compiled = graph.compile({"y": normalized, "root": F.sqrt(variance)})
    assert [step.label for step in compiled.steps if "of 2" in step.label] == []
    assert [len(stage.reads) for stage in compiled.stages_once] == [2]
    values = random.normal(0, 1, (2, 6, 3, 5)).astype(np.float32)
    for _ in range(2):
        results = any_device.run(compiled, {"x": values})
        wide = {name: array.astype(np.float64) for name, array in operands.items()}
        exact = (values - wide["mean"]) / np.sqrt(wide["variance"] + 0.25) * wide["scale"] + wide["shift"]
        assert np.allclose(results["y"], exact, rtol=1e-5, atol=1e-6)
        assert np.allclose(results["root"], np.sqrt(operands["variance"]))
    for picture in (graph_as_svg(compiled), graph_as_dot(compiled)):
        assert "BATCH_NORMALIZATION" in picture


def test_what_takes_more_memory_than_its_constants_is_computed_in_every_run(device: dml.Device) -> None:
    def compiled(made: Callable[[dml.Graph], E]) -> dml.CompiledGraph:
        graph = dml.Graph(device)
        x = graph.input("x", dml.FLOAT32, (4, 8))
        return graph.compile({"y": F.gemm(x, made(graph), trans_b=dml.MatrixTransform.TRANSPOSE)})

    tiled = compiled(lambda graph: F.tile(graph.constant(np.arange(8, dtype=np.float32).reshape(1, 8)), [4, 1]))
    assert [stage.nodes[0].desc.operator_name for stage in tiled.stages_once] == []
    ones, rising = np.ones((4, 8), np.float32), dml.AxisDirection.INCREASING
    ramps = compiled(lambda graph: F.cumulative_summation(graph.constant(ones), 1, rising, False))
    assert [stage.nodes[0].desc.operator_name for stage in ramps.stages_once] == ["CUMULATIVE_SUMMATION"]
    values = np.eye(4, 8, dtype=np.float32)
    for _ in range(2):
        assert (device.run(tiled, {"x": values})["y"] == np.arange(4, dtype=np.float32)[:, None]).all()
        assert (device.run(ramps, {"x": values})["y"] == np.arange(1, 5, dtype=np.float32)[:, None]).all()
