"""Compiled graphs run as compiled operators do: bound, initialized, recorded once, in planned memory, of any size."""

from __future__ import annotations

import dataclasses
import gc
import logging
import sys
import time
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.graphs import (
    ConstantGraphNode,
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OutputGraphEdge,
    memory,
    stages,
)
from dmlvk.graphs.fusion.functions import function_of
from dmlvk.graphs.fusion.grouping import KernelLimits, grouped
from dmlvk.graphs.memory import Item, MemoryPlan, PagedPlan, lower_bound, plan_memory, plan_pages
from dmlvk.kernels.program import BindingKind
from dmlvk.runtime.vulkan.devices import DeviceLimits
from dmlvk.support.progress import with_progress
from tests.binding.support import Binding, buffer_with, floats, sign, table_for, threshold
from tests.counted_calls import calls_of
from tests.graphs.support import DIAMOND_OF_X, SIZES, TENSOR, X, add, chain, diamond, maximum, negate, node


def test_graph_runs_in_one_call(device: dml.Device) -> None:
    compiled = device.compile_graph(diamond(device), input_names=["x"], output_names=["y"])
    for values in (X, -X, X * 2, X):
        expected = np.maximum(np.sign(values), np.maximum(values, np.float32(0.25))) + 1
        assert (device.run(compiled, {"x": values})["y"] == expected).all()


def test_graph_does_not_need_its_operators_any_more(device: dml.Device) -> None:
    """Rule 33."""
    compiled = device.compile_graph(diamond(device))
    gc.collect()
    assert (device.run(compiled, {"Input0": X})["Output0"] == DIAMOND_OF_X).all()


