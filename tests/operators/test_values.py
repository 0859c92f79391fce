"""Every operator gives, for every data type, the bits that its definition asks for; the same on every device."""

from __future__ import annotations

import itertools

import pytest

from dmlvk.conformance.cases import PATTERNS, SWEPT, ValueCase, batches, value_cases
from dmlvk.conformance.comparison import as_bits
from dmlvk.conformance.execution import LAYOUTS, Workbench, check_batch
from dmlvk.operators import OPERATORS

CASES = pytest.mark.parametrize("case", value_cases(), ids=lambda case: case.name)


@CASES
def test_packed_tensors(case: ValueCase, benches: list[Workbench]) -> None:
    """Every pattern of 8 and 16 bits (two operands of 8 bits: every pair), and 2**24 or 2**20 of the wider types.

    A sixteenth of that without some optional tensor: the operator's function is the same.
    """
    tried = 0
    results: set[int] = set()
    swept = case.desc_class.operator_name in SWEPT
    patterns, most_sets = (PATTERNS, None) if swept else (PATTERNS // 16, 24)
    patterns = patterns // 16 if case.lacks_tensors else patterns
    for batch in batches(case, patterns, most_sets):
        expected = check_batch(benches, case, "contiguous", batch)
        bits = as_bits(expected)
        results |= {int(bits.min()), int(bits.max())}
        tried += batch.size
    width = max(data_type.size_in_bits for _, data_type in case.tensors("input"))
    assert tried >= (patterns if width > 16 else 2**width), f"{case.name}: tried {tried} patterns only"
    assert len(results) > 1, f"{case.name}: every result was {results}"


def _cases_and_layouts() -> list[tuple[ValueCase, str]]:
    """Each case with one of the layouts that are not packed, in turn.

    An operator's function is the same in every memory walk; what the walks do is in test_geometry.py. All walks of all
    cases are what ``dmlvk conformance`` runs.
    """
    return list(zip(value_cases(), itertools.cycle(LAYOUTS[1:]), strict=False))


@pytest.mark.parametrize(
    ("case", "layout"), _cases_and_layouts(), ids=lambda value: value.name if isinstance(value, ValueCase) else value
)
def test_strided_tensors(case: ValueCase, layout: str, benches: list[Workbench]) -> None:
    """Every pattern of 8 and 16 bits, and 2**18 of the wider types, with the memory walks that know strides."""
    swept = case.desc_class.operator_name in SWEPT
    total = 2**18 if swept else 2**14 if case.lacks_tensors else 2**17
    for batch in batches(case, total, most_attribute_sets=6 if swept else 3):
        check_batch(benches, case, layout, batch)


def test_every_operator_is_tested() -> None:
    assert {case.desc_class.operator_name for case in value_cases()} == set(OPERATORS)
