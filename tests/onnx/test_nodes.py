"""Nodes give what ONNX Runtime gives, or what ONNX's own evaluator does: ``nodes.json``, whose sections have rows.

A row has a promise (``why``), a node in ONNX's own notation, and what it is ``given``: normally distributed numbers of
a shape, ``"uint8 [2, 3]"`` for random ones of a type (``"int8 [2, 3] -5 9"``: from -5 up to 8), or the numbers
themselves behind their type (``{"int64": [1, 2]}``). ``each`` has values that take turns in the places of their names
behind ``$``; ``constants`` are those of what is given that are initializers.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models


@dataclasses.dataclass(frozen=True)
class Row:
    why: str  # what it shows
    node: str  # one or several, as text
    given: dict[str, Any]  # by names, what is said above of it
    constants: Sequence[str] = ()  # of these
    opset: int = 19
    tolerance: float = 1e-5  # the largest difference, relative to the largest result
    steps: float = 0  # how far integers may be apart
    share: float = 1.0  # how many of them
    evaluator: bool = False  # whether the reference is ONNX's
    propagate_nan: bool = False  # the option of that name

    def arrays(self) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
        return {name: _array(spec, seed) for seed, (name, spec) in enumerate(self.given.items())}


def _array(spec: Any, seed: int) -> np.ndarray[Any, np.dtype[Any]]:
    random = np.random.default_rng(seed)
    if isinstance(spec, list):
        return np.asarray(random.standard_normal(spec, np.float32))
    if isinstance(spec, dict):
        ((name, values),) = spec.items()
        return np.array(values, _dtype(name))
    name, _, rest = spec.partition(" ")
    shape, _, bounds = rest.partition("]")
    sizes, dtype = json.loads(f"{shape}]"), _dtype(name)
    if dtype.kind == "f":
        low, high = map(float, bounds.split()) if bounds else (0, 0)
        return np.asarray((random.uniform(low, high, sizes) if bounds else random.standard_normal(sizes)).astype(dtype))
    info: Any = ml_dtypes.iinfo(dtype) if dtype.kind == "V" else np.iinfo(dtype)  # type: ignore[no-untyped-call]
    low, high = map(int, bounds.split()) if bounds else (int(info.min), int(info.max) + 1)
    return np.asarray(random.integers(low, high, sizes).astype(dtype))


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def _params(rows: list[dict[str, Any]]) -> Iterator[Any]:
    for row in rows:
        each = row.pop("each", {})
        for values in itertools.product(*each.values()):
            text = json.dumps(row)
            for name, value in zip(each, values, strict=True):
                said = json.dumps(value)
                text = text.replace(f'"${name}"', said).replace(f"${name}", said[1:-1] if value == str(value) else said)
            yield pytest.param(Row(**json.loads(text)), id=" ".join([row["why"], *map(str, values)]))


ROWS = {
    section: list(_params(rows))
    for section, rows in json.loads(Path(__file__).with_name("nodes.json").read_text(encoding="utf-8")).items()
}


def _test_of(section: str) -> Callable[[dml.Device, Row], None]:
    """The test of a section's rows, a function of its own, as turns and costs are a function's (tests/effort.py)."""

    @pytest.mark.parametrize("row", ROWS[section])
    def test(device: dml.Device, row: Row) -> None:
        check(device, row)

    return test


globals().update({f"test_{section}_give_what_their_reference_gives": _test_of(section) for section in ROWS})


def check(device: dml.Device, row: Row) -> None:
    """Runs a row's node and holds each of its results against the reference's."""
    arrays, nodes = row.arrays(), models.parsed(row.node)
    known = {name: arrays[name] for name in row.constants}
    feed = {name: array for name, array in arrays.items() if name not in known}
    outputs = [name for name in nodes[-1].output if name]
    model = models.model(nodes, feed, outputs, known, opset=row.opset)
    options = ort.SessionOptions()
    options.propagate_nan = row.propagate_nan
    found = ort.InferenceSession(model, options, device=device, strict=True).run(None, feed)
    for name, a, b in zip(outputs, found, _expected(row, model, feed), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (row.node, name)
        if b.dtype.kind == "f":
            largest = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
            np.testing.assert_allclose(a, b, row.tolerance, row.tolerance * largest, err_msg=f"{row.node} {name}")
        else:
            apart = np.abs(a.astype(np.int64) - b.astype(np.int64)) if row.steps else (a != b).astype(int)
            assert apart.max(initial=0) <= row.steps and (apart != 0).mean() < row.share, (row.node, name)


def _expected(row: Row, model: onnx.ModelProto, feed: dict[str, Any]) -> list[Any]:
    reference = ReferenceEvaluator(model) if row.evaluator else models.onnx_runtime(model, is_optimized=False)
    return list(reference.run(None, feed))


def test_a_row_has_a_promise_of_its_own() -> None:
    names = [param.id for rows in ROWS.values() for param in rows]
    assert len(names) == len(set(names))
