"""Random graphs, fused, unfused and one by one, have the same bits; random bindings touch no byte of others."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.arrays.tensor_bytes import logical_view
from dmlvk.conformance.execution import Judge, Workbench
from dmlvk.graphs import GraphDesc, InputGraphEdge, IntermediateGraphEdge, OutputGraphEdge
from dmlvk.graphs.compiled import node_values
from dmlvk.graphs.network import NetworkValue
from tests.binding.support import Binding, buffer_with
from tests.effort import IS_QUICK
from tests.graphs.random_graphs import OPERATOR_NAMES, Builder, RandomGraph
from tests.graphs.support import SIZES, TENSOR, X, add, maximum, negate, node

Array = npt.NDArray[Any]

GRAPHS = int(os.environ.get("DMLVK_TEST_GRAPHS", "32" if IS_QUICK else "128"))  # How many random graphs are tried

QUICK = [
    name
    for name in OPERATOR_NAMES
    if re.search("_(ABS|ADD|BIT_AND|CLIP|IDENTITY|IF|LOGICAL_.*|MAX|MIN|NEGATE|RELU|SIGN|SUBTRACT|THRESHOLD)$", name)
]
"""Operators whose shaders the CPU drivers compile in some milliseconds: large graphs are made of these."""


def tried(share: float) -> settings:
    return settings(max_examples=max(1, round(share * GRAPHS)))


def value_bytes(array: Array, tensor: dml.TensorDesc) -> npt.NDArray[np.uint8]:
    """A value's bytes as they lie in memory; zeros between the elements."""
    contents = np.zeros(tensor.size_in_bytes + 8, np.uint8)
    logical_view(contents, tensor)[...] = array
    return contents


def faults(graph: RandomGraph, compiled: dml.CompiledGraph, values: dict[str, Array]) -> list[str]:
    """What is wrong with the values inside a graph, each operator judged by what it was given."""
    contents: dict[NetworkValue, npt.NDArray[np.uint8]] = {}
    for number, tensor in enumerate(compiled.network.inputs):
        if tensor is not None:
            contents[NetworkValue("input", number)] = value_bytes(graph.inputs[f"Input{number}"], tensor)
    for value, data in compiled.network.constants.items():
        contents[value] = np.frombuffer(data + bytes(8), np.uint8)
    found = []
    for step in compiled.network.nodes:
        operands = [logical_view(contents[value], tensor).copy() for _, tensor, value in step.reads()]
        ((_, output, value),) = step.writes()
        contents[value] = value_bytes(values[step.name], output)
        fault = Judge(step.desc, operands).fault(f"{step.name} {step.desc.operator_name}", values[step.name])
        if fault is not None:
            found.append(fault)
    return found


def check_graph(benches: list[Workbench], seed: int, count: int, operators: Sequence[str] | None = None) -> None:
    """Runs one graph on every device, fused; on the last one every operator by itself, judged by its reference.

    Every fourth graph is run there unfused as well. All of these give the same bits.
    """
    expected: dict[str, Array] = {}
    for bench in reversed(benches):
        where = f"seed {seed}, {count} nodes, {bench.device.info.name}"
        graph = Builder(bench.device, Random(seed), operators).graph(count)
        if bench is benches[-1]:
            unfused = bench.device.compile_graph(graph.desc, fuse=False)
            values = node_values(unfused, graph.inputs)
            assert not faults(graph, unfused, values), where
            for number, (value, _) in enumerate(unfused.network.outputs):
                expected[f"Output{number}"] = values[f"n{value.index}"]
            if seed % 4 == 0:
                for name, array in bench.device.run(unfused, graph.inputs).items():
                    assert array.tobytes() == expected[name].tobytes(), f"{where}: {name} differs when unfused"
        fused = bench.device.compile_graph(graph.desc)
        assert fused.fusion_remark == "", where
        for name, array in bench.device.run(fused, graph.inputs).items():
            assert array.tobytes() == expected[name].tobytes(), f"{where}: {name} differs when fused"


@given(seed=st.integers(0, 2**32), count=st.integers(2, 4))
@tried(0.9)
def test_small_graphs_of_all_operators(benches: list[Workbench], seed: int, count: int) -> None:
    check_graph(benches, seed, count)


@given(seed=st.integers(0, 2**32), count=st.integers(5, 40))
@tried(0.1)
def test_large_graphs(benches: list[Workbench], seed: int, count: int) -> None:
    check_graph(benches, seed, count, QUICK)


EXAMPLES = int(os.environ.get("DMLVK_TEST_BINDINGS", "50" if IS_QUICK else "200"))  # How many random bindings are tried

ARENA_BYTES = 4096

WEIGHTS = X[::-1].copy()

EXPECTED = -np.maximum(X, WEIGHTS) + X


class Setting(NamedTuple):
    """A graph -max(x, weights) + x whose weights are OWNED_BY_DML, initialized; and memory to bind it to."""

    graph: dml.CompiledGraph
    arena: dml.Buffer
    persistent: dml.Buffer


