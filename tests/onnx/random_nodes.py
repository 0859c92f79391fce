"""Random nodes by dmlvk beside ONNX Runtime: ``python -m tests.onnx.random_nodes --nodes 20000 --seed 1``.

Operators, versions, attributes, types, and which inputs are constants are drawn; a number tells a node among those of
a seed. What ONNX Runtime computes must come out alike, with its shape and type; what it refuses may be refused.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import re
import sys
from collections.abc import Iterator

import click
import numpy as np
import onnx
import onnxruntime
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
import tests.onnx.more_node_recipes  # noqa: F401  # registers recipes
from dmlvk.support import faults
from tests.onnx import models
from tests.onnx.node_recipes import RECIPES, Array, Draw, Drawn

NEWEST = 24  # The newest version of the operators that is drawn

_TOLERANCES = {np.dtype(np.float32): 1e-5, np.dtype(np.float16): 4e-3, np.dtype(np.float64): 1e-7}
"""Of results in relation to the largest one; what ONNX Runtime and dmlvk promise lies well below."""


@dataclasses.dataclass(frozen=True)
class Case:
    label: str  # what it is
    model: bytes  # its file's bytes
    feed: dict[str, Array]  # what it is run with
    tolerance: float  # a factor of what results may differ by


def versions_of(drawn_name: str) -> list[int]:
    """The versions of the operator sets from 7 on in which an operator is new, and the newest."""
    op_type = drawn_name.removeprefix("ms.")
    if op_type != drawn_name:
        return [17]
    schemas = onnx.defs.get_all_schemas_with_history()
    since = sorted(schema.since_version for schema in schemas if schema.name == op_type and schema.domain == "")
    ends = [*(version - 1 for version in since[1:]), NEWEST]
    spans = [(max(first, 7), min(last, NEWEST)) for first, last in zip(since, ends, strict=True)]
    found = {bound for first, last in spans if first <= last for bound in (first, last)}
    gone = {schema.since_version for schema in schemas if schema.name == op_type and schema.deprecated}
    return sorted(
        version for version in found if max((first for first in since if first <= version), default=0) not in gone
    )


def case_of(seed: int, number: int, pattern: str = "") -> Case:
    rng = np.random.default_rng([seed, number])
    names = [name for name in sorted(RECIPES) if re.search(pattern, name)]
    name = names[int(rng.integers(len(names)))]
    versions = versions_of(name)
    opset = versions[int(rng.integers(len(versions)))]
    drawn = RECIPES[name](Draw(rng, opset))
    share = float(rng.choice([0.0, 0.0, 1.0, 0.5]))
    return _case(drawn, opset, f"{number} {name} {opset}", rng, share)


def _case(drawn: Drawn, opset: int, label: str, rng: np.random.Generator, share: float) -> Case:
    inputs = list(drawn.inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    names = ["" if array is None else f"i{index}" for index, array in enumerate(inputs)]
    there = {name: np.asarray(array) for name, array in zip(names, inputs, strict=True) if array is not None}
    steady = {f"i{index}" for index in drawn.steady}
    constants = {name for name in there if rng.random() < share or (name in steady and rng.random() < 0.9)}
    outputs = [f"o{index}" for index in range(drawn.outputs)]
    nodes = [helper.make_node(drawn.op_type, names, outputs, domain=drawn.domain, **drawn.attributes)]
    feed = {name: array for name, array in there.items() if name not in constants}
    if not feed:
        feed["other"] = np.ones(1, np.float32)
        nodes.append(helper.make_node("Identity", ["other"], ["same"]))
    shown = [name for node in nodes for name in node.output]
    model = models.model(nodes, feed, shown, {name: there[name] for name in sorted(constants)}, opset=opset)
    types = ", ".join(
        "-" if a is None else f"{a.dtype}{list(a.shape)}{'=' if n in constants else ''}"
        for n, a in zip(names, inputs, strict=True)
    )
    return Case(f"{label} ({types}) {drawn.attributes}", model.SerializeToString(), feed, drawn.tolerance)


def compared(case: Case, device: dml.Device) -> tuple[str, str]:
    """``"same"``, ``"skipped"`` (ONNX Runtime refuses it), ``"wrong"`` or ``"refused"``; and why."""
    try:
        expected = models.by_onnx_runtime(case.model, case.feed)
    except Exception as error:  # noqa: BLE001 - its exceptions have no base of their own
        expected, why = None, str(error)
    try:
        with ort.InferenceSession(case.model, device=device) as tried:
            found = tried.run(None, case.feed)
            computed_by = [f"{item.place} {item.program}".strip() for item in tried.partition]
    except dml.DmlError as error:
        return ("skipped", why) if expected is None else ("refused", str(error))
    if expected is None:
        return "skipped", why
    for a, b in zip(found, expected, strict=True):
        expected_one = np.asarray(b)
        tolerance = _TOLERANCES.get(expected_one.dtype, 0.0) * case.tolerance
        difference = models.difference(np.asarray(a), expected_one, tolerance)
        if difference:
            return "wrong", f"by the {computed_by[0] if computed_by else 'device'}: {difference}"
    return "same", computed_by[0] if computed_by else ""


def results(device: dml.Device, seed: int, numbers: range, pattern: str = "") -> Iterator[tuple[Case, str, str]]:
    for number in numbers:
        case = case_of(seed, number, pattern)
        yield case, *compared(case, device)


@click.command()
@click.option("--nodes", default=1000, show_default=True, help="How many.")
@click.option("--seed", default=1, show_default=True)
@click.option("--first", default=0, show_default=True, help="The number of the first one.")
@click.option("--pattern", "-k", default="", help="Only operators whose names match this regular expression.")
@click.option("--skipped", is_flag=True, help="Lists what ONNX Runtime refuses, too.")
def main(nodes: int, seed: int, first: int, pattern: str, skipped: bool) -> None:
    """Compare random nodes with ONNX Runtime. Exit status 1: one is wrong or refused."""
    logging.getLogger("dmlvk").setLevel(logging.ERROR)
    onnxruntime.set_default_logger_severity(4)
    faults.raise_all()
    counts: collections.Counter[str] = collections.Counter()
    with dml.Device() as device:
        for case, outcome, why in results(device, seed, range(first, first + nodes), pattern):
            counts[outcome] += 1
            if outcome in ("wrong", "refused") or (skipped and outcome == "skipped"):
                click.echo(f"{outcome}: {case.label}: {' '.join(why.split())[:300]}")
    click.echo(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    sys.exit(1 if counts["wrong"] or counts["refused"] else 0)


if __name__ == "__main__":
    main()
