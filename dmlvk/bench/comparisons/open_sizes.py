#!/usr/bin/env python3
"""Measures what new sizes of a model's inputs cost beside sizes that were there before.

    scripts/measure_open_sizes.py [-d DEVICE] [-k NAME] [-n NUMBER] [--json FILE]

Small models of the kinds that exporters write (:mod:`scripts.open_size_models`) are run at one size after the other,
each twice. The ratio is that of the medians of first and second runs without those sizes for which a plan was made,
which are counted; so are the pipelines that were compiled after the second size for sizes without a new plan.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmlvk as dml  # of this checkout
import dmlvk.onnx as ort
from dmlvk.bench.own import OwnLibrary
from dmlvk.bench.report import named, write_measured
from scripts.measuring import argument_parser
from scripts.open_size_models import MODELS, Feed


def _seconds(session: ort.InferenceSession, feed: Feed) -> float:
    begun = time.perf_counter()
    session.run(None, feed)
    return time.perf_counter() - begun


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures every model."""
    parser = argument_parser(__doc__)
    parser.add_argument("-n", "--number", type=int, default=50, help="sizes of each model (default: 50)")
    parser.add_argument("-k", "--model", default="", help="only models whose names contain this")
    options = parser.parse_args(arguments)
    entries = []
    with dml.Device(options.device) as device:
        print(f"{device.info.name}; milliseconds of a run")
        print(f"  {'':<12}{'sizes':>6}{'plans':>6}{'compiled':>9}{'planned':>9}{'new':>9}{'known':>9}{'ratio':>7}")
        for name, model in MODELS.items():
            if options.model.lower() not in name.lower():
                continue
            session = ort.InferenceSession(model.proto(), device=device)
            planned, new, known, compiled = [], [], [], 0
            for number, size in enumerate(model.sizes[: options.number]):
                feed = model.feed(size)
                plans, pipelines = session._program.plan_count, device.engine.compilations
                first, second = _seconds(session, feed), _seconds(session, feed)
                if session._program.plan_count > plans:
                    planned.append(first)
                else:
                    new.append(first)
                    known.append(second)
                    compiled += device.engine.compilations - pipelines if number > 1 else 0
            medians = [statistics.median(times) if times else float("nan") for times in (planned, new, known)]
            shown = "".join(f"{seconds * 1e3:9.2f}" for seconds in medians)
            count = len(planned) + len(new)
            print(f"  {name:<12}{count:6}{len(planned):6}{compiled:9}{shown}{medians[1] / medians[2]:7.2f}")
            keys = ("seconds_planned", "seconds", "seconds_known")
            entries.append({"name": name, "plans": len(planned), **dict(zip(keys, medians, strict=True))})
        libraries = [named(OwnLibrary(device))]
    if options.json is not None:
        write_measured(options.json, device.info, libraries, entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
