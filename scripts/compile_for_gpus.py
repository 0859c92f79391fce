#!/usr/bin/env python3
"""Have the drivers for GPUs that are not here compile what operators launch there; refuse the bad.

    scripts/compile_for_gpus.py                        all launches, as an RX 7900 (GFX1100) compiles them
    scripts/compile_for_gpus.py --family POLARIS10     and others: VEGA10, NAVI10, NAVI21, ...
    scripts/compile_for_gpus.py --family dg2           as Intel's Arc; and skl, icl, tgl, adl, mtl
    scripts/compile_for_gpus.py --family navi31        as an RX 7900 with Debian 13's Mesa; with device arithmetic
    scripts/compile_for_gpus.py --modules '*.of64*'    only of modules with such names
    scripts/compile_for_gpus.py --operators GEMM       those of some operators
    scripts/compile_for_gpus.py --every 20             every twentieth
    scripts/compile_for_gpus.py --changed-since main   those that a change touches; with --every 80, of the others some
    scripts/compile_for_gpus.py --seconds 60           as many as can be compiled in that time: what is left is said
    scripts/compile_for_gpus.py --jobs 16              by so many processes side by side
    scripts/compile_for_gpus.py --json all.json        everything that the driver tells

Launches are those that operators make for tensors of many kinds and sizes, and networks and decoders besides, drawn
without a device (``--operators NETWORKS``: these only), with the constants that they give to each
pipeline. Drivers compile by a program of C (``scripts/cross/gpu_drivers.py``; it needs gcc). Mesa's RADV with
RADV_FORCE_FAMILY needs no card: it compiles by ACO, and tells registers, spills and memory. Intel's driver anv takes a
library for the kernel, built from Mesa's source once (``scripts/cross/drm_shim.py``; it needs libdrm-dev). RADV with
cooperative matrices is Debian 13's. They execute nothing. A launch is bad that does not compile, spills
vector registers or needs scratch memory, or takes more than two seconds of a processor to compile
(``--most-seconds``; beside other programs it may take twice as long: what has taken too long beside other processes
of ``--jobs`` is compiled again at the end, alone).

Exit status: 0 no launch is bad, 1 some are, 2 wrong usage, 3 there is no such driver here.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import queue
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.errors import DmlError
from dmlvk.spirv.modules import binding_count
from scripts.cross.gpu_drivers import Compiled, Family, PipelineCompiler
from scripts.cross.targets import CrossBuildError
from scripts.shader_tools.changes import UnknownCommitError, changes_since
from scripts.shader_tools.launches import TARGETS, RealLaunch, real_launches

MOST_SECONDS = 2.0

KNOWN: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "anv": (
        ("register_rows", "takes", "the slow path stands in it twice, behind either sum: 1.4 to 2.3 s"),
        ("reduction.sum.states.ahead", "spills", "16 to 20 registers, once for all that a work group goes through"),
    )
}
"""Modules by pattern, how what is bad about them begins, and why nothing is done about it: shown, but not counted. By
the driver, or the family."""

_SPILLS = ("Spilled VGPRs", "Spill Count", "TMU Spills", "STP Count")
_SCRATCH = ("Scratch size", "Scratch Memory Size", "Spill Size")  # By the drivers' names

Rows = list[dict[str, Any]]  # What is told of a launch, in each of its module's forms


class DriverCompiler(Protocol):
    def compile(self, spirv: bytes, constants: Sequence[int], bindings: int, push_words: int) -> Compiled:
        """As ``PipelineCompiler.compile``."""


Opening = Callable[[], contextlib.AbstractContextManager[DriverCompiler]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", default="GFX1100", help="of GPUs, by the driver's name (%(default)s)")
    parser.add_argument("--operators", metavar="GLOB", default="*", help="only of such operators")
    parser.add_argument("--modules", metavar="GLOB", default="*", help="only modules with such names")
    parser.add_argument("--every", metavar="N", type=int, help="each Nth launch only; of those that have not changed")
    parser.add_argument("--changed-since", metavar="COMMIT", help="only those that have changed since")
    parser.add_argument(
        "--seconds", metavar="N", type=float, default=math.inf, help="what is not compiled by then is left"
    )
    parser.add_argument(
        "--most-seconds", metavar="N", type=float, default=MOST_SECONDS, help="that one may take (%(default)s)"
    )
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="processes at a time (%(default)s)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write what the driver tells of each")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: at least one process is needed")
    try:
        return _by_driver(options)
    except UnknownCommitError as error:
        parser.error(f"--changed-since {error}")


def _by_driver(options: argparse.Namespace) -> int:
    family = Family(options.family)
    try:
        opening = functools.partial(PipelineCompiler, family.command())
        with opening() as compiler:
            name = compiler.device
        return _compiled(opening, name, family.target, options)
    except (CrossBuildError, DmlError) as error:
        print(f"compile_for_gpus.py: {options.family} cannot be compiled for: {error}", file=sys.stderr)
        return 3


def chosen_launches(options: argparse.Namespace, target: str) -> list[RealLaunch]:
    """The launches that the command line asks for.

    First those that have changed, of each module one first: a time that is given ends among what is most like what was
    compiled.

    Args:
        target: the device for which kernels are chosen, by its name in ``TARGETS``.
    """
    launches = [
        launch
        for launch in real_launches(TARGETS[target], options.operators)
        if fnmatchcase(launch.variant, options.modules)
    ]
    if options.changed_since is None:
        return launches[:: options.every or 1]
    changes = changes_since(options.changed_since, target, options.operators)
    if changes.remark:
        print(f"compile_for_gpus.py: only shaders are compared with {options.changed_since}: {changes.remark}")
    touched = list(filter(changes.touch, launches))
    others = [launch for launch in launches if not changes.touch(launch)] if options.every else []
    others = others[:: options.every]
    print(f"{len(touched)} launches are touched since {options.changed_since}; {len(others)} of the others", flush=True)
    first = {launch.variant: launch for launch in reversed(touched)}
    return [*first.values(), *others, *(launch for launch in touched if launch is not first[launch.variant])]


def _compiled(opening: Opening, name: str, target: str, options: argparse.Namespace) -> int:
    launches = chosen_launches(options, target)
    found = compiled_launches(opening, launches, options, time.monotonic() + options.seconds)
    rows = [row for _, each in sorted(found.items()) for row in each]
    if options.json is not None:
        options.json.write_text(json.dumps({"device": name, "launches": rows}, indent=1) + "\n", encoding="utf-8")
    bad = sum(not row["known"] for row in rows if "fault" in row)
    seconds = sorted(row.get("seconds", 0.0) for row in rows) or [0.0]
    middle = f"half of them within {seconds[len(seconds) // 2] * 1000:.0f} ms, all {seconds[-1]:.2f} s"
    variants = len({row["variant"] for row in rows})
    left = f"; {len(launches) - len(found)} are left, for which there was no time" if len(found) < len(launches) else ""
    print(f"{name}: {len(found)} launches of {variants} modules compiled, {middle}; {bad} are bad{left}")
    return 1 if bad else 0


def compiled_launches(
    opening: Opening, launches: Sequence[RealLaunch], options: argparse.Namespace, end: float
) -> dict[int, Rows]:
    """What a driver makes of launches, by their places; what is bad is shown.

    What takes too long beside others is compiled again afterwards, alone: the time is to be the compiler's.

    Args:
        end: when no further one is begun, by the monotonic clock.
    """
    most = options.most_seconds
    alone = functools.partial(_rows_of, most_seconds=most)
    beside = functools.partial(_rows_of, most_seconds=math.inf) if options.jobs > 1 else alone
    found: dict[int, Rows] = {}
    slow: list[int] = []
    for place, rows in enumerate(_outcomes(opening, launches, beside, options.jobs, end)):
        if options.jobs > 1 and any(row.get("seconds", 0.0) > most for row in rows):
            slow.append(place)
        elif rows:
            found[place] = _told(launches[place], rows, options.family)
    if slow:
        print(f"{len(slow)} launches took more than {most} s beside others: again, alone", flush=True)
    for place, rows in zip(slow, _outcomes(opening, [launches[place] for place in slow], alone), strict=True):
        found[place] = _told(launches[place], rows, options.family)
    return found


def _outcomes(
    opening: Opening,
    launches: Sequence[RealLaunch],
    telling: Callable[[DriverCompiler, RealLaunch], Rows],
    jobs: int = 1,
    end: float = math.inf,
) -> Iterator[Rows]:
    """What so many compilers beside one another say of launches, in their order; nothing of those that are left."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        free: queue.SimpleQueue[DriverCompiler] = queue.SimpleQueue()
        for _ in range(min(jobs, len(launches))):
            free.put(stack.enter_context(opening()))

        def rows(launch: RealLaunch) -> Rows:
            if time.monotonic() > end:
                return []
            compiler = free.get()
            try:
                return telling(compiler, launch)
            finally:
                free.put(compiler)

        yield from pool.map(rows, launches)