def test_graph_whose_scratch_memory_no_buffer_can_be_runs(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes several, from arrays of the host's and of the device's; binding tables have a place for one."""
    monkeypatch.setattr(DeviceLimits, "largest_buffer", X.nbytes)
    compiled = device.compile_graph(diamond(device), fuse=False, input_names=["x"], output_names=["y"])
    assert len(compiled.temporary_pages) > 1
    assert compiled.binding_properties.temporary_resource_size == sum(compiled.temporary_pages)
    for values in (X, X * 2):
        expected = np.maximum(np.sign(values), np.maximum(values, np.float32(0.25))) + 1
        assert (device.run(compiled, {"x": values})["y"] == expected).all()
        assert (device.run(compiled, {"x": device.array(values)}, keep=True)["y"].numpy() == expected).all()
    if device.info.limits.timestamp_valid_bits:
        assert len(device.profile(compiled, {"x": X}, 1)) == len(compiled.steps)
    table = device.create_binding_table(compiled)
    size = compiled.binding_properties.temporary_resource_size
    with (
        device.create_buffer(size) as scratch,
        pytest.raises(dml.UnsupportedError, match=f"Graph: its {size} temporary bytes are more than a buffer of"),
    ):
        table.bind_temporary_resource(dml.BufferBinding(scratch))


def test_graph_is_bound_and_recorded_as_an_operator_is(device: dml.Device) -> None:
    """Rules 36, 51 and 83."""
    compiled = device.compile_graph(diamond(device), fuse=False)
    properties = compiled.binding_properties
    assert properties.temporary_resource_size >= compiled.memory.planned_bytes > 0
    assert properties.persistent_resource_size == 0
    source, target = buffer_with(device, X), device.create_buffer(X.nbytes)
    table = table_for(compiled, [Binding(source)], [Binding(target)])
    recorder = device.create_command_recorder()
    with pytest.raises(dml.InvalidArgumentError, match="temporary resource"):
        recorder.record_dispatch(compiled, table)
    scratch = device.create_buffer(256 + properties.temporary_resource_size + 256)
    guard = np.full(scratch.size_in_bytes, 0xA5, np.uint8)
    scratch.upload(guard)
    with pytest.raises(dml.InvalidArgumentError, match="256"):
        table.bind_temporary_resource(Binding(scratch, 128))
    table.bind_temporary_resource(Binding(scratch, 256, properties.temporary_resource_size))
    recorder.record_dispatch(compiled, table)
    for _ in range(3):
        recorder.execute()
        assert (target.download(np.float32, SIZES) == DIAMOND_OF_X).all()
    after = scratch.download()
    assert (after[:256] == 0xA5).all()
    assert (after[256 + properties.temporary_resource_size :] == 0xA5).all()


def test_kernels_wait_only_for_what_they_need(device: dml.Device) -> None:
    """Rule 76: SIGN and THRESHOLD only share an input, so the second does not wait for the first."""
    compiled = device.compile_graph(diamond(device), fuse=False)
    source, target = buffer_with(device, X), device.create_buffer(X.nbytes)
    table = table_for(compiled, [Binding(source)], [Binding(target)])
    table.bind_temporary_resource(Binding(device.create_buffer(compiled.temporary_resource_size)))
    recorder = device.create_command_recorder()
    recorder.record_dispatch(compiled, table)
    (dispatch,) = recorder.dispatches
    assert [(step.step.label, step.depends) for step in dispatch.steps] == [
        ("sign", False),
        ("threshold", False),
        ("max", True),
        ("sum", True),
    ]


def test_chain_in_place_needs_one_tensor_of_scratch(any_device: dml.Device) -> None:
    """NEGATE may write over its input; nine intermediate values lie in the same 96 bytes."""
    compiled = any_device.compile_graph(chain(any_device, [negate()] * 10), fuse=False)
    assert compiled.memory.naive_bytes == 9 * X.nbytes
    assert compiled.memory.planned_bytes == compiled.memory.lower_bound_bytes == X.nbytes
    assert compiled.temporary_resource_size == 256
    assert (any_device.run(compiled, {"Input0": X})["Output0"] == X).all()


def test_operator_without_permission_does_not_write_over_its_input(any_device: dml.Device) -> None:
    """Rule 70: SIGN's page permits it, a transposed output does not."""
    transposed = floats(4, 6, strides=(1, 4))
    moved = dml.ElementWiseIdentity(input_tensor=TENSOR, output_tensor=transposed)
    back = dml.ElementWiseIdentity(input_tensor=transposed, output_tensor=TENSOR)
    compiled = any_device.compile_graph(chain(any_device, [negate(), moved, back]), fuse=False)
    assert compiled.memory.planned_bytes == 2 * X.nbytes
    assert (any_device.run(compiled, {"Input0": X})["Output0"] == -X).all()


def test_value_that_is_still_needed_is_not_written_over(any_device: dml.Device) -> None:
    nodes = [node(any_device, desc) for desc in (threshold(TENSOR, 0.5), negate(), add())]
    edges = [IntermediateGraphEdge(0, 0, 1, 0), IntermediateGraphEdge(1, 0, 2, 0), IntermediateGraphEdge(0, 0, 2, 1)]
    compiled = any_device.compile_graph(
        GraphDesc(1, 1, nodes, [InputGraphEdge(0, 0, 0)], [OutputGraphEdge(2, 0, 0)], edges), fuse=False
    )
    assert compiled.memory.planned_bytes == 2 * X.nbytes
    assert (any_device.run(compiled, {"Input0": X})["Output0"] == 0).all()


def test_one_value_as_several_outputs_and_as_an_input(device: dml.Device) -> None:
    """Rule 85."""
    outputs = [OutputGraphEdge(0, 0, 2), OutputGraphEdge(0, 0, 0), OutputGraphEdge(1, 0, 1)]
    desc = GraphDesc(
        1,
        3,
        [node(device, sign(TENSOR)), node(device, negate())],
        [InputGraphEdge(0, 0, 0)],
        outputs,
        [IntermediateGraphEdge(0, 0, 1, 0)],
    )
    compiled = device.compile_graph(desc)
    assert compiled.temporary_resource_size == 0
    results = device.run(compiled, {"Input0": X})
    assert (results["Output0"] == np.sign(X)).all()
    assert (results["Output1"] == -np.sign(X)).all()
    assert (results["Output2"] == np.sign(X)).all()


def test_input_without_edges_is_not_bound(any_device: dml.Device) -> None:
    """Rule 85: it counts all the same, as an absent one."""
    desc = GraphDesc(2, 1, [node(any_device, negate())], [InputGraphEdge(1, 0, 0)], [OutputGraphEdge(0, 0, 0)])
    compiled = any_device.compile_graph(desc)
    assert (any_device.run(compiled, {"Input1": X})["Output0"] == -X).all()
    target = any_device.create_buffer(X.nbytes)
    table = table_for(compiled, [None, Binding(buffer_with(any_device, X))], [Binding(target)])
    recorder = any_device.create_command_recorder()
    recorder.record_dispatch(compiled, table)
    recorder.execute()
    assert (target.download(np.float32, SIZES) == -X).all()
    with pytest.raises(dml.InvalidArgumentError, match="absent"):
        table.bind_inputs([Binding(target), Binding(target)])


def test_owned_input_is_given_when_the_graph_is_initialized(device: dml.Device) -> None:
    """Rules 20, 57, 62, 83 and 91."""
    owned = dataclasses.replace(TENSOR, flags=dml.TensorFlags.OWNED_BY_DML)
    desc = GraphDesc(
        2,
        1,
        [node(device, maximum(TENSOR, owned)), node(device, add(TENSOR, owned))],
        [InputGraphEdge(0, 0, 0), InputGraphEdge(1, 0, 1), InputGraphEdge(1, 1, 1)],
        [OutputGraphEdge(1, 0, 0)],
        [IntermediateGraphEdge(0, 0, 1, 0)],
    )
    compiled = device.compile_graph(desc)
    weights = X[::-1].copy()
    persistent = device.create_buffer(compiled.persistent_resource_size)
    initializer = device.create_operator_initializer([compiled])
    table = device.create_binding_table(initializer)
    table.bind_inputs([dml.BufferArrayBinding([None, Binding(buffer_with(device, weights))])])
    table.bind_outputs([Binding(persistent)])
    recorder = device.create_command_recorder()
    recorder.record_dispatch(initializer, table)
    target = device.create_buffer(X.nbytes)
    table = table_for(compiled, [Binding(buffer_with(device, X)), None], [Binding(target)])
    table.bind_persistent_resource(Binding(persistent))
    assert compiled.temporary_resource_size == 0  # both operators are one kernel
    recorder.record_dispatch(compiled, table)
    recorder.execute()
    assert (target.download(np.float32, SIZES) == np.maximum(X, weights) + weights).all()
    fresh = device.compile_graph(desc)
    assert (device.run(fresh, {"Input0": X, "Input1": weights})["Output0"] == np.maximum(X, weights) + weights).all()


def test_graph_does_not_run_in_place(any_device: dml.Device) -> None:
    """Rules 65 and 70: no page permits it for graphs."""
    compiled = any_device.compile_graph(chain(any_device, [negate()]))
    buffer = buffer_with(any_device, X)
    with pytest.raises(dml.InvalidArgumentError, match="a graph cannot execute in place"):
        table_for(compiled, [Binding(buffer)], [Binding(buffer)])


def test_constants_of_odd_sizes(device: dml.Device) -> None:
    """Rule 92: bytes behind the last element up to a multiple of 4 belong to the tensor (rule 12)."""
    tensor = dml.TensorDesc(dml.INT8, (5,))
    values = np.arange(-2, 3, dtype=np.int8)
    desc = GraphDesc(
        1,
        1,
        [
            ConstantGraphNode(values.tobytes() + b"\xff\xff\xff"),
            ConstantGraphNode(bytes(8)),
            node(device, dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)),
            node(device, dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)),
        ],
        [InputGraphEdge(0, 2, 0)],
        [OutputGraphEdge(3, 0, 0)],
        [IntermediateGraphEdge(0, 0, 2, 1), IntermediateGraphEdge(2, 0, 3, 0), IntermediateGraphEdge(1, 0, 3, 1)],
    )
    compiled = device.compile_graph(desc)
    assert device.run(compiled, {"Input0": np.full(5, 100, np.int8)})["Output0"].tolist() == [98, 99, 100, 101, 102]


