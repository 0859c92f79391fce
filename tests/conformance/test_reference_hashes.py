"""The shipped hashes are those of all cases, and of the reference functions where these settle every bit."""

from __future__ import annotations

import pytest

from dmlvk.conformance.cases import ValueCase, value_cases
from dmlvk.conformance.measurement import is_settled, reference_digests
from dmlvk.conformance.reference_hashes import ReferenceHashes
from dmlvk.conformance.results import Extent
from dmlvk.conformance.samples import sample_cases
from tests.effort import some

HOW = "run: dmlvk conformance -d 0 -d 1 [-o OPERATOR] --write-hashes dmlvk/conformance/reference_hashes.json"


def _one_of_each_operator() -> list[ValueCase]:
    """The case that is tried with the fewest inputs."""
    chosen: dict[str, ValueCase] = {}
    for case in value_cases():
        name = case.desc_class.operator_name
        if name not in chosen or _bits(case) < _bits(chosen[name]):
            chosen[name] = case
    return list(chosen.values())


def _bits(case: ValueCase) -> int:
    return sum(data_type.size_in_bits for _, data_type in case.data_types)


def test_every_case_has_its_hashes() -> None:
    hashes = ReferenceHashes.shipped()
    assert hashes.plan == Extent()
    assert len(hashes.made_on) >= 2
    names = {case.name for case in value_cases()} | {case.name for case in sample_cases()}
    assert names <= hashes.cases.keys(), HOW
    gone = {name for name in hashes.cases if " exhaustive" not in name} - names
    assert not gone, HOW


@pytest.mark.parametrize("case", some(_one_of_each_operator(), 2), ids=lambda case: case.name)
def test_hashes_are_those_of_inputs_and_references(case: ValueCase) -> None:
    inputs, outputs = reference_digests(case, Extent())
    shipped_inputs, shipped_outputs = ReferenceHashes.shipped().cases[case.name]
    assert inputs.startswith(shipped_inputs), f"the inputs have changed; {HOW}"
    assert (outputs == "") == (not is_settled(case))
    if outputs:
        assert shipped_outputs == outputs, HOW
