"""Fused activations: the bits of the operator followed by the activation, and what may be fused."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from tests.binding.support import buffer_with, compiled, execute
from tests.targets import kernel_of

FLOATS = (dml.FLOAT32, dml.FLOAT16)
EACH_TYPE = pytest.mark.parametrize("data_type", FLOATS, ids=lambda data_type: data_type.name)

_ELU = dml.FusedActivation(dml.ActivationElu, alpha=1.0)


def _add1(tensor: dml.TensorDesc, fused: dml.FusedActivation | None, **others: dml.TensorDesc) -> dml.ElementWiseAdd1:
    tensors = {"a_tensor": tensor, "b_tensor": tensor, "output_tensor": tensor, **others}
    return dml.ElementWiseAdd1(**tensors, fused_activation=fused)


@pytest.mark.parametrize("index", [0, 1])
@EACH_TYPE
def test_fused_in_place(index: int, data_type: dml.DataType, device: dml.Device) -> None:
    tensor = dml.TensorDesc(data_type, (6,))
    operator = compiled(device, _add1(tensor, _ELU))
    addends = [np.array(values, data_type.numpy_dtype) for values in ([0, 1, 2, -3, 4, 9], [1, 1, -2, -200, 0.5, 9])]
    with buffer_with(device, addends[0]) as first, buffer_with(device, addends[1]) as second:
        bindings = [dml.BufferBinding(first), dml.BufferBinding(second)]
        execute(operator, bindings, [bindings[index]])
        buffers = (first, second)
        result = buffers[index].download(data_type.numpy_dtype)
        assert result.tolist() == [1, 2, 0, -1, 4.5, 18]
        assert (buffers[1 - index].download(data_type.numpy_dtype) == addends[1 - index]).all()


def test_nothing_fused_is_an_addition(benches: list[Workbench]) -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (100,))
    add = dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    identity = dml.FusedActivation(dml.ActivationIdentity)
    assert kernel_of(_add1(tensor, None)) == kernel_of(_add1(tensor, identity)) == kernel_of(add)
    assert kernel_of(_add1(tensor, _ELU)).variant == "element_wise_add1.float32.fused_elu.contiguous"


TENSOR = dml.TensorDesc(dml.FLOAT32, (2,))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "member Alpha is required"),
        ({"alpha": "1"}, "Alpha must be a number; got '1'"),
        ({"alpha": None}, "Alpha must be a number; got None"),
        ({"alpha": 1.0, "beta": 2.0}, "has no member beta"),
        ({"alpha": 1.0, "input_tensor": TENSOR}, "InputTensor must be null: a fused activation has no tensors; got "),
        ({"alpha": 1.0, "output_tensor": TENSOR}, "OutputTensor must be null: a fused activation has no tensors; got "),
    ],
)
def test_members_of_a_fused_activation(members: dict[str, Any], message: str) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=f"^FusedActivation ACTIVATION_ELU: {re.escape(message)}"):
        dml.FusedActivation(dml.ActivationElu, **members)


@pytest.mark.parametrize("other", [1, "ACTIVATION_ELU", None, int])
def test_a_fused_activation_is_an_operators_class(other: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^FusedActivation: must be an operator's class; got "):
        dml.FusedActivation(other)


def test_a_description_with_tensors_is_no_fused_activation() -> None:
    elu = dml.ActivationElu(input_tensor=TENSOR, output_tensor=TENSOR, alpha=1.0)
    message = r"^ELEMENT_WISE_ADD1: FusedActivation must be a dmlvk\.FusedActivation or None; got ActivationElu\("
    with pytest.raises(dml.InvalidArgumentError, match=message):
        _add1(TENSOR, elu)  # type: ignore[arg-type]  # refused


def test_fused_activations_by_directmls_names() -> None:
    by_name = dml.fused_activation("DML_OPERATOR_ACTIVATION_ELU", Alpha=1, InputTensor=None, OutputTensor=None)
    assert by_name == _ELU
    made = dml.operator_desc(
        "ELEMENT_WISE_ADD1", ATensor=TENSOR, BTensor=TENSOR, OutputTensor=TENSOR, FusedActivation=by_name
    )
    assert made == _add1(TENSOR, _ELU)
    with pytest.raises(dml.UnsupportedError, match=r"^ACTIVATION_NONE: dmlvk has no such operator"):
        dml.fused_activation("ACTIVATION_NONE")
    with pytest.raises(dml.InvalidArgumentError, match=r"^ACTIVATION_ELU: has no member alpha; its members are "):
        dml.fused_activation("ACTIVATION_ELU", alpha=1.0)


def test_equality_is_that_of_bits() -> None:
    def linear(alpha: float, beta: float) -> dml.FusedActivation:
        return dml.FusedActivation(dml.ActivationLinear, alpha=alpha, beta=beta)

    assert linear(0.1, math.nan) == linear(float(np.float32(0.1)), math.nan)
    assert hash(linear(0.1, math.nan)) == hash(linear(0.1, math.nan))
    assert linear(0.0, 1.0) != linear(-0.0, 1.0)
    assert linear(1.0, 1.0) != dml.FusedActivation(dml.ActivationScaledTanh, alpha=1.0, beta=1.0)
    assert _add1(TENSOR, linear(0.0, 1.0)) != _add1(TENSOR, linear(-0.0, 1.0))
    assert repr(linear(0.5, 2)) == "FusedActivation(ActivationLinear, alpha=0.5, beta=2.0)"
    with pytest.raises(AttributeError, match="cannot be changed"):
        linear(0.0, 1.0).activation = dml.ActivationElu
