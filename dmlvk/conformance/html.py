"""The report of a run as one HTML file that needs no other: tables, plots, and the promise beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from dmlvk.conformance.results import CaseReport, Element, Measurement, Report
from dmlvk.conformance.svg import error_plot
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS
from dmlvk.support.files import write_whole

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1100px; margin: 2em auto; padding: 0 1em;
       overflow-wrap: anywhere; }
.wide { overflow-x: auto; overflow-wrap: normal; }
table { border-collapse: collapse; margin: 0.6em 0 1.2em; font-size: 13px; }
th, td { padding: 3px 9px; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { background: #f2f2f2; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
code, td.bits { font-family: ui-monospace, monospace; font-size: 12px; }
.verdict { padding: 0.7em 1em; border-left: 6px solid; font-weight: 600; }
.kept { border-color: #2d6a4f; background: #e9f5ee; }
.broken { border-color: #c1121f; background: #fdecee; }
.incomplete { border-color: #b08900; background: #fff8e1; }
tr.broken td { background: #fdecee; }
tr.doubted td { background: #fff8e1; }
.plot { width: 100%; height: auto; background: #fff; }
figure { margin: 0 0 1.4em; } figcaption { font-size: 13px; color: #444; }
"""

_WORDS = {
    "equal": "equal to the reference run",
    "different": "not those of the reference run",
    "other inputs": "not comparable: other inputs",
    "unknown": "–",
    "not compared": "not compared: device arithmetic",
}


