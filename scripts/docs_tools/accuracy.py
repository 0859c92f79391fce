"""``docs/accuracy.md``: the promised and the measured error of every float operator, beside others' figures."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dmlvk.conformance.promises import promise_by_data_type
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, OperatorDesc
from scripts.docs_tools.figures import FIGURES, SOURCES
from scripts.docs_tools.markdown import page, table
from scripts.docs_tools.measured import Measured, linked

_INTRODUCTION = """# Accuracy

Look up how far an operator's results may be from the true value, and how far they are.
[Check your own device](how-to/check-a-device.md) by `dmlvk conformance`.

Errors are counted in units in the last place (ULP) of the result: the distance from the true value, divided by the
distance of neighbouring numbers there. No function can promise less than 0.5. The promises hold for every input on
every device, since the bits are the same on all of them.

| class | the result is | operators |
|---|---|---|
| exact | the definition's, bit by bit | all that move, choose, compare, round to integers; integer arithmetic |
| correctly rounded | the number nearest to the exact result, ties to even | sums, products, quotients, roots |
| accurate | at most so many ULP from the true value | exponentials, trigonometric functions, activations, … |

FLOAT16 results of accurate operators are FLOAT32 results that are rounded once more. So they are at most 0.5 ULP of
FLOAT16 off, and what is left of the FLOAT32 error. POW and ATAN_YX have FLOAT16 functions of their own.

FLOAT32 denormals count as zeros of their sign, as inputs and as results."""

_MEASURED = """
Measured is the largest error over all 2^32 or 2^16 inputs, and of operators of two operands over some hundred thousand
pairs. Attributes have usual values, of FLOAT16 several. Not nearest: the share of results that are not the number
nearest to the true value. Empty where nothing was measured.

Operations are those that a FLOAT32 element costs in the SPIR-V, both sides of every branch counted: arithmetic,
comparisons, bit operations, selections, conversions (`scripts/make_docs.py --count`)."""


_BESIDE = """The largest errors in ULP that others state of their FLOAT32 functions. Sources are below."""


_EXHAUSTIVE = """Every operator of one FLOAT32 input was tried with all 2^32 of its values. Of these every result is the
definition's, bit by bit. Results that are no FLOAT32 are named."""


_FLOAT16 = """
These FLOAT16 results of functions of one tensor are not the number nearest to the true value, of all 65,536 inputs
with usual attributes. The table has the inputs' bits (`scripts/list_float16_exceptions.py`). Functions that are not
here have none."""


_PRODUCTS = """## Sums of products

What GEMM promises is [a part of the sum of the products' magnitudes](operators.md#gemm). So do
CONVOLUTION, and the products in RNN, LSTM, GRU and attention. FLOAT16 rows by packed weights have at most
(64 + s + 2) 2^-24 of it, with s segments of 1024 terms ([why](notes/exact-products.md#packed-weights))."""

_OF_PRODUCTS = "[see below](#sums-of-products)"


def accuracy_page(measured: Measured) -> str:
    """The file's contents, from the declarations and what was measured."""
    lines = [*_INTRODUCTION.splitlines(), ""]
    lines += [
        f"Measured on {measured.devices} ({measured.date})",
        "by `dmlvk conformance --exhaustive --json FILE`; every device gives the same.",
        "`scripts/make_docs.py --take FILE` brings new measurements here.",
        "",
    ]
    lines += ["## Accurate operators", *_MEASURED.splitlines(), ""]
    operators = [o for _, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "accurate"]
    for data_type in (DataType.FLOAT32, DataType.FLOAT16):
        head = [f"operator, {data_type.name}", "promised", "measured", "at", "not nearest"]
        rows = [row for operator in operators for row in _rows(operator, data_type, measured)]
        if data_type is DataType.FLOAT32:
            head.append("operations")
        lines += [*table(head, rows, right=(1, 2, 4, len(head) - 1)), ""]
    lines += [*_FLOAT16.strip().splitlines(), ""]
    lines += [*table(("operator", "inputs"), sorted(measured.float16.items())), ""]
    lines += [*_PRODUCTS.splitlines(), ""]
    lines += ["## Correctly rounded operators", ""]
    names = [name for name, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "correctly rounded"]
    rounded = (
        (name, "0.5", OPERATORS[name].declaration.accuracy.remark, str(measured.operations.get(name, "")))
        for name in names
    )
    lines += [*table(("operator", "promised", "remark", "operations"), rounded, right=(1, 3)), ""]
    lines += ["## Beside others", "", *_BESIDE.splitlines(), ""]
    head = ["operator", "dmlvk", *(source.title for source in SOURCES)]
    lines += [*table(head, _beside(), right=(1,)), ""]
    lines += ["## Exact and correctly rounded operators with all inputs", ""]
    lines += [*_EXHAUSTIVE.splitlines(), ""]
    exact = [(*key, *counts) for key, counts in sorted(measured.exact.items())]
    lines += [*table(("operator", "attributes", "results", "wrong"), exact, right=(2, 3)), ""]
    lines += ["## Where the figures come from", ""]
    lines += [f"- **{source.title}**: {source.text}" for source in SOURCES]
    return page(lines)


def _rows(operator: type[OperatorDesc], data_type: DataType, measured: Measured) -> Iterator[tuple[str, ...]]:
    """A row; one for each set of attributes with which all inputs were tried, and which is named then."""
    promise = promise_by_data_type(operator).get(data_type)
    if promise is None:
        return
    name = operator.operator_name
    found = measured.errors.get((name, data_type.name)) or {"": ("", "", "")}
    for number, (attributes, error) in enumerate(found.items()):
        bound = promise.removeprefix("at most ") if number == 0 else ""
        if math.isinf(operator.declaration.accuracy.maximum_ulp) and bound:
            bound, error = _OF_PRODUCTS, ("", "", "")
        last = (str(measured.operations.get(name, "")) if number == 0 else "",) if data_type is DataType.FLOAT32 else ()
        named = ", ".join(filter(None, (linked(name) if number == 0 else "", attributes)))
        yield (named, bound, *error, *last)


def _beside() -> Iterator[tuple[str, ...]]:
    """A row for each operator of which others state an error."""
    for name, figures in sorted(FIGURES.items()):
        promise = promise_by_data_type(OPERATORS[name]).get(DataType.FLOAT32, "")
        bound = promise.removeprefix("correctly rounded, ").removeprefix("at most ")
        yield (name, bound, *(figures.get(source, "") for source in SOURCES))
