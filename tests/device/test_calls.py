"""The device's own calls: create_operator, compile_operator, run. What they take, and how they refuse the rest."""

from __future__ import annotations

import collections
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from tests.binding.support import compiled, floats, greater_than, kind_of, select, sign, threshold

VALUES = np.array([[-2, -0.0, 3], [np.inf, -np.inf, 1e-45]], np.float32)
DESC = sign(floats(2, 3))
IDENTITY = dml.ElementWiseIdentity(input_tensor=floats(2, 3), output_tensor=floats(2, 3))


@pytest.mark.parametrize("wrong", [None, "ELEMENT_WISE_SIGN", 3, dml.ElementWiseSign, {}, floats(2)], ids=kind_of)
def test_create_operator_takes_descriptions_only(any_device: dml.Device, wrong: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^create_operator: takes an operator description; got "):
        any_device.create_operator(wrong)
    with pytest.raises(dml.InvalidArgumentError, match=r"^create_operator: takes an operator description; got "):
        any_device.run(wrong, {"InputTensor": VALUES})


def test_create_operator_refuses_what_directml_refuses(any_device: dml.Device) -> None:
    """Rules 99, 100: at creation, with both tensors named."""
    desc = sign(floats(4), dml.TensorDesc(dml.FLOAT16, (4,)))
    message = r"^ELEMENT_WISE_SIGN: InputTensor\.DataType must equal OutputTensor\.DataType FLOAT16; got FLOAT32$"
    for call in (any_device.create_operator, lambda d: any_device.run(d, {"InputTensor": np.zeros(4, np.float32)})):
        with pytest.raises(dml.InvalidArgumentError, match=message):
            call(desc)


@pytest.mark.parametrize("wrong", [None, DESC, "SIGN", 1], ids=kind_of)
def test_compile_operator_takes_operators_only(any_device: dml.Device, wrong: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^compile_operator: takes what create_operator returned; got "):
        any_device.compile_operator(wrong)


@pytest.mark.parametrize(
    "flags",
    [
        dml.ExecutionFlags.NONE,
        dml.ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION,
        dml.ExecutionFlags.DISABLE_META_COMMANDS,
        dml.ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION | dml.ExecutionFlags.DISABLE_META_COMMANDS,
        3,
        dml.ExecutionFlags.DESCRIPTORS_VOLATILE,
        7,
        dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC,
        0x107,
    ],
)
def test_permissions_change_no_result(device: dml.Device, flags: dml.ExecutionFlags) -> None:
    """Rules 80 to 82: permissions, not demands; dmlvk's results are the same with and without them."""
    operator = device.compile_operator(device.create_operator(DESC), flags)
    assert operator.flags == flags and isinstance(operator.flags, dml.ExecutionFlags)
    assert np.array_equal(device.run(operator, {"InputTensor": VALUES})["OutputTensor"], np.sign(VALUES))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            8,
            r"must be made of .*DESCRIPTORS_VOLATILE \(0x4\), ALLOW_DEVICE_ARITHMETIC \(0x100\); got 0x8, unknown: 0x8",
        ),
        (0x310, "must be made of .*; got 0x310, unknown: 0x210"),
        (-1, "must be from 0 to 4294967295; got -1"),
        (2**70, "must be from 0 to 4294967295; got a number of 71 bits"),
        (1.0, "must be an integer; got 1.0"),
        (True, "must be an integer; got True"),
        (None, "must be an integer; got None"),
        ("NONE", "must be an integer; got 'NONE'"),
        ([1], r"must be an integer; got \[1\]"),
        (float("nan"), "must be an integer; got nan"),
    ],
    ids=str,
)
def test_unknown_flags_are_refused(any_device: dml.Device, flags: Any, message: str) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=f"^compile_operator: flags {message}$"):
        any_device.compile_operator(any_device.create_operator(DESC), flags)


def test_objects_of_another_device_are_refused(any_device: dml.Device) -> None:
    """Rule 45."""
    with dml.Device(any_device.info.index) as other:
        operator = other.create_operator(DESC)
        with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: was created by another device$"):
            any_device.compile_operator(operator)
        with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: was compiled by another device$"):
            any_device.run(other.compile_operator(operator), {"InputTensor": VALUES})


