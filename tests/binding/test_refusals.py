"""What a binding table refuses (rules 40 to 60): every mistake is one error by name and number, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import dmlvk as dml
from tests.binding.support import (
    NOT_INTEGERS,
    Binding,
    buffer_with,
    compiled,
    execute,
    floats,
    greater_than,
    kind_of,
    select,
    sign,
    table_for,
)

TENSOR_BYTES = 256
VALUES = np.linspace(-3, 3, 64, dtype=np.float32)


class Setting(NamedTuple):
    """A device with two buffers, each as long as four of the tensors, one that was closed and one of another device."""

    device: dml.Device
    first: dml.Buffer
    second: dml.Buffer
    closed: dml.Buffer
    foreign: dml.Buffer

    def table(self) -> dml.BindingTable:
        """SIGN, fully bound to the second quarters of the two buffers."""
        operator = compiled(self.device, sign(floats(64)))
        return table_for(operator, [Binding(self.first, 256, 256)], [Binding(self.second, 256, 256)])


@pytest.fixture(scope="module")
def setting(any_device: dml.Device) -> Iterator[Setting]:
    closed = any_device.create_buffer(4 * TENSOR_BYTES)
    closed.close()
    with (
        dml.Device(any_device.info.index) as other,
        any_device.create_buffer(4 * TENSOR_BYTES) as first,
        any_device.create_buffer(4 * TENSOR_BYTES) as second,
        other.create_buffer(4 * TENSOR_BYTES) as foreign,
    ):
        yield Setting(any_device, first, second, closed, foreign)


# Each: what is bound instead of one binding, and what the message says about it.
WRONG_BINDINGS: dict[str, tuple[Callable[[Setting], Any], str]] = {
    "None where a tensor is": (lambda s: None, r"must be bound$"),
    "a buffer without a range": (lambda s: s.first, r"a BufferBinding or None; got <dmlvk\.Buffer of 1024"),
    "text": (lambda s: "InputTensor", r"must be bound to a BufferBinding or None; got 'InputTensor'"),
    "a number": (lambda s: 7, r"must be bound to a BufferBinding or None; got 7"),
    "a tuple": (lambda s: (s.first, 0, 256), r"must be bound to a BufferBinding or None; got \(<dmlvk\.Buffer"),
    "a sequence in a sequence": (lambda s: [Binding(s.first)], r"a BufferBinding or None; got \[Buffer"),
    "another device's buffer": (lambda s: Binding(s.foreign, 0, 256), r"the buffer belongs to another device"),
    "a closed buffer": (lambda s: Binding(s.closed, 0, 256), r"the buffer was closed"),
    "an offset of 4": (lambda s: Binding(s.first, 4, 256), r"offset must be a multiple of 16 bytes; got 4$"),
    "an offset of 15": (lambda s: Binding(s.first, 15, 256), r"offset must be a multiple of 16 bytes; got 15$"),
    "an offset of 248": (lambda s: Binding(s.first, 248, 256), r"offset must be a multiple of 16 bytes; got 248$"),
    "four bytes too few": (lambda s: Binding(s.first, 0, 252), r"at least TotalTensorSizeInBytes 256; got 252$"),
    "one byte": (lambda s: Binding(s.first, 512, 1), r"must be at least TotalTensorSizeInBytes 256; got 1$"),
    "too little before the end": (lambda s: Binding(s.first, 784), r"at least TotalTensorSizeInBytes 256; got 240$"),
    "beyond the end": (lambda s: Binding(s.first, 784, 256), r"bytes 784 to 1040 lie beyond the buffer's 1024 bytes"),
    "at the end": (lambda s: Binding(s.first, 1024), r"bytes 1024 to 1024 lie beyond the buffer's 1024 bytes"),
    "behind the end": (lambda s: Binding(s.first, 2048, 256), r"bytes 2048 to 2304 lie beyond the buffer's 1024 bytes"),
    "far behind the end": (
        lambda s: Binding(s.first, 2**64 - 16, 2**64 - 1),
        rf"bytes {2**64 - 16} to {2**65 - 17} lie beyond the buffer's 1024 bytes",
    ),
}

WRONG_SEQUENCES: dict[str, tuple[Callable[[Setting], Any], str]] = {
    "one binding alone": (lambda s: Binding(s.first), r"takes a sequence of bindings; got BufferBinding\("),
    "a buffer": (lambda s: s.first, r"takes a sequence of bindings; got <dmlvk\.Buffer"),
    "a number": (lambda s: 1, r"takes a sequence of bindings; got 1$"),
    "a float": (lambda s: float("nan"), r"takes a sequence of bindings; got nan$"),
    "False": (lambda s: False, r"takes a sequence of bindings; got False$"),
    "a mapping": (lambda s: {"InputTensor": Binding(s.first)}, r"takes a sequence of bindings; got \{"),
    "a set": (lambda s: {1}, r"takes a sequence of bindings; got \{1\}"),
    "a generator": (lambda s: (b for b in [Binding(s.first)]), r"takes a sequence of bindings; got <generator"),
    "text": (lambda s: "ab", r"takes 1 bindings, optional tensors included; got 2$"),
    "an array": (lambda s: np.zeros(3), r"takes a sequence of bindings; got array"),
    "too many": (lambda s: [Binding(s.first)] * 2, r"takes 1 bindings, optional tensors included; got 2$"),
    "many too many": (lambda s: [None] * 1000, r"takes 1 bindings, optional tensors included; got 1000$"),
}


@pytest.mark.parametrize("mistake", WRONG_BINDINGS)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_wrong_binding_is_refused_by_member_and_changes_nothing(setting: Setting, side: str, mistake: str) -> None:
    """Rules 43, 45, 48 to 50, 54."""
    make, message = WRONG_BINDINGS[mistake]
    table = setting.table()
    before = table.snapshot()
    member = "InputTensor" if side == "inputs" else "OutputTensor"
    with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_SIGN: {member}: .*{message}"):
        getattr(table, f"bind_{side}")([make(setting)])
    assert table.snapshot() == before


@pytest.mark.parametrize("mistake", WRONG_SEQUENCES)
@pytest.mark.parametrize("call", ["bind_inputs", "bind_outputs"])
def test_wrong_sequence_of_bindings_is_refused_and_changes_nothing(setting: Setting, call: str, mistake: str) -> None:
    """Rule 53: as many bindings as tensors, in a sequence."""
    make, message = WRONG_SEQUENCES[mistake]
    table = setting.table()
    before = table.snapshot()
    with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_SIGN: {call} {message}"):
        getattr(table, call)(make(setting))
    assert table.snapshot() == before


def test_refused_bindings_leave_earlier_ones_and_all_contents_as_they_were(setting: Setting) -> None:
    """After every refusal of both sides, the table still runs what was bound first, and nothing else is written."""
    setting.first.upload(np.tile(VALUES, 4))
    setting.second.upload(np.full(256, 7, np.float32))
    table = setting.table()
    for mistakes, in_list in ((WRONG_BINDINGS, True), (WRONG_SEQUENCES, False)):
        for make, _ in mistakes.values():
            for bind in (table.bind_inputs, table.bind_outputs):
                wrong: Any = [make(setting)] if in_list else make(setting)
                with pytest.raises(dml.DmlError):
                    bind(wrong)
    assert np.array_equal(setting.first.download(np.float32), np.tile(VALUES, 4))
    assert (setting.second.download(np.float32) == 7).all()

    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(table.dispatchable, table)
    recorder.execute()
    assert np.array_equal(setting.first.download(np.float32), np.tile(VALUES, 4))
    written = setting.second.download(np.float32)
    assert np.array_equal(written[64:128], np.sign(VALUES))
    assert (written[:64] == 7).all() and (written[128:] == 7).all()


@pytest.mark.parametrize("wrong", NOT_INTEGERS, ids=kind_of)
def test_binding_takes_integers_only(setting: Setting, wrong: Any) -> None:
    """Rule 48: Offset and SizeInBytes are unsigned integers."""
    with pytest.raises(dml.InvalidArgumentError, match=r"^BufferBinding: offset must be an integer; got "):
        Binding(setting.first, wrong)
    if wrong is not None:
        with pytest.raises(dml.InvalidArgumentError, match=r"^BufferBinding: size_in_bytes must be an integer; got "):
            Binding(setting.first, 0, wrong)


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (-16, 256, r"offset must be at least 0; got -16$"),
        (-(10**5000), 256, r"offset must be at least 0; got a number of 16610 bits$"),
        (2**64, 256, rf"offset must be from 0 to {2**64 - 1}; got a number of 65 bits$"),
        (0, 0, r"size_in_bytes must be at least 1; got 0$"),
        (0, -1, r"size_in_bytes must be at least 1; got -1$"),
        (0, 10**5000, rf"size_in_bytes must be from 1 to {2**64 - 1}; got a number of 16610 bits$"),
    ],
    ids=["negative", "very negative", "too large", "no bytes", "less than no bytes", "far too large"],
)
def test_binding_refuses_numbers_that_cannot_be(setting: Setting, offset: int, size: int, message: str) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=f"^BufferBinding: {message}"):
        Binding(setting.first, offset, size)


@pytest.mark.parametrize("wrong", [None, "buffer", 3, b"bytes", np.zeros(4), object()], ids=kind_of)
def test_binding_takes_a_buffer_only(wrong: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^BufferBinding: buffer must be a dmlvk\.Buffer; got "):
        Binding(wrong)


def test_binding_takes_numpy_integers_without_overflow(setting: Setting) -> None:
    """240 + 32 is 272, not 16 as in eight bits."""
    binding = Binding(setting.first, np.uint8(240), np.uint8(32))  # type: ignore[arg-type]  # whatever has an index
    assert (binding.offset, binding.size_in_bytes, binding.end) == (240, 32, 272)
    assert type(binding.offset) is int


@pytest.mark.parametrize("offset", [16, 32, 48, 80, 192])
def test_offset_obeys_the_alignment_that_the_tensor_guarantees(setting: Setting, offset: int) -> None:
    """Rules 18, 49: a multiple of GuaranteedBaseOffsetAlignment, when that is more than 16."""
    aligned = floats(8, guaranteed_base_offset_alignment=128)
    operator = compiled(setting.device, sign(floats(8), aligned))
    table = table_for(operator, [Binding(setting.first, offset)], [Binding(setting.second, 128)])
    message = f"^ELEMENT_WISE_SIGN: OutputTensor: the binding's offset must be a multiple of 128 bytes; got {offset}$"
    with pytest.raises(dml.InvalidArgumentError, match=message):
        table.bind_outputs([Binding(setting.second, offset)])
    table.bind_outputs([Binding(setting.second, 256)])


def test_small_guarantee_does_not_lower_the_minimum_alignment(setting: Setting) -> None:
    """Rule 18: 16 bytes at least, whatever is guaranteed."""
    operator = compiled(setting.device, sign(floats(8, guaranteed_base_offset_alignment=4)))
    with pytest.raises(dml.InvalidArgumentError, match=r"InputTensor: .* must be a multiple of 16 bytes; got 4$"):
        table_for(operator, [Binding(setting.first, 4)])


def test_binding_covers_the_whole_declared_size(setting: Setting) -> None:
    """Rule 50: SizeInBytes is at least TotalTensorSizeInBytes, not only what the elements take."""
    operator = compiled(setting.device, sign(floats(8, total_tensor_size_in_bytes=512)))
    with pytest.raises(dml.InvalidArgumentError, match=r"must be at least TotalTensorSizeInBytes 512; got 511$"):
        table_for(operator, [Binding(setting.first, 0, 511)])
    table_for(operator, [Binding(setting.first, 0, 512)], [Binding(setting.second)])


@pytest.mark.parametrize("position", range(3))
def test_each_of_several_inputs_is_named(setting: Setting, position: int) -> None:
    """Rule 53: bindings come in the order of the description's fields."""
    table = setting.device.create_binding_table(compiled(setting.device, select(8)))
    bindings: list[Binding | None] = [Binding(setting.first)] * 3
    bindings[position] = None
    member = ("ConditionTensor", "ATensor", "BTensor")[position]
    with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_IF: {member}: must be bound$"):
        table.bind_inputs(bindings)
    with pytest.raises(dml.InvalidArgumentError, match=r"ELEMENT_WISE_IF: its inputs are not bound$"):
        table.snapshot()


