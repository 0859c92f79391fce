"""Documents that follow from the sources are current: pages, coefficients, counts of operations, words of shaders."""

from __future__ import annotations

import json
import math
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlvk.conformance.cases import value_cases
from dmlvk.conformance.exhaustive import exhaustive_runs
from dmlvk.conformance.reference_hashes import ReferenceHashes
from dmlvk.kernels.library import coefficients
from dmlvk.operators import OPERATORS
from scripts import list_float16_exceptions, make_coefficients, make_docs
from scripts.docs_tools.decisions import THEMES, general_tests, theme_of
from scripts.docs_tools.measured import Measured, attributes_of, linked
from scripts.make_docs import ACCURACY, DOCS
from scripts.shader_tools.operations import operations, operations_by_operator
from scripts.shader_tools.spirv import Module

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
    page, made = docs / "accuracy.md", docs / "operators.md"
    stale = page.read_text().replace("| 0.5 |", "| 0.4 |", 1)
    page.write_text(stale)
    made.write_text("stale")
    (docs / "decisions.md").unlink()
    capsys.readouterr()
    assert make_docs.main(["--check", "--docs", str(docs)]) == 1
    assert capsys.readouterr().err == "stale: accuracy.md; run scripts/make_docs.py\n"
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


@pytest.mark.sweep
def test_the_file_is_what_the_script_makes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = make_coefficients.contents()
    assert made == make_coefficients.TARGET.read_bytes()
    spoiled = bytearray(made)
    spoiled[-1] ^= 1
    other = tmp_path / "coefficients.bin"
    other.write_bytes(spoiled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_coefficients, "TARGET", other)
        patch.setattr(make_coefficients, "contents", lambda: made)
        assert make_coefficients.main(["--check"]) == 1
        assert "coefficients.bin is not what" in capsys.readouterr().err
        assert make_coefficients.main([]) == 0
        assert make_coefficients.main(["--check"]) == 0


#: Of each function: the rows of its intervals, as the shaders' comments count them.
ROWS = {
    "GELU": 21 * 128 + 64 + 1,
    "ACOSH": 21 * 128,
    "ATANH": 6 * 128,
    "ATANH_BELOW_ONE": 23 * 128,
    "SOFTPLUS": 20 * 128,
    "TAN": 7 * 256,
    "COTANGENT": 7 * 256,
    "TANH": 10 * 128 + 16,
    "COMPLEMENT": 16 * 128,
    "ASINH": 20 * 128,
    "ATAN": 20 * 128,
}

PAIRS = {"LOGARITHM_TERM": 130 * 32 + 44}

#: Those whose rows are a point, the value there, a line and a square, in Python's own words.
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "ACOSH": lambda z: math.acosh(1 + z),
    "ATANH": math.atanh,
    "ATANH_BELOW_ONE": lambda gap: math.atanh(1 - gap),
    "SOFTPLUS": lambda t: math.log1p(math.exp(-t)),
    "TAN": math.tan,
    "COTANGENT": lambda x: 1 / math.tan(x),
    "TANH": math.tanh,
    "COMPLEMENT": lambda x: -math.expm1(-x),
    "ASINH": math.asinh,
    "ATAN": math.atan,
}


def test_shaders_look_for_rows_where_the_file_has_them() -> None:
    text = (ROOT / "shaders" / "include" / "coefficients.glsl").read_text(encoding="utf-8")
    begins = {name: int(row) for name, row in re.findall(r"#define (\w+)_ROWS (\d+)u", text)}
    assert begins == {name: begin_of(name) for name in make_coefficients.ROWS}
    begins_of_pairs = {name: int(pair) for name, pair in re.findall(r"#define (\w+)_PAIRS (\d+)u", text)}
    assert begins_of_pairs == {"LOGARITHM_TERM": 2 * sum(ROWS.values())}
    assert PAIRS.keys() == make_coefficients.PAIRS.keys()
    assert len(coefficients.contents()) == 16 * sum(ROWS.values()) + 8 * sum(PAIRS.values())


