#!/usr/bin/env python3
"""Measures sums and maxima of 16 Mi FLOAT32 elements, along rows, along columns and of all, beside NumPy's.

    scripts/measure_reductions.py [-d DEVICE] [--turns 15] [--json FILE]

For CPU devices: the array lies in the device's memory already, and both take turns, so that whatever else the machine
does meets both. Times are the least of all turns; a ratio is dmlvk's time as a multiple of NumPy's.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmlvk as dml  # of this checkout
from scripts.measuring import argument_parser, write_measured

_SIZES = (2048, 8192)
_AXES = {"rows": [1], "columns": [0], "all": [0, 1]}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"SUM": np.sum, "MAX": np.max}


def milliseconds(work: Callable[[], object]) -> float:
    """What a call takes."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def result_of(device: dml.Device, model: dml.CompiledOperator, there: dml.Array) -> None:
    """Runs a reduction, and waits until its result is there."""
    device.run(model, {"InputTensor": there}, keep=True)["OutputTensor"].wait()


def in_turn(own: Callable[[], object], other: Callable[[], object], turns: int) -> tuple[float, float]:
    """The least that each takes, in turns behind one that does not count."""
    took = [(milliseconds(own), milliseconds(other)) for _ in range(turns + 1)][1:]
    return min(each[0] for each in took), min(each[1] for each in took)


def main() -> None:
    """Measures, and prints a line for each reduction."""
    parser = argument_parser(__doc__)
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    device = dml.Device(options.device)
    print(f"{device.info.name}: {_SIZES[0]} x {_SIZES[1]} FLOAT32, ms")
    values = np.random.default_rng(22).standard_normal(_SIZES, dtype=np.float32)
    there = device.array(values)
    measured: list[dict[str, Any]] = []
    for (name, function), (along, axes) in ((f, a) for f in _FUNCTIONS.items() for a in _AXES.items()):
        sizes = [1 if axis in axes else size for axis, size in enumerate(_SIZES)]
        desc = dml.Reduce(
            function=dml.ReduceFunction[name],
            input_tensor=dml.TensorDesc(dml.FLOAT32, _SIZES),
            output_tensor=dml.TensorDesc(dml.FLOAT32, sizes),
            axis_count=len(axes),
            axes=axes,
        )
        model = device.compile_operator(device.create_operator(desc))
        took, numpy_took = in_turn(
            functools.partial(result_of, device, model, there),
            functools.partial(function, values, axis=tuple(axes)),
            options.turns,
        )
        print(f"{name} of {along}: {took:.2f}, NumPy {numpy_took:.2f}, ratio {took / numpy_took:.2f}")
        measured.append({"task": f"{name} of {along}", "dmlvk": took, "NumPy": numpy_took, "ratio": took / numpy_took})
    if options.json:
        write_measured(options.json, device.info, [], measured)


if __name__ == "__main__":
    main()
