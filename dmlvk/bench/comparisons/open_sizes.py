"""New sizes of an ONNX model's inputs, beside sizes that were there before."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import click

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.bench.open_size_models import MODELS, Feed
from dmlvk.bench.own import OwnLibrary
from dmlvk.bench.report import named, write_measured
from dmlvk.cli.selection import chosen_device, device_option, json_option


def _seconds(session: ort.InferenceSession, feed: Feed) -> float:
    begun = time.perf_counter()
    session.run(None, feed)
    return time.perf_counter() - begun


@click.command()
@device_option
@click.option("-n", "--number", type=click.IntRange(1), default=50, show_default=True, help="Of each model's sizes.")
@click.option("-k", "--model", "part", default="", help="Only models whose names contain this.")
@json_option
def command(device: str | None, number: int, part: str, json_file: Path | None) -> None:
    """Time what new sizes of a model's inputs cost.

    Small models of the kinds that exporters write are run at one size after the other, each twice. The ratio is that of
    the medians of first and second runs without those sizes for which a plan was made, which are counted; so are the
    pipelines that were compiled after the second size for sizes without a new plan.
    """
    entries = []
    with dml.Device(chosen_device(device)) as opened:
        print(f"{opened.info.name}; milliseconds of a run")
        print(f"  {'':<12}{'sizes':>6}{'plans':>6}{'compiled':>9}{'planned':>9}{'new':>9}{'known':>9}{'ratio':>7}")
        for name, model in MODELS.items():
            if part.lower() not in name.lower():
                continue
            session = ort.InferenceSession(model.proto(), device=opened)
            planned, new, known, compiled = [], [], [], 0
            for index, size in enumerate(model.sizes[:number]):
                feed = model.feed(size)
                plans, pipelines = session._program.plan_count, opened.engine.compilations
                first, second = _seconds(session, feed), _seconds(session, feed)
                if session._program.plan_count > plans:
                    planned.append(first)
                else:
                    new.append(first)
                    known.append(second)
                    compiled += opened.engine.compilations - pipelines if index > 1 else 0
            medians = [statistics.median(times) if times else float("nan") for times in (planned, new, known)]
            shown = "".join(f"{seconds * 1e3:9.2f}" for seconds in medians)
            count = len(planned) + len(new)
            print(f"  {name:<12}{count:6}{len(planned):6}{compiled:9}{shown}{medians[1] / medians[2]:7.2f}")
            keys = ("seconds_planned", "seconds", "seconds_known")
            entries.append({"name": name, "plans": len(planned), **dict(zip(keys, medians, strict=True))})
        libraries = [named(OwnLibrary(opened))]
    if json_file is not None:
        write_measured(json_file, opened.info, libraries, entries)
