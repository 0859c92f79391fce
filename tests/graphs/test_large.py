"""Graphs of 10,000 operators are compiled in seconds, and what takes long says how far it is."""

from __future__ import annotations

import logging
import sys
import time
from random import Random

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.graphs import stages
from dmlvk.graphs.fusion.functions import function_of
from dmlvk.graphs.fusion.grouping import KernelLimits, grouped
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.program import Program
from dmlvk.kernels.target import Target
from dmlvk.support.progress import with_progress

COUNT = 10_000
SIZES = (4, 16)
FORMS = (
    lambda a, b: a + b,
    lambda a, b: F.max(a, b),
    lambda a, b: abs(a),
    lambda a, b: a - b,
)


def chain(x: dml.Expression, y: dml.Expression) -> dict[str, dml.Expression]:
    """Each operator reads the one before."""
    value = x
    for number in range(COUNT):
        value = FORMS[number % 4](value, y)
    return {"output": value}


def random_network(x: dml.Expression, y: dml.Expression) -> dict[str, dml.Expression]:
    """Each operator reads one of the last fifty values and any other; every value that nobody reads is an output."""
    random = Random(10)
    values, read = [x, y], set()
    for number in range(COUNT):
        one, other = random.randrange(max(0, len(values) - 50), len(values)), random.randrange(len(values))
        read |= {one, other} if number % 4 != 2 else {one}
        values.append(FORMS[number % 4](values[one], values[other]))
    return {f"output{number}": value for number, value in enumerate(values) if number not in read}


@pytest.mark.parametrize("form", [chain, pytest.param(random_network, marks=pytest.mark.sweep)])
def test_graphs_of_ten_thousand_operators_are_compiled_in_seconds(form: object, any_device: dml.Device) -> None:
    assert callable(form)
    device = any_device  # nothing is run, and no driver compiles anything
    graph = dml.Graph(device)
    x, y = (graph.input(name, dml.FLOAT32, SIZES) for name in ("x", "y"))
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
    lowered: list[str] = []

    def counted(desc: dml.OperatorDesc, target: Target) -> Program:
        lowered.append(desc.operator_name)
        return lower(desc, target)

    monkeypatch.setattr(stages, "lower", counted)
    graph = dml.Graph(any_device)
    x = y = graph.input("x", dml.FLOAT32, (4, 4))
    for _ in range(50):
        y = F.gemm(y, x)
    compiled = graph.compile({"y": F.gemm(y, x, alpha=0.5)}, fuse=fuse)
    assert len(compiled.stages) == 51
    assert lowered == ["GEMM"] * 2
    rotation = np.kron(np.eye(2), [[0, 1], [-1, 0]]).astype(np.float32)
    expected = np.linalg.matrix_power(rotation.astype(np.float64), 52) / 2
    np.testing.assert_array_equal(any_device.run(compiled, {"x": rotation})["y"], expected)