def write_report(report: Report, directory: Path) -> Path:
    """Writes ``index.html`` into a directory, which is made where it is missing; returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "index.html"
    write_whole(path, report_as_html(report))
    return path


def report_as_html(report: Report) -> str:
    """The whole document; it is well-formed XML, too."""
    state = "broken" if report.broken else "kept" if report.stopped is None else "incomplete"
    title = "dmlvk conformance: " + ", ".join(device.name for device in report.devices)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en" xmlns="http://www.w3.org/1999/xhtml">',
            '<head><meta charset="utf-8"/>'
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head>",
            f"<body><h1>{escape(title)}</h1>",
            f'<p class="verdict {state}">{escape(report.verdict)}</p>',
            *_faults(report),
            *_summary(report),
            "<h2>The run</h2>",
            *_run_facts(report),
            "<h2>What the columns say</h2>",
            f"<p>{escape(_EXPLANATION)}</p>",
            *(part for operator, cases in _by_operator(report.cases) for part in _section(operator, cases, report)),
            "</body></html>\n",
        ]
    )


_EXPLANATION = (
    "Wrong: results that break the promise; where all bits are those of the reference run (yellow rows), it is the "
    "reference as this machine computes it that is doubted, not the device. Not nearest: results of class «accurate» "
    "that are not the number nearest to the true value, which is allowed. The largest error is counted in units in the "
    "last place (ULP) of the result; "
    "for integers in ones. Plots show the largest error for each stretch of an input's number line, on which every "
    "power of two is equally wide; the dashed lines are half a unit and the promise. SHA-256 is that of all results in "
    "order (of an exhaustive run: that of the hashes of its parts)."
)


def _faults(report: Report) -> Iterator[str]:
    """From the verdict to the cases that it speaks of."""
    for mark, title in (("broken", "Promises broken"), ("doubted", "The reference is doubted")):
        links = [
            f'<a href="#{escape(case.name)}">{escape(case.name)}</a>' for case in report.cases if _mark(case) == mark
        ]
        if links:
            yield f"<p>{title}: {', '.join(links)}</p>"


def _summary(report: Report) -> Iterator[str]:
    """One row for each operator, those with broken promises first."""
    rows, marks = [], []
    groups = sorted(_by_operator(report.cases), key=lambda group: all(case.kept for case in group[1]))
    for operator, cases in groups:
        measured = [each for case in cases for each in case.measurements]
        found = {_mark(case) for case in cases}
        mark = next((mark for mark in ("broken", "doubted") if mark in found), "")
        rows.append(
            [
                f'<a href="#{operator}">{operator}</a>',
                mark or "kept",
                f"{len(cases):,}",
                f"{sum(each.results for each in measured):,}",
                f"{sum(each.broken for each in measured):,}",
                _error(max((each.largest_error for each in measured), default=0.0)),
            ]
        )
        marks.append(mark)
    yield "<h2>Operators</h2>"
    yield _table(["Operator", "Promise", "Cases", "Results", "Wrong", "Largest error"], rows, marks)


def _run_facts(report: Report) -> Iterator[str]:
    everything = ", all 2^32 values of FLOAT32 operators of one operand" if report.exhaustive else ""
    rows = [
        ("Begun", report.started),
        ("Took", f"{report.seconds:.0f} s"),
        ("Tried", f"{report.plan}{everything}"),
        *((name, version) for name, version in report.versions.items()),
    ]
    for number, device in enumerate(report.devices):
        label = f"Device {number}" if len(report.devices) > 1 else "Device"
        driver = f"{device.driver} {device.driver_version}, Vulkan {device.api_version}"
        rows.append((label, f"{device.name} ({device.kind}), {driver}"))
    yield _table(None, ([escape(name), escape(text)] for name, text in rows))


def _by_operator(cases: Sequence[CaseReport]) -> list[tuple[str, list[CaseReport]]]:
    found: dict[str, list[CaseReport]] = {}
    for case in cases:
        found.setdefault(case.operator, []).append(case)
    return list(found.items())


def _section(operator: str, cases: Sequence[CaseReport], report: Report) -> Iterator[str]:
    declaration = OPERATORS[operator].declaration
    accuracy = declaration.accuracy
    promise = accuracy.promise if accuracy.promise != "accurate" else f"within {accuracy.maximum_ulp:g} ULP (FLOAT32)"
    yield f'<h2 id="{operator}">{operator}</h2>'
    remark = f"; {accuracy.remark}" if accuracy.remark else ""
    yield f"<p>Result: <code>{escape(declaration.formula)}</code>. Promise: {escape(promise + remark)}.</p>"
    head = ["Case", "Device", "Results", "Wrong", "Not nearest", "Largest error", "Promise", "Worst", "SHA-256", "Bits"]
    if len(report.devices) == 1:
        head.remove("Device")
    rows = (_row(case, measured, report) for case in cases for measured in case.measurements)
    names = [case.name if number == 0 else "" for case in cases for number, _ in enumerate(case.measurements)]
    yield _table(head, rows, [_mark(case) for case in cases for _ in case.measurements], names)
    for case in cases:
        yield from _plots(case, report)


def _mark(case: CaseReport) -> str:
    return "broken" if not case.kept else "doubted" if case.reference_is_doubted else ""


def _row(case: CaseReport, measured: Measurement, report: Report) -> list[str]:
    worst = ""
    if measured.worst is not None:
        inputs = ", ".join(map(_number, measured.worst.inputs))
        got, expected = measured.worst.got, measured.worst.expected
        # A true value is wider than a result: its bits would mislead.
        wanted = _number(expected) if len(expected.bits) == len(got.bits) else expected.value
        worst = f"{inputs}: got {_number(got)}, not {wanted}; {measured.worst.where}"
    cells = [
        case.name,
        report.devices[measured.device].name,
        f"{measured.results:,}",
        f"{measured.broken:,}" if measured.failure is None else f"failed: {measured.failure}",
        "" if case.bound is None else f"{measured.misrounded:,}",
        _error(measured.largest_error),
        _promise(case),
        worst,
        measured.sha256[:16],
        _WORDS[case.reference_run],
    ]
    if len(report.devices) == 1:
        del cells[1]
    return [escape(cell) for cell in cells]


def _promise(case: CaseReport) -> str:
    if case.arithmetic == "device":
        return "stated error"
    return case.promise if case.bound is None else f"{case.bound:.6g}"


def _number(element: Element) -> str:
    return f"{element.value} ({element.bits})"


def _error(error: float) -> str:
    return "infinite" if math.isinf(error) else f"{error:.5g}"


def _plots(case: CaseReport, report: Report) -> Iterator[str]:
    if case.bound is None:
        return
    for measured in case.measurements:
        for member, profile in measured.profile.items():
            where = f" on {report.devices[measured.device].name}" if len(report.devices) > 1 else ""
            title = f"{case.name}{where}: largest error over {member}"
            data_type = DataType.from_name(case.data_types[member])
            yield f"<figure>{error_plot(profile, data_type, case.bound, title)}"
            yield f"<figcaption>{escape(title)}</figcaption></figure>"


def _table(
    head: Sequence[str] | None, rows: Iterable[Sequence[str]], marks: Sequence[str] = (), names: Sequence[str] = ()
) -> str:
    """A table of cells that are HTML already; ``marks`` are classes of its first rows, ``names`` what links lead to.

    Numbers stand at the right where columns have titles; what has none are facts, among them versions.
    """
    lines = ['<div class="wide"><table>']
    if head is not None:
        lines.append("<tr>" + "".join(f"<th>{escape(title)}</th>" for title in head) + "</tr>")
    for number, row in enumerate(rows):
        mark = f' class="{marks[number]}"' if number < len(marks) and marks[number] else ""
        name = f' id="{escape(names[number])}"' if number < len(names) and names[number] else ""
        cells = "".join(f'<td class="{_cell_class(cell) if head else "text"}">{cell}</td>' for cell in row)
        lines.append(f"<tr{name}{mark}>{cells}</tr>")
    return "\n".join([*lines, "</table></div>"])


def _cell_class(cell: str) -> str:
    return "number" if cell.replace(",", "").replace(".", "").isdigit() else "bits" if "0x" in cell else "text"
