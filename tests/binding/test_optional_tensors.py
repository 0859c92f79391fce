"""Optional tensors: given, absent, and of one element."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from tests.binding.support import Binding, buffer_with, compiled, floats, table_for

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
