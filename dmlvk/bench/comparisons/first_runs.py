"""A network's first runs in a process, without and with what the driver has compiled before."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import click
import numpy as np

import dmlvk as dml
from dmlvk.bench.network_graphs import GraphOperations
from dmlvk.bench.networks import NETWORKS
from dmlvk.cli.selection import arithmetic_option, chosen_device, device_option
from dmlvk.runtime import pipelines

TYPES = {"float16": dml.FLOAT16, "float32": dml.FLOAT32}  # What pictures and weights may be of

_CACHES = ("__GL_SHADER_DISK_CACHE_PATH", "MESA_SHADER_CACHE_DIR", "DMLVK_CACHE_DIR", "XDG_CACHE_HOME")
"""The variables by which drivers are told where to keep what they compiled: NVIDIA's, Mesa's; and dmlvk's own."""


def first_runs(device: int | str | None, arithmetic: Any, name: str, batches: list[int], size: int) -> dict[str, Any]:
    """What the runs of this process take, in seconds.

    Args:
        device: as for ``dmlvk.Device``.
        batches: numbers of pictures, one after the other.
        size: places along both axes of a picture.
    """
    resnet = NETWORKS["ResNet-50"]
    start = time.perf_counter()
    with dml.Device(device, arithmetic=arithmetic) as opened:
        result: dict[str, Any] = {"device": opened.info.name, "open": time.perf_counter() - start, "batches": []}
        for batch in batches:
            operations = GraphOperations(opened, TYPES[name])
            logits = resnet.draw(operations, batch, **{**resnet.sizes, "side": size})
            pictures = np.zeros((batch, 3, size, size), TYPES[name].numpy_dtype)
            times, compilations = [time.perf_counter()], opened.engine.compilations
            compiled = operations.graph.compile({"y": logits})
            for _ in range(3):
                times.append(time.perf_counter())
                opened.run(compiled, {"x": pictures})
            plan, first, again = (later - earlier for earlier, later in itertools.pairwise(times))
            made = opened.engine.compilations - compilations
            result["batches"].append(
                {"batch": batch, "plan": plan, "first": first, "again": again, "compilations": made}
            )
    return result


def _show(state: str, result: dict[str, Any]) -> None:
    print(f"{result['device']}, the driver has {state}: opened in {result['open']:.2f} s")
    for each in result["batches"]:
        print(
            f"{each['batch']:4} pictures  planned in {each['plan']:6.2f} s  first run {each['first']:6.2f} s  "
            f"second {each['again']:6.3f} s  {each['compilations']} shaders",
            flush=True,
        )


@click.command()
@device_option
@click.option(
    "-b",
    "--batch",
    "batches",
    type=click.IntRange(1),
    multiple=True,
    default=(1, 32),
    show_default=True,
    help="Of pictures.",
)
@click.option(
    "-t",
    "--type",
    "name",
    type=click.Choice(sorted(TYPES)),
    default="float32",
    show_default=True,
    help="Of pictures and weights.",
)
@click.option("-s", "--size", type=click.IntRange(32), default=224, show_default=True, help="Places along both axes.")
@arithmetic_option
@click.option("--one-by-one", is_flag=True, help="Compile one shader after the other.")
@click.option("--here", is_flag=True, help="In this process, with whatever caches there are; as JSON.")
def command(
    device: str | None, batches: tuple[int, ...], name: str, size: int, arithmetic: Any, one_by_one: bool, here: bool
) -> None:
    """Time ResNet-50 as a graph, from NumPy to NumPy, for one number of pictures after another in the same process.

    Seconds to open the device, to plan, to run for the first time (which compiles the shaders) and again. The first
    process finds the driver's cache empty, the second one what the first has left there.
    """
    if here:
        if one_by_one:
            pipelines.MOST_TOGETHER = 1
        print(json.dumps(first_runs(chosen_device(device), arithmetic, name, list(batches), size)))
        return
    words = [sys.executable, "-m", "dmlvk", "bench", "first-runs", "--here", "-t", name, "-s", str(size)]
    words += [word for batch in batches for word in ("-b", str(batch))] + ["--one-by-one"] * one_by_one
    words += [] if device is None else ["-d", device]
    words += [] if arithmetic is None else ["--arithmetic", arithmetic]
    with tempfile.TemporaryDirectory(prefix="dmlvk-first-runs-") as folder:
        environment = {**os.environ, **dict.fromkeys(_CACHES, folder)}
        for state in ("an empty cache", "what that left"):
            ended = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=False)
            if ended.returncode:
                raise SystemExit(ended.returncode)
            _show(state, json.loads(ended.stdout.splitlines()[-1]))