def begin_of(name: str) -> int:
    names = list(ROWS)
    return sum(ROWS[other] for other in names[: names.index(name)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_row_is_nearly_the_function_around_its_point(name: str) -> None:
    begin = begin_of(name)
    content = coefficients.contents()[16 * begin : 16 * (begin + ROWS[name])]
    rows = list(struct.iter_unpack("<4f", content))
    points = [row[0] for row in rows]
    assert points == sorted(points)
    for before, (point, value, line, square), after in zip(points, rows[1:], points[2:], strict=False):
        for x in ((before + point) / 2, point, (point + after) / 2):
            true = FUNCTIONS[name](x)
            found = value + (x - point) * (line + (x - point) * square)
            assert abs(found - true) < 0.1 * np.spacing(np.float32(true)), f"{name} at {x}"


def test_pairs_of_powers_are_those_of_e_and_then_zeros() -> None:
    text = (ROOT / "shaders" / "include" / "log_softmax.glsl").read_text(encoding="utf-8")
    (polynomial,) = re.findall(r"rest = r \+ \(r \* r\) \* \(([\d.]+) \+ r \* ([\d.]+)\);", text)
    square, cube = map(float, polynomial)
    pairs = list(struct.iter_unpack("<2f", coefficients.contents()[16 * sum(ROWS.values()) :]))
    assert pairs[4164:] == [(0.0, 0.0)] * 40
    for number, (head, beyond) in enumerate(pairs[:4164]):
        mantissa = math.frexp(head)[0] * 2**9
        assert mantissa == int(mantissa)
        for r in (-(2.0**-6), -0.01, 0.0, 2.0**-6):
            true = math.exp(r - number / 32) * 2.0**90
            rest = r - beyond
            found = head * (1 + rest + rest * rest * (square + rest * cube))
            assert abs(found - true) < 0.02 * 2.0**-24 * true, f"{number} / 32 and {r}"


_SHADER = """#version 450
layout(std430, binding = 0) buffer B { float xs[]; };
float square(float x) { return x * x; }                                     // 1
float fourth(float x) { return square(x) * square(x); }                     // 1 + 2
void main()
{
    float x = xs[0];
    if (x > 1.0) { x = fourth(x) + 1.0; } else { x = -x; }                  // 1 + 3 + 1 + 1
    xs[0] = uintBitsToFloat(floatBitsToUint(x) ^ 1u);                       // 1
}
"""


def test_functions_count_as_often_as_they_are_called(tmp_path: Path) -> None:
    source, target = tmp_path / "a.comp", tmp_path / "a.spv"
    source.write_text(_SHADER, encoding="utf-8")
    subprocess.run(["glslangValidator", "-V", "-o", str(target), str(source)], check=True, stdout=subprocess.DEVNULL)
    assert operations(Module(target.read_bytes())) == 7


def test_the_documents_have_the_counts_of_the_shaders() -> None:
    stored = Measured.read((DOCS / ACCURACY).read_text(encoding="utf-8")).operations
    now = operations_by_operator()
    assert now.keys() <= OPERATORS.keys()
    exact = {name for name in now if OPERATORS[name].declaration.accuracy.promise == "exact"}
    assert stored.keys() == now.keys() - exact, "run scripts/make_docs.py --count"
    for name, count in stored.items():  # another glslang may write this or that differently
        assert now[name] == pytest.approx(count, rel=0.1, abs=3), f"{name}: run scripts/make_docs.py --count"


def test_counts_are_plausible() -> None:
    counts = operations_by_operator()
    assert counts["ELEMENT_WISE_ABS"] == 1  # a mask
    assert counts["ELEMENT_WISE_ADD"] < counts["ELEMENT_WISE_MULTIPLY"] < counts["ELEMENT_WISE_DIVIDE"]


PAGE = (ROOT / "docs" / "shaders.md").read_text(encoding="utf-8")

PATTERNS = [
    path
    for path in (ROOT / "shaders").rglob("*.glsl")
    if path.name.startswith(("elementwise", "along_axes")) or path.name == "coefficients.glsl"
]

WORD_OPERATORS = [
    path for folder in ("elementwise", "activation", "lookup") for path in (ROOT / "shaders" / folder).iterdir()
]


def _asked_for() -> set[str]:
    """What patterns test for, and what operators' files define that patterns use."""
    tested: set[str] = set()
    for path in PATTERNS:
        text = path.read_text(encoding="utf-8")
        guard = re.findall(r"#ifndef (\w+_GLSL)", text)
        tested |= set(re.findall(r"^\s*#\s*(?:ifdef|ifndef)\s+(\w+)", text, re.MULTILINE)) - set(guard)
    used = "\n".join(path.read_text(encoding="utf-8") for path in PATTERNS)
    defined: set[str] = set()
    for path in WORD_OPERATORS:
        text = path.read_text(encoding="utf-8")
        taken_away = set(re.findall(r"^\s*#\s*undef (\w+)", text, re.MULTILINE))  # the file's own, for a few lines
        defined |= set(re.findall(r"^\s*#\s*define (\w+)", text, re.MULTILINE)) - taken_away
    return tested | {word for word in defined if re.search(rf"\b{word}\b", used)}


def _named() -> set[str]:
    return set(re.findall(r"`([A-Za-z][A-Za-z0-9_]+)(?:\(|`|<)", PAGE))


def test_every_word_that_patterns_ask_for_is_named() -> None:
    asked = {word for word in _asked_for() if not re.match(r"HAS_|INPUT_|FURTHER_|ATTRIBUTE_|FUSED_", word)}
    assert not sorted(asked - _named())


def test_every_word_that_is_named_is_in_the_shaders() -> None:
    others = {"Target", "PlainKernel", "precise"}
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "shaders").rglob("*") if path.suffix in (".glsl", ".comp")
    )
    missing = [word for word in _named() - others if not re.search(rf"\b{re.escape(word)}", text)]
    assert not sorted(missing)
