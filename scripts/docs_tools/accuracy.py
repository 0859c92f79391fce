"""``docs/accuracy.md``: the promised and the measured error of every float operator, beside others' figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dmlvk.conformance.promises import promise_by_data_type
from dmlvk.operators import OPERATORS, OperatorDesc
from scripts.docs_tools.figures import FIGURES, SOURCES
from scripts.docs_tools.markdown import page, table

_INTRODUCTION = """# Accuracy

Errors are counted in units in the last place (ULP) of the result: the distance from the true value, divided by the
distance of neighbouring numbers there. 0.5 is the best that any function can promise. The promises hold for every input
on every device, since the bits are the same on all of them.

Three classes:

- **exact**: the result is the definition's, bit by bit. All data types; comparisons, logic, bits, selection, bounds,
  rounding to integers, integer arithmetic, all that only moves values.
- **correctly rounded**: the number nearest to the exact result, ties to even.
- **accurate**: at most so many ULP from the true value. FLOAT16 results are FLOAT32 results that were rounded once
  more: at most 0.5 ULP of FLOAT16 and what is left of the FLOAT32 error.

FLOAT32 denormals count as zeros of their sign, as inputs and as results."""


def accuracy_page(measurements: Path) -> str:
    """The file's contents.

    Args:
        measurements: what :func:`reduced` made of a run's JSON document.
    """
    document = json.loads(measurements.read_text(encoding="utf-8"))
    cases = {case["name"]: case for case in document["cases"]}
    lines = [*_INTRODUCTION.splitlines(), ""]
    lines += [*_origin(document), ""]
    lines += ["## Operators of class «accurate»", ""]
    lines += [
        "Measured is the largest error over all 2^32 inputs (operators with attributes: with usual values of them); of "
        "operators of two operands over some hundred thousand pairs. Not nearest: how many of all results are not the "
        "nearest number.",
        "",
    ]
    names = [name for name, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "accurate"]
    head = ["operator", "type", "promised", "measured", "at", "not nearest", *(source.title for source in SOURCES)]
    rows = (row for name in names for row in _rows(OPERATORS[name], cases))
    lines += [*table(head, rows, right=(2, 3)), ""]
    lines += ["## Correctly rounded operators", ""]
    names = [name for name, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "correctly rounded"]
    head = ["operator", "promised", "remark", *(source.title for source in SOURCES)]
    rounded = ((name, "0.5", OPERATORS[name].declaration.accuracy.remark, *_figures(name)) for name in names)
    lines += [*table(head, rounded, right=(1,)), ""]
    lines += ["## Where the figures come from", ""]
    lines += [f"- **{source.title}**: {source.text}" for source in SOURCES]
    return page(lines)


def _origin(document: Mapping[str, Any]) -> Iterator[str]:
    devices = " and ".join(f"{d['name']} ({d['driver']} {d['driver_version']})" for d in document["devices"])
    yield (
        f"The measurements were made on {devices} by `dmlvk conformance --exhaustive --json FILE` "
        f"({document['started'][:10]}); `scripts/make_docs.py --take FILE` brings new ones here. Every device gives "
        "the same."
    )


def _rows(operator: type[OperatorDesc], cases: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    name = operator.operator_name
    short = name.lower().removeprefix("element_wise_")
    for number, (data_type, promise) in enumerate(promise_by_data_type(operator).items()):
        type_name = data_type.name.lower()
        found = [c for key, c in cases.items() if key.startswith(f"{short}-{type_name} exhaustive")]
        found = found or [c for key, c in cases.items() if key.split(" ")[0] == f"{short}-{type_name}"]
        measured = [_measured(case) for case in found] or [("not yet", "", "")]
        figures = _figures(name) if number == 0 else ("",) * len(SOURCES)
        for part, facts in enumerate(measured):
            first = (f"[{name}](operators.md#{name.lower()})", data_type.name, promise.removeprefix("at most "))
            yield (*(first if part == 0 else ("", "", "")), *facts, *(figures if part == 0 else ("",) * len(SOURCES)))


def _measured(case: Mapping[str, Any]) -> tuple[str, str, str]:
    """Largest error, where, and the share that is not nearest."""
    (measured, *_) = case["measurements"]
    worst = measured["worst"]
    error = "0" if worst is None else f"{worst['error']:.4f}" if isinstance(worst["error"], float) else worst["error"]
    where = "" if worst is None else ", ".join(f"`{element['bits']}`" for element in worst["inputs"])
    share = measured["misrounded"] / measured["results"]
    return error, where, f"{100 * share:.3g} %"


def _figures(name: str) -> tuple[str, ...]:
    return tuple(FIGURES.get(name, {}).get(source, "") for source in SOURCES)


def reduced(document: Mapping[str, Any]) -> dict[str, Any]:
    """What of a run's JSON document is kept in the repository: class «accurate», without the profiles.

    Raises:
        ValueError: when a promise was broken in that run.
    """
    if not document["kept"]:
        raise ValueError("a promise was broken in that run")
    cases = []
    for case in document["cases"]:
        if case["bound"] is None:
            continue
        (measured, *_) = case["measurements"]  # of several devices one: all gave the same
        facts = {key: case[key] for key in ("name", "operator", "exhaustive", "bound", "inputs_sha256")}
        kept = {key: value for key, value in measured.items() if key not in ("profile", "seconds")}
        cases.append({**facts, "measurements": [kept]})
    devices = [
        {key: device[key] for key in ("name", "driver", "driver_version", "api_version")}
        for device in document["devices"][:1]
    ]
    return {"started": document["started"], "versions": document["versions"], "devices": devices, "cases": cases}
