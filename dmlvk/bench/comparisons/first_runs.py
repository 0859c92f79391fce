#!/usr/bin/env python3
"""Measures a network's first runs in a process, with a driver that has compiled none of its shaders, and one that has.

    scripts/measure_first_runs.py [-d DEVICE] [-b BATCH …] [-t TYPE] [-s SIZE] [--arithmetic KIND] [--one-by-one]

ResNet-50 as a graph, from NumPy to NumPy, for one number of pictures after another in the same process: seconds to open
the device, to plan, to run for the first time (which compiles the shaders) and again. The first process finds the
driver's cache empty, the second one what the first has left there.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmlvk as dml  # of this checkout
from dmlvk.bench.network_graphs import GraphOperations
from dmlvk.bench.networks import NETWORKS
from dmlvk.runtime import pipelines
from scripts.measuring import argument_parser

TYPES = {"float16": dml.FLOAT16, "float32": dml.FLOAT32}
"""What pictures and weights may be of."""

_CACHES = ("__GL_SHADER_DISK_CACHE_PATH", "MESA_SHADER_CACHE_DIR", "DMLVK_CACHE_DIR", "XDG_CACHE_HOME")
"""The variables by which drivers are told where to keep what they compiled: NVIDIA's, Mesa's; and dmlvk's own."""


def first_runs(device: int | str | None, arithmetic: Any, name: str, batches: list[int], size: int) -> dict[str, Any]:
    """What the runs of this process take, in seconds.

    Args:
        device: as for ``dmlvk.Device``.
        arithmetic: likewise.
        name: of the pictures' type.
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


def main() -> int:
    """Measures what the command line asks for, in processes of their own.

    Returns:
        the exit status.
    """
    assert __doc__
    parser = argument_parser(__doc__)
    parser.add_argument("-b", "--batch", type=int, nargs="+", default=[1, 32], help="pictures at once")
    parser.add_argument("-t", "--type", choices=sorted(TYPES), default="float32", help="of pictures and weights")
    parser.add_argument("-s", "--size", type=int, default=224, help="places along both axes, at least 32")
    parser.add_argument("--arithmetic", choices=["portable", "device"], default="portable")
    parser.add_argument("--one-by-one", action="store_true", help="compile one shader after the other")
    parser.add_argument("--here", action="store_true", help="in this process, with whatever caches there are")
    arguments = parser.parse_args()
    if min(arguments.batch) < 1 or arguments.size < 32:
        parser.error("a batch has at least 1 picture, and a picture at least 32 places along both axes")
    if arguments.here:
        if arguments.one_by_one:
            pipelines.MOST_TOGETHER = 1
        chosen = arguments.device, arguments.arithmetic, arguments.type, arguments.batch, arguments.size
        print(json.dumps(first_runs(*chosen)))
        return 0
    with tempfile.TemporaryDirectory(prefix="dmlvk-first-runs-") as folder:
        environment = {**os.environ, **dict.fromkeys(_CACHES, folder)}
        for state in ("an empty cache", "what that left"):
            words = [sys.executable, __file__, *sys.argv[1:], "--here"]
            ended = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=False)
            if ended.returncode:
                return ended.returncode
            _show(state, json.loads(ended.stdout.splitlines()[-1]))
    return 0


def _show(state: str, result: dict[str, Any]) -> None:
    print(f"{result['device']}, the driver has {state}: opened in {result['open']:.2f} s")
    for each in result["batches"]:
        print(
            f"{each['batch']:4} pictures  planned in {each['plan']:6.2f} s  first run {each['first']:6.2f} s  "
            f"second {each['again']:6.3f} s  {each['compilations']} shaders",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
