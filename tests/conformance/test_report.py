"""The report is well-formed, stands by itself, and shows what was found."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.html import report_as_html, write_report
from dmlvk.conformance.profile import Profile, line_order, shift, stretches
from dmlvk.conformance.results import CaseReport, Element, Extent, Measurement, Report, WorstResult
from dmlvk.conformance.svg import error_plot
from tests.drawings import SVG, overlapping, texts

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
