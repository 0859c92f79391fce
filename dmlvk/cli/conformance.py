"""``dmlvk conformance``: the numeric contract, measured on the user's own devices."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dmlvk.cli.selection import WrittenFile, arithmetic_option, device_selector
from dmlvk.support.files import check_writable, write_whole

if TYPE_CHECKING:  # loading NumPy and all operators takes longer than showing the help
    from dmlvk.conformance.results import Report
    from dmlvk.conformance.runner import Request
    from dmlvk.support.arithmetic import Arithmetic

_EXIT_BROKEN, _EXIT_UNUSABLE, _EXIT_INTERRUPTED = 1, 2, 130


@click.command()
@click.option(
    "--operators",
    "-o",
    multiple=True,
    metavar="TEXT|GLOB",
    help="Only these: an operator's name, a case's name or a part of it (int8), a pattern ('bit_*'). Repeat for more.",
)
@click.option(
    "--device",
    "-d",
    multiple=True,
    metavar="N|NAME",
    help="Index, UUID, PCI address or part of the name. Repeat for more.",
)
@click.option("--exhaustive", is_flag=True, help="Also all 2^32 values of FLOAT32 operators of one operand.")
@click.option(
    "--patterns", type=click.IntRange(2**10, 2**30), metavar="N", help="Values of types above 16 bits (262144)."
)
@click.option("--attribute-sets", type=click.IntRange(1), metavar="N", help="Sets of attributes of each case (8).")
@click.option(
    "--jobs", "-j", type=click.IntRange(1, 256), metavar="N", help="Processes to use (one for each processor)."
)
@click.option(
    "--json", "json_file", type=WrittenFile(allow_dash=True), metavar="FILE",
    help="Write everything that was found ('-': print it).",
)  # fmt: skip
@click.option(
    "--report", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Write DIR/index.html: tables, and plots of the error over the inputs.",
)  # fmt: skip
@click.option(
    "--compare", nargs=2, type=click.Path(dir_okay=False, path_type=Path), metavar="A.json B.json",
    help="Run nothing: compare two files that --json wrote.",
)  # fmt: skip
@click.option(
    "--write-hashes", type=WrittenFile(), metavar="FILE",
    help="For maintainers: put this run's hashes into FILE, as the ones to compare with.",
)  # fmt: skip
@arithmetic_option
@click.pass_context
def conformance(
    context: click.Context,
    operators: tuple[str, ...],
    device: tuple[str, ...],
    exhaustive: bool,
    patterns: int | None,
    attribute_sets: int | None,
    jobs: int | None,
    json_file: Path | None,
    report: Path | None,
    compare: tuple[Path, Path] | None,
    write_hashes: Path | None,
    arithmetic: Arithmetic | None,
) -> None:
    """Measure whether a device computes what is promised.

    Every operator runs with every combination of data types: all values of 8- and 16-bit types, many of wider ones.
    All results are compared with independent references, and with the hashes of a run on other devices.

    Exits with 0 when every promise is kept, 1 when one is broken. Where results differ from the reference that this
    machine computes, but have the bits of that run, the reference is doubted and named, not the device (0). Ctrl-C
    ends with what was found so far (130); the next run takes up exhaustive parts where they stopped.

    With --arithmetic device the results of products are compared with the stated error instead, and their bits
    with nothing; the verdict says so.
    """
    from dmlvk.conformance.cases import value_cases
    from dmlvk.conformance.exhaustive import exhaustive_runs
    from dmlvk.conformance.reference_hashes import ReferenceHashes
    from dmlvk.conformance.results import Extent
    from dmlvk.conformance.runner import INTERRUPTED, Request, selected_cases
    from dmlvk.errors import InvalidArgumentError

    if compare is not None:
        _compare(context, *compare)
        return
    wanted = [text for option in operators for text in option.split(",") if text.strip()]
    if operators and not wanted:
        raise InvalidArgumentError(f"--operators: no name in {','.join(operators)!r} (see `dmlvk operators`)")
    request = Request(
        cases=selected_cases(wanted),
        plan=Extent(patterns or Extent.patterns, attribute_sets or Extent.attribute_sets),
        exhaustive=exhaustive,
        jobs=jobs or os.cpu_count() or 1,
        state_directory=_state_directory(report) if exhaustive else None,
    )
    if report is not None:  # what cannot be written is refused before hours of measuring, not behind them
        report.mkdir(parents=True, exist_ok=True)
        check_writable(report / "index.html")
    quiet = json_file is not None and str(json_file) == "-"
    made = _run(device, arithmetic, request)
    _show(made, quiet)
    if json_file is not None:
        _write_json(made, json_file)
    if report is not None:
        from dmlvk.conformance.html import write_report

        click.echo(f"Report: {write_report(made, report)}", err=quiet)
    if write_hashes is not None:
        names = {case.name for case in selected_cases([])} | {each.name for each in exhaustive_runs(value_cases())}
        before = ReferenceHashes.load(write_hashes) if write_hashes.exists() else ReferenceHashes(made.plan, (), {})
        before.merged(made, names).write(write_hashes)
    if made.stopped == INTERRUPTED:
        context.exit(_EXIT_INTERRUPTED)
    if made.broken:
        context.exit(_EXIT_BROKEN)
    if made.stopped is not None:
        context.exit(_EXIT_UNUSABLE)


def _state_directory(report: Path | None) -> Path | None:
    """Where exhaustive runs are kept that may be interrupted."""
    from dmlvk.conformance.state import usable_directory
    from dmlvk.support.caches import user_cache

    if report is not None:
        return report / "state"
    directory = usable_directory(user_cache("conformance"))
    if directory is None:
        click.echo("There is no place to keep unfinished runs in: an interrupted one begins anew.", err=True)
    return directory


class _Progress:
    """Bars with the time left on a terminal, a line now and then elsewhere; on standard error."""

    _SECONDS_BETWEEN_LINES = 15.0

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._console = Console(stderr=True, highlight=False, markup=False)
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        self._bars = Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task: Any = None
        self._what, self._total, self._done, self._done_when_said = "", 0, 0, 0
        self._began = self._said = 0.0

    def __enter__(self) -> _Progress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, what: str, total: int) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(what, total=total)
        self._what, self._total, self._done, self._done_when_said = what, total, 0, 0
        self._began = self._said = time.monotonic()

    def advance(self, steps: int) -> None:
        self._bars.advance(self._task, steps)
        self._done += steps
        now = time.monotonic()
        if not self._console.is_terminal and now - self._said >= self._SECONDS_BETWEEN_LINES:
            # Cases differ much: by all so far and by the last ones, the time left lies somewhere between.
            missing = self._total - self._done
            by_all = (now - self._began) / self._done * missing
            by_last = (now - self._said) / (self._done - self._done_when_said) * missing
            self._said, self._done_when_said = now, self._done
            low, high = sorted((by_all, by_last))
            left = f"{low:.0f} to {high:.0f}" if high > 1.2 * low else f"about {high:.0f}"
            self._console.print(f"{self._done:,} of {self._total:,} {self._what}, {left} s left")

    def notice(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)


def _run(selectors: Sequence[str], arithmetic: Arithmetic | None, request: Request) -> Report:
    from dmlvk.conformance.runner import run
    from dmlvk.device import Device

    chosen: list[int | str | None] = [device_selector(text) for text in selectors]
    with contextlib.ExitStack() as stack:
        devices = [stack.enter_context(Device(selector, arithmetic=arithmetic)) for selector in chosen or [None]]
        indices = [opened.info.index for opened in devices]
        if len(set(indices)) < len(indices):
            raise click.UsageError("the same --device is given twice")
        progress = stack.enter_context(_Progress())
        # Who ends the run by another signal wants to keep what was found, too.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGTERM, before)
        return run(devices, request, progress)


def _show(made: Report, quiet: bool) -> None:
    from dmlvk.cli.conformance_tables import show_report

    if quiet:
        click.echo(made.verdict, err=True)
    else:
        show_report(made)


def _write_json(made: Report, file: Path) -> None:
    from dmlvk.conformance.results import report_as_json

    text = json.dumps(report_as_json(made), indent=1, allow_nan=False)
    if str(file) == "-":
        click.echo(text)
    else:
        write_whole(file, text + "\n")


def _compare(context: click.Context, first: Path, second: Path) -> None:
    from dmlvk.conformance.agreement import disagreements, load_report

    lines = disagreements(load_report(first), load_report(second))
    for line in lines:
        click.echo(line)
    click.echo(f"DIFFERENT: {len(lines)} disagreements" if lines else "EQUAL: both runs gave the same bits")
    if lines:
        context.exit(_EXIT_BROKEN)
