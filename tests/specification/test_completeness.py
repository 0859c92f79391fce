"""Nothing is left out: the element-wise operators and activations of DirectML are declared, compiled and tested."""

from __future__ import annotations

import functools

import pytest

from dmlvk.conformance.cases import ValueCase, typical_attributes, value_cases
from dmlvk.conformance.execution import describe
from dmlvk.conformance.reference_hashes import ReferenceHashes
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.conformance.samples import sample_cases
from dmlvk.datatypes import DataType
from dmlvk.kernels.catalog import all_variants
from dmlvk.operators import OPERATORS, REGULAR_OPERATORS, check_operator
from dmlvk.operators.levels import FeatureLevel
from tests.specification.facts import OperatorFacts, all_facts
from tests.targets import kernel_of

FACTS = all_facts()
EACH_OPERATOR = pytest.mark.parametrize("facts", FACTS.values(), ids=list(FACTS))
REGULAR_FACTS = {name: facts for name, facts in FACTS.items() if name in REGULAR_OPERATORS}
EACH_REGULAR_OPERATOR = pytest.mark.parametrize("facts", REGULAR_FACTS.values(), ids=list(REGULAR_FACTS))


def _cases(name: str) -> list[ValueCase]:
    return [case for case in value_cases() if case.desc_class.operator_name == name]


def _data_types(name: str) -> list[tuple[tuple[str, DataType], ...]]:
    """The combinations of data types that an operator is tried with, by its tensors' Python names."""
    samples = [case.data_types for case in sample_cases() if case.desc_class.operator_name == name]
    return [case.data_types for case in _cases(name)] + samples


def test_every_operator_of_directml_is_there() -> None:
    """As many of each family as DirectML's header has, up to feature level 6_4."""
    assert sum(name.startswith("ELEMENT_WISE_") for name in FACTS) == 65
    assert sum(name.startswith("ACTIVATION_") for name in FACTS) == 27
    assert len(FACTS) == 177
    assert not OPERATORS.keys() - REFERENCES.keys(), "dmlvk/conformance/references lacks these"


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
    tested = {
        (names[member.partition("[")[0]], data_type)  # of an array's tensors all those together
        for data_types in _data_types(facts.name)
        for member, data_type in data_types
    }
    assert tested == listed


@functools.cache
def _declared() -> frozenset[str]:
    return frozenset(variant.name for variant in all_variants())


@EACH_REGULAR_OPERATOR
def test_every_case_has_a_kernel_and_hashes(facts: OperatorFacts) -> None:
    declared = _declared()
    hashed = ReferenceHashes.shipped().cases
    highest = max(FeatureLevel)
    for case in _cases(facts.name):
        for attributes in typical_attributes(case.desc_class, case.data_types[0][1]):
            desc = describe(case, (2, 3), [(3, 1)] * len(case.data_types), attributes)
            check_operator(desc, highest)
            assert kernel_of(desc).variant in declared
        assert case.name in hashed


def test_every_case_that_is_tried_by_samples_has_hashes() -> None:
    hashed = ReferenceHashes.shipped().cases
    missing = [case.name for case in sample_cases() if case.name not in hashed]
    assert not missing, "dmlvk conformance -o NAME --write-hashes dmlvk/conformance/reference_hashes.json"