def test_closed_device_answers_every_call(any_device: dml.Device) -> None:
    """Rule 101: every method on a removed device reports the removal; closing again does not."""
    device = dml.Device(any_device.info.index)
    operator, ready = device.create_operator(DESC), compiled(device, DESC)
    device.run(DESC, {"InputTensor": VALUES})
    device.close()
    device.close()
    calls: list[Callable[[], object]] = [
        lambda: device.create_operator(DESC),
        lambda: device.compile_operator(operator),
        lambda: device.create_buffer(16),
        lambda: device.create_binding_table(ready),
        device.create_command_recorder,
        lambda: device.run(DESC, {"InputTensor": VALUES}),
        lambda: device.run(ready, {"InputTensor": VALUES}),
        lambda: device.check_feature_support(dml.Feature.TENSOR_DATA_TYPE_SUPPORT, dml.FLOAT32),
        lambda: device.check_feature_support(dml.Feature.FEATURE_LEVELS, [dml.FeatureLevel.LEVEL_1_0]),
    ]
    for call in calls:
        with pytest.raises(dml.DeviceRemovedError, match=re.escape(f"{any_device.info.name}: the device was closed")):
            call()
    assert any_device.info.name in repr(device)


# What is given to run instead of {"InputTensor": VALUES}, and what the message says.
WRONG_INPUTS: dict[str, tuple[Any, str]] = {
    "None": (None, r"SIGN: run takes the inputs as a mapping by member name; got None"),
    "an array": (VALUES, r"SIGN: run takes the inputs as a mapping by member name; got array"),
    "a list": ([VALUES], r"SIGN: run takes the inputs as a mapping by member name; got \["),
    "a list of pairs": ([("InputTensor", VALUES)], r"SIGN: run takes the inputs as a mapping by member name"),
    "text": ("InputTensor", r"SIGN: run takes the inputs as a mapping by member name; got 'InputTensor'"),
    "nothing": ({}, r"SIGN: InputTensor: an array is missing$"),
    "another name": ({"input": VALUES}, r"has no input 'input' .*; it has \['InputTensor'\]$"),
    "a name too many": ({"InputTensor": VALUES, "X": 1}, r"has no input 'X' to give an array for; it has \["),
    "the output": ({"InputTensor": VALUES, "OutputTensor": VALUES}, r"has no input 'OutputTensor'"),
    "a number as name": ({"InputTensor": VALUES, 5: VALUES}, r"has no input 5 "),
    "None as array": ({"InputTensor": None}, r"the array's dtype must be float32; got object$"),
    "text as array": ({"InputTensor": "123456"}, r"the array's dtype must be float32; got <U6$"),
    "an object": ({"InputTensor": object()}, r"the array's dtype must be float32; got object$"),
    "ragged lists": ({"InputTensor": [[1.0], [1.0, 2.0]]}, r"InputTensor: not an array: "),
    "Python floats": ({"InputTensor": [[0.5, 1, 0.1]] * 2}, r"float64, whose value 0.1 at \[0, 2\] float32"),
    "float64": ({"InputTensor": VALUES + np.array([0, 0, 1e-9])}, r"must be float32; got float64, whose value .* at "),
    "uint32": ({"InputTensor": np.full((2, 3), 2**24 + 1, "u4")}, r"uint32, whose value 16777217 "),
    "complex64": ({"InputTensor": VALUES.astype(np.complex64)}, r"the array's dtype must be float32; got complex64$"),
    "NaN": ({"InputTensor": float("nan")}, r"the array's shape must be \[2, 3\]; got \[\]$"),
    "a number": ({"InputTensor": np.float32(1)}, r"InputTensor: the array's shape must be \[2, 3\]; got \[\]$"),
    "transposed": ({"InputTensor": VALUES.T}, r"the array's shape must be \[2, 3\]; got \[3, 2\]$"),
    "flat": ({"InputTensor": VALUES.ravel()}, r"the array's shape must be \[2, 3\]; got \[6\]$"),
    "a dimension more": ({"InputTensor": VALUES[None]}, r"the array's shape must be \[2, 3\]; got \[1, 2, 3\]$"),
    "one row": ({"InputTensor": VALUES[:1]}, r"the array's shape must be \[2, 3\]; got \[1, 3\]$"),
    "no rows": ({"InputTensor": VALUES[:0]}, r"the array's shape must be \[2, 3\]; got \[0, 3\]$"),
    "a record": ({"InputTensor": np.zeros((2, 3), [("a", "f4")])}, r"dtype must be float32; got \[\('a', '<f4'\)\]$"),
    "a time": ({"InputTensor": np.zeros((2, 3), "M8[s]")}, r"the array's dtype must be float32; got datetime64\[s\]$"),
}