@pytest.mark.parametrize("count", [1, 3, 4])
def test_number_of_inputs_must_be_the_operators(setting: Setting, count: int) -> None:
    """Rule 53: too many or too few."""
    table = setting.device.create_binding_table(compiled(setting.device, greater_than(8)))
    message = f"^ELEMENT_WISE_LOGICAL_GREATER_THAN: bind_inputs takes 2 bindings, .* included; got {count}$"
    with pytest.raises(dml.InvalidArgumentError, match=message):
        table.bind_inputs([Binding(setting.first)] * count)


@pytest.mark.parametrize("kind", ["temporary", "persistent"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: Binding(s.first, 16), r"offset must be a multiple of 256 bytes; got 16$"),
        (lambda s: Binding(s.first, 128), r"offset must be a multiple of 256 bytes; got 128$"),
        (lambda s: Binding(s.first, 1024), r"bytes 1024 to 1024 lie beyond the buffer's 1024 bytes$"),
        (lambda s: Binding(s.closed), r"the buffer was closed$"),
        (lambda s: Binding(s.foreign), r"the buffer belongs to another device$"),
        (lambda s: s.first, r"must be bound to a BufferBinding or None; got <"),
        (lambda s: [Binding(s.first)], r"must be bound to a BufferBinding or None; got \["),
        (lambda s: 0, r"must be bound to a BufferBinding or None; got 0$"),
    ],
)
def test_temporary_and_persistent_resources_obey_the_rules_though_none_is_needed(
    setting: Setting, kind: str, make: Callable[[Setting], Any], message: str
) -> None:
    """Rules 51, 60."""
    table = setting.table()
    before = table.snapshot()
    bind = getattr(table, f"bind_{kind}_resource")
    with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_SIGN: the {kind} resource: .*{message}"):
        bind(make(setting))
    bind(None)
    bind(Binding(setting.first, 512))
    bind(None)
    assert table.snapshot() == before


