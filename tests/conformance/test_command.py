"""``dmlvk conformance``: what it finds, shows and writes, and its exit statuses."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance import runner
from dmlvk.conformance.cases import value_cases
from dmlvk.conformance.html import report_as_html, write_report
from dmlvk.conformance.measurement import measure_case
from dmlvk.conformance.profile import Profile, line_order, shift, stretches
from dmlvk.conformance.reference_hashes import ReferenceHashes
from dmlvk.conformance.references import device_arithmetic
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.conformance.results import CaseReport, Element, Extent, Measurement, Report, WorstResult
from dmlvk.conformance.samples import products
from dmlvk.conformance.svg import error_plot
from dmlvk.operators import OPERATORS, REGULAR_OPERATORS, Accuracy
from tests.cli.outcome import Outcome
from tests.drawings import SVG, overlapping, texts
from tests.operators.broken import break_shader

QUICK = ("--patterns", "4096", "--attribute-sets", "1", "--jobs", "2")

DEVICES = [info for info in dml.list_devices() if info.usable]


def conformance(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    outcome = Outcome(capsys, "conformance", *QUICK, *arguments)
    outcome.err = re.sub(r"(?m)^[\d,]+ of [\d,]+ cases, .*\n", "", outcome.err)  # what a slow machine says on the way
    return outcome


def test_a_right_device_keeps_all_promises(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    outcome = conformance(capsys, "--operators", "sign,exp", "--device", "0", "--json", str(file))
    assert (outcome.status, outcome.err) == (0, "")
    assert re.search(r"ELEMENT_WISE_SIGN +│ 10 combinations │ +[\d,]+ │ +0 │", outcome.out)
    assert re.search(r"ELEMENT_WISE_EXP +│ FLOAT16 .* 0x[0-9a-f]{4} \(.*\) .* at most 0\.5000", outcome.out)
    verdict = outcome.out.splitlines()[-1]
    assert verdict.startswith(f"KEPT: {DEVICES[0].name}: 12 cases, ")
    document = json.loads(file.read_text())
    assert (document["kept"], document["verdict"], document["stopped"]) == (True, verdict, None)
    assert document["devices"][0]["driver_version"] == DEVICES[0].driver_version
    assert set(document["versions"]) == {"dmlvk", "numpy", "python"}
    half = next(case for case in document["cases"] if case["name"] == "exp-float16")
    (measured,) = half["measurements"]
    assert measured["results"] >= 65536
    assert measured["broken"] == 0
    assert 0.49 < measured["worst"]["error"] <= half["bound"]
    assert re.fullmatch("[0-9a-f]{64}", measured["sha256"])
    assert len(measured["profile"]["InputTensor"]) == 1024


@pytest.fixture
def few_products(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ("one number", "A transposed")
    monkeypatch.setattr(products, "_GEMMS", {name: products._GEMMS[name] for name in kept})


@pytest.mark.usefixtures("few_products")
def test_device_arithmetic_is_measured_as_what_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    options = ("-o", "gemm-float32,gemm-float16,sign-float32", "-d", "0", "--arithmetic", "device")
    outcome = conformance(capsys, *options, "--json", str(file))
    assert outcome.status == 0
    assert re.search(r"GEMM +│ FLOAT32 +│ +[\d,]+ │ +0 │.* stated error │ not compared", outcome.out)
    verdict = outcome.out.splitlines()[-1]
    assert verdict.startswith(f"KEPT: {DEVICES[0].name}: 3 cases, ")
    said = "; DEVICE ARITHMETIC in 1 cases (within the stated error, bits not compared): gemm-float32"
    assert verdict.endswith(said)
    cases = {case["name"]: case for case in json.loads(file.read_text())["cases"]}
    assert {name: case["arithmetic"] for name, case in cases.items()} == {
        "sign-float32": "portable",
        "gemm-float32": "device",
        "gemm-float16": "portable",
    }
    assert cases["gemm-float32"]["reference_run"] == "not compared"
    refused = conformance(capsys, *options, "--write-hashes", str(tmp_path / "hashes"))
    assert refused.status == 2
    assert "dmlvk: this run cannot be a reference: bits are the device's own: gemm-float32" in refused.err


@pytest.mark.usefixtures("few_products")
def test_device_arithmetic_beyond_the_stated_error_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_arithmetic, "_STEP", 0.0)
    outcome = conformance(capsys, "-o", "gemm-float32", "-d", "0", "--arithmetic", "device")
    assert outcome.status == 1
    assert "results are not within the stated error" in outcome.out
    assert "; DEVICE ARITHMETIC in 1 cases (bits not compared): gemm-float32" in outcome.out.splitlines()[-1]


def test_several_devices_give_the_same_bits(capsys: pytest.CaptureFixture[str]) -> None:
    """FLOAT16 of every twenty-fourth operator that has it: ``test_values`` compares every result of all of them.

    Without those that look along rows, whose pipelines SwiftShader takes minutes to make: ``test_rows`` has them.
    """
    names = [c.name for c in value_cases() if "float16" in c.name and c.desc_class.declaration.pattern != "rows"]
    names = names[::24]
    choice = [part for info in DEVICES for part in ("--device", str(info.index))]
    wanted = [part for name in names for part in ("--operators", name)]
    outcome = conformance(capsys, *wanted, *choice, "--json", "-")
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert [case["name"] for case in document["cases"]] == names
    hashes = {}
    for case in document["cases"]:
        given = {measured["sha256"] for measured in case["measurements"]}
        assert len(case["measurements"]) == len(DEVICES)
        assert len(given) == 1, case
        hashes[case["name"]] = given.pop()
    # Equal by right are operators of the same function, and comparisons that no pattern of these tells apart.
    assert len(set(hashes.values())) > len(hashes) // 2, "too many cases share a hash"


def test_a_broken_shader_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    break_shader(monkeypatch, tmp_path, "elementwise/sign.comp", "0x3f800000u", "0x3f800001u")
    file, report = tmp_path / "found.json", tmp_path / "report"
    wanted = ("--operators", "sign", "--operators", "if-uint8-int16")
    outcome = conformance(capsys, *wanted, "--json", str(file), "--report", str(report))
    assert outcome.status == 1
    assert re.search(r"ELEMENT_WISE_SIGN +│ FLOAT32 +│ +[\d,]+ │ +[1-9][\d,]* │", outcome.out)
    assert re.search(r"^sign-float32 on .*: [\d,]+ of [\d,]+ results are not exact$", outcome.out, re.MULTILINE)
    assert re.search(r"got 0x[3b]f800001 .* expected 0x[3b]f800000", outcome.out)
    assert re.search(r"^BROKEN: .*: 1 of 11 cases, .* break a promise: sign-float32$", outcome.out, re.MULTILINE)
    document = json.loads(file.read_text())
    assert [case["name"] for case in document["cases"] if not case["kept"]] == ["sign-float32"]
    assert 'class="verdict broken"' in (report / "index.html").read_text()


def test_a_result_beyond_the_promised_distance_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exp = REGULAR_OPERATORS["ELEMENT_WISE_EXP"]
    narrow = dataclasses.replace(exp.declaration, accuracy=Accuracy("accurate", 0.4))
    monkeypatch.setattr(exp, "declaration", narrow)
    outcome = conformance(capsys, "-o", "exp-float32", "-d", "0")
    assert outcome.status == 1
    assert re.search(r"exp-float32 on .* results are not at most 0\.4 ULP", outcome.out)


@pytest.mark.sweep
def test_other_bits_than_the_reference_run_break_the_promise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Within the promised distance all results are right; but not the same everywhere."""
    made, wrong = tmp_path / "hashes.json", tmp_path / "wrong.json"
    assert conformance(capsys, "-o", "exp-float16", "-d", "0", "--write-hashes", str(made)).status == 0
    hashes = ReferenceHashes.load(made)
    assert list(hashes.cases) == ["exp-float16"]
    assert (hashes.plan, len(hashes.made_on)) == (Extent(4096, 1), 1)
    monkeypatch.setattr(ReferenceHashes, "shipped", lambda: hashes)
    equal = conformance(capsys, "-o", "exp-float16", "-d", "0")
    assert equal.status == 0
    assert "equal bits" in equal.out
    assert equal.out.rstrip().endswith("every promise kept, bits equal to the reference run")
    others = Outcome(capsys, "conformance", "-o", "exp-float16", "-d", "0", "--patterns", "8192")
    assert (others.status, "equal bits" in others.out) == (0, False)

    ((name, (inputs, _)),) = hashes.cases.items()
    dataclasses.replace(hashes, cases={name: (inputs, "0" * 64)}).write(wrong)
    monkeypatch.setattr(ReferenceHashes, "shipped", lambda: ReferenceHashes.load(wrong))
    different = conformance(capsys, "-o", "exp-float16", "-d", "0")
    assert different.status == 1
    assert "exp-float16: the bits are not those of the reference run" in different.out
    foreign = dataclasses.replace(hashes, cases={name: ("0" * 16, "0" * 64)})
    monkeypatch.setattr(ReferenceHashes, "shipped", lambda: foreign)
    uncertain = conformance(capsys, "-o", "exp-float16", "-d", "0")
    assert (uncertain.status, "other inputs" in uncertain.out) == (0, True)


