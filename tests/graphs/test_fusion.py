"""Which operators become one kernel; and that nothing of it can be seen in the results."""

from __future__ import annotations

import dataclasses
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.execution import Workbench
from dmlvk.graphs import GraphDesc, InputGraphEdge, IntermediateGraphEdge, OutputGraphEdge
from dmlvk.kernels import access_orders
from dmlvk.operators import REGULAR_OPERATORS
from scripts.shader_tools.rules import lint
from tests.graphs.random_graphs import Builder
from tests.graphs.support import X, fused, node
from tests.targets import all_compute_as_gpus, variants_of

E = dml.Expression


def compiled(device: dml.Device, sizes: tuple[int, ...], build: Callable[..., E | dict[str, E]]) -> dml.CompiledGraph:
    """A graph of two FLOAT32 inputs of these sizes."""
    graph = dml.Graph(device)
    a, b = (graph.input(name, dml.FLOAT32, sizes) for name in "ab")
    made = build(a, b)
    return graph.compile(made)


def kernels(graph: dml.CompiledGraph) -> list[list[str]]:
    return [[node.desc.operator_name.split("_", 2)[-1] for node in stage.nodes] for stage in graph.stages]


def test_a_chain_is_one_kernel(any_device: dml.Device) -> None:
    graph = compiled(any_device, (24,), lambda a, b: F.clip(F.tanh(a) * 2 + b, min=-1, max=1))
    assert kernels(graph) == [["TANH", "MULTIPLY", "ADD", "CLIP"]]
    assert graph.temporary_resource_size == 0
    assert graph.constants == ()  # numbers are parameters
    (stage,) = graph.stages
    assert len(stage.reads) == 2


def test_a_shared_value_is_computed_once(any_device: dml.Device) -> None:
    graph = compiled(any_device, (24,), lambda a, b: F.exp(a) * b + F.sqrt(abs(F.exp(a))))
    assert sorted(kernels(graph)[0]) == ["ABS", "ADD", "EXP", "MULTIPLY", "SQRT"]
    assert len(graph.stages) == 1


def test_a_kernel_writes_what_is_read_elsewhere_too(device: dml.Device) -> None:
    """Outputs inside of a stretch, also of other widths; and a value that is summed up by another kernel."""
    rng = np.random.default_rng(3)
    for sizes in ((24,), (4, 6), (1030,)):
        graph = dml.Graph(device)
        a, b = (graph.input(name, dml.FLOAT32, sizes) for name in "ab")
        t = a * b
        less = t < a
        outputs = {"t": t, "less": less, "y": F.if_(less, -abs(t), t + 1), "s": F.activation_softmax(t)}
        arrays = {name: rng.normal(0, 1, sizes).astype(np.float32) for name in "ab"}
        assert [len(stage.writes) for stage in fused(device, graph, outputs, arrays).stages] == [3, 1]


def test_outputs_of_rows_share_a_kernel(device: dml.Device) -> None:
    """With a row that is repeated; not where one of them is laid out in another way, or tiles are needed."""
    graph = dml.Graph(device)
    a, row = graph.input("a", dml.FLOAT16, (6, 32)), graph.input("row", dml.FLOAT16, (32,))
    total = a + row
    outputs = {"total": total, "y": -total}
    made = graph.compile(outputs)
    assert variants_of(made) == ["fused.2.rows"]
    arrays = {"a": np.arange(192, dtype=np.float16).reshape(6, 32), "row": np.arange(32, dtype=np.float16)}
    results = device.run(made, arrays)
    assert (results["total"] == arrays["a"] + arrays["row"]).all()
    assert (results["y"] == -(arrays["a"] + arrays["row"])).all()

    graph = dml.Graph(device)
    a = graph.input("a", dml.FLOAT32, (40, 40), (1, 40))
    made = graph.compile({"total": (total := a + a), "y": -total})
    assert [len(stage.writes) for stage in made.stages] == [1, 1]


def test_outputs_of_every_width_beside_one_another(device: dml.Device) -> None:
    """Comparisons, whose results are bytes, beside what they compare, in whole and in partial vectors."""
    for data_type in (dml.INT8, dml.FLOAT16, dml.UINT32, dml.INT64, dml.FLOAT32):
        for count in (3, 64, 1027):
            graph = dml.Graph(device)
            a, b = (graph.input(name, data_type, (count,)) for name in "ab")
            outputs = {"larger": (larger := F.max(a, b)), "is_a": (is_a := larger == a), "not_a": F.logical_not(is_a)}
            made = graph.compile(outputs)
            assert [len(stage.writes) for stage in made.stages] == [3], data_type
            values = {
                name: np.arange(count).astype(data_type.numpy_dtype)[::step] for name, step in (("a", 1), ("b", -1))
            }
            results = device.run(made, values)
            expected = np.maximum(values["a"], values["b"])
            assert (results["larger"] == expected).all(), (data_type, count)
            assert (results["is_a"] == (expected == values["a"])).all(), (data_type, count)
            assert (results["not_a"] == (expected != values["a"])).all(), (data_type, count)


