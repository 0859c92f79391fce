"""Any bindings of a graph end in the right result or in an error, and never touch a byte that is not theirs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.graphs import GraphDesc, InputGraphEdge, IntermediateGraphEdge, OutputGraphEdge
from tests.binding.support import Binding, buffer_with
from tests.graphs.support import SIZES, TENSOR, X, add, maximum, negate, node

EXAMPLES = int(os.environ.get("DMLVK_TEST_BINDINGS", "200"))
"""How many random bindings are tried."""

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


offsets = st.one_of(st.integers(0, ARENA_BYTES // 256).map(lambda n: 256 * n), st.integers(0, 64).map(lambda n: 16 * n))
sizes = st.one_of(st.sampled_from([96, 96, 256, 255, 97, 95, 0, None]), st.integers(0, ARENA_BYTES))
ranges = st.tuples(st.one_of(offsets, offsets, st.integers(0, ARENA_BYTES + 8)), sizes)
places = st.one_of(ranges, ranges, ranges, ranges, st.none())


@given(
    source=places,
    weights=st.one_of(st.none(), st.none(), st.none(), ranges),
    target=places,
    temporary=places,
    persistent=st.sampled_from([(0, 256), (0, 256), (0, None), (0, 300), (256, 256), None]),
    count=st.sampled_from([2, 2, 2, 2, 1, 3]),
)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
def test_random_bindings(
    setting: Setting,
    source: tuple[int, int | None] | None,
    weights: tuple[int, int | None] | None,
    target: tuple[int, int | None] | None,
    temporary: tuple[int, int | None] | None,
    persistent: tuple[int, int | None] | None,
    count: int,
) -> None:
    graph, arena, kept = setting
    before = np.full(ARENA_BYTES, 0xA5, np.uint8)
    if source is not None:
        place = before[source[0] : source[0] + X.nbytes]
        place[:] = X.view(np.uint8).ravel()[: place.size]
    arena.upload(before)
    kept_before = kept.download()
    ran = False
    try:
        table = graph.device.create_binding_table(graph)
        bound = [None if at is None else Binding(arena, *at) for at in (source, weights, target, temporary)]
        table.bind_inputs([*bound[:2], None][:count])
        table.bind_outputs([bound[2]])
        table.bind_temporary_resource(bound[3])
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
