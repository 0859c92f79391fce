"""Which ranges may share bytes (rules 64 to 72): disjoint ones always, identical ones in place, others never."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.operators import OPERATORS
from tests.binding.support import Binding, buffer_with, compiled, execute, floats, greater_than, select, sign, threshold

FLOAT_COUNT = 16
TENSOR_BYTES = 4 * FLOAT_COUNT
BUFFER_BYTES = 512
VALUES = np.linspace(-2, 2, BUFFER_BYTES // 4, dtype=np.float32)

Range = tuple[int, int]  # Offset and size in bytes

FOUR_OPERATORS = {
    "SIGN": sign(floats(FLOAT_COUNT)),
    "THRESHOLD": threshold(floats(FLOAT_COUNT)),
    "IF": select(FLOAT_COUNT),
    "LOGICAL_GREATER_THAN": greater_than(FLOAT_COUNT),
}
IN_PLACE = ("SIGN", "THRESHOLD")

# Offsets are multiples of 16; a range is as long as the tensor or longer, to any byte.
ranges = st.integers(0, (BUFFER_BYTES - TENSOR_BYTES) // 16).flatmap(
    lambda step: st.tuples(
        st.just(16 * step), st.one_of(st.just(TENSOR_BYTES), st.integers(TENSOR_BYTES, BUFFER_BYTES - 16 * step))
    )
)
on_a_device = settings(max_examples=60)


@pytest.fixture(scope="module")
def buffer(any_device: dml.Device) -> Iterator[dml.Buffer]:
    with any_device.create_buffer(BUFFER_BYTES) as created:
        yield created


@pytest.fixture(scope="module")
def other(any_device: dml.Device) -> Iterator[dml.Buffer]:
    """Where the tensors go that are not looked at."""
    with any_device.create_buffer(BUFFER_BYTES) as created:
        yield created


def relation(first: Range, second: Range) -> str:
    """How two ranges lie, by the sets of their bytes."""
    bytes_of_first, bytes_of_second = (set(range(offset, offset + size)) for offset, size in (first, second))
    if bytes_of_first == bytes_of_second:
        return "identical"
    return "overlap in part" if bytes_of_first & bytes_of_second else "disjoint"


def bind(
    table: dml.BindingTable, inputs: Sequence[Binding | None], outputs: Sequence[Binding | None], order: str
) -> None:
    """Binds both sides, the one that ``order`` names first."""
    calls = [(table.bind_inputs, inputs), (table.bind_outputs, outputs)]
    for call, bindings in calls if order == "inputs first" else calls[::-1]:
        call(bindings)


def bind_two(
    table: dml.BindingTable, buffer: dml.Buffer, read: Range, written: Range, order: str, other: dml.Buffer
) -> None:
    """Binds an operator's last input and its output to ranges of one buffer, other inputs elsewhere."""
    elsewhere = [Binding(other)] * (len(table.dispatchable.inputs) - 1)
    bind(table, [*elsewhere, Binding(buffer, *read)], [Binding(buffer, *written)], order)