def test_at_most_four_outputs_of_a_kernel(device: dml.Device) -> None:
    graph = dml.Graph(device)
    y = graph.input("a", dml.INT64, (50,))
    outputs = {}
    for number in range(9):
        y = y + 1 if number % 2 else y * -3
        outputs[str(number)] = y
    made = graph.compile(outputs)
    assert max(len(stage.writes) for stage in made.stages) == 4
    assert len(made.stages) <= 4
    a = np.arange(50, dtype=np.int64) - 20
    for number, array in enumerate(device.run(made, {"a": a}).values()):
        a = a + 1 if number % 2 else a * -3
        assert (array == a).all(), number


def test_no_kernel_waits_for_itself(any_device: dml.Device) -> None:
    """The square root of a transposed sum lies between the sum and the product."""

    def build(a: E, b: E) -> E:
        total = a + b
        turned: E = F.sqrt(abs(total)).transpose()
        return total * (turned + 1).transpose()

    graph = compiled(any_device, (4, 6), build)
    a, b = np.abs(X) + 1, np.abs(X)
    assert (any_device.run(graph, {"a": a, "b": b})["output"] == (a + b) * (np.sqrt(a + b) + 1)).all()


def test_other_shapes_of_the_same_elements_are_joined(any_device: dml.Device) -> None:
    graph = compiled(any_device, (4, 6), lambda a, b: -abs((a + b).reshape(2, 2, 6).transpose(1, 0, 2)))
    assert len(graph.stages) == 1
    a, b = X, X[::-1]
    expected = -np.abs((a + b).reshape(2, 2, 6).transpose(1, 0, 2))
    assert (any_device.run(graph, {"a": a, "b": b})["output"] == expected).all()


def test_a_broadcast_value_goes_through_memory(any_device: dml.Device) -> None:
    """It is computed once for each of its elements, not once for each reader."""

    graph = dml.Graph(any_device)
    a, row = graph.input("a", dml.FLOAT32, (50, 24)), graph.input("row", dml.FLOAT32, (24,))
    made = graph.compile(a * F.exp(row) + 1)
    assert kernels(made) == [["EXP"], ["MULTIPLY", "ADD"]]
    assert variants_of(made)[1] == "fused.2.rows"


def test_integers_that_cancel_are_no_constants_of_floats(device: dml.Device) -> None:
    """llvmpipe takes the product of an infinity with what it knows to be 0 for 0: it is NaN, which is above nothing."""
    bits, floats = (dml.TensorDesc(data_type, (4, 8)) for data_type in (dml.UINT32, dml.FLOAT32))
    nodes = [
        node(device, dml.ElementWiseLogicalXor(a_tensor=bits, b_tensor=bits, output_tensor=bits)),
        node(
            device,
            dml.ElementWiseThreshold(
                input_tensor=floats, output_tensor=floats, scale_bias=dml.ScaleBias(math.inf, 1.0), min=-math.inf
            ),
        ),
        node(device, dml.ElementWiseMultiply(a_tensor=floats, b_tensor=floats, output_tensor=floats)),
    ]
    graph = GraphDesc(
        2,
        2,
        nodes,
        [InputGraphEdge(0, 0, 0), InputGraphEdge(0, 0, 1), InputGraphEdge(1, 2, 1)],
        [OutputGraphEdge(1, 0, 0), OutputGraphEdge(2, 0, 1)],
        [IntermediateGraphEdge(0, 0, 1, 0), IntermediateGraphEdge(0, 0, 2, 0)],
    )
    compiled = device.compile_graph(graph)
    assert len(compiled.stages) == 1
    arrays = {"Input0": np.arange(32, dtype=np.uint32).reshape(4, 8), "Input1": np.full((4, 8), np.inf, np.float32)}
    results = device.run(compiled, arrays)
    assert np.isneginf(results["Output0"]).all()
    assert np.isnan(results["Output1"]).all()


