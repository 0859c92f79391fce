"""``dmlvk bench``: speed on the user's own device, beside the libraries that are installed there."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dmlvk.cli.bench_decoder import decoder
from dmlvk.cli.bench_models import models
from dmlvk.cli.selection import NumberRange, WrittenFile, arithmetic_option, device_selector

if TYPE_CHECKING:
    from dmlvk.bench.libraries import Library
    from dmlvk.bench.measurement import Result
    from dmlvk.bench.report import BenchReport
    from dmlvk.bench.task import Task
    from dmlvk.datatypes import DataType
    from dmlvk.support.arithmetic import Arithmetic

_DEFAULT_OPERATORS = "IDENTITY,SIGN,THRESHOLD,LOGICAL_GREATER_THAN,IF,ADD,EXP"
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


class _BenchGroup(click.Group):
    """Its own commands, and those of :mod:`dmlvk.bench.comparisons`, which are looked up when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all."""
        from dmlvk.bench import comparisons

        return sorted([*super().list_commands(ctx), *comparisons.NAMES])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them."""
        from dmlvk.bench import comparisons

        if cmd_name in comparisons.NAMES:
            return comparisons.comparison_named(cmd_name)
        return super().get_command(ctx, cmd_name)


@click.group(cls=_BenchGroup, invoke_without_command=True)
@click.option(
    "--operators",
    "-o",
    default=_DEFAULT_OPERATORS,
    show_default=True,
    metavar="NAME|GLOB,...",
    help="What to measure, without or with the prefix ELEMENT_WISE_ or ACTIVATION_.",
)
@click.option(
    "--attributes", "-a", default="", metavar="NAME=NUMBER,...",
    help="Of the operators that have them, such as steepness=2,alpha=0.5; ordinary ones otherwise.",
)  # fmt: skip
@click.option("--device", "-d", metavar="N|NAME", help="Index, UUID, PCI address or part of the name.")
@click.option(
    "--data-types", "-t", default="float32", show_default=True, metavar="TYPE,...", help="Such as float16,int8."
)
@click.option(
    "--layouts", "-l", default="contiguous", show_default=True, metavar="NAME,...|all",
    help="contiguous, rows, transposed, row-broadcast, column-broadcast, permuted, channels-last, strided, eight-axes.",
)  # fmt: skip
@click.option(
    "--sizes", "-s", default="64MiB", show_default=True, metavar="SIZE,...|SIZE..SIZE",
    help="Bytes of the largest tensor; 1KiB..256MiB takes every fourfold.",
)  # fmt: skip
@click.option(
    "--libraries", default="all", show_default=True, metavar="NAME,...|all|none",
    help="numpy, torch, onnxruntime: those of them that are installed.",
)  # fmt: skip
@click.option("--seconds", type=NumberRange(0.01, 600), default=1.0, show_default=True, help="For each measurement.")
@click.option("--json", "json_file", type=WrittenFile(), metavar="FILE", help="Write all.")
@click.option("--plot", type=WrittenFile(), metavar="FILE", help="Draw it, as SVG.")
@arithmetic_option
@click.pass_context
def bench(
    context: click.Context,
    operators: str,
    attributes: str,
    device: str | None,
    data_types: str,
    layouts: str,
    sizes: str,
    libraries: str,
    seconds: float,
    json_file: Path | None,
    plot: Path | None,
    arithmetic: Arithmetic | None,
) -> None:
    """Measure the speed of operators, beside other libraries in the same run.

    All results are verified before anything is timed. GB/s counts each byte that is read or written once; on GPUs by
    the device's clock, many dispatches back to back. «Alone» is one operator by the wall, from the call until its
    result is there. Times are medians, with the tenth and the ninetieth of a hundred samples.

    The commands below time whole networks, language models, and what else stands beside another program.
    """
    if context.invoked_subcommand is not None:
        return
    from dmlvk.bench.libraries import LIBRARIES, opened
    from dmlvk.bench.own import OwnLibrary
    from dmlvk.bench.plot import check_plot_path
    from dmlvk.bench.plots import write_plot
    from dmlvk.bench.report import BenchReport
    from dmlvk.device import Device

    if plot is not None:
        check_plot_path(plot)
    tasks = _tasks(operators, parsed_attributes(attributes), data_types, layouts, sizes)
    names = LIBRARIES if libraries == "all" else () if libraries == "none" else tuple(libraries.split(","))
    if unknown := sorted(set(names) - set(LIBRARIES)):
        raise click.UsageError(f"--libraries: {unknown[0]!r} is none of {', '.join(LIBRARIES)}")
    selector = None if device is None else device_selector(device)
    with Device(selector, arithmetic=arithmetic) as opened_device, opened(names, opened_device) as (others, absent):
        measured = [OwnLibrary(opened_device), *others]
        _show_heading(BenchReport.of(opened_device, measured, absent, []))
        results, is_stopped = _measured(tasks, measured, seconds)
        report = BenchReport.of(opened_device, measured, absent, results)
    if (ceiling := report.ceiling()) is not None:
        click.echo(f"A packed copy reached {ceiling / 1e9:.4g} GB/s.")
    if json_file is not None:
        report.write(json_file)
    if plot is not None and results:
        write_plot(report, plot)
    if is_stopped:
        raise KeyboardInterrupt


