"""``docs/accuracy.md``: the promised and the measured error of every float operator, beside others' figures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dmlvk.conformance.promises import promise_by_data_type
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, OperatorDesc
from scripts.docs_tools.figures import FIGURES, SOURCES, FigureSource
from scripts.docs_tools.markdown import anchor, page, table
from scripts.docs_tools.product_errors import HEADING, product_errors_section

_INTRODUCTION = """# Accuracy

Errors are counted in units in the last place (ULP) of the result: the distance from the true value, divided by the
distance of neighbouring numbers there. 0.5 is the best that any function can promise. The promises hold for every input
on every device, since the bits are the same on all of them.

Three classes:

- **exact**: the result is the definition's, bit by bit. All data types; comparisons, logic, bits, selection, bounds,
  rounding to integers, integer arithmetic, all that only moves values.
- **correctly rounded**: the number nearest to the exact result, ties to even.
- **accurate**: at most so many ULP from the true value. FLOAT16 results are FLOAT32 results that were rounded once
  more: at most 0.5 ULP of FLOAT16 and what is left of the FLOAT32 error. POW and ATAN_YX have FLOAT16 functions
  of their own.

FLOAT32 denormals count as zeros of their sign, as inputs and as results."""

_MEASURED = """
Measured is the largest error over all 2^32 or 2^16 inputs (with attributes: FLOAT32 with usual values of them,
FLOAT16 with several); of operators of two operands over some hundred thousand pairs. Not nearest: the share of results
that are not the number nearest to the true value.

Operations are those that a FLOAT32 element costs: arithmetic on floats and integers, comparisons, bit operations,
selections, least and greatest, and conversions in the SPIR-V, both sides of every branch counted
(`scripts/make_docs.py --count`)."""


_EXHAUSTIVE = """Every operator of one FLOAT32 input was tried with all 2^32 of its values. Those above have errors;
of these every result is the definition's, bit by bit (results that are no FLOAT32 are named)."""


_FLOAT16 = """
The FLOAT16 results of functions of one tensor that are not the number nearest to the true value, of all 65,536 inputs,
with usual attributes: the inputs' bits (`scripts/list_float16_exceptions.py`). Functions that are not here
have none."""


_OF_PRODUCTS = f"[see below](#{anchor(HEADING).replace(' ', '-')})"


def accuracy_page(measurements: Path, operations: Path, float16_exceptions: Path, product_errors: Path) -> str:
    """The file's contents.

    Args:
        measurements: what :func:`reduced` made of a run's JSON document.
        operations: a JSON file of each operator's operations for an element.
        float16_exceptions: what scripts/list_float16_exceptions.py writes.
        product_errors: what dmlvk bench product-errors writes.
    """
    document = json.loads(measurements.read_text(encoding="utf-8"))
    counts = json.loads(operations.read_text(encoding="utf-8"))
    cases = {case["name"]: case for case in document["cases"]}
    lines = [*_INTRODUCTION.splitlines(), ""]
    lines += [*_origin(document), ""]
    lines += ["## Operators of class «accurate»", *_MEASURED.splitlines(), ""]
    operators = [o for _, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "accurate"]
    for data_type, sources in ((DataType.FLOAT32, SOURCES), (DataType.FLOAT16, ())):
        head = [f"operator, {data_type.name}", "promised", "measured", "at", "not nearest", *(s.title for s in sources)]
        rows = [row for operator in operators for row in _rows(operator, data_type, cases, sources)]
        if data_type is DataType.FLOAT32:
            head.append("operations")
            rows = [(*row, _operations(row[0], counts)) for row in rows]
        lines += [*table(head, rows, right=(1, 2, 4, len(head) - 1)), ""]
    exceptions = json.loads(float16_exceptions.read_text(encoding="utf-8"))
    lines += [*_FLOAT16.strip().splitlines(), ""]
    listed = ((name, ", ".join(f"`{bits}`" for bits in found)) for name, found in exceptions.items() if found)
    lines += [*table(("operator", "inputs"), listed), ""]
    lines += product_errors_section(product_errors)
    lines += ["## Correctly rounded operators", ""]
    names = [name for name, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "correctly rounded"]
    head = ["operator", "promised", "remark", *(source.title for source in SOURCES), "operations"]
    rounded = (
        (name, "0.5", OPERATORS[name].declaration.accuracy.remark, *_figures(name, SOURCES), str(counts.get(name, "")))
        for name in names
    )
    lines += [*table(head, rounded, right=(1, len(head) - 1)), ""]
    lines += ["## Exact and correctly rounded operators with all inputs", ""]
    lines += [*_EXHAUSTIVE.splitlines(), ""]
    lines += [*table(("operator", "attributes", "results", "wrong"), _exhaustive(cases), right=(2, 3)), ""]
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


