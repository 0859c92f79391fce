"""``docs/accuracy.md``: the promised and the measured error of every float operator, beside others' figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dmlvk.conformance.promises import promise_by_data_type
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, OperatorDesc
from scripts.docs_tools.figures import FIGURES, SOURCES, FigureSource
from scripts.docs_tools.markdown import anchor, page, table
from scripts.docs_tools.measured import Measured, linked
from scripts.docs_tools.product_errors import HEADING

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


def accuracy_page(measured: Measured) -> str:
    """The file's contents, from the declarations and what was measured."""
    lines = [*_INTRODUCTION.splitlines(), ""]
    lines += [
        f"The measurements were made on {measured.devices} by `dmlvk conformance --exhaustive --json FILE` "
        f"({measured.date}); `scripts/make_docs.py --take FILE` brings new ones here. Every device gives the same.",
        "",
    ]
    lines += ["## Operators of class «accurate»", *_MEASURED.splitlines(), ""]
    operators = [o for _, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "accurate"]
    for data_type, sources in ((DataType.FLOAT32, SOURCES), (DataType.FLOAT16, ())):
        head = [f"operator, {data_type.name}", "promised", "measured", "at", "not nearest", *(s.title for s in sources)]
        rows = [row for operator in operators for row in _rows(operator, data_type, measured, sources)]
        if data_type is DataType.FLOAT32:
            head.append("operations")
        lines += [*table(head, rows, right=(1, 2, 4, len(head) - 1)), ""]
    lines += [*_FLOAT16.strip().splitlines(), ""]
    lines += [*table(("operator", "inputs"), sorted(measured.float16.items())), ""]
    lines += [measured.products, ""]
    lines += ["## Correctly rounded operators", ""]
    names = [name for name, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "correctly rounded"]
    head = ["operator", "promised", "remark", *(source.title for source in SOURCES), "operations"]
    rounded = (
        (
            *(name, "0.5", OPERATORS[name].declaration.accuracy.remark),
            *(*_figures(name, SOURCES), str(measured.operations.get(name, ""))),
        )
        for name in names
    )
    lines += [*table(head, rounded, right=(1, len(head) - 1)), ""]
    lines += ["## Exact and correctly rounded operators with all inputs", ""]
    lines += [*_EXHAUSTIVE.splitlines(), ""]
    exact = [(*key, *counts) for key, counts in sorted(measured.exact.items())]
    lines += [*table(("operator", "attributes", "results", "wrong"), exact, right=(2, 3)), ""]
    lines += ["## Where the figures come from", ""]
    lines += [f"- **{source.title}**: {source.text}" for source in SOURCES]
    return page(lines)


def _rows(
    operator: type[OperatorDesc], data_type: DataType, measured: Measured, sources: Sequence[FigureSource]
) -> Iterator[tuple[str, ...]]:
    """A row; one for each set of attributes with which all inputs were tried, and which is named then."""
    promise = promise_by_data_type(operator).get(data_type)
    if promise is None:
        return
    name = operator.operator_name
    found = measured.errors.get((name, data_type.name)) or {"": ("not yet", "", "")}
    for number, (attributes, error) in enumerate(found.items()):
        bound = promise.removeprefix("at most ") if number == 0 else ""
        if math.isinf(operator.declaration.accuracy.maximum_ulp) and bound:
            bound, error = _OF_PRODUCTS, ("", "", "")
        figures = _figures(name, sources) if number == 0 else ("",) * len(sources)
        last = (str(measured.operations.get(name, "")) if number == 0 else "",) if data_type is DataType.FLOAT32 else ()
        named = ", ".join(filter(None, (linked(name) if number == 0 else "", attributes)))
        yield (named, bound, *error, *figures, *last)


def _figures(name: str, sources: Sequence[FigureSource]) -> tuple[str, ...]:
    return tuple(FIGURES.get(name, {}).get(source, "") for source in sources)