def _measured(tasks: Sequence[Task], libraries: Sequence[Library], seconds: float) -> tuple[list[Result], bool]:
    """The results of all, or of those until an interrupt, and whether there was one."""
    from dmlvk.bench.measurement import measure
    from dmlvk.bench.peaks import peak_of

    results: list[Result] = []
    try:
        for task in tasks:
            results.append(measure(task, libraries, seconds))
            _show(results[-1], peak_of(libraries[0].device))
    except KeyboardInterrupt:
        return results, True
    return results, False


bench.add_command(decoder)
bench.add_command(models)


def _tasks(operators: str, attributes: dict[str, float], data_types: str, layouts: str, sizes: str) -> list[Task]:
    """What is timed; operators without tasks, and those whose tasks fail, are named.

    Raises:
        click.UsageError: when there is none.
    """
    from dmlvk.bench.layouts import LAYOUTS, regular_tasks
    from dmlvk.bench.tasks import OPERATORS_WITH_TASKS
    from dmlvk.conformance.facets import FacetError, result_of
    from dmlvk.operators import REGULAR_OPERATORS

    chosen = tuple(LAYOUTS) if layouts == "all" else tuple(layouts.split(","))
    if unknown := [layout for layout in chosen if layout not in LAYOUTS]:
        raise click.UsageError(f"--layouts: {unknown[0]!r} is none of {', '.join(LAYOUTS)}")
    types, byte_sizes, names = _data_types(data_types), parsed_sizes(sizes), _operator_names(operators)
    timed = {*REGULAR_OPERATORS, *OPERATORS_WITH_TASKS}
    if lacking := [name for name in names if name not in timed]:
        if len(lacking) == len(names):
            raise click.UsageError(
                f"--operators: {names[0]} has no bench task in dmlvk/bench/tasks.py; "
                f"those that have: {', '.join(OPERATORS_WITH_TASKS)}"
            )
        click.echo(f"not timed, for there is no bench task in dmlvk/bench/tasks.py: {', '.join(lacking)}", err=True)

    def regular(name: str, data_types: list[DataType], layouts: Sequence[str]) -> list[Task]:
        every = itertools.product(data_types, layouts, byte_sizes)
        return [task for asked in every for task in regular_tasks(name, *asked, attributes)]

    found: list[Task] = []
    for name in names:
        if name in REGULAR_OPERATORS:
            found += regular(name, types, chosen)
        elif name in timed:
            asked = list(itertools.product(types, byte_sizes))
            try:
                found += result_of(name, "bench task", functools.partial(_tasks_of, name, asked))
            except FacetError as error:
                click.echo(f"not timed: {error}", err=True)
    if not found:
        raise click.UsageError(
            f"no operator of these takes such data types and layouts: {operators}; {data_types}; {layouts}"
        )
    copy = "ELEMENT_WISE_IDENTITY"  # what those in layouts are compared with
    if any(task.layout for task in found) and not any(
        task.operator_name == copy and task.layout == "contiguous" for task in found
    ):
        found += regular(copy, types[:1], ["contiguous"])
    return list({(task.name, task.data_type): task for task in found}.values())  # some are the same for every size


