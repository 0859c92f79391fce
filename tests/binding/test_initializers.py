"""Operator initializers, and inputs that are OWNED_BY_DML (rules 20, 31 to 38, 51, 55 to 57, 60 to 63, 66)."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from tests.binding.support import Binding, buffer_with, compiled, floats, sign, table_for

OWNED = dml.TensorFlags.OWNED_BY_DML
A = np.linspace(-4, 4, 24, dtype=np.float32)
B = np.arange(24, dtype=np.float32)[::-1] - 11
Array = npt.NDArray[Any]


def owned(*sizes: int, strides: Sequence[int] | None = None, data_type: dml.DataType = dml.FLOAT32) -> dml.TensorDesc:
    return dml.TensorDesc(data_type, sizes, strides, flags=OWNED)


def maximum(a: dml.TensorDesc, b: dml.TensorDesc) -> dml.OperatorDesc:
    return dml.ElementWiseMax(a_tensor=a, b_tensor=b, output_tensor=floats(*a.sizes))


def initialize(
    device: dml.Device,
    targets: Sequence[dml.CompiledOperator],
    inputs: Sequence[dml.BufferArrayBinding | None],
    outputs: Sequence[Binding | None],
    recorder: dml.CommandRecorder | None = None,
) -> None:
    """Records an initializer, and runs it unless it goes into a recorder that was given."""
    initializer = device.create_operator_initializer(targets)
    table = device.create_binding_table(initializer)
    table.bind_inputs(inputs)
    table.bind_outputs(outputs)
    into = recorder or device.create_command_recorder()
    into.record_dispatch(initializer, table)
    if recorder is None:
        into.execute()


class Setting(NamedTuple):
    """MAX(A, B) with A owned; B and the output in buffers; a persistent resource; A's buffer."""

    device: dml.Device
    operator: dml.CompiledOperator
    a: dml.Buffer
    b: dml.Buffer
    output: dml.Buffer
    persistent: dml.Buffer

    def table(self, persistent: Binding | None = None) -> dml.BindingTable:
        table = table_for(self.operator, [None, Binding(self.b)], [Binding(self.output)])
        table.bind_persistent_resource(persistent or Binding(self.persistent))
        return table

    def initialize(self) -> None:
        initialize(
            self.device, [self.operator], [dml.BufferArrayBinding([Binding(self.a), None])], [Binding(self.persistent)]
        )

    def execute(self, persistent: Binding | None = None) -> Array:
        recorder = self.device.create_command_recorder()
        recorder.record_dispatch(self.operator, self.table(persistent))
        recorder.execute()
        return self.output.download(np.float32)


@pytest.fixture
def setting(device: dml.Device) -> Iterator[Setting]:
    operator = compiled(device, maximum(owned(24), floats(24)))
    with (
        buffer_with(device, A) as a,
        buffer_with(device, B) as b,
        device.create_buffer(96) as output,
        device.create_buffer(1024) as persistent,
    ):
        yield Setting(device, operator, a, b, output, persistent)


def test_owned_input_is_copied_at_initialization_and_not_bound_at_execution(setting: Setting) -> None:
    """Rules 20, 31, 55, 62: later changes of the buffer that it came from do not matter."""
    properties = setting.operator.binding_properties
    assert properties.persistent_resource_size == 256 and properties.temporary_resource_size == 0
    assert properties.required_descriptor_count == 4
    setting.initialize()
    setting.a.upload(np.full(24, 100, np.float32))
    assert np.array_equal(setting.execute(), np.maximum(A, B))
    setting.a.close()
    setting.b.upload(-B)
    assert np.array_equal(setting.execute(), np.maximum(A, -B))
    assert np.array_equal(setting.persistent.download(np.float32, 24), A)  # rule 62: executing writes nothing there


