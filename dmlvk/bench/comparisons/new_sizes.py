#!/usr/bin/env python3
"""Measures what a size or an attribute's value costs that a process has not seen before.

    scripts/measure_new_sizes.py [-d DEVICE] [-n NUMBER] [-k NAME] [--json FILE]

Each task is run once, so that its shaders are read and whatever is made once has been made; then with ever new sizes or
values. Times are those of ``Device.run`` from NumPy to NumPy, which checks, compiles and runs the description: medians,
by the wall and of all of the process's threads together (llvmpipe compiles in threads of its own, and a busy machine
changes this least), beside the same descriptions a second time. Mesa keeps on disk what it has compiled: with
``MESA_SHADER_CACHE_DISABLE=true`` it compiles.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmlvk as dml  # of this checkout
from dmlvk.bench.own import OwnLibrary
from dmlvk.bench.report import named, write_measured
from scripts.measuring import argument_parser
from scripts.new_sizes import TASKS, Made


def timed(device: dml.Device, made: Made) -> tuple[float, float]:
    """Seconds of one call, by the wall and of all the process's threads."""
    wall, own = time.perf_counter(), time.process_time()
    device.run(*made)
    return time.perf_counter() - wall, time.process_time() - own


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures every task."""
    parser = argument_parser(__doc__)
    parser.add_argument("-n", "--number", type=int, default=12, help="new sizes or values of each task (default: 12)")
    parser.add_argument("-k", "--task", default="", help="only tasks whose names contain this")
    options = parser.parse_args(arguments)
    entries = []
    with dml.Device(options.device) as device:
        print(f"{device.info.name}; milliseconds, by the wall, and of the process")
        print(f"  {'':<44}{'new':>9}{'process':>9}{'slowest':>9}{'known':>9}")
        for name, task in TASKS.items():
            if options.task.lower() not in name.lower():
                continue
            made = [task(number) for number in range(options.number + 2)]
            for warm in made[:2]:
                timed(device, warm)
            new = [timed(device, one) for one in made[2:]]
            known = [timed(device, one)[0] for one in made[2:]]
            wall, own = (statistics.median(column) for column in zip(*new, strict=True))
            slowest = max(pair[1] for pair in new)
            again = statistics.median(known)
            entries.append({"name": name, "seconds": wall, "seconds_of_process": own, "seconds_known": again})
            print(f"  {name:<44}{wall * 1e3:9.2f}{own * 1e3:9.2f}{slowest * 1e3:9.2f}{again * 1e3:9.2f}")
        libraries = [named(OwnLibrary(device))]
    if options.json is not None:
        write_measured(options.json, device.info, libraries, entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
