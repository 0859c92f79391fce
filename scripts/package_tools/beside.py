"""Runs a program with dmlvk in the place of ``onnxruntime``, and every call of its sessions by ONNX Runtime, too.

    python beside.py REPORT PROGRAM

The program gets dmlvk's results. The report, JSON, has for each model the calls, the largest difference of a float
output as a part of its largest element, that of ONNX Runtime's own (without its changes of the model, or from inputs
whose last bit is another one: what a model makes of rounding), whether it rounds numbers to integers by what they are
(DynamicQuantizeLinear and the like), and whether all else was the same.
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
import onnxruntime

import dmlvk.onnx

Array = npt.NDArray[Any]

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
        plain = onnxruntime.SessionOptions()
        plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        sessions[id(self)] = (
            name,
            onnxruntime.InferenceSession(path_or_bytes, providers=["CPUExecutionProvider"]),
            onnxruntime.InferenceSession(path_or_bytes, plain, providers=["CPUExecutionProvider"]),
        )

    def run_both(self: Any, names: Sequence[str] | None, feed: Mapping[str, Any], options: Any = None) -> list[Any]:
        results = run(self, names, feed, options)
        name, theirs, unchanged = sessions[id(self)]
        entry = found.setdefault(name, {"calls": 0, "largest": 0.0, "own": 0.0, "same": True, "hosted": []})
        entry["rounds"] = any(item.op_type.startswith("DynamicQuantize") for item in self.partition)
        entry["calls"] += 1
        entry["hosted"] = sorted({item.op_type for item in self.partition if item.place == "host"})
        expected = [np.asarray(array) for array in theirs.run(names, dict(feed))]
        for a, b in zip(results, expected, strict=True):
            _compare(entry, np.asarray(a), b)
        for other in (unchanged.run(names, dict(feed)), theirs.run(names, _nudged(feed))):
            for a, b in zip(other, expected, strict=True):
                entry["own"] = max(entry["own"], _difference(np.asarray(a), b) or 0.0)
        return results

    vars_of: Any = ours  # for this process only
    vars_of.__init__, vars_of.run = begin_both, run_both


def _nudged(feed: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with every second number one place larger, and the others one smaller."""
    made = {}
    for name, value in feed.items():
        array = np.asarray(value)
        if array.dtype.kind == "f":
            ends = np.where(np.arange(array.size).reshape(array.shape) % 2, np.inf, -np.inf).astype(array.dtype)
            array = np.asarray(np.nextafter(array, ends))
        made[name] = array if array.dtype.kind == "f" else value
    return made


def _compare(entry: dict[str, Any], a: Array, b: Array) -> None:
    difference = _difference(a, b)
    if difference is None:
        entry["same"] = False
    else:
        entry["largest"] = max(entry["largest"], difference)


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
