"""Dispatchables: every way to write an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.models import Model
from dmlvk.models.dispatchables import MEMBER_READERS, OperatorDispatchable
from dmlvk.operators import OPERATORS

Load = Callable[[Any], Model]
Refused = Callable[[Any], str]

TENSOR = {"DataType": "FLOAT32", "Sizes": [2, 3]}
SIGN = {"InputTensor": TENSOR, "OutputTensor": TENSOR}
THRESHOLD = {**SIGN, "Min": 0.5}


def model(dispatchable: dict[str, Any]) -> dict[str, Any]:
    return {"resources": {}, "dispatchables": {"D": dispatchable}, "commands": []}


def read(load: Load, members: dict[str, Any]) -> OperatorDispatchable:
    dispatchable = load(model(members)).dispatchables["D"]
    assert isinstance(dispatchable, OperatorDispatchable)
    return dispatchable


def test_every_type_of_member_has_a_reader() -> None:
    assert {field.type for operator in OPERATORS.values() for field in operator.fields} <= set(MEMBER_READERS)


@pytest.mark.parametrize(
    "members",
    [
        {"type": "ELEMENT_WISE_SIGN", "desc": SIGN},
        {"type": "DML_OPERATOR_ELEMENT_WISE_SIGN", "Desc": SIGN},
        {"Type": "ELEMENT_WISE_SIGN", **SIGN},
        {"type": "ELEMENT_WISE_SIGN", **SIGN, "dmlCompileType": "DmlCompileOp", "bindings": {}, "$comment": "x"},
        {"type": "ELEMENT_WISE_SIGN", "InputTensor": {"Type": "BUFFER", "Desc": TENSOR}, "OutputTensor": TENSOR},
        {
            "type": "ELEMENT_WISE_SIGN",
            "desc": {
                "OutputTensor": TENSOR,
                "InputTensor": {
                    "Type": "DML_TENSOR_TYPE_BUFFER",
                    "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32",
                    "Flags": ["DML_TENSOR_FLAG_NONE"],
                    "DimensionCount": 2,
                    "Sizes": [2, 3],
                    "Strides": [],
                    "TotalTensorSizeInBytes": 0,
                    "GuaranteedBaseOffsetAlignment": 0,
                },
            },
        },
    ],
)
def test_forms_of_one_operator(load: Load, members: dict[str, Any]) -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (2, 3))
    assert read(load, members).desc == dml.operator_desc("ELEMENT_WISE_SIGN", InputTensor=tensor, OutputTensor=tensor)


def test_all_members_of_a_tensor(load: Load) -> None:
    members = {
        **TENSOR,
        "Strides": [8, 2],
        "TotalTensorSizeInBytes": 128,
        "GuaranteedBaseOffsetAlignment": 64,
        "Flags": "NONE",
    }
    desc = read(load, {"type": "ELEMENT_WISE_SIGN", "desc": {**SIGN, "InputTensor": members}}).desc
    assert desc.inputs[0][1] == dml.TensorDesc(dml.FLOAT32, (2, 3), (8, 2), 128, 64)


@pytest.mark.parametrize(("text", "value"), [(1, 1.0), (-2.5, -2.5), ("-inf", float("-inf")), ("INF", float("inf"))])
def test_floats_and_scale_bias(load: Load, text: Any, value: float) -> None:
    members = {**THRESHOLD, "Min": text, "ScaleBias": {"Scale": text, "Bias": 0.5}}
    desc = read(load, {"type": "ELEMENT_WISE_THRESHOLD", "desc": members}).desc
    assert isinstance(desc, dml.ElementWiseThreshold)
    assert desc.min == value
    assert desc.scale_bias == dml.ScaleBias(value, 0.5)
    assert desc.scale_bias is not None


def test_optional_members_may_be_left_out(load: Load) -> None:
    desc = read(load, {"type": "ELEMENT_WISE_THRESHOLD", "desc": THRESHOLD}).desc
    assert isinstance(desc, dml.ElementWiseThreshold)
    assert desc.scale_bias is None


def test_execution_flags(load: Load) -> None:
    flags = ["DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION", "DESCRIPTORS_VOLATILE"]
    read_flags = read(load, {"type": "ELEMENT_WISE_SIGN", "desc": SIGN, "executionFlags": flags}).options.flags
    expected = dml.ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION | dml.ExecutionFlags.DESCRIPTORS_VOLATILE
    assert read_flags == expected
    own = {"type": "ELEMENT_WISE_SIGN", "desc": SIGN, "executionFlags": "DML_EXECUTION_FLAG_ALLOW_DEVICE_ARITHMETIC"}
    assert read(load, own).options.flags == dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CLIP", "did you mean ELEMENT_WISE_CLIP?"),
        ("DML_OPERATOR_ELEMENT_WISE_SINE", "did you mean ELEMENT_WISE_SIN?"),
        ("nothing of the kind", "'dmlvk operators' lists those that there are"),
        ("9" * 5000, "'dmlvk operators' lists those that there are"),
    ],
    ids=["short", "misspelt", "unknown", "long"],
)
def test_an_unknown_operator_is_named_with_the_one_that_was_meant(refused: Refused, name: str, hint: str) -> None:
    """Not with all that there are."""
    message = refused(model({"type": name, "desc": SIGN}))
    assert message.endswith(hint)
    assert len(message) < 400


def test_the_place_is_that_of_the_member(refused: Refused) -> None:
    text = """{ "resources": {}, "commands": [], "dispatchables": {
      "D": { "type": "ELEMENT_WISE_SIGN",
        "InputTensor": { "DataType": "FLOAT32", "Sizes": [3] },
        "OutputTensor": { "DataType": "FLOAT32",
            "Sizes": [3, -1] } } } }"""
    assert refused(text).startswith("5:26: ELEMENT_WISE_SIGN: OutputTensor.Sizes[1] must be from 0")


def test_an_optional_tensor_may_be_left_out(load: Load) -> None:
    floats, small = {"DataType": "FLOAT32", "Sizes": [3]}, {"DataType": "UINT8", "Sizes": [3]}
    members = {"InputTensor": floats, "ScaleTensor": floats, "OutputTensor": small}
    for given in ({}, {"ZeroPointTensor": small}):
        dispatchable = read(load, {"type": "ELEMENT_WISE_QUANTIZE_LINEAR", "desc": {**members, **given}})
        points = dispatchable.bind_points
        assert [point and point.name for point in points] == [
            "InputTensor",
            "ScaleTensor",
            "ZeroPointTensor" if given else None,
            "OutputTensor",
        ]


def test_axes_are_an_array_of_integers(load: Load, refused: Refused) -> None:
    members = {"InputTensor": TENSOR, "OutputTensor": TENSOR, "AxisCount": 2, "Axes": [1, 0]}
    desc = read(load, {"type": "ACTIVATION_SOFTMAX1", "desc": members}).desc
    assert isinstance(desc, dml.ActivationSoftmax1)
    assert (desc.axis_count, desc.axes) == (2, (1, 0))
    message = refused(model({"type": "ACTIVATION_SOFTMAX1", "desc": {**members, "Axes": [1, 0.5]}}))
    assert "ACTIVATION_SOFTMAX1: Axes[1] must be an integer" in message
    message = refused(model({"type": "ACTIVATION_SOFTMAX1", "desc": {**members, "Axes": 1}}))
    assert "ACTIVATION_SOFTMAX1: Axes must be an array" in message


ADD1 = {"ATensor": TENSOR, "BTensor": TENSOR, "OutputTensor": TENSOR}


@pytest.mark.parametrize(
    "fused",
    [
        {"Type": "ACTIVATION_ELU", "Alpha": 0.5},
        {"Type": "DML_OPERATOR_ACTIVATION_ELU", "Alpha": 0.5, "InputTensor": None, "OutputTensor": None},
        {"Type": "ACTIVATION_ELU", "Desc": {"Alpha": 0.5}},
        {"Type": "ACTIVATION_ELU", "Desc": {"InputTensor": None, "Alpha": 0.5}},
    ],
)
def test_a_fused_activation_is_a_description_without_tensors(load: Load, fused: dict[str, Any]) -> None:
    desc = read(load, {"type": "ELEMENT_WISE_ADD1", "desc": {**ADD1, "FusedActivation": fused}}).desc
    assert isinstance(desc, dml.ElementWiseAdd1)
    assert desc.fused_activation == dml.FusedActivation(dml.ActivationElu, alpha=0.5)
    plain = read(load, {"type": "ELEMENT_WISE_ADD1", "desc": ADD1}).desc
    assert isinstance(plain, dml.ElementWiseAdd1)
    assert plain.fused_activation is None


@pytest.mark.parametrize("compile_type", ["DmlCompileOp", "DmlCompileGraph"])
def test_compile_types(load: Load, compile_type: str, device: dml.Device) -> None:
    dispatchable = read(load, {"type": "ELEMENT_WISE_SIGN", "desc": SIGN, "dmlCompileType": compile_type})
    compiled = dispatchable.compile(device)
    assert isinstance(compiled, dml.CompiledGraph) == (compile_type == "DmlCompileGraph")
    assert [point.name for point in (*compiled.inputs, *compiled.outputs)] == ["InputTensor", "OutputTensor"]


def test_a_graph_of_an_operator_without_its_optional_tensor(load: Load, any_device: dml.Device) -> None:
    members = {
        "type": "ELEMENT_WISE_QUANTIZE_LINEAR",
        "dmlCompileType": "DmlCompileGraph",
        "desc": {"InputTensor": TENSOR, "ScaleTensor": TENSOR, "OutputTensor": {"DataType": "INT8", "Sizes": [2, 3]}},
    }
    compiled = read(load, members).compile(any_device)
    assert [point.tensor is None for point in compiled.inputs] == [False, False, True]


OWNED = {**TENSOR, "Flags": ["OWNED_BY_DML"]}


def owned_model(**changes: Any) -> dict[str, Any]:
    dispatchable = {
        "type": "ELEMENT_WISE_MAX",
        "desc": {"ATensor": TENSOR, "BTensor": OWNED, "OutputTensor": TENSOR},
        "bindings": {"BTensor": {"name": "W", "elementOffset": 4}},
        **changes,
    }
    values = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 12, "value": 1}}
    return {"resources": {"W": values}, "dispatchables": {"D": dispatchable}, "commands": []}


def test_owned_tensors_are_bound_once(load: Load) -> None:
    dispatchable = load(owned_model()).dispatchables["D"]
    assert isinstance(dispatchable, OperatorDispatchable)
    assert [None if point is None else point.name for point in dispatchable.bind_points] == [
        "ATensor",
        None,
        "OutputTensor",
    ]
    ((), (binding,)) = dispatchable.owned
    assert (binding.resource.name, binding.offset_in_bytes) == ("W", 16)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bindings": {}}, "the dispatchable 'D': bindings needs the member 'BTensor'"),
        ({"bindings": {"BTensor": "V"}}, "there is no resource 'V'"),
        ({"bindings": {"BTensor": ["W", "W"]}}, "BTensor takes 1 resources; 2 are bound"),
        ({"bindings": {"BTensor": "W", "ATensor": "W"}}, "the dispatchable 'D': bindings has no member 'ATensor'"),
        ({"bindings": []}, "the dispatchable 'D': bindings must be an object; got an array"),
    ],
)
def test_bindings_at_initialization_that_are_refused(refused: Refused, changes: dict[str, Any], message: str) -> None:
    assert message in refused(owned_model(**changes))


def test_owned_tensors_are_not_bound_again(refused: Refused) -> None:
    content = owned_model()
    bindings = {"ATensor": "W", "BTensor": "W", "OutputTensor": "W"}
    content["commands"] = [{"type": "dispatch", "dispatchable": "D", "bindings": bindings}]
    assert "bindings has no member 'BTensor'" in refused(content)
