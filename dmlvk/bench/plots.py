"""What ``dmlvk bench --plot`` draws: operators, networks, and tokens of decoders."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dmlvk.bench.measurement import Result
from dmlvk.bench.plot import Bars, Ceiling, Panel, size_text, speed_text, write_charts
from dmlvk.bench.report import BenchReport

_FEWEST = 3  # Sizes that make a line

_LIBRARIES = (("dmlvk", "seconds"), ("PyTorch", "torch_seconds"))


def write_plot(report: BenchReport, path: Path) -> None:
    """Draws speeds: over an extent, a panel for each series and a line for each library; else as bars.

    Of element-wise operators one alone is drawn over sizes, and the largest size is a bar beside a copy, too.

    Args:
        path: as for :func:`dmlvk.bench.plot.write_charts`, whose errors are raised.
    """
    copy, peak = report.ceiling(), report.peak()
    ceilings: dict[str, list[Ceiling]] = {"B/s": [], "OP/s": []}
    if copy is not None:
        ceilings["B/s"] = [(copy, f"copy, {speed_text(copy)}")]
    if peak is not None:  # products and sums that are rounded apart take two instructions
        ceilings["OP/s"] = [(peak, "peak"), (peak / 2, "product and sum apart")]
        del ceilings["OP/s"][1 + (report.arithmetic == "portable") :]
    panels = _series(report.results)
    charts: list[Panel | Bars] = [_panel(panel, ceilings[panel[0].unit]) for panel in panels]
    in_panels = {id(result) for panel in panels for result in (panel[:-1] if panel[0].layout else panel)}
    for unit, what in (("OP/s", "operations a second"), ("B/s", "bytes read and written a second")):
        rows = [
            (f"{result.name} {result.data_type}", timing.library, speed, f"{speed_text(speed, unit)} {timing.library}")
            for result in report.results
            if result.unit == unit and id(result) not in in_panels
            for timing in result.timings
            if (speed := result.speed(timing.library)) is not None
        ]
        if rows:
            charts.append(Bars(f"Device time: {what}", rows, ceilings[unit]))
    known = "" if peak is None else f"; at most {speed_text(peak, 'OP/s')} of FLOAT32 by its data sheet"
    libraries = "; ".join(f"{each['name']} {each['version']}" for each in report.libraries)
    write_charts(path, [f"{report.device}, {report.driver}", f"medians, {libraries}{known}"], charts)


def _series(results: Iterable[Result]) -> list[list[Result]]:
    """The results that make lines, by series, data type and rising extent."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.series:
            found.setdefault((result.series, result.data_type), []).append(result)
    rising = (sorted(each, key=lambda result: result.extent) for each in found.values())
    return [each for each in rising if len({result.extent for result in each}) >= _FEWEST]


def _panel(panel: Sequence[Result], ceilings: Sequence[Ceiling]) -> Panel:
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in panel:
        for timing in result.timings:
            if (speed := result.speed(timing.library, alone=bool(result.layout))) is not None:
                lines.setdefault(timing.library, []).append((result.extent, speed))
    unit, title = panel[0].unit, f"{panel[0].series}, {panel[0].data_type}"
    if panel[0].layout:
        words = f"{title}: one operator alone, submitted and waited for"
        return Panel(words, lines, "bytes read and written", size_text, speed_text, ceilings)
    return Panel(title, lines, "n", str, lambda speed: speed_text(speed, unit), ceilings)


def write_network_plot(results: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Draws the runs of each network that go into a second, as shares of the fastest library's.

    Args:
        results: what ``dmlvk bench models --json`` writes.
        title: what was measured, and where.
        path: as for :func:`dmlvk.bench.plot.write_charts`, whose errors are raised.
    """
    rows = []
    for result in results:
        label = f"{result['model']}, {result['data_type']}, batch {result['batch']}"
        taken = {name: result[member] for name, member in _LIBRARIES if result.get(member)}
        for name, seconds in taken.items():
            figure = f"{name}: {seconds * 1e3:#.3g} ms, {result['batch'] / seconds:,.0f} a second"
            rows.append((label, name, min(taken.values()) / seconds, figure))
    write_charts(path, [title], [Bars("speed as a share of the fastest, longer is better", rows)])


def write_decoder_plot(results: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Draws what tokens take over the length of the text before: a line for each batch and library.

    Args:
        results: what ``dmlvk bench decoder --json`` writes.
        title: what was measured, and where.
        path: as for :func:`dmlvk.bench.plot.write_charts`, whose errors are raised.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    for result, (name, member) in itertools.product(results, _LIBRARIES):
        found = [(float(length), of[member] * 1e3) for length, of in result["tokens"].items() if member in of]
        if found:
            of_type = " FLOAT16" if name == "PyTorch" else ""
            lines[f"{name}{of_type}, batch {result['batch']}"] = sorted(found)
    panel = Panel("milliseconds for a step", lines, "tokens of the text before", str, lambda taken: f"{taken:g}")
    write_charts(path, [title], [panel])