def test_constants_are_uploaded_as_they_are_given(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large weights are not copied on their way."""
    uploaded = calls_of(monkeypatch, dml.Buffer, "upload")
    given = [np.random.default_rng(seed).standard_normal(SIZES).astype(np.float32) for seed in (1, 2)]
    graph = dml.Graph(device)
    first, second = map(graph.constant, given)
    compiled = graph.compile(y=graph.input("x", dml.FLOAT32, SIZES) * first + second)
    contents = [node.contents for node in compiled.desc.nodes if isinstance(node, ConstantGraphNode)]
    assert [any(array is each for each in contents) for _, array, *_ in uploaded] == [True, True]
    assert len({tuple(offset) for _, _, *offset in uploaded}) == 2
    assert (device.run(compiled, {"x": X})["y"] == X * given[0] + given[1]).all()


def test_intermediate_memory_is_what_the_plan_says(any_device: dml.Device) -> None:
    """Regions of the temporary resource that are needed at one time do not overlap."""
    compiled = any_device.compile_graph(diamond(any_device), fuse=False)
    regions = [region for step in compiled.steps for region in step.writes if region.kind is BindingKind.TEMPORARY]
    assert all(region.offset + region.size_in_bytes <= compiled.temporary_resource_size for region in regions)
    assert len({region.offset for region in regions[:2]}) == 2


def test_volatile_bindings_are_read_at_submission(any_device: dml.Device) -> None:
    """Rule 82."""
    compiled = any_device.compile_graph(chain(any_device, [negate()]), dml.ExecutionFlags.DESCRIPTORS_VOLATILE)
    target = any_device.create_buffer(X.nbytes)
    table = any_device.create_binding_table(compiled)
    recorder = any_device.create_command_recorder()
    recorder.record_dispatch(compiled, table)
    table.bind_inputs([Binding(buffer_with(any_device, X))])
    table.bind_outputs([Binding(target)])
    recorder.execute()
    assert (target.download(np.float32, SIZES) == -X).all()


items = st.lists(
    st.builds(
        lambda size, first, length: Item(size, first, first + length),
        st.one_of(st.integers(1, 64), st.integers(1, 2**31)),
        st.integers(0, 30),
        st.integers(0, 12),
    ),
    max_size=40,
)


def check(plan: MemoryPlan, needed: list[Item]) -> None:
    for number, item in enumerate(needed):
        assert plan.offsets[number] % 16 == 0
        assert plan.offsets[number] + item.size <= plan.planned_bytes
        for other in range(number):
            if item.first <= needed[other].last and needed[other].first <= item.last:
                below = plan.offsets[number] + item.size <= plan.offsets[other]
                assert below or plan.offsets[other] + needed[other].size <= plan.offsets[number]


@given(items)
@settings(max_examples=300)
def test_items_never_overlap_while_they_are_needed(needed: list[Item]) -> None:
    plan = plan_memory(needed)
    check(plan, needed)
    assert plan.naive_bytes == sum(item.size for item in needed)
    assert plan.lower_bound_bytes <= plan.planned_bytes
    assert plan.lower_bound_bytes == max(
        (sum(i.size for i in needed if i.first <= step <= i.last) for step in range(50)), default=0
    )


@given(items, st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_many_items_are_placed_as_few_are(needed: list[Item], random: Random) -> None:
    order = list(range(len(needed)))
    random.shuffle(order)
    assert memory._placed_by_arrays(needed, order) == memory._placed_one_by_one(needed, order)


@given(items)
@settings(max_examples=200)
def test_very_many_items_are_placed_in_the_order_in_which_they_come_as_few_are(needed: list[Item]) -> None:
    in_order = sorted(range(len(needed)), key=lambda i: (needed[i].first, -needed[i].padded_size))
    assert memory._placed_as_they_come(needed) == memory._placed_one_by_one(needed, in_order)


@given(items, st.integers(64, 2**31))
@settings(max_examples=200)
def test_items_in_several_buffers_never_overlap_and_no_buffer_is_too_large(needed: list[Item], most: int) -> None:
    plan = plan_pages(needed, most)
    for page, size in enumerate(plan.page_bytes):
        there = [number for number, own in enumerate(plan.pages) if own == page]
        assert there
        chosen = [needed[number] for number in there]
        check(MemoryPlan(tuple(plan.offsets[number] for number in there), size, 0, 0), chosen)
        assert size <= most or len({item.padded_size for item in chosen if item.padded_size > most}) >= 1


def test_nothing_needs_nothing() -> None:
    assert plan_pages([], 1000) == PagedPlan((), (), ())
    assert plan_memory([]) == MemoryPlan((), 0, 0, 0)


@pytest.mark.parametrize("size", [24, 40_000])
def test_a_thousand_small_tensors_are_placed_in_a_few_attempts(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chain of them no plan can be better than the first, which is larger than the sizes before alignment."""
    placed, attempts = memory._placed, 0

    def counted(needed: list[Item], order: list[int]) -> memory._Placement:
        nonlocal attempts
        attempts += 1
        return placed(needed, order)

    monkeypatch.setattr(memory, "_placed", counted)
    plan = plan_memory([Item(size, n, n + 2) for n in range(1000)])
    assert plan.planned_bytes < 1.4 * plan.lower_bound_bytes
    assert attempts <= 3


def test_plan_is_the_same_every_time() -> None:
    random = Random(3)
    needed = [Item(random.randrange(1, 2**20), n, n + random.randrange(9)) for n in range(60)]
    assert plan_memory(needed) == plan_memory(needed)


def random_network(random: Random, nodes: int) -> list[Item]:
    """Lifetimes as in a graph: every value is read by one to three of the nodes that follow, mostly soon."""
    sizes = [4 * random.choice((1, 16, 256, 1024, 4096)) * random.randrange(1, 200) for _ in range(8)]
    return [
        Item(random.choice(sizes), n, min(nodes, n + max(1, int(random.expovariate(1 / 4))) + random.randrange(3)))
        for n in range(nodes)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_plans_of_100_nodes_are_within_a_tenth_of_the_lower_bound(seed: int) -> None:
    needed = random_network(Random(seed), 100)
    plan = plan_memory(needed)
    check(plan, needed)
    assert plan.planned_bytes <= 1.1 * lower_bound(needed)
    assert plan.planned_bytes <= plan.naive_bytes


COUNT = 10_000

LARGE_SIZES = (4, 16)

FORMS = (lambda a, b: a + b, lambda a, b: F.max(a, b), lambda a, b: abs(a), lambda a, b: a - b)


def large_chain(x: dml.Expression, y: dml.Expression) -> dict[str, dml.Expression]:
    value = x
    for number in range(COUNT):
        value = FORMS[number % 4](value, y)
    return {"output": value}


def large_random_network(x: dml.Expression, y: dml.Expression) -> dict[str, dml.Expression]:
    """Each operator reads one of the last fifty values and any other; every value that nobody reads is an output."""
    random = Random(10)
    values, read = [x, y], set()
    for number in range(COUNT):
        one, other = random.randrange(max(0, len(values) - 50), len(values)), random.randrange(len(values))
        read |= {one, other} if number % 4 != 2 else {one}
        values.append(FORMS[number % 4](values[one], values[other]))
    return {f"output{number}": value for number, value in enumerate(values) if number not in read}


@pytest.mark.parametrize("form", [large_chain, pytest.param(large_random_network, marks=pytest.mark.sweep)])
def test_graphs_of_ten_thousand_operators_are_compiled_in_seconds(form: object, any_device: dml.Device) -> None:
    assert callable(form)
    device = any_device  # nothing is run, and no driver compiles anything
    graph = dml.Graph(device)
    x, y = (graph.input(name, dml.FLOAT32, LARGE_SIZES) for name in ("x", "y"))
    outputs = form(x, y)
    began = time.process_time()
    compiled = graph.compile(outputs, fuse=False)
    nodes = compiled.network.nodes
    assert len(nodes) > 0.9 * COUNT  # equal ones are one
    functions = {node.index: function_of(node.desc, device.target) for node in nodes}
    known = {index: function for index, function in functions.items() if function is not None}
    groups = grouped(compiled.network, known, KernelLimits(), device.target)
    assert time.process_time() - began < 30, "of the processor; a third of it where nobody else works"
    assert sorted(node.index for group in groups for node in group.nodes) == sorted(node.index for node in nodes)
    done: set[int] = set()
    for group in groups:
        written = {node.index for node in group.nodes}
        assert {value.index for value in group.read if value.kind == "node"} <= done
        done |= written
    assert len(groups) < COUNT / 4


def test_a_long_chain_gives_what_its_operators_give(device: dml.Device) -> None:
    graph = dml.Graph(device)
    value = x = graph.input("x", dml.FLOAT32, (8,))
    for _ in range(600):
        value = value + 1
    given = np.arange(8, dtype=np.float32)
    assert np.array_equal(device.run(graph.compile(y=value), {"x": given})["y"], given + 600)
    assert x.shape == (8,)


def test_progress_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 0.0, 1.0, 3.0, 3.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    with caplog.at_level(logging.INFO, "dmlvk"):
        assert list(with_progress(range(4), 4, "kernels compiled")) == [0, 1, 2, 3]
    assert [record.getMessage() for record in caplog.records] == ["2 of 4 kernels compiled, about 3 s left"]


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 0.0, 1.0, 3.0, 3.5] * 2)
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    list(with_progress(range(4), 4, "kernels compiled"))
    assert capsys.readouterr().err == "", "a file gets no lines that replace each other"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    list(with_progress(range(4), 4, "kernels compiled"))
    assert capsys.readouterr().err == "\r\033[Kdmlvk: 2 of 4 kernels compiled, about 3 s left\r\033[K"