def test_a_reference_that_differs_from_the_reference_run_is_doubted_and_not_the_device(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, file = tmp_path / "hashes.json", tmp_path / "found.json"
    wanted = ("-o", "sign-float32", "-o", "abs-int8", "-d", "0")
    assert conformance(capsys, *wanted, "--write-hashes", str(made)).status == 0
    hashes = ReferenceHashes.load(made)
    right = REFERENCES["ELEMENT_WISE_SIGN"]

    def of_another_processor(desc: dml.OperatorDesc, x: Any) -> Any:
        return np.where(np.isnan(x), np.float32(np.nan), right(desc, x))

    monkeypatch.setitem(REFERENCES, "ELEMENT_WISE_SIGN", of_another_processor)
    monkeypatch.setattr(ReferenceHashes, "shipped", lambda: hashes)
    outcome = conformance(capsys, *wanted, "--json", str(file), "--report", str(tmp_path))
    assert outcome.status == 0, "the device computes what it must"
    *_, line, verdict, _ = outcome.out.splitlines()
    assert verdict.startswith("KEPT: ")
    assert "every promise kept, bits equal to the reference run; DOUBTED: not the device but" in verdict
    assert verdict.endswith(f"references (NumPy {np.__version__}): sign-float32")
    assert line.startswith("  the worst: contiguous, ")
    assert re.search(
        r"^sign-float32 on .* are not what this machine's reference gives, but all bits", outcome.out, re.M
    )
    document = json.loads(file.read_text())
    doubted = {case["name"]: (case["kept"], case["reference_is_doubted"]) for case in document["cases"]}
    assert doubted == {"abs-int8": (True, False), "sign-float32": (True, True)}
    page = (tmp_path / "index.html").read_text()
    # A row of the table of operators, and the case's own.
    assert (page.count('class="doubted"'), 'class="verdict kept"' in page) == (2, True)
    refused = conformance(capsys, *wanted, "--write-hashes", str(tmp_path / "h.json"))
    assert (refused.status, refused.err.startswith("dmlvk: this run cannot be a reference: ")) == (2, True)

    dataclasses.replace(hashes, cases={**hashes.cases, "sign-float32": (hashes.cases["sign-float32"][0], "0")}).write(
        made
    )
    monkeypatch.setattr(ReferenceHashes, "shipped", lambda: ReferenceHashes.load(made))
    broken = conformance(capsys, *wanted)
    assert (broken.status, "BROKEN: " in broken.out, "DOUBTED" in broken.out) == (1, True, False)


def test_hashes_of_a_broken_run_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    break_shader(monkeypatch, tmp_path, "elementwise/sign.comp", "0x3f800000u", "0x3f800001u")
    outcome = conformance(capsys, "-o", "sign-float32", "-d", "0", "--write-hashes", str(tmp_path / "h.json"))
    assert outcome.status == 2
    assert outcome.err == "dmlvk: this run cannot be a reference: promises are broken: sign-float32\n"
    assert not (tmp_path / "h.json").exists()


def test_hashes_are_merged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "h.json"
    ReferenceHashes(Extent(4096, 1), ("an old device",), {"no such case": ("", ""), "abs-int8": ("a", "b")}).write(file)
    assert conformance(capsys, "-o", "sign-int8", "-d", "0", "--write-hashes", str(file)).status == 0
    hashes = ReferenceHashes.load(file)
    assert sorted(hashes.cases) == ["abs-int8", "sign-int8"]
    assert hashes.made_on[0] == "an old device"
    assert Outcome(capsys, "conformance", "-o", "sign-int8", "-d", "0", "--write-hashes", str(file)).status == 0
    assert list(ReferenceHashes.load(file).cases) == ["sign-int8"], "another plan: the old hashes do not hold"


def test_two_runs_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert conformance(capsys, "-o", "sign-int8,abs-int8", "-d", "0", "--json", str(first)).status == 0
    document = json.loads(first.read_text())

    def compared(change: dict[str, Any]) -> Outcome:
        second.write_text(json.dumps({**json.loads(first.read_text()), **change}))
        return Outcome(capsys, "conformance", "--compare", str(first), str(second))

    same = compared({})
    assert (same.status, same.out) == (0, "EQUAL: both runs gave the same bits\n")
    sign, absolute = sorted(document["cases"], key=lambda case: str(case["name"]), reverse=True)
    sign["measurements"][0]["sha256"] = "0" * 64
    changed = compared({"cases": [sign, absolute]})
    assert changed.status == 1
    name = DEVICES[0].name
    assert re.search(rf"^sign-int8: the bits differ: [0-9a-f]{{16}} on {re.escape(name)}, 0{{16}} on", changed.out)
    assert changed.out.endswith("DIFFERENT: 1 disagreements\n")
    fewer = compared({"cases": [absolute]})
    assert (fewer.status, "sign-int8: only the first run has it" in fewer.out) == (1, True)
    broken = compared({"cases": [{**sign, "kept": False}, absolute]})
    assert "sign-int8: a promise is broken in the second run" in broken.out
    other = compared({"plan": {"patterns": 1, "attribute_sets": 1}})
    assert (other.status, "the runs tried different inputs" in other.out) == (1, True)
    inputs = compared({"cases": [{**sign, "inputs_sha256": "1"}, absolute]})
    assert (inputs.status, "sign-int8: the runs had different inputs" in inputs.out) == (1, True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "cases": [{}]}', '{"format": 1}'])
def test_what_is_no_report_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    outcome = Outcome(capsys, "conformance", "--compare", str(file), str(file))
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith(f"dmlvk: {file}: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--operators", ""], "dmlvk: --operators: no name in ''"),
        (["--operators", "nonsense"], "dmlvk: no operator and no case is called 'nonsense'"),
        (["--operators", "bit_*,x*y"], "dmlvk: no operator and no case is called 'x*y'"),
        (["--operators", "cached_attention"], "dmlvk: CACHED_ATTENTION is declared with is_listed=False"),
        (["--device", "99"], "dmlvk: "),
        (["--device", "no such card"], "dmlvk: "),
        (["--device", "0", "--device", "0"], "dmlvk: the same --device is given twice"),
        (["--patterns", "many"], "dmlvk: Invalid value for '--patterns'"),
        (["--patterns", "1"], "dmlvk: Invalid value for '--patterns'"),
        (["--jobs", "0"], "dmlvk: Invalid value for '--jobs'"),
        (["--compare", "a.json"], "dmlvk: Option '--compare' requires 2 arguments"),
        (["--compare", "nowhere.json", "nowhere.json"], "dmlvk: "),
        (["--json", "/no/such/place/found.json", "-o", "sign-int8"], "dmlvk: "),
        (["--report", __file__, "-o", "sign-int8"], "dmlvk: Invalid value for '--report'"),
        (["surplus"], "dmlvk: Got unexpected extra argument"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    outcome = Outcome(capsys, "conformance", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(message)
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("wanted", "operators"),
    [
        (["sign"], {"ELEMENT_WISE_SIGN"}),
        (["ELEMENT_WISE_LOG"], {"ELEMENT_WISE_LOG"}),
        (["DML_OPERATOR_ELEMENT_WISE_LOG"], {"ELEMENT_WISE_LOG"}),
        (["bit_shift_*"], {"ELEMENT_WISE_BIT_SHIFT_LEFT", "ELEMENT_WISE_BIT_SHIFT_RIGHT"}),
        (["Activation_Relu", "abs-int8"], {"ACTIVATION_RELU", "ELEMENT_WISE_ABS"}),
        (["cos-float16"], {"ELEMENT_WISE_COS"}),
        (["cos-float"], {"ELEMENT_WISE_COS", "ELEMENT_WISE_ACOS"}),
        ([], set(OPERATORS)),
    ],
)
def test_selections(wanted: list[str], operators: set[str]) -> None:
    assert {case.desc_class.operator_name for case in runner.selected_cases(wanted)} == operators


def test_an_interrupt_leaves_what_was_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured: list[str] = []

    def interrupted(case: Any, *arguments: Any) -> CaseReport:
        if len(measured) == 3:
            raise KeyboardInterrupt
        report = measure_case(case, *arguments)
        measured.append(report.name)
        return report

    monkeypatch.setattr(runner, "measure_case", interrupted)
    file = tmp_path / "found.json"
    outcome = Outcome(capsys, "conformance", *QUICK, "-o", "sign", "--json", str(file))
    assert (outcome.status, outcome.err) == (130, "")
    assert re.search(
        r"^INCOMPLETE: .*: 3 of 10 cases, .* every promise kept so far.*\(interrupted\)$", outcome.out, re.M
    )
    document = json.loads(file.read_text())
    assert document["stopped"] == "interrupted"
    assert [case["name"] for case in document["cases"]] == measured


def test_a_lost_device_ends_the_run_with_what_was_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise dml.DeviceRemovedError("the device was lost while running")

    monkeypatch.setattr("dmlvk.conformance.measurement.run_prepared", lost)
    outcome = conformance(capsys, "-o", "sign-int8", "-d", "0")
    assert outcome.status == 2
    assert re.search(r"^INCOMPLETE: .* 0 of 1 cases.*\(the device was lost while running\)$", outcome.out, re.MULTILINE)


def test_an_operator_that_a_driver_cannot_run_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*_: Any) -> None:
        raise dml.DmlError("no pipeline")

    monkeypatch.setattr("dmlvk.conformance.measurement.run_prepared", fails)
    outcome = conformance(capsys, "-o", "sign-int8", "-d", "0", "--report", str(tmp_path))
    assert outcome.status == 1
    assert re.search(r"^sign-int8 on .*: could not be run: contiguous, every pattern: no pipeline$", outcome.out, re.M)


