"""What ``dmlvk conformance`` shows: a table for each device, every broken promise, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.table import Table

from dmlvk.cli.tables import PlainConsole
from dmlvk.conformance.results import CaseReport, Measurement, Report

_COLUMNS = {
    "Operator": 0,
    "Data types": 110,
    "Results": 0,
    "Wrong": 0,
    "Not nearest": 125,
    "Largest error": 0,
    "at": 140,
    "Promise": 95,
    "Reference run": 80,
}
"""Each with the width that the terminal must have to show it."""

_REFERENCE_RUN = {
    "equal": "equal bits",
    "different": "OTHER BITS",
    "other inputs": "other inputs",
    "unknown": "–",
    "not compared": "not compared",
}


def show_report(report: Report) -> None:
    """Tables, broken promises, verdict."""
    console = PlainConsole()
    for number, device in enumerate(report.devices):
        title = f"{device.name} ({device.driver} {device.driver_version}), {report.plan}"
        table = Table(title=title)
        shown = [name for name, needed in _COLUMNS.items() if console.width >= needed]
        for name in shown:
            is_number = name in ("Results", "Wrong", "Not nearest", "Largest error")
            table.add_column(name, justify="right" if is_number else "left", no_wrap=name == "Operator")
        for row in _rows(report.cases, number):
            table.add_row(*(row[name] for name in shown))
        console.print(table)
    for case in (*report.broken, *report.doubted):
        for line in fault_lines(case, report):
            console.print(line, soft_wrap=True)
    console.print(report.verdict, style="bold", soft_wrap=True)


def _rows(cases: Sequence[CaseReport], device: int) -> Iterator[dict[str, str]]:
    """A row for each operator; where errors are measured or a promise is broken, one for each data type."""
    groups: dict[tuple[object, ...], list[CaseReport]] = {}
    for case in cases:
        alone = case.bound is not None or case.exhaustive or not case.kept or case.reference_is_doubted
        alone = alone or case.arithmetic == "device"
        groups.setdefault((case.operator, case.name if alone else ""), []).append(case)
    for group in groups.values():
        measured = [case.measurements[device] for case in group]
        worst = max(measured, key=lambda m: m.largest_error)
        words = {case.reference_run for case in group}
        yield {
            "Operator": group[0].operator,
            "Data types": _data_types(group),
            "Results": f"{sum(m.results for m in measured):,}",
            "Wrong": _count(measured, "broken"),
            "Not nearest": "" if group[0].bound is None else _count(measured, "misrounded"),
            "Largest error": error_text(worst.largest_error) + ("" if group[0].bound is None else " ULP"),
            "at": "" if worst.worst is None else ", ".join(map(str, worst.worst.inputs)),
            "Promise": promise_text(group[0]),
            "Reference run": _REFERENCE_RUN[words.pop()] if len(words) == 1 else "in part",
        }


def _data_types(group: Sequence[CaseReport]) -> str:
    if len(group) > 1:
        return f"{len(group)} combinations"
    case = group[0]
    types = list(dict.fromkeys(case.data_types.values()))
    return " ".join(types) + (", all values" if case.exhaustive else "")


def _count(measured: Sequence[Measurement], attribute: str) -> str:
    if any(m.failure is not None for m in measured):
        return "failed"
    return f"{sum(getattr(m, attribute) for m in measured):,}"


def error_text(error: float) -> str:
    """``0.5421``, ``0`` or ``infinite``."""
    return "infinite" if math.isinf(error) else f"{error:.4f}" if error % 1 else f"{error:.0f}"


def promise_text(case: CaseReport) -> str:
    """``exact``, ``correctly rounded`` or ``at most 0.55 ULP``."""
    if case.arithmetic == "device":
        return "stated error"
    return case.promise if case.bound is None else f"at most {case.bound:.6g} ULP"


def _promised(case: CaseReport) -> str:
    return "within the stated error" if case.arithmetic == "device" else promise_text(case)


def fault_lines(case: CaseReport, report: Report) -> Iterator[str]:
    """What is wrong with a case, one line for each thing."""
    for measured in case.measurements:
        where = f"{case.name} on {report.devices[measured.device].name}"
        if measured.failure is not None:
            yield f"{where}: could not be run: {measured.failure}"
        if measured.broken and case.reference_is_doubted:
            count = f"{measured.broken:,} of {measured.results:,} results"
            yield f"{where}: {count} are not what this machine's reference gives, but all bits are the reference run's"
        elif measured.broken:
            yield f"{where}: {measured.broken:,} of {measured.results:,} results are not {_promised(case)}"
        if measured.broken and (worst := measured.worst) is not None:
            inputs = ", ".join(map(str, worst.inputs))
            yield f"  the worst: {worst.where}: inputs {inputs}, got {worst.got}, expected {worst.expected}"
    if not case.agree:
        yield f"{case.name}: the devices gave different bits"
    if case.reference_run == "different":
        yield f"{case.name}: the bits are not those of the reference run"
