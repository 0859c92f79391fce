"""What an operator writes that a translator says nothing of."""

from __future__ import annotations

import pytest
from onnx import TensorProto

import dmlvk as dml
from dmlvk.onnx.nodes.assembly import Assembly
from dmlvk.onnx.nodes.values import Tensor, input_tensor
from dmlvk.operators.members import ReduceFunction


def _input(*shape: int, element: int = TensorProto.FLOAT) -> Tensor:
    return input_tensor("x", element, shape)


@pytest.mark.parametrize(
    ("operator", "members", "element", "shape"),
    [
        ("JOIN", {"input_tensors": [_input(2, 3), _input(2, 5)], "axis": 1}, TensorProto.FLOAT, (2, 8)),
        ("ELEMENT_WISE_IDENTITY", {"input_tensor": _input()}, TensorProto.FLOAT, ()),
        ("ELEMENT_WISE_IDENTITY", {"input_tensor": _input(1, element=TensorProto.BOOL)}, TensorProto.BOOL, (1,)),
        (
            "REDUCE",
            {"function": ReduceFunction.MAX, "input_tensor": _input(4, 3, element=TensorProto.BOOL), "axes": [1]},
            TensorProto.BOOL,
            (4, 1),
        ),
        (
            "GATHER",
            {
                "input_tensor": _input(4, 3, element=TensorProto.FLOAT16),
                "indices_tensor": _input(1, 7, element=TensorProto.INT64),
                "axis": 0,
                "index_dimensions": 1,
            },
            TensorProto.FLOAT16,
            (7, 3),
        ),
    ],
)
def test_outputs_that_nobody_states_follow_from_the_operators_rule(
    any_device: dml.Device, operator: str, members: dict[str, object], element: int, shape: tuple[int, ...]
) -> None:
    (made,) = Assembly(any_device).add(operator, "node", members)
    assert (made.element, made.shape) == (element, shape)


def test_outputs_that_contradict_the_rule_are_refused(any_device: dml.Device) -> None:
    wrong = {"input_tensors": [_input(2, 3), _input(3, 5)], "axis": 1}
    with pytest.raises(dml.InvalidArgumentError, match=r"JOIN: InputTensors\[1\]"):
        Assembly(any_device).add("JOIN", "node", wrong)
    with pytest.raises(dml.InvalidArgumentError, match="GATHER: IndicesTensor"):
        members = {"input_tensor": _input(4, 3), "indices_tensor": _input(7, element=TensorProto.INT64)}
        Assembly(any_device).add("GATHER", "node", {**members, "axis": 0, "index_dimensions": 1})
