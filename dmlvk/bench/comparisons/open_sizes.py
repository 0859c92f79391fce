"""New sizes of an ONNX model's inputs, beside sizes that were there before."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import click

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.bench.open_size_models import MODELS, Feed
from dmlvk.bench.own import OwnLibrary
from dmlvk.bench.report import named, write_measured
from dmlvk.cli.selection import chosen_device, device_option, json_option


def _seconds(session: ort.InferenceSession, feed: Feed) -> tuple[float, float]:
    """What a run takes, and what of it the calling thread computes."""
    begun, computed = time.perf_counter(), time.thread_time()
    session.run(None, feed)
    return time.perf_counter() - begun, time.thread_time() - computed


def _median(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) if seconds else float("nan")


@click.command()
@device_option
@click.option("-n", "--number", type=click.IntRange(1), default=50, show_default=True, help="Of each model's sizes.")
@click.option("-k", "--model", "part", default="", help="Only models whose names contain this.")
@json_option
def command(device: str | None, number: int, part: str, json_file: Path | None) -> None:
    """Time what new sizes of a model's inputs cost.

    Small models of the kinds that exporters write are run at one size after the other, each twice. The ratio is that of
    the medians of first and second runs without those sizes for which a plan was made, which are counted; so are the
    pipelines that were compiled after the second size for sizes without a new plan. Host: what the calling thread
    computes in these runs, which others that use the machine change least.
    """
    entries = []
    with dml.Device(chosen_device(device)) as opened:
        print(f"{opened.info.name}; milliseconds of a run")
        titles = f"{'sizes':>6}{'plans':>6}{'compiled':>9}{'planned':>9}{'new':>9}{'known':>9}{'ratio':>7}"
        print(f"  {'':<12}{titles}{'host new':>10}{'known':>7}")
        for name, model in MODELS.items():
            if part.lower() not in name.lower():
                continue
            session = ort.InferenceSession(model.proto(), device=opened)
            planned: list[float] = []
            runs: list[tuple[tuple[float, float], tuple[float, float]]] = []
            compiled = 0
            for index, size in enumerate(model.sizes[:number]):
                feed = model.feed(size)
                plans, pipelines = session._program.plan_count, opened.engine.compilations
                first, second = _seconds(session, feed), _seconds(session, feed)
                if session._program.plan_count > plans:
                    planned.append(first[0])
                else:
                    runs.append((first, second))
                    compiled += opened.engine.compilations - pipelines if index > 1 else 0
            planned_for = _median(planned)
            of_new, host_new = (_median([first[kind] for first, _ in runs]) for kind in range(2))
            of_known, host_known = (_median([second[kind] for _, second in runs]) for kind in range(2))
            shown = "".join(f"{seconds * 1e3:9.2f}" for seconds in (planned_for, of_new, of_known))
            host = f"{host_new * 1e3:10.2f}{host_known * 1e3:7.2f}"
            count = len(planned) + len(runs)
            print(f"  {name:<12}{count:6}{len(planned):6}{compiled:9}{shown}{of_new / of_known:7.2f}{host}")
            entries.append(
                {
                    "name": name,
                    "plans": len(planned),
                    "seconds_planned": planned_for,
                    "seconds": of_new,
                    "seconds_known": of_known,
                    "host_seconds": host_new,
                    "host_seconds_known": host_known,
                }
            )
        libraries = [named(OwnLibrary(opened))]
    if json_file is not None:
        write_measured(json_file, opened.info, libraries, entries)