def _tasks_of(name: str, asked: Sequence[tuple[DataType, int]]) -> list[Task]:
    from dmlvk.bench.tasks import tasks

    return [task for data_type, size in asked for task in tasks(name, data_type, size)]


def _data_types(text: str) -> list[DataType]:
    from dmlvk.datatypes import DataType

    types = []
    for name in text.split(","):
        if name.upper() not in DataType.__members__:
            raise click.UsageError(f"--data-types: {name!r} is no data type; such are float32, float16, int8")
        types.append(DataType[name.upper()])
    return types


def _operator_names(text: str) -> list[str]:
    from dmlvk.operators import operators_named

    found: dict[str, None] = {}
    for pattern in text.split(","):
        names = operators_named(pattern)
        if not names:
            raise click.UsageError(f"--operators: {pattern!r} is no operator that dmlvk has (see `dmlvk operators`)")
        found.update(dict.fromkeys(names))
    return list(found)


def parsed_attributes(text: str) -> dict[str, float]:
    """Numbers by the names of attributes, from ``alpha=0.5,steepness=2``.

    Raises:
        click.UsageError: when it is none of these.
    """
    from dmlvk.operators import OPERATORS

    known = sorted({f.attribute for made in OPERATORS.values() for f in made.fields if f.type == "float"})
    found = {}
    for part in text.split(",") if text else ():
        name, _, number = part.partition("=")
        if name.strip() not in known:
            raise click.UsageError(f"--attributes: {name!r} is none of {', '.join(known)}")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise click.UsageError(f"--attributes: {part!r} is no NAME=NUMBER") from None
    return found


def parsed_sizes(text: str) -> list[int]:
    """Sizes in bytes: ``64MiB``, ``4k,1M``, or from one to another in fourfold steps: ``1KiB..256MiB``.

    Raises:
        click.UsageError: when it is none of these.
    """
    if ".." in text:
        first, _, last = text.partition("..")
        low, high = _size(first), _size(last)
        if low > high:
            raise click.UsageError(f"--sizes: {first} is larger than {last}")
        steps = [low]
        while steps[-1] * 4 <= high:
            steps.append(steps[-1] * 4)
        return steps
    return [_size(part) for part in text.split(",")]


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12}) ?([kmg]?)(i?b)?", text.strip().lower())
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 16 <= size <= 2**35:
        raise click.UsageError(f"--sizes: {text!r} is no size between 16 and 32 GiB, such as 64MiB")
    return size


def _show_heading(report: BenchReport) -> None:
    words = "" if report.arithmetic == "portable" else ", device arithmetic"
    click.echo(f"{report.device} ({report.device_kind}), {report.driver}{words}")
    for library in report.libraries:
        click.echo(f"  {library['name']} {library['version']} on {library['device']}")
    for name, reason in report.absent.items():
        click.echo(f"  {name}: {reason}")


def _show(result: Result, peak: float | None) -> None:
    """One line: the speed, one alone, the share of what the device can do at most; and the speed of each library."""
    own = result.speed("dmlvk")
    start = f"{result.name:58} {result.data_type:8}"
    if own is None:
        click.echo(f"{start} not measured: {result.timings[0].detail}")
        return
    fastest = max(result.speed(timing.library) or 0.0 for timing in result.timings)
    scale, unit = (1e9, "GB/s") if result.unit == "B/s" else (1e12, "TFLOP/s")
    if result.unit == "OP/s" and fastest < 1e12:
        scale, unit = 1e9, "GFLOP/s"
    words = []
    for timing in result.timings:
        speed = result.speed(timing.library)
        if timing.seconds is None or timing.wall_seconds is None or speed is None:
            words.append(f"{timing.library}: {timing.status}: {timing.detail}")
        elif timing.library == "dmlvk":
            spread = (timing.seconds.high - timing.seconds.low) / timing.seconds.median
            words.append(f"spread {spread:.0%}, alone {timing.wall_seconds.median * 1e6:.4g} µs")
            words += [] if peak is None or result.unit == "B/s" else [f"{speed / peak:.0%} of peak"]
        else:
            words.append(f"{timing.library} {speed / scale:.4g}, {own / speed:.2f} x")
    click.echo(f"{start} {own / scale:9.4g} {unit:8} {'; '.join(words)}")
