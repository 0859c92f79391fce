"""Random graphs: fused, unfused and one by one the same bits on every device, within the operators' promises."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.arrays.tensor_bytes import logical_view
from dmlvk.conformance.execution import Judge, Workbench
from dmlvk.graphs.inspection import node_values
from dmlvk.graphs.network import NetworkValue
from tests.effort import IS_QUICK
from tests.graphs.random_graphs import OPERATOR_NAMES, Builder, RandomGraph

Array = npt.NDArray[Any]

GRAPHS = int(os.environ.get("DMLVK_TEST_GRAPHS", "32" if IS_QUICK else "128"))
"""How many random graphs are tried."""

QUICK = [
    name
    for name in OPERATOR_NAMES
    if re.search("_(ABS|ADD|BIT_AND|CLIP|IDENTITY|IF|LOGICAL_.*|MAX|MIN|NEGATE|RELU|SIGN|SUBTRACT|THRESHOLD)$", name)
]
"""Operators whose shaders the CPU drivers compile in some milliseconds: large graphs are made of these."""


def tried(share: float) -> settings:
    """Settings for this share of all graphs."""
    return settings(
        max_examples=max(1, round(share * GRAPHS)),
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


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
    for node in compiled.network.nodes:
        operands = [logical_view(contents[value], tensor).copy() for _, tensor, value in node.reads()]
        ((_, output, value),) = node.writes()
        contents[value] = value_bytes(values[node.name], output)
        fault = Judge(node.desc, operands).fault(f"{node.name} {node.desc.operator_name}", values[node.name])
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