def test_initializing_and_executing_go_into_one_submission(setting: Setting) -> None:
    recorder = setting.device.create_command_recorder()
    arrays = [dml.BufferArrayBinding([Binding(setting.a), None])]
    initialize(setting.device, [setting.operator], arrays, [Binding(setting.persistent)], recorder)
    recorder.record_dispatch(setting.operator, setting.table())
    assert [dispatch.depends for dispatch in recorder.dispatches] == [False, True]
    recorder.execute()
    assert np.array_equal(setting.output.download(np.float32), np.maximum(A, B))
    with pytest.raises(dml.InvalidArgumentError, match=r"target 0 \(ELEMENT_WISE_MAX\) is initialized already"):
        recorder.execute()  # rule 31: only once


def test_every_width_and_layout_of_owned_inputs_keeps_its_bytes(device: dml.Device) -> None:
    """Copied as bytes: 8- and 64-bit elements, strides, several owned inputs, ranges inside buffers."""
    condition = owned(5, 3, data_type=dml.UINT8)
    a = owned(5, 3, strides=(1, 6), data_type=dml.INT64)
    b = owned(5, 3, strides=(0, 1), data_type=dml.INT64)
    output = dml.TensorDesc(dml.INT64, (5, 3))
    desc = dml.ElementWiseIf(condition_tensor=condition, a_tensor=a, b_tensor=b, output_tensor=output)
    operator = compiled(device, desc)
    assert operator.binding_properties.persistent_resource_size == 3 * 256
    random = np.random.default_rng(3)
    conditions = random.integers(0, 2, 16, np.uint8)
    values = random.integers(-(2**60), 2**60, 20)
    row = random.integers(-(2**60), 2**60, 4)
    contents = np.zeros(64, np.int64)
    contents[2:22], contents[32:36] = values, row
    with (
        buffer_with(device, conditions) as first,
        buffer_with(device, contents) as second,
        device.create_buffer(2048) as persistent,
        device.create_buffer(output.size_in_bytes) as result,
    ):
        array = dml.BufferArrayBinding([Binding(first), Binding(second, 16), Binding(second, 256)])
        initialize(device, [operator], [array], [Binding(persistent, 512, 768)])
        table = table_for(operator, [None, None, None], [Binding(result)])
        table.bind_persistent_resource(Binding(persistent, 512, 768))
        recorder = device.create_command_recorder()
        recorder.record_dispatch(operator, table)
        recorder.execute()
        transposed = np.lib.stride_tricks.as_strided(values, (5, 3), (8, 48))
        expected = np.where(conditions[:15].reshape(5, 3) != 0, transposed, row[:3])
        assert np.array_equal(result.download(np.int64, (5, 3)), expected)
        assert not persistent.download(np.uint8, 512).any()  # nothing outside the range is written


def test_one_initializer_for_many_operators(device: dml.Device) -> None:
    """Rules 34, 56, 57: one array and one persistent resource for each; nothing for those that own no inputs."""
    first = compiled(device, maximum(owned(24), floats(24)))
    second = compiled(device, sign(floats(4)))
    third = compiled(device, maximum(floats(24), owned(24)))
    with (
        buffer_with(device, A) as a,
        buffer_with(device, B) as b,
        device.create_buffer(1024) as persistent,
        device.create_buffer(96) as output,
    ):
        arrays = [dml.BufferArrayBinding([Binding(a), None]), None, dml.BufferArrayBinding([None, Binding(b)])]
        bindings = [Binding(persistent, 256, 256), None, Binding(persistent, 768, 256)]
        initialize(device, [first, second, third], arrays, bindings)
        assert first.is_initialized and second.is_initialized and third.is_initialized
        for operator, inputs, index in ((first, [None, Binding(b)], 0), (third, [Binding(a), None], 2)):
            table = table_for(operator, inputs, [Binding(output)])
            table.bind_persistent_resource(bindings[index])
            recorder = device.create_command_recorder()
            recorder.record_dispatch(operator, table)
            recorder.execute()
            assert np.array_equal(output.download(np.float32), np.maximum(A, B))


@pytest.mark.parametrize("nothing", [None, (), []])
def test_initializer_without_targets_does_nothing(device: dml.Device, nothing: Any) -> None:
    """Rules 34, 38."""
    initializer = device.create_operator_initializer(nothing)
    assert initializer.binding_properties == dml.BindingProperties(0, 0, 0)
    recorder = device.create_command_recorder()
    recorder.record_dispatch(initializer, device.create_binding_table(initializer))
    recorder.execute()
    recorder.execute()


