"""``docs/operators.md``: a section for each operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dmlvk.conformance.promises import promise_text, rule_text, support_rows
from dmlvk.operators import OPERATORS, Declaration, Field, OperatorDesc
from scripts.docs_tools.markdown import anchor, page, table

_TITLES: Mapping[str, Callable[[type[OperatorDesc]], bool]] = {
    "Element-wise operators": lambda operator: operator.operator_name.startswith("ELEMENT_WISE_"),
    "Activations": lambda operator: operator.operator_name.startswith("ACTIVATION_"),
    "Matrix products and convolutions": lambda operator: operator.declaration.pattern in ("matrix", "convolution"),
    "Windows and resampling": lambda operator: operator.declaration.pattern in ("window", "resample", "regions"),
    "Reductions and scans": lambda operator: operator.declaration.pattern in ("reduction", "scan"),
    "Moving, selecting and filling": lambda operator: (
        operator.declaration.pattern in ("copies", "fill", "indexed", "sort") and not _is_named_by_family(operator)
    ),
}
"""The parts of the page: what each operator of a part has in common. What is in none of them comes last."""


def _is_named_by_family(operator: type[OperatorDesc]) -> bool:
    return operator.operator_name.startswith(("ELEMENT_WISE_", "ACTIVATION_"))


_INTRODUCTION = """# Operators

Every operator that dmlvk has, as its declaration states it: formula, members, data types and dimensions by DirectML's
feature level, the promise, and what was decided where DirectML's page is silent. `dmlvk operators NAME` shows the same
in a terminal. What the promises mean: [accuracy.md](accuracy.md). The decisions in one place:
[decisions.md](decisions.md)."""


def operators_page() -> str:
    lines = [*_INTRODUCTION.splitlines(), ""]
    parts: dict[str, list[type[OperatorDesc]]] = {title: [] for title in (*_TITLES, "Others")}
    for _, operator in sorted(OPERATORS.items()):
        parts[next((title for title, holds in _TITLES.items() if holds(operator)), "Others")].append(operator)
    for title, members in parts.items():
        if not members:
            continue
        lines += [f"## {title}", ""]
        lines += [*table(["operator", "result", "promise"], map(_summary, members)), ""]
    for _, operator in sorted(OPERATORS.items()):
        lines += [*_section(operator), ""]
    return page(lines)


def _summary(operator: type[OperatorDesc]) -> tuple[str, str, str]:
    declaration = operator.declaration
    link = f"[{operator.operator_name}](#{anchor(operator.operator_name)})"
    return link, f"`{declaration.formula}`", declaration.accuracy.promise


def _section(operator: type[OperatorDesc]) -> Iterator[str]:
    declaration = operator.declaration
    names = {field.attribute: field.name for field in operator.fields}
    summary = (operator.__doc__ or "").strip().splitlines()[0]
    yield f"### {operator.operator_name}"
    yield ""
    yield f"`dml.{operator.__name__}`: {summary}"
    yield ""
    yield f"- Result: `{declaration.formula}`"
    yield f"- Promise: {promise_text(operator)}"
    yield f"- In place: {', '.join(names[member] for member in declaration.in_place_inputs) or 'no'}"
    yield f"- From feature level {declaration.support[0].level.label} on"
    yield ""
    yield from table(["member", "kind", "type", "meaning"], ([*_member(field)] for field in operator.fields))
    yield ""
    yield from table(["from level", "dimensions", "tensors", "data types"], _support(declaration, names))
    for rule in declaration.data_type_rules:
        yield ""
        yield rule_text(rule, names)
    if declaration.decisions:
        yield ""
        yield "Decided where the page is silent:"
        yield ""
        yield from (f"- {decision}" for decision in declaration.decisions)


def _member(field: Field) -> Iterator[str]:
    yield field.name
    yield field.kind
    enumeration = "" if field.enumeration is None else f" {', '.join(field.enumeration.__members__)}"
    yield f"{field.type}{enumeration}{', optional' if field.optional else ''}"
    limit = "" if field.minimum is None else f"; at least {field.minimum.value:g} below {field.minimum.lifted_at.label}"
    yield field.meaning + limit


def _support(declaration: Declaration, names: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    for support in declaration.support:
        for number, (dimensions, members, types) in enumerate(support_rows(support, names)):
            label = support.level.label if number == 0 else ""
            yield label, dimensions, members, " ".join(data_type.name for data_type in types)
