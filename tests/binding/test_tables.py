"""What a binding table holds, for how long; optional tensors: present, absent, of one element."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from tests.binding.support import (
    Binding,
    buffer_with,
    compiled,
    floats,
    greater_than,
    select,
    sign,
    table_for,
    threshold,
)

VALUES = np.linspace(-3, 3, 16, dtype=np.float32)


@pytest.mark.parametrize(
    ("desc", "count"),
    [(sign(floats(4)), 2), (threshold(floats(4)), 2), (greater_than(4), 3), (select(4), 4)],
    ids=["SIGN", "THRESHOLD", "GREATER_THAN", "IF"],
)
def test_binding_properties_tell_what_a_table_needs(any_device: dml.Device, desc: dml.OperatorDesc, count: int) -> None:
    """Rules 37, 38: a descriptor for each tensor; these operators need no other memory."""
    properties = compiled(any_device, desc).binding_properties
    assert properties == dml.BindingProperties(count, 0, 0)
    assert properties.required_descriptor_count == count
    assert properties.temporary_resource_size == properties.persistent_resource_size == 0


def test_bindings_keep_the_order_of_the_fields(any_device: dml.Device) -> None:
    """Rule 53."""
    with any_device.create_buffer(64) as buffer, any_device.create_buffer(16) as output:
        bindings = [Binding(buffer, offset, 16) for offset in (32, 0, 16)]
        table = table_for(compiled(any_device, select(4)), bindings, [Binding(output)])
        bound = table.snapshot()
        assert [bound.inputs[number].point.name for number in range(3)] == ["ConditionTensor", "ATensor", "BTensor"]
        assert [bound.inputs[number].binding for number in range(3)] == bindings
        assert [(o.point.name, o.binding.buffer) for o in bound.outputs.values()] == [("OutputTensor", output)]


@pytest.mark.parametrize("nothing", [None, [], ()], ids=["None", "list", "tuple"])
def test_no_bindings_unbind_all(any_device: dml.Device, nothing: list[Binding | None] | None) -> None:
    """Rule 58."""
    with any_device.create_buffer(32) as buffer:
        table = table_for(compiled(any_device, sign(floats(4))), [Binding(buffer, 0, 16)], [Binding(buffer, 16)])
        table.bind_inputs(nothing)
        with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its inputs are not bound$"):
            table.snapshot()
        table.bind_outputs([Binding(buffer, 0, 16)])  # where the input was
        table.bind_inputs([Binding(buffer, 16)])
        table.bind_outputs(nothing)
        with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its outputs are not bound$"):
            table.snapshot()


def test_reset_empties_the_table_for_another_operator(any_device: dml.Device) -> None:
    """Rules 40, 43."""
    with any_device.create_buffer(64) as buffer, any_device.create_buffer(16) as output:
        table = table_for(compiled(any_device, sign(floats(4))), [Binding(buffer)], [Binding(output)])
        other = compiled(any_device, greater_than(4))
        table.reset(other)
        assert table.dispatchable is other
        with pytest.raises(dml.InvalidArgumentError, match=r"GREATER_THAN: its inputs are not bound"):
            table.snapshot()
        table.bind_inputs([Binding(buffer, 0, 16), Binding(buffer, 16, 16)])
        table.bind_outputs([Binding(output)])


def test_what_was_recorded_stays_as_it_was_bound(device: dml.Device) -> None:
    """Rule 43: the table may be bound anew, reset or dropped right after recording."""
    operator = compiled(device, sign(floats(16)))
    with buffer_with(device, VALUES) as first, buffer_with(device, -VALUES) as second:
        outputs = [device.create_buffer(64) for _ in range(3)]
        recorder = device.create_command_recorder()
        table = table_for(operator, [Binding(first)], [Binding(outputs[0])])
        recorder.record_dispatch(operator, table)
        table.bind_inputs([Binding(second)])
        table.bind_outputs([Binding(outputs[1])])
        recorder.record_dispatch(operator, table)
        table.bind_outputs([Binding(outputs[2])])
        table.reset(compiled(device, threshold(floats(4))))
        del table
        recorder.execute()
        results = [output.download(np.float32) for output in outputs]
        assert np.array_equal(results[0], np.sign(VALUES))
        assert np.array_equal(results[1], np.sign(-VALUES))
        assert not results[2].any()


def test_several_tables_of_one_operator_are_independent(device: dml.Device) -> None:
    """Rule 79: a compiled operator holds no bindings."""
    operator = compiled(device, threshold(floats(16), 0.25))
    with buffer_with(device, VALUES) as first, buffer_with(device, 2 * VALUES) as second:
        outputs = [device.create_buffer(64) for _ in range(2)]
        tables = [
            table_for(operator, [Binding(source)], [Binding(target)])
            for source, target in zip((first, second), outputs, strict=True)
        ]
        recorder = device.create_command_recorder()
        for table in reversed(tables):
            recorder.record_dispatch(operator, table)
        recorder.execute()
        assert np.array_equal(outputs[0].download(np.float32), np.maximum(VALUES, np.float32(0.25)))
        assert np.array_equal(outputs[1].download(np.float32), np.maximum(2 * VALUES, np.float32(0.25)))


def test_largest_offset_that_fits_reaches_the_right_bytes(device: dml.Device) -> None:
    """Rule 49: offsets are bytes; the tensor at the very end of a buffer is read and written there."""
    contents = np.random.default_rng(1).standard_normal(3 * 2**18).astype(np.float32)
    operator = compiled(device, sign(floats(4)))
    with buffer_with(device, contents) as source, buffer_with(device, contents) as target:
        offset = contents.nbytes - 16
        recorder = device.create_command_recorder()
        recorder.record_dispatch(operator, table_for(operator, [Binding(source, offset)], [Binding(target, offset)]))
        recorder.execute()
        expected = contents.copy()
        expected[-4:] = np.sign(contents[-4:])
        assert np.array_equal(target.download(np.float32), expected)
        assert np.array_equal(source.download(np.float32), contents)


NUMBERS = np.array([-3, 0.5, 1.5, 2.5, 60, 400], np.float32)

SCALES = np.full(6, 1, np.float32)

ZERO_POINTS = np.array([0, 10, 20, 30, 40, 50], np.uint8)


def _quantize(with_zero_point: bool) -> dml.OperatorDesc:
    small = dml.TensorDesc(dml.UINT8, (6,))
    return dml.ElementWiseQuantizeLinear(
        input_tensor=floats(6),
        scale_tensor=floats(6),
        zero_point_tensor=small if with_zero_point else None,
        output_tensor=small,
    )


def test_run_takes_arrays_for_the_tensors_that_are_given(device: dml.Device) -> None:
    inputs = {"InputTensor": NUMBERS, "ScaleTensor": SCALES}
    assert device.run(_quantize(False), inputs)["OutputTensor"].tolist() == [0, 0, 2, 2, 60, 255]
    result = device.run(_quantize(True), {**inputs, "ZeroPointTensor": ZERO_POINTS})
    assert result["OutputTensor"].tolist() == [0, 10, 22, 32, 100, 255]


def test_an_array_for_an_absent_tensor_is_refused(any_device: dml.Device) -> None:
    inputs: dict[str, npt.NDArray[Any]] = {
        "InputTensor": NUMBERS,
        "ScaleTensor": SCALES,
        "ZeroPointTensor": ZERO_POINTS,
    }
    with pytest.raises(dml.InvalidArgumentError, match=r"has no input 'ZeroPointTensor' to give an array for"):
        any_device.run(_quantize(False), inputs)
    del inputs["ZeroPointTensor"]
    with pytest.raises(dml.InvalidArgumentError, match=r"ZeroPointTensor: an array is missing"):
        any_device.run(_quantize(True), inputs)


def test_an_absent_tensor_is_bound_to_none(device: dml.Device) -> None:
    """Rules 53, 54: its place counts, and nothing is bound there."""
    operator = compiled(device, _quantize(False))
    assert operator.binding_properties.required_descriptor_count == 4
    with (
        buffer_with(device, NUMBERS) as numbers,
        buffer_with(device, SCALES) as scales,
        device.create_buffer(8) as output,
    ):
        table = table_for(operator, [Binding(numbers), Binding(scales), None], [Binding(output)])
        recorder = device.create_command_recorder()
        recorder.record_dispatch(operator, table)
        recorder.execute()
        assert output.download(np.uint8, 6).tolist() == [0, 0, 2, 2, 60, 255]
        with pytest.raises(dml.InvalidArgumentError, match=r"ZeroPointTensor: is absent, so nothing can be bound"):
            table.bind_inputs([Binding(numbers), Binding(scales), Binding(output)])
        with pytest.raises(dml.InvalidArgumentError, match=r"bind_inputs takes 3 bindings, optional tensors included"):
            table.bind_inputs([Binding(numbers), Binding(scales)])


def test_a_tensor_is_required_below_the_level_that_made_it_optional(device: dml.Device) -> None:
    with dml.Device(device.info.index, feature_level=dml.FeatureLevel.LEVEL_6_1) as older:
        message = (
            r"^ELEMENT_WISE_QUANTIZE_LINEAR: ZeroPointTensor is required at feature level 6_1; it is optional from "
            r"feature level 6_2 on$"
        )
        with pytest.raises(dml.UnsupportedError, match=message):
            older.create_operator(_quantize(False))
        older.create_operator(_quantize(True))


@pytest.mark.parametrize("sizes", [(2, 3), (1, 1), (1,), (300, 7)])
def test_scales_of_one_element_are_used_everywhere(device: dml.Device, sizes: tuple[int, ...]) -> None:
    """QUANTIZED_LINEAR_ADD: Sizes of ones, or the output's Sizes with strides of 0: the same results."""
    random = np.random.default_rng(7)
    a, b = (random.integers(-128, 128, sizes).astype(np.int8) for _ in range(2))
    ones = (1,) * len(sizes)
    values = {"AScaleTensor": 0.25, "BScaleTensor": 0.5, "OutputScaleTensor": 1.0, "OutputZeroPointTensor": -3}
    expected = np.clip(np.rint(a * 0.25 + (b - 9.0) * 0.5) - 3, -128, 127).astype(np.int8)
    for small, zero in itertools.product((ones, sizes), repeat=2):

        def one(data_type: dml.DataType, own: tuple[int, ...]) -> dml.TensorDesc:
            return dml.TensorDesc(data_type, own, None if own == ones else (0,) * len(own))

        whole = dml.TensorDesc(dml.INT8, sizes)
        desc = dml.ElementWiseQuantizedLinearAdd(
            a_tensor=whole,
            a_scale_tensor=one(dml.FLOAT32, small),
            b_tensor=whole,
            b_scale_tensor=one(dml.FLOAT32, small),
            b_zero_point_tensor=one(dml.INT8, zero),
            output_scale_tensor=one(dml.FLOAT32, zero),
            output_zero_point_tensor=one(dml.INT8, small),
            output_tensor=whole,
        )
        arrays = {field.name: tensor for field, tensor in desc.inputs if tensor is not None}
        inputs = {
            name: {"ATensor": a, "BTensor": b}.get(
                name, np.full(tensor.sizes, values.get(name, 9), tensor.data_type.numpy_dtype)
            )
            for name, tensor in arrays.items()
        }
        assert np.array_equal(device.run(desc, inputs)["OutputTensor"], expected), (small, zero)