@pytest.mark.parametrize("order", ["inputs first", "outputs first"])
@pytest.mark.parametrize("name", FOUR_OPERATORS)
@given(read=ranges, written=ranges)
@example(read=(0, 64), written=(0, 64))
@example(read=(128, 128), written=(128, 128))
@example(read=(0, 64), written=(64, 64))  # neighbours
@example(read=(64, 64), written=(0, 64))
@example(read=(0, 64), written=(48, 64))  # one allocation unit
@example(read=(48, 64), written=(0, 64))
@example(read=(0, 256), written=(64, 64))  # one inside the other
@example(read=(64, 64), written=(0, 256))
@example(read=(0, 65), written=(64, 64))  # a single byte
@example(read=(0, 64), written=(0, 65))  # the same beginning
@example(read=(0, 128), written=(64, 64))  # the same end
@settings(max_examples=60)
def test_ranges_of_an_input_and_the_output(
    any_device: dml.Device, buffer: dml.Buffer, other: dml.Buffer, name: str, order: str, read: Range, written: Range
) -> None:
    """Rules 64, 65, 70: the verdict follows from the bytes alone, whichever side is bound first."""
    table = any_device.create_binding_table(compiled(any_device, FOUR_OPERATORS[name]))
    verdict = relation(read, written)
    if verdict == "disjoint" or (verdict == "identical" and name in IN_PLACE):
        bind_two(table, buffer, read, written, order, other)
        bound = table.snapshot()
        assert bound.inputs[len(bound.inputs) - 1].binding == Binding(buffer, *read)
        assert bound.outputs[0].binding == Binding(buffer, *written)
        return
    member = table.dispatchable.inputs[-1].name
    if verdict == "identical":
        problem = "are bound to the same range, but this operator cannot execute in place"
    else:
        problem = (
            "overlap in part, which is never allowed: bind disjoint or identical ranges "
            f"(bytes {read[0]} to {sum(read)} and {written[0]} to {sum(written)} of one buffer)"
        )
    message = re.escape(f"ELEMENT_WISE_{name}: {member} and OutputTensor {problem}")
    with pytest.raises(dml.InvalidArgumentError, match=f"^{message}$"):
        bind_two(table, buffer, read, written, order, other)
    missing = "outputs" if order == "inputs first" else "inputs"
    with pytest.raises(dml.InvalidArgumentError, match=f"its {missing} are not bound"):
        table.snapshot()


@pytest.mark.parametrize("name", ["IF", "LOGICAL_GREATER_THAN"])
def test_every_input_is_checked_against_the_output(
    any_device: dml.Device, buffer: dml.Buffer, other: dml.Buffer, name: str
) -> None:
    """Rule 70: these pages permit no input to share the output's range."""
    operator = compiled(any_device, FOUR_OPERATORS[name])
    for position, (field, _) in enumerate(operator.desc.inputs):
        bindings = [Binding(other)] * len(operator.desc.inputs)
        bindings[position] = Binding(buffer, 0, 64)
        table = any_device.create_binding_table(operator)
        table.bind_inputs(bindings)
        message = f"^ELEMENT_WISE_{name}: {field.name} and OutputTensor are bound to the same range, but this operator"
        with pytest.raises(dml.InvalidArgumentError, match=message):
            table.bind_outputs([Binding(buffer, 0, 64)])
        table.bind_outputs([Binding(buffer, 64, 64)])


def test_refused_aliasing_keeps_the_earlier_bindings(any_device: dml.Device, buffer: dml.Buffer) -> None:
    table = any_device.create_binding_table(compiled(any_device, FOUR_OPERATORS["SIGN"]))
    bind(table, [Binding(buffer, 0, 64)], [Binding(buffer, 64, 64)], "inputs first")
    before = table.snapshot()
    with pytest.raises(dml.InvalidArgumentError, match="overlap in part"):
        table.bind_inputs([Binding(buffer, 16, 64)])
    with pytest.raises(dml.InvalidArgumentError, match="overlap in part"):
        table.bind_outputs([Binding(buffer, 32, 64)])
    assert table.snapshot() == before


@given(read=ranges, written=ranges)
@on_a_device
def test_disjoint_ranges_of_one_buffer_run_as_two_buffers_would(
    device: dml.Device, read: Range, written: Range
) -> None:
    """Rule 65, on the device: the result is right and nothing outside the output's tensor is written."""
    if relation(read, written) != "disjoint":
        return
    with buffer_with(device, VALUES) as shared:
        execute(compiled(device, sign(floats(FLOAT_COUNT))), [Binding(shared, *read)], [Binding(shared, *written)])
        expected = VALUES.copy()
        first_read, first_written = read[0] // 4, written[0] // 4
        expected[first_written : first_written + FLOAT_COUNT] = np.sign(VALUES[first_read : first_read + FLOAT_COUNT])
        assert np.array_equal(shared.download(np.float32), expected)