@pytest.mark.parametrize("way", ["description", "compiled"])
@pytest.mark.parametrize("mistake", WRONG_INPUTS)
def test_run_refuses_wrong_inputs_by_member(any_device: dml.Device, mistake: str, way: str) -> None:
    inputs, message = WRONG_INPUTS[mistake]
    operator = DESC if way == "description" else compiled(any_device, DESC)
    with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_.*{message}"):
        any_device.run(operator, inputs)
    assert np.array_equal(any_device.run(operator, {"InputTensor": VALUES})["OutputTensor"], np.sign(VALUES))


@pytest.mark.parametrize("missing", ["ConditionTensor", "ATensor", "BTensor"])
def test_each_missing_input_is_named(any_device: dml.Device, missing: str) -> None:
    inputs: dict[str, Any] = {
        "ConditionTensor": np.ones(4, np.uint8),
        "ATensor": np.ones(4, np.float32),
        "BTensor": np.ones(4, np.float32),
    }
    del inputs[missing]
    with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_IF: {missing}: an array is missing$"):
        any_device.run(select(4), inputs)


A_MEMORYVIEW: Any = VALUES.data
GOOD_INPUTS: dict[str, Any] = {
    "transposed view": np.asfortranarray(VALUES),
    "strided view": np.repeat(VALUES, 2, 1)[:, ::2],
    "reversed view": VALUES[::-1, ::-1][::-1, ::-1],
    "big-endian": VALUES.astype(">f4"),
    "read-only": np.broadcast_to(VALUES, (2, 3)),
    "unaligned": np.frombuffer(b"\0" + VALUES.tobytes(), np.float32, offset=1).reshape(2, 3),
    "list of float32": [[np.float32(x) for x in row] for row in VALUES],
    "memoryview": A_MEMORYVIEW,
    "subclass": VALUES.view(np.recarray),
}


@pytest.mark.parametrize("name", GOOD_INPUTS)
def test_run_takes_arrays_of_any_layout(device: dml.Device, name: str) -> None:
    before = np.array(GOOD_INPUTS[name], copy=True)
    result = device.run(DESC, {"InputTensor": GOOD_INPUTS[name]})["OutputTensor"]
    assert np.array_equal(result, np.sign(VALUES))
    assert type(result) is np.ndarray and result.dtype == np.float32 and result.flags.owndata and result.flags.writeable
    assert np.array_equal(np.asarray(GOOD_INPUTS[name]), before)


def test_run_takes_any_mapping(any_device: dml.Device) -> None:
    for mapping in (collections.OrderedDict(InputTensor=VALUES), types.MappingProxyType({"InputTensor": VALUES})):
        assert np.array_equal(any_device.run(DESC, mapping)["OutputTensor"], np.sign(VALUES))


def test_results_are_the_callers_own(device: dml.Device) -> None:
    """A later run changes no earlier result, and a changed result or input no later run."""
    values = VALUES.copy()
    first = device.run(DESC, {"InputTensor": values})["OutputTensor"]
    kept = first.copy()
    second = device.run(DESC, {"InputTensor": -values})["OutputTensor"]
    assert np.array_equal(first, kept) and np.array_equal(second, -kept)
    first[:] = 9
    values[:] = 5
    assert np.array_equal(device.run(DESC, {"InputTensor": VALUES})["OutputTensor"], kept)


def test_bool_arrays_are_conditions(device: dml.Device) -> None:
    a, b = np.arange(4, dtype=np.float32).reshape(2, 2), np.arange(5, 9, dtype=np.float32).reshape(2, 2)
    condition = np.array([[True, False], [False, True]])
    found = device.run(select(2, 2), {"ConditionTensor": condition, "ATensor": a, "BTensor": b})["OutputTensor"]
    assert np.array_equal(found, np.where(condition, a, b))


def test_several_inputs_may_be_one_array(device: dml.Device) -> None:
    found = device.run(greater_than(2, 3), {"ATensor": VALUES, "BTensor": VALUES})["OutputTensor"]
    assert found.dtype == np.uint32 and not found.any()