def _told(launch: RealLaunch, rows: Rows, family: str) -> Rows:
    """The same rows, those with a fault with whether it is known; faults are shown."""
    for row in rows:
        if fault := row.get("fault"):
            row["known"] = _is_known((Family(family).driver, family), launch.variant, fault)
            known = " (known)" if row["known"] else ""
            print(f"{launch.variant} {list(launch.constants)} ({launch.operator}): {fault}{known}", flush=True)
    return rows


def _rows_of(compiler: DriverCompiler, launch: RealLaunch, most_seconds: float) -> Rows:
    """What a compiler says of a launch, in each of its module's forms."""
    return [_row_of(compiler, launch, spirv, most_seconds) for spirv in launch.forms]


def _row_of(compiler: DriverCompiler, launch: RealLaunch, spirv: bytes, most_seconds: float) -> dict[str, Any]:
    row: dict[str, Any] = {"variant": launch.variant, "constants": launch.constants, "operator": launch.operator}
    try:
        made = compiler.compile(spirv, launch.constants, binding_count(spirv), launch.push_words)
        if made.seconds > most_seconds:  # what else runs may have slowed it down: the quicker of two counts
            again = compiler.compile(spirv, launch.constants, binding_count(spirv), launch.push_words)
            made = min(made, again, key=lambda each: each.seconds)
        row |= {"seconds": round(made.seconds, 3), **made.statistics}
        fault = fault_of(made, most_seconds)
    except DmlError as error:
        fault = str(error)
    return {**row, "fault": fault} if fault else row


def _is_known(names: Sequence[str], variant: str, fault: str) -> bool:
    known = [each for each_name in names for each in KNOWN.get(each_name, ())]
    return any(fnmatchcase(variant, name) and fault.startswith(kind) for name, kind, _ in known)


def fault_of(made: Compiled, most_seconds: float = MOST_SECONDS) -> str | None:
    """Why a pipeline should not be launched by default; ``None`` where nothing speaks against it."""
    statistics = made.statistics
    spilled = sum(statistics.get(name, 0) for name in _SPILLS)
    scratch = sum(statistics.get(name, 0) for name in _SCRATCH)
    if spilled or scratch:
        return f"spills {spilled} vector registers, {scratch} bytes of scratch memory for each subgroup"
    if made.seconds > most_seconds:
        return f"takes {made.seconds:.1f} s to compile"
    return None


if __name__ == "__main__":
    sys.exit(main())