def in_place_descriptions() -> Iterator[tuple[str, dml.OperatorDesc]]:
    """SIGN and THRESHOLD in every data type, packed and with gaps."""
    layouts = {"packed": None, "with gaps": (12, 2), "transposed": (1, 9)}
    for name, describe in (("SIGN", sign), ("THRESHOLD", partial(threshold, bound=1.0))):
        declaration = OPERATORS[f"ELEMENT_WISE_{name}"].declaration
        for data_type in declaration.support[-1].data_types["input_tensor"]:
            for layout, strides in layouts.items():
                yield f"{name}-{data_type.name}-{layout}", describe(dml.TensorDesc(data_type, (8, 5), strides))


@pytest.mark.parametrize("desc", [pytest.param(desc, id=name) for name, desc in in_place_descriptions()])
def test_identical_ranges_compute_in_place(device: dml.Device, desc: dml.OperatorDesc) -> None:
    """Rules 65, 70: one buffer bound twice gives what two buffers give, and keeps what lies around and between."""
    tensor = desc.inputs[0][1]
    assert tensor is not None
    data_type = tensor.data_type.numpy_dtype
    contents = np.arange(-40, 88).astype(data_type)
    first = 32 // data_type.itemsize
    with buffer_with(device, contents) as shared, buffer_with(device, contents) as source:
        whole = Binding(shared, 32, tensor.size_in_bytes)
        execute(compiled(device, desc), [whole], [whole])
        with buffer_with(device, contents) as target:
            execute(compiled(device, desc), [Binding(source, 32)], [Binding(target, 32)])
            assert np.array_equal(shared.download(data_type), target.download(data_type))
        rows, columns = tensor.element_strides
        elements = first + np.add.outer(np.arange(8) * rows, np.arange(5) * columns)
        expected = contents.copy()
        old = contents[elements]
        expected[elements] = np.sign(old) if "SIGN" in desc.operator_name else np.maximum(old, data_type.type(1))
        assert np.array_equal(shared.download(data_type), expected)


def test_identical_ranges_may_be_longer_than_the_tensor(device: dml.Device) -> None:
    """Rule 50 allows more than TotalTensorSizeInBytes; the ranges count as given."""
    with buffer_with(device, VALUES) as shared:
        operator = compiled(device, sign(floats(FLOAT_COUNT)))
        execute(operator, [Binding(shared, 64)], [Binding(shared, 64)])
        assert np.array_equal(shared.download(np.float32, 16, 64), np.sign(VALUES[16:32]))
        table = device.create_binding_table(operator)
        table.bind_inputs([Binding(shared, 64)])
        with pytest.raises(dml.InvalidArgumentError, match=r"overlap in part.*bytes 64 to 512 and 64 to 128"):
            table.bind_outputs([Binding(shared, 64, 64)])
        table.bind_outputs([Binding(shared, 64, BUFFER_BYTES - 64)])  # the same end, written out


@pytest.mark.parametrize(
    ("sizes", "input_strides", "output_strides"),
    [
        ((4, 4), (4, 1), (1, 4)),
        ((4, 4), (1, 4), None),
        ((2, 4), (0, 1), (4, 1)),
        ((1, 8), (8, 0), None),
        ((2, 2, 2), (4, 2, 1), (1, 2, 4)),
    ],
)
def test_identical_ranges_need_the_same_strides(
    any_device: dml.Device,
    buffer: dml.Buffer,
    sizes: tuple[int, ...],
    input_strides: tuple[int, ...],
    output_strides: tuple[int, ...] | None,
) -> None:
    """Rule 72: silent there; otherwise one element's result would overwrite another's operand."""
    desc = sign(floats(*sizes, strides=input_strides), floats(*sizes, strides=output_strides))
    table = any_device.create_binding_table(compiled(any_device, desc))
    table.bind_inputs([Binding(buffer)])
    got = f"got {list(input_strides)} and {list(floats(*sizes, strides=output_strides).element_strides)}"
    message = r"InputTensor and OutputTensor are bound to the same range, so their Strides must be the same; "
    with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_SIGN: {message}{re.escape(got)}$"):
        table.bind_outputs([Binding(buffer)])