@pytest.mark.parametrize("fuse", [True, False])
def test_operators_that_are_alike_are_lowered_once(
    fuse: bool, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered = calls_of(monkeypatch, stages, "lower")
    graph = dml.Graph(any_device)
    x = y = graph.input("x", dml.FLOAT32, (4, 4))
    for _ in range(50):
        y = F.gemm(y, x)
    compiled = graph.compile({"y": F.gemm(y, x, alpha=0.5)}, fuse=fuse)
    assert len(compiled.stages) == 51
    assert [desc.operator_name for desc, _ in lowered] == ["GEMM"] * 2
    rotation = np.kron(np.eye(2), [[0, 1], [-1, 0]]).astype(np.float32)
    expected = np.linalg.matrix_power(rotation.astype(np.float64), 52) / 2
    np.testing.assert_array_equal(any_device.run(compiled, {"x": rotation})["y"], expected)


SIDE = 32

BYTES = 4 * SIDE * SIDE

ONCE_COUNT = 7


def test_constants_beyond_the_largest_buffer_lie_in_several(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that are only read once, and of what is computed between, nothing stays."""
    monkeypatch.setattr(DeviceLimits, "largest_buffer", 2 * BYTES)
    graph = dml.Graph(device)
    y = graph.input("x", dml.FLOAT32, (1, 1, 3, SIDE))
    draw = np.random.default_rng(5)
    expected = values = draw.normal(0, 1, (1, 1, 3, SIDE)).astype(np.float32)
    for _ in range(ONCE_COUNT):
        weight = draw.integers(-4, 5, (1, 1, SIDE, SIDE)).astype(np.float32)
        largest = np.abs(weight).max(axis=2, keepdims=True)
        constant = graph.constant(weight)
        y = y @ (constant / F.max(F.absolute(constant), axis=2, keepdims=True))
        expected = expected @ (weight / largest)
    compiled = graph.compile(y=y)
    assert len(compiled.stages_once) >= ONCE_COUNT
    assert len(compiled.constants) > 1
    assert sum(buffer.size_in_bytes for buffer in compiled.constants) == ONCE_COUNT * BYTES
    for _ in range(2):
        result = device.run(compiled, {"x": values})["y"]
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * float(np.abs(expected).max()))
    assert (device.run(compiled, {"x": device.array(values)}, keep=True)["y"].numpy() == result).all()


def test_what_follows_from_a_value_that_is_too_large_to_be_kept_is_computed_behind_it(any_device: dml.Device) -> None:
    """The table of 25 numbers takes more memory than the two rows that it follows from; its largest numbers do not."""
    graph = dml.Graph(any_device)
    fifths = np.arange(5, dtype=np.float32) / 5
    table = F.exp(graph.constant(fifths.reshape(1, 5)) * graph.constant(fifths.reshape(5, 1)))
    largest = F.max(table, axis=1, keepdims=True)
    x, w = (graph.input(name, dml.FLOAT32, (5, 5)) for name in "xw")
    model = graph.compile(y=(F.gemm(x, table) + F.gemm(w, table)) * largest)
    a, b = np.random.default_rng(1).random((2, 5, 5), np.float32)
    expected = np.exp(np.outer(fifths, fifths))
    found = any_device.run(model, {"x": a, "w": b})["y"]
    np.testing.assert_allclose(found, (a + b) @ expected * expected.max(1, keepdims=True), rtol=1e-5)
