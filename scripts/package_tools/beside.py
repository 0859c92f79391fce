"""Runs a program with dmlvk in the place of ``onnxruntime``, and every call of its sessions by ONNX Runtime, too.

    python beside.py REPORT PROGRAM

The program gets dmlvk's results. The report, JSON, has for each model the calls, the largest difference of a float
output as a part of its largest element, and whether all else was the same.
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
    sessions: dict[int, tuple[str, Any]] = {}

    def begin_both(self: Any, path_or_bytes: Any, *arguments: Any, **named: Any) -> None:
        begin(self, path_or_bytes, *arguments, **named)
        name = "bytes" if isinstance(path_or_bytes, bytes) else os.path.basename(os.fspath(path_or_bytes))
        theirs = onnxruntime.InferenceSession(path_or_bytes, providers=["CPUExecutionProvider"])
        sessions[id(self)] = name, theirs

    def run_both(self: Any, names: Sequence[str] | None, feed: Mapping[str, Any], options: Any = None) -> list[Any]:
        results = run(self, names, feed, options)
        name, theirs = sessions[id(self)]
        entry = found.setdefault(name, {"calls": 0, "largest": 0.0, "same": True, "hosted": []})
        entry["calls"] += 1
        entry["hosted"] = sorted({item.op_type for item in self.partition if item.place == "host"})
        arrays = [np.asarray(array) for array in results]
        expected = [np.asarray(array) for array in theirs.run(names, dict(feed))]
        differences = [_difference(a, b) for a, b in zip(arrays, expected, strict=True)]
        entry["same"] &= None not in differences
        largest = max((difference or 0.0 for difference in differences), default=0.0)
        entry["largest"] = max(entry["largest"], largest)
        return results

    vars_of: Any = ours  # for this process only
    vars_of.__init__, vars_of.run = begin_both, run_both


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