@pytest.mark.parametrize(
    ("first", "second"), [({"min": 0.0}, {"min": -0.0}), ({"min": -0.0}, {"min": 0.0}), ({"min": np.nan}, {"min": 1.0})]
)
def test_run_tells_descriptions_apart_by_the_bits_of_their_numbers(
    device: dml.Device, first: dict[str, float], second: dict[str, float]
) -> None:
    """0.0 == -0.0, but max(-1, Min) is not the same: the operator kept for one must not serve the other."""
    for attributes in (first, second, first):
        result = device.run(
            dml.ElementWiseThreshold(input_tensor=floats(2), output_tensor=floats(2), min=attributes["min"]),
            {"InputTensor": np.array([-1, 2], np.float32)},
        )["OutputTensor"]
        bound = attributes["min"]
        expected = np.array([-1 if np.isnan(bound) else bound, 2], np.float32)
        assert result.tobytes() == expected.tobytes()


def test_equal_descriptions_are_compiled_once(any_device: dml.Device) -> None:
    with dml.Device(any_device.info.index) as device:
        for bound in (np.nan, float("nan"), 1, 1.0, np.float32(1)):
            for scale_bias in (None, dml.ScaleBias(1, 2), dml.ScaleBias(1.0, float(np.float16(2)))):
                desc = threshold(floats(2), float(bound), scale_bias=scale_bias)
                device.run(desc, {"InputTensor": np.zeros(2, np.float32)})
        assert len(device._compiled) == 4


def test_run_refuses_arrays_that_overlapping_strides_cannot_hold(any_device: dml.Device) -> None:
    """Where strides read one element twice, the array must have one value there."""
    tensor = floats(2, 3, strides=(0, 1))
    desc = sign(tensor, floats(2, 3))
    row = np.array([[1, -2, 0]], np.float32)
    expected = np.sign(np.repeat(row, 2, 0))
    for good in (row, np.repeat(row, 2, 0)):
        assert np.array_equal(any_device.run(desc, {"InputTensor": good})["OutputTensor"], expected)
    message = (
        r"^ELEMENT_WISE_SIGN: InputTensor: the array has different values where Strides \[0, 1\] read one element$"
    )
    with pytest.raises(dml.InvalidArgumentError, match=message):
        any_device.run(desc, {"InputTensor": np.concatenate([row, row + 1])})
    assert np.array_equal(any_device.run(desc, {"InputTensor": row})["OutputTensor"], expected)


def test_inputs_may_have_pythons_names(any_device: dml.Device) -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (4,))
    a, b = np.arange(4, dtype=np.float32), np.arange(5, 9, dtype=np.float32)
    add = dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    parts: list[dict[str, Any]] = [{"a_tensor": a, "b_tensor": b}, {"ATensor": a, "b_tensor": any_device.array(b)}]
    for given in parts:
        assert np.array_equal(any_device.run(add, given)["OutputTensor"], a + b)
        assert np.array_equal(any_device.run(add, given, keep=True)["OutputTensor"].numpy(), a + b)
    joined = dml.Join(
        input_count=2, input_tensors=[tensor, tensor], output_tensor=dml.TensorDesc(dml.FLOAT32, (8,)), axis=0
    )
    got = any_device.run(joined, {"input_tensors[0]": a, "InputTensors[1]": b})["OutputTensor"]
    assert np.array_equal(got, np.concatenate([a, b]))
    for wrong, message in (
        ({"a_tensor": a, "ATensor": a, "b_tensor": b}, "ATensor is given twice, by both of its names"),
        ({"a_tensor": a, "c_tensor": b}, "has no input 'c_tensor'"),
        ({"a_tensor": a}, "BTensor: an array is missing"),
        ({"a_tensor": a, "b_tensor": b, "output_tensor": b}, "has no input 'output_tensor'"),
    ):
        with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_ADD: {message}"):
            any_device.run(add, wrong)


def test_operator_desc_takes_directmls_names_of_values(any_device: dml.Device) -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (4,))
    ends: dict[str, Any] = {"InputTensor": tensor, "OutputTensor": tensor}
    rounded = dml.ElementWiseRound(
        input_tensor=tensor, output_tensor=tensor, rounding_mode=dml.RoundingMode.TOWARD_ZERO
    )
    for mode in ("DML_ROUNDING_MODE_TOWARD_ZERO", "TOWARD_ZERO", dml.RoundingMode.TOWARD_ZERO):
        made = dml.operator_desc("ELEMENT_WISE_ROUND", RoundingMode=mode, **ends)
        assert made == rounded
    for data_type in ("DML_TENSOR_DATA_TYPE_FLOAT32", "FLOAT32", dml.FLOAT32):
        clip = dml.operator_desc("ELEMENT_WISE_CLIP1", MinMaxDataType=data_type, Min=0.0, Max=1.0, **ends)
        got = any_device.run(clip, {"InputTensor": np.arange(-1, 3, dtype=np.float32)})["OutputTensor"]
        assert np.array_equal(got, [0, 0, 1, 1])
    for members, message in (
        ({"RoundingMode": "DOWN"}, "RoundingMode must be one of HALVES_TO_NEAREST_EVEN, .*; got 'DOWN'"),
        ({"RoundingMode": "DML_ROUNDING_MODE_"}, "RoundingMode must be one of"),
    ):
        with pytest.raises(dml.InvalidArgumentError, match=f"^ELEMENT_WISE_ROUND: {message}"):
            dml.operator_desc("ELEMENT_WISE_ROUND", **ends, **members)
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_CLIP1: MinMaxDataType: unknown data type 'F32'"):
        dml.operator_desc("ELEMENT_WISE_CLIP1", MinMaxDataType="F32", Min=0.0, Max=1.0, **ends)


