"""Sums and maxima, beside NumPy's."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

import dmlvk as dml
from dmlvk.bench.report import write_measured
from dmlvk.cli.selection import chosen_device, device_option, json_option

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


def in_turn(own: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The least that each takes, in turns behind one that does not count."""
    took = [(milliseconds(own), milliseconds(other)) for _ in range(rounds + 1)][1:]
    return min(each[0] for each in took), min(each[1] for each in took)


@click.command()
@device_option
@click.option("--turns", type=click.IntRange(1), default=15, show_default=True, help="Of each, one behind the other.")
@json_option
def command(device: str | None, turns: int, json_file: Path | None) -> None:
    """Time sums and maxima of 16 Mi FLOAT32 elements, along rows, along columns and of all, beside NumPy's."""
    opened = dml.Device(chosen_device(device))
    print(f"{opened.info.name}: {_SIZES[0]} x {_SIZES[1]} FLOAT32, ms")
    values = np.random.default_rng(22).standard_normal(_SIZES, dtype=np.float32)
    there = opened.array(values)
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
        model = opened.compile_operator(opened.create_operator(desc))
        took, numpy_took = in_turn(
            functools.partial(result_of, opened, model, there),
            functools.partial(function, values, axis=tuple(axes)),
            turns,
        )
        print(f"{name} of {along}: {took:.2f}, NumPy {numpy_took:.2f}, ratio {took / numpy_took:.2f}")
        measured.append({"task": f"{name} of {along}", "dmlvk": took, "NumPy": numpy_took, "ratio": took / numpy_took})
    if json_file is not None:
        write_measured(json_file, opened.info, [], measured)