def test_closed_device_answers_every_call_on_a_table(any_device: dml.Device) -> None:
    """Rule 101: methods of a removed device's children report the removal."""
    device = dml.Device(any_device.info.index)
    buffer = device.create_buffer(1024)
    operator = compiled(device, sign(floats(64)))
    table = table_for(operator, [Binding(buffer, 0, 256)], [Binding(buffer, 256, 256)])
    recorder = device.create_command_recorder()
    device.close()
    calls: list[Callable[[], object]] = [
        lambda: table.bind_inputs([Binding(buffer, 0, 256)]),
        lambda: table.bind_inputs(None),
        lambda: table.bind_outputs([]),
        lambda: table.bind_temporary_resource(None),
        lambda: table.bind_persistent_resource(None),
        lambda: table.reset(operator),
        lambda: recorder.record_dispatch(operator, table),
        lambda: execute(operator, [Binding(buffer)], [Binding(buffer)]),
    ]
    for call in calls:
        with pytest.raises(dml.DeviceRemovedError, match=re.escape(f"{any_device.info.name}: the device was closed")):
            call()
    assert "closed" not in repr(operator)  # what asks nothing of the device still works
    assert table.dispatchable.binding_properties.required_descriptor_count == 2


def test_table_is_made_for_and_reset_to_compiled_operators_of_its_device_only(setting: Setting) -> None:
    """Rules 40, 45."""
    table = setting.table()
    before = table.snapshot()
    wrong: Any
    for wrong in (None, 3, "SIGN", sign(floats(4)), setting.device.create_operator(sign(floats(4))), table):
        with pytest.raises(dml.InvalidArgumentError, match=r"^create_binding_table: takes a CompiledOperator or an "):
            setting.device.create_binding_table(wrong)
        with pytest.raises(dml.InvalidArgumentError, match=r"^BindingTable\.reset: takes a CompiledOperator or an "):
            table.reset(wrong)
    with dml.Device(setting.device.info.index) as other:
        foreign = compiled(other, sign(floats(64)))
        with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: was compiled by another device$"):
            setting.device.create_binding_table(foreign)
        with pytest.raises(dml.InvalidArgumentError, match=r"ELEMENT_WISE_SIGN belongs to another device$"):
            table.reset(foreign)
    assert table.snapshot() == before


