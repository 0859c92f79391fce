"""Descriptions name operator and member where a name is wrong or missing, in Python's words too."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import dmlvk as dml

T = dml.TensorDesc(dml.FLOAT32, (2, 3))


@pytest.mark.parametrize(
    ("arguments", "members", "message"),
    [
        (
            (),
            {"input_tensr": T},
            "ELEMENT_WISE_SIGN: has no member 'input_tensr'; did you mean 'input_tensor' or 'output_tensor'?",
        ),
        ((), {"x": T}, "ELEMENT_WISE_SIGN: has no member 'x'; it has input_tensor, output_tensor"),
        ((), {"input_tensor": T}, "ELEMENT_WISE_SIGN: member 'output_tensor' is required"),
        ((T, T), {}, "ELEMENT_WISE_SIGN: takes its members by name, input_tensor=…; got 2 without"),
    ],
)
def test_wrong_names(arguments: tuple[Any, ...], members: dict[str, Any], message: str) -> None:
    with pytest.raises(dml.CallError) as caught:
        dml.ElementWiseSign(*arguments, **members)
    assert str(caught.value) == message
    assert isinstance(caught.value, TypeError)  # what Python raises for other calls


def test_editors_see_the_members() -> None:
    assert list(inspect.signature(dml.ElementWiseClip).parameters) == [
        "input_tensor", "output_tensor", "scale_bias", "min", "max",
    ]  # fmt: skip


def test_errors_of_members_stay_what_they_are() -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: InputTensor must be a TensorDesc; got 3$"):
        dml.ElementWiseSign(input_tensor=3, output_tensor=T)  # type: ignore[arg-type]
