"""The tables of ``docs/accuracy.md``: the promised and the measured error of every float operator."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dmlvk.conformance.promises import promise_by_data_type
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, OperatorDesc
from scripts.docs_tools.markdown import table, with_table
from scripts.docs_tools.measured import Measured, linked, with_origin

_OF_PRODUCTS = "[see below](#sums-of-products)"


def accuracy_page(page: str, measured: Measured) -> str:
    """The page with what the declarations promise and what was measured in its tables.

    Raises:
        ValueError: when it has one of them not at all.
    """
    page = with_origin(page, measured)
    operators = [o for _, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "accurate"]
    for data_type in (DataType.FLOAT32, DataType.FLOAT16):
        head = [f"operator, {data_type.name}", "promised", "measured", "at", "not nearest"]
        rows = [row for operator in operators for row in _rows(operator, data_type, measured)]
        if data_type is DataType.FLOAT32:
            head.append("operations")
        page = with_table(page, table(head, rows, right=(1, 2, 4, len(head) - 1)))
    page = with_table(page, table(("operator", "inputs"), sorted(measured.float16.items())))
    names = [name for name, o in sorted(OPERATORS.items()) if o.declaration.accuracy.promise == "correctly rounded"]
    rounded = (
        (name, "0.5", OPERATORS[name].declaration.accuracy.remark, str(measured.operations.get(name, "")))
        for name in names
    )
    page = with_table(page, table(("operator", "promised", "remark", "operations"), rounded, right=(1, 3)))
    exact = [(*key, *counts) for key, counts in sorted(measured.exact.items())]
    return with_table(page, table(("operator", "attributes", "results", "wrong"), exact, right=(2, 3)))


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
