"""``dmlvk bench``: speed on the user's own device, beside the libraries that are installed there."""

from __future__ import annotations

import re
import sys
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
    from dmlvk.bench.task_measurement import TaskResult
    from dmlvk.bench.workload import Workload
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
@click.option("--plot", type=WrittenFile(), metavar="FILE", help="Draw it: .svg, .png, .webp, .jpg.")
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
    from dmlvk.bench.plot import check_plot_path, write_plot
    from dmlvk.bench.report import BenchReport
    from dmlvk.device import Device

    if plot is not None:
        check_plot_path(plot)
    regular, with_tasks = _by_kind(_operator_names(operators))
    if with_tasks:
        if regular and (json_file or plot) is not None:
            raise click.UsageError(
                f"--json and --plot: {with_tasks[0]} is timed with tasks of its own, {regular[0]} in layouts and "
                "sizes; ask for them apart"
            )
        _bench_tasks(with_tasks, device, arithmetic, data_types, sizes, json_file, plot)
        if not regular:
            return
    workloads = _workloads(",".join(regular), parsed_attributes(attributes), data_types, layouts, sizes)
    names = LIBRARIES if libraries == "all" else () if libraries == "none" else tuple(libraries.split(","))
    if unknown := sorted(set(names) - set(LIBRARIES)):
        raise click.UsageError(f"--libraries: {unknown[0]!r} is none of {', '.join(LIBRARIES)}")
    selector = None if device is None else device_selector(device)
    with Device(selector, arithmetic=arithmetic) as opened_device, opened(names, opened_device) as (others, absent):
        measured = [OwnLibrary(opened_device), *others]
        results, is_stopped = _measured(workloads, measured, seconds)
        report = BenchReport.of(opened_device.info, measured, absent, results)
    _show(report)
    if json_file is not None:
        report.write(json_file)
    if plot is not None and results:
        write_plot(report, plot)
    if is_stopped:
        raise KeyboardInterrupt


def _measured(workloads: Sequence[Workload], libraries: Sequence[Library], seconds: float) -> tuple[list[Result], bool]:
    """The results of all, or of those until an interrupt, and whether there was one."""
    from dmlvk.bench.measurement import measure

    results: list[Result] = []
    is_stopped = False
    try:
        for number, workload in enumerate(workloads):
            if sys.stderr.isatty():
                click.echo(f"\r{number + 1} of {len(workloads)}: {workload.name}\x1b[K", nl=False, err=True)
            results.append(measure(workload, libraries, seconds))
    except KeyboardInterrupt:
        is_stopped = True
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    return results, is_stopped


bench.add_command(decoder)
bench.add_command(models)


def _by_kind(names: list[str]) -> tuple[list[str], list[str]]:
    """Those that are timed in layouts and sizes of their only shape, and those that have tasks."""
    from dmlvk.bench.tasks import OPERATORS_WITH_TASKS
    from dmlvk.operators import REGULAR_OPERATORS

    regular = [name for name in names if name in REGULAR_OPERATORS]
    lacking = [name for name in names if name not in REGULAR_OPERATORS and name not in OPERATORS_WITH_TASKS]
    with_tasks = [name for name in names if name in OPERATORS_WITH_TASKS]
    if not regular and not with_tasks:
        raise click.UsageError(
            f"--operators: {names[0]} has no bench task in dmlvk/bench/tasks.py; "
            f"those that have: {', '.join(OPERATORS_WITH_TASKS)}"
        )
    if lacking:
        click.echo(f"not timed, for there is no bench task in dmlvk/bench/tasks.py: {', '.join(lacking)}", err=True)
    return regular, with_tasks


def _bench_tasks(
    names: list[str],
    device: str | None,
    arithmetic: Arithmetic | None,
    data_types: str,
    sizes: str,
    json_file: Path | None,
    plot: Path | None,
) -> None:
    """Operators whose tensors have sizes of their own, beside PyTorch."""
    import dataclasses
    import functools
    import itertools

    from dmlvk.bench.peaks import peak_of
    from dmlvk.bench.report import environment, write_json
    from dmlvk.bench.task_measurement import measure_task
    from dmlvk.bench.task_plot import write_task_plot
    from dmlvk.bench.tasks import tasks
    from dmlvk.conformance.facets import FacetError, result_of
    from dmlvk.device import Device
    from dmlvk.errors import DeviceLimitError, OutOfMemoryError

    every, asked = [], list(itertools.product(_data_types(data_types), parsed_sizes(sizes)))

    def tasks_of(name: str) -> list[Task]:
        return [task for data_type, size in asked for task in tasks(name, data_type, size)]

    for name in names:
        try:
            every += result_of(name, "bench task", functools.partial(tasks_of, name))
        except FacetError as error:
            click.echo(f"not timed: {error}", err=True)
    chosen = list({(task.name, task.data_type): task for task in every}.values())  # some are the same for every size
    if not chosen:
        raise click.UsageError(f"no operator of these takes such data types: {', '.join(names)}; {data_types}")
    selector = None if device is None else device_selector(device)
    with Device(selector, arithmetic=arithmetic) as opened_device:
        info, is_portable = opened_device.info, opened_device.arithmetic == "portable"
        peak = peak_of(info.name)
        words = "" if is_portable else ", device arithmetic"
        click.echo(f"{info.name} ({info.kind}), {info.driver}{words}")
        results = []
        for task in chosen:
            try:
                made = measure_task(opened_device, task)
            except (DeviceLimitError, OutOfMemoryError) as error:
                click.echo(f"{task.name:58} {task.data_type.name.lower():8} not measured: {error}")
                continue
            results.append(made)
            _show_task(made, peak)
        facts = environment(info, [])
    if json_file is not None:
        more = {"arithmetic": "portable" if is_portable else "device", "peak_in_operations_per_second": peak}
        write_json(json_file, {**facts, **more, "results": [dataclasses.asdict(made) for made in results]})
    if plot is not None:
        write_task_plot(results, facts, peak, plot, is_portable=is_portable)