def test_operators_without_owned_inputs_need_no_initialization_but_may_have_it_once(device: dml.Device) -> None:
    operator = compiled(device, sign(floats(24)))
    with buffer_with(device, A) as source, device.create_buffer(96) as output:
        for _ in range(2):
            recorder = device.create_command_recorder()
            recorder.record_dispatch(operator, table_for(operator, [Binding(source)], [Binding(output)]))
            recorder.execute()
            assert np.array_equal(output.download(np.float32), np.sign(A))
            if not operator.is_initialized:
                initialize(device, [operator], [], [])
    with pytest.raises(dml.InvalidArgumentError, match=r"target 0 \(ELEMENT_WISE_SIGN\) is initialized already"):
        device.create_operator_initializer([operator])


def test_reset_gives_an_initializer_other_targets(device: dml.Device) -> None:
    """Rule 35: the binding properties change, and tables must follow."""
    operator = compiled(device, maximum(owned(24), owned(24)))
    initializer = device.create_operator_initializer()
    table = device.create_binding_table(initializer)
    initializer.reset([operator])
    assert initializer.binding_properties == dml.BindingProperties(3, 0, 0)
    recorder = device.create_command_recorder()
    calls: list[Callable[[], object]] = [
        lambda: table.bind_inputs([None]),
        lambda: table.bind_outputs([None]),
        lambda: recorder.record_dispatch(initializer, table),
    ]
    for call in calls:
        with pytest.raises(dml.InvalidArgumentError, match=r"was reset after this binding table was made for it"):
            call()
    table.reset(initializer)
    with buffer_with(device, A) as a, device.create_buffer(512) as persistent:
        table.bind_inputs([dml.BufferArrayBinding([Binding(a), Binding(a)])])
        table.bind_outputs([Binding(persistent)])
        recorder.record_dispatch(initializer, table)
        initializer.reset(None)  # what was recorded stays recorded
        recorder.execute()
        assert operator.is_initialized
        assert np.array_equal(persistent.download(np.float32, 24, 256), A)


def test_execution_before_initialization_is_refused(setting: Setting) -> None:
    """Rule 31."""
    setting.output.upload(B)
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_MAX: is not initialized: execute an operator"):
        setting.execute()
    assert np.array_equal(setting.output.download(np.float32), B)
    setting.initialize()
    assert np.array_equal(setting.execute(), np.maximum(A, B))


def test_persistent_resource_may_not_move(setting: Setting) -> None:
    """Rule 63."""
    setting.initialize()
    with setting.device.create_buffer(256) as other:
        other.upload(setting.persistent.download(np.uint8, 256))
        for binding in (Binding(other), Binding(setting.persistent, 256)):
            with pytest.raises(dml.InvalidArgumentError, match=r"must be bound to the place that its initial"):
                setting.execute(binding)
    assert np.array_equal(setting.execute(), np.maximum(A, B))


def test_failed_initialization_leaves_the_operator_uninitialized(setting: Setting) -> None:
    recorder = setting.device.create_command_recorder()
    other = compiled(setting.device, maximum(owned(24), floats(24)))
    arrays = [dml.BufferArrayBinding([Binding(setting.a), None])]
    initialize(setting.device, [setting.operator], arrays, [Binding(setting.persistent)], recorder)
    table = table_for(other, [None, Binding(setting.b)], [Binding(setting.output)])
    table.bind_persistent_resource(Binding(setting.persistent, 512))
    recorder.record_dispatch(other, table)
    with pytest.raises(dml.InvalidArgumentError, match="is not initialized"):
        recorder.execute()
    assert not setting.operator.is_initialized
    setting.initialize()
    assert np.array_equal(setting.execute(), np.maximum(A, B))


def test_initializers_keep_no_memory_of_the_application_alive(setting: Setting) -> None:
    setting.initialize()
    operator = compiled(setting.device, maximum(owned(24), floats(24)))
    persistent = setting.device.create_buffer(256)
    initialize(setting.device, [operator], [dml.BufferArrayBinding([Binding(setting.a), None])], [Binding(persistent)])
    gone = weakref.ref(persistent)
    del persistent
    gc.collect()
    assert gone() is None and operator.is_initialized


