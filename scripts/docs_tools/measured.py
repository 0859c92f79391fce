"""What ``docs/accuracy.md`` says that was measured: the page itself keeps it, and commands put new numbers there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.conformance.cases import value_cases
from dmlvk.conformance.exhaustive import exhaustive_runs
from scripts.docs_tools.markdown import rows_below

_ORIGIN = re.compile(r"^Measured on (.*) \((\S+)\)\nby `dmlvk conformance ", re.MULTILINE)
_LINKED = re.compile(r"\[(\w+)\]\([^)]*\)")

Error = tuple[str, str, str]
"""The largest error in ULP, the inputs that have it, and the share of results that are not the nearest, as text."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """The measured cells of the page."""

    devices: str  # where errors were measured
    date: str  # when, of the last run
    # by operator and data type, and by the attributes that a run had (``""``: none, or several)
    errors: Mapping[tuple[str, str], Mapping[str, Error]]
    operations: Mapping[str, int]  # of a FLOAT32 element, by operator
    float16: Mapping[str, str]  # inputs whose FLOAT16 result is not the nearest, by operator with attributes
    # how many results there were and how many were wrong, by operator (linked) and attributes
    exact: Mapping[tuple[str, str], tuple[str, str]]

    @classmethod
    def read(cls, page: str) -> Measured:
        """What a page says.

        Raises:
            ValueError: when a part is missing.
        """
        origin = _ORIGIN.search(page)
        if origin is None:
            raise ValueError("the page of errors must say where they were measured")
        errors: dict[tuple[str, str], dict[str, Error]] = {}
        operations: dict[str, int] = {}
        for data_type in ("FLOAT32", "FLOAT16"):
            name = ""
            for first, _, error, at, share, *others in rows_below(page, f"operator, {data_type}"):
                linked = _LINKED.match(first)
                name = linked[1] if linked else name
                if at:
                    attributes = _LINKED.sub("", first).removeprefix(", ")
                    errors.setdefault((name, data_type), {})[attributes] = error, at, share
                if others and others[-1]:
                    operations[name] = int(others[-1])
        rounded = rows_below(page, "operator", "promised")
        operations |= {row[0]: int(row[-1]) for row in rounded if row[-1]}
        float16 = {row[0]: row[1] for row in rows_below(page, "operator", "inputs")}
        rows = rows_below(page, "operator", "attributes")
        exact = {(name, attributes): (count, wrong) for name, attributes, count, wrong in rows}
        return cls(origin[1], origin[2], errors, operations, float16, exact)

    def with_run(self, document: Mapping[str, Any]) -> Measured:
        """The same with the errors of a run in the places of those of the same operators, data types and attributes.

        Args:
            document: what ``dmlvk conformance --json`` wrote. Of several devices one counts: all gave the same.

        Raises:
            ValueError: when a promise was broken in that run.
        """
        if not document["kept"]:
            raise ValueError("a promise was broken in that run")
        errors = {key: dict(of) for key, of in self.errors.items()}
        exact = dict(self.exact)
        tried_whole = {run.name.partition(" ")[0] for run in exhaustive_runs(value_cases())}
        for case in document["cases"]:
            (measured, *_) = case["measurements"]
            name, operator = case["name"].partition(" ")[0], case["operator"]
            data_type = name.partition("-")[2]
            if case["bound"] is None and case["exhaustive"]:
                exact[linked(operator, data_type), attributes_of(case)] = (
                    f"{measured['results']:,}",
                    f"{measured['broken']:,}",
                )
            elif case["bound"] is not None and (case["exhaustive"] or name not in tried_whole):
                found = errors.setdefault((operator, data_type.upper()), {})
                found[attributes_of(case)] = _error(measured, 4 if data_type == "float32" else 6)
        device = document["devices"][0]
        made = f"{device['name']} ({device['driver']} {device['driver_version']})"
        devices = made if self.devices.endswith(made) else f"{self.devices} and {made}"
        return dataclasses.replace(self, devices=devices, date=document["started"][:10], errors=errors, exact=exact)


def with_origin(page: str, measured: Measured) -> str:
    origin = f"Measured on {measured.devices} ({measured.date})\nby `dmlvk conformance "
    return _ORIGIN.sub(lambda _: origin, page)


def linked(operator: str, data_types: str = "float32") -> str:
    """An operator with a link to its section, and the type to which it goes: ``float32-int8`` names both."""
    _, _, other = data_types.partition("-")
    return f"[{operator}](operators.md#{operator.lower()})" + (f" to {other.upper()}" if other else "")


def attributes_of(case: Mapping[str, Any]) -> str:
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


def _error(measured: Mapping[str, Any], digits: int) -> Error:
    worst = measured["worst"]
    inputs: Sequence[Mapping[str, Any]] = [] if worst is None else worst["inputs"]
    error = "0" if worst is None else f"{float(worst['error']):.{digits}f}"
    where = ", ".join(f"`{element['bits']}`" for element in inputs) or "–"
    return error, where, f"{100 * measured['misrounded'] / measured['results']:.3g} %"
