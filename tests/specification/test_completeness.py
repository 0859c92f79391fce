"""Nothing is left out: the element-wise operators and activations of DirectML are declared, compiled and tested."""

from __future__ import annotations

import json

import pytest

from dmlvk.conformance.cases import ValueCase, typical_attributes, value_cases
from dmlvk.conformance.execution import describe
from dmlvk.conformance.reference_hashes import ReferenceHashes
from dmlvk.conformance.references import REFERENCES
from dmlvk.kernels import library
from dmlvk.kernels.lowering import lower
from dmlvk.operators import OPERATORS, check_operator
from dmlvk.operators.levels import FeatureLevel
from tests.specification.facts import OperatorFacts, all_facts

FACTS = all_facts()
EACH_OPERATOR = pytest.mark.parametrize("facts", FACTS.values(), ids=list(FACTS))


def _cases(name: str) -> list[ValueCase]:
    return [case for case in value_cases() if case.desc_class.operator_name == name]


def test_all_92_operators_are_there() -> None:
    """As many of each family as DirectML's header has, up to feature level 6_4."""
    assert sum(name.startswith("ELEMENT_WISE_") for name in OPERATORS) == 65
    assert sum(name.startswith("ACTIVATION_") for name in OPERATORS) == 27
    assert set(OPERATORS) == set(REFERENCES) == set(FACTS)


@EACH_OPERATOR
def test_every_data_type_of_every_tensor_is_tested(facts: OperatorFacts) -> None:
    """All that some feature level lists."""
    listed = {
        (member, data_type)
        for table in facts.support.values()
        for member, tensor in table.items()
        for data_type in tensor.data_types
    }
    names = {field.attribute: field.name for field in OPERATORS[facts.name].fields}
    tested = {(names[member], data_type) for case in _cases(facts.name) for member, data_type in case.data_types}
    assert tested == listed


@EACH_OPERATOR
def test_every_case_has_a_compiled_kernel_and_hashes(facts: OperatorFacts) -> None:
    compiled = set(json.loads((library.DIRECTORY / "manifest.json").read_text(encoding="utf-8"))["variants"])
    hashed = ReferenceHashes.shipped().cases
    highest = max(FeatureLevel)
    for case in _cases(facts.name):
        for attributes in typical_attributes(case.desc_class, case.data_types[0][1]):
            desc = describe(case, (2, 3), [(3, 1)] * len(case.data_types), attributes)
            check_operator(desc, highest)
            assert lower(desc).variant in compiled
        assert case.name in hashed
