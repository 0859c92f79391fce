"""How operators are named by people, the same everywhere."""

from __future__ import annotations

from typing import Any

import pytest

import dmlvk as dml
from dmlvk.operators import OPERATORS, operators_named


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ELEMENT_WISE_SIGN", ["ELEMENT_WISE_SIGN"]),
        ("dml_operator_element_wise_sign", ["ELEMENT_WISE_SIGN"]),
        ("Sign", ["ELEMENT_WISE_SIGN"]),
        ("hardmax", ["ACTIVATION_HARDMAX"]),
        ("hardmax*", ["ACTIVATION_HARDMAX", "ACTIVATION_HARDMAX1"]),
        ("tanh", ["ELEMENT_WISE_TANH"]),
        ("activation_tanh", ["ACTIVATION_TANH"]),
        ("?anh", ["ACTIVATION_TANH", "ELEMENT_WISE_TANH"]),
        ("bit_[no]*", ["ELEMENT_WISE_BIT_NOT", "ELEMENT_WISE_BIT_OR"]),
        ("", []),
        ("sig", []),
        ("sign ", []),
    ],
)
def test_names_and_globs_with_or_without_prefixes(text: str, names: list[str]) -> None:
    assert sorted(operators_named(text)) == names


def test_every_operator_is_named_by_itself_and_all_by_a_star() -> None:
    for name in OPERATORS:
        assert operators_named(name) == [name]
    assert operators_named("*") == list(OPERATORS)


def test_an_unknown_name_names_the_nearest_one() -> None:
    with pytest.raises(dml.UnsupportedError, match="did you mean ELEMENT_WISE_THRESHOLD"):
        dml.operator_desc("ELEMENT_WISE_TRESHOLD")
    with pytest.raises(dml.UnsupportedError, match=r"did you mean ELEMENT_WISE_SIGN\?$"):
        dml.operator_desc("sign")
    with pytest.raises(dml.UnsupportedError, match="no such operator; 'dmlvk operators' lists those that there are"):
        dml.operator_desc("NOTHING_LIKE_IT")


def test_descriptions_take_enumerations_by_directmls_names_and_numbers() -> None:
    x, y = dml.TensorDesc(dml.FLOAT32, (4, 8)), dml.TensorDesc(dml.FLOAT32, (4, 1))

    def reduce(function: Any) -> dml.Reduce:
        return dml.Reduce(function=function, input_tensor=x, output_tensor=y, axis_count=1, axes=(1,))

    expected = reduce(dml.ReduceFunction.SUM)
    number = int(dml.ReduceFunction.SUM)
    for function in ("SUM", "DML_REDUCE_FUNCTION_SUM", number):
        assert reduce(function) == expected and reduce(function).function is dml.ReduceFunction.SUM
    for function, message in (
        ("SUMM", "Function must be one of .*SUM.*; got 'SUMM'"),
        (99, "Function must be one of .*; got 99"),
        (True, "Function must be a dmlvk.ReduceFunction; got True"),
        (dml.RoundingMode(number % 2), "Function must be a dmlvk.ReduceFunction; got"),
    ):
        with pytest.raises(dml.InvalidArgumentError, match=message):
            reduce(function)