@pytest.mark.parametrize(
    ("sizes", "input_strides", "output_strides"),
    [((1, 16), (99, 1), (16, 1)), ((1, 1, 16), (0, 7, 1), None), ((4, 4), (4, 1), None), ((1,), (0,), (5,))],
)
def test_strides_along_dimensions_of_one_element_do_not_matter_in_place(
    device: dml.Device, sizes: tuple[int, ...], input_strides: tuple[int, ...], output_strides: tuple[int, ...] | None
) -> None:
    desc = sign(floats(*sizes, strides=input_strides), floats(*sizes, strides=output_strides))
    with buffer_with(device, VALUES) as shared:
        execute(compiled(device, desc), [Binding(shared)], [Binding(shared)])
        count = int(np.prod(sizes))
        assert np.array_equal(shared.download(np.float32, count), np.sign(VALUES[:count]))


def test_inputs_may_share_bytes_in_any_way(device: dml.Device) -> None:
    """Rule 67: two bindings that are only read may overlap, whole or in part."""
    with buffer_with(device, VALUES) as shared, device.create_buffer(64) as output:
        operator = compiled(device, greater_than(FLOAT_COUNT))
        for a, b in ((0, 0), (0, 16), (32, 0), (0, 64), (64, 80)):
            execute(operator, [Binding(shared, a), Binding(shared, b)], [Binding(output)])
            left, right = VALUES[a // 4 :][:FLOAT_COUNT], VALUES[b // 4 :][:FLOAT_COUNT]
            assert np.array_equal(output.download(np.uint32), left > right), (a, b)
        execute(compiled(device, select(FLOAT_COUNT)), [Binding(shared)] * 3, [Binding(output)])
        assert np.array_equal(output.download(np.float32), VALUES[:FLOAT_COUNT])


def test_temporary_resource_shares_bytes_with_nothing(any_device: dml.Device, buffer: dml.Buffer) -> None:
    """Rule 68, with each side bound last."""
    operator = compiled(any_device, sign(floats(FLOAT_COUNT)))
    with any_device.create_buffer(BUFFER_BYTES) as output:
        for member, shared in (("InputTensor", buffer), ("OutputTensor", output)):
            message = f"^ELEMENT_WISE_SIGN: {member} and the temporary resource must not share bytes"
            table = any_device.create_binding_table(operator)
            table.bind_temporary_resource(Binding(shared, 256))
            bindings = ([Binding(buffer, 192, 128)], [Binding(output, 192, 128)])
            with pytest.raises(dml.InvalidArgumentError, match=message):
                bind(table, *bindings, "inputs first")
            table.bind_temporary_resource(None)
            bind(table, *bindings, "outputs first")
            with pytest.raises(dml.InvalidArgumentError, match=message):
                table.bind_temporary_resource(Binding(shared, 256))
            table.bind_temporary_resource(Binding(shared, 0, 192))
        table.reset(operator)
        table.bind_persistent_resource(Binding(buffer, 256))
        with pytest.raises(dml.InvalidArgumentError, match=r"the persistent resource and the temporary resource"):
            table.bind_temporary_resource(Binding(buffer, 256))


def test_persistent_resource_is_only_read(any_device: dml.Device, buffer: dml.Buffer) -> None:
    """Rules 67, 68: it may share bytes with inputs, not with outputs."""
    operator = compiled(any_device, sign(floats(FLOAT_COUNT)))
    with any_device.create_buffer(BUFFER_BYTES) as output:
        table = any_device.create_binding_table(operator)
        bind(table, [Binding(buffer)], [Binding(output)], "inputs first")
        table.bind_persistent_resource(Binding(buffer, 256))
        with pytest.raises(dml.InvalidArgumentError, match=r"OutputTensor and the persistent resource must not share"):
            table.bind_persistent_resource(Binding(output, 256))
        with pytest.raises(dml.InvalidArgumentError, match=r"OutputTensor and the persistent resource must not share"):
            table.bind_outputs([Binding(buffer, 448, 64)])
        table.reset(operator)
        table.bind_outputs([Binding(buffer)])