def _rows(
    operator: type[OperatorDesc], data_type: DataType, cases: Mapping[str, Any], sources: Sequence[FigureSource]
) -> Iterator[tuple[str, ...]]:
    """A row; one for each set of attributes with which all inputs were tried, and which is named then."""
    promise = promise_by_data_type(operator).get(data_type)
    if promise is None:
        return
    name = operator.operator_name
    case_name = f"{name.lower().removeprefix('element_wise_')}-{data_type.name.lower()}"
    found = [case for key, case in cases.items() if key.startswith(f"{case_name} exhaustive")]
    found = found or [case for key, case in cases.items() if key == case_name]
    facts = [_measured(case, 4 if data_type is DataType.FLOAT32 else 6) for case in found] or [("not yet", "", "")]
    attributes = [_attributes(case) for case in found] or [""]
    for number, (measured, given) in enumerate(zip(facts, attributes, strict=True)):
        linked = f"[{name}](operators.md#{name.lower()})" if number == 0 else ""
        bound = promise.removeprefix("at most ") if number == 0 else ""
        if math.isinf(operator.declaration.accuracy.maximum_ulp) and bound:
            bound, measured = _OF_PRODUCTS, ("", "", "")
        figures = _figures(name, sources) if number == 0 else ("",) * len(sources)
        yield (", ".join(filter(None, (linked, given))), bound, *measured, *figures)


def _exhaustive(cases: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for each run with all inputs that had no bound of its error: what is exact, and rounded correctly."""
    for key, case in sorted(cases.items(), key=lambda item: (item[1]["operator"], item[0])):
        if case["exhaustive"] and case["bound"] is None:
            (measured, *_) = case["measurements"]
            name = case["operator"]
            _, _, other = key.partition(" ")[0].partition("-float32-")
            linked = f"[{name}](operators.md#{name.lower()})" + (f" to {other.upper()}" if other else "")
            yield linked, _attributes(case), f"{measured['results']:,}", f"{measured['broken']:,}"


def _attributes(case: Mapping[str, Any]) -> str:
    """What a case's name says of attributes, each number as a float32 is written."""
    _, _, given = case["name"].partition(" exhaustive (")
    pairs = [pair.split("=") for pair in given.removesuffix(")").split(", ") if "=" in pair]
    return ", ".join(f"{name} = {_number(value)}" for name, value in pairs)


def _number(text: str) -> str:
    """A number as a float32 is written; another text as it is."""
    try:
        return f"{np.float32(text):g}"
    except ValueError:
        return text


def _measured(case: Mapping[str, Any], digits: int) -> tuple[str, str, str]:
    """Largest error, where, and the share that is not nearest."""
    (measured, *_) = case["measurements"]
    worst = measured["worst"]
    error = "0" if worst is None else f"{float(worst['error']):.{digits}f}"
    where = "" if worst is None else ", ".join(f"`{element['bits']}`" for element in worst["inputs"])
    share = measured["misrounded"] / measured["results"]
    return error, where, f"{100 * share:.3g} %"


def _operations(linked: str, counts: Mapping[str, int]) -> str:
    """An operator's operations, by its name in the first column."""
    return str(counts.get(linked.partition("]")[0].removeprefix("["), ""))


def _figures(name: str, sources: Sequence[FigureSource]) -> tuple[str, ...]:
    return tuple(FIGURES.get(name, {}).get(source, "") for source in sources)


def reduced(document: Mapping[str, Any]) -> dict[str, Any]:
    """What of a run's JSON document is kept in the repository, without the profiles.

    That is class «accurate», and what was tried with all 2^32 inputs.

    Raises:
        ValueError: when a promise was broken in that run.
    """
    if not document["kept"]:
        raise ValueError("a promise was broken in that run")
    cases = []
    for case in document["cases"]:
        if case["bound"] is None and not case["exhaustive"]:
            continue
        (measured, *_) = case["measurements"]  # of several devices one: all gave the same
        facts = {key: case[key] for key in ("name", "operator", "exhaustive", "bound", "inputs_sha256")}
        kept = {key: value for key, value in measured.items() if key not in ("profile", "seconds")}
        kept["device"] = 0
        cases.append({**facts, "measurements": [kept]})
    devices = [
        {key: device[key] for key in ("name", "driver", "driver_version", "api_version")}
        for device in document["devices"][:1]
    ]
    return {"started": document["started"], "versions": document["versions"], "devices": devices, "cases": cases}


def merged(before: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """Two runs' documents in one: the later one's cases take the places of those of the same names.

    Each measurement keeps the number of its device; devices of which nothing is left go.
    """
    names = {case["name"] for case in made["cases"]}
    pairs = [(before["devices"], case) for case in before["cases"] if case["name"] not in names]
    pairs += [(made["devices"], case) for case in made["cases"]]
    devices: list[Any] = []
    cases = []
    for known, case in pairs:
        (measured,) = case["measurements"]
        device = known[measured["device"]]
        if device not in devices:
            devices.append(device)
        cases.append({**case, "measurements": [{**measured, "device": devices.index(device)}]})
    return {**made, "devices": devices, "cases": cases}