def test_equal_operands_do_not_cancel(device: dml.Device) -> None:
    """``DEQUANTIZE_LINEAR(x, scale, x)`` is ``0 * scale``, and NaN for an infinite scale."""
    graph = dml.Graph(device)
    x, scale = graph.input("x", dml.INT8, (4, 8)), graph.input("scale", dml.FLOAT32, (4, 8))
    compiled = graph.compile(output=F.dequantize_linear(x, scale, x) * F.abs(scale))
    assert len(compiled.stages) == 1
    scales = np.resize(np.array([np.inf, -np.inf, 2, -0.0], np.float32), (4, 8))
    results = device.run(compiled, {"x": np.arange(-16, 16, dtype=np.int8).reshape(4, 8), "scale": scales})
    with np.errstate(invalid="ignore"):
        expected = (np.float32(0) * scales) * np.abs(scales)
    assert np.array_equal(results["output"], expected, equal_nan=True)


@pytest.mark.parametrize("as_gpus", [False, True])
def test_access_orders_are_those_of_single_operators(
    device: dml.Device, as_gpus: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contiguous, rows, tiles (on GPUs) and any strides, each beside the bits of single operators."""
    all_compute_as_gpus(monkeypatch, as_gpus=as_gpus)
    monkeypatch.setattr(access_orders, "_FEWEST_WITH_TWO_VECTORS", 0)
    has_tiles = as_gpus or device.info.kind != "CPU"
    rng = np.random.default_rng(2)
    for access_order, sizes, strides, data_type in (
        ("contiguous", (67, 33), (33, 1), dml.FLOAT32),
        ("contiguous", (67, 33), (33, 1), dml.INT8),
        ("rows", (30, 64), (0, 1), dml.FLOAT32),
        ("rows", (30, 64), (64, 1), dml.UINT8),
        ("tiled" if has_tiles else "strided", (67, 36), (1, 68), dml.FLOAT32),
        ("tiled" if has_tiles else "strided", (68, 36), (1, 68), dml.FLOAT16),
        ("strided", (67, 33), (40, 1), dml.FLOAT32),
        ("strided", (67, 33), (40, 1), dml.INT16),
        ("strided", (67, 33), (99, 3), dml.UINT64),
    ):
        graph = dml.Graph(device)
        a = graph.input("a", data_type, sizes, strides)
        row = graph.input("row", data_type, (sizes[-1],) if access_order == "rows" else sizes)
        values = rng.integers(0, 256, (2, *sizes, 8), np.uint8).view(data_type.numpy_dtype)[..., 0]
        if 0 in strides:
            values[0, 1:] = values[0, 0]
        arrays = {"a": values[0], "row": values[1, 0] if access_order == "rows" else values[1]}
        made = fused(device, graph, F.max(a + row, row), arrays)
        assert variants_of(made) == [f"fused.2.{access_order}"], (access_order, data_type)


@pytest.mark.parametrize("data_type", [dml.INT8, dml.FLOAT16, dml.FLOAT32, dml.INT64])
def test_tiles_of_inputs_of_several_widths(
    data_type: dml.DataType, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INT64 beside what decides on it; with all inputs transposed not all tiles fit into shared memory."""
    all_compute_as_gpus(monkeypatch)
    rng = np.random.default_rng(5)
    sizes = (67, 36)
    types = {"x": data_type, "y": data_type, "a": dml.INT64, "b": dml.INT64}
    for transposed in ("x", "a", "xa", "xyab"):
        graph = dml.Graph(device)
        strides = {name: (1, 68) if name in transposed else (36, 1) for name in types}
        x, y, a, b = (graph.input(name, types[name], sizes, strides[name]) for name in types)
        arrays = {name: rng.integers(-9, 9, sizes).astype(types[name].numpy_dtype) for name in types}
        made = fused(device, graph, F.if_(x < y, a, b), arrays)
        assert variants_of(made) == ["fused.2.tiled"], transposed
        expected = np.where(arrays["x"] < arrays["y"], arrays["a"], arrays["b"])
        assert np.array_equal(device.run(made, arrays)["output"], expected), transposed


def test_narrow_values_are_cut_between_operators(device: dml.Device) -> None:
    """100 + 100 of INT8 is -56, also where it stays in a register; and its bits may be read as UINT8."""
    graph = dml.Graph(device)
    a = graph.input("a", dml.INT8, (5,))
    total = a + a
    made = graph.compile(less=total < 0, half=total.reinterpret((5,), data_type=dml.UINT8) / 2)
    results = device.run(made, {"a": np.array([100, -100, 1, 127, -128], np.int8)})
    assert results["less"].tolist() == [1, 0, 0, 1, 0]
    assert results["half"].tolist() == [100, 28, 1, 127, 0]


def test_values_of_another_width_go_through_memory(device: dml.Device) -> None:
    """Rule 89: two FLOAT16 elements are one UINT32."""
    graph = dml.Graph(device)
    a = graph.input("a", dml.FLOAT16, (2, 4))
    made = graph.compile((-a).reinterpret((4,), data_type=dml.UINT32) & 0xFFFF)
    assert len(made.stages) == 2
    x = np.arange(8, dtype=np.float16).reshape(2, 4)
    assert (device.run(made, {"a": x})["output"] == ((-x).view(np.uint32).ravel() & 0xFFFF)).all()


@pytest.mark.parametrize(("buffers", "most"), [(32, 9), (6, 5)])
def test_more_inputs_than_a_kernel_has(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, buffers: int, most: int
) -> None:
    """Or than a device lets a kernel bind, where one binding stays free: for coefficients."""
    target = dataclasses.replace(device.target, buffers=buffers)
    monkeypatch.setattr(dml.Device, "target", property(lambda _: target))
    graph = dml.Graph(device)
    inputs = [graph.input(f"x{n}", dml.INT32, (9,)) for n in range(20)]
    total = inputs[0]
    for expression in inputs[1:]:
        total = total + expression
    made = graph.compile(total)
    assert 2 < len(made.stages) < 8
    assert max(len(stage.reads) + len(stage.writes) for stage in made.stages) == most
    arrays = {f"x{n}": np.arange(9, dtype=np.int32) * n for n in range(20)}
    assert (device.run(made, arrays)["output"] == sum(arrays.values())).all()


def test_long_chains_are_cut_into_kernels_that_compile_quickly(device: dml.Device) -> None:
    graph = dml.Graph(device)
    a = y = graph.input("a", dml.FLOAT32, (100,))
    for _ in range(100):
        y = F.max(abs(y) - 0.25, a)
    made = graph.compile(y)
    assert 1 < len(made.stages) < 100
    x = np.linspace(-2, 2, 100, dtype=np.float32)
    expected = x
    for _ in range(100):
        expected = np.maximum(np.abs(expected) - np.float32(0.25), x)
    assert (device.run(made, {"a": x})["output"] == expected).all()


def test_pairs_in_place_lie_in_one_place(any_device: dml.Device) -> None:
    """Fused kernels may write over what they read last, element by element."""

    def build(a: E, b: E) -> E:
        first = a + b
        return (first.transpose() * 2).transpose() + first.reshape(6, 4).transpose().reinterpret((4, 6)) * 3

    graph = compiled(any_device, (4, 6), build)
    unfused = any_device.compile_graph(
        graph.desc, fuse=False, input_names=["a", "b"], output_names=["output"], input_tensors=graph.input_tensors
    )
    arrays = {"a": X, "b": X * 3}
    assert (any_device.run(graph, arrays)["output"] == any_device.run(unfused, arrays)["output"]).all()


def test_fused_kernels_keep_the_rules_of_all_shaders(any_device: dml.Device, tmp_path: Path) -> None:
    """No optional feature, no instruction whose result drivers choose; and valid SPIR-V."""
    for data_type in (dml.FLOAT32, dml.FLOAT16, dml.INT8, dml.INT64):
        for strides in (None, (1, 40), (0, 1), (45, 1)):
            graph = dml.Graph(any_device)
            a = graph.input("a", data_type, (40, 40), strides)
            made = graph.compile(F.clip(F.max(a * 3, abs(a)), min=-1, max=100))
            for number, stage in enumerate(made.stages):
                spirv = stage.program.steps[0].kernel.spirv()
                assert not lint(stage.program.steps[0].kernel.variant, spirv)
                (tmp_path / f"{number}.spv").write_bytes(spirv)
                subprocess.run(["spirv-val", "--target-env", "vulkan1.1", tmp_path / f"{number}.spv"], check=True)


@pytest.mark.parametrize("operator", sorted(REGULAR_OPERATORS))
def test_every_operator_between_others(benches: list[Workbench], operator: str) -> None:
    """Graphs of one operator and IDENTITY: it is fused in front of something and behind something.

    On one device, of the CPU drivers the one that compiles most of them quickly; test_random.py has all of them.
    """
    device = benches[0].device
    graph = Builder(device, Random(operator), [operator, "ELEMENT_WISE_IDENTITY", "ELEMENT_WISE_IDENTITY"]).graph(4)
    joined, unfused = device.compile_graph(graph.desc), device.compile_graph(graph.desc, fuse=False)
    assert joined.fusion_remark == ""
    results = device.run(joined, graph.inputs)
    for name, array in device.run(unfused, graph.inputs).items():
        assert results[name].tobytes() == array.tobytes(), f"{operator}: {name} differs when fused"