@pytest.mark.sweep
@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="interrupts are sent otherwise here")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_process_says_so_and_keeps_its_state(tmp_path: Path, name: str) -> None:
    report, file = tmp_path / "report", tmp_path / "found.json"
    command = [sys.executable, "-m", "dmlvk", "conformance", "-o", "exp-float32", *QUICK[:4], "--exhaustive"]
    command += ["--device", "0", "--report", str(report), "--json", str(file)]

    def notice_signals() -> None:  # a process in the background of a script inherits that they are ignored
        signal.signal(signal.Signals[name], signal.SIG_DFL)

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=notice_signals
    ) as running:
        end = time.monotonic() + 300
        while not list((report / "state").glob("*.json")):
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < end
            time.sleep(0.05)
        running.send_signal(signal.Signals[name])
        out, err = running.communicate(timeout=300)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "where the next run goes on" in err
    assert "INCOMPLETE" in out
    assert json.loads(file.read_text())["stopped"] == "interrupted"
    assert (report / "index.html").is_file()
    (kept,) = (report / "state").glob("*.json")
    assert json.loads(kept.read_text())["chunks"]


def test_infinite_errors_are_written_as_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """JSON has no infinity."""
    break_shader(monkeypatch, tmp_path, "elementwise/sign.comp", "0x3f800000u", "0x7fc00000u")
    outcome = conformance(capsys, "-o", "sign-float32", "-d", "0", "--json", "-")
    assert outcome.status == 1
    assert outcome.err.startswith("BROKEN: ")
    document = json.loads(outcome.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    (case,) = (case for case in document["cases"] if case["name"] == "sign-float32")  # "softsign-float32" has it too
    assert case["measurements"][0]["worst"]["error"] == "infinity"
    assert float("infinity") == math.inf


XHTML = "{http://www.w3.org/1999/xhtml}"


def measurement(error: float = 0.5, broken: int = 0, failure: str | None = None, device: int = 0) -> Measurement:
    element = Element("0x3f800000", "<1.0>")
    return Measurement(
        device=device,
        results=1000,
        broken=broken,
        misrounded=3,
        worst=WorstResult(error, (element,), element, element, "contiguous & more"),
        sha256="ab" * 32,
        failure=failure,
        profile={"InputTensor": [error] * 4096},
        seconds=1.0,
    )


def report(*measurements: Measurement, reference_run: str = "equal", stopped: str | None = None) -> Report:
    case = CaseReport(
        name="exp-float32",
        operator="ELEMENT_WISE_EXP",
        data_types={"InputTensor": "FLOAT32", "OutputTensor": "FLOAT32"},
        exhaustive=False,
        promise="accurate",
        bound=0.55,
        inputs_sha256="0",
        reference_run=reference_run,
        measurements=measurements,
    )
    info = dml.list_devices()[0]
    return Report((info,) * len(measurements), Extent(), False, 7, (case,), stopped, "2024-01-01", 1.5, {"dmlvk": "x"})


def test_the_document_is_well_formed_and_needs_no_other(tmp_path: Path) -> None:
    path = write_report(report(measurement()), tmp_path / "a" / "b")
    text = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text.replace("<!DOCTYPE html>", ""))
    assert root.tag == f"{XHTML}html"
    headings = [element.text for element in root.iter(f"{XHTML}h2")]
    assert "ELEMENT_WISE_EXP" in headings
    assert len(list(root.iter(f"{SVG}svg"))) == 1
    assert not re.search(r"""src=|href=(?!"#)|url\(|@import|<script""", text), "it must not load anything"
    assert "&lt;1.0&gt;" in text
    assert "contiguous &amp; more" in text
    assert "within 0.55 ULP" in text
    assert next(root.iter(f"{XHTML}p")).get("class") == "verdict kept"