# Each: what is bound to an initializer of [MAX with A owned, SIGN], how, and what the message says.
MAX_ = r"^OperatorInitializer: target 0 \(ELEMENT_WISE_MAX\)"
WRONG: dict[str, tuple[str, Callable[[Setting], Any], str]] = {
    "no array": ("inputs", lambda s: [None, None], MAX_ + r": ATensor: must be bound$"),
    "an empty array": ("inputs", lambda s: [dml.BufferArrayBinding(), None], MAX_ + r": ATensor: must be bound$"),
    "a binding for the array": (
        "inputs",
        lambda s: [Binding(s.a), None],
        MAX_ + r": must be bound to a BufferArrayBinding or None; got BufferBinding",
    ),
    "too few in the array": (
        "inputs",
        lambda s: [dml.BufferArrayBinding([Binding(s.a)]), None],
        MAX_ + r": its BufferArrayBinding must have 2 entries, optional tensors included; got 1$",
    ),
    "an input that is not owned": (
        "inputs",
        lambda s: [dml.BufferArrayBinding([Binding(s.a), Binding(s.b)]), None],
        MAX_ + r": BTensor: is not OWNED_BY_DML, so it is not bound here$",
    ),
    "an input of a target without owned ones": (
        "inputs",
        lambda s: [dml.BufferArrayBinding([Binding(s.a), None]), dml.BufferArrayBinding([Binding(s.b)])],
        r"target 1 \(ELEMENT_WISE_SIGN\): InputTensor: is not OWNED_BY_DML",
    ),
    "one array for two targets": (
        "inputs",
        lambda s: [dml.BufferArrayBinding([Binding(s.a), None])],
        r"^OperatorInitializer: bind_inputs takes 2 BufferArrayBindings, one for each target; got 1$",
    ),
    "an array that is no sequence": (
        "inputs",
        lambda s: dml.BufferArrayBinding([Binding(s.a), None]),
        r"bind_inputs takes a sequence of BufferArrayBindings; got BufferArrayBinding",
    ),
    "too small a range": (
        "inputs",
        lambda s: [dml.BufferArrayBinding([Binding(s.a, 16), None]), None],
        MAX_ + r": ATensor: the binding's size must be at least TotalTensorSizeInBytes 96; got 80$",
    ),
    "no persistent resource": ("outputs", lambda s: [None, None], MAX_ + r": the persistent resource: must be bound$"),
    "one where none is needed": (
        "outputs",
        lambda s: [Binding(s.persistent), Binding(s.output)],
        r"target 1 \(ELEMENT_WISE_SIGN\): the persistent resource: needs none, so nothing can be bound to it$",
    ),
    "misaligned": (
        "outputs",
        lambda s: [Binding(s.persistent, 128), None],
        MAX_ + r": the persistent resource: the binding's offset must be a multiple of 256 bytes; got 128$",
    ),
    "too small": (
        "outputs",
        lambda s: [Binding(s.persistent, 768, 255), None],
        MAX_ + r": the persistent resource: the binding's size must be at least 256; got 255$",
    ),
    "a persistent resource in an input's buffer": (
        "outputs",
        lambda s: [Binding(s.a, 256), None],
        r"must not lie in one buffer, not even side by side: an operator is initialized from buffers",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_what_an_initializers_table_refuses(any_device: dml.Device, mistake: str) -> None:
    """Rules 20, 51, 53, 56, 57, 66: a mistake changes nothing."""
    side, make, message = WRONG[mistake]
    operators = [compiled(any_device, maximum(owned(24), floats(24))), compiled(any_device, sign(floats(24)))]
    with any_device.create_buffer(1024) as a, buffer_with(any_device, A) as b:
        a.upload(A)
        setting = Setting(
            any_device, operators[0], a, b, any_device.create_buffer(1024), any_device.create_buffer(1024)
        )
        if "too small a range" in mistake:
            setting = setting._replace(a=buffer_with(any_device, A))
        table = any_device.create_binding_table(any_device.create_operator_initializer(operators))
        table.bind_inputs([dml.BufferArrayBinding([Binding(setting.a), None]), None])
        if side == "inputs":
            table.bind_outputs([Binding(setting.persistent), None])
        before = None if side == "outputs" else table.snapshot()
        with pytest.raises(dml.InvalidArgumentError, match=message):
            getattr(table, f"bind_{side}")(make(setting))
        if before is not None:
            assert table.snapshot() == before
        else:
            table.bind_outputs([Binding(setting.persistent), None])
            table.snapshot()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda device, operator: [operator, operator], r"target 1 \(ELEMENT_WISE_MAX\) is there twice$"),
        (lambda device, operator: operator, r"takes a sequence of CompiledOperators; got <dmlvk\.Compiled"),
        (lambda device, operator: [sign(floats(4))], r"target 0 must be a CompiledOperator; got ElementWiseSign"),
        (
            lambda device, operator: [device.create_operator_initializer()],
            r"target 0 must be a CompiledOperator; got <dmlvk\.OperatorInitializer of 0",
        ),
    ],
)
def test_what_an_initializer_refuses(any_device: dml.Device, make: Any, message: str) -> None:
    operator = compiled(any_device, maximum(owned(24), floats(24)))
    with pytest.raises(dml.InvalidArgumentError, match=f"^OperatorInitializer: {message}"):
        any_device.create_operator_initializer(make(any_device, operator))
    with dml.Device(any_device.info.index) as other:
        foreign = compiled(other, maximum(owned(24), floats(24)))
        with pytest.raises(dml.InvalidArgumentError, match=r"target 0 \(ELEMENT_WISE_MAX\) was compiled by another"):
            any_device.create_operator_initializer([foreign])


