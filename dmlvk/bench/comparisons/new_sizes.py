"""Sizes and attributes that a process has not seen before, beside the same ones again."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import click

import dmlvk as dml
from dmlvk.bench.new_size_tasks import TASKS, Made, made
from dmlvk.bench.own import OwnLibrary
from dmlvk.bench.report import named, write_measured
from dmlvk.cli.selection import chosen_device, device_option, json_option


def timed(device: dml.Device, operator: Made) -> tuple[float, float]:
    """Seconds of one call, by the wall and of all the process's threads."""
    wall, own = time.perf_counter(), time.process_time()
    device.run(*operator)
    return time.perf_counter() - wall, time.process_time() - own


@click.command()
@device_option
@click.option("-n", "--number", type=click.IntRange(1), default=12, show_default=True, help="Of new sizes or values.")
@click.option("-k", "--task", "part", default="", help="Only tasks whose names contain this.")
@json_option
def command(device: str | None, number: int, part: str, json_file: Path | None) -> None:
    """Time what a size or an attribute's value costs that a process has not seen before.

    Each task is run once, so that its shaders are read and whatever is made once has been made; then with ever new
    sizes or values. Times are those of Device.run from NumPy to NumPy, which checks, compiles and runs the description:
    medians, by the wall and of all of the process's threads together (llvmpipe compiles in threads of its own), beside
    the same descriptions a second time. Mesa keeps on disk what it has compiled; with MESA_SHADER_CACHE_DISABLE=true it
    compiles.
    """
    entries = []
    with dml.Device(chosen_device(device)) as opened:
        print(f"{opened.info.name}; milliseconds, by the wall, and of the process")
        print(f"  {'':<44}{'new':>9}{'process':>9}{'slowest':>9}{'known':>9}")
        for name, task in TASKS.items():
            if part.lower() not in name.lower():
                continue
            operators = [made(opened, task, count) for count in range(number + 2)]
            for warm in operators[:2]:
                timed(opened, warm)
            new = [timed(opened, one) for one in operators[2:]]
            known = [timed(opened, one)[0] for one in operators[2:]]
            wall, own = (statistics.median(column) for column in zip(*new, strict=True))
            slowest = max(pair[1] for pair in new)
            again = statistics.median(known)
            entries.append({"name": name, "seconds": wall, "seconds_of_process": own, "seconds_known": again})
            print(f"  {name:<44}{wall * 1e3:9.2f}{own * 1e3:9.2f}{slowest * 1e3:9.2f}{again * 1e3:9.2f}")
    if json_file is not None:
        write_measured(json_file, opened.info, [named(OwnLibrary(opened))], entries)