@pytest.fixture(scope="module")
def setting(any_device: dml.Device) -> Iterator[Setting]:
    owned = dataclasses.replace(TENSOR, flags=dml.TensorFlags.OWNED_BY_DML)
    operators = [maximum(TENSOR, owned), negate(), add()]
    desc = GraphDesc(
        2,
        1,
        [node(any_device, operator) for operator in operators],
        [InputGraphEdge(0, 0, 0), InputGraphEdge(1, 0, 1), InputGraphEdge(0, 2, 1)],
        [OutputGraphEdge(2, 0, 0)],
        [IntermediateGraphEdge(0, 0, 1, 0), IntermediateGraphEdge(1, 0, 2, 0)],
    )
    graph = any_device.compile_graph(desc, fuse=False)
    assert graph.temporary_resource_size == graph.persistent_resource_size == 256
    with any_device.create_buffer(ARENA_BYTES) as arena, any_device.create_buffer(512) as persistent:
        initializer = any_device.create_operator_initializer([graph])
        table = any_device.create_binding_table(initializer)
        table.bind_inputs([dml.BufferArrayBinding([None, Binding(buffer_with(any_device, WEIGHTS))])])
        table.bind_outputs([Binding(persistent, 0, 256)])
        recorder = any_device.create_command_recorder()
        recorder.record_dispatch(initializer, table)
        recorder.execute()
        yield Setting(graph, arena, persistent)


Range = tuple[int, int | None]

SLOT_BYTES = 256

offsets = st.one_of(st.integers(0, ARENA_BYTES // 16).map(lambda n: 16 * n), st.integers(0, ARENA_BYTES + 8))

sizes = st.one_of(st.sampled_from([96, 256, 255, 97, 95, 0, None]), st.integers(0, ARENA_BYTES))

anything = st.one_of(st.tuples(offsets, sizes), st.none())


class Bound(NamedTuple):
    """What is bound: ranges of the arena, but for the persistent resource."""

    source: Range | None
    weights: Range | None
    target: Range | None
    temporary: Range | None
    persistent: Range | None
    input_count: int


@st.composite
def bindings(draw: st.DrawFn) -> Bound:
    """Bindings that keep every rule, or in which one or two of them are anything."""
    slots = draw(st.permutations(range(ARENA_BYTES // SLOT_BYTES)))
    inside = st.integers(0, (SLOT_BYTES - X.nbytes) // 16).map(lambda n: 16 * n)
    ranges = []
    for slot in slots[:2]:
        offset = draw(inside)
        ranges.append((SLOT_BYTES * slot + offset, draw(st.integers(X.nbytes, SLOT_BYTES - offset))))
    bound = Bound(ranges[0], None, ranges[1], (SLOT_BYTES * slots[2], SLOT_BYTES), (0, 256), 2)
    for change in draw(st.lists(st.sampled_from(Bound._fields), max_size=2)):
        if change == "input_count":
            bound = bound._replace(input_count=draw(st.sampled_from([1, 3])))
        elif change == "persistent":
            others: tuple[Range | None, ...] = ((0, None), (0, 300), (0, 255), (256, 256), (16, 256), None)
            bound = bound._replace(persistent=draw(st.sampled_from(others)))
        else:
            drawn: dict[str, Any] = {change: draw(anything)}
            bound = bound._replace(**drawn)
    return bound


@given(bound=bindings())
@settings(max_examples=EXAMPLES)
def test_random_bindings(setting: Setting, bound: Bound) -> None:
    graph, arena, kept = setting
    before = np.full(ARENA_BYTES, 0xA5, np.uint8)
    source, weights, target, temporary, persistent, count = bound
    if source is not None:
        memory = before[source[0] : source[0] + X.nbytes]
        memory[:] = X.view(np.uint8).ravel()[: memory.size]
    arena.upload(before)
    kept_before = kept.download()
    ran = False
    try:
        table = graph.device.create_binding_table(graph)
        inputs = [None if at is None else Binding(arena, *at) for at in (source, weights)]
        table.bind_inputs([*inputs, None][:count])
        table.bind_outputs([None if target is None else Binding(arena, *target)])
        table.bind_temporary_resource(None if temporary is None else Binding(arena, *temporary))
        table.bind_persistent_resource(None if persistent is None else Binding(kept, *persistent))
        recorder = graph.device.create_command_recorder()
        recorder.record_dispatch(graph, table)
        recorder.execute()
        ran = True
    except dml.DmlError as error:
        assert str(error)
    after = arena.download()
    assert (kept.download() == kept_before).all()
    if not ran:
        assert (after == before).all()
        return
    assert source is not None
    assert target is not None
    assert temporary is not None
    result = after[target[0] : target[0] + X.nbytes].view(np.float32).reshape(SIZES)
    assert (result == EXPECTED).all()
    for begin, length in ((target[0], X.nbytes), (temporary[0], 256)):
        after[begin : begin + length] = before[begin : begin + length]
    assert (after == before).all()
