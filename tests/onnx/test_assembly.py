"""What an operator writes that a translator says nothing of."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto

import dmlvk as dml
from dmlvk.onnx.nodes.assembly import Assembly
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.operators.members import ReduceFunction

F32, F16, I64, U8, BOOL = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.BOOL,
)


def _added(graph: Assembly, operator: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> Tensor:
    """An operator of inputs that are given by their types and shapes, one or several for a member."""

    def tensor(given: Any) -> Any:
        return [tensor(each) for each in given] if isinstance(given, list) else graph.input("x", *given)

    (made,) = graph.add(operator, {**{name: tensor(given) for name, given in inputs.items()}, **attributes})
    return made


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "element", "shape"),
    [
        ("JOIN", {"input_tensors": [(F32, (2, 3)), (F32, (2, 5))]}, {"axis": 1}, F32, (2, 8)),
        ("ELEMENT_WISE_IDENTITY", {"input_tensor": (F32, ())}, {}, F32, ()),
        ("ELEMENT_WISE_IDENTITY", {"input_tensor": (BOOL, (1,))}, {}, BOOL, (1,)),
        ("ELEMENT_WISE_ADD", {"a_tensor": (F16, (4, 1)), "b_tensor": (F16, (3,))}, {}, F16, (4, 3)),
        ("ELEMENT_WISE_ADD", {"a_tensor": (F16, ())}, {"b_tensor": 2}, F16, ()),
        ("ELEMENT_WISE_LOGICAL_EQUALS", {"a_tensor": (U8, (4, 1)), "b_tensor": (U8, (1,))}, {}, BOOL, (4, 1)),
        ("ELEMENT_WISE_IF", {"condition_tensor": (BOOL, (2,)), "a_tensor": (U8, ())}, {"b_tensor": 3}, U8, (2,)),
        ("REDUCE", {"input_tensor": (BOOL, (4, 3))}, {"function": ReduceFunction.MAX, "axes": [1]}, BOOL, (4, 1)),
        (
            "GATHER",
            {"input_tensor": (F16, (4, 3)), "indices_tensor": (I64, (1, 7))},
            {"axis": 0, "index_dimensions": 1},
            F16,
            (7, 3),
        ),
    ],
)
def test_outputs_that_nobody_states_follow_from_the_operators_rule(
    any_device: dml.Device,
    operator: str,
    inputs: dict[str, Any],
    attributes: dict[str, Any],
    element: int,
    shape: tuple[int, ...],
) -> None:
    made = _added(Assembly(any_device), operator, inputs, attributes)
    assert (made.element, made.shape) == (element, shape)


def test_outputs_that_contradict_the_rule_are_refused(any_device: dml.Device) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"JOIN: InputTensors\[1\]"):
        _added(Assembly(any_device), "JOIN", {"input_tensors": [(F32, (2, 3)), (F32, (3, 5))]}, {"axis": 1})
    with pytest.raises(dml.InvalidArgumentError, match="GATHER: IndicesTensor"):
        inputs = {"input_tensor": (F32, (4, 3)), "indices_tensor": (I64, (7,))}
        _added(Assembly(any_device), "GATHER", inputs, {"axis": 0, "index_dimensions": 1})
    with pytest.raises(NotOnDevice, match="do not broadcast"):
        _added(Assembly(any_device), "ELEMENT_WISE_ADD", {"a_tensor": (F32, (2,)), "b_tensor": (F32, (3,))}, {})


def test_one_number_is_one_constant_of_a_graph(any_device: dml.Device) -> None:
    tensor = Assembly(any_device).input("x", F32, (2, 3))
    graph = tensor.graph.assembled([(tensor * 2 + 2) / 2.5])
    assert graph is not None
    assert [source.kind for source in graph.inputs] == ["input", "constant", "constant"]
