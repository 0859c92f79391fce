"""Compiled graphs run as compiled operators do: bound, initialized, recorded once, with no needless waiting."""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.graphs import ConstantGraphNode, GraphDesc, InputGraphEdge, IntermediateGraphEdge, OutputGraphEdge
from dmlvk.kernels.program import BindingKind
from dmlvk.runtime.vulkan.devices import DeviceLimits
from tests.binding.support import Binding, buffer_with, floats, sign, table_for, threshold
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
    uploaded: list[tuple[object, int]] = []
    upload = dml.Buffer.upload

    def noted(buffer: dml.Buffer, array: Any, offset: int = 0) -> None:
        uploaded.append((array, offset))
        upload(buffer, array, offset)

    monkeypatch.setattr(dml.Buffer, "upload", noted)
    given = [np.random.default_rng(seed).standard_normal(SIZES).astype(np.float32) for seed in (1, 2)]
    graph = dml.Graph(device)
    first, second = map(graph.constant, given)
    compiled = graph.compile(y=graph.input("x", dml.FLOAT32, SIZES) * first + second)
    contents = [node.contents for node in compiled.desc.nodes if isinstance(node, ConstantGraphNode)]
    assert [any(array is each for each in contents) for array, _ in uploaded] == [True, True]
    assert len({offset for _, offset in uploaded}) == 2
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