def test_links_lead_from_the_verdict_to_the_case() -> None:
    text = report_as_html(report(measurement(2.0, broken=1), measurement(device=1), reference_run="unknown"))
    root = ElementTree.fromstring(text.replace("<!DOCTYPE html>", ""))
    there = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(set(there)) == len(there)
    links = [link.get("href", "").removeprefix("#") for link in root.iter(f"{XHTML}a")]
    assert links == ["exp-float32", "ELEMENT_WISE_EXP"]
    assert set(links) <= set(there)
    assert 'name="viewport"' in text
    assert text.count("<table>") == text.count('<div class="wide"><table>')


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (report(measurement()), "kept"),
        (report(measurement(2.0, broken=1), reference_run="unknown"), "broken"),
        (report(measurement(math.inf, broken=1), reference_run="other inputs"), "broken"),
        (report(measurement(2.0, broken=1), reference_run="equal"), "kept"),
        (report(measurement(failure="no <pipeline>")), "broken"),
        (report(measurement(), reference_run="different"), "broken"),
        (report(measurement(), measurement(device=1)), "kept"),
        (report(measurement(), stopped="interrupted"), "incomplete"),
    ],
)
def test_verdicts(found: Report, word: str) -> None:
    text = report_as_html(found)
    ElementTree.fromstring(text.replace("<!DOCTYPE html>", ""))
    assert f'class="verdict {word}"' in text
    line = found.verdict
    assert line.startswith({"kept": "KEPT", "broken": "BROKEN", "incomplete": "INCOMPLETE"}[word])
    assert ("1 of 7 cases" in line) == (found.stopped is not None)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=lambda t: t.name)
