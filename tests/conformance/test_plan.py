"""What the default plan tries, which facets and hashes there are, and that NumPy's own validation sets hold."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance import measurement
from dmlvk.conformance.cases import Batch, ValueCase, attribute_sets, batches, typical_attributes, value_cases
from dmlvk.conformance.comparison import as_bits
from dmlvk.conformance.execution import PreparedBatch, Workbench, prepare
from dmlvk.conformance.facets import FacetError
from dmlvk.conformance.measurement import attributes_text, is_settled, measure_case, reference_digests
from dmlvk.conformance.reference_hashes import ReferenceHashes
from dmlvk.conformance.references import expected_output, has_true_values
from dmlvk.conformance.references.bounded import expected_outputs
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.conformance.results import CaseReport, Extent
from dmlvk.conformance.samples import SAMPLERS, Sample, Types, sample_cases
from dmlvk.conformance.workers import WorkerContext
from dmlvk.kernels.special_values import SPECIAL_VALUES
from dmlvk.operators import OPERATORS, REGULAR_OPERATORS
from dmlvk.operators.fusion import FUSABLE_ACTIVATIONS
from tests.conformance.test_command import conformance

Array = npt.NDArray[Any]

FEW = 2**12  # Patterns of wider types: the sets of attributes do not depend on their number

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


@pytest.mark.parametrize("name", BLIND)
def test_results_that_ignore_the_operands_are_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = _report(monkeypatch, name, _blind)
    (found,) = report.measurements
    assert not report.kept
    assert found.broken > found.results / 5
    assert _report(monkeypatch, name, _right).kept


@pytest.mark.parametrize("name", BLIND)
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


RUN = ("-o", "slice1-float32", "-o", "join-int8", "-o", "sign-int8", "-o", "abs-int8", "-d", "0")

OTHERS = {"join-int8", "abs-int8"}


def _without_shape(desc: dml.Slice1, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"OutputTensor": np.zeros(desc.output_tensor.sizes, np.float64)}


def _of_another_name(desc: dml.Slice1, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"Output": np.zeros(desc.output_tensor.sizes, np.float32)}


def _failing(desc: dml.OperatorDesc, *inputs: Any) -> Any:
    raise IndexError("axis 9")


def _failing_sampler(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    yield from SLICES(types, random)
    raise ZeroDivisionError("no rows")


SLICES = SAMPLERS["SLICE1"]

SLIPS: dict[str, tuple[dict[str, Any], str, Any, str]] = {
    "no reference": (REFERENCES, "SLICE1", None, "SLICE1: reference: there is none in dmlvk/conformance"),
    "no sampler": (SAMPLERS, "SLICE1", None, "SLICE1: sampler: there is none in dmlvk/conformance/samples"),
    "a type": (REFERENCES, "SLICE1", _without_shape, "SLICE1: reference: gives float64 of shape "),
    "a name": (REFERENCES, "SLICE1", _of_another_name, "SLICE1: reference: gives ['Output']; the outputs are "),
    "a reference": (REFERENCES, "SLICE1", _failing, "SLICE1: reference: IndexError: axis 9 (test_plan.py:"),
    "a sampler": (SAMPLERS, "SLICE1", _failing_sampler, "SLICE1: sampler: ZeroDivisionError: no rows (test_plan.py:"),
    "no formula": (REFERENCES, "ELEMENT_WISE_SIGN", None, "ELEMENT_WISE_SIGN: reference: there is none in "),
    "a formula": (REFERENCES, "ELEMENT_WISE_SIGN", _failing, "ELEMENT_WISE_SIGN: reference: IndexError: axis 9 ("),
    "its type": (
        REFERENCES,
        "ELEMENT_WISE_SIGN",
        lambda desc, x: x.astype(np.int32),
        "ELEMENT_WISE_SIGN: reference: gives int32; the output is int8",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_told_by_name_and_the_others_are_measured(
    slip: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table, name, instead, words = SLIPS[slip]
    if instead is None:
        monkeypatch.delitem(table, name)
    else:
        monkeypatch.setitem(table, name, instead)
    outcome = conformance(capsys, *RUN, "--json", str(tmp_path / "found.json"))
    assert outcome.status == 1, outcome.err
    cases = {case["name"]: case for case in json.loads((tmp_path / "found.json").read_text())["cases"]}
    assert len(cases) == 4
    assert all(cases[other]["kept"] for other in OTHERS)
    (faulty,) = [name for name, case in cases.items() if not case["kept"]]
    (measured,) = cases[faulty]["measurements"]
    assert measured["failure"].startswith(words)
    assert words in outcome.out + outcome.err


def test_references_give_the_types_and_shapes_of_outputs() -> None:
    """Of one sample of every operator: what is not so is told, and what is so is not refused."""
    first = {case.desc_class.operator_name: case for case in sample_cases()}
    for case in first.values():
        sample = next(case.samples())
        try:
            assert expected_outputs(sample.desc, sample.inputs), case.name
        except FacetError as error:
            pytest.fail(str(error))


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


@pytest.mark.parametrize("case", _one_of_each_operator(), ids=lambda case: case.name)
def test_hashes_are_those_of_inputs_and_references(case: ValueCase) -> None:
    inputs, outputs = reference_digests(case, Extent())
    shipped_inputs, shipped_outputs = ReferenceHashes.shipped().cases[case.name]
    assert inputs.startswith(shipped_inputs), f"the inputs have changed; {HOW}"
    assert (outputs == "") == (not is_settled(case))
    if outputs:
        assert shipped_outputs == outputs, HOW


Float32Array = npt.NDArray[np.float32]

OPERATOR_OF = {
    "arccos": "ELEMENT_WISE_ACOS",
    "arccosh": "ELEMENT_WISE_ACOSH",
    "arcsin": "ELEMENT_WISE_ASIN",
    "arcsinh": "ELEMENT_WISE_ASINH",
    "arctan": "ELEMENT_WISE_ATAN",
    "arctanh": "ELEMENT_WISE_ATANH",
    "cos": "ELEMENT_WISE_COS",
    "cosh": "ELEMENT_WISE_COSH",
    "exp": "ELEMENT_WISE_EXP",
    "log": "ELEMENT_WISE_LOG",
    "sin": "ELEMENT_WISE_SIN",
    "sinh": "ELEMENT_WISE_SINH",
    "tan": "ELEMENT_WISE_TAN",
    "tanh": "ELEMENT_WISE_TANH",
}

NO_OPERATORS = {"cbrt", "exp2", "expm1", "log10", "log1p", "log2"}

SMALLEST_NORMAL = np.float32(2.0**-126)


def data_directory() -> Path:
    """Where the installed NumPy keeps its validation sets: below ``_core`` from version 2 on."""
    base = Path(np.__file__).parent
    found = [base / core / "tests" / "data" for core in ("_core", "core")]
    return next(path for path in found if list(path.glob("umath-validation-set-*.csv")))


def rows_of(name: str) -> tuple[Float32Array, Float32Array, int]:
    """The float32 rows of a set: inputs, results, and the largest distance that NumPy's own test allows."""
    lines = (data_directory() / f"umath-validation-set-{name}.csv").read_text(encoding="utf-8").splitlines()
    rows = [row for row in csv.reader(lines) if row and row[0].strip() == "np.float32"]
    bits = np.array([[int(row[1], 16), int(row[2], 16)] for row in rows], np.uint32)
    return bits[:, 0].copy().view(np.float32), bits[:, 1].copy().view(np.float32), max(int(row[3]) for row in rows)


