"""The documents that follow from the declarations: current, whole, and with links that lead somewhere."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from dmlvk.conformance.cases import value_cases
from dmlvk.conformance.exhaustive import exhaustive_runs
from dmlvk.conformance.reference_hashes import ReferenceHashes
from dmlvk.operators import OPERATORS
from scripts import list_float16_exceptions, make_docs
from scripts.docs_tools.decisions import THEMES, general_tests, theme_of
from scripts.docs_tools.figures import FIGURES, SOURCES
from scripts.docs_tools.measured import Measured, attributes_of, linked
from scripts.shader_tools.operations import operations_by_operator

ROOT = make_docs.DOCS.parent


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A copy of what was measured, and documents made from it."""
    shutil.copy(make_docs.DOCS / make_docs.ACCURACY, tmp_path)
    assert make_docs.main(["--docs", str(tmp_path)]) == 0
    return tmp_path


def run_document(kept: bool = True, **change: Any) -> dict[str, Any]:
    """What ``dmlvk conformance --json`` writes, of one case."""
    element = {"bits": "0x3f800000", "value": "1.0"}
    worst = {"error": 0.53125, "inputs": [element], "got": element, "expected": element, "where": ""}
    measurement = {
        "device": 0, "results": 2**32, "broken": 0, "misrounded": 2**22, "worst": worst, "sha256": "00",
        "failure": None, "profile": {"InputTensor": [0.5] * 4096}, "seconds": 1.0,
    }  # fmt: skip
    case = {
        "name": "exp-float32 exhaustive", "operator": "ELEMENT_WISE_EXP", "exhaustive": True, "bound": 0.55,
        "inputs_sha256": "11", "measurements": [measurement], **change,
    }  # fmt: skip
    exact = {**case, "name": "sign-float32", "bound": None, "exhaustive": False}
    device = {"name": "A Device", "driver": "d", "driver_version": "1", "api_version": "1.3", "memory": 5}
    return {"kept": kept, "started": "2030-02-03T04:05:06", "versions": {}, "devices": [device], "cases": [case, exact]}


def test_the_committed_documents_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    """After a change of declarations: ``scripts/make_docs.py``."""
    assert make_docs.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.sweep