@pytest.mark.parametrize(
    "given",
    [
        VALUES.astype(np.float64),
        VALUES.astype(">f8"),
        VALUES.tolist(),
        [[True, False, 2], [3, 4, 2**24]],
        np.array([[1, -2, 3], [0, 5, -(2**62)]]),
        np.array([[np.nan, np.inf, -0.0], [1e-40, 0, 65504]], np.float32).astype(np.float64),
        np.ones((2, 3), np.float16),
        VALUES > 0,
    ],
    ids=["float64", "big-endian", "floats", "integers", "int64", "special", "float16", "bool"],
)
@pytest.mark.parametrize("keep", [False, True])
def test_what_keeps_every_value_is_converted(device: dml.Device, given: Any, keep: bool) -> None:
    made = device.run(IDENTITY, {"InputTensor": given}, keep=keep)["OutputTensor"]
    assert np.array_equal(np.asarray(made), np.asarray(given, np.float64), equal_nan=True)


@pytest.mark.parametrize(
    ("data_type", "values", "changed"),
    [
        (dml.FLOAT16, [1.0, 2.0, 2049.0], "2049.0 at [2]"),
        (dml.FLOAT16, [1e6], "1000000.0 at [0]"),
        (dml.INT8, [1.0, 0.5], "0.5 at [1]"),
        (dml.INT8, [127, 128], "128 at [1]"),
        (dml.UINT32, [5, -1], "-1 at [1]"),
        (dml.INT32, [float("nan")], "nan at [0]"),
        (dml.INT64, [2.0**63], "9.223372036854775808e+18 at [0]"),
        (dml.INT64, np.array([2**63], "u8"), "9223372036854775808 at [0]"),
        (dml.UINT64, [2.0**64], "at [0]"),
        (dml.FLOAT32, [2**63 - 1], "9223372036854775807 at [0]"),
        (dml.FLOAT32, np.array([2**64 - 1], "u8"), "18446744073709551615 at [0]"),
    ],
)
def test_what_would_change_a_value_is_refused(
    device: dml.Device, data_type: dml.DataType, values: Any, changed: str
) -> None:
    tensor = dml.TensorDesc(data_type, (len(values),))
    desc = dml.ElementWiseIdentity(input_tensor=tensor, output_tensor=tensor)
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_IDENTITY: InputTensor: .*") as caught:
        device.run(desc, {"InputTensor": values})
    number, _, behind = changed.partition("at")
    assert f"at{behind} {tensor.data_type.numpy_dtype} does not have" in str(caught.value)
    assert number in str(caught.value) or "e+" in number


def test_casting_is_numpys(device: dml.Device) -> None:
    values = np.array([[0.1, 1e300, -7], [2, 3, 4]])
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    for casting in ("same_kind", "unsafe"):
        with np.errstate(over="ignore"):
            made = device.run(IDENTITY, {"InputTensor": values}, casting=casting)["OutputTensor"]
        assert np.array_equal(made, rounded)
    refusals: tuple[tuple[Any, Any], ...] = (
        (values, "safe"),
        (VALUES.astype(np.float16), "equiv"),
        (values + 1j, "same_kind"),
    )
    for given, refused in refusals:
        with pytest.raises(dml.InvalidArgumentError, match=rf"got {given.dtype}, which casting='{refused}' does not"):
            device.run(IDENTITY, {"InputTensor": given}, casting=refused)
    wrong: Any = "lossy"
    with pytest.raises(dml.InvalidArgumentError, match="casting must be one of no, equiv, safe, same_kind, unsafe, or"):
        device.run(IDENTITY, {"InputTensor": values}, casting=wrong)