def test_the_line_of_numbers_is_in_order(data_type: dml.DataType) -> None:
    order = line_order(data_type)
    bits = (order.astype(np.uint64) << shift(data_type)).astype(f"u{data_type.size_in_bytes}")
    values = bits.view(data_type.numpy_dtype)
    assert np.isneginf(values[0])
    assert np.isposinf(values[-1])
    assert (np.diff(values[1:-1].astype(np.float64)) >= 0).all()
    assert len(set(order.tolist())) == order.size
    assert stretches(data_type) - order.size < stretches(data_type) // 8


def test_a_profile_has_the_largest_error_of_each_stretch() -> None:
    profile = Profile(dml.FLOAT16)
    profile.add(np.array([1.0, 1.0, -1.0, 1.01], np.float16), np.array([0.25, 0.5, 3.0, 0.125]))
    profile.add(np.array([[1.0]], np.float16), np.array([[0.375]]))
    found = {index: error for index, error in enumerate(profile.as_list()) if error is not None}
    assert found == {0x3C00 >> 6: 0.5, 0xBC00 >> 6: 3.0}


def plotted(profile: list[float | None], data_type: dml.DataType, bound: float) -> ElementTree.Element:
    return ElementTree.fromstring(error_plot(profile, data_type, bound, "a <title>"))


