"""Runs a program with dmlvk in the place of ``onnxruntime``, and every call of its sessions by ONNX Runtime, too.

    python beside.py REPORT PROGRAM

The program gets dmlvk's results. The report, JSON, has for each model the calls, the largest difference of a float
output as a part of its largest element, and whether all else was the same. Where that difference is more than is
allowed, the model is evaluated in FLOAT64, too: the report has the largest distances from it of dmlvk's outputs, of
ONNX Runtime's, and of ONNX Runtime's without its changes of the model (that computes node by node in FLOAT32, as
dmlvk does); or why there are none.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

import dmlvk.onnx
from scripts.package_tools.double_precision import Doubled

Array = npt.NDArray[Any]

LARGEST_DIFFERENCE = 1e-4
"""Of a float output, as a part of its largest element."""

_SMALLEST = 1e-3
"""An output without any larger element is compared with this: a detector's that sees nothing has only noise."""


def main() -> None:
    """Runs the program, and writes the report even where it fails."""
    report, program = sys.argv[1:3]
    found: dict[str, dict[str, Any]] = {}
    _compare_calls(found)
    dmlvk.onnx.install()
    sys.argv = [program]
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        Path(report).write_text(json.dumps(found), encoding="utf-8")


def _compare_calls(found: dict[str, dict[str, Any]]) -> None:
    ours = dmlvk.onnx.InferenceSession
    begin, run = ours.__init__, ours.run
    sessions: dict[int, tuple[str, Any, Any]] = {}

    def begin_both(self: Any, path_or_bytes: Any, *arguments: Any, **named: Any) -> None:
        begin(self, path_or_bytes, *arguments, **named)
        name = "bytes" if isinstance(path_or_bytes, bytes) else os.path.basename(os.fspath(path_or_bytes))
        theirs = onnxruntime.InferenceSession(path_or_bytes, providers=["CPUExecutionProvider"])
        sessions[id(self)] = name, theirs, path_or_bytes

    def run_both(self: Any, names: Sequence[str] | None, feed: Mapping[str, Any], options: Any = None) -> list[Any]:
        results = run(self, names, feed, options)
        name, theirs, source = sessions[id(self)]
        entry = found.setdefault(name, {"calls": 0, "largest": 0.0, "same": True, "hosted": [], "double": None})
        entry["calls"] += 1
        entry["hosted"] = sorted({item.op_type for item in self.partition if item.place == "host"})
        arrays = [np.asarray(array) for array in results]
        expected = [np.asarray(array) for array in theirs.run(names, dict(feed))]
        differences = [_difference(a, b) for a, b in zip(arrays, expected, strict=True)]
        entry["same"] &= None not in differences
        largest = max((difference or 0.0 for difference in differences), default=0.0)
        entry["largest"] = max(entry["largest"], largest)
        if largest > LARGEST_DIFFERENCE:
            plain = onnxruntime.SessionOptions()
            plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            unchanged = onnxruntime.InferenceSession(source, plain, providers=["CPUExecutionProvider"])
            others = [np.asarray(array) for array in unchanged.run(names, dict(feed))]
            _compare_with_double(entry, source, names, feed, (arrays, expected, others))
        return results

    vars_of: Any = ours  # for this process only
    vars_of.__init__, vars_of.run = begin_both, run_both


def _compare_with_double(
    entry: dict[str, Any],
    source: Any,
    names: Sequence[str] | None,
    feed: Mapping[str, Any],
    found: tuple[list[Array], ...],
) -> None:
    """Notes the distances of all from the model in FLOAT64."""
    model = onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(source)
    try:
        exact = Doubled(model).run(names, feed)
    except Exception as error:  # noqa: BLE001 - whatever the evaluator lacks
        entry["double"] = f"{type(error).__name__}: {error}"[:300]
        return
    if isinstance(entry["double"], str):
        return
    entry["double"] = entry["double"] or [0.0] * len(found)
    for index, arrays in enumerate(found):
        for array, other in zip(arrays, exact, strict=True):
            distance = _difference(array, np.asarray(other).astype(array.dtype)) if array.dtype.kind == "f" else 0.0
            entry["double"][index] = max(entry["double"][index], np.inf if distance is None else distance)


def _difference(a: Array, b: Array) -> float | None:
    """The largest one, as a part of the largest element; ``None``: they are of different kinds."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return None
    if b.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else None
    wide, other = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(wide[~finite], other[~finite], equal_nan=True) or not np.isfinite(wide[finite]).all():
        return None
    scale = max(float(np.abs(other[finite]).max(initial=0.0)), _SMALLEST)
    return float(np.abs(wide[finite] - other[finite]).max(initial=0.0)) / scale


if __name__ == "__main__":
    main()
