"""Quantized products, convolutions and means: examples worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlvk as dml

ONE = dml.TensorDesc(dml.FLOAT32, (1, 1))


def _one(value: float) -> np.ndarray[Any, Any]:
    return np.full((1, 1), value, np.float32)


def _product(scale_sizes: tuple[int, ...] = (1, 1), **more: Any) -> dml.OperatorDesc:
    members: dict[str, Any] = {
        "a_tensor": dml.TensorDesc(dml.INT8, (2, 3)),
        "a_scale_tensor": dml.TensorDesc(dml.FLOAT32, scale_sizes),
        "b_tensor": dml.TensorDesc(dml.UINT8, (3, 2)),
        "b_scale_tensor": ONE,
        "output_scale_tensor": ONE,
        "output_tensor": dml.TensorDesc(dml.INT8, (2, 2)),
        **more,
    }
    return dml.QuantizedLinearMatrixMultiply(**members)


def test_the_example_of_onnx_s_qlinearmatmul(any_device: dml.Device) -> None:
    """https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html, uint8."""
    byte = dml.UINT8
    desc = _product(
        a_tensor=dml.TensorDesc(byte, (2, 4)),
        a_zero_point_tensor=dml.TensorDesc(byte, (1, 1)),
        b_tensor=dml.TensorDesc(byte, (4, 3)),
        b_zero_point_tensor=dml.TensorDesc(byte, (1, 1)),
        output_zero_point_tensor=dml.TensorDesc(byte, (1, 1)),
        output_tensor=dml.TensorDesc(byte, (2, 3)),
    )
    inputs = {
        "ATensor": np.array([[208, 236, 0, 238], [3, 214, 255, 29]], np.uint8),
        "AScaleTensor": _one(0.0066),
        "AZeroPointTensor": np.array([[113]], np.uint8),
        "BTensor": np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], np.uint8),
        "BScaleTensor": _one(0.00705),
        "BZeroPointTensor": np.array([[114]], np.uint8),
        "OutputScaleTensor": _one(0.0107),
        "OutputZeroPointTensor": np.array([[118]], np.uint8),
    }
    got = any_device.run(desc, inputs)["OutputTensor"]
    np.testing.assert_array_equal(got, np.array([[168, 115, 255], [1, 66, 151]], np.uint8))


@pytest.mark.parametrize(
    ("scale", "expected"), [(2.0, [[-2, 2], [4, -4]]), (-2.0, [[2, -2], [-4, 4]]), (0.0, [[-128, 127], [127, -128]])]
)
def test_halves_go_to_even_and_zero_scales_saturate(any_device: dml.Device, scale: float, expected: list[Any]) -> None:
    """The sums are -3, 3, 7 and -7."""
    desc = _product(
        a_tensor=dml.TensorDesc(dml.INT8, (2, 1)),
        b_tensor=dml.TensorDesc(dml.INT8, (1, 2)),
        b_scale_tensor=dml.TensorDesc(dml.FLOAT32, (1, 2)),
    )
    inputs = {
        "ATensor": np.array([[-3], [7]], np.int8),
        "AScaleTensor": _one(1),
        "BTensor": np.array([[1, -1]], np.int8),
        "BScaleTensor": np.ones((1, 2), np.float32),
        "OutputScaleTensor": _one(scale),
    }
    np.testing.assert_array_equal(any_device.run(desc, inputs)["OutputTensor"], np.array(expected, np.int8))


def test_a_sum_of_32_bit_integers_is_exact(any_device: dml.Device) -> None:
    """Terms of 62 bits cancel to one of 33: neither 64 bits nor floats hold every difference and sum on the way."""
    desc = dml.MatrixMultiplyIntegerToFloat(
        a_tensor=dml.TensorDesc(dml.INT32, (1, 2)),
        a_scale_tensor=ONE,
        a_zero_point_tensor=dml.TensorDesc(dml.INT32, (1, 1)),
        b_tensor=dml.TensorDesc(dml.INT32, (2, 1)),
        b_scale_tensor=ONE,
        b_zero_point_tensor=dml.TensorDesc(dml.INT32, (1, 1)),
        output_tensor=dml.TensorDesc(dml.FLOAT32, (1, 1)),
    )
    least, largest = -(2**31), 2**31 - 1
    inputs = {
        "ATensor": np.array([[0, -1]], np.int32),
        "AScaleTensor": _one(0.5),
        "AZeroPointTensor": np.array([[least]], np.int32),
        "BTensor": np.array([[largest], [-1]], np.int32),
        "BScaleTensor": _one(3),
        "BZeroPointTensor": np.array([[-1]], np.int32),
    }
    # 2^31 * 2^31 + (2^31 - 1) * 0
    assert any_device.run(desc, inputs)["OutputTensor"][0, 0] == 1.5 * 2.0**62
    inputs["BTensor"] = np.array([[largest], [least]], np.int32)
    # 2^31 * 2^31 - (2^31 - 1) * (2^31 - 1) = 2^32 - 1
    assert any_device.run(desc, inputs)["OutputTensor"][0, 0] == np.float32(1.5 * (2.0**32 - 1))


def test_a_mean_is_rounded_once(any_device: dml.Device) -> None:
    """The mean of 1, 1, 1 and 3 is 3/2, which goes to 2; of 1, 1 and padding 2/3, or 1/2 where padding counts."""
    for counts, expected in ((False, [[2, 1]]), (True, [[2, 0]])):
        desc = dml.QuantizedLinearAveragePooling(
            input_tensor=dml.TensorDesc(dml.UINT8, (1, 1, 2, 3)),
            input_scale_tensor=ONE,
            output_scale_tensor=ONE,
            output_tensor=dml.TensorDesc(dml.INT8, (1, 1, 1, 2)),
            dimension_count=2,
            strides=(1, 2),
            window_size=(2, 2),
            start_padding=(0, 0),
            end_padding=(0, 1),
            dilations=(1, 1),
            include_padding=counts,
        )
        inputs = {
            "InputTensor": np.array([[[[1, 1, 1], [1, 3, 1]]]], np.uint8),
            "InputScaleTensor": _one(1),
            "OutputScaleTensor": _one(1),
        }
        np.testing.assert_array_equal(any_device.run(desc, inputs)["OutputTensor"][0, 0], np.array(expected, np.int8))


def test_a_range_on_one_side_of_zero_is_widened(any_device: dml.Device) -> None:
    """From 0 to 510: the scale is 2, and 255 / 2 = 127.5 goes to 128."""
    tensor = dml.TensorDesc(dml.FLOAT32, (3,))
    desc = dml.DynamicQuantizeLinear(
        input_tensor=tensor,
        output_tensor=dml.TensorDesc(dml.INT8, (3,)),
        output_scale_tensor=dml.TensorDesc(dml.FLOAT32, (1,)),
        output_zero_point_tensor=dml.TensorDesc(dml.INT8, (1,)),
    )
    got = any_device.run(desc, {"InputTensor": np.array([255, 510, 100], np.float32)})
    assert got["OutputScaleTensor"][0] == 2 and got["OutputZeroPointTensor"][0] == -128
    np.testing.assert_array_equal(got["OutputTensor"], np.array([0, 127, -78], np.int8))
