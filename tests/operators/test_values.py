"""Every operator gives, for every data type, the bits that its definition asks for; the same on every device."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dmlvk.conformance.cases import PATTERNS, SWEPT, Batch, ValueCase, axes_attributes, batches, value_cases
from dmlvk.conformance.comparison import as_bits
from dmlvk.conformance.execution import LAYOUTS, Workbench, check_batch
from dmlvk.operators import REGULAR_OPERATORS
from tests.effort import IS_QUICK, TAKES_TURNS, Turns, first_on_all

CASES = pytest.mark.parametrize("case", value_cases(), ids=lambda case: case.name)

TURNS = Turns(value_cases())

FEWER = 4 if IS_QUICK else 1
"""So many times fewer patterns of strided tensors are tried."""

FEWER_SHAPES = 4 if IS_QUICK else 1
"""So many times fewer shapes along axes."""

FEWER_ACTIVATIONS = 4 if TAKES_TURNS else 1
"""So many times fewer fused activations; test_fusion.py has every one."""

FEWER_PATTERNS = 16 if IS_QUICK else 4 if TAKES_TURNS else 1
"""Of types wider than 16 bits so many times fewer patterns of packed tensors are tried."""

MOST_SETS = 4 if IS_QUICK else 8 if TAKES_TURNS else None
"""Of attributes, with which all patterns are tried; the first ones are those with which results differ widely."""

ALONG_AXES = [case for case in value_cases() if (case.desc_class.declaration.pattern == "rows")]


def _names_axes(case: ValueCase) -> bool:
    return bool(axes_attributes(case.desc_class, (0,)))


def _in_chunks(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same inputs in pieces as long as the first batch, which share pipelines; the last ones overlap others."""
    length = 0
    for batch in batches:
        length = length or batch.size
        for start in (max(0, min(index, batch.size - length)) for index in range(0, batch.size, length)):
            piece = tuple(np.resize(values[start : start + length], length) for values in batch.inputs)
            yield dataclasses.replace(batch, name=f"{batch.name} from {start}", inputs=piece)


def _sparse_batches(case: ValueCase, step: int, total: int, most_attribute_sets: int | None) -> Iterator[Batch]:
    """The inputs of a case, made so that drivers need not compile long functions more often than the test needs.

    Along axes every shape is a pipeline of its own: of these every ``step``-th one is taken, each case beginning with
    another one, so that as many cases have all shapes between them. All of all cases are what ``dmlvk conformance``
    runs.
    """
    made = batches(case, total, most_attribute_sets)
    if case in ALONG_AXES:
        alike = [other for other in ALONG_AXES if _names_axes(other) == _names_axes(case)]
        return itertools.islice(made, alike.index(case) % step, None, step)
    if any(field.fusable for field in case.desc_class.fields):
        return itertools.islice(made, 0, None, FEWER_ACTIVATIONS)
    return _in_chunks(made) if case.desc_class.operator_name == "ELEMENT_WISE_POW" else made


@pytest.mark.every_driver
@pytest.mark.each_operator
@CASES
def test_packed_tensors(case: ValueCase, benches: list[Workbench]) -> None:
    """Every pattern of 8 and 16 bits (two operands of 8 bits: every pair), and 2**24 or 2**20 of the wider types.

    A sixteenth of that without some optional tensor: the operator's function is the same. Half of the shapes along axes
    that can be named, so that FLOAT32 has those that FLOAT16 leaves out; a third of the others, whose kernels are those
    of the former. Where tests take turns a twelfth of either, and of cases whose data types others show a sixteenth of
    the patterns. The first inputs on every device, the others on each in turn.
    """
    tried = 0
    results: set[int] = set()
    devices = TURNS.devices(case, benches)
    swept = case.desc_class.operator_name in SWEPT
    patterns, most_sets = (PATTERNS, MOST_SETS) if swept else (PATTERNS // 16, MOST_SETS or 24)
    is_shown_by_others = TAKES_TURNS and case not in TURNS.on_all(case)
    patterns = max(patterns // (FEWER_PATTERNS * (16 if case.lacks_tensors or is_shown_by_others else 1)), 2**16)
    step = 1
    if case in ALONG_AXES:
        step = 12 if TAKES_TURNS and not IS_QUICK else FEWER_SHAPES * (2 if _names_axes(case) else 3)
    for number, batch in enumerate(_sparse_batches(case, step, patterns, most_sets)):
        expected = check_batch(first_on_all(devices, number), case, "contiguous", batch)
        bits = as_bits(expected)
        results |= {int(bits.min()), int(bits.max())}
        tried += batch.size
    width = max(data_type.size_in_bits for _, data_type in case.tensors("input"))
    fewer = FEWER_ACTIVATIONS if any(field.fusable for field in case.desc_class.fields) else 1
    fewest = (patterns // fewer if width > 16 else 2**width) // step
    assert tried >= fewest, f"{case.name}: tried {tried} patterns only"
    assert len(results) > 1, f"{case.name}: every result was {results}"


def _cases_and_layouts() -> list[tuple[ValueCase, str]]:
    """Each case with one of the layouts that are not packed, in turn.

    An operator's function is the same in every access order; what the access orders do is in test_geometry.py. All
    access orders of all cases are what ``dmlvk conformance`` runs.
    """
    return list(zip(value_cases(), itertools.cycle(LAYOUTS[1:]), strict=False))


def _first_of_operators() -> list[Any]:
    """The same; the quick command takes the first case of each operator.

    Where tests take turns, without those whose data types and optional tensors others show: test_packed_tensors has
    them.
    """
    seen: set[str] = set()
    parameters = []
    for case, layout in _cases_and_layouts():
        if TAKES_TURNS and case not in TURNS.on_all(case):
            continue
        repeats = case.desc_class.operator_name in seen
        seen.add(case.desc_class.operator_name)
        marks = [pytest.mark.sweep] if repeats else []
        parameters.append(pytest.param(case, layout, id=f"{case.name}-{layout}", marks=marks))
    return parameters


@pytest.mark.parametrize(("case", "layout"), _first_of_operators())
def test_strided_tensors(case: ValueCase, layout: str, benches: list[Workbench]) -> None:
    """Every pattern of 8 and 16 bits, and 2**18 of the wider types, with the access orders that know strides.

    A fifth of the shapes along axes, where tests take turns a tenth: test_rows.py has rows of many lengths in every
    access order.
    """
    swept = case.desc_class.operator_name in SWEPT
    total = 2**18 if swept else 2**14 if case.lacks_tensors else 2**17
    for batch in _sparse_batches(case, 10 if TAKES_TURNS else 5, total // FEWER, most_attribute_sets=6 if swept else 3):
        check_batch(benches, case, layout, batch)


def test_every_operator_is_tested() -> None:
    assert {case.desc_class.operator_name for case in value_cases()} == set(REGULAR_OPERATORS)