def _show_task(made: TaskResult, peak: float | None) -> None:
    """One line: the speed, the share of what the device can do at most, and PyTorch's speed."""
    scale, unit = (1e9, "GB/s") if made.unit == "B/s" else (1e12, "TFLOP/s")
    if made.unit == "OP/s" and max(made.speed, made.torch_speed or 0.0) < 1e12:
        scale, unit = 1e9, "GFLOP/s"
    share = "" if peak is None or made.unit == "B/s" else f"{made.speed / peak:.0%} of peak; "
    beside = made.remark
    if made.torch_speed is not None:
        beside = f"PyTorch {made.torch_speed / scale:.4g}, {made.speed / made.torch_speed:.2f} x"
    click.echo(f"{made.name:58} {made.data_type:8} {made.speed / scale:9.4g} {unit:8} {share}{beside}")


def _data_types(text: str) -> list[DataType]:
    from dmlvk.datatypes import DataType

    types = []
    for name in text.split(","):
        if name.upper() not in DataType.__members__:
            raise click.UsageError(f"--data-types: {name!r} is no data type; such are float32, float16, int8")
        types.append(DataType[name.upper()])
    return types


def _workloads(
    operators: str, attributes: dict[str, float], data_types: str, layouts: str, sizes: str
) -> list[Workload]:
    from dmlvk.bench.workload import LAYOUTS, workload

    types = _data_types(data_types)
    chosen = tuple(LAYOUTS) if layouts == "all" else tuple(layouts.split(","))
    if unknown := [layout for layout in chosen if layout not in LAYOUTS]:
        raise click.UsageError(f"--layouts: {unknown[0]!r} is none of {', '.join(LAYOUTS)}")
    byte_sizes = parsed_sizes(sizes)

    def sized(name: str, data_type: DataType, layout: str) -> list[Workload]:
        counts = [max(1, size // data_type.size_in_bytes) for size in byte_sizes]
        made = [workload(name, data_type, layout, count, attributes) for count in counts]
        return [each for each in made if each is not None]

    found = []
    for name in _operator_names(operators):
        for data_type in types:
            for layout in chosen:
                found += sized(name, data_type, layout)
    if not found:
        raise click.UsageError(
            f"no operator of these takes such data types and layouts: {operators}; {data_types}; {layouts}"
        )
    copy = "ELEMENT_WISE_IDENTITY"  # what everything is compared with
    if not any(each.operator.operator_name == copy and each.layout == "contiguous" for each in found):
        found += sized(copy, types[0], "contiguous")
    return found


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


def _show(report: BenchReport) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(f"{report.device} ({report.device_kind}), {report.driver}", markup=False, highlight=False)
    for library in report.libraries:
        console.print(f"  {library['name']} {library['version']} on {library['device']}", markup=False, highlight=False)
    for name, reason in report.absent.items():
        console.print(f"  {name}: {reason}", markup=False, highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("operator", "type", "layout", "MiB", "library", "GB/s", "spread", "alone", "dmlvk is faster"):
        table.add_column(
            heading, justify="right" if heading in ("MiB", "GB/s", "spread", "alone", "dmlvk is faster") else "left"
        )
    for result in report.results:
        _add_rows(table.add_row, result)
    console.print(table)
    if (ceiling := report.ceiling()) is not None:
        console.print(f"A packed copy reached {ceiling / 1e9:.4g} GB/s.", markup=False, highlight=False)


def _add_rows(add_row: object, result: Result) -> None:
    assert callable(add_row)
    own = result.bandwidth("dmlvk")
    for number, timing in enumerate(result.timings):
        first = number == 0
        start = (
            result.operator.removeprefix("ELEMENT_WISE_") if first else "",
            result.data_type if first else "",
            result.layout if first else "",
            f"{result.bytes_moved / 2**20:.4g}" if first else "",
            timing.library,
        )
        if timing.seconds is None or timing.wall_seconds is None:
            add_row(*start, "", "", "", timing.status)
            continue
        bandwidth = result.bytes_moved / timing.seconds.median
        spread = (timing.seconds.high - timing.seconds.low) / timing.seconds.median
        faster = f"{own / bandwidth:.2f} x" if own is not None and timing.library != "dmlvk" else ""
        add_row(*start, f"{bandwidth / 1e9:.4g}", f"{spread:.0%}", f"{timing.wall_seconds.median * 1e6:.4g} µs", faster)