def test_recorder_refuses_what_does_not_belong_together(setting: Setting) -> None:
    """Rules 36, 45, 53, 82: everything is bound before recording, for this operator, on this device."""
    recorder = setting.device.create_command_recorder()
    operator = compiled(setting.device, sign(floats(64)))
    complete = table_for(operator, [Binding(setting.first)], [Binding(setting.second)])
    wrong: Any
    for wrong in (None, 3, sign(floats(64)), "table"):
        for pair in ((wrong, complete), (operator, wrong)):
            with pytest.raises(dml.InvalidArgumentError, match=r"takes a CompiledOperator or an "):
                recorder.record_dispatch(*pair)
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: .* made for another dispatchable$"):
        recorder.record_dispatch(compiled(setting.device, sign(floats(64))), complete)
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its inputs are not bound$"):
        recorder.record_dispatch(operator, table_for(operator))
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its outputs are not bound$"):
        recorder.record_dispatch(operator, table_for(operator, [Binding(setting.first)]))
    closing = setting.device.create_buffer(256)
    stale = table_for(operator, [Binding(closing)], [Binding(setting.second)])
    closing.close()
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: InputTensor: the buffer .* was closed$"):
        recorder.record_dispatch(operator, stale)
    with dml.Device(setting.device.info.index) as other:
        foreign = compiled(other, sign(floats(64)))
        with other.create_buffer(512) as buffer:
            table = table_for(foreign, [Binding(buffer, 0, 256)], [Binding(buffer, 256)])
            with pytest.raises(dml.InvalidArgumentError, match=r"belongs to another device than the recorder$"):
                recorder.record_dispatch(foreign, table)
    assert recorder.dispatches == ()
    setting.first.upload(VALUES)
    recorder.record_dispatch(operator, complete)
    recorder.execute()
    assert np.array_equal(setting.second.download(np.float32, 64), np.sign(VALUES))


def test_range_to_the_buffers_end_is_the_default(setting: Setting) -> None:
    with buffer_with(setting.device, VALUES) as buffer:
        assert Binding(buffer).end == 256
        assert Binding(buffer, 16).end == 256
        execute(compiled(setting.device, sign(floats(60))), [Binding(buffer, 16)], [Binding(setting.second)])
        assert np.array_equal(setting.second.download(np.float32, 60), np.sign(VALUES[4:]))
