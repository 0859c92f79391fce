"""DESCRIPTORS_VOLATILE (rule 82): bindings may be set or changed after recording, until the work is submitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

import dmlvk as dml
from tests.binding.support import Binding, buffer_with, compiled, floats, sign, table_for

VALUES = np.linspace(-3, 3, 16, dtype=np.float32)


class Setting(NamedTuple):
    """SIGN with volatile descriptors, two inputs and two outputs to choose from."""

    device: dml.Device
    operator: dml.CompiledOperator
    inputs: tuple[dml.Buffer, dml.Buffer]
    outputs: tuple[dml.Buffer, dml.Buffer]


@pytest.fixture
def setting(device: dml.Device) -> Iterator[Setting]:
    operator = device.compile_operator(
        device.create_operator(sign(floats(16))), dml.ExecutionFlags.DESCRIPTORS_VOLATILE
    )
    with (
        buffer_with(device, VALUES) as first,
        buffer_with(device, -VALUES) as second,
        device.create_buffer(64) as third,
        device.create_buffer(64) as fourth,
    ):
        yield Setting(device, operator, (first, second), (third, fourth))


def test_bindings_are_read_at_every_submission(setting: Setting) -> None:
    table = setting.device.create_binding_table(setting.operator)
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(setting.operator, table)  # nothing is bound yet
    for number in (0, 1, 1, 0):
        table.bind_inputs([Binding(setting.inputs[number])])
        table.bind_outputs([Binding(setting.outputs[number])])
        setting.outputs[number].upload(np.full(16, 7, np.float32))
        recorder.execute()
        expected = np.sign(VALUES) if number == 0 else np.sign(-VALUES)
        assert np.array_equal(setting.outputs[number].download(np.float32), expected)


def test_what_is_missing_is_missed_when_it_is_submitted(setting: Setting) -> None:
    table = setting.device.create_binding_table(setting.operator)
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(setting.operator, table)
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its inputs are not bound$"):
        recorder.execute()
    table.bind_inputs([Binding(setting.inputs[0])])
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its outputs are not bound$"):
        recorder.submit()
    table.bind_outputs([Binding(setting.outputs[0])])
    recorder.execute()
    assert np.array_equal(setting.outputs[0].download(np.float32), np.sign(VALUES))


def test_dependencies_follow_the_bindings(setting: Setting) -> None:
    """Two dispatches that are independent or not, depending on what is bound when they are submitted."""
    tables = [setting.device.create_binding_table(setting.operator) for _ in range(2)]
    recorder = setting.device.create_command_recorder()
    for table in tables:
        recorder.record_dispatch(setting.operator, table)
    tables[0].bind_inputs([Binding(setting.inputs[0])])
    tables[0].bind_outputs([Binding(setting.outputs[0])])
    tables[1].bind_inputs([Binding(setting.inputs[1])])
    tables[1].bind_outputs([Binding(setting.outputs[1])])
    recorder.execute()
    assert [dispatch.depends for dispatch in recorder.dispatches] == [False, False]
    tables[1].bind_inputs([Binding(setting.outputs[0])])
    recorder.execute()
    assert [dispatch.depends for dispatch in recorder.dispatches] == [False, True]
    assert np.array_equal(setting.outputs[1].download(np.float32), np.sign(VALUES))


def test_other_operators_keep_what_was_bound_when_they_were_recorded(setting: Setting) -> None:
    """Rule 43 holds without the flag, beside an operator that has it."""
    plain = compiled(setting.device, sign(floats(16)))
    first = table_for(plain, [Binding(setting.inputs[0])], [Binding(setting.outputs[0])])
    late = setting.device.create_binding_table(setting.operator)
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(plain, first)
    recorder.record_dispatch(setting.operator, late)
    first.bind_inputs([Binding(setting.inputs[1])])
    late.bind_inputs([Binding(setting.inputs[1])])
    late.bind_outputs([Binding(setting.outputs[1])])
    recorder.execute()
    assert np.array_equal(setting.outputs[0].download(np.float32), np.sign(VALUES))
    assert np.array_equal(setting.outputs[1].download(np.float32), np.sign(-VALUES))


def test_the_table_belongs_to_the_operator_until_it_is_submitted(setting: Setting) -> None:
    table = table_for(setting.operator, [Binding(setting.inputs[0])], [Binding(setting.outputs[0])])
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(setting.operator, table)
    table.reset(compiled(setting.device, sign(floats(4))))
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its binding table was reset for another"):
        recorder.execute()
    table.reset(setting.operator)
    table.bind_inputs([Binding(setting.inputs[1])])
    table.bind_outputs([Binding(setting.outputs[1])])
    recorder.execute()
    assert np.array_equal(setting.outputs[1].download(np.float32), np.sign(-VALUES))


def test_closed_buffers_are_named(setting: Setting) -> None:
    table = table_for(setting.operator, [Binding(setting.inputs[0])], [Binding(setting.outputs[0])])
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(setting.operator, table)
    recorder.execute()
    setting.inputs[0].close()
    with pytest.raises(dml.InvalidArgumentError, match=r"InputTensor: the buffer that is bound to it was closed$"):
        recorder.execute()