def test_stale_documents_are_found_and_those_that_git_does_not_keep_are_written(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_docs.main(["--check", "--docs", str(docs)]) == 0
    page, made = docs / "onnx.md", docs / "operators.md"
    stale = page.read_text().replace("device", "engine", 1)
    page.write_text(stale)
    made.write_text("stale")
    (docs / "decisions.md").unlink()
    capsys.readouterr()
    assert make_docs.main(["--check", "--docs", str(docs)]) == 1
    assert capsys.readouterr().err == "stale: onnx.md; run scripts/make_docs.py\n"
    assert page.read_text() == stale, "--check writes no document that git keeps"
    assert "### ELEMENT_WISE_SIGN" in made.read_text() and (docs / "decisions.md").exists()
    assert make_docs.main(["--docs", str(docs)]) == 0
    assert make_docs.main(["--check", "--docs", str(docs)]) == 0


def test_every_operator_has_its_section(docs: Path) -> None:
    text = (docs / "operators.md").read_text()
    sections = re.findall(r"^### (\w+)$", text, re.MULTILINE)
    assert sections == sorted(OPERATORS)
    for name, operator in OPERATORS.items():
        section = text.split(f"### {name}\n")[1].split("\n### ")[0]
        assert operator.declaration.formula in section
        for field in operator.fields:
            assert f"| {field.name} | {field.kind} |" in section
        for decision in operator.declaration.decisions:
            assert f"- {decision}" in section
        for support in operator.declaration.support:
            assert f"| {support.level.label} |" in section


def test_every_decision_has_its_row_under_one_theme(docs: Path) -> None:
    text = (docs / "decisions.md").read_text()
    for operator in OPERATORS.values():
        for decision in operator.declaration.decisions:
            (row,) = [
                line for line in text.splitlines() if line.startswith(f"| {decision.replace('|', chr(92) + '|')} |")
            ]
            assert f"operators.md#{operator.operator_name.lower()})" in row
            assert theme_of(decision).title in text
    assert all(theme.reason in text for theme in THEMES if f"## {theme.title}" in text)
    for test in general_tests():
        assert (ROOT / test).is_file(), test


def test_links_lead_to_sections(docs: Path) -> None:
    anchors: dict[str, set[str]] = {f"{name}.md": set() for name in ("operators", "decisions", "accuracy")}
    for name, found in anchors.items():
        found |= {line.lstrip("# ").lower() for line in (docs / name).read_text().splitlines() if line.startswith("#")}
    for name in anchors:
        for file, anchor in re.findall(r"\]\((\w*\.?m?d?)#(\w+)\)", (docs / name).read_text()):
            assert anchor in anchors[file or name], f"{name}: {file}#{anchor}"


def test_every_accurate_operator_is_in_the_table_of_errors(docs: Path) -> None:
    text, _, exact = (
        (docs / "accuracy.md").read_text().partition("## Exact and correctly rounded operators with all inputs")
    )
    assert "[ELEMENT_WISE_SQRT](" in exact
    for name, operator in OPERATORS.items():
        promise = operator.declaration.accuracy.promise
        assert (f"| [{name}](" in text) == (promise == "accurate"), name
        if promise == "correctly rounded":
            assert f"| {name} | 0.5 |" in text
    for source in SOURCES:
        assert f"- **{source.title}**: {source.text}" in exact
        assert "https://" in source.text
    assert all(set(figures) <= set(SOURCES) for figures in FIGURES.values())


def measured(docs: Path = make_docs.DOCS) -> Measured:
    return Measured.read((docs / make_docs.ACCURACY).read_text())


def test_every_operator_of_one_input_was_tried_with_all_values_and_has_a_hash() -> None:
    found = measured()
    for run in exhaustive_runs(value_cases()):
        operator, types = run.case.desc_class.operator_name, run.case.name.partition("-")[2]
        attributes = attributes_of({"name": run.name})
        if (operator, "FLOAT32") in found.errors:
            assert attributes in found.errors[operator, "FLOAT32"], run.name
        else:
            assert found.exact[linked(operator, types), attributes] == ("4,294,967,296", "0"), run.name
        assert run.name in ReferenceHashes.shipped().cases


def test_errors_in_the_declarations_are_those_that_were_measured() -> None:
    """They are written by hand, because an installed package does not have the measurements."""
    errors = {
        name: [math.ceil(100 * float(error)) / 100 for error, _, _ in of.values()]
        for (name, data_type), of in measured().errors.items()
        if data_type == "FLOAT32"
    }
    compared = 0
    for name, operator in OPERATORS.items():
        accuracy = operator.declaration.accuracy
        _, is_measured, text = accuracy.remark.partition("measured: ")
        figures = [float(figure) for figure in re.findall(r"([\d.]+) ULP", text)]
        if is_measured:  # where there are several, each with attributes of its own
            assert max(figures) == max(errors[name]), name
            assert set(figures) <= set(errors[name]), name
        elif found := re.search(r"found by search: ([\d.]+) ULP", accuracy.remark):
            assert max(errors[name]) <= float(found[1]) <= accuracy.maximum_ulp, name
        else:
            continue
        compared += 1
    assert compared >= 10, "the remarks' words have changed"


def test_the_float16_results_that_are_not_the_nearest_are_of_functions_that_were_tried() -> None:
    tried = {case.desc_class.operator_name for case in list_float16_exceptions.cases()}
    names = {name.split(" ")[0] for name in measured().float16}
    assert names <= tried and len(names) > 10


def test_the_roofline_has_every_operator_that_was_measured_and_counted(docs: Path, tmp_path: Path) -> None:
    counts = operations_by_operator()
    results = [
        {
            "operator": name, "data_type": "float32", "layout": "contiguous", "elements": 100, "bytes_moved": 800,
            "timings": [{"library": "dmlvk", "bytes_per_second": 3e12}],
        }
        for name in [*sorted(counts)[:9], "NO_OPERATOR"]
    ]  # fmt: skip
    measured = tmp_path / "speeds.json"
    measured.write_text(
        json.dumps({"device": "A Device", "copy_ceiling_in_bytes_per_second": 4e12, "results": results})
    )
    (docs / "pictures").mkdir()
    assert make_docs.main(["--docs", str(docs), "--roofline", str(measured)]) == 0
    picture = (docs / "pictures" / "roofline.svg").read_text()
    assert picture.count('width="6.0" height="6.0"') == 9
    assert "copy, 4000 GB/s" in picture and "A Device" in picture


def test_measurements_are_taken_and_replaced(docs: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_document()))
    before = measured(docs)
    assert make_docs.main(["--docs", str(docs), "--take", str(file)]) == 0
    after = measured(docs)
    assert after.errors.keys() == before.errors.keys() and after.exact == before.exact
    changed = [key for key in after.errors if after.errors[key] != before.errors[key]]
    assert changed == [("ELEMENT_WISE_EXP", "FLOAT32")]
    assert after.devices == f"{before.devices} and A Device (d 1)"
    text = (docs / "accuracy.md").read_text()
    (row,) = [line for line in text.splitlines() if "[ELEMENT_WISE_EXP]" in line and "0x3f800000" in line]
    assert row.endswith("| 0.55 ULP | 0.5312 | `0x3f800000` | 0.0977 % | 42 |")
    assert "A Device (d 1)" in text
    assert "(2030-02-03)" in text


def test_a_broken_run_is_no_source(docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.json"
    for text in (json.dumps(run_document(kept=False)), "no JSON", "{}"):
        file.write_text(text)
        assert make_docs.main(["--docs", str(docs), "--take", str(file)]) == 2
        assert str(file) in capsys.readouterr().err
    with pytest.raises(ValueError, match="a promise was broken"):
        measured().with_run(run_document(kept=False))
