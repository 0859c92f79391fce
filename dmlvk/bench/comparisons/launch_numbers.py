"""Kernels with dynamic sizes, which they read at each launch, beside the same ones with sizes compiled in."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np

import dmlvk as dml
from dmlvk.bench.own import OwnLibrary
from dmlvk.bench.report import named, write_measured
from dmlvk.bench.task import Array, Task
from dmlvk.bench.tasks import tasks
from dmlvk.cli.selection import chosen_device, device_option, json_option
from dmlvk.operators import OPERATORS
from dmlvk.runtime import launch_numbers

_FEWEST, _MOST, _SECONDS = 4, 25, 1.5


def _seconds(device: dml.Device, task: Task, inputs: dict[str, Array]) -> float:
    start = time.process_time()
    device.run(task.desc, inputs)
    return time.process_time() - start


def ratio(dynamic: dml.Device, compiled_in: dml.Device, task: Task) -> tuple[float, float]:
    """How fast a task is where kernels have dynamic sizes, by where it is compiled in; and its first run there."""
    inputs = task.inputs()
    first_run = _seconds(dynamic, task, inputs)
    _seconds(compiled_in, task, inputs)
    start = time.monotonic()
    taken: list[tuple[float, float]] = []
    while len(taken) < _FEWEST or (len(taken) < _MOST and time.monotonic() < start + _SECONDS):
        taken.append((_seconds(dynamic, task, inputs), _seconds(compiled_in, task, inputs)))
    first, second = np.percentile(np.array(taken), 25, axis=0)
    return float(second / first), first_run


def chosen(part: str, sizes: Sequence[float]) -> Iterator[Task]:
    """The tasks of each operator, the small ones first: later ones have other sizes than these."""
    for name in OPERATORS:
        if any(each in name for each in part.upper().split(",")):
            for size in sizes:
                try:
                    yield from tasks(name, dml.FLOAT32, int(size * 2**20))
                except dml.InvalidArgumentError as error:  # too small to be cut
                    print(f"{name} of {size} MiB: left out, {error}")


def _sizes(_: click.Context, __: click.Parameter, text: str) -> list[float]:
    try:
        return [float(size) for size in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of numbers") from None


@click.command()
@device_option
@click.option("-s", "--sizes", default="0.06,0.12,0.25,0.5", show_default=True, callback=_sizes, help="MiB.")
@click.option("-k", "--task", "part", default="", help="Only operators whose names contain one of these.")
@click.option("--every", is_flag=True, help="Tell every number, not only those that vary.")
@json_option
def command(device: str | None, sizes: list[float], part: str, every: bool, json_file: Path | None) -> None:
    """Time what it costs that kernels read dynamic sizes at each launch, and do not have them compiled in.

    The tasks of dmlvk bench in growing sizes, by two devices of a process in turn: one as users open it, one whose
    shaders have everything compiled in. Ratios are those of the processor's time of Device.run, the lower quartiles: 1
    where both are as fast, less where the first is slower; behind them the seconds of the first run, which compiles.
    For CPU devices; others always have all compiled in. With --every all numbers that a shader computes with are
    dynamic: what one boolean constant in its source, which chooses between compiled-in numbers and a buffer, would
    give.
    """
    if every:
        launch_numbers.MOST_TIMES = 0
    ratios: list[float] = []
    entries: list[dict[str, object]] = []
    with dml.Device(chosen_device(device)) as dynamic, dml.Device(chosen_device(device)) as compiled_in:
        compiled_in.engine._numbers = None  # as on GPUs
        for task in chosen(part, sizes):
            try:
                found, first_run = ratio(dynamic, compiled_in, task)
            except dml.InvalidArgumentError as error:  # its numbers are for buffers, where some tensors repeat elements
                print(f"{task.name}: left out, {error}")
                continue
            ratios.append(found)
            entries.append({"name": task.name, "ratio": found, "first_run": first_run})
            print(f"{task.name:<70}{found:6.2f}{first_run:8.3f} s", flush=True)
        if json_file is not None:
            write_measured(json_file, dynamic.info, [named(OwnLibrary(dynamic))], entries)
    if ratios:
        least, mean = min(ratios), statistics.geometric_mean(ratios)
        compiling = sum(float(str(entry["first_run"])) for entry in entries)
        print(f"{len(ratios)} tasks: the least {least:.2f}, the geometric mean {mean:.2f}, ", end="")
        print(f"{sum(r >= 0.95 for r in ratios)} of at least 0.95; first runs {compiling:.2f} s")