def is_denormal(values: Float32Array) -> npt.NDArray[np.bool_]:
    denormal: npt.NDArray[np.bool_] = (np.abs(values) < SMALLEST_NORMAL) & (values != 0)
    return denormal


def line_number(values: Float32Array) -> npt.NDArray[np.int64]:
    """Counts along the number line; both zeros are 0."""
    bits = values.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def at_zero(name: str, zero: float) -> float:
    if name == "log":
        return -math.inf
    if name == "arccosh":
        return math.nan
    function: Any = getattr(math, name.replace("arc", "a"))
    return float(function(zero))


def test_every_set_is_known() -> None:
    names = {path.stem.rpartition("-")[2] for path in data_directory().glob("umath-validation-set-*.csv")}
    assert len(names) >= 18
    assert names <= OPERATOR_OF.keys() | NO_OPERATORS


@pytest.mark.parametrize("name", [name for name, operator in OPERATOR_OF.items() if operator in OPERATORS])
def test_rows(name: str, device: dml.Device) -> None:
    inputs, wanted, allowed = rows_of(name)
    assert inputs.size > 100
    tensor = dml.TensorDesc(dml.FLOAT32, inputs.shape)
    desc = dml.operator_desc(OPERATOR_OF[name], InputTensor=tensor, OutputTensor=tensor)
    got = device.run(desc, {"InputTensor": inputs})["OutputTensor"]
    denormal = is_denormal(inputs)
    values_at_zero = [at_zero(name, zero) for zero in np.copysign(0.0, inputs[denormal].astype(np.float64)).tolist()]
    wanted = wanted.copy()
    wanted[denormal] = np.array(values_at_zero, np.float32)
    distances = np.abs(line_number(got) - line_number(wanted))
    right = np.where(np.isnan(wanted), np.isnan(got), ~np.isnan(got) & (distances <= allowed))
    right |= is_denormal(wanted) & (got == 0) & (np.signbit(got) == np.signbit(wanted))
    assert not is_denormal(got).any()
    wrong = np.flatnonzero(~right)
    texts = [f"{inputs[i]!r}: got {got[i]!r}, expected {wanted[i]!r}" for i in wrong[:5]]
    assert wrong.size == 0, f"{wrong.size} of {inputs.size} rows: {texts}"
