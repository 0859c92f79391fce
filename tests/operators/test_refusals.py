"""What breaks an operator's rules is refused by operator, member, rule and numbers: ``refusals.json`` has the cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.operators import OPERATORS, FeatureLevel, check_operator

REFUSALS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("refusals.json").read_text(encoding="utf-8"))


def _value(value: Any) -> Any:
    """A tensor is ``{"tensor": ["FLOAT32", 2, 3]}``, with strides ``{"tensor": [["FLOAT32", 2, 3], [3, 1]]}``."""
    if isinstance(value, list):
        return [_value(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "activation" in value:
        attributes = {name: each for name, each in value.items() if name != "activation"}
        return dml.fused_activation(value["activation"], **attributes)
    if "width" in value:
        return dml.Size2D(**value)
    whole, strides = value["tensor"], None
    if isinstance(whole[0], list):
        whole, strides = whole
    flags = dml.TensorFlags[value.get("flags", "NONE")]
    return dml.TensorDesc(dml.DataType[whole[0]], whole[1:], strides, flags=flags)


@pytest.mark.parametrize("case", REFUSALS, ids=[f"{i}-{each['operator']}" for i, each in enumerate(REFUSALS)])
def test_a_description_that_breaks_a_rule_is_refused_in_these_words(case: dict[str, Any]) -> None:
    members = {name: _value(value) for name, value in case["members"].items()}
    kind = OPERATORS[case["operator"]]
    desc = kind(
        **{field.attribute: _named(field, members[field.name]) for field in kind.fields if field.name in members}
    )
    with pytest.raises(dml.DmlError) as caught:
        check_operator(desc, FeatureLevel.from_name(case.get("level", "6_4")))
    assert str(caught.value) == case["message"]
    assert type(caught.value).__name__ == case.get("error", "InvalidArgumentError")


def _named(field: Any, value: Any) -> Any:
    """Enumerations and data types by their names."""
    if field.enumeration is not None:
        return field.enumeration[value]
    return dml.DataType[value] if field.type == "data_type" else value