def test_what_an_operators_table_refuses(setting: Setting) -> None:
    """Rules 20, 38, 51, 60, 67, 68."""
    table = setting.table()
    reason = "is OWNED_BY_DML, so it is bound when the operator is initialized and not when it is executed"
    with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_MAX: ATensor: {reason}$"):
        table.bind_inputs([Binding(setting.a), Binding(setting.b)])
    with pytest.raises(dml.InvalidArgumentError, match=r"persistent resource: the binding's size must be at least 256"):
        table.bind_persistent_resource(Binding(setting.persistent, 0, 255))
    with pytest.raises(dml.InvalidArgumentError, match=r"OutputTensor and the persistent resource must not share"):
        table.bind_outputs([Binding(setting.persistent, 64)])
    table.bind_inputs([None, Binding(setting.persistent, 0)])  # rule 67: both are only read
    table.bind_persistent_resource(None)
    recorder = setting.device.create_command_recorder()
    message = re.escape("ELEMENT_WISE_MAX: its persistent resource of 256 bytes is not bound")
    with pytest.raises(dml.InvalidArgumentError, match=f"^{message}$"):
        recorder.record_dispatch(setting.operator, table)


def test_run_takes_arrays_for_owned_inputs_too(device: dml.Device) -> None:
    """``Device.run`` needs no initialization, and takes other arrays at every call."""
    desc = maximum(owned(4, 6), dml.TensorDesc(dml.FLOAT32, (4, 6), (0, 1), flags=OWNED))
    operator = compiled(device, desc)
    for a, b in ((A, B), (B, A), (-A, B)):
        row = b[:6].reshape(1, 6)
        for what in (desc, operator):
            found = device.run(what, {"ATensor": a.reshape(4, 6), "BTensor": row})["OutputTensor"]
            assert np.array_equal(found, np.maximum(a.reshape(4, 6), row))


def test_closed_device_answers_every_call_on_an_initializer(any_device: dml.Device) -> None:
    device = dml.Device(any_device.info.index)
    initializer = device.create_operator_initializer()
    table = device.create_binding_table(initializer)
    device.close()
    calls: list[Callable[[], object]] = [
        lambda: device.create_operator_initializer(),
        lambda: initializer.reset(),
        lambda: table.bind_inputs(None),
        lambda: table.bind_outputs(None),
    ]
    for call in calls:
        with pytest.raises(dml.DeviceRemovedError, match="the device was closed"):
            call()
