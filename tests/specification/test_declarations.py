"""The declarations state exactly what DirectML's pages state."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.operators import OPERATORS, Field, OperatorDesc, Support
from tests.specification.facts import FEATURE_LEVELS, OperatorFacts, all_facts

FACTS = all_facts()
EACH_OPERATOR = pytest.mark.parametrize("facts", FACTS.values(), ids=list(FACTS))


def _names(desc_class: type[OperatorDesc], attributes: tuple[str, ...]) -> list[str]:
    """DirectML's names of members, or of tensors of an array: those of ``input_tensors[0]``."""
    by_attribute = {field.attribute: field.name for field in desc_class.fields}
    parts = (attribute.partition("[") for attribute in attributes)
    return [by_attribute[member] + bracket + index for member, bracket, index in parts]


def test_every_operator_has_an_entry_and_every_entry_an_operator() -> None:
    assert not OPERATORS.keys() - FACTS.keys(), "tests/specification lacks DirectML's facts of these"
    assert not FACTS.keys() - OPERATORS.keys(), "these are not declared"


def test_feature_levels_have_directmls_numbers() -> None:
    assert {level.label: int(level) for level in dml.FeatureLevel} == FEATURE_LEVELS


@EACH_OPERATOR
def test_an_operator_is_declared_as_its_page_states(facts: OperatorFacts) -> None:
    desc_class, declaration = OPERATORS[facts.name], OPERATORS[facts.name].declaration
    declared = {
        "members": [_member(field) for field in desc_class.fields],
        "in_place": _names(desc_class, declaration.in_place_inputs),
        "same_sizes": [_names(desc_class, group) for group in desc_class.same_sizes],
        "same_data_type": [_names(desc_class, group) for group in desc_class.same_data_type],
        "same_data_type_at": {
            table.level.label: [_names(desc_class, group) for group in table.same_data_type]
            for table in declaration.support
            if table.same_data_type
        },
        "data_type_rules": [
            {
                "member": _names(desc_class, (rule.member,))[0],
                "source": _names(desc_class, (rule.source,))[0],
                "exceptions": {source.name: wanted.name for source, wanted in rule.exceptions.items()},
            }
            for rule in declaration.data_type_rules
        ],
        "one_element": _names(desc_class, declaration.one_element),
        "most_effective_dimensions": declaration.most_effective_dimensions,
    }
    assert declared == {name: getattr(facts, name) for name in declared}


def _member(field: Field) -> dict[str, Any]:
    member: dict[str, Any] = {"name": field.name, "kind": field.kind, "type": field.type, "optional": field.optional}
    if field.minimum is not None:
        member["minimum"] = {"value": field.minimum.value, "lifted_at": field.minimum.lifted_at.label}
    if field.fusable:
        member["fusable"] = sorted(field.fusable)
    return member


@EACH_OPERATOR
def test_the_class_is_named_as_directmls_structure(facts: OperatorFacts) -> None:
    desc_class = OPERATORS[facts.name]
    assert desc_class.__name__ == "".join(part.capitalize() for part in facts.name.split("_"))
    assert getattr(dml, desc_class.__name__) is desc_class
    assert desc_class.operator_name == facts.name
    names = [m["name"].replace("ROI", "Roi") for m in facts.members]
    snake = ["".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_") for name in names]
    assert [field.attribute for field in desc_class.fields] == snake


@EACH_OPERATOR
def test_support_tables(facts: OperatorFacts) -> None:
    desc_class = OPERATORS[facts.name]
    names = {field.attribute: field.name for field in desc_class.fields}
    got: dict[str, Any] = {
        table.level.label: {
            names[attribute]: (
                *table.dimensions_for(attribute),
                sorted(data_types),
                _may_be_absent(desc_class, table, attribute),
            )
            for attribute, data_types in table.data_types.items()
        }
        for table in desc_class.declaration.support
    }
    expected = {
        level: {member: (t.fewest, t.most, sorted(t.data_types), t.optional) for member, t in table.items()}
        for level, table in facts.support.items()
    }
    assert got == expected
    assert list(got) == list(expected), "by rising level"
    for table in desc_class.declaration.support:
        assert [names[attribute] for attribute in table.data_types] == facts.tensors()
        for attribute, data_types in table.data_types.items():
            assert len(set(data_types)) == len(data_types), f"{attribute} names a data type twice"


def _may_be_absent(desc_class: type[OperatorDesc], table: Support, attribute: str) -> bool:
    field = next(field for field in desc_class.fields if field.attribute == attribute)
    assert field.optional or attribute not in table.required, f"{attribute} is required anyway"
    return field.optional and attribute not in table.required


@EACH_OPERATOR
def test_each_level_supports_all_that_the_lower_ones_do(facts: OperatorFacts) -> None:
    tables = list(facts.support.values())
    for lower, higher in itertools.pairwise(tables):
        for member, tensor in lower.items():
            assert set(tensor.data_types) <= set(higher[member].data_types)
            assert tensor.optional <= higher[member].optional
            assert higher[member].fewest <= tensor.fewest <= tensor.most <= higher[member].most


def test_operators_with_other_tensors_share_a_support_table_and_nobody_changes_it() -> None:
    table = Support("1_0", (1, 8), (dml.DataType.FLOAT32,), output_tensor=(dml.DataType.UINT8,))
    first, second = table.of(("input_tensor", "output_tensor")), table.of(("a_tensor", "b_tensor", "output_tensor"))
    assert not table.data_types, "a table was completed in place"
    assert first.data_types == {"input_tensor": (dml.DataType.FLOAT32,), "output_tensor": (dml.DataType.UINT8,)}
    assert list(second.data_types) == ["a_tensor", "b_tensor", "output_tensor"]
    with pytest.raises(AttributeError, match="data_types"):
        first.data_types = {}
    with pytest.raises(TypeError):
        first.data_types["input_tensor"] = ()  # type: ignore[index]  # no type checker would let it
    with pytest.raises(TypeError, match=r"unknown members.*output_tensor"):
        table.of(("a_tensor",))
