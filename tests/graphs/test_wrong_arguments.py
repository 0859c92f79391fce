"""What is not meant for a function's parameter ends in one of dmlvk's errors, in one line, before anything is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from tests.effort import IS_QUICK

JUNK: tuple[Any, ...] = (
    None, "x", "", b"x", 1.5, float("nan"), float("inf"), -1, 2**70, -(2**70), True, [], [None], ["a"], [1.5],
    (1,) * 20, {}, {"a": 1}, object(), np.zeros((2, 2)), np.array("x"), np.float16(2), [[1]], 1j, len, {1, 2}, range(3),
    np.ma.masked, "FLOAT32", dml.FLOAT32, [2**70], slice(1), ..., np.array([2**63], np.uint64), type, [1] * 5_000,
)  # fmt: skip
"""Of every kind that Python and NumPy have words for; some of it fits some parameters."""

SHAPE = (1, 2, 4, 4)


def distinct_functions() -> list[str]:
    """Those that are no second name of another."""
    return sorted({id(getattr(F, name)): name for name in reversed(F.__all__)}.values())


def arguments_with(function: Callable[..., Any], wrong: str, junk: object, operand: dml.Expression) -> dict[str, Any]:
    """An expression for each parameter without a default, but for one of them."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: operand for p in parameters if p.default is p.empty} | {wrong: junk}


@pytest.mark.parametrize("name", distinct_functions())
def test_functions_refuse_in_their_own_words(device: dml.Device, name: str) -> None:
    function = getattr(F, name)
    graph = dml.Graph(device)
    operand = graph.input("a", dml.FLOAT32, SHAPE)
    for parameter in inspect.signature(function).parameters:
        for junk in JUNK[:: 4 if IS_QUICK else 1]:
            try:
                function(**arguments_with(function, parameter, junk, operand))
            except dml.DmlError as error:
                assert "\n" not in str(error)
                assert len(str(error)) <= 2000


def _apply(**changed: Any) -> Callable[[dml.Graph, dml.Expression], Any]:
    given = {"operator": "TOP_K", "attributes": {"axis": 3, "k": 1}, **changed}
    return lambda graph, a: graph.apply_all(**{"tensors": {"input_tensor": a}, **given})


REFUSED: dict[str, Callable[[dml.Graph, dml.Expression], Any]] = {
    "TOP_K: tensors must be given by name, in a dict; got None": _apply(tensors=None),
    "TOP_K: attributes must be given by name, in a dict; got [1]": _apply(attributes=[1]),
    "TOP_K: has no 'axs'; did you mean 'axis'?": _apply(attributes={"axs": 3, "k": 1}),
    "TOP_K: has no 'depth'; it has axis, k": _apply(attributes={"depth": 3}),
    "TOP_K: member K is required": _apply(attributes={"axis": 3}),
    "TOP_K: Axis must be an integer; got 'last'": _apply(attributes={"axis": "last", "k": 1}),
    "TOP_K: name must be a string; got 3": _apply(name=3),
    "TOP_K: optional_outputs must be a sequence of names; got 'all'": _apply(optional_outputs="all"),
    "TOP_K: output_sizes: there is no output 'values'; there are output_value_tensor, output_index_tensor": _apply(
        output_sizes={"values": (1,)}
    ),
    "TOP_K: output_data_type: there is no output 'values'; there are output_value_tensor, output_index_tensor": _apply(
        output_data_type={"values": "FLOAT32"}
    ),
    "JOIN: input_tensors must be a list of expressions, arrays and numbers; got <dmlvk.Expression a: FLOAT32 "
    "[1, 2, 4, 4]>": lambda graph, a: graph.apply("JOIN", {"input_tensors": a}, {"axis": 0}),
    "CONVOLUTION: FilterTensor.DimensionCount must be from 3 to 5 at feature level 6_4; got 2, which no feature level "
    "has": lambda graph, a: F.convolution(a, a[0, 0]),
    "ELEMENT_WISE_CLIP: member 'max' is required": lambda graph, a: graph.apply(
        "ELEMENT_WISE_CLIP", {"input_tensor": a}, {"min": 0.0}
    ),
    "functions.gru: with_sequence must be True or False; got 'yes'": lambda graph, a: F.gru(
        a,
        a,
        a,
        [],
        dml.RecurrentNetworkDirection.FORWARD,
        False,
        with_sequence="yes",  # type: ignore[arg-type]
    ),
    "functions.sum: keepdims must be True or False; got 'yes'": lambda graph, a: F.sum(a, keepdims="yes"),  # type: ignore[arg-type]
    "functions.concatenate: arrays must be a list of operands; got None": lambda graph, a: F.concatenate(None),  # type: ignore[arg-type]
    "functions.tanh: needs at least one expression of a graph (Graph.input makes one); got ndarray": lambda graph, a: (
        F.tanh(np.ones(3, np.float32))
    ),
    "functions.fill_value_constant: has no operand that tells its graph: give graph=": lambda graph, a: (
        F.fill_value_constant(1.0, output_sizes=(2,))
    ),
    "functions.fill_value_constant: graph must be a dmlvk.Graph; got 3": lambda graph, a: F.fill_value_constant(
        1.0,
        output_sizes=(2,),
        graph=3,  # type: ignore[arg-type]
    ),
    "Graph: device must be a dmlvk.Device; got 'gpu'": lambda graph, a: dml.Graph("gpu"),  # type: ignore[arg-type]
}
"""What a call says that nothing can be made of."""


@pytest.mark.parametrize("message", REFUSED)
def test_message_says_what_is_wrong(device: dml.Device, message: str) -> None:
    graph = dml.Graph(device)
    with pytest.raises(dml.DmlError) as caught:
        REFUSED[message](graph, graph.input("a", dml.FLOAT32, SHAPE))
    assert str(caught.value) == message


def test_expressions_are_no_numbers(device: dml.Device) -> None:
    a = dml.Graph(device).input("a", dml.FLOAT32, SHAPE)
    for converted in (int, float):
        with pytest.raises(dml.InvalidArgumentError) as caught:
            converted(a)
        assert str(caught.value) == (
            "<dmlvk.Expression a: FLOAT32 [1, 2, 4, 4]> is no number: it is a tensor that is not computed yet"
        )


def test_members_that_repeat_a_data_type_follow_from_it(device: dml.Device) -> None:
    """PADDING1 and the operators that fill state the data type of their value beside that of their tensors."""
    graph = dml.Graph(device)
    a = graph.input("a", dml.INT32, (3,))
    model = graph.compile(
        padded=F.padding1(a, dml.PaddingMode.CONSTANT, 7, [1], [2]),
        ones=F.fill_value_constant(1.5, graph=graph, output_data_type=dml.FLOAT32, output_sizes=(2, 2)),
        counted=F.fill_value_sequence(5, 2, graph=graph, output_data_type=dml.UINT32, output_sizes=(4,)),
    )
    made = device.run(model, {"a": np.arange(3, dtype=np.int32)})
    assert made["padded"].tolist() == [7, 0, 1, 2, 7, 7]
    assert made["ones"].tolist() == [[1.5, 1.5], [1.5, 1.5]]
    assert made["counted"].tolist() == [5, 7, 9, 11]
