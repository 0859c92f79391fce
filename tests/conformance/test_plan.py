"""What the default plan tries shows whether a shader reads operands and attributes, and takes all of its ways."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance import measurement
from dmlvk.conformance.cases import Batch, ValueCase, attribute_sets, batches, typical_attributes, value_cases
from dmlvk.conformance.comparison import as_bits
from dmlvk.conformance.execution import PreparedBatch, Workbench, prepare
from dmlvk.conformance.measurement import attributes_text, measure_case
from dmlvk.conformance.references import expected_output, has_true_values
from dmlvk.conformance.results import CaseReport, Extent
from dmlvk.conformance.workers import WorkerContext
from dmlvk.kernels.special_values import SPECIAL_VALUES
from dmlvk.operators import REGULAR_OPERATORS
from dmlvk.operators.fusion import FUSABLE_ACTIVATIONS
from tests.effort import some

Array = npt.NDArray[Any]

FEW = 2**12
"""Patterns of wider types: the sets of attributes do not depend on their number."""

SETS = Extent().attribute_sets

EACH_OPERATOR = pytest.mark.parametrize("name", sorted(REGULAR_OPERATORS))
WITH_WAYS = [case for case in value_cases() if case.desc_class.operator_name in SPECIAL_VALUES]
NUMBERS = {"clip-float16", "clip-int8", "clip-uint16", "clip1-float16", "clip1-int16", "clip1-uint8", "threshold-int8"}
BLIND = sorted({case.name for case in WITH_WAYS} | NUMBERS | {"clip_grad-int8", "clip_grad1-uint8", "exp-float16"})


def _case(name: str) -> ValueCase:
    return next(case for case in value_cases() if case.name == name)


def _thinned(case: ValueCase, batch: Batch) -> Batch:
    """About a thousand elements; all where the results depend on whole rows."""
    if case.desc_class.declaration.pattern == "rows":
        return batch
    step = batch.size // 1009 + 1
    return dataclasses.replace(batch, inputs=tuple(values[::step] for values in batch.inputs))


def _is_constant(case: ValueCase, batch: Batch) -> bool:
    prepared = prepare(case, batch, "contiguous")
    bits = as_bits(expected_output(prepared.desc, prepared.inputs)).reshape(-1)
    return bool((bits == bits[0]).all())


@EACH_OPERATOR
def test_results_differ(name: str) -> None:
    """With at least half of the sets of attributes, in some batch."""
    for case in value_cases():
        if case.desc_class.operator_name != name:
            continue
        telling: defaultdict[str, bool] = defaultdict(bool)
        for batch in batches(case, FEW, SETS):
            text = attributes_text(batch.attributes)
            telling[text] = (
                telling[text] or not _is_constant(case, _thinned(case, batch)) or not _is_constant(case, batch)
            )
        constant = [text for text, tells in telling.items() if not tells]
        assert len(constant) <= len(telling) / 2, f"{case.name}: all results are the same with {'; '.join(constant)}"


@pytest.mark.parametrize("case", WITH_WAYS, ids=lambda case: case.name)
def test_every_way_of_a_shader_is_taken(case: ValueCase) -> None:
    attribute, special = SPECIAL_VALUES[case.desc_class.operator_name]
    tried = {batch.attributes[attribute] for batch in batches(case, FEW, SETS)}
    assert set(special) <= tried
    assert [value for value in tried - set(special) if np.isfinite(value) and value != 0], "and that for any value"
    usual = {attributes[attribute] for attributes in typical_attributes(case.desc_class, dml.FLOAT32)}
    assert usual & set(special), "exhaustive runs take one of them"
    assert usual - set(special), "and that for any value"


@pytest.mark.parametrize("data_type", [dml.FLOAT16, dml.FLOAT32], ids=lambda data_type: data_type.name)
def test_every_way_of_fused_activations_is_taken(data_type: dml.DataType) -> None:
    sets = attribute_sets(dml.ElementWiseAdd1, data_type)
    fused = [attributes["fused_activation"] for attributes in sets if attributes["fused_activation"] is not None]
    for name, (attribute, special) in SPECIAL_VALUES.items():
        if name in FUSABLE_ACTIVATIONS:
            values = {each.value_of(attribute) for each in fused if each.operator_name == name}
            assert {value in special for value in values} == {True, False}, name


def _report(monkeypatch: pytest.MonkeyPatch, name: str, results: Callable[[PreparedBatch], Array]) -> CaseReport:
    """Of a case on a device that gives these results."""
    monkeypatch.setattr(measurement, "run_prepared", lambda bench, prepared: results(prepared))
    context = WorkerContext([], lambda: False)
    context.benches.append(cast(Workbench, None))
    return measure_case(context, _case(name), Extent(FEW, SETS))


def _right(prepared: PreparedBatch) -> Array:
    expected = expected_output(prepared.desc, prepared.inputs)
    if not has_true_values(prepared.desc):
        return expected
    data_type = prepared.desc.output_type
    if data_type is dml.FLOAT32:
        expected = np.where(np.abs(expected) < 2.0**-126, np.copysign(0.0, expected), expected)
    with np.errstate(over="ignore"):
        rounded: Array = np.where(np.isnan(expected), np.nan, expected).astype(data_type.numpy_dtype)
    return rounded


def _blind(prepared: PreparedBatch) -> Array:
    """What is right most often, whatever the operands are."""
    right = _right(prepared)
    found, counts = np.unique(as_bits(right), return_counts=True)
    return np.full(right.shape, found[counts.argmax()]).view(right.dtype)


@pytest.mark.parametrize("name", some(BLIND, 4))
def test_results_that_ignore_the_operands_are_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = _report(monkeypatch, name, _blind)
    (found,) = report.measurements
    assert not report.kept
    assert found.broken > found.results / 5
    assert _report(monkeypatch, name, _right).kept


@pytest.mark.parametrize("name", some(BLIND, 4))
def test_results_that_ignore_the_attributes_are_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = attribute_sets(_case(name).desc_class, _case(name).data_types[0][1])[0]

    def results(prepared: PreparedBatch) -> Array:
        return _right(dataclasses.replace(prepared, desc=dataclasses.replace(cast(Any, prepared.desc), **first)))

    assert not _report(monkeypatch, name, results).kept


@pytest.mark.parametrize("name", ["ACTIVATION_SCALED_TANH", "ACTIVATION_SWISH", "ELEMENT_WISE_CONSTANT_POW"])
def test_attributes_of_all_magnitudes_are_tried(name: str) -> None:
    (case,) = [
        case
        for case in value_cases()
        if case.desc_class.operator_name == name and case.tensors("input")[0][1] is dml.FLOAT32
    ]
    searched = [batch for batch in batches(case, 2**14) if batch.name.startswith("attributes of any size")]
    numbers = np.array([[v for v in batch.attributes.values() if isinstance(v, float)] for batch in searched])
    exponents = np.log2(abs(numbers))
    assert (exponents.min(0) < -60).all() and (exponents.max(0) > 60).all() and len(searched) >= 16
    assert all(batch.inputs[0].dtype == np.float32 and batch.inputs[0].size >= 2**10 for batch in searched)