def test_plots_show_where_errors_are() -> None:
    profile: list[float | None] = [None] * 4096
    profile[0x3F800000 >> 20] = 0.5
    profile[0xBF800000 >> 20] = 2.0
    root = plotted(profile, dml.FLOAT32, 0.75)
    right, wrong = root.findall(f"{SVG}path")
    ticks = {text.text: float(str(text.get("x"))) for text in root.iter(f"{SVG}text")}
    for path, index in ((right, "1"), (wrong, "-1")):
        (start,) = re.findall(r"M([\d.]+) ", str(path.get("d")))
        assert abs(float(start) - ticks[index]) < 2
    assert right.get("stroke") != wrong.get("stroke")
    assert {"0", "0.75", "0.5", "∞", "-∞", "2^64"} <= set(ticks)
    assert root[0].text == "a <title>"


def test_plots_of_nothing_and_of_what_is_infinitely_wrong() -> None:
    assert plotted([None] * 1024, dml.FLOAT16, 0.5).findall(f"{SVG}path") == []
    (wrong,) = plotted([math.inf] * 1024, dml.FLOAT16, 0.5).findall(f"{SVG}path")
    heights = set(re.findall(r"V([\d.]+)", str(wrong.get("d"))))
    assert len(heights) == 1, "all at the upper edge"


@pytest.mark.parametrize("data_type", [dml.FLOAT16, dml.FLOAT32], ids=lambda t: t.name)
@pytest.mark.parametrize("bound", [0.5, 0.500104, 0.55, 0.75, 0.95, 1.7])
@pytest.mark.parametrize("error", [0.1, 1.0, 20.0])
def test_no_label_of_a_plot_stands_over_another(data_type: dml.DataType, bound: float, error: float) -> None:
    labels = texts(plotted([error] * stretches(data_type), data_type, bound))
    assert {"ULP", f"{bound:.4g}"} <= {label.what for label in labels}
    assert overlapping(labels) == []
    assert all(label.left >= 0 for label in labels)
