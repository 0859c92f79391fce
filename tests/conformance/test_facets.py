"""What an operator lacks, or does wrong, is one line that names operator and facet; a run goes on with the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.facets import FacetError
from dmlvk.conformance.references.bounded import expected_outputs
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.conformance.samples import SAMPLERS, Sample, Types, sample_cases
from tests.conformance.test_command import conformance

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
    "no reference": (
        REFERENCES,
        "SLICE1",
        None,
        "SLICE1: reference: there is none in dmlvk/conformance",
    ),
    "no sampler": (SAMPLERS, "SLICE1", None, "SLICE1: sampler: there is none in dmlvk/conformance/samples"),
    "a type": (REFERENCES, "SLICE1", _without_shape, "SLICE1: reference: gives float64 of shape "),
    "a name": (REFERENCES, "SLICE1", _of_another_name, "SLICE1: reference: gives ['Output']; the outputs are "),
    "a reference": (REFERENCES, "SLICE1", _failing, "SLICE1: reference: IndexError: axis 9 (test_facets.py:"),
    "a sampler": (SAMPLERS, "SLICE1", _failing_sampler, "SLICE1: sampler: ZeroDivisionError: no rows (test_facets.py:"),
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
