"""Compares the runs of several machines, as ``dmlvk conformance --json`` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dmlvk.conformance.results import FORMAT
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.files import read_bytes

Document = dict[str, Any]


def load_report(path: Path) -> Document:
    """Reads a file.

    Raises:
        InvalidArgumentError: when it is no report, or one of another format.
    """
    try:
        document: Document = json.loads(read_bytes(path).decode("utf-8"))
        if document["format"] != FORMAT:
            raise InvalidArgumentError(f"{path}: has format {document['format']}; this version knows {FORMAT}")
        for case in document["cases"]:
            hashes = [measured["sha256"] for measured in case["measurements"]]
            _ = (
                case["name"],
                case["kept"],
                case["inputs_sha256"],
                hashes,
                document["devices"][len(hashes) - 1]["name"],
            )
        _ = document["plan"]
    except InvalidArgumentError:
        raise
    except OSError as error:
        raise InvalidArgumentError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise InvalidArgumentError(f"{path}: is no report of `dmlvk conformance --json` ({error!r})") from error
    return document


def disagreements(first: Document, second: Document) -> list[str]:
    """One line for everything in which two runs do not agree, or a promise is broken."""
    if first["plan"] != second["plan"]:
        return [f"the runs tried different inputs: {first['plan']} and {second['plan']}"]
    return list(_disagreements(first, second))


def _disagreements(first: Document, second: Document) -> Iterator[str]:
    runs = {"first": first, "second": second}
    for which, document in runs.items():
        for case in document["cases"]:
            if not case["kept"]:
                yield f"{case['name']}: a promise is broken in the {which} run"
    cases = {which: {case["name"]: case for case in document["cases"]} for which, document in runs.items()}
    for which, other in (("first", "second"), ("second", "first")):
        for name in cases[which]:
            if name not in cases[other]:
                yield f"{name}: only the {which} run has it"
    for name, case in cases["first"].items():
        other_case = cases["second"].get(name)
        if other_case is None:
            continue
        if case["inputs_sha256"] != other_case["inputs_sha256"]:
            yield f"{name}: the runs had different inputs; were they made by different versions?"
        elif "device" in (case.get("arithmetic"), other_case.get("arithmetic")):
            continue  # sums were rounded as the device likes: their bits mean nothing
        elif len(hashes := {**_hashes(first, case), **_hashes(second, other_case)}) > 1:
            yield f"{name}: the bits differ: " + ", ".join(f"{sha[:16]} on {where}" for sha, where in hashes.items())


def _hashes(document: Document, case: dict[str, Any]) -> dict[str, str]:
    """The hashes of a case, each with a device that gave it."""
    return {
        measured["sha256"] or "nothing": document["devices"][measured["device"]]["name"]
        for measured in case["measurements"]
    }
